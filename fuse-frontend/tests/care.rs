//! The commands that look after a volume: what they find, what they change, how they end.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use common::Place;
use std::fs;
use std::path::{Path, PathBuf};

/// Blocks of a volume's objects, the largest first.
fn blocks(place: &Place) -> Vec<PathBuf> {
    fn files(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.path() {
                path if path.is_dir() => files(&path, found),
                path => found.push(path),
            }
        }
    }
    let mut found = Vec::new();
    files(&place.path("v/objects"), &mut found);
    found.retain(|path| path.components().any(|part| part.as_os_str() == "chunks"));
    found.sort_by_key(|path| std::cmp::Reverse(fs::metadata(path).unwrap().len()));
    found
}

#[test]
fn a_volume_is_checked_and_what_is_lost_is_named() {
    let place = Place::new();
    let mount = place.mount();
    fs::create_dir_all(mount.join("d/e")).unwrap();
    fs::write(mount.join("d/e/file"), vec![7; 5_000_000]).unwrap();
    fs::write(mount.join("other"), b"small").unwrap();
    place.zest(&["fsck", "v"]).refused(1, &["in use"]);
    place.umount();
    let said = place.zest(&["fsck", "v"]).good();
    assert!(said.out.contains(" blocks (5000005 bytes)\nUsed by "), "{}", said.out);
    assert!(said.out.contains(" slices (5000005 bytes)"), "{}", said.out);
    assert_eq!(said.err, "");
    let lost = blocks(&place).remove(0);
    let bytes = fs::read(&lost).unwrap();
    fs::remove_file(&lost).unwrap();
    let said = place.zest(&["fsck", "v"]);
    assert_eq!(said.code, 1, "{}", said.err);
    for words in [
        "can't find block ",
        "for file /d/e/file",
        &format!("1 objects are lost ({} bytes), 1 broken files", bytes.len()),
    ] {
        assert!(said.err.contains(words), "{words}: {}", said.err);
    }
    assert!(said.out.contains(": /d/e/file"), "{}", said.out);
    let json = place.zest(&["fsck", "v", "--json"]);
    let found: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(
        (json.code, &found["LostObjects"], &found["BrokenFiles"][0]["Path"]),
        (1, &1.into(), &"/d/e/file".into())
    );
    assert_eq!(place.zest(&["fsck", "v", "--path", "/d/e/file"]).code, 1);
    assert_eq!(place.zest(&["fsck", "v", "--path", "/d", "-r"]).code, 1);
    place.zest(&["fsck", "v", "--path", "/other"]).good();
    place.zest(&["fsck", "v", "--path", "/nothing"]).refused(1, &["no such file", "/nothing"]);
    place.zest(&["fsck", "v", "--repair"]).refused(1, &["--path"]);
    fs::write(&lost, bytes).unwrap();
    place.zest(&["fsck", "v", "--path", "/", "-r"]).good();
}

#[test]
fn leaked_objects_are_counted_and_removed_when_asked() {
    let place = Place::new();
    let mount = place.mount();
    fs::write(mount.join("file"), b"content").unwrap();
    place.umount();
    let used = blocks(&place).remove(0);
    let leaked = used.with_file_name("77_0_100");
    fs::write(&leaked, [1; 100]).unwrap();
    let said = place.zest(&["gc", "v"]).good();
    assert!(said.out.starts_with("scanned 2 objects, 1 valid, 0 pending delete (0 bytes), "), "{}", said.out);
    assert!(
        said.out.contains(" 0 leaked (0 bytes), ") && said.out.contains("1 skipped (100 bytes)"),
        "{}",
        said.out
    );
    let old = |args: &[&str]| {
        let mut command = place.command(args);
        // The object must be older than what is left alone.
        std::thread::sleep(std::time::Duration::from_millis(1100));
        let output = command.env("JFS_GC_SKIPPEDTIME", "0").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(old(&["gc", "v"]).contains(" 1 leaked (100 bytes), "));
    assert!(leaked.exists(), "nothing is removed unasked");
    let json: serde_json::Value = serde_json::from_str(&old(&["gc", "v", "--delete", "--json"])).unwrap();
    assert_eq!((&json["Deleted"]["objects"], &json["Valid"]["objects"]), (&1.into(), &1.into()));
    assert!(!leaked.exists() && used.exists());
    place.mount();
    assert_eq!(fs::read(place.path("m/file")).unwrap(), b"content");
    place.zest(&["gc", "v", "--delete"]).refused(1, &["in use"]);
}

#[test]
fn wrong_use_is_refused_in_one_line() {
    let place = Place::new();
    for command in ["gc", "fsck"] {
        place.zest(&[command, "v"]).refused(1, &["database is not formatted", "zest format v NAME"]);
    }
    assert!(!place.path("v").exists(), "looking makes nothing");
    place.zest(&["format", "v", "first"]).good();
    place.zest(&["gc", "v", "--threads", "0"]).refused(1, &["'0'", "from 1"]);
    place.zest(&["fsck", "v", "--path", "relative"]).refused(1, &["--path", "begins with /"]);
    place.zest(&["fsck", "v", "--path", "/", "--repair-dir-mode", "9"]).refused(1, &["octal"]);
    place.zest(&["fsck", "v"]).good();
    place.zest(&["gc", "v"]).good();
}

#[test]
fn what_a_file_is_made_of_is_told() {
    let place = Place::new();
    let mount = place.mount();
    fs::create_dir_all(mount.join("d/e")).unwrap();
    fs::write(mount.join("d/f"), vec![7; 5_000_000]).unwrap();
    fs::File::open(mount.join("d/f")).unwrap().sync_all().unwrap();
    fs::hard_link(mount.join("d/f"), mount.join("d/e/g")).unwrap();
    let ino = std::os::unix::fs::MetadataExt::ino(&fs::metadata(mount.join("d/f")).unwrap());
    let said = place.zest(&["info", "m/d/f"]).good().out;
    let begins = format!(
        "m/d/f :\n  inode: {ino}\n  files: 1\n   dirs: 0\n length: 4.77 MiB (5000000 Bytes)\n   \
         size: 4.77 MiB (5001216 Bytes)\n  paths:\n\t/d/e/g\n\t/d/f\n   tier: 0\n objects:\n"
    );
    assert!(said.starts_with(&begins), "{said}");
    for (args, list) in
        [(&["info", "--json", "m/d/f"][..], "objects"), (&["info", "--json", "--raw", "m/d/f"][..], "chunks")]
    {
        let found: serde_json::Value = serde_json::from_str(&place.zest(args).good().out).unwrap();
        let pieces = found[0][list].as_array().unwrap();
        // How many slices there are depends on how fast the writing went.
        assert_eq!(pieces.iter().map(|piece| piece["length"].as_u64().unwrap()).sum::<u64>(), 5_000_000);
        let named = |piece: &serde_json::Value| {
            piece["objectName"].as_str().is_some_and(|name| name.contains("/chunks/"))
        };
        assert!(
            pieces.iter().all(|piece| named(piece) || piece["sliceId"].as_u64().is_some_and(|id| id > 0))
        );
    }
    let dir = place.zest(&["info", "m/d", "--json"]).good().out;
    let found: serde_json::Value = serde_json::from_str(&dir).unwrap();
    let number = |found: &serde_json::Value, name: &str| found[0][name].as_u64().unwrap();
    assert_eq!(
        (number(&found, "files"), number(&found, "dirs"), number(&found, "length")),
        (1, 2, 5_000_000)
    );
    let all = place.zest(&["info", "-r", "m/d", "--json"]).good().out;
    let found: serde_json::Value = serde_json::from_str(&all).unwrap();
    assert_eq!(
        (number(&found, "files"), number(&found, "dirs"), number(&found, "length")),
        (2, 2, 10_000_000)
    );
    let said = place.zest(&["info", "m/nothing", "m/d"]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains("m/nothing: No such file") && said.err.contains("1 of 2"), "{}", said.err);
    assert!(said.out.starts_with("m/d :\n"), "{}", said.out);
    let outside = place.zest(&["info", "/proc"]);
    assert!(outside.code == 1 && outside.err.contains("no mount of zest"), "{}", outside.err);
    let inode = place.command(&["info", "-i", &ino.to_string()]).current_dir(&mount).output().unwrap();
    assert!(
        String::from_utf8_lossy(&inode.stdout).starts_with(&format!("{ino} :\n  inode: {ino}\n")),
        "{inode:?}"
    );
}

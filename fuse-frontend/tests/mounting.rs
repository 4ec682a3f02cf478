//! Mounting, leaving, and what is there afterwards: with the kernel, on a real directory.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use common::{Place, kill, lives, need_fuse, until};
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::process::Stdio;

/// Bytes that differ from place to place.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 31 + n / 251) as u8).collect()
}

#[test]
fn a_tree_is_there_after_the_next_mount() {
    let place = Place::new();
    let root = place.mount();
    fs::create_dir_all(root.join("a/b")).unwrap();
    let large = pattern(9_500_000);
    fs::write(root.join("a/b/large"), &large).unwrap();
    fs::write(root.join("a/empty"), b"").unwrap();
    std::os::unix::fs::symlink("b/large", root.join("a/link")).unwrap();
    fs::hard_link(root.join("a/b/large"), root.join("second")).unwrap();
    assert_eq!(fs::read(root.join("a/link")).unwrap(), large, "before anything was flushed");
    place.umount();
    assert_eq!(fs::read_dir(&root).unwrap().count(), 0, "nothing is mounted any more");
    let root = place.mount();
    assert_eq!(fs::read(root.join("a/b/large")).unwrap(), large);
    assert_eq!(fs::read(root.join("a/link")).unwrap(), large);
    assert_eq!(fs::metadata(root.join("second")).unwrap().len(), large.len() as u64);
    assert_eq!(fs::read(root.join("a/empty")).unwrap(), b"");
    place.umount();
    assert!(!place.log().contains("ERROR"), "{}", place.log());
}

/// Every file below a directory.
fn files(folder: std::path::PathBuf) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(path) } else { vec![path] }).collect()
}

#[test]
fn encoded_and_scattered_blocks_come_back() {
    let place = Place::new();
    fs::write(place.path("key"), include_str!("../../actors/data/tests/keys/pkcs8.pem")).unwrap();
    let encoding = ["--compress", "lz4", "--encrypt-rsa-key", "key", "--encrypt-algo", "chacha20-rsa"];
    let spread = ["--hash-prefix", "--shards", "2", "--bucket", "o-%d", "--block-size", "64K"];
    place.zest(&[&["format", "v", "volume"], &encoding[..], &spread[..]].concat()).good();
    let root = place.mount();
    let (words, noise) = (b"words that shrink ".repeat(50_000), pattern(700_001));
    fs::write(root.join("words"), &words).unwrap();
    fs::write(root.join("noise"), &noise).unwrap();
    place.umount();
    let root = place.mount();
    let mut part = [0; 1000];
    File::open(root.join("words")).unwrap().read_exact_at(&mut part, 333_333).unwrap();
    assert_eq!(part, words[333_333..334_333]);
    assert_eq!(fs::read(root.join("words")).unwrap(), words);
    assert_eq!(fs::read(root.join("noise")).unwrap(), noise);
    place.umount();
    for shard in ["o-0", "o-1"] {
        let objects = files(place.path(shard));
        assert!(objects.len() > 4, "{objects:?}");
        for object in objects {
            let bytes = fs::read(&object).unwrap();
            assert!(!bytes.windows(12).any(|run| run == b"words that s"), "{} is readable", object.display());
        }
    }
    assert!(!place.log().contains("ERROR"), "{}", place.log());
}

#[test]
fn umount_waits_until_everything_is_written() {
    let place = Place::new();
    let root = place.mount();
    let server = place.server();
    fs::write(root.join("x"), pattern(3_000_000)).unwrap();
    place.umount();
    until("the end of the process", || !lives(server));
    // Nobody has the volume any more, so it can be looked at.
    let status: serde_json::Value = serde_json::from_str(&place.zest(&["status", "v"]).good().out).unwrap();
    assert_eq!(status["Sessions"].as_array().unwrap().len(), 0, "the session was ended");
    assert_eq!(status["Stat"]["UsedInodes"], 1);
    assert!(status["Stat"]["UsedSpace"].as_u64().unwrap() >= 3_000_000);
}

#[test]
fn the_foreground_says_what_to_do_next_and_ends_with_a_signal() {
    need_fuse();
    let place = Place::new();
    for signal in ["INT", "TERM"] {
        let mut child =
            place.command(&["mount", "--create", "v", "m"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("is mounted at m") && line.contains("zest umount m"), "{line}");
        fs::write(place.path("m").join(signal), pattern(100_000)).unwrap();
        kill(child.id(), signal);
        assert!(child.wait().unwrap().success(), "{signal}");
    }
    let root = place.mount();
    for signal in ["INT", "TERM"] {
        assert_eq!(fs::read(root.join(signal)).unwrap(), pattern(100_000));
    }
    place.umount();
}

#[test]
fn a_busy_mount_is_not_taken_away_unless_forced() {
    let place = Place::new();
    let root = place.mount();
    let server = place.server();
    let mut file = File::create(root.join("open")).unwrap();
    file.write_all(b"before ").unwrap();
    place.zest(&["umount", "m"]).refused(1, &["in use", "--force"]);
    file.write_all(b"after").unwrap();
    place.zest(&["umount", "--force", "m"]).good();
    assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
    file.write_all(b" forced").unwrap();
    drop(file);
    until("the end of the process", || !lives(server));
    let root = place.mount();
    assert_eq!(fs::read(root.join("open")).unwrap(), b"before after forced");
    place.umount();
}

#[test]
fn a_signal_with_open_files_writes_what_was_written_so_far() {
    let place = Place::new();
    let root = place.mount();
    let server = place.server();
    let mut file = File::create(root.join("open")).unwrap();
    file.write_all(&pattern(50_000)).unwrap();
    kill(server, "TERM");
    until("the mount going away", || fs::read_dir(&root).is_ok_and(|entries| entries.count() == 0));
    kill(server, "TERM");
    until("the end of the process", || !lives(server));
    assert!(file.write_all(b"x").is_err(), "nobody is there to write it");
    drop(file);
    let root = place.mount();
    assert_eq!(fs::read(root.join("open")).unwrap(), pattern(50_000));
    place.umount();
}

#[test]
fn what_was_synced_survives_a_kill_and_the_dead_mount_is_cleared_away() {
    let place = Place::new();
    let root = place.mount();
    let server = place.server();
    let file = OpenOptions::new().create_new(true).write(true).open(root.join("synced")).unwrap();
    for round in 0..5 {
        file.write_all_at(&pattern(10_000 + round), round as u64 * 7_000).unwrap();
    }
    file.sync_all().unwrap();
    file.write_all_at(b"not synced", 500_000).unwrap();
    drop(file);
    kill(server, "KILL");
    until("the end of the process", || !lives(server));
    let root = place.mount();
    let mut found = Vec::new();
    File::open(root.join("synced")).unwrap().take(38_004).read_to_end(&mut found).unwrap();
    let mut expected = vec![0; 38_004];
    for round in 0..5 {
        expected[round * 7_000..round * 7_000 + 10_000 + round].copy_from_slice(&pattern(10_000 + round));
    }
    assert!(found == expected);
    place.umount();
}

#[test]
fn a_volume_in_use_says_by_whom() {
    let place = Place::new();
    place.mount();
    let server = place.server().to_string();
    fs::create_dir(place.path("m2")).unwrap();
    place.zest(&["mount", "v", "m2"]).refused(1, &["in use", &server, "zest umount"]);
    place.zest(&["format", "v", "zest", "--trash-days", "2"]).refused(1, &["in use", &server]);
    place.zest(&["mount", "v", "m"]).refused(1, &["m has ZestFS:", "zest umount m"]);
    place.umount();
}

#[test]
fn a_read_only_mount_changes_nothing() {
    let place = Place::new();
    let root = place.mount();
    fs::write(root.join("x"), b"content").unwrap();
    place.umount();
    place.zest(&["mount", "v", "m", "-d", "--read-only", "--log", "log"]).good();
    assert_eq!(fs::read(root.join("x")).unwrap(), b"content");
    let refused = fs::write(root.join("y"), b"more").unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    place.umount();
}

#[test]
fn options_reach_the_kernel() {
    let place = Place::new();
    let root = place.mount();
    fs::write(root.join("x"), b"content").unwrap();
    rustix::fs::setxattr(root.join("x"), "user.a/b", b"value", rustix::fs::XattrFlags::CREATE).unwrap();
    let mut value = [0; 16];
    assert_eq!(rustix::fs::getxattr(root.join("x"), "user.a/b", &mut value).unwrap(), 5);
    // Programs that ask for these with every file stop when they are told that there can be none.
    for name in ["security.selinux", "system.posix_acl_access"] {
        let refused = rustix::fs::getxattr(root.join("x"), name, &mut value).unwrap_err();
        assert_eq!(refused, rustix::io::Errno::OPNOTSUPP, "{name}");
    }
    place.umount();
    let args =
        ["mount", "v", "m", "-d", "--enable-xattr=false", "-attr-cache", "0", "--log=log", "-o", "noexec"];
    place.zest(&args).good();
    let refused = rustix::fs::getxattr(root.join("x"), "user.a/b", &mut value).unwrap_err();
    assert_eq!(refused, rustix::io::Errno::OPNOTSUPP);
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let root = root.canonicalize().unwrap();
    let line = table.lines().find(|line| line.contains(&format!(" {} ", root.display()))).unwrap();
    assert!(line.contains("noexec"), "{line}");
    place.umount();
}

#[test]
fn listings_follow_changes() {
    let place = Place::new();
    let root = place.mount();
    let names = |dir: &std::path::Path| {
        let mut all: Vec<_> =
            fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        all.sort();
        all
    };
    let expected: Vec<String> = (0..3000).map(|n| format!("file-{n:05}")).collect();
    for name in &expected {
        fs::write(root.join(name), b"").unwrap();
    }
    // From the server, then from the kernel's memory.
    assert_eq!(names(&root), expected);
    assert_eq!(names(&root), expected);
    fs::remove_file(root.join("file-00007")).unwrap();
    fs::create_dir(root.join("dir")).unwrap();
    fs::rename(root.join("file-00008"), root.join("dir/moved")).unwrap();
    let mut expected = expected;
    expected.retain(|name| name != "file-00007" && name != "file-00008");
    expected.insert(0, "dir".into());
    assert_eq!(names(&root), expected);
    assert_eq!(names(&root.join("dir")), ["moved"]);
    fs::remove_dir_all(root.join("dir")).unwrap();
    assert_eq!(names(&root), expected[1..]);
    // The trash fills behind the kernel's back.
    let hours = names(&root.join(".trash"));
    let trashed = |hours: &[String]| {
        hours.iter().map(|hour| names(&root.join(".trash").join(hour)).len()).sum::<usize>()
    };
    let before = trashed(&hours);
    assert!(before >= 2, "{hours:?}");
    fs::remove_file(root.join("file-00009")).unwrap();
    assert_eq!(trashed(&names(&root.join(".trash"))), before + 1);
    place.umount();
}

#[test]
fn a_copied_volume_does_not_touch_the_original() {
    let place = Place::new();
    let root = place.mount();
    fs::write(root.join("x"), pattern(200_000)).unwrap();
    place.umount();
    let copied =
        std::process::Command::new("cp").args(["-a", "v", "w"]).current_dir(place.path(".")).status();
    assert!(copied.unwrap().success());
    fs::rename(place.path("v"), place.path("away")).unwrap();
    place.zest(&["mount", "w", "m", "-d", "--log", "log"]).good();
    assert_eq!(fs::read(root.join("x")).unwrap(), pattern(200_000));
    fs::write(root.join("y"), pattern(300_000)).unwrap();
    place.umount();
    assert!(!place.path("v").exists());
}

#[test]
fn the_mount_table_names_the_volume() {
    let place = Place::new();
    let root = place.mount();
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let root = root.canonicalize().unwrap();
    let line = table.lines().find(|line| line.contains(&format!(" {} ", root.display()))).unwrap();
    assert!(line.contains(" - fuse.zest ZestFS:zest "), "{line}");
    assert!(line.contains("default_permissions"), "{line}");
    place.umount();
}

#[test]
fn a_mount_tells_what_it_read_ahead() {
    let place = Place::new();
    place.zest(&["format", "v", "vol", "--block-size", "64K"]).good();
    let mount = place.mount();
    let data = vec![7u8; 8 << 20];
    std::fs::write(mount.join("file"), &data).unwrap();
    place.umount();
    let mount = place.mount();
    assert!(std::fs::read(mount.join("file")).unwrap() == data);
    let said = place.zest(&["status", "m"]).good().out;
    let status: serde_json::Value = serde_json::from_str(&said).unwrap();
    let figure = |name: &str| status["Mounts"][0]["Reading"][name].as_u64().unwrap();
    assert!(figure("aheadBytes") > 0 && figure("aheadUsedBytes") <= figure("aheadBytes"), "{said}");
    assert!(figure("aheadUsedBytes") > figure("aheadBytes") / 2, "{said}");
    assert!(figure("fetchedBytes") >= 8 << 20, "{said}");
    assert_eq!(status["Sessions"].as_array().unwrap().len(), 1);
    place.umount();
}

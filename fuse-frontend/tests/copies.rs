//! Quotas, copies and the trash from the command line, on a volume of the embedded engine.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use common::Place;
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;

#[test]
fn quotas_are_set_obeyed_shown_and_checked() {
    let place = Place::new();
    place.zest(&["format", "v", "first"]).good();
    place.zest(&["quota", "get", "v"]).refused(1, &["--path", "--uid", "--gid"]);
    place.zest(&["quota", "set", "v", "--path", "d"]).refused(1, &["begins with /"]);
    place.zest(&["quota", "set", "v", "--path", "/d"]).refused(1, &["no such file", "/d"]);
    place.zest(&["quota", "set", "v", "--uid", "0"]).refused(1, &["0"]);
    assert_eq!(place.zest(&["quota", "list", "v"]).good().out, "");
    let said = place.zest(&["quota", "set", "v", "--path", "/d", "--capacity", "1M", "--create"]).good();
    assert!(
        said.out.contains("| /d   | 1.0 MiB |  0 B |   0% | unlimited |     0 |       |"),
        "{}",
        said.out
    );
    let mount = place.mount();
    // Synced, so that it is counted before the other one is.
    let mut file = fs::File::create(mount.join("d/fits")).unwrap();
    file.write_all(&[1; 500_000]).and_then(|()| file.sync_all()).unwrap();
    drop(file);
    let mut file = fs::File::create(mount.join("d/over")).unwrap();
    let over = file.write_all(&[1; 1_000_000]).and_then(|()| file.sync_all());
    drop(file);
    assert_eq!(over.unwrap_err().raw_os_error(), Some(122), "EDQUOT");
    place.umount();
    place.zest(&["quota", "check", "v"]).good();
    // A user who was never counted is, from now on.
    place.zest(&["quota", "set", "v", "--uid", "7", "--inodes", "3"]).good();
    let json = place.zest(&["quota", "list", "v", "--json"]).good().out;
    let all: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&all[0]["Path"], &all[1]["Uid"]), (&"/d".into(), &7.into()), "{json}");
    assert!(all[0]["UsedSpace"].as_i64().unwrap() >= 503_808, "{json}");
    place.zest(&["quota", "check", "v"]).good();
    place.zest(&["config", "v", "--dir-stats=false"]).refused(1, &["quota"]);
    place.zest(&["quota", "delete", "v", "--path", "/d"]).good();
    place.zest(&["quota", "del", "v", "--uid", "7"]).good();
    assert_eq!(place.zest(&["quota", "ls", "v"]).good().out, "");
}

#[test]
fn copies_share_data_and_nothing_else() {
    let place = Place::new();
    let mount = place.mount();
    fs::create_dir_all(mount.join("d/e")).unwrap();
    fs::write(mount.join("d/e/f"), vec![7; 3_000_000]).unwrap();
    assert!(!mount.join("copy").exists());
    place.zest(&["clone", "m/d", "m/copy", "--preserve"]).good();
    assert_eq!(fs::read(mount.join("copy/e/f")).unwrap(), vec![7; 3_000_000], "what is not synced is in it");
    let times = |path: &str| fs::metadata(mount.join(path)).unwrap().mtime_nsec();
    assert_eq!(times("copy/e/f"), times("d/e/f"));
    fs::write(mount.join("d/e/f"), b"new").unwrap();
    assert_eq!(fs::metadata(mount.join("copy/e/f")).unwrap().len(), 3_000_000);
    let said = place.zest(&["clone", "m/copy/e/f", "m/copy/", "--json"]).good().out;
    let done: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(done["Inode"].as_u64().unwrap(), fs::metadata(mount.join("copy/f")).unwrap().ino());
    assert_eq!(fs::read_dir(mount.join("copy")).unwrap().count(), 2);
    place.zest(&["clone", "m/d", "m/copy"]).refused(1, &["file exists"]);
    place.zest(&["clone", "m/d", "m/d/e/x"]).refused(1, &["into itself"]);
    place.zest(&["clone", "m/nothing", "m/x"]).refused(1, &["No such file"]);
    place.zest(&["clone", "m/d", "x"]).refused(1, &["same mount"]);
    fs::write(place.path("a"), b"").unwrap();
    place.zest(&["clone", "a", "b"]).refused(1, &["no mount of zest"]);
    place.umount();
    place.zest(&["fsck", "v"]).good();
}

#[test]
fn a_tree_comes_back_from_the_trash() {
    let place = Place::new();
    let mount = place.mount();
    fs::create_dir_all(mount.join("d/e")).unwrap();
    fs::write(mount.join("d/e/f"), b"content").unwrap();
    fs::remove_dir_all(mount.join("d")).unwrap();
    let hours: Vec<String> = fs::read_dir(mount.join(".trash"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    place.umount();
    for hour in &hours {
        let said = place.zest(&["restore", "v", hour, "--put-back"]).good().out;
        assert!(said.starts_with(hour) && said.contains("put back"), "{said}");
    }
    place.zest(&["restore", "v", "yesterday"]).refused(1, &["YYYY-MM-DD-HH"]);
    let missing = place.zest(&["restore", "v", "2001-01-01-00", "--json"]);
    assert!(missing.code == 1 && missing.err.contains("2001-01-01-00"), "{}", missing.err);
    let mount = place.mount();
    assert_eq!(fs::read(mount.join("d/e/f")).unwrap(), b"content");
    place.umount();
    place.zest(&["fsck", "v"]).good();
}

//! Wrong use: one line that names the thing and the remedy, an exit status, and nothing lost.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use common::Place;
use std::fs;

#[test]
fn what_is_no_volume_is_not_mounted() {
    let place = Place::new();
    place.zest(&["mount", "v", "m"]).refused(1, &["zest: database is not formatted", "v ", "--create"]);
    place.zest(&["status", "v"]).refused(1, &["database is not formatted", "zest format v NAME"]);
    assert!(!place.path("v").exists(), "looking makes nothing");
    fs::create_dir_all(place.path("v/meta")).unwrap();
    fs::write(place.path("v/meta/zest.redb"), b"something else entirely").unwrap();
    fs::write(place.path("v/meta/zest.volume"), b"something else entirely").unwrap();
    place.zest(&["mount", "v", "m"]).refused(1, &["v"]);
    place.zest(&["format", "v", "volume"]).refused(1, &["v"]);
    assert_eq!(fs::read(place.path("v/meta/zest.redb")).unwrap(), b"something else entirely");
}

#[test]
fn a_volume_is_not_formatted_over() {
    let place = Place::new();
    place.zest(&["format", "v", "first"]).good();
    let before = place.zest(&["status", "v"]).good().out;
    place.zest(&["format", "v", "second"]).refused(1, &["first", "second"]);
    place.zest(&["format", "v", "first", "--block-size", "1M"]).refused(1, &["block size", "4096"]);
    place.zest(&["format", "v", "first", "--no-update", "--trash-days", "9"]).good();
    assert_eq!(place.zest(&["status", "v"]).good().out, before);
    let said = place.zest(&["format", "v", "first", "--trash-days=9"]).good();
    assert!(said.out.contains("\"TrashDays\": 9"), "{}", said.out);
}

#[test]
fn settings_are_shown_and_changed() {
    let place = Place::new();
    place.zest(&["config", "v"]).refused(1, &["database is not formatted"]);
    place.zest(&["format", "v", "first", "--capacity", "2G"]).good();
    let shown: serde_json::Value = serde_json::from_str(&place.zest(&["config", "v"]).good().out).unwrap();
    assert_eq!((&shown["Name"], &shown["Capacity"]), (&"first".into(), &(2u64 << 30).into()));
    let said = place.zest(&["config", "v", "--trash-days", "3", "--capacity=0"]).good().out;
    assert!(
        said.contains("trash-days: 1 -> 3\n") && said.contains("capacity: 2147483648 -> none\n"),
        "{said}"
    );
    assert_eq!(place.zest(&["config", "v", "--trash-days", "3"]).good().out, "Nothing changed.\n");
    let refused = place.zest(&["config", "v", "--trash-days", "0"]);
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("gone at once") && refused.err.contains("--yes"), "{}", refused.err);
    place.zest(&["config", "v", "--trash-days", "0", "--yes"]).good();
    place.zest(&["config", "v", "--bucket", "/proc/no"]).refused(1, &["v/objects", "move them to /proc/no/"]);
    let shown = place.zest(&["config", "v"]).good().out;
    assert!(shown.contains("\"TrashDays\": 0") && !shown.contains("/proc/no"), "{shown}");
}

#[test]
fn objects_of_another_volume_are_a_hindrance() {
    let place = Place::new();
    place.zest(&["format", "one", "same", "--bucket", "shared"]).good();
    place
        .zest(&["format", "two", "same", "--bucket", "shared"])
        .refused(1, &["two", "shared/", "same/juicefs_uuid", "another name"]);
    assert!(!place.path("two").exists());
    assert!(place.path("shared/same/juicefs_uuid").exists());
    place.zest(&["format", "two", "other", "--bucket", "shared"]).good();
}

#[test]
fn a_directory_with_other_things_in_it_does_not_become_a_volume() {
    let place = Place::new();
    fs::create_dir(place.path("v")).unwrap();
    fs::write(place.path("v/letter"), b"dear").unwrap();
    place.zest(&["format", "v", "volume"]).refused(1, &["v is not empty"]);
    assert_eq!(fs::read_dir(place.path("v")).unwrap().count(), 1);
}

#[test]
fn mount_points_that_will_not_do() {
    let place = Place::new();
    place.zest(&["format", "v", "volume"]).good();
    fs::write(place.path("file"), b"x").unwrap();
    fs::create_dir_all(place.path("full/x")).unwrap();
    place.zest(&["mount", "v", "no"]).refused(1, &["no does not exist", "mkdir no"]);
    place.zest(&["mount", "v", "file"]).refused(1, &["file is not a directory"]);
    place.zest(&["mount", "v", "full"]).refused(1, &["full is not empty", "-o nonempty"]);
    place.zest(&["mount", "v", "."]).refused(1, &["is around", "/v, which the volume needs"]);
    place.zest(&["format", "w", "volume", "--bucket", "m/objects"]).good();
    place.zest(&["mount", "w", "m", "-o", "nonempty"]).refused(1, &["is around", "m/objects"]);
    place.zest(&["mount", "v", "m", "-o", "nonsense"]).refused(1, &["-o nonsense"]);
    place.zest(&["mount", "v", "m", "--root-squash", "1:1"]).refused(1, &["--root-squash", "leave it out"]);
    place.zest(&["mount", "v", "m", "--subdir", "/a/../b"]).refused(1, &["--subdir", "no name"]);
    place.zest(&["umount", "m"]).refused(1, &["m is not mounted"]);
    place.zest(&["mount", "-d", "v", "no", "--log", "log"]).refused(1, &["no does not exist"]);
}

#[test]
fn stores_that_can_not_hold_a_volume() {
    let place = Place::new();
    place.zest(&["format", "v", "volume", "--storage", "tape"]).refused(1, &["\"tape\"", "file, s3 or mem"]);
    place
        .zest(&["format", "v", "volume", "--storage", "s3", "--bucket", "http://127.0.0.1:9"])
        .refused(1, &["127.0.0.1:9", "names no bucket"]);
    let unreachable = ["format", "v", "volume", "--storage", "s3", "--bucket", "http://127.0.0.1:1/b"];
    let keys = ["--access-key", "a", "--secret-key", "very-secret"];
    let said =
        place.zest(&[&unreachable[..], &keys[..]].concat()).refused(1, &["can't be written", "refused"]);
    assert!(!said.err.contains("very-secret"));
    assert!(!place.path("v").exists(), "a volume that was not made leaves nothing");
}

const KEY: &str = include_str!("../../actors/data/tests/keys/pkcs1.pem");
const PROTECTED: &str = include_str!("../../actors/data/tests/keys/pkcs8-aes256.pem");

#[test]
fn ways_to_encode_blocks_that_will_not_do() {
    let place = Place::new();
    fs::write(place.path("key"), KEY).unwrap();
    fs::write(place.path("protected"), PROTECTED).unwrap();
    let refused = |options: &[&str], words: &[&str]| {
        place.zest(&[&["format", "v", "volume"], options].concat()).refused(1, words);
        assert!(!place.path("v").exists(), "a volume that was not made leaves nothing");
    };
    refused(&["--encrypt-rsa-key", "nothing"], &["nothing can't be used"]);
    fs::write(place.path("none"), "no key").unwrap();
    refused(&["--encrypt-rsa-key", "none"], &["PEM"]);
    refused(&["--encrypt-rsa-key", "key", "--encrypt-algo", "sm4gcm"], &["sm4gcm", "can't do yet"]);
    refused(&["--encrypt-rsa-key", "protected"], &["set JFS_RSA_PASSPHRASE"]);
    refused(&["--shards", "2"], &["%d"]);
    refused(&["--shards", "257", "--bucket", "o-%d"], &["257 shards", "256"]);
}

#[test]
fn how_blocks_are_encoded_stays() {
    let place = Place::new();
    fs::write(place.path("key"), KEY).unwrap();
    fs::write(place.path("other"), KEY.replace("RSA PRIVATE KEY-----\n", "RSA PRIVATE KEY-----\n\n"))
        .unwrap();
    let all = ["--compress", "zstd", "--encrypt-rsa-key", "key", "--hash-prefix", "--shards", "2"];
    let format = |options: &[&str]| place.zest(&[&["format", "v", "volume"], options].concat());
    let said = format(&[&all[..], &["--bucket", "o-%d"]].concat()).good();
    assert!(said.out.contains("\"EncryptKey\": \"removed\"") && !said.out.contains("BEGIN"), "{}", said.out);
    let mark = |shard| place.path(shard).join("volume/juicefs_uuid").exists();
    assert!(mark("o-0") != mark("o-1"), "the volume's mark lies in one of its buckets");
    format(&all).good();
    format(&["--trash-days", "3"]).good();
    format(&["--compress", "lz4"]).refused(1, &["its compression is zstd"]);
    format(&["--shards", "3"]).refused(1, &["its number of shards is 2"]);
    format(&["--encrypt-algo", "chacha20-rsa"]).refused(1, &["its encryption is aes256gcm-rsa"]);
    format(&["--encrypt-rsa-key", "other"]).refused(1, &["another private key"]);
}

#[test]
fn a_passphrase_is_asked_for_by_name() {
    let place = Place::new();
    fs::write(place.path("protected"), PROTECTED).unwrap();
    let run = |passphrase: Option<&str>, args: &[&str]| {
        let mut command = place.command(args);
        match passphrase {
            Some(text) => command.env("JFS_RSA_PASSPHRASE", text),
            None => command.env_remove("JFS_RSA_PASSPHRASE"),
        };
        common::Said::of(command.output().unwrap())
    };
    run(Some("12345678"), &["format", "v", "volume", "--encrypt-rsa-key", "protected"]).good();
    run(None, &["mount", "v", "m"]).refused(1, &["set JFS_RSA_PASSPHRASE"]);
    run(Some("other"), &["mount", "v", "m"]).refused(1, &["JFS_RSA_PASSPHRASE does not open"]);
    run(None, &["status", "v"]).good();
}

#[test]
fn a_volume_whose_objects_are_gone_says_where_they_should_be() {
    let place = Place::new();
    place.zest(&["format", "v", "volume", "--bucket", "elsewhere"]).good();
    fs::rename(place.path("elsewhere"), place.path("moved")).unwrap();
    place.zest(&["mount", "v", "m"]).refused(1, &["elsewhere", "bring the objects back"]);
}

#[test]
fn names_and_engines() {
    let place = Place::new();
    for bad in ["ab", "UPPER", "-a-", "with_underscore"] {
        place.zest(&["format", "v", "--", bad]).refused(1, &[bad, "3 to 63"]);
    }
    for url in
        ["tikv://:secret@localhost/1", "redis://:secret@127.0.0.1:1/1", "redis://:secret@localhost/one"]
    {
        for command in
            [&["mount", url, "m"][..], &["status", url], &["config", url], &["format", url, "volume"]]
        {
            let said = place.zest(command);
            assert_eq!(said.code, 1, "{}", said.err);
            assert_eq!(said.err.trim_end().lines().count(), 1, "{}", said.err);
            assert!(!said.err.contains("secret"), "{}", said.err);
        }
    }
    place.zest(&["status", "etcd://localhost/1"]).refused(1, &["etcd://", "not supported yet", "redis://"]);
    place.zest(&["status", "127.0.0.1:1/1"]).refused(1, &["127.0.0.1:1", "can't be reached"]);
    place.zest(&["frmat"]).refused(3, &["'frmat'", "'format'"]);
    place.zest(&["mount", "--nonsense", "v", "m"]).refused(1, &["--nonsense"]);
    place.zest(&["mount", "v"]).refused(1, &["MOUNTPOINT"]);
    place.zest(&["mount", "--attr-cahce", "1", "v", "m"]).refused(1, &["'--attr-cache'"]);
    assert!(place.zest(&["version"]).good().out.starts_with("zest version "));
    assert!(place.zest(&["mount", "--attr-cache", "soon", "v", "m"]).err.contains("no time"));
}

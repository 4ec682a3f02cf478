//! Access rules and quotas through a mount: rules as extended attributes, and statfs under a quota.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod rig;

use rig::{RDWR, name, with_rig, with_settings};
use zest_metadata::acl::{ACCESS, DEFAULT, Rule};
use zest_metadata::{ChangeSet, Key, Record, Write};
use zest_types::request::XattrMode;
use zest_types::{Caller, Errno, Ino, Name, Request, Response};

fn attribute(text: &[u8]) -> Name {
    Name::attribute(text).unwrap()
}

fn rule() -> Rule {
    Rule { owner: 6, group: 4, mask: 6, other: 0, users: vec![(50, 6)], groups: vec![] }
}

#[test]
fn rules_are_shown_as_extended_attributes() {
    with_settings(
        |settings| settings.enable_acl = true,
        |rig| async move {
            let (ino, _) = rig.create(Ino::ROOT, "f").await;
            let get = |text| Request::GetXattr { ino, name: attribute(text) };
            let set = |text, rule: Rule| Request::SetXattr {
                ino,
                name: attribute(text),
                value: rule.to_xattr(),
                mode: XattrMode::Any,
            };
            assert_eq!(rig.ask(get(ACCESS)).await, Err(Errno::ENODATA));
            rig.done(set(ACCESS, rule())).await;
            assert_eq!(rig.ask(get(ACCESS)).await, Ok(Response::Xattr(rule().to_xattr())));
            assert_eq!(rig.ask(get(DEFAULT)).await, Err(Errno::ENODATA));
            assert_eq!(rig.ask(set(DEFAULT, rule())).await, Err(Errno::EACCES));
            let names = rig.ask(Request::ListXattr { ino }).await;
            assert_eq!(names, Ok(Response::XattrNames(vec![attribute(ACCESS)])));
            // Whoever asks to be checked is let in by name.
            let open = |flags| Request::Open { ino, flags };
            let caller = |uid| Caller { uid, gid: 7, pid: 1, check: true };
            assert!(rig.ask_as(&caller(50), open(RDWR)).await.is_ok());
            assert_eq!(rig.ask_as(&caller(51), open(0)).await, Err(Errno::EACCES));
            rig.done(Request::RemoveXattr { ino, name: attribute(ACCESS) }).await;
            assert_eq!(rig.ask(get(ACCESS)).await, Err(Errno::ENODATA));
            assert_eq!(rig.attr(ino).await.mode, 0o660);
        },
        |_| async {},
    );
}

#[test]
fn a_volume_without_rules_says_so() {
    with_rig(
        |rig| async move {
            let (ino, _) = rig.create(Ino::ROOT, "f").await;
            let name = attribute(ACCESS);
            let set =
                Request::SetXattr { ino, name: name.clone(), value: rule().to_xattr(), mode: XattrMode::Any };
            assert_eq!(rig.ask(set).await, Err(Errno::ENOTSUP));
            assert_eq!(rig.ask(Request::RemoveXattr { ino, name: name.clone() }).await, Err(Errno::ENOTSUP));
            assert_eq!(rig.ask(Request::GetXattr { ino, name }).await, Err(Errno::ENOTSUP));
        },
        |_| async {},
    );
}

#[test]
fn a_quota_is_what_statfs_shows_below_it() {
    with_rig(
        |rig| async move {
            let mkdir = |parent, text| Request::Mkdir { parent, name: name(text), mode: 0o755, umask: 0 };
            let Ok(Response::Entry { ino: a, .. }) = rig.ask(mkdir(Ino::ROOT, "a")).await else {
                unreachable!()
            };
            let Ok(Response::Entry { ino: b, .. }) = rig.ask(mkdir(a, "b")).await else { unreachable!() };
            let quota = |max_space, max_inodes, used_space, used_inodes| Record::Quota {
                max_space,
                max_inodes,
                used_space,
                used_inodes,
            };
            let write = vec![
                Write::Put(Key::DirQuota(a), quota(100 << 20, 100, 4096, 1)),
                Write::Put(Key::DirQuota(b), quota(1 << 40, 10, 0, 0)),
            ];
            rig.engine.commit(&ChangeSet { expect: vec![], write }).await.unwrap();
        },
        |rig| async move {
            let (a, _) = rig::lookup(&rig, Ino::ROOT, "a").await.unwrap();
            let (b, _) = rig::lookup(&rig, a, "b").await.unwrap();
            let (file, handle) = rig.create(b, "f").await;
            rig.write((file, handle), 0, &[7; 5000]).await;
            rig.done(Request::Fsync { ino: file, handle }).await;
            for ino in [b, file] {
                let Ok(Response::Statfs(under)) = rig.ask(Request::Statfs { ino }).await else {
                    unreachable!()
                };
                assert_eq!(under.available, (100 << 20) - 4096 - 8192);
                assert_eq!(under.total, under.available + 8192);
                assert_eq!((under.inodes, under.inodes_available), (1, 9));
            }
            let Ok(Response::Statfs(whole)) = rig.ask(Request::Statfs { ino: Ino::ROOT }).await else {
                unreachable!()
            };
            assert!(whole.available > 1 << 40);
        },
    );
}

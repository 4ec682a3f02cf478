//! Mode, owner, times, flags and extended attributes.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod driver;

use driver::{ROOT_USER, World, name, user};
use zest_metadata::{Key, Op, Outcome, Record};
use zest_types::attr::flags;
use zest_types::request::{SetAttr, SetTime, XattrMode};
use zest_types::{Attr, Caller, Errno, Ino, Time};

const ROOT: Ino = Ino::ROOT;

fn none() -> SetAttr {
    SetAttr::default()
}

fn set(world: &mut World, ino: Ino, set: SetAttr) -> Result<Attr, Errno> {
    match world.run(&Op::SetAttr { ino, set })? {
        Outcome::Node { attr, .. } => {
            assert_eq!(world.attr(ino).as_ref(), Some(&attr));
            Ok(attr)
        }
        other => unreachable!("{other:?}"),
    }
}

/// A file of user 5 with this mode.
fn file(mode: u16) -> (World, Ino) {
    let mut world = World::new();
    let f = world.file(ROOT, "f");
    set(&mut world, f, SetAttr { uid: Some(5), gid: Some(5), ..none() }).unwrap();
    set(&mut world, f, SetAttr { mode: Some(mode), ..none() }).unwrap();
    (world, f)
}

#[test]
fn what_is_set_is_set_exactly() {
    let (mut world, f) = file(0o644);
    let (past, future) = (Time::new(-5, 7), Time::new(1 << 40, 9));
    let times = SetAttr { atime: Some(SetTime::At(future)), mtime: Some(SetTime::At(past)), ..none() };
    let attr = set(&mut world, f, times).unwrap();
    let now = Time::new(world.now, 0);
    assert_eq!((attr.atime, attr.mtime, attr.ctime), (future, past, now));
    assert_eq!(world.rounds, 1);
    let attr = set(&mut world, f, SetAttr { atime: Some(SetTime::Now), ..none() }).unwrap();
    assert_eq!((attr.atime, attr.mtime), (Time::new(world.now, 0), past));
    let attr = set(&mut world, f, SetAttr { mode: Some(0o7123), uid: None, ..none() }).unwrap();
    assert_eq!((attr.mode, attr.ctime.sec), (0o7123, world.now));
    assert_eq!(set(&mut world, Ino(99), none()), Err(Errno::ENOENT));
    assert_eq!(set(&mut world, Ino::TRASH, none()), Err(Errno::EPERM));
}

#[test]
fn a_new_owner_takes_setuid_and_setgid_away() {
    let owner = SetAttr { uid: Some(9), gid: Some(9), ..none() };
    for (mode, left) in [(0o6755, 0o755), (0o6744, 0o2744), (0o4755, 0o755), (0o755, 0o755)] {
        let (mut world, f) = file(mode);
        assert_eq!(set(&mut world, f, owner).unwrap().mode, left, "{mode:o} by user 0");
    }
    let (mut world, f) = file(0o6744);
    world.caller = user(5);
    let same = SetAttr { gid: Some(5), ..none() };
    assert_eq!(set(&mut world, f, same).unwrap().mode, 0o744, "by the owner");
    // A kernel that takes the bits itself sends the mode along.
    let (mut world, f) = file(0o6755);
    assert_eq!(set(&mut world, f, SetAttr { mode: Some(0o755), ..owner }).unwrap().mode, 0o755);
    let d = world.dir(ROOT, "d");
    set(&mut world, d, SetAttr { mode: Some(0o2755), ..none() }).unwrap();
    assert_eq!(set(&mut world, d, owner).unwrap().mode, 0o2755, "directories keep theirs");
}

#[test]
fn who_may_change_owner_and_mode() {
    let (mut world, f) = file(0o644);
    let chown = |uid| SetAttr { uid: Some(uid), ..none() };
    let chgrp = |gid| SetAttr { gid: Some(gid), ..none() };
    let chmod = |mode| SetAttr { mode: Some(mode), ..none() };
    world.caller = user(5);
    for refused in [chown(6), chgrp(6)] {
        assert_eq!(set(&mut world, f, refused), Err(Errno::EPERM));
    }
    set(&mut world, f, chown(5)).unwrap();
    set(&mut world, f, chmod(0o2755)).unwrap();
    world.caller = Caller { gid: 77, ..user(5) };
    assert_eq!(set(&mut world, f, chmod(0o6755)).unwrap().mode, 0o4755, "no setgid for a foreign group");
    set(&mut world, f, chgrp(77)).unwrap();
    world.caller = user(6);
    for refused in [chown(6), chown(5), chgrp(6), chgrp(77), chmod(0o777)] {
        assert_eq!(set(&mut world, f, refused), Err(Errno::EPERM));
    }
    world.caller = ROOT_USER;
    set(&mut world, f, chmod(0o6755)).unwrap();
    world.caller = user(6);
    set(&mut world, f, chmod(0o755)).unwrap();
    world.caller = Caller { check: false, ..user(6) };
    set(&mut world, f, chmod(0o777)).unwrap();
    assert_eq!(world.attr(f).unwrap().mode, 0o777);
}

#[test]
fn who_may_set_times() {
    let now = Some(SetTime::Now);
    let at = Some(SetTime::At(Time::new(3, 3)));
    let times = |atime, mtime| SetAttr { atime, mtime, ..none() };
    for (caller, mode, both_now, one_now, at_will) in [
        (user(5), 0o444, Ok(()), Ok(()), Ok(())),
        (user(6), 0o644, Err(Errno::EACCES), Err(Errno::EPERM), Err(Errno::EPERM)),
        (user(6), 0o666, Ok(()), Err(Errno::EPERM), Err(Errno::EPERM)),
        (ROOT_USER, 0o000, Ok(()), Ok(()), Ok(())),
        (Caller { check: false, ..user(6) }, 0o000, Ok(()), Ok(()), Ok(())),
    ] {
        let (mut world, f) = file(mode);
        world.caller = caller;
        let mut ask = |atime, mtime| set(&mut world, f, times(atime, mtime)).map(|_| ());
        assert_eq!(ask(now, now), both_now, "{caller:?}");
        assert_eq!((ask(now, None), ask(None, now)), (one_now, one_now));
        assert_eq!((ask(at, None), ask(now, at)), (at_will, at_will));
    }
}

#[test]
fn immutable_nodes_change_nothing_but_their_flags() {
    let (mut world, f) = file(0o644);
    let bits = |bits| SetAttr { flags: Some(bits), ..none() };
    set(&mut world, f, bits(flags::IMMUTABLE)).unwrap();
    let at = Some(SetTime::At(Time::new(3, 3)));
    let changes = [
        SetAttr { mode: Some(0), ..none() },
        SetAttr { uid: Some(0), ..none() },
        SetAttr { mtime: at, ..none() },
        SetAttr { mtime: Some(SetTime::Now), ..none() },
    ];
    for change in changes {
        assert_eq!(set(&mut world, f, change), Err(Errno::EPERM));
    }
    set(&mut world, f, bits(flags::APPEND)).unwrap();
    let answers = changes.map(|change| set(&mut world, f, change).map(|_| ()));
    assert_eq!(answers, [Err(Errno::EPERM), Err(Errno::EPERM), Err(Errno::EPERM), Ok(())]);
    world.caller = user(5);
    assert_eq!(set(&mut world, f, bits(0)), Err(Errno::EPERM), "not even the owner");
    set(&mut world, f, bits(flags::APPEND | flags::SKIP_TRASH)).unwrap();
}

#[test]
fn extended_attributes() {
    let (mut world, f) = file(0o644);
    let put = |key: &str, value: Vec<u8>, mode| Op::SetXattr { ino: f, name: name(key), value, mode };
    let get = |world: &World, key: &str| match world.records.0.get(&Key::Xattr(f, name(key))) {
        Some(Record::Bytes(value)) => Some(value.clone()),
        _ => None,
    };
    world.run(&put("user.a", vec![1], XattrMode::Any)).unwrap();
    assert_eq!(world.attr(f).unwrap().ctime.sec, world.now);
    assert_eq!(world.run(&put("user.a", vec![2], XattrMode::Create)), Err(Errno::EEXIST));
    assert_eq!(world.run(&put("user.b", vec![2], XattrMode::Replace)), Err(Errno::ENODATA));
    world.run(&put("user.a", vec![], XattrMode::Replace)).unwrap();
    assert_eq!(get(&world, "user.a"), Some(vec![]));
    world.run(&put("trusted.c", vec![0; 65_536], XattrMode::Create)).unwrap();
    assert_eq!(world.run(&put("user.a", vec![0; 65_537], XattrMode::Any)), Err(Errno::ERANGE));
    let remove = |key| Op::RemoveXattr { ino: f, name: name(key) };
    world.caller = user(6);
    assert_eq!(world.run(&remove("user.a")), Err(Errno::EACCES));
    assert_eq!(world.run(&remove("trusted.c")), Err(Errno::EPERM));
    world.caller = user(5);
    world.run(&remove("user.a")).unwrap();
    assert_eq!(world.run(&remove("user.a")), Err(Errno::ENODATA));
    assert_eq!(get(&world, "user.a"), None);
    let nowhere = Op::SetXattr { ino: Ino(99), name: name("user.a"), value: vec![], mode: XattrMode::Any };
    assert_eq!(world.run(&nowhere), Err(Errno::ENOENT));
    world.check();
}

//! Access rules: set and removed as extended attributes, kept in step with chmod, inherited, and asked.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod driver;

use driver::{ROOT_USER, World, make_op, name, user};
use zest_metadata::acl::{ACCESS, DEFAULT, Rule, UNSET};
use zest_metadata::{Counter, Key, Op, Outcome};
use zest_types::request::{SetAttr, XattrMode};
use zest_types::{Errno, FileType, Ino, Name};

fn set(ino: Ino, kind: &[u8], rule: &Rule) -> Op {
    Op::SetXattr { ino, name: Name::new(kind).unwrap(), value: rule.to_xattr(), mode: XattrMode::Any }
}

fn remove(ino: Ino, kind: &[u8]) -> Op {
    Op::RemoveXattr { ino, name: Name::new(kind).unwrap() }
}

fn chmod(ino: Ino, mode: u16) -> Op {
    Op::SetAttr { ino, set: SetAttr { mode: Some(mode), ..SetAttr::default() } }
}

fn rule() -> Rule {
    Rule { owner: 7, group: 5, mask: 6, other: 1, users: vec![(1000, 7)], groups: vec![(50, 4)] }
}

fn minimal(mode: u16) -> Rule {
    Rule::EMPTY.filled(mode)
}

#[test]
fn equal_rules_have_one_id_and_a_rule_carries_its_mode() {
    let mut world = World::new();
    let (f, g) = (world.file(Ino::ROOT, "f"), world.file(Ino::ROOT, "g"));
    for ino in [f, g] {
        world.run(&set(ino, ACCESS, &rule())).unwrap();
        let attr = world.attr(ino).unwrap();
        assert_eq!((attr.access_acl, attr.default_acl, attr.mode), (1, 0, 0o761), "{ino}");
    }
    assert_eq!(world.count(&Key::Counter(Counter::AclMaxId)), 1);
    // What is there already changes nothing, not even times.
    let before = world.records.clone();
    world.run(&set(f, ACCESS, &rule())).unwrap();
    assert_eq!(world.records, before);

    world.run(&chmod(f, 0o1640)).unwrap();
    let attr = world.attr(f).unwrap();
    assert_eq!((attr.access_acl, attr.mode), (2, 0o1640));
    world.run(&chmod(f, 0o1761)).unwrap();
    assert_eq!(world.attr(f).unwrap().access_acl, 1, "the rule it had before");

    world.run(&set(f, ACCESS, &minimal(0o604))).unwrap();
    let attr = world.attr(f).unwrap();
    assert_eq!((attr.access_acl, attr.mode), (0, 0o1604));
    world.run(&remove(g, ACCESS)).unwrap();
    let attr = world.attr(g).unwrap();
    assert_eq!((attr.access_acl, attr.mode), (0, 0o761));
    assert_eq!(world.run(&remove(g, ACCESS)), Err(Errno::ENODATA));
    world.check();
}

#[test]
fn new_nodes_begin_with_the_default_rule() {
    let mut world = World::new();
    let dir = world.dir(Ino::ROOT, "dir");
    let default = Rule { mask: 7, ..rule() };
    world.run(&set(dir, DEFAULT, &default)).unwrap();
    assert_eq!(world.attr(dir).unwrap().mode, 0o755, "a default rule changes no mode");
    // `make` asks for 0755 with a umask of 022, which does not count here.
    let f = world.file(dir, "f");
    let attr = world.attr(f).unwrap();
    assert_eq!((attr.mode, attr.default_acl), (0o751, 0));
    let child = Rule { owner: 7, mask: 5, other: 1, ..default.clone() };
    let stored = Key::AclRule(attr.access_acl);
    assert_eq!(zest_metadata::rules::acl_rule(world.records.0.get(&stored)), Ok(child));
    let sub = world.dir(dir, "sub");
    assert_eq!(world.attr(sub).unwrap().default_acl, world.attr(dir).unwrap().default_acl);
    assert_eq!(world.attr(sub).unwrap().access_acl, attr.access_acl, "an equal rule");
    let link = world.make(dir, "s", FileType::Symlink);
    assert_eq!((world.attr(link).unwrap().mode, world.attr(link).unwrap().access_acl), (0o777, 0));

    world.run(&set(dir, DEFAULT, &minimal(0o750))).unwrap();
    let g = world.file(dir, "g");
    assert_eq!((world.attr(g).unwrap().mode, world.attr(g).unwrap().access_acl), (0o750, 0));
    world.check();
}

#[test]
fn who_may_set_a_rule_and_on_what() {
    let mut world = World::new();
    world.caller = user(1);
    let f = world.file(Ino::ROOT, "f");
    let link = world.make(Ino::ROOT, "s", FileType::Symlink);
    world.run(&chmod(f, 0o2755)).unwrap();
    world.caller = user(2);
    assert_eq!(world.run(&set(f, ACCESS, &rule())), Err(Errno::EPERM));
    world.caller = zest_types::Caller { gid: 9, ..user(1) };
    world.run(&set(f, ACCESS, &rule())).unwrap();
    assert_eq!(world.attr(f).unwrap().mode, 0o761, "setgid is for the group's members");
    assert_eq!(world.run(&set(f, DEFAULT, &rule())), Err(Errno::EACCES));
    assert_eq!(world.run(&set(link, ACCESS, &rule())), Err(Errno::ENOTSUP));
    let create = Op::SetXattr {
        ino: f,
        name: Name::new(ACCESS).unwrap(),
        value: rule().to_xattr(),
        mode: XattrMode::Create,
    };
    assert_eq!(world.run(&create), Err(Errno::EEXIST));
    let named = Rule { mask: UNSET, ..rule() };
    assert_eq!(world.run(&set(f, ACCESS, &named)), Err(Errno::EINVAL));
    world.acl = false;
    assert_eq!(world.run(&set(f, ACCESS, &rule())), Err(Errno::ENOTSUP));
    assert_eq!(world.run(&remove(f, ACCESS)), Err(Errno::ENOTSUP));
    world.check();
}

#[test]
fn a_rule_lets_in_whom_it_names() {
    let mut world = World::new();
    let dir = world.dir(Ino::ROOT, "dir");
    world.run(&set(dir, ACCESS, &Rule { mask: 7, other: 0, ..rule() })).unwrap();
    let make = |text| make_op(dir, text, FileType::File);
    for (caller, answer) in
        [(user(1000), Ok(())), (user(50), Err(Errno::EACCES)), (user(3), Err(Errno::EACCES))]
    {
        world.caller = caller;
        let made = world.run(&make("x")).map(|_| ());
        assert_eq!(made, answer, "{caller:?}");
    }
    // Without the group class nobody is named any more.
    world.caller = ROOT_USER;
    world.run(&chmod(dir, 0o707)).unwrap();
    world.caller = user(3);
    assert!(matches!(world.run(&make("y")), Ok(Outcome::Node { .. })));
    // A rule that was lost lets nobody in.
    world.caller = ROOT_USER;
    world.run(&chmod(dir, 0o777)).unwrap();
    let id = world.attr(dir).unwrap().access_acl;
    world.records.0.remove(&Key::AclRule(id));
    world.caller = user(1000);
    assert_eq!(world.run(&Op::Unlink { parent: dir, name: name("y") }), Err(Errno::EACCES));
}

#[test]
fn two_new_rules_at_once_get_two_ids() {
    let mut world = World::new();
    let (f, g) = (world.file(Ino::ROOT, "f"), world.file(Ino::ROOT, "g"));
    let late = world.decide_early(&set(f, ACCESS, &rule())).unwrap();
    world.run(&set(g, ACCESS, &Rule { mask: 4, ..rule() })).unwrap();
    assert!(!world.commit_late(&late), "the number is taken");
    world.run(&set(f, ACCESS, &rule())).unwrap();
    assert_eq!((world.attr(g).unwrap().access_acl, world.attr(f).unwrap().access_acl), (1, 2));
    world.check();
}

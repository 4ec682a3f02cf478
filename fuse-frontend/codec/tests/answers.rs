//! Answers are read by the kernel's side as what they say.
#![allow(clippy::unwrap_used, clippy::panic)]

use bytes::Bytes;
use proptest::prelude::*;
use std::time::Duration;
use zest_codec::kernel::{Told, told};
use zest_codec::{Opcode, Shape, Terms, answer, refuse};
use zest_types::request::{Dirent, LockKind, RangeLock};
use zest_types::{Attr, Errno, FileType, Handle, Ino, Name, Response, Time};

struct Hour;

impl Terms for Hour {
    fn valid(&self, _: Ino, _: &Attr) -> (Duration, Duration) {
        (Duration::from_millis(3_600_250), Duration::from_secs(7))
    }
    fn negative(&self, parent: Ino) -> Duration {
        if parent == Ino::ROOT { Duration::from_secs(5) } else { Duration::ZERO }
    }
    fn keep_dir(&self, ino: Ino) -> bool {
        ino == Ino::ROOT
    }
    fn close_drops_locks(&self) -> bool {
        false
    }
}

fn attr() -> Attr {
    let mut attr = Attr::new(FileType::File, 0o640, 7, 8, Ino::ROOT, Time::new(100, 5));
    attr.length = 12_345;
    attr
}

fn said(opcode: Opcode, shape: Shape, response: Result<Response, Errno>) -> Vec<u8> {
    let answer = answer(42, shape, response, &Hour).unwrap();
    let bytes = answer.to_vec();
    assert_eq!(bytes.len(), answer.len());
    assert!(told(opcode, 0, &bytes).is_some(), "{opcode:?}");
    bytes
}

#[test]
fn nodes_and_names() {
    let bytes = said(
        Opcode::Lookup,
        Shape::Lookup { parent: Ino(9) },
        Ok(Response::Entry { ino: Ino(5), attr: attr() }),
    );
    match told(Opcode::Lookup, 0, &bytes) {
        Some((42, Told::Entry(out))) => {
            assert_eq!((out.nodeid, out.generation, out.attr.ino, out.attr.size), (5, 1, 5, 12_345));
            assert_eq!((out.entry_valid, out.entry_valid_nsec, out.attr_valid), (3600, 250_000_000, 7));
        }
        other => panic!("{other:?}"),
    }
    let created = Response::Created { ino: Ino(5), attr: attr(), handle: Handle(77) };
    let bytes = said(Opcode::Create, Shape::Created { flags: 0 }, Ok(created));
    match told(Opcode::Create, 0, &bytes) {
        Some((42, Told::Created(entry, open))) => {
            assert_eq!((entry.nodeid, open.fh, open.open_flags), (5, 77, 1 << 5))
        }
        other => panic!("{other:?}"),
    }
    for (ino, flags) in [(Ino::ROOT, 1 << 1 | 1 << 3), (Ino(2), 0)] {
        let opened = Response::Opened { handle: Handle(3), keep_cache: false };
        let bytes = said(Opcode::OpenDir, Shape::OpenedDir { ino }, Ok(opened));
        assert!(
            matches!(told(Opcode::OpenDir, 0, &bytes), Some((42, Told::Open(out))) if out.open_flags == flags)
        );
    }
}

#[test]
fn a_missing_name_may_be_remembered() {
    let bytes = said(Opcode::Lookup, Shape::Lookup { parent: Ino::ROOT }, Err(Errno::ENOENT));
    assert!(
        matches!(told(Opcode::Lookup, 0, &bytes), Some((42, Told::Entry(out))) if out.nodeid == 0 && out.entry_valid == 5)
    );
    let bytes = said(Opcode::Lookup, Shape::Lookup { parent: Ino(2) }, Err(Errno::ENOENT));
    assert_eq!(told(Opcode::Lookup, 0, &bytes), Some((42, Told::Error(2))));
}

#[test]
fn errors_keep_their_numbers() {
    for errno in Errno::ALL {
        let bytes = refuse(9, errno.number()).to_vec();
        assert_eq!(told(Opcode::Write, 0, &bytes), Some((9, Told::Error(errno.number()))));
    }
}

#[test]
fn data_are_sent_from_where_they_lie() {
    let pieces = vec![Bytes::from_static(b"abc"), Bytes::new(), Bytes::from_static(b"defg")];
    let bytes = said(Opcode::Read, Shape::Data, Ok(Response::Data(pieces)));
    assert_eq!(told(Opcode::Read, 0, &bytes), Some((42, Told::Data(b"abcdefg"))));
}

#[test]
fn values_fit_or_are_too_long() {
    for (size, number) in [(3, 34), (4, 0)] {
        let shape = Shape::Xattr { size };
        let bytes = answer(42, shape, Ok(Response::Xattr(b"abcd".to_vec())), &Hour).unwrap().to_vec();
        let want = if number == 0 { Told::Data(b"abcd") } else { Told::Error(number) };
        assert_eq!(told(Opcode::GetXattr, size, &bytes), Some((42, want)));
    }
    let bytes = said(
        Opcode::ListXattr,
        Shape::Xattr { size: 0 },
        Ok(Response::XattrNames(vec![Name::new(b"user.a").unwrap()])),
    );
    assert!(matches!(told(Opcode::ListXattr, 0, &bytes), Some((42, Told::XattrSize(out))) if out.size == 7));
}

#[test]
fn locks_and_what_fits_nothing() {
    let lock = RangeLock { kind: LockKind::Write, start: 4, end: 9, pid: 11 };
    let bytes = said(Opcode::GetLk, Shape::Lock, Ok(Response::Lock(Some(lock))));
    assert!(
        matches!(told(Opcode::GetLk, 0, &bytes), Some((42, Told::Lock(out))) if out.lk.kind == 1 && out.lk.pid == 11)
    );
    assert!(answer(1, Shape::Lock, Ok(Response::Done), &Hour).is_err());
    let bytes = said(Opcode::Statx, Shape::Statx, Ok(Response::Attr { ino: Ino(5), attr: attr() }));
    assert!(
        matches!(told(Opcode::Statx, 0, &bytes), Some((42, Told::Statx(out))) if out.stat.mode == 0o100_640 && out.stat.mask == 0x7ff)
    );
}

proptest! {
    #[test]
    fn listings_hold_as_many_whole_entries_as_fit(
        names in proptest::collection::vec("[a-z]{1,40}", 0..40), size in 0u32..4096, plus in any::<bool>(),
    ) {
        let entries: Vec<Dirent> = names.iter().enumerate().map(|(at, name)| Dirent {
            name: Name::new(name.as_bytes()).unwrap(),
            ino: Ino(100 + at as u64),
            kind: FileType::File,
            cookie: at as u64 + 1,
            attr: (at % 3 > 0).then(attr),
            holds: at % 2 == 0,
        }).collect();
        let (opcode, shape) = if plus {
            (Opcode::ReadDirPlus, Shape::DirentsPlus { dir: Ino::ROOT, size })
        } else {
            (Opcode::ReadDir, Shape::Dirents { size })
        };
        let bytes = answer(42, shape, Ok(Response::Dirents(entries.clone())), &Hour).unwrap().to_vec();
        prop_assert!(bytes.len() <= 16 + size as usize);
        let Some((42, Told::Listing(listed))) = told(opcode, 0, &bytes) else { panic!("no listing") };
        for (listed, entry) in listed.iter().zip(&entries) {
            prop_assert_eq!(listed.name, entry.name.as_bytes());
            prop_assert_eq!((listed.dirent.ino, listed.dirent.off, listed.dirent.kind), (entry.ino.0, entry.cookie, 8));
            let node = listed.node.map(|node| (node.nodeid, node.attr_valid));
            let known = entry.attr.as_ref().map_or((0, 0), |_| (entry.ino.0, if entry.holds { 7 } else { 0 }));
            prop_assert_eq!(node, plus.then_some(known));
        }
        if let Some(next) = entries.get(listed.len()) {
            let needs = (if plus { 128 } else { 0 }) + (24 + next.name.as_bytes().len()).next_multiple_of(8);
            prop_assert!(bytes.len() - 16 + needs > size as usize, "the next one would have fitted");
        }
    }
}

//! Requests that wait are given up when the kernel says so, each in its way, and are answered exactly once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod wire;

use std::sync::atomic::Ordering;
use wire::{Wire, init, native, pair, volume};
use zest_codec::abi::{CreateIn, FsyncIn, InterruptIn, OpenIn, ReadIn, WriteIn};
use zest_codec::kernel::{Told, told};
use zest_codec::{Opcode, Operation};
use zest_fuse::door::DoorOptions;

const EINTR: i32 = 4;

/// A file of a block whose bytes are in the store only: node and handle.
fn cold_file(wire: &mut Wire) -> (u64, u64) {
    let arg = CreateIn { flags: 2, mode: 0o100_644, ..CreateIn::default() };
    let created = wire.ask(1, &Operation::Create { arg, name: b"file" });
    let Some((_, Told::Created(entry, open))) = told(Opcode::Create, 0, &created) else {
        panic!("{created:?}")
    };
    let data = vec![7; 4096];
    let arg = WriteIn { fh: open.fh, size: 4096, ..WriteIn::default() };
    let written = wire.ask(entry.nodeid, &Operation::Write { arg, data: &data });
    assert!(matches!(told(Opcode::Write, 0, &written), Some((_, Told::Written(out))) if out.size == 4096));
    let synced = wire.ask(entry.nodeid, &Operation::Fsync(FsyncIn { fh: open.fh, ..FsyncIn::default() }));
    assert!(matches!(told(Opcode::Fsync, 0, &synced), Some((_, Told::Done))));
    (entry.nodeid, open.fh)
}

fn opened() -> (Wire, wire::Volume) {
    let (kernel, door) = pair();
    let mut wire = Wire::new(kernel);
    wire.begin(0, &init());
    let options = zest_vfs::Options { memory_cache: 0, ..zest_vfs::Options::default() };
    let volume = volume(options);
    native(volume.vfs.clone(), DoorOptions::default(), true, door);
    let agreed = wire.receive();
    assert!(matches!(told(Opcode::Init, 0, &agreed), Some((2, Told::Init(out))) if out.minor == 45));
    (wire, volume)
}

#[test]
fn a_read_from_a_dead_store_is_given_up_and_the_mount_goes_on() {
    let (mut wire, volume) = opened();
    let (node, fh) = cold_file(&mut wire);
    volume.store.dead.store(true, Ordering::Release);
    let read = Operation::Read(ReadIn { fh, size: 4096, ..ReadIn::default() });
    let unique = wire.begin(node, &read);
    wire.begin(0, &Operation::Interrupt(InterruptIn { unique }));
    let answer = wire.receive();
    assert_eq!(told(Opcode::Read, 0, &answer), Some((unique, Told::Error(EINTR))));
    // One answer, and no other one before that of the next request.
    let opened = wire.ask(node, &Operation::Open(OpenIn { flags: 0, open_flags: 0 }));
    assert!(matches!(told(Opcode::Open, 0, &opened), Some((number, Told::Open(_))) if number > unique));
}

#[test]
fn a_word_about_what_is_answered_already_changes_nothing() {
    let (mut wire, _volume) = opened();
    let (node, fh) = cold_file(&mut wire);
    for unique in [2, 4, 1_000_000] {
        wire.begin(0, &Operation::Interrupt(InterruptIn { unique }));
    }
    let read = wire.ask(node, &Operation::Read(ReadIn { fh, size: 100, ..ReadIn::default() }));
    assert!(matches!(told(Opcode::Read, 0, &read), Some((_, Told::Data(data))) if data == [7; 100]));
}

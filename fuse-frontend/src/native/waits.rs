//! Waits of every kind at this door, and how each is left: a signal that is handled, a signal that kills, or its end.
//! Each wait is made to begin by shutting what it waits for, and must go on until it is called away.

use super::rig::{Peer, Volume, root};
use crate::door::DoorOptions;
use std::time::{Duration, Instant};
use zest_codec::abi::{
    CreateIn, FsyncIn, InterruptIn, IoctlIn, LK_FLOCK, LkIn, OPEN_KILL_SUIDGID, OpenIn, ReadIn, ReleaseIn,
    SetattrIn, WRITE_KILL_SUIDGID, WriteIn, fattr, lock_kind,
};
use zest_codec::kernel::{Origin, Told, told};
use zest_codec::{Opcode, Operation};
use zest_types::Ino;

const EPERM: i32 = 1;
const EINTR: i32 = 4;
/// A thread that is being killed, as far as this door is told.
const DYING: u32 = 777;
/// One that goes on living.
const ALIVE: u32 = 778;
/// How long a wait is watched before it is believed.
const WATCH: Duration = Duration::from_millis(150);

fn door(volume: &Volume) -> Peer {
    volume.native(DoorOptions::default(), true, |thread| thread == DYING)
}

fn as_thread(pid: u32, nodeid: u64) -> Origin {
    Origin { pid, ..root(nodeid) }
}

/// Makes a file; gives its node and a handle.
fn create(peer: &mut Peer, name: &[u8], mode: u32) -> (u64, u64) {
    let arg = CreateIn { flags: 0o102, mode: 0o100_000 | mode, ..CreateIn::default() };
    let answer = peer.ask(root(1), &Operation::Create { arg, name });
    match told(Opcode::Create, 0, &answer) {
        Some((_, Told::Created(entry, open))) => (entry.nodeid, open.fh),
        other => panic!("{other:?}"),
    }
}

fn mode(peer: &mut Peer, node: u64) -> u32 {
    let answer = peer.ask(root(node), &Operation::GetAttr(Default::default()));
    match told(Opcode::GetAttr, 0, &answer) {
        Some((_, Told::Attr(out))) => out.attr.mode & 0o7777,
        other => panic!("{other:?}"),
    }
}

fn write(fh: u64, offset: u64, data: &[u8]) -> Operation<'_> {
    Operation::Write { arg: WriteIn { fh, offset, size: data.len() as u32, ..WriteIn::default() }, data }
}

fn fsync(fh: u64) -> Operation<'static> {
    Operation::Fsync(FsyncIn { fh, ..FsyncIn::default() })
}

fn lock(owner: u64, kind: u32, flock: bool) -> Operation<'static> {
    let mut arg = LkIn { owner, lk_flags: if flock { LK_FLOCK } else { 0 }, ..LkIn::default() };
    (arg.lk.kind, arg.lk.end, arg.lk.pid) = (kind, i64::MAX.unsigned_abs(), 1);
    if kind == lock_kind::UNLOCK { Operation::SetLk(arg) } else { Operation::SetLkW(arg) }
}

fn interrupt(peer: &mut Peer, unique: u64) {
    peer.send(root(0), &Operation::Interrupt(InterruptIn { unique }));
}

/// A request of a thread that waits.
fn waiting(peer: &mut Peer, origin: Origin, operation: &Operation<'_>) -> u64 {
    let unique = peer.send(origin, operation);
    assert!(peer.waits(unique, WATCH), "{operation:?} did not wait");
    unique
}

/// Both kinds of threads wait; the dying one is answered at once, the other one as `alive` says; gives its number.
fn called(peer: &mut Peer, node: u64, operation: &Operation<'_>, alive: bool) -> u64 {
    let dying = waiting(peer, as_thread(DYING, node), operation);
    interrupt(peer, dying);
    assert_eq!(Peer::error(&peer.answer(dying)), EINTR, "{operation:?} of a thread that is killed");
    let living = waiting(peer, as_thread(ALIVE, node), operation);
    interrupt(peer, living);
    if alive {
        assert_eq!(Peer::error(&peer.answer(living)), EINTR, "{operation:?} after a signal");
    } else {
        assert!(peer.waits(living, WATCH), "{operation:?} goes on after a signal");
    }
    living
}

#[test]
fn locks_of_both_kinds() {
    let volume = Volume::begin();
    let mut peer = door(&volume);
    let (node, _) = create(&mut peer, b"f", 0o644);
    for flock in [false, true] {
        assert_eq!(Peer::error(&peer.ask(root(node), &lock(1, lock_kind::WRITE, flock))), 0);
        called(&mut peer, node, &lock(2, lock_kind::WRITE, flock), true);
        // The word may be faster than its request.
        let early = peer.send(root(0), &Operation::Interrupt(InterruptIn { unique: 0 })) + 4;
        interrupt(&mut peer, early);
        let late = peer.send(as_thread(ALIVE, node), &lock(3, lock_kind::READ, flock));
        assert_eq!(late, early);
        assert_eq!(Peer::error(&peer.answer(late)), EINTR, "the word came first");
        // Who was called away is in nobody's way.
        let other = waiting(&mut peer, as_thread(ALIVE, node), &lock(4, lock_kind::WRITE, flock));
        assert_eq!(Peer::error(&peer.ask(root(node), &lock(1, lock_kind::UNLOCK, flock))), 0);
        assert_eq!(Peer::error(&peer.answer(other)), 0);
        assert_eq!(Peer::error(&peer.ask(root(node), &lock(4, lock_kind::UNLOCK, flock))), 0);
    }
}

#[test]
fn reads_and_fsync_while_the_store_is_silent() {
    let volume = Volume::begin();
    let mut peer = door(&volume);
    let (node, fh) = create(&mut peer, b"f", 0o644);
    let content = vec![7; 100 << 10];
    assert_eq!(Peer::error(&peer.ask(root(node), &write(fh, 0, &content))), 0);
    assert_eq!(Peer::error(&peer.ask(root(node), &fsync(fh))), 0);
    volume.blocks.shut();
    let read = Operation::Read(ReadIn { fh, size: 4096, ..ReadIn::default() });
    called(&mut peer, node, &read, true);
    assert_eq!(Peer::error(&peer.ask(root(node), &write(fh, 1 << 20, &content))), 0);
    let synced = called(&mut peer, node, &fsync(fh), false);
    volume.blocks.open();
    assert_eq!(Peer::error(&peer.answer(synced)), 0);
    let answer = peer.ask(root(node), &read);
    assert_eq!(told(Opcode::Read, 0, &answer).unwrap().1, Told::Data(&content[..4096]));
    assert_eq!(Peer::error(&peer.ask(root(node), &fsync(fh))), 0);
}

#[test]
fn changes_of_names_and_attributes_while_the_records_are_silent() {
    let volume = Volume::begin();
    let mut peer = door(&volume);
    let (node, _) = create(&mut peer, b"f", 0o644);
    volume.records.shut();
    let names: [(&[u8], u32); 2] = [(b"a", DYING), (b"b", ALIVE)];
    let mut made = Vec::new();
    for (name, pid) in names {
        let unique =
            waiting(&mut peer, as_thread(pid, 1), &Operation::Mkdir { arg: Default::default(), name });
        interrupt(&mut peer, unique);
        if pid == DYING {
            assert_eq!(Peer::error(&peer.answer(unique)), EINTR);
        } else {
            assert!(peer.waits(unique, WATCH));
            made.push(unique);
        }
    }
    let set = SetattrIn { valid: fattr::MODE, mode: 0o600, ..SetattrIn::default() };
    let set = called(&mut peer, node, &Operation::SetAttr(set), false);
    let looked = called(&mut peer, 1, &Operation::Lookup { name: b"nobody" }, false);
    volume.records.open();
    for unique in made {
        assert_eq!(Peer::error(&peer.answer(unique)), 0);
    }
    assert_eq!(Peer::error(&peer.answer(set)), 0);
    let nobody = peer.answer(looked);
    assert!(matches!(told(Opcode::Lookup, 0, &nobody), Some((_, Told::Entry(out))) if out.nodeid == 0));
    assert_eq!(mode(&mut peer, node), 0o600, "what was asked for is done");
    for (name, _) in names {
        let answer = peer.ask(root(1), &Operation::Lookup { name });
        assert_eq!(Peer::error(&answer), 0, "also for those who did not wait for it");
    }
}

#[test]
fn a_file_opened_for_the_dead_is_closed_again() {
    let volume = Volume::begin();
    let mut peer = door(&volume);
    let (node, fh) = create(&mut peer, b"f", 0o644);
    assert_eq!(Peer::error(&peer.ask(root(node), &write(fh, 0, b"content"))), 0);
    assert_eq!(Peer::error(&peer.ask(root(node), &fsync(fh))), 0);
    let release = ReleaseIn { fh, ..ReleaseIn::default() };
    assert_eq!(Peer::error(&peer.ask(root(node), &Operation::Release(release))), 0);
    let is_open = || volume.vfs.shared().files.is_open(Ino(node));
    assert!(!is_open());
    volume.records.shut();
    let truncating = Operation::Open(OpenIn { flags: 0o1002, ..OpenIn::default() });
    let open = waiting(&mut peer, as_thread(DYING, node), &truncating);
    assert!(is_open());
    interrupt(&mut peer, open);
    assert_eq!(Peer::error(&peer.answer(open)), EINTR);
    volume.records.open();
    let end = Instant::now() + Duration::from_secs(60);
    while is_open() {
        assert!(Instant::now() < end, "it stays open");
        std::thread::yield_now();
    }
}

#[test]
fn a_writer_whose_set_user_bits_go_first_can_be_called_away() {
    let volume = Volume::begin();
    let mut peer = door(&volume);
    let (node, fh) = create(&mut peer, b"f", 0o4755);
    let arg = WriteIn { fh, size: 3, write_flags: WRITE_KILL_SUIDGID, ..WriteIn::default() };
    let killing = Operation::Write { arg, data: b"abc" };
    volume.records.shut();
    let unique = waiting(&mut peer, as_thread(DYING, node), &killing);
    interrupt(&mut peer, unique);
    assert_eq!(Peer::error(&peer.answer(unique)), EINTR);
    volume.records.open();
    assert_eq!(Peer::error(&peer.ask(root(node), &killing)), 0);
    assert_eq!(mode(&mut peer, node), 0o755);
}

#[test]
fn bits_go_with_a_change_that_is_made_and_stay_with_one_that_is_refused() {
    let volume = Volume::begin();
    let mut peer = door(&volume);
    let (node, fh) = create(&mut peer, b"f", 0o6755);
    let cut = |size| {
        let valid = fattr::SIZE | fattr::KILL_SUIDGID;
        Operation::SetAttr(SetattrIn { valid, size, ..SetattrIn::default() })
    };
    assert_ne!(Peer::error(&peer.ask(root(node), &cut(u64::MAX))), 0, "no file is that long");
    assert_eq!(mode(&mut peer, node), 0o6755, "nothing was changed");
    assert_eq!(Peer::error(&peer.ask(root(node), &cut(5))), 0);
    assert_eq!(mode(&mut peer, node), 0o755);
    let set = SetattrIn { valid: fattr::MODE, mode: 0o6755, ..SetattrIn::default() };
    assert_eq!(Peer::error(&peer.ask(root(node), &Operation::SetAttr(set))), 0);
    let append = |on: u32| {
        // FS_IOC_SETFLAGS and FS_APPEND_FL.
        let arg = IoctlIn { fh, cmd: 0x4008_6602, in_size: 8, ..IoctlIn::default() };
        (arg, (u64::from(on) * 0x20).to_ne_bytes())
    };
    let open = Operation::Open(OpenIn { flags: 0o1001, open_flags: OPEN_KILL_SUIDGID });
    for (on, error, left) in [(1, EPERM, 0o6755), (0, 0, 0o755)] {
        let (arg, data) = append(on);
        assert_eq!(Peer::error(&peer.ask(root(node), &Operation::Ioctl { arg, data: &data })), 0);
        assert_eq!(Peer::error(&peer.ask(root(node), &open)), error, "a truncating open");
        assert_eq!(mode(&mut peer, node), left);
    }
}

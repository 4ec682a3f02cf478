//! What a real kernel said to a mount is said to both doors, each with a fresh volume: they answer the same.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod wire;

use fuser::{Config, Session, SessionACL};
use wire::{Wire, native, pair, volume};
use zest_codec::kernel::{Entry, Told, told};
use zest_codec::record::{Way, records};
use zest_codec::{Dialect, Opcode, Operation, decode};
use zest_fuse::door::{Door, DoorOptions};

const RECORDED: &[u8] = include_bytes!("recorded/session.rec");

/// Requests, each with the answer it got when it was recorded.
fn recorded() -> Vec<(&'static [u8], Opcode, Option<&'static [u8]>)> {
    let all = records(RECORDED).unwrap();
    let answer_to = |unique: u64| {
        let answers = all.iter().filter(|(way, _)| *way == Way::Answer);
        answers.map(|(_, bytes)| *bytes).find(|bytes| bytes[8..16] == unique.to_ne_bytes())
    };
    let requests = all.iter().filter(|(way, _)| *way == Way::Request);
    requests
        .map(|(_, bytes)| {
            let incoming = decode(bytes, Dialect::default()).unwrap();
            (*bytes, incoming.operation.opcode(), answer_to(incoming.header.unique))
        })
        .collect()
}

/// The room of a question for an extended attribute.
fn size(bytes: &[u8]) -> u32 {
    match decode(bytes, Dialect::default()).unwrap().operation {
        Operation::GetXattr { arg, .. } | Operation::ListXattr(arg) => arg.size,
        _ => 0,
    }
}

fn quiet(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::Forget | Opcode::BatchForget | Opcode::Interrupt)
}

/// All answers of a door to the recorded requests, one after the other.
fn played(mut wire: Wire) -> Vec<Option<Vec<u8>>> {
    let mut answers = Vec::new();
    for (bytes, opcode, _) in recorded() {
        if opcode != Opcode::Init {
            wire.send(bytes);
        }
        answers.push((!quiet(opcode)).then(|| wire.receive()));
    }
    answers
}

fn first_request() -> &'static [u8] {
    recorded().first().unwrap().0
}

fn through_native() -> Vec<Option<Vec<u8>>> {
    let (kernel, door) = pair();
    let wire = Wire::new(kernel);
    wire.send(first_request());
    let volume = volume(zest_vfs::Options::default());
    let thread = native(volume.vfs.clone(), DoorOptions::default(), false, door);
    let answers = played(wire);
    thread.join().unwrap();
    answers
}

fn through_fuser() -> Vec<Option<Vec<u8>>> {
    let (kernel, door) = pair();
    let wire = Wire::new(kernel);
    wire.send(first_request());
    let volume = volume(zest_vfs::Options::default());
    let handler = Door::new(volume.vfs.clone(), DoorOptions::default());
    std::thread::spawn(move || {
        // Ends with an error, or goes on for ever, where a kernel would say that it is unmounted.
        let _ = Session::from_fd(handler, door, SessionACL::All, Config::default()).unwrap().run();
    });
    played(wire)
}

/// What the kernel makes of an answer. Where it looks at nothing, nothing is compared.
fn meaning(opcode: Opcode, size: u32, answer: &[u8]) -> (u64, Told<'_>) {
    let (unique, mut told) = told(opcode, size, answer).unwrap_or_else(|| panic!("{opcode:?}: {answer:?}"));
    match &mut told {
        // Nobody has this name: only for how long counts.
        Told::Entry(entry) if entry.nodeid == 0 => {
            entry.attr = Default::default();
            (entry.generation, entry.attr_valid, entry.attr_valid_nsec) = (0, 0, 0);
        }
        Told::Listing(entries) => entries.iter_mut().for_each(unknown),
        // Each door agrees on what it can do.
        Told::Init(out) => {
            (out.flags, out.flags2, out.max_background, out.congestion_threshold) = (0, 0, 0, 0)
        }
        _ => {}
    }
    (unique, told)
}

/// `fuser` can't say that nothing is known of a node, and invents something that holds for no time.
fn unknown(entry: &mut Entry<'_>) {
    if let Some(node) = &entry.node
        && node.attr_valid == 0
        && node.attr_valid_nsec == 0
    {
        entry.node = None;
    }
}

#[test]
fn both_doors_give_the_same_answers() {
    let (ours, theirs) = (through_native(), through_fuser());
    let mut compared = 0;
    for (((bytes, opcode, _), ours), theirs) in recorded().into_iter().zip(&ours).zip(&theirs) {
        let (Some(ours), Some(theirs)) = (ours, theirs) else { continue };
        let size = size(bytes);
        assert_eq!(meaning(opcode, size, ours), meaning(opcode, size, theirs), "{opcode:?} {bytes:?}");
        compared += 1;
    }
    assert!(compared > 100, "only {compared} answers were compared");
}

/// The replay means what was recorded: the same errors at the same places, the same nodes.
#[test]
fn what_is_played_back_is_what_happened() {
    for ((bytes, opcode, then), now) in recorded().into_iter().zip(through_native()) {
        let (Some(then), Some(now)) = (then, now) else { continue };
        let size = size(bytes);
        match (meaning(opcode, size, then).1, meaning(opcode, size, &now).1) {
            (Told::Entry(then), Told::Entry(now)) => assert_eq!(then.nodeid, now.nodeid, "{opcode:?}"),
            (Told::Attr(then), Told::Attr(now)) => {
                assert_eq!((then.attr.size, then.attr.mode), (now.attr.size, now.attr.mode), "{opcode:?}");
            }
            (Told::Data(then), Told::Data(now)) => assert_eq!(then, now, "{opcode:?}"),
            (Told::Error(then), now) => assert_eq!(Told::Error(then), now, "{opcode:?}"),
            (_, Told::Error(now)) => panic!("{opcode:?}: error {now}"),
            _ => {}
        }
    }
}

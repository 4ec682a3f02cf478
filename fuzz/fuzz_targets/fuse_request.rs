//! Any bytes as a request of the kernel: refused, or read; and any request out of loose parts is read as what was
//! written. Whatever is read is translated and answered, and the kernel's side takes every answer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::time::Duration;
use zest_codec::kernel::{Origin, request, sample, told};
use zest_codec::{Dialect, Opcode, Terms, answer, decode, translate};
use zest_types::{Attr, Errno, Ino, Response, Time};

struct Nothing;

impl Terms for Nothing {
    fn valid(&self, _: Ino, _: &Attr) -> (Duration, Duration) {
        (Duration::ZERO, Duration::MAX)
    }
    fn negative(&self, _: Ino) -> Duration {
        Duration::ZERO
    }
    fn keep_dir(&self, _: Ino) -> bool {
        true
    }
    fn close_drops_locks(&self) -> bool {
        true
    }
}

fn served(bytes: &[u8], dialect: Dialect) {
    let Ok(incoming) = decode(bytes, dialect) else { return };
    let Ok(ask) = translate(&incoming) else { return };
    let (unique, opcode) = (incoming.header.unique, incoming.operation.opcode());
    let attr = Attr::new(zest_types::FileType::File, 0o644, 1, 2, Ino::ROOT, Time::new(-1, 5));
    let ino = Ino(incoming.header.nodeid);
    for result in [
        Err(Errno::EIO),
        Ok(Response::Done),
        Ok(Response::Attr { ino, attr: attr.clone() }),
        Ok(Response::Entry { ino, attr }),
        Ok(Response::Xattr(vec![7; 9])),
        Ok(Response::Lock(None)),
    ] {
        if let Ok(answer) = answer(unique, ask.shape, result, &Nothing) {
            let size = match ask.shape {
                zest_codec::Shape::Xattr { size } => size,
                _ => 0,
            };
            let bytes = answer.to_vec();
            assert_eq!(told(opcode, size, &bytes).map(|(to, _)| to), Some(unique), "{opcode:?}");
        }
    }
}

fuzz_target!(|input: (u8, bool, bool, u64, &[u8], &[u8], &[u8])| {
    let (which, raw, setxattr_ext, unique, fixed, first, second) = input;
    let dialect = Dialect { setxattr_ext };
    if raw {
        let mut bytes = [fixed, first, second].concat();
        served(&bytes, dialect);
        // The same, with an honest length.
        if let Some(place) = bytes.get_mut(..4) {
            let len = [fixed, first, second].iter().map(|part| part.len()).sum::<usize>() as u32;
            place.copy_from_slice(&len.to_ne_bytes());
            served(&bytes, dialect);
        }
        return;
    }
    let opcode = Opcode::ALL[usize::from(which) % Opcode::ALL.len()];
    let operation = sample(opcode, fixed, first, second, dialect);
    let origin = Origin { unique, nodeid: unique >> 3, ..Origin::default() };
    let bytes = request(&origin, &operation, dialect);
    let read = decode(&bytes, dialect).expect("what was written can be read");
    assert_eq!((read.operation, read.header.unique), (operation, unique));
    served(&bytes, dialect);
});

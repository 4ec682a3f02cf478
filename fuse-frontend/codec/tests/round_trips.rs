//! Requests that are written as the kernel writes them are read as what they were; nothing else is read at all.
#![allow(clippy::unwrap_used)]

use proptest::collection::vec;
use proptest::prelude::*;
use zest_codec::kernel::{Origin, request, sample};
use zest_codec::{Dialect, Fault, Opcode, decode, translate};
use zest_types::Errno;

fn opcode() -> impl Strategy<Value = Opcode> {
    proptest::sample::select(Opcode::ALL)
}

fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..most)
}

fn origin() -> impl Strategy<Value = Origin> {
    (any::<u64>(), any::<u64>(), any::<u32>(), any::<u32>(), any::<u32>())
        .prop_map(|(unique, nodeid, uid, gid, pid)| Origin { unique, nodeid, uid, gid, pid })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_the_kernel_writes_is_read(
        opcode in opcode(), origin in origin(), fixed in bytes(96), first in bytes(300), second in bytes(300),
        setxattr_ext in any::<bool>(),
    ) {
        let dialect = Dialect { setxattr_ext };
        let operation = sample(opcode, &fixed, &first, &second, dialect);
        prop_assert_eq!(operation.opcode(), opcode);
        let written = request(&origin, &operation, dialect);
        let read = decode(&written, dialect).unwrap();
        prop_assert_eq!(read.operation, operation);
        let header = read.header;
        let read_origin = Origin { unique: header.unique, nodeid: header.nodeid, uid: header.uid, gid: header.gid, pid: header.pid };
        prop_assert_eq!(read_origin, origin);
        let _translated = translate(&read);
    }

    #[test]
    fn a_byte_too_few_or_too_many_is_refused(
        opcode in opcode(), origin in origin(), fixed in bytes(96), first in bytes(40), second in bytes(40),
    ) {
        let dialect = Dialect::default();
        let mut written = request(&origin, &sample(opcode, &fixed, &first, &second, dialect), dialect);
        written.push(b'x');
        let refused = Err(Fault::Refused { unique: origin.unique, opcode: opcode.number(), errno: Errno::EINVAL });
        prop_assert_eq!(decode(&written, dialect), refused, "the header says less");
        let len = u32::try_from(written.len()).unwrap();
        written[..4].copy_from_slice(&len.to_ne_bytes());
        if opcode != Opcode::Init {
            prop_assert_eq!(decode(&written, dialect), refused, "the header says so, but nothing needs it");
        }
        written.truncate(written.len() - 2);
        let short = if written.len() < 40 { Err(Fault::NoHeader) } else { refused };
        prop_assert_eq!(decode(&written, dialect), short, "shorter than the header says");
        prop_assert_eq!(decode(&written[..39], dialect), Err(Fault::NoHeader));
    }

    #[test]
    fn any_bytes_are_read_or_refused(noise in bytes(400), opcode in opcode(), honest in any::<bool>()) {
        let mut noise = noise;
        if honest && noise.len() >= 8 {
            let len = u32::try_from(noise.len()).unwrap();
            noise[..4].copy_from_slice(&len.to_ne_bytes());
            noise[4..8].copy_from_slice(&opcode.number().to_ne_bytes());
        }
        if let Ok(read) = decode(&noise, Dialect::default()) {
            let _translated = translate(&read);
        }
    }
}

#[test]
fn unknown_requests_are_not_implemented() {
    let mut written = request(
        &Origin { unique: 6, ..Origin::default() },
        &zest_codec::Operation::Statfs,
        Dialect::default(),
    );
    written[4..8].copy_from_slice(&54u32.to_ne_bytes());
    let refused = Fault::Refused { unique: 6, opcode: 54, errno: Errno::ENOSYS };
    assert_eq!(decode(&written, Dialect::default()), Err(refused));
}

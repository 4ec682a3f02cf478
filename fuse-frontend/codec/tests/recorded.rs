//! What a real kernel sent and took: each request is read, and written again to the byte; each answer is read as an
//! answer to its request. `recorded/make.py` says how the recording was made: Linux 6.18, our own door.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use zest_codec::kernel::{Origin, request, told};
use zest_codec::record::{Way, records};
use zest_codec::{Dialect, Opcode, Operation, decode, translate};

const RECORDED: &[u8] = include_bytes!("recorded/linux-6.18.rec");

#[test]
fn requests_of_a_real_kernel_are_read_and_written_again_to_the_byte() {
    let mut kinds = BTreeSet::new();
    for (way, bytes) in records(RECORDED).unwrap() {
        if way == Way::Answer {
            continue;
        }
        let incoming =
            decode(bytes, Dialect::default()).unwrap_or_else(|fault| panic!("{fault:?}: {bytes:?}"));
        let header = incoming.header;
        let (unique, nodeid, uid, gid, pid) =
            (header.unique, header.nodeid, header.uid, header.gid, header.pid);
        let origin = Origin { unique, nodeid, uid, gid, pid };
        assert_eq!(request(&origin, &incoming.operation, Dialect::default()), bytes, "{incoming:?}");
        kinds.insert(incoming.operation.opcode().text());
        let _translated = translate(&incoming);
    }
    let missing: Vec<_> =
        EXPECTED.iter().map(|opcode| opcode.text()).filter(|text| !kinds.contains(text)).collect();
    assert!(missing.is_empty(), "not recorded: {missing:?}; recorded: {kinds:?}");
}

#[test]
fn answers_a_real_kernel_took_are_read_as_such() {
    let (mut asked, mut answered) = (BTreeMap::new(), 0);
    for (way, bytes) in records(RECORDED).unwrap() {
        if way == Way::Request {
            let incoming = decode(bytes, Dialect::default()).unwrap();
            let size = match incoming.operation {
                Operation::GetXattr { arg, .. } | Operation::ListXattr(arg) => arg.size,
                _ => 0,
            };
            asked.insert(incoming.header.unique, (incoming.operation.opcode(), size));
            continue;
        }
        let unique = u64::from_ne_bytes(*bytes[8..].first_chunk().unwrap());
        if unique == 0 {
            // Something the kernel was told unasked.
            assert_eq!(bytes[..4], u32::try_from(bytes.len()).unwrap().to_ne_bytes());
            continue;
        }
        let (opcode, size) = asked.remove(&unique).unwrap_or_else(|| panic!("{unique} was not asked"));
        assert!(told(opcode, size, bytes).is_some(), "{opcode:?}: {bytes:?}");
        answered += 1;
    }
    assert!(answered > 100, "{answered}");
}

/// What the kernel can be made to send.
const EXPECTED: [Opcode; 41] = [
    Opcode::Init,
    Opcode::Lookup,
    Opcode::GetAttr,
    Opcode::SetAttr,
    Opcode::Readlink,
    Opcode::Symlink,
    Opcode::Mknod,
    Opcode::Mkdir,
    Opcode::Unlink,
    Opcode::Rmdir,
    Opcode::Rename,
    Opcode::Rename2,
    Opcode::Link,
    Opcode::Open,
    Opcode::Read,
    Opcode::Write,
    Opcode::Statfs,
    Opcode::Release,
    Opcode::Fsync,
    Opcode::SetXattr,
    Opcode::GetXattr,
    Opcode::ListXattr,
    Opcode::RemoveXattr,
    Opcode::Flush,
    Opcode::OpenDir,
    Opcode::ReadDirPlus,
    Opcode::ReleaseDir,
    Opcode::FsyncDir,
    Opcode::GetLk,
    Opcode::SetLk,
    Opcode::SetLkW,
    Opcode::Create,
    Opcode::Interrupt,
    Opcode::Ioctl,
    Opcode::Fallocate,
    Opcode::Lseek,
    Opcode::TmpFile,
    Opcode::Statx,
    Opcode::Forget,
    Opcode::BatchForget,
    Opcode::CopyFileRange64,
];

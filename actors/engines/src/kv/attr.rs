//! The attribute record: 71 bytes of fields, then a tail whose length says what is in it, then one pad byte. Old
//! records stop earlier. Source: volume format, attribute record. Knows no key.

use super::fields::Fields;
use zest_types::{Attr, FileType, Ino, Time};

/// Bytes up to and including the parent.
const BASE: usize = 71;

/// The bytes of a record: 72, 73 with a tier, 80 with access rules, 81 with both. `Err` says which field does
/// not fit.
pub(super) fn encode(attr: &Attr) -> Result<Vec<u8>, &'static str> {
    if attr.mode > 0x0FFF {
        return Err("the mode has more than 12 bits");
    }
    let mut out = Vec::with_capacity(BASE + 10);
    out.push(attr.flags);
    out.extend_from_slice(&(u16::from(attr.kind.code()) << 12 | attr.mode).to_be_bytes());
    out.extend_from_slice(&attr.uid.to_be_bytes());
    out.extend_from_slice(&attr.gid.to_be_bytes());
    for time in [attr.atime, attr.mtime, attr.ctime] {
        if time.nsec >= 1_000_000_000 {
            return Err("a time has a billion nanoseconds or more");
        }
        out.extend_from_slice(&time.sec.to_be_bytes());
        out.extend_from_slice(&time.nsec.to_be_bytes());
    }
    out.extend_from_slice(&attr.nlink.to_be_bytes());
    out.extend_from_slice(&attr.length.to_be_bytes());
    out.extend_from_slice(&attr.rdev.to_be_bytes());
    out.extend_from_slice(&attr.parent.0.to_be_bytes());
    if attr.access_acl != 0 || attr.default_acl != 0 {
        out.extend_from_slice(&attr.access_acl.to_be_bytes());
        out.extend_from_slice(&attr.default_acl.to_be_bytes());
    }
    if attr.tier != 0 {
        out.push(attr.tier);
    }
    out.push(0);
    Ok(out)
}

/// The attributes in a record; `Err` says what is wrong with it.
pub(super) fn decode(bytes: &[u8]) -> Result<Attr, &'static str> {
    let mut fields = Fields(bytes);
    let mut attr = base(&mut fields).ok_or("the attribute record is too short")??;
    // Each part of the tail is there when enough bytes are left; what is left behind it is padding.
    if fields.left() >= 8 {
        attr.parent = fields.u64_be().map(Ino).unwrap_or_default();
    }
    if fields.left() >= 8 {
        attr.access_acl = fields.u32_be().unwrap_or_default();
        attr.default_acl = fields.u32_be().unwrap_or_default();
    }
    attr.tier = fields.u8().unwrap_or_default();
    Ok(attr)
}

/// Everything up to the device number; `None` when bytes are missing.
fn base(fields: &mut Fields<'_>) -> Option<Result<Attr, &'static str>> {
    let flags = fields.u8()?;
    let type_and_mode = fields.u16_be()?;
    let (uid, gid) = (fields.u32_be()?, fields.u32_be()?);
    let (atime, mtime, ctime) = (time(fields)?, time(fields)?, time(fields)?);
    let nlink = fields.u32_be()?;
    let length = fields.u64_be()?;
    let rdev = fields.u32_be()?;
    let [high, _] = type_and_mode.to_be_bytes();
    let Some(kind) = FileType::from_code(high >> 4) else {
        return Some(Err("the type of the node is unknown"));
    };
    if [atime, mtime, ctime].iter().any(|t| t.nsec >= 1_000_000_000) {
        return Some(Err("a time has a billion nanoseconds or more"));
    }
    Some(Ok(Attr {
        flags,
        kind,
        mode: type_and_mode & 0x0FFF,
        uid,
        gid,
        atime,
        mtime,
        ctime,
        nlink,
        length,
        rdev,
        parent: Ino(0),
        access_acl: 0,
        default_acl: 0,
        tier: 0,
    }))
}

fn time(fields: &mut Fields<'_>) -> Option<Time> {
    Some(Time { sec: fields.i64_be()?, nsec: fields.u32_be()? })
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::unhex;
    use super::*;

    fn at(nsec: u32) -> Time {
        Time::new(1_700_000_000, nsec)
    }

    fn vectors() -> Vec<(Attr, &'static str)> {
        let file = |mode| Attr::new(FileType::File, mode, 0, 0, Ino::ROOT, at(0));
        vec![
            (
                Attr {
                    uid: 1000,
                    gid: 1000,
                    atime: at(1),
                    mtime: at(2),
                    ctime: at(3),
                    length: 5000,
                    ..file(0o644)
                },
                "0011a4000003e8000003e8000000006553f1000000000100\
                 0000006553f10000000002000000006553f1000000000300\
                 000001000000000000138800000000000000000000000100",
            ),
            (
                Attr {
                    access_acl: 3,
                    default_acl: 4,
                    ..Attr::new(FileType::Directory, 0o755, 0, 0, Ino::ROOT, at(0))
                },
                "0021ed0000000000000000000000006553f1000000000000\
                 0000006553f10000000000000000006553f1000000000000\
                 000002000000000000100000000000000000000000000100\
                 0000030000000400",
            ),
            (
                Attr { tier: 2, ..file(0o644) },
                "0011a40000000000000000000000006553f1000000000000\
                 0000006553f10000000000000000006553f1000000000000\
                 000001000000000000000000000000000000000000000102\
                 00",
            ),
            (
                Attr { access_acl: 3, tier: 2, ..file(0o664) },
                "0011b40000000000000000000000006553f1000000000000\
                 0000006553f10000000000000000006553f1000000000000\
                 000001000000000000000000000000000000000000000100\
                 000003000000000200",
            ),
        ]
    }

    #[test]
    fn the_four_lengths_are_those_of_the_format() {
        let lengths: Vec<usize> = vectors().iter().map(|(attr, _)| encode(attr).unwrap().len()).collect();
        assert_eq!(lengths, [72, 80, 73, 81]);
        for (attr, hex) in vectors() {
            assert_eq!(encode(&attr).unwrap(), unhex(hex));
            assert_eq!(decode(&unhex(hex)).unwrap(), attr);
        }
    }

    #[test]
    fn records_without_the_pad_byte_are_read() {
        for (attr, hex) in vectors() {
            let mut bytes = unhex(hex);
            bytes.pop();
            assert_eq!(decode(&bytes).unwrap(), attr);
        }
    }

    #[test]
    fn old_records_without_parent_are_read() {
        let (attr, hex) = vectors().swap_remove(0);
        let bytes = unhex(hex);
        let old = Attr { parent: Ino(0), ..attr };
        assert_eq!(decode(&bytes[..63]).unwrap(), old);
        let mut padded = bytes[..63].to_vec();
        padded.push(0);
        assert_eq!(decode(&padded).unwrap(), old);
    }

    #[test]
    fn what_is_no_record_is_refused() {
        let good = unhex(vectors().swap_remove(0).1);
        for cut in 0..63 {
            assert!(decode(&good[..cut]).is_err(), "{cut} bytes");
        }
        for kind in [0x00, 0x80, 0xF0] {
            let mut bytes = good.clone();
            bytes[1] = kind;
            assert!(decode(&bytes).is_err());
        }
        let mut bytes = good.clone();
        bytes[19..23].copy_from_slice(&1_000_000_000_u32.to_be_bytes());
        assert!(decode(&bytes).is_err());
    }
}

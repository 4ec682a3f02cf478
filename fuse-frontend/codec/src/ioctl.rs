//! The ioctls of chattr(1) and lsattr(1): flags of a node, in Linux's numbers and in the volume's. Source: volume
//! format, flag bits; Linux's `fs.h`.

use zest_types::Errno;
use zest_types::attr::flags;

/// Flags a node can have: ours, those of `FS_IOC_GETFLAGS`, those of `FS_IOC_FSGETXATTR`.
const FLAGS: [(u8, u32, u32); 3] =
    [(flags::SKIP_TRASH, 0x01, 0), (flags::IMMUTABLE, 0x10, 0x8), (flags::APPEND, 0x20, 0x10)];

/// What is asked of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Its flags, as a number.
    Get,
    /// These flags and no others (ours).
    Set(u8),
    /// Its flags, as `struct fsxattr`.
    GetExtended,
}

/// What an ioctl asks for; `ENOTTY` for what nobody here knows.
pub fn wish(command: u32, data: &[u8]) -> Result<Wish, Errno> {
    match command {
        0x8008_6601 | 0x8004_6601 => Ok(Wish::Get),
        0x801C_581F => Ok(Wish::GetExtended),
        0x4008_6602 | 0x4004_6602 => {
            let number =
                data.first_chunk::<4>().map(|bytes| u32::from_ne_bytes(*bytes)).ok_or(Errno::EINVAL)?;
            let known = FLAGS.iter().fold(0, |all, (_, linux, _)| all | linux);
            if number & !known != 0 {
                return Err(Errno::ENOTSUP);
            }
            let ours = FLAGS.iter().filter(|(_, linux, _)| number & linux != 0);
            Ok(Wish::Set(ours.fold(0, |all, (flag, _, _)| all | flag)))
        }
        _ => Err(Errno::ENOTTY),
    }
}

/// The answer to [`Wish::Get`] or [`Wish::GetExtended`]; `size` is what the caller has room for.
#[must_use]
pub fn answer(wish: Wish, node: u8, size: u32) -> Vec<u8> {
    let has = FLAGS.iter().filter(|(flag, _, _)| node & flag != 0);
    let mut bytes = match wish {
        Wish::GetExtended => {
            let mut bytes = has.fold(0, |all, (_, _, extended)| all | extended).to_ne_bytes().to_vec();
            bytes.resize(28, 0);
            bytes
        }
        _ => u64::from(has.fold(0, |all, (_, linux, _)| all | linux)).to_ne_bytes().to_vec(),
    };
    bytes.truncate(size as usize);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_come_and_go_in_linux_numbers() {
        for (given, ours) in [(0u32, 0u8), (0x10, 1), (0x20, 2), (0x01, 0x20), (0x31, 0x23)] {
            for command in [0x4008_6602, 0x4004_6602] {
                assert_eq!(wish(command, &given.to_ne_bytes()), Ok(Wish::Set(ours)));
            }
            assert_eq!(answer(Wish::Get, ours, 4), given.to_ne_bytes());
        }
        assert_eq!(answer(Wish::Get, 0x1F, 8), 0x30u64.to_ne_bytes(), "other systems' flags are not shown");
        assert_eq!(answer(Wish::GetExtended, 3, 28)[..4], 0x18u32.to_ne_bytes());
        assert_eq!(answer(Wish::GetExtended, 3, 28).len(), 28);
        assert_eq!(wish(0x4008_6602, &0x40u32.to_ne_bytes()), Err(Errno::ENOTSUP));
        assert_eq!(wish(0x4008_6602, &[1]), Err(Errno::EINVAL));
        assert_eq!(wish(0x1234, &[]), Err(Errno::ENOTTY));
    }
}

//! Recordings of what kernel and door said to each other: one record after the other, each with its length and which
//! way it went. Pure: who writes a file, and how long, is somebody else's business.

/// Opens a recording.
pub const MAGIC: &[u8; 8] = b"ZFSREC\0\x01";

/// Which way something went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the kernel.
    Request,
    /// To the kernel.
    Answer,
}

/// Adds a record that consists of these parts.
pub fn append(out: &mut Vec<u8>, way: Way, parts: &[&[u8]]) {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    out.push(match way {
        Way::Request => 0,
        Way::Answer => 1,
    });
    out.extend_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

/// The records of a recording, in order; `None` if it is none, or is damaged. A torn end is left out.
#[must_use]
pub fn records(bytes: &[u8]) -> Option<Vec<(Way, &[u8])>> {
    let mut rest = bytes.strip_prefix(MAGIC)?;
    let mut all = Vec::new();
    while let Some((way, behind)) = rest.split_first() {
        let Some((len, behind)) = behind.split_first_chunk::<4>() else { break };
        let Some((record, behind)) = behind.split_at_checked(u32::from_le_bytes(*len) as usize) else {
            break;
        };
        all.push((if *way == 0 { Way::Request } else { Way::Answer }, record));
        if *way > 1 {
            return None;
        }
        rest = behind;
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_and_a_torn_end_does_not() {
        let mut bytes = MAGIC.to_vec();
        append(&mut bytes, Way::Request, &[b"ab", b"c"]);
        append(&mut bytes, Way::Answer, &[b""]);
        let whole = [(Way::Request, &b"abc"[..]), (Way::Answer, &b""[..])];
        assert_eq!(records(&bytes).unwrap(), whole);
        append(&mut bytes, Way::Request, &[b"lost"]);
        assert_eq!(records(&bytes[..bytes.len() - 1]).unwrap(), whole);
        assert_eq!(records(b"nothing"), None);
    }
}

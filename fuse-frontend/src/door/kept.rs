//! What the kernel was told to believe for long, written down where it outlives this process: the next one takes it back,
//! since it can't know of it otherwise when somebody changes it. Two logs in turn, each for as long as anything is
//! believed: when one has had its time, all that is in the other is forgotten by the kernel itself. Bounded: what does not
//! fit is believed until its time is over.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Duration;
use zest_types::{Ino, Name, limits};
use zest_vfs::belief::{Back, Keeper};

/// Bytes in front of a name.
const HEAD: usize = 9;

/// The logs.
#[derive(Debug)]
pub struct Kept {
    logs: [File; 2],
    current: usize,
    end: u64,
    /// When the current one was begun.
    since: Duration,
    /// Nothing is believed for longer than this.
    longest: Duration,
}

impl Kept {
    /// Reads what an earlier process told, and begins anew.
    pub fn begin(logs: [File; 2], longest: Duration, now: Duration) -> io::Result<(Kept, Vec<Back>)> {
        let mut told = Vec::new();
        for log in &logs {
            let len = log.metadata()?.len().min(limits::KEPT_TOLD_BYTES);
            let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
            log.read_exact_at(&mut bytes, 0)?;
            read(&bytes, &mut told);
            log.set_len(0)?;
        }
        Ok((Kept { logs, current: 0, end: 0, since: now, longest }, told))
    }
}

impl Keeper for Kept {
    fn note(&mut self, what: &Back, now: Duration) {
        if now.saturating_sub(self.since) > self.longest {
            self.current = 1 - self.current;
            (self.end, self.since) = (0, now);
            let [one, other] = &self.logs;
            let _ = (if self.current == 0 { one } else { other }).set_len(0);
        }
        let (ino, name) = match what {
            Back::Attr(ino) => (*ino, &[][..]),
            Back::Name(dir, name) => (*dir, name.as_bytes()),
            Back::Pages(..) => return,
        };
        let Ok(len) = u8::try_from(name.len()) else { return };
        let record = [&ino.0.to_ne_bytes()[..], &[len], name].concat();
        let [one, other] = &self.logs;
        let log = if self.current == 0 { one } else { other };
        let fits = self.end + record.len() as u64 <= limits::KEPT_TOLD_BYTES;
        if fits && log.write_all_at(&record, self.end).is_ok() {
            self.end += record.len() as u64;
        }
    }
}

fn read(mut bytes: &[u8], into: &mut Vec<Back>) {
    while let Some((ino, rest)) = bytes.split_first_chunk::<8>() {
        let ino = Ino(u64::from_ne_bytes(*ino));
        let Some((len, rest)) = rest.split_first() else { return };
        let Some((name, rest)) = rest.split_at_checked(usize::from(*len)) else { return };
        match Name::new(name) {
            _ if ino.0 == 0 || into.len() >= limits::KERNEL_TOLD => {}
            _ if name.is_empty() => into.push(Back::Attr(ino)),
            Ok(name) => into.push(Back::Name(ino, name)),
            Err(_) => {}
        }
        bytes = rest;
    }
}

const _: () = assert!(limits::KEPT_TOLD_BYTES > (HEAD + limits::NAME_MAX) as u64);

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(48);

    fn pieces() -> [File; 2] {
        [tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap()]
    }

    fn again(logs: &[File; 2]) -> Vec<Back> {
        let logs = [logs[0].try_clone().unwrap(), logs[1].try_clone().unwrap()];
        Kept::begin(logs, LONG, Duration::ZERO).unwrap().1
    }

    #[test]
    fn what_was_told_is_there_for_the_next_process_once_and_as_long_as_it_is_believed() {
        let logs = pieces();
        let at = Duration::from_secs;
        let name = |text: &str| Back::Name(Ino(7), Name::new(text.as_bytes()).unwrap());
        let copy = [logs[0].try_clone().unwrap(), logs[1].try_clone().unwrap()];
        let (mut kept, told) = Kept::begin(copy, LONG, at(0)).unwrap();
        assert_eq!(told, []);
        kept.note(&name("first"), at(1));
        kept.note(&Back::Attr(Ino(9)), at(2));
        kept.note(&name("later"), at(60));
        let mut found = again(&logs);
        found.sort();
        assert_eq!(found, [Back::Attr(Ino(9)), name("first"), name("later")]);
        assert_eq!(again(&logs), []);
        let copy = [logs[0].try_clone().unwrap(), logs[1].try_clone().unwrap()];
        let (mut kept, _) = Kept::begin(copy, LONG, at(0)).unwrap();
        for (text, when) in [("first", 1), ("second", 50), ("third", 100)] {
            kept.note(&name(text), at(when));
        }
        let mut found = again(&logs);
        found.sort();
        assert_eq!(found, [name("second"), name("third")], "the kernel forgot the first by itself");
    }

    #[test]
    fn a_log_that_is_cut_or_no_log_does_no_harm() {
        let mut told = Vec::new();
        read(&[1, 0, 0, 0, 0, 0, 0, 0, 3, b'a', b'b'], &mut told);
        read(&[1, 0, 0], &mut told);
        read(&[0; 30], &mut told);
        assert_eq!(told, []);
    }
}

//! What was committed and is not in the file yet, written down where it outlives this process (though not the machine):
//! a program that goes on with a mount after a crash finds the volume as it was, to the last commit. Two logs in turn:
//! one begins anew when all that it holds is in the file. Together they hold an unbroken run of commits up to the last.

use crate::kv::Batch;
use std::io;
use std::sync::Arc;
use zest_world::DiskFile;

/// A log takes this much before the other one is begun.
const TURN: u64 = 256 << 10;
/// Length and checksum in front of a commit.
const HEAD: usize = 8;
/// The length of a value that says: removed.
const REMOVED: u32 = u32::MAX;

struct Log {
    file: Arc<dyn DiskFile>,
    end: u64,
    /// Number of the last commit in it.
    last: u64,
}

/// The logs.
pub(super) struct Recent {
    logs: [Log; 2],
    current: usize,
    /// One could not be written: from then on none is kept, since a run with a hole is worse than none.
    broken: bool,
}

impl Recent {
    /// Takes what an earlier process left, oldest first. The logs go on empty once `durable` has it in the file.
    pub(super) fn begin<E>(
        files: [Arc<dyn DiskFile>; 2],
        durable: impl FnOnce(&Batch) -> Result<(), E>,
    ) -> Result<Result<Recent, E>, io::Error> {
        let mut commits = Vec::new();
        for file in &files {
            read(&**file, &mut commits)?;
        }
        commits.sort_by_key(|(number, _)| *number);
        let all: Batch = commits.into_iter().flat_map(|(_, batch)| batch).collect();
        if !all.is_empty()
            && let Err(error) = durable(&all)
        {
            return Ok(Err(error));
        }
        for file in &files {
            file.set_len(0)?;
        }
        let logs = files.map(|file| Log { file, end: 0, last: 0 });
        Ok(Ok(Recent { logs, current: 0, broken: false }))
    }

    /// Writes a commit down, before anybody sees it. `durable`: the last one that is in the file. Answers whether that
    /// failed just now.
    pub(super) fn add(&mut self, number: u64, batch: &Batch, durable: u64) -> bool {
        if self.broken {
            return false;
        }
        self.broken = self.try_add(number, batch, durable).is_err();
        if self.broken {
            for log in &self.logs {
                // A log that can't be emptied either is found out by its hole in time: there is no better remedy.
                let _ = log.file.set_len(0);
            }
        }
        self.broken
    }

    fn try_add(&mut self, number: u64, batch: &Batch, durable: u64) -> io::Result<()> {
        let [one, two] = &mut self.logs;
        let (log, other) = if self.current == 0 { (one, two) } else { (two, one) };
        let turns = log.end >= TURN && other.last <= durable;
        let log = if turns {
            other.file.set_len(0)?;
            other.end = 0;
            self.current = 1 - self.current;
            other
        } else {
            log
        };
        let bytes = encode(number, batch);
        log.file.write_at(log.end, &bytes)?;
        log.end += bytes.len() as u64;
        log.last = number;
        Ok(())
    }
}

fn part(bytes: &mut Vec<u8>, len: u32, data: &[u8]) {
    bytes.extend_from_slice(&len.to_le_bytes());
    bytes.extend_from_slice(data);
}

fn length(data: &[u8]) -> u32 {
    u32::try_from(data.len()).unwrap_or(REMOVED - 1)
}

fn encode(number: u64, batch: &Batch) -> Vec<u8> {
    let mut bytes = vec![0; HEAD];
    bytes.extend_from_slice(&number.to_le_bytes());
    for (key, value) in batch {
        part(&mut bytes, length(key), key);
        match value {
            Some(value) => part(&mut bytes, length(value), value),
            None => part(&mut bytes, REMOVED, &[]),
        }
    }
    let (head, body) = bytes.split_at_mut(HEAD);
    let sum = crc32c::crc32c(body);
    let words = [length(body).to_le_bytes(), sum.to_le_bytes()];
    head.iter_mut().zip(words.iter().flatten()).for_each(|(to, from)| *to = *from);
    bytes
}

/// Reads the whole commits of a log; the last one may be cut.
fn read(file: &dyn DiskFile, into: &mut Vec<(u64, Batch)>) -> io::Result<()> {
    let mut bytes = vec![0; usize::try_from(file.len()?).unwrap_or(0)];
    file.read_at(0, &mut bytes)?;
    let mut rest = &bytes[..];
    while let Some((commit, behind)) = one(rest) {
        into.push(commit);
        rest = behind;
    }
    Ok(())
}

fn word(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (word, rest) = bytes.split_first_chunk::<4>()?;
    Some((u32::from_le_bytes(*word), rest))
}

fn one(bytes: &[u8]) -> Option<((u64, Batch), &[u8])> {
    let (len, rest) = word(bytes)?;
    let (sum, rest) = word(rest)?;
    let (body, behind) = rest.split_at_checked(len as usize)?;
    if crc32c::crc32c(body) != sum {
        return None;
    }
    let (number, mut body) = body.split_first_chunk::<8>()?;
    let mut batch = Batch::new();
    while !body.is_empty() {
        let (len, rest) = word(body)?;
        let (key, rest) = rest.split_at_checked(len as usize)?;
        let (len, rest) = word(rest)?;
        let (value, rest) = match len {
            REMOVED => (None, rest),
            len => rest.split_at_checked(len as usize).map(|(value, rest)| (Some(value.to_vec()), rest))?,
        };
        batch.insert(key.to_vec(), value);
        body = rest;
    }
    Some(((u64::from_le_bytes(*number), batch), behind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;

    #[derive(Default)]
    struct Piece(Mutex<Vec<u8>>);

    impl DiskFile for Piece {
        fn len(&self) -> io::Result<u64> {
            Ok(self.0.lock().len() as u64)
        }
        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
            buffer.copy_from_slice(&self.0.lock()[offset as usize..][..buffer.len()]);
            Ok(())
        }
        fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            let mut bytes = self.0.lock();
            bytes.truncate(offset as usize);
            bytes.extend_from_slice(data);
            Ok(())
        }
        fn set_len(&self, len: u64) -> io::Result<()> {
            self.0.lock().truncate(len as usize);
            Ok(())
        }
        fn sync(&self) -> io::Result<()> {
            Ok(())
        }
        fn lock(&self) -> io::Result<()> {
            Ok(())
        }
    }

    fn found(pieces: &[Arc<Piece>; 2]) -> (Recent, Batch) {
        let mut left = Batch::new();
        let files = pieces.clone().map(|piece| piece as Arc<dyn DiskFile>);
        let recent = Recent::begin(files, |batch| {
            left = batch.clone();
            Ok::<(), ()>(())
        });
        (recent.unwrap().unwrap(), left)
    }

    fn commit(key: u8, value: Option<usize>) -> Batch {
        [(vec![key], value.map(|len| vec![key; len]))].into_iter().collect()
    }

    #[test]
    fn the_last_of_each_key_is_found_whatever_was_durable() {
        let pieces: [Arc<Piece>; 2] = Default::default();
        let (mut recent, left) = found(&pieces);
        assert!(left.is_empty());
        // Large enough for many turns; what is durable lags behind.
        for number in 1..=100u64 {
            assert!(!recent.add(number, &commit((number % 7) as u8, Some(50_000)), number.saturating_sub(5)));
        }
        assert!(!recent.add(101, &commit(3, None), 100));
        let sizes: usize = pieces.iter().map(|piece| piece.0.lock().len()).sum();
        assert!(sizes < 20 * 50_000, "logs begin anew: {sizes}");
        drop(recent);
        // The last commit is cut in the middle by the end of the process: it was never answered.
        let cut = commit(4, None);
        let last = encode(102, &cut);
        let piece =
            pieces.iter().max_by_key(|piece| one(&piece.0.lock()).map(|((number, _), _)| number)).unwrap();
        piece.0.lock().extend_from_slice(&last[..last.len() - 1]);
        let (_, left) = found(&pieces);
        assert_eq!(left.get(&vec![3]), Some(&None));
        for key in [0, 1, 2, 4, 5, 6] {
            assert_eq!(left.get(&vec![key]).and_then(|value| value.as_ref()).map(Vec::len), Some(50_000));
        }
        assert!(found(&pieces).1.is_empty(), "it is durable by now");
    }

    #[test]
    fn any_bytes_are_read_without_harm() {
        let whole = encode(1, &commit(1, Some(3)));
        for end in 0..whole.len() {
            assert!(one(&whole[..end]).is_none());
            let mut bent = whole.clone();
            bent[end] ^= 1;
            assert!(one(&bent).is_none_or(|((number, _), _)| number == 1), "byte {end}");
        }
    }
}

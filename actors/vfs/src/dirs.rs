//! Reading a directory as a stream: entries in the order of their names, fetched in batches. What was fetched
//! stays as it is for as long as the handle is open and the batch is kept, so that entries neither come twice
//! nor get lost when others come and go between two calls. Knows cookies; fetching is its owner's business.

use std::collections::VecDeque;
use zest_types::limits::{READDIR_BATCH, READDIR_KEPT_BATCHES};
use zest_types::{FileType, Ino, Name};

/// Cookies 1 and 2 are `.` and `..`.
const FIRST: u64 = 3;

/// An entry as it was when its batch was fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamEntry {
    /// The name.
    pub name: Name,
    /// Its kind.
    pub kind: FileType,
    /// The node.
    pub ino: Ino,
}

struct Batch {
    /// Cookie of the first entry.
    first: u64,
    entries: Vec<StreamEntry>,
}

/// Where fetching must go on so that a position can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Position {
    /// The entry at this position is here.
    Here,
    /// There is nothing at or behind the position.
    End,
    /// Fetch a batch behind this name; `None` means from the start.
    Fetch(Option<Name>),
}

/// One open directory.
pub struct DirStream {
    /// The directory.
    pub ino: Ino,
    batches: VecDeque<Batch>,
    /// Name before each batch ever fetched, with the cookie of its first entry.
    starts: Vec<(u64, Option<Name>)>,
    complete: Option<u64>,
}

impl DirStream {
    /// A stream at its beginning.
    #[must_use]
    pub fn new(ino: Ino) -> DirStream {
        DirStream { ino, batches: VecDeque::new(), starts: vec![(FIRST, None)], complete: None }
    }

    /// Forgets everything, as rewinddir wants it.
    pub fn rewind(&mut self) {
        *self = DirStream::new(self.ino);
    }

    /// What is at a cookie's position.
    #[must_use]
    pub fn position(&self, cookie: u64) -> Position {
        if self.entry(cookie).is_some() {
            return Position::Here;
        }
        if self.complete.is_some_and(|end| cookie >= end) {
            return Position::End;
        }
        let start = self.starts.iter().rev().find(|(first, _)| *first <= cookie);
        Position::Fetch(start.and_then(|(_, name)| name.clone()))
    }

    /// The entry with this cookie, if its batch is here.
    #[must_use]
    pub fn entry(&self, cookie: u64) -> Option<&StreamEntry> {
        let batch = self.batches.iter().rev().find(|b| b.first <= cookie)?;
        batch.entries.get(usize::try_from(cookie - batch.first).ok()?)
    }

    /// Takes a batch that was fetched behind `after`; a short one is the last.
    pub fn take(&mut self, after: Option<&Name>, entries: Vec<StreamEntry>) {
        let Some(first) =
            self.starts.iter().find(|(_, name)| name.as_ref() == after).map(|(first, _)| *first)
        else {
            return;
        };
        let next = first + entries.len() as u64;
        if entries.len() < READDIR_BATCH {
            self.complete = Some(next);
        } else if let Some(last) = entries.last()
            && !self.starts.iter().any(|(cookie, _)| *cookie == next)
        {
            self.starts.push((next, Some(last.name.clone())));
        }
        self.batches.retain(|batch| batch.first != first);
        let at = self.batches.partition_point(|batch| batch.first < first);
        self.batches.insert(at, Batch { first, entries });
        if self.batches.len() > READDIR_KEPT_BATCHES {
            // The one farthest from what is being read goes.
            if at * 2 > self.batches.len() {
                self.batches.pop_front()
            } else {
                self.batches.pop_back()
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(n: usize) -> Name {
        Name::new(format!("{n:06}").as_bytes()).unwrap()
    }

    fn batch(from: usize, to: usize) -> Vec<StreamEntry> {
        (from..to).map(|n| StreamEntry { name: name(n), kind: FileType::File, ino: Ino(n as u64) }).collect()
    }

    #[test]
    fn a_large_directory_is_read_batch_by_batch() {
        let total = READDIR_BATCH * (READDIR_KEPT_BATCHES + 3) + 5;
        let mut stream = DirStream::new(Ino(1));
        let mut cookie = FIRST;
        let mut seen = 0;
        loop {
            match stream.position(cookie) {
                Position::Here => {
                    assert_eq!(stream.entry(cookie).unwrap().name, name(seen));
                    seen += 1;
                    cookie += 1;
                }
                Position::Fetch(after) => {
                    let from = after
                        .as_ref()
                        .map_or(0, |n| String::from_utf8_lossy(n.as_bytes()).parse::<usize>().unwrap() + 1);
                    stream.take(after.as_ref(), batch(from, total.min(from + READDIR_BATCH)));
                }
                Position::End => break,
            }
        }
        assert_eq!(seen, total);
        assert!(stream.batches.len() <= READDIR_KEPT_BATCHES);
        // Back to an entry whose batch is gone: it is fetched again from the right name.
        assert_eq!(stream.position(FIRST + 1), Position::Fetch(None));
        let third = FIRST + 2 * READDIR_BATCH as u64;
        assert_eq!(stream.position(third + 1), Position::Fetch(Some(name(2 * READDIR_BATCH - 1))));
    }

    #[test]
    fn an_empty_directory_ends_at_once() {
        let mut stream = DirStream::new(Ino(1));
        assert_eq!(stream.position(FIRST), Position::Fetch(None));
        stream.take(None, Vec::new());
        assert_eq!(stream.position(FIRST), Position::End);
    }
}

//! Which files have unflushed writes, in a piece of memory that another process has, too: a number for each file. A
//! process that is killed leaves it as it was. Where there are more files than places only that is noted.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use zest_types::{Ino, limits};
use zest_world::Unflushed;

/// Bytes of a number.
const WIDTH: usize = size_of::<u64>();
/// What stands in the first place when there were too many.
const TOO_MANY: u64 = u64::MAX;

#[derive(Debug, Default)]
struct Places {
    taken: BTreeMap<Ino, usize>,
    free: Vec<usize>,
}

/// The memory, and who has which place in it.
#[derive(Debug)]
pub struct Board {
    file: File,
    places: Mutex<Places>,
}

impl Board {
    /// Reads what an earlier process left: files that had unflushed writes; `None` when there were too many to tell.
    /// They stay noted until this process notes otherwise.
    pub fn open(file: File) -> io::Result<(Board, Option<Vec<Ino>>)> {
        let len = usize::try_from(file.metadata()?.len()).unwrap_or(0);
        let mut bytes = vec![0; len.min((limits::UNFLUSHED_NOTED + 1) * WIDTH)];
        file.read_exact_at(&mut bytes, 0)?;
        let words = bytes.chunks_exact(WIDTH).map(|word| word.try_into().map_or(0, u64::from_ne_bytes));
        let (mut places, mut too_many) = (Places::default(), false);
        for (place, word) in words.enumerate() {
            match (place, word) {
                (0, word) => too_many = word == TOO_MANY,
                (place, 0) => places.free.push(place),
                (place, ino) => drop(places.taken.insert(Ino(ino), place)),
            }
        }
        let known = places.taken.len() + places.free.len();
        places.free.extend(((known + 1)..=limits::UNFLUSHED_NOTED).rev());
        let lost = (!too_many).then(|| places.taken.keys().copied().collect());
        let board = Board { file, places: Mutex::new(places) };
        if too_many {
            board.write(0, 0);
        }
        Ok((board, lost))
    }

    fn write(&self, place: usize, word: u64) {
        let at = (place * WIDTH) as u64;
        if let Err(error) = self.file.write_all_at(&word.to_ne_bytes(), at) {
            tracing::error!("which files have unflushed writes can't be noted: {error}");
        }
    }
}

impl Unflushed for Board {
    fn note(&self, ino: Ino, unflushed: bool) {
        let mut places = self.places.lock();
        match unflushed {
            true if places.taken.contains_key(&ino) => {}
            true => match places.free.pop() {
                Some(place) => {
                    places.taken.insert(ino, place);
                    self.write(place, ino.0);
                }
                None => self.write(0, TOO_MANY),
            },
            false => {
                if let Some(place) = places.taken.remove(&ino) {
                    self.write(place, 0);
                    places.free.push(place);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_noted_is_there_for_the_next_one() {
        let file = tempfile::tempfile().unwrap();
        let (board, lost) = Board::open(file.try_clone().unwrap()).unwrap();
        assert_eq!(lost, Some(Vec::new()));
        for ino in [5, 6, 7, 6] {
            board.note(Ino(ino), true);
        }
        board.note(Ino(5), false);
        board.note(Ino(9), false);
        let (next, lost) = Board::open(file.try_clone().unwrap()).unwrap();
        assert_eq!(lost, Some(vec![Ino(6), Ino(7)]));
        next.note(Ino(8), true);
        next.note(Ino(6), false);
        assert_eq!(Board::open(file).unwrap().1, Some(vec![Ino(7), Ino(8)]));
    }

    #[test]
    fn too_many_are_said_to_be_too_many_once() {
        let file = tempfile::tempfile().unwrap();
        let (board, _) = Board::open(file.try_clone().unwrap()).unwrap();
        (1..=limits::UNFLUSHED_NOTED as u64 + 1).for_each(|ino| board.note(Ino(ino), true));
        assert_eq!(Board::open(file.try_clone().unwrap()).unwrap().1, None);
        let known = Board::open(file).unwrap().1.unwrap();
        assert_eq!(known.len(), limits::UNFLUSHED_NOTED);
    }
}

//! A handle's reads, and what is fetched ahead of them: how far follows from the policy (`zest_data::readahead`), from
//! the store's pace, and from the memory that all streams of the moment share. Where there are so many streams that
//! none can have a block of its own in memory, each fetches only what it reads. Counts what was fetched ahead and what
//! of it was read.

use crate::handles::FileHandle;
use crate::shared::Shared;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use zest_cache::{Count, Prefetch};
use zest_data::crowd::{Crowd, WHILE};
use zest_data::readahead::{Conditions, Readahead};
use zest_types::Ino;
use zest_types::limits::CHUNK_SIZE;

/// One handle's reads so far.
#[derive(Debug, Default)]
pub struct Stream {
    readahead: Readahead,
    /// When it was counted last.
    seen: u64,
    /// What was fetched ahead of it: where it ends in the file, and its bytes.
    ahead: VecDeque<(u64, u64)>,
    /// Whole blocks are worth fetching.
    whole: bool,
}

impl Stream {
    /// Whether the rest of a block will be wanted, and there is room for it until then.
    #[must_use]
    pub fn wants_blocks(&self) -> bool {
        self.whole
    }

    /// Bytes fetched ahead that the reader has passed by now. Those of a stream that broke off were for nothing.
    fn passed(&mut self) -> u64 {
        if !self.readahead.is_stream() {
            self.ahead.clear();
        }
        let (mut bytes, at) = (0, self.readahead.position());
        while let Some((_, more)) = self.ahead.pop_front_if(|(end, _)| *end <= at) {
            bytes += more;
        }
        bytes
    }
}

/// What the streams of a mount share.
#[derive(Debug)]
pub struct Streams {
    /// Blocks that one may have ahead.
    most: u64,
    /// Blocks that all may have ahead.
    share: u64,
    crowd: Mutex<Crowd>,
    count: AtomicU64,
}

impl Streams {
    /// `most` blocks ahead of one, `share` ahead of all.
    #[must_use]
    pub fn new(most: u64, share: u64) -> Streams {
        Streams { most, share, crowd: Mutex::default(), count: AtomicU64::new(1) }
    }

    /// Counts a stream; answers how many blocks it may have in memory.
    fn share_of(&self, seen: &mut u64, now: Duration) -> u64 {
        if *seen != now.as_secs() / WHILE.as_secs() + 1 {
            let mut crowd = self.crowd.lock();
            crowd.note(seen, now);
            self.count.store(crowd.streams(), Ordering::Relaxed);
        }
        self.share / self.count.load(Ordering::Relaxed).max(1)
    }

    /// How many there are at the moment.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

impl Shared {
    /// Where what is known of a file's slices ends: a chunk whose list nobody asked for yet shows nothing that could be
    /// fetched, and must not count as asked for.
    fn known_end(&self, ino: Ino, from: u64, to: u64, now: Duration) -> u64 {
        let mut end = from;
        while end < to {
            let index = end / CHUNK_SIZE;
            let known = u32::try_from(index).is_ok_and(|index| self.views.chunk(ino, index, now).is_some());
            if !known {
                break;
            }
            end = (index + 1).saturating_mul(CHUNK_SIZE);
        }
        end.min(to)
    }

    /// Notes a read and asks for the blocks that will be wanted next.
    pub fn read_ahead(&self, handle: &FileHandle, offset: u64, size: u32) {
        let ino = handle.file.ino;
        let Some(length) = self.attr(ino).map(|attr| attr.length) else { return };
        let (block_size, now) = (self.names.block_size, self.mono());
        let mut stream = handle.stream.lock();
        let share = match stream.readahead.is_stream() {
            true => self.streams.share_of(&mut stream.seen, now),
            false => self.streams.share,
        };
        let most = self.streams.most.min(share);
        let conditions = Conditions { now, block_time: self.meter.block_time(), most };
        let ahead = most.saturating_add(2).saturating_mul(u64::from(block_size));
        let reach = length.min(offset.saturating_add(u64::from(size)).saturating_add(ahead));
        let known = self.known_end(ino, offset, reach, now);
        let wanted = stream.readahead.observe(offset, u64::from(size), known, block_size, &conditions);
        stream.whole = stream.readahead.is_stream() && share > 0;
        let used = stream.passed();
        if used > 0 {
            self.meter.add(Count::AheadUsedBytes, used);
        }
        let Some(links) = self.links.get() else { return };
        for number in wanted {
            let start = number * u64::from(block_size);
            for want in self.missing_blocks(ino, start, u64::from(block_size)) {
                let (block, len) = (want.block, want.block_len);
                stream
                    .ahead
                    .push_back((start.saturating_add(u64::from(block_size)).min(length), u64::from(len)));
                self.meter.add(Count::AheadBytes, u64::from(len));
                let key = self.names.key(block, len);
                links.cache.do_send(Prefetch { block, len, key });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_streams_share_and_too_many_get_nothing() {
        let streams = Streams::new(8, 32);
        let mut seen = vec![0u64; 33];
        assert_eq!(streams.share_of(&mut seen[0], Duration::ZERO), 32);
        let shares: Vec<u64> = seen.iter_mut().map(|one| streams.share_of(one, Duration::ZERO)).collect();
        assert_eq!((shares[1], shares[31], shares[32]), (16, 1, 0));
        assert_eq!(streams.count(), 33);
        assert_eq!(streams.share_of(&mut seen[5], Duration::from_secs(60)), 32, "the others stopped");
    }
}

//! Random writes, seals, commits and reads through [`FileWriter`] and [`ChunkView`], against an array of bytes.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use bytes::Bytes;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use zest_data::block::{BlockId, block_count, block_len, block_ranges};
use zest_data::{Budget, ChunkView, FileWriter, Handover, PendingPiece, Piece, SealReason, WriteError};
use zest_types::limits::{CHUNK_SIZE, PENDING_PARTS, PENDING_SLICES, SLICE_PARTS};
use zest_types::slice::chunk_ranges;
use zest_types::{Errno, Placed, SliceId, SliceRecord, Time};
use zest_world::planted::{Bug, activate};

const BS: u32 = 64 << 10;
/// The test's file lies around the border of its first two chunks.
const BASE: u64 = CHUNK_SIZE - 200_000;
const SPAN: usize = 400_000;

#[derive(Clone, Debug)]
enum Step {
    Write { at: usize, len: usize },
    SealAll,
    SealDue,
    SealLargest,
    Commit,
    Wait(u64),
    Read { at: usize, len: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![4 => 1usize..5_000, 2 => Just(4096usize), 1 => 1usize..150_000];
    prop_oneof![
        6 => (0..SPAN - 150_000, len).prop_map(|(at, len)| Step::Write { at, len }),
        4 => (0usize..90).prop_map(|n| Step::Write { at: n * 4096, len: 4096 }),
        1 => Just(Step::SealAll),
        1 => Just(Step::SealDue),
        1 => Just(Step::SealLargest),
        4 => Just(Step::Commit),
        1 => (0u64..3000).prop_map(Step::Wait),
        3 => (0..SPAN, 1usize..100_000).prop_map(|(at, len)| Step::Read { at, len: len.min(SPAN - at) }),
    ]
}

/// A store without faults and a chunk list without rules.
#[derive(Default)]
struct Below {
    blocks: BTreeMap<BlockId, Bytes>,
    order: VecDeque<SliceId>,
    sealed: BTreeMap<SliceId, Vec<Placed>>,
    chunks: BTreeMap<u32, Vec<SliceRecord>>,
}

impl Below {
    fn take(&mut self, handed: Vec<Handover>) {
        for one in handed {
            match one {
                Handover::Open { slice } => self.order.push_back(slice),
                Handover::Block { slice, index, data } => {
                    assert!(self.order.contains(&slice), "a block of a slice nobody announced");
                    assert!(!self.sealed.contains_key(&slice), "a block behind the seal");
                    let old = self.blocks.insert(BlockId { slice, index }, data);
                    assert!(old.is_none(), "a block was handed over twice");
                }
                Handover::Seal { slice, size, parts, .. } => {
                    let sound = |part: &Placed| {
                        part.record.is_sound() && (part.record.id, part.record.size) == (slice, size)
                    };
                    assert!(!parts.is_empty() && parts.iter().all(sound), "{parts:?}");
                    assert!(parts.len() == 1 || parts.len() <= SLICE_PARTS && size <= BS);
                    for block in 0..block_count(size, BS) {
                        let data = &self.blocks[&BlockId { slice, index: block }];
                        assert_eq!(data.len(), block_len(size, BS, block) as usize);
                    }
                    assert!(self.sealed.insert(slice, parts).is_none());
                }
            }
        }
    }

    /// Commits the oldest slice, if it is sealed.
    fn commit(&mut self) -> Option<SliceId> {
        let id = *self.order.front()?;
        let parts = self.sealed.remove(&id)?;
        self.order.pop_front();
        for part in parts {
            self.chunks.entry(part.index).or_default().push(part.record);
        }
        Some(id)
    }

    fn read(&self, offset: u64, len: u64) -> Vec<u8> {
        let mut out = Vec::new();
        for range in chunk_ranges(offset, len) {
            let view = ChunkView::new(self.chunks.get(&range.index).map_or(&[][..], |list| list));
            for piece in view.pieces(range.pos, range.len) {
                match piece {
                    Piece::Zeros { len } => out.resize(out.len() + len as usize, 0),
                    Piece::Stored { slice, size, off, len } => {
                        for part in block_ranges(slice, size, BS, off, len) {
                            let range = part.range.start as usize..part.range.end as usize;
                            out.extend_from_slice(&self.blocks[&part.block][range]);
                        }
                    }
                }
            }
        }
        out
    }
}

fn read(writer: &FileWriter, below: &Below, offset: u64, len: u64) -> Vec<u8> {
    let pending = writer.pending_pieces(offset, len);
    let mut bytes = below.read(offset, len);
    let mut last = offset;
    for piece in pending {
        assert!(piece.offset >= last, "pieces overlap or are not in order");
        let at = (piece.offset - offset) as usize;
        bytes[at..at + piece.data.len()].copy_from_slice(&piece.data);
        last = piece.offset + piece.data.len() as u64;
    }
    assert!(last <= offset + len);
    bytes
}

fn run(steps: &[Step], limit: u64) {
    let budget = Budget::new(limit);
    let mut writer = FileWriter::new(BS, budget.clone());
    let (mut below, mut model, mut length) = (Below::default(), vec![0u8; SPAN], 0u64);
    let (mut next_id, mut mono) = (0u64, Duration::ZERO);
    for (n, step) in steps.iter().enumerate() {
        match *step {
            Step::Write { at, len } => {
                let data: Vec<u8> = (0..len).map(|i| (n * 31 + i * 7 + 1) as u8).collect();
                let mut ids = || {
                    next_id += 1;
                    Some(SliceId(next_id))
                };
                match writer.write(BASE + at as u64, &data, Time::new(n as i64, 0), mono, &mut ids) {
                    Ok(handed) => {
                        below.take(handed);
                        model[at..at + len].copy_from_slice(&data);
                        length = length.max(BASE + (at + len) as u64);
                        assert_eq!(writer.mtime(), Some(Time::new(n as i64, 0)));
                    }
                    Err(error) => {
                        assert_eq!(error, WriteError::Full);
                        below.take(writer.seal_all(SealReason::Pressure));
                    }
                }
            }
            Step::SealAll => below.take(writer.seal_all(SealReason::Flush)),
            Step::SealDue => below.take(writer.seal_due(mono)),
            Step::SealLargest => below.take(writer.seal_all(SealReason::Pressure)),
            Step::Commit => {
                if let Some(id) = below.commit() {
                    writer.committed(id);
                }
            }
            Step::Wait(ms) => mono += Duration::from_millis(ms),
            Step::Read { at, len } => {
                let seen = read(&writer, &below, BASE + at as u64, len as u64);
                assert!(seen == model[at..at + len], "step {n}: a read of {len} at {at} differs");
            }
        }
        assert_eq!(budget.used(), writer.charged());
        assert!(budget.used() <= limit);
    }
    assert!(read(&writer, &below, BASE, SPAN as u64) == model, "the file differs before the flush");
    below.take(writer.seal_all(SealReason::Flush));
    assert_eq!(writer.open_slices(), 0);
    while let Some(id) = below.commit() {
        writer.committed(id);
    }
    assert!(writer.is_clean() && below.order.is_empty());
    assert_eq!((budget.used(), writer.length()), (0, None));
    assert!(below.read(BASE, SPAN as u64) == model, "the stored file differs");
    let stored = below
        .chunks
        .iter()
        .flat_map(|(index, list)| list.iter().map(move |r| u64::from(*index) * CHUNK_SIZE + r.end()));
    assert_eq!(stored.max().unwrap_or(0), length);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn reads_see_every_write_before_and_after_commit(steps in prop::collection::vec(step(), 1..60)) {
        run(&steps, 1 << 30);
    }

    #[test]
    fn a_small_budget_refuses_but_breaks_nothing(steps in prop::collection::vec(step(), 1..60)) {
        run(&steps, 300_000);
    }
}

/// Slice numbers 1, 2, 3, …
fn counter() -> impl FnMut() -> Option<SliceId> {
    let mut next = 0;
    move || {
        next += 1;
        Some(SliceId(next))
    }
}

const T: Time = Time::new(7, 0);
const ZERO: Duration = Duration::ZERO;

#[test]
fn a_stream_becomes_full_blocks_of_one_slice_and_is_copied_once() {
    let mut writer = FileWriter::new(BS, Budget::new(1 << 30));
    let mut ids = counter();
    let mut handed = Vec::new();
    for n in 0..10u64 {
        handed.extend(writer.write(n * 32_768, &[n as u8; 32_768], T, ZERO, &mut ids).unwrap());
    }
    assert_eq!(handed.len(), 6, "one slice begins, five blocks are full");
    let Handover::Block { data, index: 4, .. } = &handed[5] else { panic!("{:?}", handed[5]) };
    let seen = writer.pending_pieces(4 * 65_536, 65_536);
    assert_eq!(seen[0].data.as_ptr(), data.as_ptr(), "reads share the block's memory");
    assert_eq!(writer.seal_all(SealReason::Flush).len(), 1, "nothing is left but the seal");
}

#[test]
fn a_slice_ends_with_its_chunk() {
    let mut writer = FileWriter::new(BS, Budget::new(1 << 30));
    let handed = writer.write(CHUNK_SIZE - 10, &[1; 30], T, ZERO, &mut counter()).unwrap();
    let seals: Vec<_> = handed
        .iter()
        .filter_map(|one| match one {
            Handover::Seal { parts, reason, .. } => Some((parts.clone(), *reason)),
            _ => None,
        })
        .collect();
    let record = SliceRecord::whole((CHUNK_SIZE - 10) as u32, SliceId(1), 10);
    assert_eq!(seals, [(vec![Placed { index: 0, record }], SealReason::Complete)]);
    assert_eq!((writer.open_slices(), writer.length()), (1, Some(CHUNK_SIZE + 20)));
}

#[test]
fn idle_and_old_slices_are_due() {
    let mut writer = FileWriter::new(BS, Budget::new(1 << 30));
    let mut ids = counter();
    let ms = Duration::from_millis;
    writer.write(0, b"a", T, ms(0), &mut ids).unwrap();
    assert!(writer.seal_due(ms(999)).is_empty());
    for n in 1..6 {
        writer.write(n, b"b", T, ms(n * 900), &mut ids).unwrap();
        assert!(writer.seal_due(ms(n * 900 + 1)).is_empty());
    }
    assert_eq!(writer.seal_due(ms(5_000)).len(), 2, "five seconds old");
    writer.write(100, b"c", T, ms(6_000), &mut ids).unwrap();
    assert_eq!(writer.seal_due(ms(7_000)).len(), 2, "a second idle");
}

#[test]
fn only_the_newest_slice_is_open() {
    let mut writer = FileWriter::new(BS, Budget::new(1 << 30));
    let mut ids = counter();
    for n in 0..100u64 {
        writer.write(n * 10_000, &[1; 100], T, ZERO, &mut ids).unwrap();
        assert!(writer.open_slices() <= 1);
    }
}

#[test]
fn waiting_slices_are_bounded() {
    let mut writer = FileWriter::new(BS, Budget::new(1 << 30));
    let mut ids = counter();
    let mut write = |writer: &mut FileWriter, n| writer.write(n * 10_000, b"x", T, ZERO, &mut ids);
    for n in 0..PENDING_SLICES as u64 {
        write(&mut writer, n).unwrap();
        writer.seal_all(SealReason::Flush);
    }
    assert_eq!(write(&mut writer, 2000), Err(WriteError::Full));
    assert_eq!(writer.pending_slices(), PENDING_SLICES);
    writer.committed(SliceId(1));
    assert!(write(&mut writer, 2000).is_ok());
}

#[test]
fn waiting_places_are_bounded() {
    let mut writer = FileWriter::new(BS, Budget::new(1 << 30));
    let mut ids = counter();
    let mut write = |writer: &mut FileWriter, n| writer.write(n * 10_000, b"x", T, ZERO, &mut ids);
    for n in 0..PENDING_PARTS as u64 {
        write(&mut writer, n).unwrap();
    }
    assert_eq!(write(&mut writer, 0), Err(WriteError::Full));
    assert_eq!(writer.pending_slices(), PENDING_PARTS / SLICE_PARTS);
    writer.committed(SliceId(1));
    assert!(write(&mut writer, 0).is_ok());
}

/// A slice, its size, and its places in the chunk, in the slice, and how long they are.
type Sealed = (u64, u32, Vec<(u32, u32, u32)>);

/// Slices as they were sealed.
fn sealed(handed: &[Handover]) -> Vec<Sealed> {
    let place = |part: &Placed| (part.record.pos, part.record.off, part.record.len);
    let seal = |one: &Handover| match one {
        Handover::Seal { slice, size, parts, .. } => {
            Some((slice.0, *size, parts.iter().map(place).collect()))
        }
        _ => None,
    };
    handed.iter().filter_map(seal).collect()
}

#[test]
fn small_writes_here_and_there_share_a_slice_of_one_block() {
    let mut writer = FileWriter::new(BS, Budget::new(1 << 30));
    let mut ids = counter();
    let mut handed = Vec::new();
    for (pos, len) in [(900_000, 100), (5, 10), (15, 10), (20, 3), (900_050, 10), (7, 65_000)] {
        handed.extend(writer.write(pos, &vec![1; len], T, ZERO, &mut ids).unwrap());
    }
    assert_eq!(handed, [Handover::Open { slice: SliceId(1) }]);
    handed.extend(writer.write(200_000, &[2; 407], T, ZERO, &mut ids).unwrap());
    let places = vec![(900_000, 0, 100), (5, 100, 20), (900_050, 120, 10), (7, 130, 65_000)];
    assert_eq!(sealed(&handed), [(1, 65_130, places)], "the block has no room for the last one");
    handed.clear();
    for n in 0..128u64 {
        handed.extend(writer.write(n * 512 * 7, &[3; 512], T, ZERO, &mut ids).unwrap());
    }
    let first = sealed(&handed).remove(0);
    assert_eq!(
        (first.0, first.1, first.2.len()),
        (2, 407 + 127 * 512, 128),
        "full, but for what has no room"
    );
}

#[test]
fn large_writes_and_those_behind_a_full_block_have_a_slice_of_their_own() {
    let mut writer = FileWriter::new(BS, Budget::new(1 << 30));
    let mut ids = counter();
    let mut write = |pos, len| writer.write(pos, &vec![1; len], T, ZERO, &mut ids).unwrap();
    write(0, 100);
    let handed = write(1_000_000, 70_000);
    assert_eq!(sealed(&handed), [(1, 100, vec![(0, 0, 100)])], "too large to be packed");
    let handed = write(500_000, 10);
    assert_eq!(sealed(&handed), [(2, 70_000, vec![(1_000_000, 0, 70_000)])], "behind a full block");
}

#[test]
fn a_refused_write_leaves_no_trace() {
    let budget = Budget::new(10_000);
    let mut writer = FileWriter::new(BS, budget.clone());
    assert_eq!(writer.write(0, &[1; 20_000], T, ZERO, &mut counter()), Err(WriteError::Full));
    assert_eq!(writer.write(0, b"abc", T, ZERO, &mut || None), Err(WriteError::NoSliceId));
    assert_eq!(writer.write(u64::MAX, b"abc", T, ZERO, &mut counter()), Err(WriteError::TooLarge));
    assert!(writer.is_clean());
    assert_eq!(budget.used(), 0);
}

#[test]
fn an_error_is_told_once_and_its_bytes_are_gone() {
    let mut writer = FileWriter::new(BS, Budget::new(1 << 20));
    writer.write(0, b"abc", T, ZERO, &mut counter()).unwrap();
    writer.seal_all(SealReason::Flush);
    writer.failed(SliceId(1), Errno::ENOSPC);
    assert!(!writer.is_clean());
    assert_eq!(writer.take_error(), Some(Errno::ENOSPC));
    assert_eq!(writer.take_error(), None);
    assert!(writer.is_clean() && writer.pending_pieces(0, 3).is_empty());
}

#[test]
fn an_id_left_over_serves_the_next_write() {
    let mut writer = FileWriter::new(BS, Budget::new(1 << 20));
    let mut given = 0;
    let mut one = || {
        given += 1;
        (given == 1).then_some(SliceId(77))
    };
    assert_eq!(writer.write(CHUNK_SIZE - 1, b"ab", T, ZERO, &mut one), Err(WriteError::NoSliceId));
    let handed = writer.write(0, b"ab", T, ZERO, &mut || None).unwrap();
    assert_eq!(handed, [Handover::Open { slice: SliceId(77) }]);
}

#[test]
fn the_planted_bug_hides_unflushed_bytes() {
    let mut writer = FileWriter::new(BS, Budget::new(1 << 20));
    writer.write(5, b"abc", T, ZERO, &mut counter()).unwrap();
    let expected = [PendingPiece { offset: 6, data: Bytes::from_static(b"bc") }];
    assert_eq!(writer.pending_pieces(6, 100), expected);
    activate(Some(Bug::UnflushedReadMissed));
    assert_eq!(writer.pending_pieces(6, 100), []);
    activate(None);
}

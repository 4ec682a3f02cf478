//! The upload queue alone: cases, and random orders of everything.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use zest_data::BlockId;
use zest_data::block::block_count;
use zest_types::limits::SLICE_PARTS;
use zest_types::{Errno, Ino, Placed, SliceId, SliceRecord, Time};
use zest_uploader::queue::{Effect, Sealed, Token, UploadQueue};
use zest_world::planted::{Bug, activate};

const BS: u32 = 100;
const FILE: Ino = Ino(1);

fn sealed(slice: u64, size: u32) -> Sealed {
    let record = SliceRecord::whole(0, SliceId(slice), size);
    Sealed { slice: SliceId(slice), size, parts: vec![Placed { index: 0, record }], mtime: Time::default() }
}

/// A commit of these, with their sizes.
fn commit(slices: &[(u64, u32)]) -> Effect<()> {
    let parts = slices.iter().flat_map(|(slice, size)| sealed(*slice, *size).parts).collect();
    Effect::Commit { ino: FILE, parts, mtime: Time::default() }
}

fn block(slice: u64, index: u32) -> BlockId {
    BlockId { slice: SliceId(slice), index }
}

fn put(slice: u64, index: u32) -> Effect<()> {
    Effect::Put { ino: FILE, block: block(slice, index), data: () }
}

#[test]
fn a_later_slice_waits_for_an_earlier_one_that_is_still_open() {
    let mut queue = UploadQueue::new(BS, 4);
    queue.open(FILE, SliceId(1));
    queue.open(FILE, SliceId(2));
    assert_eq!(queue.block(FILE, block(2, 0), ()), [put(2, 0)]);
    assert_eq!(queue.seal(FILE, sealed(2, 10)), []);
    assert_eq!(queue.put_done(FILE, block(2, 0), Ok(())), []);
    assert_eq!(queue.drain(FILE, 9), []);
    assert_eq!(queue.block(FILE, block(1, 0), ()), [put(1, 0)]);
    assert_eq!(queue.seal(FILE, sealed(1, 10)), []);
    assert_eq!(queue.put_done(FILE, block(1, 0), Ok(())), [commit(&[(1, 10), (2, 10)])]);
    let committed = |slice| Effect::Committed { ino: FILE, slice: SliceId(slice) };
    let then = queue.commit_done(FILE, SliceId(2), Ok(()));
    assert_eq!(then, [committed(1), committed(2), Effect::Drained(9)]);
    assert!(queue.is_idle());
}

/// Slices 1 to `n`, each of one durable block but those in `not`.
fn durable(queue: &mut UploadQueue<()>, n: u64, not: &[u64]) -> Vec<Effect<()>> {
    let mut effects = Vec::new();
    for slice in 1..=n {
        queue.open(FILE, SliceId(slice));
        effects.extend(queue.block(FILE, block(slice, 0), ()));
        effects.extend(queue.seal(FILE, sealed(slice, 10)));
    }
    for slice in (1..=n).filter(|slice| !not.contains(slice)) {
        effects.extend(queue.put_done(FILE, block(slice, 0), Ok(())));
    }
    effects.retain(|effect| !matches!(effect, Effect::Put { .. }));
    effects
}

#[test]
fn what_became_durable_meanwhile_is_committed_together_up_to_the_first_that_is_not() {
    let mut queue = UploadQueue::new(BS, 100);
    assert_eq!(durable(&mut queue, 6, &[5]), [commit(&[(1, 10)])]);
    let then = queue.commit_done(FILE, SliceId(1), Ok(()));
    assert_eq!(then.last(), Some(&commit(&[(2, 10), (3, 10), (4, 10)])));
    assert_eq!(queue.put_done(FILE, block(5, 0), Ok(())), [], "one commit at a time");
    assert_eq!(queue.commit_done(FILE, SliceId(3), Ok(())), [], "an answer to something else");
    let then = queue.commit_done(FILE, SliceId(4), Ok(()));
    assert_eq!(then.last(), Some(&commit(&[(5, 10), (6, 10)])));
}

#[test]
fn a_commit_has_a_bounded_number_of_records() {
    let mut queue: UploadQueue<()> = UploadQueue::new(BS, 100);
    let many = |slice, parts: usize| {
        let one = sealed(slice, 10);
        Sealed { parts: one.parts.iter().copied().cycle().take(parts).collect(), ..one }
    };
    queue.open(FILE, SliceId(1));
    for (slice, parts) in [(2, SLICE_PARTS), (3, SLICE_PARTS / 2), (4, SLICE_PARTS / 2), (5, 1)] {
        queue.block(FILE, block(slice, 0), ());
        queue.seal(FILE, many(slice, parts));
        queue.put_done(FILE, block(slice, 0), Ok(()));
    }
    queue.block(FILE, block(1, 0), ());
    queue.seal(FILE, sealed(1, 10));
    queue.put_done(FILE, block(1, 0), Ok(()));
    for (last, parts) in [(1, SLICE_PARTS), (2, SLICE_PARTS), (4, 1)] {
        let then = queue.commit_done(FILE, SliceId(last), Ok(()));
        let Some(Effect::Commit { parts: records, .. }) = then.last() else { panic!("{then:?}") };
        assert_eq!(records.len(), parts, "behind slice {last}");
    }
}

#[test]
fn slices_that_find_no_room_together_are_tried_one_by_one() {
    let mut queue = UploadQueue::new(BS, 100);
    let committed = |slice| Effect::Committed { ino: FILE, slice: SliceId(slice) };
    durable(&mut queue, 4, &[]);
    let then = queue.commit_done(FILE, SliceId(1), Ok(()));
    assert_eq!(then, [committed(1), commit(&[(2, 10), (3, 10), (4, 10)])]);
    assert_eq!(queue.commit_done(FILE, SliceId(4), Err(Errno::ENOSPC)), [commit(&[(2, 10)])]);
    assert_eq!(queue.commit_done(FILE, SliceId(2), Ok(())), [committed(2), commit(&[(3, 10)])]);
    let then = queue.commit_done(FILE, SliceId(3), Err(Errno::ENOSPC));
    let gone = Effect::Delete { blocks: vec![(block(3, 0), 10)] };
    let failed = Effect::Failed { ino: FILE, slice: SliceId(3), error: Errno::ENOSPC };
    assert_eq!(then, [gone, failed, commit(&[(4, 10)])]);
    assert_eq!(queue.commit_done(FILE, SliceId(4), Ok(())), [committed(4)]);
    assert!(queue.is_idle());
}

#[test]
fn a_failed_slice_waits_for_its_other_uploads_before_it_is_removed() {
    let mut queue = UploadQueue::new(BS, 2);
    queue.open(FILE, SliceId(1));
    for index in 0..4 {
        queue.block(FILE, block(1, index), ());
    }
    assert_eq!(queue.put_done(FILE, block(1, 0), Err(Errno::EIO)), [], "the other blocks are not tried");
    assert_eq!(queue.seal(FILE, sealed(1, 350)), []);
    let blocks = vec![(block(1, 0), 100), (block(1, 1), 100)];
    let failed = Effect::Failed { ino: FILE, slice: SliceId(1), error: Errno::EIO };
    assert_eq!(queue.put_done(FILE, block(1, 1), Ok(())), [Effect::Delete { blocks }, failed]);
    assert!(queue.is_idle());
}

#[test]
fn draining_does_not_wait_for_what_comes_later() {
    let mut queue = UploadQueue::new(BS, 2);
    queue.open(FILE, SliceId(1));
    queue.block(FILE, block(1, 0), ());
    queue.seal(FILE, sealed(1, 1));
    assert_eq!(queue.drain(FILE, 5), []);
    queue.open(FILE, SliceId(2));
    queue.put_done(FILE, block(1, 0), Ok(()));
    assert!(queue.commit_done(FILE, SliceId(1), Ok(())).contains(&Effect::Drained(5)));
    assert_eq!(queue.drain(Ino(3), 6), [Effect::Drained(6)]);
}

#[test]
fn answers_nobody_waits_for_change_nothing() {
    let mut queue: UploadQueue<()> = UploadQueue::new(BS, 2);
    assert_eq!(queue.commit_done(FILE, SliceId(1), Ok(())), []);
    assert_eq!(queue.put_done(FILE, block(1, 0), Err(Errno::EIO)), []);
    queue.open(FILE, SliceId(1));
    assert_eq!(queue.commit_done(FILE, SliceId(1), Ok(())), []);
    assert_eq!((queue.puts(), queue.is_idle()), (0, false));
}

#[test]
fn planted_bugs_do_what_they_say() {
    let until_seal = || {
        let mut queue = UploadQueue::new(BS, 2);
        queue.open(FILE, SliceId(1));
        queue.block(FILE, block(1, 0), ());
        let then = queue.seal(FILE, sealed(1, 10));
        (queue, then)
    };
    let commit = commit(&[(1, 10)]);
    activate(Some(Bug::CommitBeforeUpload));
    let (mut queue, then) = until_seal();
    assert_eq!(then, std::slice::from_ref(&commit), "while the block is under way");
    queue.commit_done(FILE, SliceId(1), Ok(()));
    queue.put_done(FILE, block(1, 0), Ok(()));
    assert!(queue.is_idle());
    activate(Some(Bug::SwallowedUploadError));
    let (mut queue, then) = until_seal();
    assert_eq!(then, []);
    assert_eq!(queue.put_done(FILE, block(1, 0), Err(Errno::EIO)), std::slice::from_ref(&commit));
    activate(None);
    let (mut queue, _) = until_seal();
    assert!(!queue.put_done(FILE, block(1, 0), Err(Errno::EIO)).contains(&commit));
}

/// One slice to come: its file and its size in bytes.
type Plan = Vec<(u64, u32)>;

/// Everything seen so far, and what may happen next.
#[derive(Default)]
struct Driver {
    to_send: Vec<VecDeque<Send>>,
    puts: Vec<(Ino, BlockId)>,
    commits: Vec<(Ino, Vec<Placed>)>,
    durable: BTreeSet<BlockId>,
    bad: BTreeSet<BlockId>,
    ended: BTreeMap<Ino, Vec<u64>>,
    deleted: BTreeSet<BlockId>,
    drained: BTreeSet<Token>,
    failed: BTreeSet<u64>,
}

enum Send {
    Open(Ino, u64),
    Block(Ino, BlockId),
    Seal(Ino, Sealed),
}

impl Driver {
    fn take(&mut self, effects: Vec<Effect<()>>) {
        for effect in effects {
            match effect {
                Effect::Put { ino, block, .. } => self.puts.push((ino, block)),
                Effect::Commit { ino, parts, .. } => {
                    for record in parts.iter().map(|part| part.record) {
                        for index in 0..block_count(record.size, BS) {
                            let block = BlockId { slice: record.id, index };
                            assert!(self.durable.contains(&block), "commit before {block:?} is durable");
                        }
                    }
                    assert!(
                        self.commits.iter().all(|(other, _)| *other != ino),
                        "two commits of a file at once"
                    );
                    self.commits.push((ino, parts));
                }
                Effect::Committed { ino, slice } => self.ended.entry(ino).or_default().push(slice.0),
                Effect::Failed { ino, slice, .. } => {
                    self.failed.insert(slice.0);
                    self.ended.entry(ino).or_default().push(slice.0);
                }
                Effect::Delete { blocks } => {
                    for (block, len) in blocks {
                        assert!(len > 0 && self.deleted.insert(block));
                        assert!(
                            self.puts.iter().all(|(_, put)| put.slice != block.slice),
                            "removed too early"
                        );
                    }
                }
                Effect::Drained(token) => assert!(self.drained.insert(token)),
            }
        }
    }

    /// One random thing that can happen; `false` when nothing is left.
    fn go(&mut self, queue: &mut UploadQueue<()>, pick: usize) -> bool {
        self.to_send.retain(|line| !line.is_empty());
        let choices = self.to_send.len() + self.puts.len() + self.commits.len();
        if choices == 0 {
            return false;
        }
        let mut at = pick % choices;
        if at < self.to_send.len() {
            match self.to_send[at].pop_front().unwrap() {
                Send::Open(ino, slice) => queue.open(ino, SliceId(slice)),
                Send::Block(ino, block) => self.take(queue.block(ino, block, ())),
                Send::Seal(ino, sealed) => self.take(queue.seal(ino, sealed)),
            }
            return true;
        }
        at -= self.to_send.len();
        if at < self.puts.len() {
            let (ino, block) = self.puts.remove(at);
            let result = if self.bad.contains(&block) { Err(Errno::EIO) } else { Ok(()) };
            if result.is_ok() {
                self.durable.insert(block);
            }
            self.take(queue.put_done(ino, block, result));
            return true;
        }
        let (ino, parts) = self.commits.remove(at - self.puts.len());
        let answer = match pick % 14 {
            0 => Err(Errno::ENOENT),
            7 => Err(Errno::ENOSPC),
            _ => Ok(()),
        };
        self.take(queue.commit_done(ino, parts.last().unwrap().record.id, answer));
        true
    }
}

/// Messages of each file in a legal order: slices open in order, blocks in order, seals at the end of each, but
/// slices of a file interleaved as `mix` says.
fn messages(plan: &Plan, mix: &[usize]) -> Vec<VecDeque<Send>> {
    let mut files: BTreeMap<Ino, VecDeque<Send>> = BTreeMap::new();
    let mut open: BTreeMap<Ino, Vec<(u64, u32, u32)>> = BTreeMap::new();
    let mut mix = mix.iter().copied().cycle();
    for (n, &(file, size)) in plan.iter().enumerate() {
        let (ino, slice) = (Ino(file), n as u64 + 1);
        let out = files.entry(ino).or_default();
        out.push_back(Send::Open(ino, slice));
        let slices = open.entry(ino).or_default();
        slices.push((slice, size, 0));
        for _ in 0..mix.next().unwrap_or(0) % 6 {
            let at = mix.next().unwrap_or(0) % slices.len().max(1);
            step(ino, slices, at, out);
        }
    }
    for (ino, mut slices) in open {
        while !slices.is_empty() {
            let at = mix.next().unwrap_or(0) % slices.len();
            step(ino, &mut slices, at, files.get_mut(&ino).unwrap());
        }
    }
    files.into_values().collect()
}

fn step(ino: Ino, slices: &mut Vec<(u64, u32, u32)>, at: usize, out: &mut VecDeque<Send>) {
    let Some((slice, size, next)) = slices.get_mut(at) else { return };
    if *next < block_count(*size, BS) {
        out.push_back(Send::Block(ino, block(*slice, *next)));
        *next += 1;
    } else {
        out.push_back(Send::Seal(ino, sealed(*slice, *size)));
        slices.remove(at);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_order_every_slice_ends_once_in_its_files_order(
        plan in prop::collection::vec((1u64..4, 1u32..500), 1..25),
        mix in prop::collection::vec(0usize..1000, 1..40),
        picks in prop::collection::vec(any::<usize>(), 1..200),
        bad in prop::collection::btree_set((1u64..25, 0u32..5), 0..4),
        max in 1usize..6,
    ) {
        let mut queue = UploadQueue::new(BS, max);
        let bad = bad.into_iter().map(|(slice, index)| block(slice, index)).collect();
        let mut driver = Driver { to_send: messages(&plan, &mix), bad, ..Driver::default() };
        for (n, pick) in picks.iter().cycle().enumerate().take(100_000) {
            if n % 40 == 39 {
                driver.take(queue.drain(Ino(n as u64 % 4), n as Token));
            } else if n % 40 == 20 {
                driver.take(queue.drain_all(n as Token));
            } else if !driver.go(&mut queue, *pick) {
                break;
            }
            prop_assert!(queue.puts() <= max && driver.puts.len() == queue.puts());
        }
        driver.take(queue.drain_all(Token::MAX));
        prop_assert!(queue.is_idle(), "{queue:?}");
        prop_assert!(driver.drained.contains(&Token::MAX));
        for file in 1..4 {
            let expected: Vec<u64> =
                (1..).zip(&plan).filter(|(_, (ino, _))| *ino == file).map(|(slice, _)| slice).collect();
            let ended = driver.ended.remove(&Ino(file)).unwrap_or_default();
            prop_assert_eq!(ended, expected);
        }
        for (slice, (_, size)) in (1..).zip(&plan) {
            let hit = driver.bad.iter().any(|b| b.slice.0 == slice && b.index < block_count(*size, BS));
            prop_assert!(!hit || driver.failed.contains(&slice), "slice {slice} had a bad block");
        }
    }
}

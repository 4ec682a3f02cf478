//! Compaction of a volume at rest and under others' hands: what a chunk shows is the same before and after, also when
//! it ends at any moment, and what it replaced or wrote in vain goes.

use super::rig::{BLOCK, NOW, Rig, run};
use bytes::Bytes;
use futures::FutureExt;
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use zest_data::BlockCodec;
use zest_data::block::{block_len, block_ranges};
use zest_metadata::{Key, Record};
use zest_types::overlay::visible;
use zest_types::{FileType, Ino, SliceId, SliceRecord};
use zest_upkeep::gc::{Wish, collect};
use zest_upkeep::reclaim::overdue;
use zest_upkeep::shorten::{Shortened, shorten_all};
use zest_upkeep::whole::Whole;
use zest_world::objects::ObjectMeta;
use zest_world::{BoxFuture, ObjectError, Objects, World};

const FILE: Ino = Ino(10);

type OnPut = Box<dyn FnMut() + Send>;

/// A store that answers so many requests and then none, as a machine that dies; and that lets something happen when
/// something is written.
struct Dying {
    inner: Arc<dyn Objects>,
    left: AtomicI64,
    on_put: Mutex<Option<OnPut>>,
}

impl Dying {
    fn answers(&self) -> bool {
        self.left.fetch_sub(1, Ordering::Relaxed) > 0
    }
}

impl Objects for Dying {
    fn put(&self, key: &str, data: Bytes) -> BoxFuture<'static, Result<(), ObjectError>> {
        if let Some(happens) = self.on_put.lock().as_mut() {
            happens();
        }
        match self.answers() {
            true => self.inner.put(key, data),
            false => Box::pin(std::future::pending()),
        }
    }

    fn get(&self, key: &str, range: Option<Range<u64>>) -> BoxFuture<'static, Result<Bytes, ObjectError>> {
        self.inner.get(key, range)
    }

    fn delete(&self, key: &str) -> BoxFuture<'static, Result<(), ObjectError>> {
        match self.answers() {
            true => self.inner.delete(key),
            false => Box::pin(std::future::pending()),
        }
    }

    fn list(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<ObjectMeta>, ObjectError>> {
        self.inner.list(prefix, after, limit)
    }
}

fn dying(rig: &Rig, left: i64, on_put: Option<OnPut>) -> Whole {
    let inner = Arc::clone(&rig.whole.world.objects);
    let objects = Arc::new(Dying { inner, left: AtomicI64::new(left), on_put: Mutex::new(on_put) });
    Whole { world: World { objects, ..rig.whole.world.clone() }, ..rig.whole.clone() }
}

fn codec() -> Arc<BlockCodec> {
    Arc::new(BlockCodec::plain())
}

fn byte(slice: u64, at: u32) -> u8 {
    (slice * 31 + u64::from(at) * 7 + u64::from(at / 251)) as u8
}

/// A slice in the store, each with other bytes.
fn fill(rig: &Rig, slice: u64, size: u32) {
    for (block, key) in rig.whole.names.of_slice(SliceId(slice), size) {
        let start = block.index * BLOCK;
        let len = block_len(size, BLOCK, block.index);
        let data: Vec<u8> = (start..start + len).map(|at| byte(slice, at)).collect();
        rig.shelf.objects.lock().insert(key, (data.into(), NOW));
    }
}

/// The records of the chunk, and the bytes they show.
fn shown(rig: &Rig) -> (Vec<SliceRecord>, Vec<u8>) {
    let Some(Record::Slices(list)) = rig.get(&Key::Chunk(FILE, 0)) else { return Default::default() };
    let mut bytes = Vec::new();
    for piece in visible(&list) {
        bytes.resize(piece.pos as usize, 0);
        if piece.id.is_zeros() {
            bytes.resize(bytes.len() + piece.len as usize, 0);
            continue;
        }
        for part in block_ranges(piece.id, piece.size, BLOCK, piece.off, piece.len) {
            let key = rig.whole.names.key(part.block, part.block_len);
            let objects = rig.shelf.objects.lock();
            let (data, _) = objects.get(&key).unwrap_or_else(|| panic!("{key} is gone"));
            bytes.extend_from_slice(&data[part.range.start as usize..part.range.end as usize]);
        }
    }
    (list, bytes)
}

/// A file of eight overlapping slices with a hole, over three blocks.
fn rig() -> Rig {
    let rig = Rig::new(0);
    rig.node(1, "f", FILE.0, FileType::File, 2 * u64::from(BLOCK) + 5000);
    let mut list = Vec::new();
    for n in 0..8u32 {
        let (slice, len) = (u64::from(n) + 1, BLOCK / 3 + n * 100);
        list.push(SliceRecord::whole(n * BLOCK / 4 + if n > 5 { 3000 } else { 0 }, SliceId(slice), len));
        fill(&rig, slice, len);
    }
    list.push(SliceRecord::zeros(5000, 700));
    // One slice shows twice, and so has two references.
    let again = SliceRecord { off: 10, len: 100, ..list[1] };
    list.push(SliceRecord { pos: 20_000, ..again });
    rig.put(Key::SliceRef { id: SliceId(2), size: list[1].size }, Record::Count(1));
    rig.put(Key::Chunk(FILE, 0), Record::Slices(list));
    rig
}

fn compacted(rig: &Rig, whole: &Whole, delayed: bool) -> Shortened {
    let done = run(shorten_all(whole, &codec(), delayed, 3)).unwrap();
    assert_eq!(done.left, 0, "{done:?}");
    assert_eq!(shown(rig).0.len(), 1, "{done:?}");
    done
}

#[test]
fn a_chunk_shows_the_same_afterwards_and_what_was_replaced_goes() {
    let rig = rig();
    let (list, before) = shown(&rig);
    let done = compacted(&rig, &rig.whole, false);
    assert_eq!((done.chunks, done.records), (1, list.len() as u64));
    assert_eq!(shown(&rig).1, before);
    assert!((1..9).all(|slice| rig.stored(slice) == 0), "replaced slices are still there");
    assert_eq!(rig.get(&Key::SliceRef { id: SliceId(2), size: list[1].size }), None);
    let again = run(shorten_all(&rig.whole, &codec(), false, 3)).unwrap();
    assert_eq!(again, Shortened::default());
    // Nothing is left that nobody needs, and no counter.
    let wish = Wish { delete: false, fresh_secs: -1, threads: 1 };
    let report = run(collect(&rig.whole, wish)).unwrap();
    assert_eq!((report.scanned.objects, report.valid.objects), (3, 3), "{report:?}");
    assert_eq!(rig.get(&Key::SliceRef { id: shown(&rig).0[0].id, size: shown(&rig).0[0].size }), None);
}

#[test]
fn with_trash_what_was_replaced_stays_until_it_is_due() {
    let rig = rig();
    let (_, before) = shown(&rig);
    compacted(&rig, &rig.whole, true);
    assert_eq!(shown(&rig).1, before);
    assert!((1..9).all(|slice| rig.stored(slice) > 0), "readers of the old list need them");
    let delayed = |rig: &Rig| {
        let scan = zest_metadata::Scan::Delayed { limit: 10 };
        run(rig.whole.engine.scan(&scan)).unwrap()
    };
    assert_eq!(delayed(&rig).len(), 1);
    assert_eq!(run(overdue(&rig.whole, 1)).unwrap().slices, 0);
    let (key, record) = delayed(&rig).remove(0);
    let Key::DelayedSlices { stamp, id } = key else { panic!("{key:?}") };
    rig.remove(Key::DelayedSlices { stamp, id });
    rig.put(Key::DelayedSlices { stamp: stamp - 86_401, id }, record);
    assert_eq!(run(overdue(&rig.whole, 1)).unwrap().slices, 8);
    assert!((1..9).all(|slice| rig.stored(slice) == 0));
    assert_eq!(shown(&rig).1, before);
}

#[test]
fn an_end_at_any_moment_loses_nothing() {
    for delayed in [false, true] {
        let mut ended = 0;
        for left in 0..40 {
            let rig = rig();
            let (_, before) = shown(&rig);
            // Everything else answers at once: what does not end has come to the store's last answer.
            let whole = dying(&rig, left, None);
            let over = shorten_all(&whole, &codec(), delayed, 2).now_or_never();
            ended += i32::from(over.is_none());
            assert_eq!(shown(&rig).1, before, "after {left} answers of the store");
            compacted_later(&rig, &before, delayed);
            if over.is_some() {
                break;
            }
        }
        assert!(ended > if delayed { 2 } else { 5 }, "it ended {ended} times");
    }
}

/// The next try ends well, and the search for leaks finds what the first one left.
fn compacted_later(rig: &Rig, before: &[u8], delayed: bool) {
    run(shorten_all(&rig.whole, &codec(), delayed, 2)).unwrap();
    let wish = Wish { delete: true, fresh_secs: -1, threads: 1 };
    run(collect(&rig.whole, wish)).unwrap();
    assert_eq!((shown(rig).0.len(), &shown(rig).1[..]), (1, before));
    let report = run(collect(&rig.whole, Wish { delete: false, ..wish })).unwrap();
    assert_eq!((report.leaked.objects, report.valid.objects), (0, 3), "{report:?}");
    assert_eq!(report.scanned.objects, 3 + if delayed { report.replaced.objects } else { 0 });
}

#[test]
fn what_others_write_meanwhile_stays_and_what_was_in_vain_goes() {
    for truncated in [false, true] {
        let rig = rig();
        fill(&rig, 50, 300);
        let records = Arc::clone(&rig.records);
        let mut once = true;
        let happens: OnPut = Box::new(move || {
            if !std::mem::take(&mut once) {
                return;
            }
            let found = records.read_now(&[Key::Chunk(FILE, 0)]).unwrap().remove(0);
            let Some(Record::Slices(mut list)) = found else { panic!("no list") };
            if truncated {
                list.remove(0);
            }
            list.push(SliceRecord::whole(1000, SliceId(50), 300));
            let write = vec![zest_metadata::Write::Put(Key::Chunk(FILE, 0), Record::Slices(list))];
            records.commit_now(&zest_metadata::ChangeSet { expect: Vec::new(), write }).unwrap();
        });
        let whole = dying(&rig, i64::MAX, Some(happens));
        let mut expected = shown(&rig).1;
        compacted(&rig, &whole, false);
        let (list, after) = shown(&rig);
        if truncated {
            expected = after.clone(); // bytes of the first slice are gone where nothing else showed
        }
        for at in 0..300 {
            expected[1000 + at] = byte(50, at as u32);
        }
        assert_eq!(after, expected);
        let blocks = list.iter().map(|record| rig.stored(record.id.0)).sum::<usize>();
        let all: usize = rig.shelf.objects.lock().len();
        // The first slice's reference was lost by the test itself.
        assert_eq!(
            all - usize::from(truncated) * rig.stored(1),
            blocks,
            "blocks written in vain are still there"
        );
    }
}

//! The memory of a queue's places, shared with the kernel: a head and a payload each. The kernel writes only while the
//! queue's own thread is inside of it, so what is read here does not change meanwhile. Promises that a request is read
//! and an answer written inside of its place whatever the kernel says of lengths.
//!
//! The payload begins with a page, and the header and the struct of a request are put together right before it: the
//! codec reads one piece, and no payload is copied for it.

use super::plan::HEAD;
use memmap2::{MmapMut, MmapOptions, UncheckedAdvice};
use std::io;
use zerocopy::{FromBytes, IntoBytes};
use zest_codec::abi::{InHeader, OutHeader, RingEntry, ring_head};
use zest_codec::{Answer, Body, Opcode};

/// Bytes of a payload that a place keeps when there are more places than usual.
const KEPT: usize = 64 << 10;

/// Places that were made together.
struct Chunk {
    memory: MmapMut,
    first: usize,
    places: usize,
}

/// What is known of a place.
#[derive(Clone, Copy, Default)]
struct Known {
    /// The number of its request, while it has one.
    request: Option<u64>,
    /// The open file it is about, maybe a directory.
    file: Option<u64>,
    /// Bytes of its payload that may be in memory.
    touched: usize,
}

/// The places of a queue.
pub struct Slots {
    chunks: Vec<Chunk>,
    known: Vec<Known>,
    room: usize,
}

/// A request of a place.
pub struct Request<'a> {
    /// Its number.
    pub unique: u64,
    /// Its bytes; `None` if what the kernel says of them can't be.
    pub bytes: Option<&'a [u8]>,
}

impl Slots {
    /// None yet, of payloads up to this many bytes.
    pub fn new(room: u32) -> Slots {
        Slots { chunks: Vec::new(), known: Vec::new(), room: room as usize }
    }

    fn size(&self) -> usize {
        HEAD + self.room
    }

    /// More places; gives the number of the first.
    pub fn add(&mut self, places: usize) -> io::Result<usize> {
        let bytes = self.size().checked_mul(places).ok_or(io::ErrorKind::OutOfMemory)?;
        let memory = MmapOptions::new().len(bytes).no_reserve_swap().map_anon()?;
        let first = self.known.len();
        self.chunks.push(Chunk { memory, first, places });
        self.known.resize(first + places, Known::default());
        Ok(first)
    }

    /// Head and payload of a place.
    fn parts(&mut self, place: usize) -> Option<(&mut [u8], &mut [u8])> {
        let size = self.size();
        let after = self.chunks.partition_point(|chunk| chunk.first <= place);
        let chunk = self.chunks.get_mut(after.checked_sub(1)?)?;
        let start = (place - chunk.first).checked_mul(size)?;
        chunk.memory.get_mut(start..start.checked_add(size)?)?.split_at_mut_checked(HEAD)
    }

    /// What the kernel is told of a place once: where head and payload are, and how long.
    pub fn vectors(&mut self, place: usize) -> Option<[libc::iovec; 2]> {
        let (head, payload) = self.parts(place)?;
        let vector = |part: &mut [u8], len| libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: len };
        let len = payload.len();
        Some([vector(head, ring_head::SIZE), vector(payload, len)])
    }

    /// The request that came in a place.
    pub fn request(&mut self, place: usize) -> Option<Request<'_>> {
        let (head, payload) = self.parts(place)?;
        let entry: RingEntry = part(head, ring_head::ENTRY)?;
        let header: InHeader = part(head, ring_head::HEADER)?;
        let len = joined(head, &header, &entry, payload.len());
        let known = self.known.get_mut(place)?;
        known.request = Some(entry.commit_id);
        known.file = is_about_open_file(header.opcode).then_some(header.nodeid);
        known.touched = known.touched.max((entry.payload_sz as usize).min(self.room));
        let bytes = len.and_then(|len| self.whole(place, len, entry.payload_sz as usize));
        Some(Request { unique: entry.commit_id, bytes })
    }

    fn whole(&self, place: usize, before: usize, behind: usize) -> Option<&[u8]> {
        let after = self.chunks.partition_point(|chunk| chunk.first <= place);
        let chunk = self.chunks.get(after.checked_sub(1)?)?;
        let payload = (place - chunk.first) * self.size() + HEAD;
        chunk.memory.get(payload.checked_sub(before)?..payload.checked_add(behind)?)
    }

    /// Writes an answer into its place; gives the number to commit it under. `None` if the place waits for none, or the
    /// answer is longer than it.
    pub fn answer(&mut self, place: usize, answer: &Answer) -> Option<u64> {
        let unique = self.known.get(place)?.request?;
        let (head, payload) = self.parts(place)?;
        let (header, fixed) = answer.head().split_at_checked(size_of::<OutHeader>())?;
        let mut at = 0usize;
        let mut add = |bytes: &[u8]| -> Option<()> {
            payload.get_mut(at..at.checked_add(bytes.len())?)?.copy_from_slice(bytes);
            at += bytes.len();
            Some(())
        };
        add(fixed)?;
        match &answer.body {
            Body::None => {}
            Body::Bytes(bytes) => add(bytes)?,
            Body::Pieces(pieces) => pieces.iter().try_for_each(|piece| add(piece))?,
        }
        head.get_mut(..header.len())?.copy_from_slice(header);
        let entry = RingEntry { payload_sz: u32::try_from(at).ok()?, ..RingEntry::default() };
        head.get_mut(ring_head::ENTRY..ring_head::SIZE)?.copy_from_slice(entry.as_bytes());
        let known = self.known.get_mut(place)?;
        (known.request, known.touched) = (None, known.touched.max(at));
        Some(unique)
    }

    /// Whether there is a request in a place.
    pub fn is_taken(&self, place: usize) -> bool {
        self.known.get(place).is_some_and(|known| known.request.is_some())
    }

    /// Open files that requests wait for, each named once if its requests lie together.
    pub fn files_waited_for(&self) -> Vec<u64> {
        let waiting = self.known.iter().filter(|known| known.request.is_some());
        let mut files: Vec<u64> = waiting.filter_map(|known| known.file).collect();
        files.dedup();
        files
    }

    /// Gives back the memory of payloads nobody needs: of requests that wait, which were read, and of a place that is
    /// one of many. What is in them is not read again.
    pub fn give_back(&mut self, usual: usize) {
        let size = self.size();
        for chunk in &self.chunks {
            for place in 0..chunk.places {
                let Some(known) = self.known.get_mut(chunk.first + place) else { continue };
                let spare = known.request.is_some() || chunk.first + place >= usual;
                if !spare || known.touched <= KEPT {
                    continue;
                }
                // SAFETY: whole pages of this mapping, to which no reference exists; they read as zeros from now on.
                let given = unsafe {
                    chunk.memory.unchecked_advise_range(
                        UncheckedAdvice::DontNeed,
                        place * size + HEAD,
                        size - HEAD,
                    )
                };
                if given.is_ok() {
                    known.touched = 0;
                }
            }
        }
    }
}

fn is_about_open_file(opcode: u32) -> bool {
    use Opcode::{Flush, Fsync, Read, SetLk, SetLkW, Write};
    Opcode::of(opcode).is_some_and(|opcode| matches!(opcode, Read | Write | Flush | Fsync | SetLk | SetLkW))
}

fn part<T: FromBytes>(head: &[u8], at: usize) -> Option<T> {
    T::read_from_prefix(head.get(at..)?).ok().map(|(value, _)| value)
}

/// Puts header and struct of a request right before its payload; gives how long they are together.
fn joined(head: &mut [u8], header: &InHeader, entry: &RingEntry, room: usize) -> Option<usize> {
    let payload = entry.payload_sz as usize;
    let before = (header.len as usize).checked_sub(payload)?;
    let fixed = before.checked_sub(size_of::<InHeader>())?;
    if payload > room || fixed > ring_head::ENTRY - ring_head::STRUCT {
        return None;
    }
    let start = HEAD.checked_sub(before)?;
    head.get_mut(start..start + size_of::<InHeader>())?.copy_from_slice(header.as_bytes());
    head.copy_within(ring_head::STRUCT..ring_head::STRUCT + fixed, start + size_of::<InHeader>());
    Some(before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use zest_codec::abi::WriteIn;
    use zest_codec::kernel::{Origin, request};
    use zest_codec::{Dialect, Operation, decode, refuse};

    const ROOM: u32 = 128 << 10;

    /// Puts a request into a place as the kernel does.
    fn arrive(slots: &mut Slots, place: usize, bytes: &[u8], fixed: usize, unique: u64) {
        let (head, payload) = slots.parts(place).unwrap();
        let behind = 40 + fixed;
        head[..40].copy_from_slice(&bytes[..40]);
        head[ring_head::STRUCT..ring_head::STRUCT + fixed].copy_from_slice(&bytes[40..behind]);
        payload[..bytes.len() - behind].copy_from_slice(&bytes[behind..]);
        let payload_sz = (bytes.len() - behind) as u32;
        let entry = RingEntry { commit_id: unique, payload_sz, ..RingEntry::default() };
        head[ring_head::ENTRY..ring_head::SIZE].copy_from_slice(entry.as_bytes());
    }

    fn slots(places: usize) -> Slots {
        let mut slots = Slots::new(ROOM);
        assert_eq!(slots.add(1).unwrap(), 0);
        assert_eq!(slots.add(places - 1).unwrap(), 1);
        slots
    }

    fn with_body(mut answer: Answer, body: Body) -> Answer {
        answer.body = body;
        answer
    }

    #[test]
    fn requests_are_put_together_and_answers_taken_apart() {
        let mut slots = slots(3);
        let data = vec![7; ROOM as usize];
        let arg = WriteIn { size: ROOM, ..WriteIn::default() };
        let origin = Origin { unique: 6, ..Origin::default() };
        for (operation, fixed) in [
            (Operation::Write { arg, data: &data }, 40),
            (Operation::Lookup { name: b"name" }, 0),
            (Operation::Statfs, 0),
            (Operation::GetAttr(Default::default()), 16),
        ] {
            let bytes = request(&origin, &operation, Dialect::default());
            for place in 0..3 {
                arrive(&mut slots, place, &bytes, fixed, 6);
                assert!(!slots.is_taken(place));
                let came = slots.request(place).unwrap();
                assert_eq!(came.unique, 6);
                assert_eq!(decode(came.bytes.unwrap(), Dialect::default()).unwrap().operation, operation);
                assert!(slots.is_taken(place));
                let pieces = Body::Pieces(vec![Bytes::from_static(b"ab"), Bytes::from_static(b"c")]);
                let answer = with_body(Answer::with(6, &9u64), pieces);
                assert_eq!(slots.answer(place, &answer), Some(6));
                let (head, payload) = slots.parts(place).unwrap();
                assert_eq!(head[8..16], 6u64.to_ne_bytes());
                assert_eq!(part::<RingEntry>(head, ring_head::ENTRY).unwrap().payload_sz, 11);
                assert_eq!((&payload[..8], &payload[8..11]), (&9u64.to_ne_bytes()[..], &b"abc"[..]));
                assert_eq!(slots.answer(place, &answer), None, "it is answered");
            }
        }
    }

    #[test]
    fn what_can_not_be_is_refused_under_its_number() {
        let mut slots = slots(2);
        let (len, opcode) = (40, 17);
        for (len, payload_sz) in [(len, 1), (39, 0), (40 + 129, 0), (u32::MAX, 0), (40 + ROOM + 1, ROOM + 1)]
        {
            let (head, _) = slots.parts(1).unwrap();
            head[..40].copy_from_slice(InHeader { len, opcode, ..InHeader::default() }.as_bytes());
            let entry = RingEntry { commit_id: 8, payload_sz, ..RingEntry::default() };
            head[ring_head::ENTRY..ring_head::SIZE].copy_from_slice(entry.as_bytes());
            let came = slots.request(1).unwrap();
            assert_eq!((came.unique, came.bytes), (8, None), "{len} {payload_sz}");
            let long = with_body(refuse(8, 5), Body::Bytes(vec![0; ROOM as usize + 1]));
            assert_eq!(slots.answer(1, &long), None, "longer than its place");
            assert_eq!(slots.answer(1, &refuse(8, 5)), Some(8));
        }
        assert!(slots.request(2).is_none() && slots.answer(2, &refuse(8, 5)).is_none());
    }

    #[test]
    fn only_memory_that_is_not_needed_is_given_back() {
        let mut slots = slots(3);
        let bytes = request(&Origin::default(), &Operation::Statfs, Dialect::default());
        for place in 0..3 {
            arrive(&mut slots, place, &bytes, 0, 4);
            slots.request(place).unwrap();
            let long = with_body(refuse(4, 0), Body::Bytes(vec![5; ROOM as usize]));
            slots.answer(place, &long).unwrap();
        }
        arrive(&mut slots, 0, &bytes, 0, 4);
        slots.request(0).unwrap();
        slots.give_back(2);
        let first: Vec<u8> = (0..3).map(|place| slots.parts(place).unwrap().1[9]).collect();
        assert_eq!(first, [0, 5, 0], "the waiting one's, and that of one too many");
        assert!(slots.files_waited_for().is_empty(), "it waits for no file");
        let read = Operation::Read(Default::default());
        let bytes = request(&Origin { nodeid: 7, ..Origin::default() }, &read, Dialect::default());
        for place in 1..3 {
            arrive(&mut slots, place, &bytes, 40, 4);
            slots.request(place).unwrap();
        }
        assert_eq!(slots.files_waited_for(), [7]);
        assert_eq!(slots.answer(0, &refuse(4, 5)), Some(4));
    }
}

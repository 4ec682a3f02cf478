//! Looking through one file of the staging journal: which records are in it, and what of it is damaged or torn.
//! What lies below the place up to which the file was synced for sure is damaged when it does not check; above it
//! may be what a crash left of writes that nobody was told of.

use super::record::{HEAD, Head, Kind};
use std::io;
use std::ops::Range;
use zest_data::checksum::crc32c;
use zest_types::limits;
use zest_world::DiskFile;
use zest_world::planted::{Bug, active};

/// Bytes looked at in one go.
const WINDOW: u64 = 256 << 10;

/// What is in a segment.
#[derive(Debug, Default)]
pub struct Scan {
    /// What its heads share.
    pub nonce: u64,
    /// Its number.
    pub number: u64,
    /// UUID of its volume.
    pub uuid: String,
    /// Blocks and those that are gone, in order.
    pub records: Vec<Head>,
    /// Places that do not check, in order.
    pub holes: Vec<Range<u64>>,
    /// Where the last record that checks ends.
    pub end: u64,
    /// Bytes of the file.
    pub len: u64,
    /// Up to here the file was synced for sure.
    pub synced: u64,
}

impl Scan {
    /// Places that were synced and do not check: somebody's data were lost there.
    #[must_use]
    pub fn damage(&self) -> Vec<Range<u64>> {
        self.holes.iter().filter(|hole| hole.start < self.synced).cloned().collect()
    }
}

/// Looks through a segment. Up to `trusted` it was synced, and the bytes of its blocks are checked when they are used;
/// behind that they are checked now. `None`: it does not even begin as a segment.
pub fn scan(file: &dyn DiskFile, trusted: u64) -> io::Result<Option<Scan>> {
    let len = file.len()?;
    let mut heads = Window { file, len, start: 0, bytes: Vec::new() };
    let Some(first) = heads.head(0, None)?.filter(|head| head.kind == Kind::Segment) else { return Ok(None) };
    let Some(uuid) = body(file, &first)?.and_then(|uuid| String::from_utf8(uuid).ok()) else {
        return Ok(None);
    };
    let mut found = Scan {
        nonce: first.nonce,
        number: first.block.slice.0,
        uuid,
        len,
        synced: trusted.min(len),
        end: first.span(),
        ..Scan::default()
    };
    let mut at = found.end;
    let mut bad_since = None;
    while at + HEAD <= len {
        let head = heads.head(at, Some(found.nonce))?.filter(|head| at + head.span() <= len);
        let Some(head) = head else {
            bad_since.get_or_insert(at);
            at += HEAD;
            continue;
        };
        found.synced = found.synced.max(head.synced);
        let right = at < trusted || head.kind != Kind::Block || body(file, &head)?.is_some();
        if !right && !active(Bug::TornTailBelieved) {
            bad_since.get_or_insert(at);
            at += head.span();
            continue;
        }
        found.holes.extend(bad_since.take().map(|from| from..at));
        if matches!(head.kind, Kind::Block | Kind::Gone) {
            found.records.push(head);
        }
        at += head.span();
        found.end = at;
    }
    let bad_since = bad_since.or((at < len).then_some(at));
    found.holes.extend(bad_since.map(|from| from..len));
    Ok(Some(found))
}

/// What a segment's first head says: its number, and up to where which segment before it was synced.
pub fn first(file: &dyn DiskFile) -> io::Result<Option<(u64, (u64, u64))>> {
    let len = file.len()?;
    let head = Window { file, len, start: 0, bytes: Vec::new() }.head(0, None)?;
    let head = head.filter(|head| head.kind == Kind::Segment);
    Ok(head.map(|head| (head.block.slice.0, (head.ino.0, head.at.cast_unsigned()))))
}

/// The bytes behind a head, if they are what they were.
fn body(file: &dyn DiskFile, head: &Head) -> io::Result<Option<Vec<u8>>> {
    if u64::from(head.stored) > limits::STAGED_OBJECT_MAX {
        return Ok(None);
    }
    let mut bytes = vec![0; head.stored as usize];
    match file.read_at(head.offset + HEAD, &mut bytes) {
        Ok(()) => Ok((crc32c(&bytes) == head.sum).then_some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// Heads out of a file that is read in large pieces.
struct Window<'a> {
    file: &'a dyn DiskFile,
    len: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl Window<'_> {
    fn head(&mut self, at: u64, nonce: Option<u64>) -> io::Result<Option<Head>> {
        if at + HEAD > self.len {
            return Ok(None);
        }
        if at < self.start || at + HEAD > self.start + self.bytes.len() as u64 {
            let take = WINDOW.min(self.len - at);
            self.bytes.resize(usize::try_from(take).unwrap_or(0), 0);
            self.file.read_at(at, &mut self.bytes)?;
            self.start = at;
        }
        let from = usize::try_from(at - self.start).unwrap_or(usize::MAX);
        let bytes = self.bytes.get(from..from.saturating_add(HEAD as usize));
        Ok(bytes.and_then(|bytes| Head::decode(bytes, nonce, at)))
    }
}

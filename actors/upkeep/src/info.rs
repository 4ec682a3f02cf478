//! What a node is made of: names, sizes, stored pieces, locks; of a directory, what is in it or below it.

use crate::failure::Failure;
use crate::whole::Whole;
use std::collections::BTreeSet;
use zest_data::block::block_ranges;
use zest_metadata::record::{FlockEntry, LockOwner, LockRange};
use zest_metadata::{Key, Record, Scan};
use zest_types::attr::align4k;
use zest_types::overlay::visible_in;
use zest_types::{Attr, FileType, Ino, limits};

/// What is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// All that is below a directory, and not only what is in it.
    pub recursive: bool,
    /// Slices instead of objects.
    pub raw: bool,
}

/// A run of stored bytes, or of zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Piece {
    pub chunk: u32,
    /// Key of the object, empty for zeros; the slice's number where slices were asked for.
    pub name: String,
    pub size: u64,
    pub offset: u64,
    pub length: u64,
    /// Where it shows in the chunk; not told of slices.
    pub pos: Option<u64>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Info {
    pub ino: Ino,
    pub files: u64,
    pub directories: u64,
    pub length: u64,
    pub space: u64,
    pub paths: Vec<String>,
    pub tier: u8,
    /// Of a file.
    pub pieces: Option<Vec<Piece>>,
    pub flocks: Vec<FlockEntry>,
    pub ranges: Vec<(LockOwner, LockRange)>,
    /// Pieces that are not in the list, because it is full.
    pub cut: bool,
}

/// Looks at a node; `None` where there is none.
pub async fn info(whole: &Whole, ino: Ino, ask: Ask) -> Result<Option<Info>, Failure> {
    let Some(attr) = whole.attrs(&[ino]).await?.remove(&ino) else { return Ok(None) };
    let mut info = Info {
        ino,
        files: 0,
        directories: 0,
        length: 0,
        space: 0,
        paths: whole.paths(ino).await?,
        tier: attr.tier,
        pieces: None,
        flocks: Vec::new(),
        ranges: Vec::new(),
        cut: false,
    };
    info.add(&attr);
    if attr.is_dir() {
        below(whole, ino, ask.recursive, &mut info).await?;
    } else if attr.is_file() {
        pieces(whole, &attr, ask.raw, &mut info).await?;
    }
    let found = whole.engine.read(&[Key::Flocks(ino), Key::RangeLocks(ino)]).await?;
    for record in found.into_iter().flatten() {
        match record {
            Record::Flocks(locks) => info.flocks = locks,
            Record::RangeLocks(locks) => {
                let each = |(owner, ranges): (LockOwner, Vec<LockRange>)| {
                    ranges.into_iter().map(move |range| (owner, range))
                };
                info.ranges = locks.into_iter().flat_map(each).collect();
            }
            _ => {}
        }
    }
    Ok(Some(info))
}

impl Info {
    fn add(&mut self, attr: &Attr) {
        if attr.is_dir() {
            self.directories += 1;
            self.space += 4096;
            return;
        }
        self.files += 1;
        let length = if attr.is_file() { attr.length } else { 0 };
        self.length = self.length.saturating_add(length);
        self.space = self.space.saturating_add(align4k(length));
    }
}

/// What is in a directory, each name once.
async fn below(whole: &Whole, dir: Ino, recursive: bool, info: &mut Info) -> Result<(), Failure> {
    let (mut waiting, mut seen) = (vec![dir], BTreeSet::new());
    while let Some(dir) = waiting.pop() {
        // A directory that is below itself is damage, and no reason to go round for ever.
        if !seen.insert(dir) {
            continue;
        }
        let mut after = None;
        loop {
            let (batch, next) = whole.children(dir, after).await?;
            for child in batch {
                let Some(attr) = child.attr else { continue };
                info.add(&attr);
                if recursive && child.kind == FileType::Directory {
                    waiting.push(child.ino);
                }
            }
            if next.is_none() {
                break;
            }
            after = next;
        }
    }
    Ok(())
}

/// What shows of a file's slices.
async fn pieces(whole: &Whole, attr: &Attr, raw: bool, info: &mut Info) -> Result<(), Failure> {
    let (mut from, mut all) = (0, Vec::new());
    loop {
        let found =
            whole.engine.scan(&Scan::Chunks { ino: info.ino, from, limit: limits::REAPER_BATCH }).await?;
        let complete = found.len() < limits::REAPER_BATCH;
        for (key, record) in found {
            let (Key::Chunk(_, chunk), Record::Slices(list)) = (key, record) else { continue };
            from = chunk.saturating_add(1);
            let start = u64::from(chunk) * limits::CHUNK_SIZE;
            let end = attr.length.saturating_sub(start).min(limits::CHUNK_SIZE);
            for piece in visible_in(&list, 0, u32::try_from(end).unwrap_or(0)) {
                if all.len() >= limits::PROBLEMS_TOLD {
                    info.cut = true;
                    break;
                }
                show(whole, chunk, &piece, raw, &mut all);
            }
        }
        if complete || info.cut {
            info.pieces = Some(all);
            return Ok(());
        }
    }
}

fn show(whole: &Whole, chunk: u32, piece: &zest_types::SliceRecord, raw: bool, all: &mut Vec<Piece>) {
    if raw {
        let size = if piece.id.is_zeros() { piece.len } else { piece.size };
        all.push(Piece {
            chunk,
            name: piece.id.to_string(),
            size: size.into(),
            offset: piece.off.into(),
            length: piece.len.into(),
            pos: None,
        });
        return;
    }
    let mut pos = u64::from(piece.pos);
    if piece.id.is_zeros() {
        let length = piece.len.into();
        all.push(Piece { chunk, name: String::new(), size: 0, offset: 0, length, pos: Some(pos) });
        return;
    }
    for range in block_ranges(piece.id, piece.size, whole.names.block_size, piece.off, piece.len) {
        let length = u64::from(range.range.end - range.range.start);
        all.push(Piece {
            chunk,
            name: whole.names.key(range.block, range.block_len),
            size: range.block_len.into(),
            offset: range.range.start.into(),
            length,
            pos: Some(pos),
        });
        pos += length;
    }
}

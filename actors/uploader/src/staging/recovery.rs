//! Finding what an earlier life left in the staging journal. A torn end is cut, never believed; what was synced and
//! does not check is kept and told; what is not ours is left alone.

use super::StagingError;
use super::journal::{Place, Segment, Tail, segment_name};
use super::record::{HEAD, Head, Kind};
use super::segment::{self, Scan};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use zest_data::BlockId;
use zest_world::{Disk, DiskFile};

/// What waits, in the order in which it was staged, and what is wrong.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Blocks that wait.
    pub blocks: Vec<(Head, Place)>,
    /// Things a person should know, in words: damage, and what is somebody else's.
    pub troubles: Vec<String>,
}

fn number_of(name: &str) -> Option<u64> {
    name.strip_prefix("journal-")?.parse().ok()
}

/// Looks through a directory.
pub(super) fn recover(disk: &dyn Disk, uuid: &str) -> Result<(Tail, Recovered), StagingError> {
    let names = disk.list().map_err(StagingError::of("the directory"))?;
    let mut found = Recovered::default();
    let kept: Vec<u64> =
        names.iter().filter_map(|name| name.strip_prefix("damaged-")?.parse().ok()).collect();
    let damaged = kept.len();
    if damaged > 0 {
        found.troubles.push(format!("{damaged} damaged files of an earlier life are kept (damaged-…)"));
    }
    let mut files = BTreeMap::new();
    for number in names.iter().filter_map(|name| number_of(name)) {
        let file =
            disk.open(&segment_name(number), false).map_err(StagingError::of(&segment_name(number)))?;
        files.insert(number, file);
    }
    let last = files.keys().next_back().copied();
    let mut trusted = BTreeMap::new();
    for file in files.values() {
        if let Ok(Some((_, (before, synced)))) = segment::first(&**file) {
            trusted.insert(before, synced);
        }
    }
    let mut segments = BTreeMap::new();
    let mut scans = Vec::new();
    for (number, file) in files {
        let trusted = trusted.get(&number).copied().unwrap_or(0);
        match look(disk, number, &file, trusted, uuid)? {
            Look::Ours(scan) => {
                let damaged = tell_damage(&scan, &mut found.troubles);
                segments.insert(number, Segment { file, live: 0, size: scan.end, damaged });
                scans.push(*scan);
            }
            Look::Empty => {}
            Look::NotOurs(trouble) => found.troubles.push(trouble),
        }
    }
    let before = match scans.last() {
        Some(scan) => (scan.number, repair(scan, segments.get(&scan.number))?),
        None => (0, 0),
    };
    collect(&scans, &mut segments, &mut found.blocks);
    // A number is not given to two files of which one may be kept.
    let next = kept.into_iter().chain(last).max().map_or(1, |last| last + 1);
    Ok((Tail::new(next, before, segments), found))
}

enum Look {
    Ours(Box<Scan>),
    /// A file whose beginning was never finished.
    Empty,
    NotOurs(String),
}

fn look(
    disk: &dyn Disk,
    number: u64,
    file: &Arc<dyn DiskFile>,
    trusted: u64,
    uuid: &str,
) -> Result<Look, StagingError> {
    let name = segment_name(number);
    match segment::scan(&**file, trusted) {
        Ok(Some(scan)) if scan.uuid != uuid => {
            Ok(Look::NotOurs(format!("{name} belongs to another volume ({}): it is left alone", scan.uuid)))
        }
        Ok(Some(scan)) if scan.number == number => Ok(Look::Ours(Box::new(scan))),
        Ok(_) if file.len().is_ok_and(|len| len <= 2 * HEAD) => {
            disk.remove(&name).map_err(StagingError::of(&name))?;
            Ok(Look::Empty)
        }
        Ok(_) => Ok(Look::NotOurs(format!("{name} does not begin as a journal does: it is kept as it is"))),
        Err(error) => Ok(Look::NotOurs(format!("{name} can't be read ({error}): it is kept as it is"))),
    }
}

fn tell_damage(scan: &Scan, troubles: &mut Vec<String>) -> bool {
    let damage = scan.damage();
    for hole in &damage {
        let name = segment_name(scan.number);
        troubles.push(format!(
            "{} bytes of {name} from {} are damaged: staged blocks were lost there; the file is kept",
            hole.end - hole.start,
            hole.start
        ));
    }
    !damage.is_empty()
}

/// Cuts what a crash left of unfinished writes at the end of the file that grew last, and covers what it left
/// between others. Answers how much of the file is good from now on.
fn repair(scan: &Scan, segment: Option<&Segment>) -> Result<u64, StagingError> {
    let Some(segment) = segment else { return Ok(0) };
    let mend = || -> io::Result<u64> {
        for hole in scan.holes.iter().filter(|hole| hole.start >= scan.synced && hole.end <= scan.end) {
            let stored = u32::try_from(hole.end - hole.start - HEAD).unwrap_or(u32::MAX);
            let bare = Head::bare(Kind::Void, scan.nonce, hole.start, scan.synced);
            segment.file.write_at(hole.start, &Head { stored, ..bare }.encode())?;
        }
        // What was synced and does not check is evidence, and stays.
        let end = scan.damage().iter().map(|hole| hole.end).fold(scan.end, u64::max);
        if end < scan.len {
            segment.file.set_len(end)?;
        }
        segment.file.sync()?;
        Ok(end)
    };
    mend().map_err(StagingError::of(&segment_name(scan.number)))
}

/// Blocks that are not gone, with their places.
fn collect(scans: &[Scan], segments: &mut BTreeMap<u64, Segment>, blocks: &mut Vec<(Head, Place)>) {
    let all = || scans.iter().flat_map(|scan| scan.records.iter().map(move |head| (scan.number, head)));
    let gone: BTreeSet<BlockId> =
        all().filter(|(_, head)| head.kind == Kind::Gone).map(|(_, head)| head.block).collect();
    let mut seen = BTreeSet::new();
    for (number, head) in all().filter(|(_, head)| head.kind == Kind::Block) {
        if gone.contains(&head.block) || !seen.insert(head.block) {
            continue;
        }
        let place = Place { segment: number, offset: head.offset, stored: head.stored, sum: head.sum };
        blocks.push((*head, place));
        if let Some(segment) = segments.get_mut(&number) {
            segment.live += 1;
        }
    }
}

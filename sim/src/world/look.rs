//! Looks at a whole volume through its door, after a start: names, attributes, and those bytes of files that were
//! ever written.

use super::copies::is_place;
use super::scene::Scene;
use super::user::entries;
use crate::judge::{Found, Recovered};
use std::collections::{BTreeMap, BTreeSet};
use zest_types::request::Dirent;
use zest_types::{Attr, Errno, Handle, Ino, Name, Request, Response, ServeResult};

/// Files up to this length are read whole.
const WHOLE: u64 = 1 << 20;
/// Bytes read at once.
const STEP: u64 = 128 << 10;
/// How often a request that failed is repeated; faults stay on while the volume is looked at.
const TRIES: usize = 5;

/// Everything in the volume. The text says what could not be looked at.
pub async fn look(scene: &Scene) -> Result<Recovered, String> {
    let mut found = Recovered::default();
    let mut queue = vec![(Ino::ROOT, String::from("/"))];
    while let Some((ino, path)) = queue.pop() {
        if found.nodes.contains_key(&ino) {
            continue;
        }
        let node = node(scene, ino, &path).await.map_err(|why| format!("{path} (inode {ino}): {why}"))?;
        queue.extend(node.entries.iter().map(|(name, child)| (*child, format!("{path}{name}/"))));
        found.nodes.insert(ino, node);
    }
    found.bins = bins(scene).await.map_err(|errno| format!("the trash can't be listed: {errno}"))?;
    Ok(found)
}

/// Names in the trash; they are made of directory, node and name, as the volume format says.
async fn bins(scene: &Scene) -> Result<Option<BTreeSet<(Ino, Ino, Name)>>, Errno> {
    if patient(scene, Request::GetAttr { ino: Ino::TRASH }).await == Err(Errno::ENOENT) {
        return Ok(None);
    }
    let mut bins = BTreeSet::new();
    for hour in entries(scene, Ino::TRASH).await?.iter().filter(|hour| !hour.name.is_dots()) {
        for entry in entries(scene, hour.ino).await? {
            let text = String::from_utf8_lossy(entry.name.as_bytes()).into_owned();
            let mut parts = text.splitn(3, '-');
            let mut number = || parts.next()?.parse().ok().map(Ino);
            if let (Some(dir), Some(ino)) = (number(), number()) {
                bins.insert((dir, ino, Name::new(parts.next().unwrap_or_default().as_bytes())?));
            }
        }
    }
    Ok(Some(bins))
}

/// Asks, again where faults are in the way.
pub(super) async fn patient(scene: &Scene, request: Request<'static>) -> ServeResult {
    let mut last = Err(Errno::EIO);
    for _ in 0..TRIES {
        last = scene.plain(request.clone()).await;
        if !matches!(last, Err(Errno::EIO | Errno::EAGAIN | Errno::ETIMEDOUT)) {
            break;
        }
    }
    last
}

async fn node(scene: &Scene, ino: Ino, _path: &str) -> Result<Found, String> {
    let attr = attr_of(scene, ino).await?;
    let mut found = Found {
        attr,
        entries: BTreeMap::new(),
        xattrs: BTreeMap::new(),
        target: Vec::new(),
        ranges: Vec::new(),
    };
    match found.attr.kind {
        zest_types::FileType::Directory => {
            let all = entries(scene, ino).await.map_err(|errno| format!("can't be listed: {errno}"))?;
            let seen = |entry: &Dirent| {
                !entry.name.is_dots() && !entry.ino.is_trash() && !is_place(ino, &entry.name)
            };
            for entry in all.into_iter().filter(seen) {
                if found.entries.insert(entry.name.clone(), entry.ino).is_some() {
                    return Err(format!("lists {} twice", entry.name));
                }
                check_lookup(scene, ino, &entry).await?;
            }
        }
        zest_types::FileType::Symlink => match patient(scene, Request::Readlink { ino }).await {
            Ok(Response::Target(target)) => found.target = target,
            other => return Err(format!("can't be read as a symlink: {other:?}")),
        },
        zest_types::FileType::File => found.ranges = ranges(scene, ino, found.attr.length).await?,
        _ => {}
    }
    match patient(scene, Request::ListXattr { ino }).await {
        Ok(Response::XattrNames(names)) => {
            for name in names {
                match patient(scene, Request::GetXattr { ino, name: name.clone() }).await {
                    Ok(Response::Xattr(value)) => drop(found.xattrs.insert(name, value)),
                    other => return Err(format!("lists attribute {name}, which answers {other:?}")),
                }
            }
        }
        other => return Err(format!("can't list its attributes: {other:?}")),
    }
    Ok(found)
}

/// An entry that is listed can be looked up, and leads to the same node.
async fn check_lookup(scene: &Scene, parent: Ino, entry: &Dirent) -> Result<(), String> {
    match patient(scene, Request::Lookup { parent, name: entry.name.clone() }).await {
        Ok(Response::Entry { ino, attr }) if ino == entry.ino && attr.kind == entry.kind => Ok(()),
        other => {
            Err(format!("lists {} as {:?} {}, but lookup says {other:?}", entry.name, entry.kind, entry.ino))
        }
    }
}

async fn attr_of(scene: &Scene, ino: Ino) -> Result<Attr, String> {
    match patient(scene, Request::GetAttr { ino }).await {
        Ok(Response::Attr { attr, .. }) => Ok(attr),
        other => Err(format!("has no attributes: {other:?}")),
    }
}

async fn ranges(scene: &Scene, ino: Ino, length: u64) -> Result<Vec<(u64, Vec<u8>)>, String> {
    let wanted = match length {
        0 => Vec::new(),
        1..=WHOLE => vec![(0, length)],
        _ => {
            let bench = scene.bench.borrow();
            bench.court.as_ref().map(|court| court.interesting(ino)).unwrap_or_default()
        }
    };
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let Ok(Response::Opened { handle, .. }) = patient(scene, Request::Open { ino, flags: 0 }).await else {
        return Err("can't be opened".into());
    };
    let mut out = Vec::new();
    for (start, end) in joined(wanted) {
        let mut at = start;
        while at < end.min(length) {
            let bytes = read(scene, ino, handle, at, STEP.min(end.min(length) - at)).await?;
            let next = at + bytes.len() as u64;
            out.push((at, bytes));
            at = next;
        }
    }
    drop(patient(scene, Request::Release { ino, handle }).await);
    Ok(out)
}

fn joined(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    let mut out: Vec<(u64, u64)> = Vec::new();
    for (start, end) in ranges {
        match out.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => out.push((start, end)),
        }
    }
    out
}

/// Bytes of an open file, all of them.
pub(super) async fn read(
    scene: &Scene,
    ino: Ino,
    handle: Handle,
    offset: u64,
    size: u64,
) -> Result<Vec<u8>, String> {
    match patient(scene, Request::Read { ino, handle, offset, size: size as u32 }).await {
        Ok(Response::Data(pieces)) => {
            let bytes = pieces.concat();
            if bytes.len() as u64 == size {
                Ok(bytes)
            } else {
                Err(format!("{} of {size} bytes at {offset}", bytes.len()))
            }
        }
        other => Err(format!("{size} bytes at {offset} can't be read: {:?}", other.map(|_| ()))),
    }
}

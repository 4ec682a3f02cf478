//! Copies of files that share their content, in a directory that users never look at: what a copy was when it was
//! made, it stays, whatever becomes of its source.

use super::look::{patient, read};
use super::scene::Scene;
use crate::devices::life::silence;
use crate::judge::Violation;
use std::collections::BTreeMap;
use zest_metadata::{actor, clone::Job};
use zest_types::{Attr, Caller, Errno, Ino, Name, Request, Response};

/// The directory's name in the root.
const PLACE: &[u8] = b"copies";
/// Bytes of a copy that are looked at.
const LOOKED_AT: u64 = 1 << 20;
const STEP: u64 = 128 << 10;

/// Length of a file, and what was read of it.
type Content = (u64, Vec<(u64, Vec<u8>)>);

/// Copies that were made, as they were.
#[derive(Default)]
pub struct Copies {
    place: Option<Ino>,
    all: BTreeMap<Ino, Content>,
}

/// Whether this is the place of copies, which users do not see.
#[must_use]
pub fn is_place(dir: Ino, name: &Name) -> bool {
    dir == Ino::ROOT && name.as_bytes() == PLACE
}

/// Makes the place.
///
/// # Errors
/// What the volume says instead.
pub async fn prepare(scene: &Scene) -> Result<(), Errno> {
    scene.bench.borrow_mut().copies.place = Some(directory(scene, PLACE).await?);
    Ok(())
}

/// A directory in the root, made if it is not there.
pub async fn directory(scene: &Scene, name: &[u8]) -> Result<Ino, Errno> {
    let (parent, name) = (Ino::ROOT, Name::new(name)?);
    let make = Request::Mkdir { parent, name: name.clone(), mode: 0o755, umask: 0 };
    let made = match patient(scene, make).await {
        Err(Errno::EEXIST) => patient(scene, Request::Lookup { parent, name }).await?,
        made => made?,
    };
    match made {
        Response::Entry { ino, .. } => Ok(ino),
        _ => Err(Errno::EIO),
    }
}

/// Copies a node to a place among a few, from which an older copy is removed.
pub async fn make(scene: &Scene, (from, _): (Ino, &Attr), slot: u8) {
    let place = scene.bench.borrow().copies.place;
    let (Some(parent), Ok(name)) = (place, Name::new(format!("c{slot}").as_bytes())) else { return };
    // Nobody else puts a copy there meanwhile.
    let lock = scene.lock_of(parent);
    let _alone = lock.write().await;
    if let Ok(Response::Entry { ino, attr }) =
        scene.plain(Request::Lookup { parent, name: name.clone() }).await
    {
        if attr.is_dir() {
            return;
        }
        scene.bench.borrow_mut().copies.all.remove(&ino);
        drop(scene.plain(Request::Unlink { parent, name: name.clone() }).await);
    }
    scene.tape.say(|| format!("inode {from} is copied to c{slot}"));
    let message =
        actor::Clone { caller: Caller::SYSTEM, job: Job { from, parent, name, keep: true, umask: 0 } };
    let Ok(links) = scene.vfs.shared().links() else { return };
    let made = links.metadata.send(message).await;
    if scene.life.is_dead() {
        return silence().await;
    }
    match made.unwrap_or(Err(Errno::EIO)) {
        Ok(copy) => note(scene, from, copy).await,
        Err(Errno::ENOENT | Errno::EEXIST | Errno::EPERM) => {}
        Err(_) if scene.bench.borrow().court.as_ref().is_none_or(|court| court.is_lenient()) => {}
        Err(errno) => scene.violated(Violation::new("copies", format!("a copy fails with {errno}"))),
    }
}

/// Remembers a copy as it is, and holds it against what its source was.
async fn note(scene: &Scene, from: Ino, copy: Ino) {
    let Ok(content) = content(scene, copy).await else { return };
    let verdict = scene.bench.borrow().court.as_ref().map_or(Ok(()), |court| court.copied(from, &content.1));
    match verdict {
        Ok(()) => drop(scene.bench.borrow_mut().copies.all.insert(copy, content)),
        Err(violation) => scene.violated(violation),
    }
}

/// What a copy is; nothing of what is no file.
async fn content(scene: &Scene, ino: Ino) -> Result<Content, Errno> {
    let Response::Attr { attr, .. } = patient(scene, Request::GetAttr { ino }).await? else {
        return Err(Errno::EIO);
    };
    let mut ranges = Vec::new();
    if !attr.is_file() || attr.length == 0 {
        return Ok((attr.length, ranges));
    }
    let Response::Opened { handle, .. } = patient(scene, Request::Open { ino, flags: 0 }).await? else {
        return Err(Errno::EIO);
    };
    let (mut at, end) = (0, attr.length.min(LOOKED_AT));
    while at < end {
        let Ok(bytes) = read(scene, ino, handle, at, STEP.min(end - at)).await else {
            return Err(Errno::EIO);
        };
        let next = at + bytes.len() as u64;
        ranges.push((at, bytes));
        at = next;
    }
    patient(scene, Request::Release { ino, handle }).await?;
    Ok((attr.length, ranges))
}

/// Whether all copies are as they were; after a crash some may be gone, and are not looked for again.
pub async fn check(scene: &Scene, orderly: bool) -> Result<(), Violation> {
    let all = std::mem::take(&mut scene.bench.borrow_mut().copies.all);
    let mut left = BTreeMap::new();
    for (ino, was) in all {
        match content(scene, ino).await {
            Ok(now) if now == was => drop(left.insert(ino, was)),
            Err(Errno::ENOENT) if !orderly => {}
            Ok(now) => {
                let text = format!("copy {ino} of {} bytes has other bytes now, {} in all", was.0, now.0);
                return Err(Violation::new("copies", text));
            }
            Err(errno) => {
                return Err(Violation::new("copies", format!("copy {ino} of {} bytes: {errno}", was.0)));
            }
        }
    }
    scene.bench.borrow_mut().copies.all = left;
    Ok(())
}

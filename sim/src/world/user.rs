//! A user: takes the steps of a plan one after the other, as a kernel would ask for them: walks paths by lookups,
//! keeps handles in slots, and holds an inode's lock while its bytes or the names in it change.

use super::copies;
use super::scene::Scene;
use crate::judge::noise::noise;
use crate::plan::{Path, Step};
use std::rc::Rc;
use std::time::Duration;
use zest_types::request::{Dirent, Fallocate, RenameMode, SeekWhat, SetAttr, SetTime, XattrMode};
use zest_types::{Attr, FileType, Handle, Ino, Name, Request, Response, ServeResult, Time};
use zest_world::Clock;

const O_RDWR: u32 = 2;
const O_EXCL: u32 = 0o200;
const O_TRUNC: u32 = 0o1000;
const SLOTS: usize = 4;

/// A user with open handles.
pub struct User {
    scene: Rc<Scene>,
    number: usize,
    slots: [Option<(Ino, Handle)>; SLOTS],
    writes: u64,
}

impl User {
    /// User `number` of an incarnation.
    #[must_use]
    pub fn new(scene: Rc<Scene>, number: usize) -> User {
        User { scene, number, slots: [None; SLOTS], writes: (number as u64 + 1) * 10_007 }
    }

    /// Takes all steps, then closes what is open.
    pub async fn live(mut self, steps: Vec<Step>) {
        for step in steps {
            if self.scene.is_over() {
                return;
            }
            self.scene.tape.say(|| format!("user {} wants {step:?}", self.number));
            self.take(step).await;
        }
        for slot in 0..SLOTS as u8 {
            self.close(slot).await;
        }
    }

    async fn ask(&self, request: Request<'static>) -> ServeResult {
        self.scene.ask(self.number, request).await
    }

    /// Asks for a change of one inode's bytes or names, alone.
    async fn ask_alone(&self, ino: Ino, request: Request<'static>) -> ServeResult {
        let lock = self.scene.lock_of(ino);
        let _alone = lock.write().await;
        self.ask(request).await
    }

    /// Asks for a change of names in two directories, which may be one, alone.
    async fn ask_above(&self, one: Ino, other: Ino, request: Request<'static>) -> ServeResult {
        // Locks in one order, as a kernel takes them.
        let first = self.scene.lock_of(one.min(other));
        let _first = first.write().await;
        let second = self.scene.lock_of(one.max(other));
        let _second = if one == other { None } else { Some(second.write().await) };
        self.ask(request).await
    }

    async fn look(&self, parent: Ino, name: Name) -> Option<(Ino, Attr)> {
        let lock = self.scene.lock_of(parent);
        let _shared = lock.read().await;
        match self.ask(Request::Lookup { parent, name }).await {
            Ok(Response::Entry { ino, attr }) => Some((ino, attr)),
            _ => None,
        }
    }

    /// Directory and name at the end of a path; nothing when the way there is no way.
    async fn parent(&self, path: &Path) -> Option<(Ino, Name)> {
        let mut parts = path.parts();
        let last = parts.pop()?;
        let mut at = Ino::ROOT;
        for part in parts {
            let (ino, attr) = self.look(at, part).await?;
            if !attr.is_dir() {
                return None;
            }
            at = ino;
        }
        Some((at, last))
    }

    async fn find(&self, path: &Path) -> Option<(Ino, Attr)> {
        if path.parts().is_empty() {
            return match self.ask(Request::GetAttr { ino: Ino::ROOT }).await {
                Ok(Response::Attr { ino, attr }) => Some((ino, attr)),
                _ => None,
            };
        }
        let (parent, name) = self.parent(path).await?;
        self.look(parent, name).await
    }

    fn held(&self, slot: u8) -> Option<(Ino, Handle)> {
        self.slots.get(usize::from(slot) % SLOTS).copied().flatten()
    }

    async fn hold(&mut self, slot: u8, ino: Ino, handle: Handle) {
        self.close(slot).await;
        self.slots[usize::from(slot) % SLOTS] = Some((ino, handle));
    }

    async fn close(&mut self, slot: u8) {
        if let Some((ino, handle)) = self.slots[usize::from(slot) % SLOTS].take() {
            let _ = self.ask(Request::Flush { ino, handle, lock_owner: 0 }).await;
            let _ = self.ask(Request::Release { ino, handle }).await;
        }
    }

    async fn take(&mut self, step: Step) -> Option<()> {
        match step {
            Step::Pause { ms } => self.scene.clock.sleep(Duration::from_millis(ms)).await,
            Step::Fence { ms } => self.scene.fence(Duration::from_millis(ms)).await,
            Step::Clone { path, slot } => {
                let (ino, attr) = self.find(&path).await?;
                copies::make(&self.scene, (ino, &attr), slot).await;
            }
            Step::SyncAll => drop(self.ask(Request::SyncAll).await),
            Step::Statfs => drop(self.ask(Request::Statfs { ino: Ino::ROOT }).await),
            Step::Create { .. }
            | Step::Mkdir { .. }
            | Step::Mkfifo { .. }
            | Step::Symlink { .. }
            | Step::Unlink { .. }
            | Step::Rmdir { .. }
            | Step::Rename { .. }
            | Step::Link { .. } => self.take_name(step).await?,
            Step::Open { path, slot, trunc } => self.open(&path, slot, trunc).await?,
            Step::Write { .. }
            | Step::Read { .. }
            | Step::Resize { .. }
            | Step::Fsync { .. }
            | Step::Flush { .. }
            | Step::Close { .. }
            | Step::Fstat { .. }
            | Step::Fallocate { .. }
            | Step::Copy { .. }
            | Step::Seek { .. } => self.take_handle(step).await?,
            other => self.take_node(other).await?,
        }
        Some(())
    }

    async fn take_name(&mut self, step: Step) -> Option<()> {
        match step {
            Step::Create { path, slot, excl } => {
                let (parent, name) = self.parent(&path).await?;
                let flags = O_RDWR | if excl { O_EXCL } else { 0 };
                let create = Request::Create { parent, name, mode: 0o644, umask: 0o022, flags };
                if let Ok(Response::Created { ino, handle, .. }) = self.ask_alone(parent, create).await {
                    self.hold(slot, ino, handle).await;
                }
            }
            Step::Mkdir { path, mode } => {
                let (parent, name) = self.parent(&path).await?;
                drop(self.ask_alone(parent, Request::Mkdir { parent, name, mode, umask: 0 }).await);
            }
            Step::Mkfifo { path } => {
                let (parent, name) = self.parent(&path).await?;
                let (kind, mode, umask, rdev) = (FileType::Fifo, 0o640, 0, 0);
                drop(self.ask_alone(parent, Request::Mknod { parent, name, kind, mode, umask, rdev }).await);
            }
            Step::Symlink { path, len } => {
                let (parent, name) = self.parent(&path).await?;
                let target = vec![b't'; usize::from(len.max(1))];
                drop(self.ask_alone(parent, Request::Symlink { parent, name, target }).await);
            }
            Step::Unlink { path } => {
                let (parent, name) = self.parent(&path).await?;
                drop(self.ask_alone(parent, Request::Unlink { parent, name }).await);
            }
            Step::Rmdir { path } => {
                let (parent, name) = self.parent(&path).await?;
                drop(self.ask_alone(parent, Request::Rmdir { parent, name }).await);
            }
            Step::Rename { from, to, how } => {
                if from == to {
                    return None;
                }
                let (parent, name) = self.parent(&from).await?;
                let (new_parent, new_name) = self.parent(&to).await?;
                let modes = [RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange];
                let mode = *modes.get(usize::from(how))?;
                let rename = Request::Rename { parent, name, new_parent, new_name, mode };
                drop(self.ask_above(parent, new_parent, rename).await);
            }
            Step::Link { from, to } => {
                let (ino, _) = self.find(&from).await?;
                let (parent, name) = self.parent(&to).await?;
                drop(self.ask_alone(parent, Request::Link { ino, parent, name }).await);
            }
            _ => {}
        }
        Some(())
    }

    async fn open(&mut self, path: &Path, slot: u8, trunc: bool) -> Option<()> {
        let (ino, attr) = self.find(path).await?;
        if !attr.is_file() {
            return None;
        }
        let flags = O_RDWR | if trunc { O_TRUNC } else { 0 };
        if let Ok(Response::Opened { handle, .. }) = self.ask_alone(ino, Request::Open { ino, flags }).await {
            self.hold(slot, ino, handle).await;
        }
        Some(())
    }

    async fn take_handle(&mut self, step: Step) -> Option<()> {
        match step {
            Step::Write { slot, at, len } => {
                let (ino, handle) = self.held(slot)?;
                self.writes += 1;
                let data = noise(self.writes, len as usize);
                drop(self.ask_alone(ino, Request::Write { ino, handle, offset: at, data }).await);
            }
            Step::Read { slot, at, len } => {
                let (ino, handle) = self.held(slot)?;
                let lock = self.scene.lock_of(ino);
                let _shared = lock.read().await;
                drop(self.ask(Request::Read { ino, handle, offset: at, size: len }).await);
            }
            Step::Resize { slot, size } => {
                let (ino, handle) = self.held(slot)?;
                let set = SetAttr { size: Some(size), ..SetAttr::default() };
                drop(self.ask_alone(ino, Request::SetAttr { ino, set, handle: Some(handle) }).await);
            }
            Step::Fsync { slot } => {
                let (ino, handle) = self.held(slot)?;
                drop(self.ask(Request::Fsync { ino, handle }).await);
            }
            Step::Flush { slot } => {
                let (ino, handle) = self.held(slot)?;
                drop(self.ask(Request::Flush { ino, handle, lock_owner: 0 }).await);
            }
            Step::Close { slot } => self.close(slot).await,
            Step::Fstat { slot } => {
                let (ino, _) = self.held(slot)?;
                drop(self.ask(Request::GetAttr { ino }).await);
            }
            Step::Fallocate { slot, at, len, how } => {
                let (ino, handle) = self.held(slot)?;
                use Fallocate as F;
                let modes = [F::Allocate, F::KeepSize, F::PunchHole, F::ZeroRange, F::ZeroRangeKeepSize];
                let mode = *modes.get(usize::from(how))?;
                drop(self.ask_alone(ino, Request::Fallocate { ino, handle, offset: at, len, mode }).await);
            }
            Step::Copy { slot, at, to, to_at, len } => self.copy(slot, at, to, to_at, len).await?,
            Step::Seek { slot, at, hole } => {
                let (ino, handle) = self.held(slot)?;
                let lock = self.scene.lock_of(ino);
                let _shared = lock.read().await;
                let what = if hole { SeekWhat::Hole } else { SeekWhat::Data };
                drop(self.ask(Request::Lseek { ino, handle, offset: at, what }).await);
            }
            _ => {}
        }
        Some(())
    }

    async fn copy(&mut self, slot: u8, at: u64, to: u8, to_at: u64, len: u64) -> Option<()> {
        let (from, from_handle) = self.held(slot)?;
        let (to, to_handle) = self.held(to)?;
        if from == to && at < to_at + len && to_at < at + len {
            return None; // the kernel refuses overlapping copies itself
        }
        let (from_offset, to_offset) = (at, to_at);
        let copy = Request::CopyRange { from, from_handle, from_offset, to, to_handle, to_offset, len };
        drop(self.ask_above(from, to, copy).await);
        Some(())
    }

    async fn take_node(&mut self, step: Step) -> Option<()> {
        let set = |ino, set| Request::SetAttr { ino, set, handle: None };
        match step {
            Step::Stat { path } => {
                let (ino, _) = self.find(&path).await?;
                drop(self.ask(Request::GetAttr { ino }).await);
            }
            Step::Readlink { path } => {
                let (ino, attr) = self.find(&path).await?;
                if attr.kind == FileType::Symlink {
                    drop(self.ask(Request::Readlink { ino }).await);
                }
            }
            Step::Chmod { path, mode } => {
                let (ino, attr) = self.find(&path).await?;
                let keep = attr.mode & 0o7000;
                let change = SetAttr { mode: Some(mode & 0o777 | keep), ..SetAttr::default() };
                drop(self.ask_alone(ino, set(ino, change)).await);
            }
            Step::Chown { path, uid, gid } => {
                let (ino, _) = self.find(&path).await?;
                let change = SetAttr { uid: Some(uid), gid: Some(gid), ..SetAttr::default() };
                drop(self.ask_alone(ino, set(ino, change)).await);
            }
            Step::Utimes { path, sec } => {
                let (ino, _) = self.find(&path).await?;
                let time = SetTime::At(Time::new(sec, 5));
                let change = SetAttr { atime: Some(time), mtime: Some(time), ..SetAttr::default() };
                drop(self.ask_alone(ino, set(ino, change)).await);
            }
            Step::Truncate { path, size } => {
                let (ino, attr) = self.find(&path).await?;
                if attr.is_file() {
                    let change = SetAttr { size: Some(size), ..SetAttr::default() };
                    drop(self.ask_alone(ino, set(ino, change)).await);
                }
            }
            Step::List { path } => {
                let (ino, attr) = self.find(&path).await?;
                if attr.is_dir() {
                    self.list(ino).await;
                }
            }
            Step::FsyncDir { path } => {
                let (ino, attr) = self.find(&path).await?;
                if attr.is_dir() {
                    drop(self.ask(Request::FsyncDir { ino }).await);
                }
            }
            other => self.take_xattr(other).await?,
        }
        Some(())
    }

    async fn take_xattr(&mut self, step: Step) -> Option<()> {
        let named = |number: u8| Name::new(format!("user.{number}").as_bytes()).ok();
        match step {
            Step::SetXattr { path, name, len, how } => {
                let (ino, _) = self.find(&path).await?;
                let mode = *[XattrMode::Any, XattrMode::Create, XattrMode::Replace].get(usize::from(how))?;
                self.writes += 1;
                let value = noise(self.writes, usize::from(len)).to_vec();
                drop(self.ask(Request::SetXattr { ino, name: named(name)?, value, mode }).await);
            }
            Step::GetXattr { path, name } => {
                let (ino, _) = self.find(&path).await?;
                drop(self.ask(Request::GetXattr { ino, name: named(name)? }).await);
            }
            Step::ListXattr { path } => {
                let (ino, _) = self.find(&path).await?;
                drop(self.ask(Request::ListXattr { ino }).await);
            }
            Step::RemoveXattr { path, name } => {
                let (ino, _) = self.find(&path).await?;
                drop(self.ask(Request::RemoveXattr { ino, name: named(name)? }).await);
            }
            _ => {}
        }
        Some(())
    }

    /// Reads a whole directory; the court hears one call and one answer.
    async fn list(&self, ino: Ino) {
        let scene = &self.scene;
        let lock = scene.lock_of(ino);
        let _shared = lock.read().await;
        let id = {
            let mut bench = scene.bench.borrow_mut();
            bench.court.as_mut().map_or(0, |court| court.ask(Request::OpenDir { ino }, scene.clock.now()))
        };
        scene.tape.say(|| format!("user {}: lists directory {ino}", self.number));
        let answer = entries(scene, ino).await.map(|mut all| {
            all.retain(|entry| !copies::is_place(ino, &entry.name));
            Response::Dirents(all)
        });
        let verdict = {
            let mut bench = scene.bench.borrow_mut();
            bench.court.as_mut().map_or(Ok(()), |court| court.answer(id, &answer, scene.clock.now()))
        };
        if let Err(violation) = verdict {
            scene.violated(violation);
        }
    }
}

/// All entries of a directory, read in small pieces.
pub async fn entries(scene: &Scene, ino: Ino) -> Result<Vec<Dirent>, zest_types::Errno> {
    let Response::Opened { handle, .. } = scene.plain(Request::OpenDir { ino }).await? else {
        return Err(zest_types::Errno::EIO);
    };
    let (mut all, mut offset) = (Vec::new(), 0);
    loop {
        let ask = Request::ReadDir { ino, handle, offset, max_entries: 3, plus: true };
        let Response::Dirents(piece) = scene.plain(ask).await? else { return Err(zest_types::Errno::EIO) };
        let Some(last) = piece.last() else { break };
        offset = last.cookie;
        all.extend(piece);
    }
    scene.plain(Request::ReleaseDir { ino, handle }).await?;
    Ok(all)
}

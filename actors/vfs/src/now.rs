//! What can be answered on the spot, in the thread that took the request from the kernel: no actor, no wait.
//! `None` means that it can't, and nothing was done; the slow way (`slow`) then does all of it.

use crate::dirs::{DirStream, Position, StreamEntry};
use crate::handles::{FileHandle, Opened};
use crate::open_flags::OpenFlags;
use crate::read::Fetched;
use crate::shared::Shared;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use zest_data::{SealReason, WriteError};
use zest_metadata::acl::AclKind;
use zest_types::request::Dirent;
use zest_types::{Attr, Caller, Errno, FileType, Handle, Ino, Name, Request, Response, ServeResult, limits};
use zest_world::planted::{self, Bug};

/// Extended attributes the kernel asks for on every write or listing and that no volume has, or this one has not.
fn never_set(name: &Name, acl: bool) -> Option<Errno> {
    match name.as_bytes() {
        b"security.capability" | b"security.selinux" | b"security.ima" => Some(Errno::ENODATA),
        name if AclKind::of(name).is_some() && !acl => Some(Errno::ENOTSUP),
        _ => None,
    }
}

impl Shared {
    /// Answers a request from views, cache and unflushed writes, if they suffice.
    pub fn now(&self, caller: &Caller, request: &Request<'_>) -> Option<ServeResult> {
        let slips = planted::active(Bug::WriteAfterFencing) && matches!(request, Request::Write { .. });
        if self.refuses_changes() && changes_something(request) && !slips {
            return Some(Err(Errno::EROFS));
        }
        match request {
            Request::Lookup { parent, name } => self.lookup_now(caller, *parent, name),
            Request::GetAttr { ino } => self.node_now(*ino),
            Request::Open { ino, flags } => self.open_now(caller, *ino, OpenFlags(*flags)),
            Request::Read { ino, handle, offset, size } => self.read_now(*ino, *handle, *offset, *size),
            Request::Write { handle, offset, data, .. } => self.write_now(*handle, *offset, data),
            Request::Flush { ino, handle, lock_owner } => self.flush_now(*ino, *handle, *lock_owner),
            Request::Release { ino, handle } => self.release_now(*ino, *handle),
            Request::OpenDir { ino } => self.open_dir_now(caller, *ino),
            Request::ReadDir { handle, offset, max_entries, plus, .. } => {
                self.read_dir_now(*handle, *offset, *max_entries, *plus)
            }
            Request::ReleaseDir { handle, .. } => {
                Some(self.handles.remove(*handle).map(|_| Response::Done).ok_or(Errno::EBADF))
            }
            Request::GetXattr { name, .. } => never_set(name, self.acl).map(Err),
            Request::SetXattr { name, .. } | Request::RemoveXattr { name, .. } => {
                never_set(name, self.acl).map(|_| Err(Errno::ENOTSUP))
            }
            _ => None,
        }
    }

    fn node_now(&self, ino: Ino) -> Option<ServeResult> {
        if !self.answers_from_views() {
            return None;
        }
        // One without links may be gone for all but those who have it open.
        let attr = self.attr(ino).filter(|attr| self.exclusive || attr.nlink > 0)?;
        Some(Ok(Response::Attr { ino, attr }))
    }

    fn lookup_now(&self, caller: &Caller, parent: Ino, name: &Name) -> Option<ServeResult> {
        if !self.answers_from_views()
            || caller.check
            || name.is_dots()
            || (parent == Ino::ROOT && name.as_bytes() == b".trash")
        {
            return None;
        }
        match self.views.dentry(parent, name, self.mono())? {
            None => Some(Err(Errno::ENOENT)),
            Some((_, ino)) => self.attr(ino).map(|attr| Ok(Response::Entry { ino, attr })),
        }
    }

    /// Only where nobody else changes the volume, or where the user gave that up: elsewhere an open asks, so that
    /// it sees what others closed.
    fn open_now(&self, caller: &Caller, ino: Ino, flags: OpenFlags) -> Option<ServeResult> {
        if !(self.exclusive || self.open_cache) || caller.check {
            return None;
        }
        let attr = self.attr(ino)?;
        if let Some(errno) = open_refusal(&attr, flags) {
            return Some(Err(errno));
        }
        if flags.truncates() && attr.length > 0 {
            return None;
        }
        let file = self.files.open(ino)?;
        // A removal may have been decided before the file was open; then its attributes are gone by now.
        if self.views.attr(ino, self.mono()).is_none() {
            self.files.close(ino);
            return None;
        }
        Some(Ok(Response::Opened { handle: self.add_handle(file, flags), keep_cache: true }))
    }

    /// A number for an opened file.
    pub fn add_handle(&self, file: Arc<crate::files::OpenFile>, flags: OpenFlags) -> Handle {
        self.handles.add(Opened::File(Arc::new(FileHandle {
            file,
            readable: flags.reads(),
            writable: flags.writes(),
            stream: Mutex::default(),
        })))
    }

    fn read_now(&self, ino: Ino, handle: Handle, offset: u64, size: u32) -> Option<ServeResult> {
        let file = match self.file(handle) {
            Ok(file) if file.readable => file,
            _ => return Some(Err(Errno::EBADF)),
        };
        let pieces = self.read(ino, offset, size, &Fetched::default()).ok()?;
        self.read_ahead(&file, offset, size);
        Some(Ok(Response::Data(pieces)))
    }

    fn write_now(&self, handle: Handle, offset: u64, data: &[u8]) -> Option<ServeResult> {
        let file = match self.file(handle) {
            Ok(file) if file.writable => file,
            _ => return Some(Err(Errno::EBADF)),
        };
        if offset.checked_add(data.len() as u64).is_none_or(|end| end >= limits::FILE_MAX) {
            return Some(Err(Errno::EFBIG));
        }
        let _shared = file.file.gate.try_read().ok()?;
        match self.try_write(&file, offset, data) {
            Ok(()) => Some(Ok(Response::Written(u32::try_from(data.len()).unwrap_or(u32::MAX)))),
            Err(WriteError::TooLarge) => Some(Err(Errno::EFBIG)),
            Err(WriteError::Full | WriteError::NoSliceId) => None,
        }
    }

    /// One try to put a write into the file's writer; the gate is held by the caller.
    pub fn try_write(&self, handle: &FileHandle, offset: u64, data: &[u8]) -> Result<(), WriteError> {
        if data.is_empty() {
            return Ok(());
        }
        let file = &handle.file;
        let mut writer = file.writer();
        let mut ids = || self.slice_ids.take();
        let handover = writer.write(offset, data, self.world.clock.now(), self.mono(), &mut ids)?;
        file.note_dirty(&writer);
        self.hand_over(file.ino, handover);
        drop(writer);
        self.refill_ids();
        Ok(())
    }

    /// Seals everything unflushed of a file; answers whether something is on its way to the store.
    pub fn seal(&self, file: &crate::files::OpenFile, reason: SealReason) -> bool {
        let Some(mut writer) = file.dirty_writer() else { return false };
        let handover = writer.seal_all(reason);
        self.hand_over(file.ino, handover);
        !writer.is_clean()
    }

    fn flush_now(&self, ino: Ino, handle: Handle, lock_owner: u64) -> Option<ServeResult> {
        let Some(file) = self.handles.file(handle) else { return Some(Err(Errno::EBADF)) };
        if self.waiters.has_range(ino, lock_owner) {
            return None; // closing takes the owner's locks away, which is a change
        }
        if !file.writable {
            return Some(Ok(Response::Done));
        }
        let under_way = self.seal(&file.file, SealReason::Flush);
        if under_way && !self.exclusive {
            return None; // others may open the file next, and shall see what was written
        }
        Some(self.upload_error(&file.file).map(|()| Response::Done))
    }

    /// The error of an upload that failed since someone asked last.
    pub fn upload_error(&self, file: &crate::files::OpenFile) -> Result<(), Errno> {
        let mut writer = file.writer();
        let error = writer.take_error();
        if error.is_some() {
            file.note_dirty(&writer);
        }
        error.map_or(Ok(()), Err)
    }

    fn release_now(&self, ino: Ino, handle: Handle) -> Option<ServeResult> {
        if self.handles.file(handle).is_none() {
            return Some(Err(Errno::EBADF));
        }
        if self.waiters.has_any(ino) {
            return None;
        }
        // The last handle of a removed file takes the file with it, which is a change.
        if self.views.attr(ino, self.mono()).is_none_or(|attr| attr.nlink == 0) {
            return None;
        }
        self.close(handle);
        Some(Ok(Response::Done))
    }

    /// Gives a file's handle back; tells whether it was the last of its file.
    pub fn close(&self, handle: Handle) -> bool {
        match self.handles.remove(handle) {
            Some(Opened::File(file)) => {
                self.seal(&file.file, SealReason::Flush);
                self.files.close(file.file.ino)
            }
            _ => false,
        }
    }

    fn open_dir_now(&self, caller: &Caller, ino: Ino) -> Option<ServeResult> {
        if caller.check {
            return None;
        }
        if !self.attr(ino)?.is_dir() {
            return Some(Err(Errno::ENOTDIR));
        }
        Some(Ok(self.add_dir(ino)))
    }

    /// A number for an opened directory.
    pub fn add_dir(&self, ino: Ino) -> Response {
        let handle = self.handles.add(Opened::Dir(Arc::new(Mutex::new(DirStream::new(ino)))));
        Response::Opened { handle, keep_cache: false }
    }

    fn read_dir_now(&self, handle: Handle, offset: u64, max: u32, plus: bool) -> Option<ServeResult> {
        let Some(stream) = self.handles.dir(handle) else { return Some(Err(Errno::EBADF)) };
        let mut stream = stream.lock();
        if offset == 0 {
            stream.rewind();
        }
        let mut entries = Vec::new();
        let mut cookie = offset + 1;
        while entries.len() < max as usize {
            let dirent = match cookie {
                1 => self.dirent(b".", stream.ino, FileType::Directory, cookie),
                2 => {
                    let parent = self.attr(stream.ino).map_or(stream.ino, |attr| attr.parent);
                    self.dirent(
                        b"..",
                        if parent.0 == 0 { stream.ino } else { parent },
                        FileType::Directory,
                        cookie,
                    )
                }
                _ => match stream.position(cookie) {
                    Position::Here => stream.entry(cookie).map(|entry| self.listed(entry, cookie, plus)),
                    Position::End => break,
                    Position::Fetch(_) if entries.is_empty() => return None,
                    Position::Fetch(_) => break,
                },
            };
            entries.extend(dirent);
            cookie += 1;
        }
        Some(Ok(Response::Dirents(entries)))
    }

    /// An entry with what is known of its node: where no lease holds, what it was last is better than nothing, since
    /// a kernel that makes the node from it keeps its type and device.
    fn listed(&self, entry: &StreamEntry, cookie: u64, plus: bool) -> Dirent {
        let StreamEntry { name, kind, ino } = entry.clone();
        let leased = if plus { self.attr(ino) } else { None };
        let holds = leased.is_some();
        let attr = leased.or_else(|| plus.then(|| self.views.attr_since(ino, Duration::ZERO)).flatten());
        Dirent { name, ino, kind, cookie, attr, holds }
    }

    fn dirent(&self, name: &[u8], ino: Ino, kind: FileType, cookie: u64) -> Option<Dirent> {
        Some(Dirent { name: Name::new(name).ok()?, ino, kind, cookie, attr: None, holds: false })
    }
}

/// Whether an open is refused for what the node is.
pub fn open_refusal(attr: &Attr, flags: OpenFlags) -> Option<Errno> {
    use zest_types::attr::flags::{APPEND, IMMUTABLE};
    if attr.is_dir() && flags.writes() {
        return Some(Errno::EISDIR);
    }
    let changes = flags.writes() || flags.truncates();
    if changes && (attr.flags & IMMUTABLE != 0 || attr.lives_in_trash()) {
        return Some(Errno::EPERM);
    }
    let rewrites = flags.truncates() || flags.writes() && !flags.appends();
    (attr.flags & APPEND != 0 && rewrites).then_some(Errno::EPERM)
}

fn changes_something(request: &Request<'_>) -> bool {
    match request {
        Request::Open { flags, .. } => OpenFlags(*flags).writes() || OpenFlags(*flags).truncates(),
        Request::SetAttr { .. }
        | Request::Mknod { .. }
        | Request::Mkdir { .. }
        | Request::Symlink { .. }
        | Request::Unlink { .. }
        | Request::Rmdir { .. }
        | Request::Rename { .. }
        | Request::Link { .. }
        | Request::Create { .. }
        | Request::Write { .. }
        | Request::SetXattr { .. }
        | Request::RemoveXattr { .. }
        | Request::Fallocate { .. }
        | Request::CopyRange { .. } => true,
        _ => false,
    }
}

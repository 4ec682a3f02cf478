//! Mounting without a library: the kernel's device and mount(2), or the set-user-id helper fusermount3 for those who
//! may not mount themselves. Unmounts at the end if nobody else has.

use super::device::{Device, is_cut};
use super::uring::Cut;
use crate::mount_point;
use fuser::MountOption;
use rustix::fs::Mode;
use rustix::mount::MountFlags;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::ffi::CString;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// The kind of file system, as mount tables show it.
const KIND: &str = "fuse.zest";

/// How to mount.
pub struct MountPlan<'a> {
    /// Where.
    pub point: &'a Path,
    /// The name of the source.
    pub source: &'a str,
    /// Users other than the one who mounts may use it.
    pub allow_other: bool,
    /// Options beside those every mount has.
    pub options: &'a [MountOption],
}

/// A mount. Dropped, it is taken away if it is still there.
pub struct Mounted {
    point: PathBuf,
    device: OwnedFd,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // A connection that is cut was unmounted; what is at this place now is somebody else's.
        if !is_cut(&self.device)
            && let Err(error) = mount_point::leave(&self.point, true)
        {
            tracing::warn!("{error}");
        }
    }
}

impl Mounted {
    /// A mount that was made before, by another process.
    pub fn before(point: &Path, device: BorrowedFd<'_>) -> io::Result<Mounted> {
        Ok(Mounted { point: point.to_owned(), device: device.try_clone_to_owned()? })
    }

    /// What ends the mount at once, whoever uses it.
    pub(super) fn cut(&self) -> Cut {
        let (point, device) = (self.point.clone(), self.device.try_clone());
        Arc::new(move || {
            if device.as_ref().is_ok_and(is_cut) {
                return;
            }
            let flags = rustix::mount::UnmountFlags::FORCE | rustix::mount::UnmountFlags::DETACH;
            if let Err(error) = rustix::mount::unmount(&*point, flags) {
                tracing::error!("the mount at {} can't be ended: {error}", point.display());
            }
        })
    }
}

impl MountPlan<'_> {
    /// Mounts; gives the connection, and what keeps it mounted.
    pub fn mount(&self) -> io::Result<(OwnedFd, Mounted)> {
        let fd = match self.directly() {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => self.with_helper()?,
            other => other?,
        };
        let device = fd.try_clone()?;
        Ok((fd, Mounted { point: self.point.to_owned(), device }))
    }

    fn has(&self, option: &MountOption) -> bool {
        self.options.contains(option)
    }

    fn flags(&self) -> MountFlags {
        let mut flags = MountFlags::NOSUID | MountFlags::NODEV;
        for option in self.options {
            match option {
                MountOption::RO => flags |= MountFlags::RDONLY,
                MountOption::Dev => flags -= MountFlags::NODEV,
                MountOption::Suid => flags -= MountFlags::NOSUID,
                MountOption::NoExec => flags |= MountFlags::NOEXEC,
                MountOption::NoAtime => flags |= MountFlags::NOATIME,
                MountOption::Sync => flags |= MountFlags::SYNCHRONOUS,
                MountOption::DirSync => flags |= MountFlags::DIRSYNC,
                _ => {}
            }
        }
        flags
    }

    /// As root.
    fn directly(&self) -> io::Result<OwnedFd> {
        let fd = Device::open()?;
        let mode = rustix::fs::stat(self.point)?.st_mode & !Mode::from_raw_mode(0o7777).as_raw_mode();
        let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let number = fd.as_raw_fd();
        let mut data =
            format!("fd={number},rootmode={mode:o},user_id={user},group_id={group},default_permissions");
        if self.allow_other {
            data.push_str(",allow_other");
        }
        let data = CString::new(data).map_err(io::Error::other)?;
        rustix::mount::mount(self.source, self.point, KIND, self.flags(), &*data)?;
        Ok(fd)
    }

    fn helper_options(&self) -> String {
        let escaped = self.source.replace('\\', "\\\\").replace(',', "\\,");
        let mut all = format!("fsname={escaped},subtype=zest,default_permissions");
        let mut add = |wanted: bool, word: &str| {
            if wanted {
                all.push(',');
                all.push_str(word);
            }
        };
        add(self.allow_other, "allow_other");
        add(self.has(&MountOption::RO), "ro");
        add(self.has(&MountOption::Dev), "dev");
        add(self.has(&MountOption::Suid), "suid");
        add(self.has(&MountOption::NoExec), "noexec");
        add(self.has(&MountOption::NoAtime), "noatime");
        add(self.has(&MountOption::Sync), "sync");
        add(self.has(&MountOption::DirSync), "dirsync");
        all
    }

    /// The helper mounts and sends the connection over a socket whose number it is told.
    fn with_helper(&self) -> io::Result<OwnedFd> {
        let (ours, theirs) = UnixStream::pair()?;
        rustix::io::fcntl_setfd(&theirs, rustix::io::FdFlags::empty())?;
        let child = Command::new("fusermount3")
            .args(["-o", &self.helper_options(), "--"])
            .arg(self.point)
            .env("_FUSE_COMMFD", theirs.as_raw_fd().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        drop(theirs);
        let received = receive(&ours);
        let output = child.wait_with_output()?;
        match received? {
            Some(fd) => Ok(fd),
            None => {
                let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                Err(io::Error::new(io::ErrorKind::PermissionDenied, said))
            }
        }
    }
}

/// The descriptor that comes over a socket; none if it is closed without one.
fn receive(socket: &impl AsFd) -> io::Result<Option<OwnedFd>> {
    let mut byte = [0; 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [IoSliceMut::new(&mut byte)];
    loop {
        match recvmsg(socket, &mut bytes, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Ok(_) => break,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut received = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    Ok(received.next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_reach_the_kernel_and_the_helper() {
        let options = [MountOption::RO, MountOption::Dev, MountOption::NoExec];
        let plan = MountPlan { point: Path::new("/m"), source: "a,b", allow_other: true, options: &options };
        assert_eq!(plan.flags(), MountFlags::NOSUID | MountFlags::RDONLY | MountFlags::NOEXEC);
        assert_eq!(
            plan.helper_options(),
            "fsname=a\\,b,subtype=zest,default_permissions,allow_other,ro,dev,noexec"
        );
    }

    #[test]
    fn a_descriptor_comes_over_a_socket_or_does_not() {
        use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
        let (ours, theirs) = UnixStream::pair().unwrap();
        let file = tempfile::tempfile().unwrap();
        let fds = [file.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&fds)));
        sendmsg(&theirs, &[std::io::IoSlice::new(b"x")], &mut ancillary, SendFlags::empty()).unwrap();
        let received = receive(&ours).unwrap().unwrap();
        let same = |fd: &dyn Fn() -> rustix::fs::Stat| (fd().st_dev, fd().st_ino);
        assert_eq!(
            same(&|| rustix::fs::fstat(&received).unwrap()),
            same(&|| rustix::fs::fstat(&file).unwrap())
        );
        drop(theirs);
        assert!(receive(&ours).unwrap().is_none());
    }
}

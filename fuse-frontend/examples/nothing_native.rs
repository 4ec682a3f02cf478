//! The do-nothing server of `nothing`, behind our own door: one file of 1 GiB in memory, with the threads and the
//! agreements of a real mount. What kernel and transport cost, and so the yardstick for `--door dev`.
//! `nothing_native MOUNTPOINT [uring]` serves `MOUNTPOINT/data` until it is unmounted, over rings if that is said.
// A yardstick is outside of everything that decides.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use bytes::Bytes;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use zest_codec::{Incoming, Shape, Terms, answer, translate};
use zest_fuse::door::capabilities;
use zest_fuse::native::{Device, Handler, MountPlan, Reply, RingPlan, Session, Ways, wish};
use zest_types::{Attr, Errno, FileType, Handle, Ino, Name, Request, Response, ServeResult, Time};

/// Bytes of the file.
const SIZE: usize = 1 << 30;
/// The file.
const FILE: Ino = Ino(2);
/// The memory of a large mount, of which rings have their share.
const MEMORY: u64 = 4 << 30;

struct Nothing {
    data: Bytes,
}

struct Hour;

impl Terms for Hour {
    fn valid(&self, _: Ino, _: &Attr) -> (Duration, Duration) {
        (Duration::from_secs(3600), Duration::from_secs(3600))
    }
    fn negative(&self, _: Ino) -> Duration {
        Duration::ZERO
    }
    fn keep_dir(&self, _: Ino) -> bool {
        false
    }
    fn close_drops_locks(&self) -> bool {
        false
    }
}

fn attr(ino: Ino) -> Attr {
    let kind = if ino == FILE { FileType::File } else { FileType::Directory };
    let mut attr = Attr::new(kind, 0o755, 0, 0, Ino::ROOT, Time::default());
    attr.length = if ino == FILE { SIZE as u64 } else { 4096 };
    attr
}

impl Nothing {
    fn serve(&self, request: &Request<'_>) -> ServeResult {
        Ok(match request {
            Request::Lookup { name, .. } if Name::new(b"data").is_ok_and(|data| data == *name) => {
                Response::Entry { ino: FILE, attr: attr(FILE) }
            }
            Request::GetAttr { ino } => Response::Attr { ino: *ino, attr: attr(*ino) },
            Request::Open { .. } | Request::OpenDir { .. } => {
                Response::Opened { handle: Handle(1), keep_cache: true }
            }
            Request::Read { offset, size, .. } => {
                let from = usize::try_from(*offset).unwrap_or(SIZE).min(SIZE);
                let to = from.saturating_add(*size as usize).min(SIZE);
                Response::Data(vec![self.data.slice(from..to)])
            }
            Request::Release { .. } | Request::ReleaseDir { .. } | Request::Flush { .. } => Response::Done,
            _ => return Err(Errno::ENOENT),
        })
    }
}

impl Handler for Nothing {
    fn handle(&self, incoming: &Incoming<'_>, reply: Reply) {
        let (result, shape) = match translate(incoming) {
            Ok(ask) => (self.serve(&ask.request), ask.shape),
            Err(errno) => (Err(errno), Shape::Done),
        };
        match answer(reply.unique(), shape, result, &Hour) {
            Ok(answer) => reply.send(answer),
            Err(_) => reply.refuse(Errno::EIO),
        }
    }
}

fn serve(point: &std::path::Path, rings: bool) -> io::Result<()> {
    // Written, so that the pages are there.
    let data = Bytes::from(vec![0x5a; SIZE]);
    let plan = MountPlan { point, source: "nothing", allow_other: true, options: &[] };
    let (fd, mounted) = plan.mount()?;
    let rings = if rings { RingPlan::here(MEMORY) } else { None };
    let (wish, ways) =
        (wish(false, false, false, true), Ways { threads: capabilities::reader_threads(), rings });
    Session::begin(Arc::new(Nothing { data }), Device::new(fd, None), Some(mounted), &wish, ways)?.run()
}

fn main() -> ExitCode {
    let Some(point) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: nothing_native MOUNTPOINT [uring]");
        return ExitCode::FAILURE;
    };
    match serve(&point, std::env::args_os().nth(2).is_some_and(|way| way == "uring")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nothing_native: {}: {error}", point.display());
            ExitCode::FAILURE
        }
    }
}

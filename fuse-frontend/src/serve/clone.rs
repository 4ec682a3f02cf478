//! What a mount does when it is asked for a copy: `FROM PARENT NAME KEEP UMASK`, the name in hexadecimal. Everything
//! written before is in the copy; the kernel forgets what it knew of the name. What it takes is `vfs`'s business.

use crate::door::Kernel;
use serde_json::json;
use zest_metadata::clone::Job;
use zest_types::{Caller, Ino, Name};
use zest_vfs::Mount;

/// Does it and answers in JSON. Node 1 is the mount's `root`.
pub(super) fn answer(
    mount: &Mount,
    root: Ino,
    kernel: Option<&dyn Kernel>,
    question: &str,
    (uid, gid): (u32, u32),
) -> String {
    let Some(mut job) = read(question) else { return failed("that names no copy") };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return failed("the process has no room for a copy");
    };
    let caller = Caller { uid, gid, pid: 0, check: true };
    for ino in [&mut job.from, &mut job.parent] {
        *ino = if *ino == Ino::ROOT { root } else { *ino };
    }
    let (parent, name) = (job.parent, job.name.clone());
    match runtime.block_on(mount.vfs.shared().copy(caller, job, root)) {
        Ok(ino) => {
            if let Some(kernel) = kernel {
                // What it does not know it need not forget.
                kernel.forget_name(parent, &name);
                kernel.forget_pages(parent, 0, 0);
            }
            json!({ "inode": ino.0 }).to_string()
        }
        Err(errno) => failed(errno.text()),
    }
}

fn failed(why: &str) -> String {
    json!({ "error": why }).to_string()
}

fn read(question: &str) -> Option<Job> {
    let mut words = question.split(' ');
    let mut number = |radix| u64::from_str_radix(words.next()?, radix).ok();
    let (from, parent) = (Ino(number(10)?), Ino(number(10)?));
    let name = words.next()?;
    let bytes: Option<Vec<u8>> =
        (0..name.len() / 2).map(|at| u8::from_str_radix(name.get(2 * at..2 * at + 2)?, 16).ok()).collect();
    let name = Name::new(&bytes?).ok()?;
    let keep = words.next()? == "1";
    let umask = u16::from_str_radix(words.next()?, 8).ok()?;
    Some(Job { from, parent, name, keep, umask })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_read() {
        let job = read("2 1 ff61 1 022").unwrap();
        assert_eq!((job.from, job.parent, job.name.as_bytes()), (Ino(2), Ino(1), &b"\xffa"[..]));
        assert!(job.keep && job.umask == 0o022);
        for bad in ["", "2", "2 1", "2 1 6", "2 1 zz 0 022", "2 1 61 0 99", "2 1 2f 0 022", "x 1 61 0 022"] {
            assert!(read(bad).is_none(), "{bad}");
        }
    }
}

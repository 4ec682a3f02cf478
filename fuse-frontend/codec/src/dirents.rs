//! Listings of directories as the kernel reads them: records one after the other, each filled up to 8 bytes.

use crate::abi;
use crate::answer::{Terms, entry};
use crate::convert;
use std::time::Duration;
use zerocopy::IntoBytes;
use zest_types::request::Dirent;
use zest_types::{Ino, limits};

const ALIGN: usize = 8;

fn room(size: u32) -> usize {
    (size as usize).min(limits::MAX_IO as usize)
}

/// Adds an entry if there is room for all of it.
fn add(out: &mut Vec<u8>, room: usize, before: &[u8], dirent: &Dirent, node: Ino) -> bool {
    let name = dirent.name.as_bytes();
    let head = abi::Dirent {
        ino: node.0,
        off: dirent.cookie,
        namelen: name.len() as u32,
        kind: convert::dirent_kind(dirent.kind),
    };
    let end = (out.len() + before.len() + size_of::<abi::Dirent>() + name.len()).next_multiple_of(ALIGN);
    if end > room {
        return false;
    }
    out.extend_from_slice(before);
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(name);
    out.resize(end, 0);
    true
}

/// As many entries as fit into `size` bytes.
pub(crate) fn plain(entries: &[Dirent], size: u32, terms: &impl Terms) -> Vec<u8> {
    let room = room(size);
    let mut out = Vec::with_capacity(room);
    for entry in entries {
        if !add(&mut out, room, &[], entry, terms.node(entry.ino)) {
            break;
        }
    }
    out
}

/// The same, each with its attributes. Where they are not known, the kernel is told so by node 0, and asks itself.
pub(crate) fn plus(entries: &[Dirent], dir: Ino, size: u32, terms: &impl Terms) -> Vec<u8> {
    let room = room(size);
    let mut out = Vec::with_capacity(room);
    for dirent in entries {
        let node = terms.node(dirent.ino);
        let known = dirent.attr.as_ref().map(|attr| {
            let hold = match dirent.holds {
                true => terms.valid_in(dir, &dirent.name, dirent.ino, attr),
                false => (Duration::ZERO, Duration::ZERO),
            };
            entry(node, attr, hold)
        });
        if !add(&mut out, room, known.unwrap_or_default().as_bytes(), dirent, node) {
            break;
        }
    }
    out
}

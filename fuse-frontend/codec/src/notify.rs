//! What the kernel is told unasked: that its copy of something is not right any more.

use crate::abi::{
    EXPIRE_ONLY, NotifyDeleteOut, NotifyInvalEntryOut, NotifyInvalInodeOut, NotifyPruneOut,
    NotifyRetrieveOut, OutHeader, notify_code,
};
use zerocopy::IntoBytes;
use zest_types::{Ino, Name};

/// A notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notification {
    /// Attributes of a node, and its pages from `offset` on; a negative offset leaves the pages alone, a length of 0
    /// means all that follow.
    Node {
        /// Which node.
        ino: Ino,
        /// From where on.
        offset: i64,
        /// How many bytes.
        len: i64,
    },
    /// A name in a directory.
    Entry {
        /// Where.
        parent: Ino,
        /// Which.
        name: Name,
        /// It is only asked for again at its next use; where somebody is, he stays.
        expire_only: bool,
    },
    /// A name that was removed, with the node it led to: who watches the node hears of it.
    Removed {
        /// Where.
        parent: Ino,
        /// The node.
        child: Ino,
        /// Which.
        name: Name,
    },
    /// Every name there is: each is asked for again at its next use.
    AllEntries,
    /// Requests that were read and not answered: each comes once more, with the highest bit of its number set.
    Resend,
    /// Nodes nobody uses, to be let go of.
    Prune(Vec<Ino>),
    /// Pages the kernel has are to be sent, in a request with this number; with a length of 0 it is a request and
    /// nothing else.
    Retrieve {
        /// The number of the request that comes.
        unique: u64,
        /// Which node.
        ino: Ino,
        /// From where on.
        offset: u64,
        /// How many bytes.
        size: u32,
    },
}

impl Notification {
    /// The bytes to write to the kernel.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        match self {
            Notification::Node { ino, offset, len } => {
                let part = NotifyInvalInodeOut { ino: ino.0, off: *offset, len: *len };
                frame(notify_code::INVAL_INODE, part.as_bytes(), &[])
            }
            Notification::Entry { parent, name, expire_only } => {
                let flags = if *expire_only { EXPIRE_ONLY } else { 0 };
                let namelen = name.as_bytes().len() as u32;
                let part = NotifyInvalEntryOut { parent: parent.0, namelen, flags };
                frame(notify_code::INVAL_ENTRY, part.as_bytes(), &terminated(name))
            }
            Notification::Removed { parent, child, name } => {
                let namelen = name.as_bytes().len() as u32;
                let part = NotifyDeleteOut { parent: parent.0, child: child.0, namelen, padding: 0 };
                frame(notify_code::DELETE, part.as_bytes(), &terminated(name))
            }
            Notification::AllEntries => frame(notify_code::INC_EPOCH, &[], &[]),
            Notification::Resend => frame(notify_code::RESEND, &[], &[]),
            Notification::Prune(nodes) => {
                let count = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
                let part = NotifyPruneOut { count, ..NotifyPruneOut::default() };
                let numbers: Vec<u8> = nodes.iter().flat_map(|ino| ino.0.to_ne_bytes()).collect();
                frame(notify_code::PRUNE, part.as_bytes(), &numbers)
            }
            Notification::Retrieve { unique, ino, offset, size } => {
                let part = NotifyRetrieveOut {
                    notify_unique: *unique,
                    nodeid: ino.0,
                    offset: *offset,
                    size: *size,
                    padding: 0,
                };
                frame(notify_code::RETRIEVE, part.as_bytes(), &[])
            }
        }
    }
}

fn terminated(name: &Name) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.push(0);
    bytes
}

fn frame(code: i32, part: &[u8], tail: &[u8]) -> Vec<u8> {
    let len = u32::try_from(size_of::<OutHeader>() + part.len() + tail.len()).unwrap_or(u32::MAX);
    let header = OutHeader { len, error: code, unique: 0 };
    [header.as_bytes(), part, tail].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_has_no_number_and_says_how_long_it_is() {
        let name = Name::new(b"abc").unwrap();
        for (told, len, code) in [
            (Notification::Node { ino: Ino(7), offset: -1, len: 0 }, 40, 2),
            (Notification::Entry { parent: Ino(1), name: name.clone(), expire_only: true }, 36, 3),
            (Notification::Removed { parent: Ino(1), child: Ino(2), name }, 44, 6),
            (Notification::AllEntries, 16, 8),
            (Notification::Resend, 16, 7),
            (Notification::Prune(vec![Ino(1), Ino(2)]), 48, 9),
            (Notification::Retrieve { unique: 4, ino: Ino(1), offset: 0, size: 0 }, 48, 5),
        ] {
            let bytes = told.to_vec();
            assert_eq!(bytes.len(), len);
            assert_eq!(bytes[..4], (len as u32).to_ne_bytes());
            assert_eq!(bytes[4..8], i32::to_ne_bytes(code));
            assert_eq!(bytes[8..16], [0; 8]);
        }
    }

    #[test]
    fn a_name_to_be_looked_up_again_is_laid_out_as_the_kernel_reads_it() {
        let name = Name::new(b"name").unwrap();
        let words = Notification::Entry { parent: Ino(7), name, expire_only: true }.to_vec();
        assert_eq!((words.len(), &words[..4]), (37, &37u32.to_ne_bytes()[..]));
        assert_eq!(words[16..24], 7u64.to_ne_bytes());
        assert_eq!(words[24..28], 4u32.to_ne_bytes());
        assert_eq!(words[28..32], 1u32.to_ne_bytes(), "only expired");
        assert_eq!((&words[32..36], words[36]), (&b"name"[..], 0));
    }
}

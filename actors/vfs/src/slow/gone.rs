//! What is told of a node that others removed: that its number is stale. The kernel then looks the whole path up anew,
//! once, and finds what stands behind the name now; with `ENOENT` it would be content, although the name is there: whoever
//! replaces a file by renaming another over it never takes the name away.

use super::Task;
use zest_metadata::Key;
use zest_types::{Errno, Ino, Request, ServeResult};

/// Whose absence explains that something was not found.
pub(super) enum Subject {
    /// Nobody's.
    None,
    /// The node itself: what is asked is about nothing else.
    Node,
    /// One of these directories, or it is just a name that nobody has.
    Directories(Ino, Ino),
}

impl Subject {
    /// What a request is about.
    pub(super) fn of(request: &Request<'_>) -> Subject {
        use Request as R;
        match request {
            // There may be no trash yet.
            R::GetAttr { ino: Ino::TRASH } => Subject::None,
            R::GetAttr { .. }
            | R::Read { .. }
            | R::Lseek { .. }
            | R::SetAttr { .. }
            | R::Readlink { .. }
            | R::Open { .. }
            | R::OpenDir { .. }
            | R::Access { .. }
            | R::GetXattr { .. }
            | R::SetXattr { .. }
            | R::ListXattr { .. }
            | R::RemoveXattr { .. } => Subject::Node,
            R::Mknod { parent, .. }
            | R::Mkdir { parent, .. }
            | R::Symlink { parent, .. }
            | R::Create { parent, .. }
            | R::Unlink { parent, .. }
            | R::Rmdir { parent, .. } => Subject::Directories(*parent, *parent),
            R::Rename { parent, new_parent, .. } => Subject::Directories(*parent, *new_parent),
            R::Link { ino, parent, .. } => Subject::Directories(*parent, *ino),
            _ => Subject::None,
        }
    }
}

impl Task {
    /// The answer, where others may remove nodes.
    pub(super) async fn or_stale(&self, subject: Subject, result: ServeResult) -> ServeResult {
        if self.shared.exclusive || result != Err(Errno::ENOENT) {
            return result;
        }
        let gone = match subject {
            Subject::None => false,
            Subject::Node => true,
            Subject::Directories(one, other) => {
                let found = self.look(vec![Key::Attr(one), Key::Attr(other)]).await?;
                found.iter().any(Option::is_none)
            }
        };
        if gone { Err(Errno::ESTALE) } else { result }
    }
}

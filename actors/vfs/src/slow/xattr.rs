//! Extended attributes; access rules are shown as two of them.

use super::Task;
use zest_metadata::acl::{self, AclKind, Rule};
use zest_metadata::{Key, Op, Record, Scan, rules};
use zest_types::limits::XATTR_VALUE_MAX;
use zest_types::{Errno, Ino, Name, Request, Response, ServeResult};

/// Says how much of a file waits on the local disk: blocks and bytes. It is in no listing, so nobody copies it.
pub const STAGED: &[u8] = b"user.zest.staged";

impl Task {
    pub(super) async fn xattr(&self, request: Request<'static>) -> ServeResult {
        match request {
            Request::SetXattr { name, .. } | Request::RemoveXattr { name, .. }
                if name.as_bytes() == STAGED =>
            {
                Err(Errno::EPERM)
            }
            Request::GetXattr { ino, name } if name.as_bytes() == STAGED => {
                let staging = self.shared.staging.as_ref().ok_or(Errno::ENODATA)?;
                let waits = staging.of_file(ino);
                Ok(Response::Xattr(format!("{} {}", waits.blocks, waits.bytes).into_bytes()))
            }
            Request::SetXattr { ino, name, value, mode } => {
                if value.len() > XATTR_VALUE_MAX {
                    return Err(Errno::ERANGE);
                }
                self.change(Op::SetXattr { ino, name, value, mode }).await?;
                Ok(Response::Done)
            }
            Request::RemoveXattr { ino, name } => {
                self.change(Op::RemoveXattr { ino, name }).await?;
                Ok(Response::Done)
            }
            Request::GetXattr { ino, name } => {
                if let Some(kind) = AclKind::of(name.as_bytes()) {
                    return self.acl(ino, kind).await;
                }
                match self.look(vec![Key::Xattr(ino, name)]).await?.pop().flatten() {
                    Some(Record::Bytes(value)) => Ok(Response::Xattr(value)),
                    Some(_) => Err(Errno::EIO),
                    None => Err(Errno::ENODATA),
                }
            }
            Request::ListXattr { ino } => {
                let found = self.find(Scan::Xattrs(ino), false).await?;
                let names = found.into_iter().filter_map(|(key, _)| match key {
                    Key::Xattr(_, name) => Some(name),
                    _ => None,
                });
                let mut names: Vec<Name> = names.collect();
                let attr = self.attr(ino).await?;
                for (kind, name) in [(AclKind::Access, acl::ACCESS), (AclKind::Default, acl::DEFAULT)] {
                    if kind.id(&attr) != 0 && self.shared.acl {
                        names.push(Name::attribute(name)?);
                    }
                }
                Ok(Response::XattrNames(names))
            }
            _ => Err(Errno::EINVAL),
        }
    }

    /// An access rule, as an extended attribute shows it.
    async fn acl(&self, ino: Ino, kind: AclKind) -> ServeResult {
        if !self.shared.acl {
            return Err(Errno::ENOTSUP);
        }
        match kind.id(&self.attr(ino).await?) {
            0 => Err(Errno::ENODATA),
            id => Ok(Response::Xattr(self.acl_rule(id).await?.to_xattr())),
        }
    }

    /// The access rule of an id.
    pub(super) async fn acl_rule(&self, id: u32) -> Result<Rule, Errno> {
        rules::acl_rule(self.look(vec![Key::AclRule(id)]).await?.pop().flatten().as_ref())
    }
}

//! Extended attributes.

use super::Task;
use zest_metadata::{Key, Op, Record, Scan};
use zest_types::limits::XATTR_VALUE_MAX;
use zest_types::{Errno, Request, Response, ServeResult};

impl Task {
    pub(super) async fn xattr(&self, request: Request<'static>) -> ServeResult {
        match request {
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
                Ok(Response::XattrNames(names.collect()))
            }
            _ => Err(Errno::EINVAL),
        }
    }
}

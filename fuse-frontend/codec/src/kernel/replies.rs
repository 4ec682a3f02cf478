//! Answers as the kernel reads them, by the request they answer.

use crate::abi::{
    AttrOut, CopyFileRangeOut, Dirent, EntryOut, GetxattrOut, InitOut, IoctlOut, LkOut, LseekOut, OpenOut,
    OutHeader, StatfsOut, StatxOut, WriteOut,
};
use crate::opcode::Opcode;
use crate::read::Rest;

/// An entry of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Entry<'a> {
    pub node: Option<EntryOut>,
    pub dirent: Dirent,
    pub name: &'a [u8],
}

/// What an answer says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Told<'a> {
    /// Linux's number, positive.
    Error(i32),
    Done,
    Entry(EntryOut),
    Attr(AttrOut),
    Open(OpenOut),
    Created(EntryOut, OpenOut),
    Data(&'a [u8]),
    Written(WriteOut),
    Copied(CopyFileRangeOut),
    Statfs(StatfsOut),
    XattrSize(GetxattrOut),
    Lock(LkOut),
    Init(InitOut),
    Ioctl(IoctlOut, &'a [u8]),
    Offset(LseekOut),
    Listing(Vec<Entry<'a>>),
    Statx(StatxOut),
}

/// The number that is answered to, and what is said; `None` for what the kernel would not take. `size` is what a
/// request for an extended attribute had room for.
#[must_use]
pub fn told(opcode: Opcode, size: u32, bytes: &[u8]) -> Option<(u64, Told<'_>)> {
    let mut rest = Rest(bytes);
    let header: OutHeader = rest.take()?;
    if usize::try_from(header.len) != Ok(bytes.len()) {
        return None;
    }
    if header.error != 0 {
        let number = header.error.checked_neg().filter(|number| (1..512).contains(number))?;
        return Some((header.unique, rest.end(Told::Error(number))?));
    }
    let told = match opcode {
        Opcode::Read | Opcode::Readlink => return Some((header.unique, Told::Data(rest.0))),
        Opcode::ReadDir => return Some((header.unique, Told::Listing(listing(rest, false)?))),
        Opcode::ReadDirPlus => return Some((header.unique, Told::Listing(listing(rest, true)?))),
        Opcode::GetXattr | Opcode::ListXattr if size > 0 => {
            let value = rest.0;
            return (value.len() <= size as usize).then_some((header.unique, Told::Data(value)));
        }
        Opcode::GetXattr | Opcode::ListXattr => Told::XattrSize(rest.take()?),
        Opcode::Lookup | Opcode::Mknod | Opcode::Mkdir | Opcode::Symlink | Opcode::Link => {
            Told::Entry(rest.take()?)
        }
        Opcode::Create | Opcode::TmpFile => Told::Created(rest.take()?, rest.take()?),
        Opcode::GetAttr | Opcode::SetAttr => Told::Attr(rest.take()?),
        Opcode::Open | Opcode::OpenDir => Told::Open(rest.take()?),
        Opcode::Write | Opcode::CopyFileRange => Told::Written(rest.take()?),
        Opcode::CopyFileRange64 => Told::Copied(rest.take()?),
        Opcode::Statfs => Told::Statfs(rest.take()?),
        Opcode::GetLk => Told::Lock(rest.take()?),
        Opcode::Init => Told::Init(rest.take()?),
        Opcode::Ioctl => return Some((header.unique, Told::Ioctl(rest.take()?, rest.0))),
        Opcode::Lseek => Told::Offset(rest.take()?),
        Opcode::Statx => Told::Statx(rest.take()?),
        _ => Told::Done,
    };
    Some((header.unique, rest.end(told)?))
}

fn listing(mut rest: Rest<'_>, plus: bool) -> Option<Vec<Entry<'_>>> {
    let mut entries = Vec::new();
    while !rest.0.is_empty() {
        let node = if plus { Some(rest.take()?) } else { None };
        let dirent: Dirent = rest.take()?;
        let name = rest.bytes(dirent.namelen)?;
        let over = (size_of::<Dirent>() + name.len()) % 8;
        if over != 0 {
            rest.bytes(8 - over as u32)?;
        }
        entries.push(Entry { node, dirent, name });
    }
    Some(entries)
}

//! The directory of a volume that is mounted as if it were all of it. It is made where it is missing, as the volume
//! format's own client does, unless nothing may be changed.

use anyhow::{anyhow, bail};
use std::sync::mpsc;
use zest_types::{Caller, Errno, Ino, Name, Request, Response, ServeResult};
use zest_vfs::Vfs;

/// Permissions of directories that are made.
const MODE: u16 = 0o777;

/// The names of a path inside a volume.
pub fn names(path: &str) -> Result<Vec<Name>, String> {
    let parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
    let name = |part: &str| match Name::new(part.as_bytes()) {
        Ok(name) if part != ".." => Ok(name),
        _ => Err(format!("{part:?} is no name of a directory")),
    };
    parts.map(name).collect()
}

fn ask(vfs: &Vfs, request: Request<'_>) -> ServeResult {
    let (reply, answer) = mpsc::channel();
    vfs.serve(&Caller::SYSTEM, request, move |result| drop(reply.send(result)));
    answer.recv().unwrap_or(Err(Errno::EIO))
}

/// Finds the directory; `make`: it may be made.
pub(super) fn find(vfs: &Vfs, path: &[Name], make: bool) -> anyhow::Result<Ino> {
    let mut at = Ino::ROOT;
    for name in path {
        let mut found = ask(vfs, Request::Lookup { parent: at, name: name.clone() });
        if found == Err(Errno::ENOENT) && make {
            let new = Request::Mkdir { parent: at, name: name.clone(), mode: MODE, umask: 0 };
            found = match ask(vfs, new) {
                // Somebody else was faster.
                Err(Errno::EEXIST) => ask(vfs, Request::Lookup { parent: at, name: name.clone() }),
                made => made,
            };
        }
        let shown = String::from_utf8_lossy(name.as_bytes());
        at = match found {
            Ok(Response::Entry { ino, attr }) if attr.is_dir() && !ino.is_trash() => ino,
            Ok(_) => bail!("--subdir: {shown} is no directory"),
            Err(errno) => return Err(anyhow!("--subdir: {shown}: {errno}")),
        };
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_apart() {
        let text = |path: &str| {
            let names = names(path)?;
            Ok::<_, String>(
                names.iter().map(|name| String::from_utf8_lossy(name.as_bytes()).into_owned()).collect(),
            )
        };
        assert_eq!(text("/a//b/./c/"), Ok(vec!["a".to_owned(), "b".into(), "c".into()]));
        assert_eq!(text("/"), Ok(Vec::<String>::new()));
        assert!(text("a/../b").is_err() && text(&"x".repeat(300)).is_err());
    }
}

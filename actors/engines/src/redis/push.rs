//! What a Redis tells of changes that others made: client-side caching. The server remembers which keys were read
//! on this connection, and tells once when somebody else changes one of them. Broadcast mode is not used: there the
//! server tells us our own changes too, and when told not to (NOLOOP) it forgets what others change under the same
//! key before its next round. Here our own changes are left out exactly, also those of scripts; a script reads what
//! it wrote, so that the server goes on remembering it. A directory is named as a whole. Pure.

use redis::{Cmd, PushInfo, PushKind, Value};
use zest_metadata::Changed;
use zest_types::Ino;

/// Asks to be told of changes to what was read here, by anybody else.
pub(crate) fn tracking() -> Cmd {
    let mut command = redis::cmd("CLIENT");
    command.arg("TRACKING").arg("ON").arg("NOLOOP");
    command
}

/// What a push says.
pub(crate) fn heard(prefix: &[u8], info: &PushInfo) -> Vec<Changed> {
    match (&info.kind, info.data.first()) {
        (PushKind::Invalidate, Some(Value::Array(keys))) => {
            let names = keys.iter().filter_map(|key| match key {
                Value::BulkString(name) => what(name.strip_prefix(prefix)?),
                _ => None,
            });
            names.collect()
        }
        // Without keys: everything was removed.
        (PushKind::Invalidate, _) | (PushKind::Disconnection, _) => vec![Changed::Anything],
        _ => Vec::new(),
    }
}

fn what(name: &[u8]) -> Option<Changed> {
    let name = std::str::from_utf8(name).ok()?;
    if let Some(locked) = name.strip_prefix("lockp").or_else(|| name.strip_prefix("lockf")) {
        return locked.parse().ok().map(|ino| Changed::Locks(Ino(ino)));
    }
    let (letter, rest) = name.split_at_checked(1)?;
    match letter {
        "i" => rest.parse().ok().map(|ino| Changed::Attr(Ino(ino))),
        "d" => rest.parse().ok().map(|dir| Changed::Entries(Ino(dir))),
        "c" => {
            let (ino, index) = rest.split_once('_')?;
            Some(Changed::Chunk(Ino(ino.parse().ok()?), index.parse().ok()?))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(data: Vec<Value>) -> PushInfo {
        PushInfo { kind: PushKind::Invalidate, data }
    }

    #[test]
    fn keys_become_what_they_name() {
        let key = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let names = ["{1}i7", "{1}d1", "{1}c7_3", "{1}lockp7", "{1}lockf8", "{1}dirUsedSpace", "{1}delfiles"];
        let others = ["{2}i7", "i7", "{1}locked7"];
        let all = names.iter().chain(&others).map(|name| key(name)).collect();
        let heard = heard(b"{1}", &push(vec![Value::Array(all)]));
        let told = [
            Changed::Attr(Ino(7)),
            Changed::Entries(Ino(1)),
            Changed::Chunk(Ino(7), 3),
            Changed::Locks(Ino(7)),
            Changed::Locks(Ino(8)),
        ];
        assert_eq!(heard, told);
    }

    #[test]
    fn an_emptied_server_changes_anything() {
        assert_eq!(heard(b"", &push(vec![Value::Nil])), [Changed::Anything]);
    }
}

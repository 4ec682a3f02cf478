//! A commit whose outcome nobody knows: look at what it would have written before anything is repeated. Where it
//! gives or takes a name, the name tells: attributes may have been changed again by others meanwhile.

use crate::change::{AttrDelta, ChangeSet, Write};
use crate::engine::{Engine, EngineError, Found};
use crate::key::Key;
use crate::record::Record;
use crate::snapshot::Snapshot;

/// Tells whether the change set was committed: the records it left, or `None` when it was not. Every definite
/// write must show, and at least one must differ from what the decision had seen.
pub(crate) async fn find_out(
    engine: &dyn Engine,
    changes: &ChangeSet,
    seen: &Snapshot,
) -> Result<Option<Found>, EngineError> {
    let keys: Vec<Key> = changes.write.iter().filter_map(definite_key).collect();
    if keys.is_empty() {
        return Ok(None);
    }
    let records = engine.read(&keys).await?;
    let found: Found = keys.into_iter().zip(records).collect();
    let writes = changes.write.iter().filter(|write| definite_key(write).is_some());
    let names = found.iter().any(|(key, _)| is_name(key));
    let mut telling = writes.zip(&found).filter(|(_, (key, _))| !names || is_name(key));
    let all_show = telling.all(|(write, (key, record))| {
        // A name that others gave to another node since: repeated, its removal would take that one.
        let replaced = || is_name(key) && seen.get(key).is_ok_and(|old| old != record.as_ref());
        shows(write, record.as_ref()) || matches!(write, Write::Delete(_)) && replaced()
    });
    let something_new =
        found.iter().filter(|(key, _)| !names || is_name(key)).any(|(key, record)| match seen.get(key) {
            Ok(old) => old != record.as_ref(),
            Err(_) => record.is_some(),
        });
    Ok((all_show && something_new).then_some(found))
}

fn definite_key(write: &Write) -> Option<Key> {
    match write {
        Write::Put(key, _) | Write::Delete(key) => Some(key.clone()),
        Write::Attr(ino, _) | Write::Resize { ino, .. } => Some(Key::Attr(*ino)),
        Write::Append(ino, index, _) => Some(Key::Chunk(*ino, *index)),
        _ => None,
    }
}

fn is_name(key: &Key) -> bool {
    matches!(key, Key::Dentry(..))
}

fn shows(write: &Write, found: Option<&Record>) -> bool {
    match (write, found) {
        // A node that was put may have been touched since.
        (Write::Put(Key::Attr(_), Record::Attr(put)), Some(Record::Attr(attr))) => {
            attr.kind == put.kind && attr.ctime >= put.ctime
        }
        (Write::Put(_, put), Some(record)) => put == record,
        (Write::Delete(_), None) => true,
        (Write::Attr(_, delta) | Write::Resize { delta, .. }, Some(Record::Attr(attr))) => {
            delta_shows(delta, attr)
        }
        (Write::Append(_, _, added), Some(Record::Slices(list))) => added.iter().all(|s| list.contains(s)),
        _ => false,
    }
}

fn delta_shows(delta: &AttrDelta, attr: &zest_types::Attr) -> bool {
    let same = |wanted: Option<zest_types::Time>, found| wanted.is_none_or(|t| t == found);
    let at_least = |wanted: Option<zest_types::Time>, found| wanted.is_none_or(|t| found >= t);
    delta.mode.is_none_or(|m| m == attr.mode)
        && delta.uid.is_none_or(|u| u == attr.uid)
        && delta.gid.is_none_or(|g| g == attr.gid)
        && delta.flags.is_none_or(|f| f == attr.flags)
        && delta.parent.is_none_or(|p| p == attr.parent)
        && delta.access_acl.is_none_or(|id| id == attr.access_acl)
        && delta.default_acl.is_none_or(|id| id == attr.default_acl)
        && delta.length.is_none_or(|l| l == attr.length)
        && delta.grow_length.is_none_or(|l| attr.length >= l)
        && same(delta.atime, attr.atime)
        && same(delta.mtime, attr.mtime)
        && same(delta.ctime, attr.ctime)
        && at_least(delta.touch_mtime, attr.mtime)
        && at_least(delta.touch_ctime, attr.ctime)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Expect;
    use crate::engine::{Applied, CommitError};
    use crate::key::Scan;
    use async_trait::async_trait;
    use futures::FutureExt;
    use zest_types::{FileType, Ino, Name};

    /// Holds one record under every key, or none.
    struct Holding(Option<Record>);

    #[async_trait]
    impl Engine for Holding {
        async fn read(&self, keys: &[Key]) -> Result<Vec<Option<Record>>, EngineError> {
            Ok(vec![self.0.clone(); keys.len()])
        }
        async fn scan(&self, _: &Scan) -> Result<Vec<(Key, Record)>, EngineError> {
            Ok(Vec::new())
        }
        async fn commit(&self, _: &ChangeSet) -> Result<Applied, CommitError> {
            Err(CommitError::Unknown("it does not answer".into()))
        }
        async fn sync(&self) -> Result<(), EngineError> {
            Ok(())
        }
        fn exclusive(&self) -> bool {
            false
        }
    }

    #[test]
    fn a_removal_whose_name_others_use_now_is_not_repeated() {
        let key = Key::Dentry(Ino::ROOT, Name::new(b"f").unwrap());
        let entry = |ino| Record::Dentry { kind: FileType::File, ino: Ino(ino) };
        let mut seen = Snapshot::default();
        seen.learn(vec![(key.clone(), Some(entry(7)))]);
        let changes =
            ChangeSet { expect: vec![Expect::Same(key.clone(), entry(7))], write: vec![Write::Delete(key)] };
        for (found, was_made) in [(None, true), (Some(entry(8)), true), (Some(entry(7)), false)] {
            let engine = Holding(found.clone());
            let outcome = find_out(&engine, &changes, &seen).now_or_never().unwrap().unwrap();
            assert_eq!(outcome.is_some(), was_made, "{found:?}");
        }
    }
}

//! A whole volume as the commands that look after it see it: records behind an engine, objects behind the world. Knows
//! no mount: nobody here has a file open.

use crate::failure::Failure;
use std::collections::BTreeMap;
use std::sync::Arc;
use zest_data::block::BlockNames;
use zest_metadata::{Engine, Key, Record, Scan};
use zest_types::{Attr, FileType, Ino, Name, limits};
use zest_world::{ObjectError, World};

/// A volume.
#[derive(Clone)]
pub struct Whole {
    /// Its records.
    pub engine: Arc<dyn Engine>,
    /// Everything else there is.
    pub world: World,
    /// How its blocks are called.
    pub names: BlockNames,
    /// What tells it from others.
    pub uuid: String,
    /// Whether an object holds the bytes of its block and nothing else.
    pub plain: bool,
    /// Whether usage of users and groups is kept.
    pub user_quotas: bool,
}

/// How many, and how many bytes in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Count {
    pub objects: u64,
    pub bytes: u64,
}

impl Count {
    /// One more.
    pub fn add(&mut self, bytes: u64) {
        self.objects += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// An entry of a directory, and the attributes of its node where there are any.
pub struct Child {
    /// The name.
    pub name: Name,
    /// What the entry says of the node.
    pub kind: FileType,
    /// The node.
    pub ino: Ino,
    /// Its attributes.
    pub attr: Option<Attr>,
}

impl Whole {
    /// Attributes of nodes; those that are not there are left out.
    pub async fn attrs(&self, inos: &[Ino]) -> Result<BTreeMap<Ino, Attr>, Failure> {
        if inos.is_empty() {
            return Ok(BTreeMap::new());
        }
        let keys: Vec<Key> = inos.iter().map(|ino| Key::Attr(*ino)).collect();
        let found = self.engine.read(&keys).await?;
        let attrs = inos.iter().zip(found).filter_map(|(ino, record)| match record {
            Some(Record::Attr(attr)) => Some((*ino, attr)),
            _ => None,
        });
        Ok(attrs.collect())
    }

    /// Entries of a directory behind `after`, a batch of them.
    pub async fn entries(
        &self,
        dir: Ino,
        after: Option<Name>,
    ) -> Result<Vec<(Name, FileType, Ino)>, Failure> {
        let scan = Scan::Dentries { dir, after, limit: limits::READDIR_BATCH };
        let entry = |(key, record)| match (key, record) {
            (Key::Dentry(_, name), Record::Dentry { kind, ino }) => Some((name, kind, ino)),
            _ => None,
        };
        Ok(self.engine.scan(&scan).await?.into_iter().filter_map(entry).collect())
    }

    /// Entries of a directory with their attributes, a batch of them behind `after`, and behind which name the next one
    /// begins; `None` at the end.
    pub async fn children(
        &self,
        dir: Ino,
        after: Option<Name>,
    ) -> Result<(Vec<Child>, Option<Name>), Failure> {
        let batch = self.entries(dir, after).await?;
        let full = batch.len() >= limits::READDIR_BATCH;
        let next = batch.last().filter(|_| full).map(|(name, ..)| name.clone());
        let inos: Vec<Ino> = batch.iter().map(|(_, _, ino)| *ino).collect();
        let attrs = self.attrs(&inos).await?;
        let child = |(name, kind, ino)| Child { name, kind, ino, attr: attrs.get(&ino).cloned() };
        Ok((batch.into_iter().map(child).collect(), next))
    }

    /// How often a node is named in which directory, where it was linked.
    pub async fn parents(&self, ino: Ino) -> Result<BTreeMap<Ino, i64>, Failure> {
        let found = self.engine.scan(&Scan::Parents(ino)).await?;
        let counts = found.into_iter().filter_map(|(key, record)| match (key, record) {
            (Key::Parent { parent, .. }, Record::Count(n)) if n > 0 => Some((parent, n)),
            _ => None,
        });
        Ok(counts.collect())
    }

    /// The node an entry leads to.
    pub async fn entry(&self, dir: Ino, name: Name) -> Result<Option<Ino>, Failure> {
        let found = self.engine.read(&[Key::Dentry(dir, name)]).await?;
        Ok(found.into_iter().next().flatten().and_then(|record| match record {
            Record::Dentry { ino, .. } => Some(ino),
            _ => None,
        }))
    }

    /// The node behind a path from the root.
    pub async fn find(&self, path: &[u8]) -> Result<Ino, Failure> {
        let missing = || Failure::NoPath(String::from_utf8_lossy(path).into_owned());
        let mut at = Ino::ROOT;
        for part in path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
            if at == Ino::ROOT && part == b".trash" {
                at = Ino::TRASH;
                continue;
            }
            let name = Name::new(part).map_err(|_| missing())?;
            at = self.entry(at, name).await?.ok_or_else(missing)?;
        }
        Ok(at)
    }

    /// Paths of a node, one for each directory it is in; empty where it has no name.
    pub async fn paths(&self, ino: Ino) -> Result<Vec<String>, Failure> {
        let Some(attr) = self.attrs(&[ino]).await?.remove(&ino) else { return Ok(Vec::new()) };
        if ino == Ino::ROOT {
            return Ok(vec!["/".into()]);
        }
        let dirs = match attr.parent {
            Ino(0) => self.parents(ino).await?.into_keys().collect(),
            parent => vec![parent],
        };
        let mut paths = Vec::new();
        for dir in dirs {
            let Some(above) = self.path_of_directory(dir).await? else { continue };
            for name in self.names_in(dir, ino).await? {
                paths.push(format!("{above}/{}", String::from_utf8_lossy(name.as_bytes())));
            }
        }
        paths.sort();
        Ok(paths)
    }

    /// Without a slash at its end; `None` where it hangs nowhere.
    async fn path_of_directory(&self, mut dir: Ino) -> Result<Option<String>, Failure> {
        let mut parts = Vec::new();
        while dir != Ino::ROOT {
            if dir == Ino::TRASH {
                parts.push(".trash".to_owned());
                break;
            }
            let Some(attr) = self.attrs(&[dir]).await?.remove(&dir) else { return Ok(None) };
            let Some(name) = self.names_in(attr.parent, dir).await?.pop() else { return Ok(None) };
            parts.push(String::from_utf8_lossy(name.as_bytes()).into_owned());
            if parts.len() > limits::DEPTH {
                return Ok(None);
            }
            dir = attr.parent;
        }
        parts.reverse();
        Ok(Some(parts.into_iter().map(|part| format!("/{part}")).collect()))
    }

    async fn names_in(&self, dir: Ino, wanted: Ino) -> Result<Vec<Name>, Failure> {
        let (mut after, mut names) = (None, Vec::new());
        loop {
            let batch = self.entries(dir, after).await?;
            let complete = batch.len() < limits::READDIR_BATCH;
            after = batch.last().map(|(name, ..)| name.clone());
            names.extend(batch.into_iter().filter(|(_, _, ino)| *ino == wanted).map(|(name, ..)| name));
            if complete {
                return Ok(names);
            }
        }
    }

    /// Whether the objects are this volume's, as far as they say.
    pub async fn owns_objects(&self) -> Result<(), Failure> {
        let key = format!("{}/juicefs_uuid", self.names.volume);
        let found = match self.world.objects.get(&key, None).await {
            Ok(found) => found,
            // Not every volume has it; on an encrypted one it is not to be read.
            Err(ObjectError::NotFound(_)) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        match std::str::from_utf8(&found) {
            Ok(found) if found.len() == self.uuid.len() && found != self.uuid => Err(Failure::OtherVolume {
                place: self.names.volume.clone(),
                found: found.to_owned(),
                expected: self.uuid.clone(),
            }),
            _ => Ok(()),
        }
    }
}

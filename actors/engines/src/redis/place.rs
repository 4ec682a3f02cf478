//! Where each record of a volume stands in Redis: which key, of which type, under which field. Source: volume
//! format, Redis engine, keys. Pure; knows no connection and no value.

use zest_metadata::{Counter, Key};
use zest_types::Ino;

/// Where a record stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A string.
    Whole(Vec<u8>),
    /// A field of a hash.
    Field(Vec<u8>, Vec<u8>),
    /// A list of slice records.
    List(Vec<u8>),
    /// The score of a member of a sorted set.
    Score(Vec<u8>, Vec<u8>),
    /// A member of a set.
    Member(Vec<u8>, Vec<u8>),
    /// All fields of a hash.
    Hash(Vec<u8>),
    /// The same field of three hashes.
    Three([Vec<u8>; 3], Vec<u8>),
}

impl Place {
    /// The Redis keys of this place.
    pub(crate) fn keys(&self) -> Vec<&Vec<u8>> {
        match self {
            Place::Whole(key)
            | Place::Field(key, _)
            | Place::List(key)
            | Place::Score(key, _)
            | Place::Member(key, _)
            | Place::Hash(key) => vec![key],
            Place::Three(keys, _) => keys.iter().collect(),
        }
    }
}

/// The keys of one volume: all of them begin with the same prefix.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    /// Empty, or the database number in braces where the server is a cluster: one slot for the whole volume.
    pub(crate) prefix: Vec<u8>,
}

impl Places {
    /// A key of Redis.
    pub(crate) fn name(&self, text: impl AsRef<[u8]>) -> Vec<u8> {
        [&self.prefix[..], text.as_ref()].concat()
    }

    pub(crate) fn attr(&self, ino: Ino) -> Vec<u8> {
        self.name(format!("i{ino}"))
    }

    pub(crate) fn entries(&self, dir: Ino) -> Vec<u8> {
        self.name(format!("d{dir}"))
    }

    pub(crate) fn parents(&self, ino: Ino) -> Vec<u8> {
        self.name(format!("p{ino}"))
    }

    pub(crate) fn xattrs(&self, ino: Ino) -> Vec<u8> {
        self.name(format!("x{ino}"))
    }

    pub(crate) fn chunk(&self, ino: Ino, index: u32) -> Vec<u8> {
        self.name(format!("c{ino}_{index}"))
    }

    /// The set of inodes a session holds that were deleted while open.
    pub(crate) fn sustained(&self, session: u64) -> Vec<u8> {
        self.name(format!("session{session}"))
    }

    /// The set of lock keys in which a session has something.
    pub(crate) fn locked(&self, session: u64) -> Vec<u8> {
        self.name(format!("locked{session}"))
    }

    /// The three hashes with statistics of directories: bytes, space, entries.
    pub(crate) fn statistics(&self) -> [Vec<u8>; 3] {
        ["dirDataLength", "dirUsedSpace", "dirUsedInodes"].map(|text| self.name(text))
    }

    fn quota(&self, who: &str, id: String) -> Place {
        let keys = ["", "UsedSpace", "UsedInodes"].map(|part| self.name(format!("{who}Quota{part}")));
        Place::Three(keys, id.into_bytes())
    }

    /// Where a record stands.
    pub(crate) fn of(&self, key: &Key) -> Place {
        let field = |hash: &str, field: String| Place::Field(self.name(hash), field.into_bytes());
        match key {
            Key::Setting => Place::Whole(self.name("setting")),
            Key::Counter(counter) => Place::Whole(self.name(counter_name(*counter))),
            Key::Attr(ino) => Place::Whole(self.attr(*ino)),
            Key::Dentry(dir, name) => Place::Field(self.entries(*dir), name.as_bytes().to_vec()),
            Key::Parent { ino, parent } => Place::Field(self.parents(*ino), parent.to_string().into_bytes()),
            Key::Chunk(ino, index) => Place::List(self.chunk(*ino, *index)),
            Key::Symlink(ino) => Place::Whole(self.name(format!("s{ino}"))),
            Key::Xattr(ino, name) => Place::Field(self.xattrs(*ino), name.as_bytes().to_vec()),
            Key::Flocks(ino) => Place::Hash(self.name(format!("lockf{ino}"))),
            Key::RangeLocks(ino) => Place::Hash(self.name(format!("lockp{ino}"))),
            Key::Deleted { ino, length } => {
                Place::Score(self.name("delfiles"), format!("{ino}:{length}").into_bytes())
            }
            Key::SliceRef { id, size } => field("sliceRef", format!("k{id}_{size}")),
            Key::DelayedSlices { stamp, id } => field("delSlices", format!("{id}_{stamp}")),
            Key::SessionExpiry(session) => {
                Place::Score(self.name("allSessions"), session.to_string().into_bytes())
            }
            Key::SessionInfo(session) => field("sessionInfos", session.to_string()),
            Key::Sustained { session, ino } => {
                Place::Member(self.sustained(*session), ino.to_string().into_bytes())
            }
            Key::DirStat(dir) => Place::Three(self.statistics(), dir.to_string().into_bytes()),
            Key::Detached(ino) => Place::Score(self.name("detachedNodes"), ino.to_string().into_bytes()),
            Key::DirQuota(dir) => self.quota("dir", dir.to_string()),
            Key::UserQuota(uid) => self.quota("user", uid.to_string()),
            Key::GroupQuota(gid) => self.quota("group", gid.to_string()),
            Key::AclRule(id) => field("acl", id.to_string()),
        }
    }
}

/// The format writes three of these in small letters.
pub(crate) fn counter_name(counter: Counter) -> &'static str {
    match counter {
        Counter::NextInode => "nextinode",
        Counter::NextSlice => "nextchunk",
        Counter::NextSession => "nextsession",
        other => crate::kv::format_name(other),
    }
}

/// What must be added to a number stored here to get the number it stands for: counters of ids hold the last id
/// given out, and stand for the next one.
pub(crate) fn offset(key: &Key) -> i64 {
    match key {
        Key::Counter(Counter::NextInode | Counter::NextSlice) => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zest_types::{Name, SliceId};

    #[test]
    fn keys_are_those_of_the_format() {
        let places = Places::default();
        let text = |key: &Key| match places.of(key) {
            Place::Whole(key) | Place::List(key) | Place::Hash(key) => String::from_utf8(key).unwrap(),
            Place::Field(key, field) | Place::Score(key, field) | Place::Member(key, field) => {
                format!("{} {}", String::from_utf8(key).unwrap(), String::from_utf8(field).unwrap())
            }
            Place::Three(keys, field) => {
                let keys = keys.map(|key| String::from_utf8(key).unwrap());
                format!("{} {}", keys.join("+"), String::from_utf8(field).unwrap())
            }
        };
        let name = Name::new(b"foo").unwrap();
        for (key, expected) in [
            (Key::Attr(Ino(7)), "i7"),
            (Key::Dentry(Ino::ROOT, name), "d1 foo"),
            (Key::Chunk(Ino(2), 3), "c2_3"),
            (Key::SliceRef { id: SliceId(77), size: 65536 }, "sliceRef k77_65536"),
            (Key::DelayedSlices { stamp: 5, id: SliceId(6) }, "delSlices 6_5"),
            (Key::Deleted { ino: Ino(2), length: 5000 }, "delfiles 2:5000"),
            (Key::Sustained { session: 3, ino: Ino(7) }, "session3 7"),
            (Key::DirStat(Ino(5)), "dirDataLength+dirUsedSpace+dirUsedInodes 5"),
            (Key::UserQuota(1000), "userQuota+userQuotaUsedSpace+userQuotaUsedInodes 1000"),
            (Key::Counter(Counter::NextSlice), "nextchunk"),
        ] {
            assert_eq!(text(&key), expected);
        }
        let cluster = Places { prefix: b"{3}".to_vec() };
        assert_eq!(cluster.of(&Key::Setting), Place::Whole(b"{3}setting".to_vec()));
    }
}

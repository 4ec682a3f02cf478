//! Random change sets over a handful of records of every kind, so that they meet each other often.

use zest_metadata::record::{FlockEntry, LockOwner, LockRange};
use zest_metadata::{AttrDelta, AttrFields, ChangeSet, Counter, Expect, Key, Record, Scan, Write};
use zest_types::{Attr, FileType, Ino, Name, SliceId, SliceRecord, Time};

/// A directory of the trash: its number needs all 64 bits.
const HOUR: Ino = Ino(Ino::TRASH.0 + 1);

pub struct Draw(u64);

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

fn odd_name() -> Name {
    Name::new(&[b'a', 0xFF, b' ', b'%', b'\n', 0x01]).unwrap()
}

fn dirs() -> [Ino; 3] {
    [Ino(1), Ino(2), HOUR]
}

fn nodes() -> [Ino; 5] {
    [Ino(1), Ino(2), Ino(3), Ino(4), Ino(5)]
}

pub fn all_keys() -> Vec<Key> {
    let mut keys = vec![Key::Setting, Key::SessionInfo(3), Key::AclRule(1)];
    let counters = [
        Counter::NextInode,
        Counter::NextSlice,
        Counter::NextSession,
        Counter::NextTrash,
        Counter::UsedSpace,
        Counter::TotalInodes,
        Counter::LastCleanupFiles,
    ];
    keys.extend(counters.map(Key::Counter));
    for ino in nodes() {
        keys.extend([Key::Attr(ino), Key::Symlink(ino), Key::Flocks(ino), Key::RangeLocks(ino)]);
        keys.extend([Key::Xattr(ino, name("user.a")), Key::Chunk(ino, 0), Key::Chunk(ino, 1)]);
        keys.extend(dirs().map(|parent| Key::Parent { ino, parent }));
        keys.extend([
            Key::Deleted { ino, length: 5000 },
            Key::Sustained { session: 3, ino },
            Key::Detached(ino),
        ]);
    }
    for dir in dirs() {
        keys.extend([Key::DirStat(dir), Key::DirQuota(dir)]);
        keys.extend([name("a"), name("b"), odd_name()].map(|name| Key::Dentry(dir, name)));
    }
    keys.extend([7, 8].map(|id| Key::SliceRef { id: SliceId(id), size: 100 }));
    keys.extend([Key::SessionExpiry(3), Key::SessionExpiry(12), Key::UserQuota(9), Key::GroupQuota(9)]);
    keys.push(Key::DelayedSlices { stamp: 50, id: SliceId(7) });
    keys
}

pub fn scans() -> Vec<Scan> {
    let mut scans = Vec::new();
    for dir in dirs() {
        scans.push(Scan::Dentries { dir, after: None, limit: 100 });
        scans.push(Scan::Dentries { dir, after: None, limit: 2 });
        scans.push(Scan::Dentries { dir, after: Some(name("a")), limit: 2 });
    }
    for ino in nodes() {
        scans.extend([Scan::Parents(ino), Scan::Xattrs(ino)]);
    }
    scans.extend([
        Scan::Deleted { limit: 100 },
        Scan::Sessions { limit: 100 },
        Scan::SliceRefs { limit: 100 },
        Scan::UserQuotas { limit: 100 },
        Scan::GroupQuotas { limit: 100 },
    ]);
    scans
}

/// Keys a change set names.
pub fn touched(changes: &ChangeSet) -> Vec<Key> {
    let mut keys: Vec<Key> = changes
        .write
        .iter()
        .filter_map(|write| match write {
            Write::Put(key, _) | Write::Delete(key) | Write::Add(key, _) => Some(key.clone()),
            Write::Attr(ino, _) | Write::Resize { ino, .. } => Some(Key::Attr(*ino)),
            Write::Charge { quota, .. } | Write::AddQuota { quota, .. } => Some(quota.clone()),
            Write::Append(ino, index, _) | Write::AppendIfPresent(ino, index, _) => {
                Some(Key::Chunk(*ino, *index))
            }
            Write::Account { dir, .. } => Some(Key::DirStat(*dir)),
            _ => None,
        })
        .collect();
    keys.push(Key::Counter(Counter::UsedSpace));
    keys.extend(dirs().map(Key::DirStat));
    keys
}

/// What must be there from the start: counters that begin at one here and there, statistics of some directories.
pub fn beginning() -> ChangeSet {
    let mut write = vec![
        Write::Put(Key::Counter(Counter::NextInode), Record::Count(2)),
        Write::Put(Key::Counter(Counter::NextSlice), Record::Count(1)),
        Write::Put(Key::Counter(Counter::UsedSpace), Record::Count(1 << 55)),
    ];
    for dir in [Ino(1), HOUR] {
        write.push(Write::Put(Key::DirStat(dir), Record::DirStat { length: 0, space: 0, inodes: 0 }));
    }
    ChangeSet { expect: Vec::new(), write }
}

impl Draw {
    pub fn new(seed: u64) -> Draw {
        Draw(seed)
    }

    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.roll() % n as u64).unwrap()
    }

    fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }

    fn time(&mut self) -> Time {
        let sec = self.of(&[-5, 0, 1, 100, 127, 128, 255, 256, 1_700_000_000, -9_000_000_000]);
        Time::new(sec, self.of(&[0, 1, 128, 999_999_999]))
    }

    fn length(&mut self) -> u64 {
        let edges = [0, 1, 4095, 4096, 4097, 5000, 1 << 26, (1 << 32) - 1, 1 << 32, (1 << 40) + 7];
        let large = [(1 << 52) + 1, (1 << 53) + 1, (1 << 56) + 4097];
        self.of(&[&edges[..], &large[..]].concat())
    }

    fn attr(&mut self) -> Attr {
        let kind = self.of(&[FileType::File, FileType::File, FileType::Directory, FileType::Symlink]);
        let mode = self.of(&[0o644, 0o7777, 0]);
        let parent = self.of(&[Ino(0), Ino(1), Ino(2), HOUR]);
        let mut attr = Attr::new(kind, mode, 5, 6, parent, Time::new(100, 0));
        (attr.atime, attr.mtime, attr.ctime) = (self.time(), self.time(), self.time());
        attr.length = self.length();
        attr.nlink = self.of(&[0, 1, 2, 255, 256, 65535, 65536]);
        attr.access_acl = self.of(&[0, 0, 3]);
        attr.default_acl = self.of(&[0, 0, 4]);
        attr.tier = self.of(&[0, 0, 2]);
        attr
    }

    fn slices(&mut self, most: usize) -> Vec<SliceRecord> {
        let count = 1 + self.below(most);
        let one = |draw: &mut Draw| match draw.below(4) {
            0 => SliceRecord::zeros(10, 20),
            1 => SliceRecord { off: 3, len: 5, ..SliceRecord::whole(0, SliceId(7), 100) },
            2 => SliceRecord::whole(4096, SliceId(8), 100),
            _ => SliceRecord::whole(0, SliceId(9), 65536),
        };
        (0..count).map(|_| one(self)).collect()
    }

    fn record(&mut self, key: &Key) -> Record {
        let number = self.of(&[-7, 0, 1, 5, 1 << 60]);
        match key {
            Key::Setting | Key::Symlink(_) | Key::Xattr(..) | Key::SessionInfo(_) | Key::AclRule(_) => {
                Record::Bytes(self.of(&[b"{}".to_vec(), b"\0\xFF\r\n".to_vec(), vec![b'x'; 300]]))
            }
            Key::Counter(Counter::LastCleanupFiles) => Record::Stamp(number),
            Key::Deleted { .. } | Key::SessionExpiry(_) | Key::Detached(_) => {
                Record::Stamp(self.of(&[0, 5, 1_700_000_000]))
            }
            Key::Counter(_) | Key::Parent { .. } | Key::SliceRef { .. } => {
                Record::Count(self.of(&[-1, 0, 1, 3]))
            }
            Key::Attr(_) => Record::Attr(self.attr()),
            Key::Dentry(..) => Record::Dentry { kind: FileType::File, ino: self.of(&[Ino(3), HOUR]) },
            Key::Chunk(..) => Record::Slices(self.slices(3)),
            Key::Flocks(_) => Record::Flocks(
                self.owners().iter().map(|o| FlockEntry { owner: *o, write: o.owner % 2 == 0 }).collect(),
            ),
            Key::RangeLocks(_) => {
                let range = LockRange { kind: 1, pid: 42, start: 0, end: i64::MAX as u64 };
                let list = self.owners();
                Record::RangeLocks(
                    list.iter().map(|owner| (*owner, vec![range; 1 + (owner.owner % 2) as usize])).collect(),
                )
            }
            Key::DelayedSlices { .. } => Record::SliceList(vec![(SliceId(1), 2), (SliceId(3), 4)]),
            Key::Sustained { .. } => Record::Mark,
            Key::DirStat(_) => Record::DirStat { length: number, space: 4096, inodes: 1 },
            Key::DirQuota(_) | Key::UserQuota(_) | Key::GroupQuota(_) => {
                Record::Quota { max_space: number, max_inodes: -1, used_space: 8192, used_inodes: 2 }
            }
        }
    }

    fn owners(&mut self) -> Vec<LockOwner> {
        let all =
            [(3, 0xABC), (3, u64::MAX), (12, 0xABC)].map(|(session, owner)| LockOwner { session, owner });
        let first = self.below(3);
        all[first..].to_vec()
    }

    fn key(&mut self) -> Key {
        let keys = all_keys();
        self.of(&keys)
    }

    fn expect(&mut self) -> Expect {
        match self.below(5) {
            0 => Expect::Absent(self.key()),
            1 => {
                let key = self.key();
                let record = self.record(&key);
                Expect::Same(key, record)
            }
            2 => Expect::Empty(self.of(&dirs())),
            _ => {
                let mut flag = || self.below(4) == 0;
                let fields = AttrFields {
                    access: flag(),
                    nlink: flag(),
                    length: flag(),
                    parent: flag(),
                    times: flag(),
                };
                Expect::Attr { ino: self.of(&nodes()), seen: Box::new(self.attr()), fields }
            }
        }
    }

    fn delta(&mut self) -> AttrDelta {
        let mut some = |n: usize| self.below(n) == 0;
        let (mode, uid, parent, set, grow, touch) = (some(4), some(4), some(6), some(5), some(3), some(2));
        AttrDelta {
            mode: mode.then(|| self.of(&[0o600, 0o7777])),
            uid: uid.then_some(77),
            gid: uid.then_some(0xFFFF_FFFE),
            flags: mode.then_some(0x21),
            parent: parent.then(|| self.of(&[Ino(0), Ino(2), HOUR])),
            length: set.then(|| self.length()),
            atime: touch.then(|| self.time()),
            mtime: set.then(|| self.time()),
            ctime: set.then(|| self.time()),
            nlink: self.of(&[0, 0, 1, -1, 2]),
            touch_mtime: touch.then(|| self.time()),
            touch_ctime: touch.then(|| self.time()),
            grow_length: grow.then(|| self.length()),
            access_acl: mode.then(|| self.of(&[0, 9])),
            default_acl: uid.then(|| self.of(&[0, 8])),
        }
    }

    fn write(&mut self, parents: bool) -> Write {
        let (ino, index) = (self.of(&nodes()), self.of(&[0, 1]));
        let sign = self.of(&[1, -1]);
        match self.below(15) {
            0..=2 => {
                let key = loop {
                    let key = self.key();
                    if parents || !matches!(key, Key::Parent { .. }) {
                        break key;
                    }
                };
                let record = self.record(&key);
                Write::Put(key, record)
            }
            3 => Write::Delete(self.key()),
            4 | 5 if !parents => Write::Attr(ino, self.delta()),
            11 if !parents => {
                let quotas = (0..self.below(3)).map(|_| self.quota()).collect();
                Write::Resize { ino, delta: self.delta(), quotas }
            }
            12 => Write::Charge { quota: self.quota(), ino, sign },
            13 => Write::AddQuota { quota: self.quota(), space: self.of(&[0, -4096, 1 << 54]), inodes: 1 },
            6 => Write::Append(ino, index, self.slices(2)),
            7 => Write::AppendIfPresent(ino, index, self.slices(2)),
            8 => Write::Add(self.counted(parents), self.of(&[0, 1, -1, 4096])),
            9 if parents => Write::DeleteAll(Scan::Parents(ino)),
            9 => Write::DeleteAll(Scan::Xattrs(ino)),
            10 => Write::Account { dir: self.of(&dirs()), ino, sign },
            _ => Write::Usage { ino, sign },
        }
    }

    fn quota(&mut self) -> Key {
        self.of(&[Key::DirQuota(Ino(1)), Key::DirQuota(HOUR), Key::UserQuota(9), Key::GroupQuota(9)])
    }

    fn counted(&mut self, parents: bool) -> Key {
        match self.below(3) {
            0 if parents => Key::Parent { ino: self.of(&nodes()), parent: self.of(&dirs()) },
            1 => Key::SliceRef { id: SliceId(7), size: 100 },
            _ => Key::Counter(self.of(&[Counter::UsedSpace, Counter::NextTrash, Counter::NextInode])),
        }
    }

    /// The next change set. Parent counts and lengths change in different ones, as all rules have it: an engine
    /// may look up who holds a file before any of the writes.
    pub fn changes(&mut self) -> ChangeSet {
        let (expected, written) = (self.of(&[0, 0, 0, 1, 2]), 1 + self.below(4));
        let parents = self.below(3) == 0;
        let expect = (0..expected).map(|_| self.expect()).collect();
        let mut write: Vec<Write> = (0..written).map(|_| self.write(parents)).collect();
        // Counters that stand for the first id when they are absent are never removed.
        let first = |key: &Key| matches!(key, Key::Counter(Counter::NextInode | Counter::NextSlice));
        write.retain(|write| !matches!(write, Write::Delete(key) if first(key) || matches!(key, Key::Parent { .. }) && !parents));
        ChangeSet { expect, write }
    }
}

//! A volume in a map and somebody who works on it: decides, reads what the rules want to see, commits.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use zest_metadata::apply::{Records, Refused};
use zest_metadata::consistency::problems;
use zest_metadata::map::RecordMap;
use zest_metadata::rules::{self, Decision};
use zest_metadata::{Counter, Env, Key, Op, Outcome, Record, Snapshot, Stop, Want};
use zest_types::{Attr, Caller, Errno, FileType, Ino, Name, Placed, SliceId, SliceRecord, Time};

pub const ROOT_USER: Caller = Caller { uid: 0, gid: 0, pid: 1, check: true };

pub fn user(uid: u32) -> Caller {
    Caller { uid, gid: uid, pid: 1, check: true }
}

pub fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

pub struct World {
    pub records: RecordMap,
    pub now: i64,
    pub next_ino: u64,
    pub next_slice: u64,
    pub caller: Caller,
    pub open: BTreeSet<Ino>,
    pub trash: Option<Ino>,
    pub capacity: (u64, u64),
    pub acl: bool,
    pub user_quotas: bool,
    /// Rounds of reading of the last change.
    pub rounds: usize,
}

/// A decision that waits for its commit.
pub struct Late {
    pub op: Op,
    pub decision: Decision,
    now: i64,
    new_ino: u64,
    caller: Caller,
    open: BTreeSet<Ino>,
}

impl World {
    pub fn new() -> World {
        let mut records = RecordMap::default();
        for (ino, mode) in [(Ino::ROOT, 0o777), (Ino::TRASH, 0o555)] {
            let attr = Attr::new(FileType::Directory, mode, 0, 0, Ino::ROOT, Time::new(1000, 0));
            records.0.insert(Key::Attr(ino), Record::Attr(attr));
            records.0.insert(Key::DirStat(ino), Record::DirStat { length: 0, space: 0, inodes: 0 });
        }
        World {
            records,
            now: 1000,
            next_ino: 2,
            next_slice: 1,
            caller: ROOT_USER,
            open: BTreeSet::new(),
            trash: None,
            capacity: (0, 0),
            acl: true,
            user_quotas: false,
            rounds: 0,
        }
    }

    pub fn with_trash() -> World {
        let mut world = World::new();
        let (hour, _) = world.node(&Op::MakeTrashHour { name: name("2026-01-01-00") });
        world.trash = Some(hour);
        world
    }

    /// Decides from the records as they are, with a look at each record asked for.
    pub fn decide(&mut self, op: &Op) -> Result<Decision, Errno> {
        self.decide_knowing(op, Snapshot::default())
    }

    /// The same, by somebody who knows some of them.
    pub fn decide_knowing(&mut self, op: &Op, mut snapshot: Snapshot) -> Result<Decision, Errno> {
        self.rounds = 0;
        let quota_dirs = self.quota_dirs();
        loop {
            let open = &self.open;
            let env = Env {
                caller: self.caller,
                now: Time::new(self.now, 0),
                new_ino: Ino(self.next_ino),
                session: 7,
                is_open: &|ino| open.contains(&ino),
                trash: self.trash,
                capacity: self.capacity,
                acl: self.acl,
                user_quotas: self.user_quotas,
                quota_dirs: &quota_dirs,
            };
            match rules::decide(op, &snapshot, &env) {
                Ok(decision) => return Ok(decision),
                Err(Stop::Fail(errno)) => return Err(errno),
                Err(Stop::Need(wants)) => {
                    self.rounds += 1;
                    assert!(!wants.is_empty() && self.rounds < 100, "{op:?} asks for ever");
                    for want in wants {
                        match want {
                            Want::Key(key) => {
                                let record = self.records.get(&key).unwrap();
                                snapshot.learn(vec![(key, record)]);
                            }
                            Want::Scan(scan) => {
                                let found = self.records.scan(&scan).unwrap();
                                snapshot.learn_scan(scan, found);
                            }
                        }
                    }
                }
            }
        }
    }

    /// As a mount knows them that looked just now.
    pub fn quota_dirs(&self) -> BTreeSet<Ino> {
        let dir = |key: &Key| match key {
            Key::DirQuota(dir) => Some(*dir),
            _ => None,
        };
        self.records.0.keys().filter_map(dir).collect()
    }

    /// One change and all its steps; time goes on by a second before it.
    pub fn run(&mut self, op: &Op) -> Result<Outcome, Errno> {
        self.now += 1;
        let mut op = op.clone();
        loop {
            let decision = self.decide(&op)?;
            let writes = self.commit(&decision).expect("nobody else is here");
            assert!(writes <= zest_types::limits::CHANGE_SET_MAX, "{writes} records at once");
            match rules::rest(&op, &decision.outcome) {
                Some(next) => op = next,
                None => return Ok(decision.outcome),
            }
        }
    }

    /// Commits; tells how many records were written.
    pub fn commit(&mut self, decision: &Decision) -> Result<usize, Refused> {
        let written = self.records.commit(&decision.changes)?;
        self.next_ino += 1;
        Ok(written.len())
    }

    /// Commits a decision that may be old. Where it is accepted, it must do what a decision of now does.
    pub fn commit_late(&mut self, late: &Late) -> bool {
        let mut fresh = self.records.clone();
        let accepted = match self.records.commit(&late.decision.changes) {
            Ok(_) => true,
            Err(Refused::Conflict(found)) => {
                assert!(!found.is_empty());
                false
            }
            Err(Refused::Engine(error)) => panic!("{:?}: {error}", late.op),
        };
        if accepted && !late.decision.changes.is_empty() {
            let mut then =
                World { records: fresh.clone(), caller: late.caller, open: late.open.clone(), ..*self };
            (then.now, then.next_ino) = (late.now, late.new_ino);
            let decision = then.decide(&late.op);
            let decision =
                decision.unwrap_or_else(|e| panic!("{:?} is {e:?} now, but was committed", late.op));
            fresh.commit(&decision.changes).unwrap();
            assert_eq!(fresh, self.records, "{:?} was decided too early", late.op);
        }
        accepted
    }

    /// Decides now what is to be committed later.
    pub fn decide_early(&mut self, op: &Op) -> Result<Late, Errno> {
        let (now, new_ino) = (self.now, self.next_ino);
        let decision = self.decide(op)?;
        self.next_ino += 1;
        Ok(Late { op: op.clone(), decision, now, new_ino, caller: self.caller, open: self.open.clone() })
    }

    pub fn node(&mut self, op: &Op) -> (Ino, Attr) {
        match self.run(op) {
            Ok(Outcome::Node { ino, attr, .. }) => (ino, attr),
            other => panic!("{op:?} came out as {other:?}"),
        }
    }

    pub fn make(&mut self, parent: Ino, text: &str, kind: FileType) -> Ino {
        self.node(&make_op(parent, text, kind)).0
    }

    pub fn file(&mut self, parent: Ino, text: &str) -> Ino {
        self.make(parent, text, FileType::File)
    }

    pub fn dir(&mut self, parent: Ino, text: &str) -> Ino {
        self.make(parent, text, FileType::Directory)
    }

    pub fn write(&mut self, ino: Ino, index: u32, pos: u32, len: u32) -> SliceRecord {
        let record = SliceRecord::whole(pos, SliceId(self.next_slice), len);
        self.next_slice += 1;
        let mtime = Time::new(self.now + 1, 0);
        self.run(&commit(ino, index, record, mtime)).unwrap();
        record
    }

    pub fn attr(&self, ino: Ino) -> Option<Attr> {
        match self.records.0.get(&Key::Attr(ino)) {
            Some(Record::Attr(attr)) => Some(attr.clone()),
            None => None,
            Some(other) => panic!("{other:?}"),
        }
    }

    pub fn lookup(&self, dir: Ino, text: &str) -> Option<Ino> {
        match self.records.0.get(&Key::Dentry(dir, name(text))) {
            Some(Record::Dentry { ino, .. }) => Some(*ino),
            _ => None,
        }
    }

    pub fn slices(&self, ino: Ino, index: u32) -> Vec<SliceRecord> {
        match self.records.0.get(&Key::Chunk(ino, index)) {
            Some(Record::Slices(list)) => list.clone(),
            _ => Vec::new(),
        }
    }

    pub fn count(&self, key: &Key) -> i64 {
        match self.records.0.get(key) {
            Some(Record::Count(n)) => *n,
            _ => 0,
        }
    }

    pub fn used(&self) -> (i64, i64) {
        let count = |counter| self.count(&Key::Counter(counter));
        (count(Counter::UsedSpace), count(Counter::TotalInodes))
    }

    #[track_caller]
    pub fn check(&self) {
        let found = problems(&self.records);
        assert!(found.is_empty(), "{found:#?}");
    }
}

pub fn make_op(parent: Ino, text: &str, kind: FileType) -> Op {
    let target = if kind == FileType::Symlink { b"somewhere".to_vec() } else { Vec::new() };
    let name = name(text);
    Op::Make { parent, name, kind, mode: 0o755, umask: 0o022, rdev: 0, target, existing_ok: false }
}

/// One slice that shows in one place becomes part of a file.
pub fn commit(ino: Ino, index: u32, record: SliceRecord, mtime: Time) -> Op {
    Op::CommitSlices { ino, parts: vec![Placed { index, record }], mtime }
}

pub fn unlink(parent: Ino, text: &str) -> Op {
    Op::Unlink { parent, name: name(text) }
}

pub fn rmdir(parent: Ino, text: &str) -> Op {
    Op::Rmdir { parent, name: name(text) }
}

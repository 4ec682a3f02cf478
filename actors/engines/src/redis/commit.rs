//! A change set as the words of the commit script, and the script's answer as records. The script is in
//! `commit.lua`; what each word means stands there. Pure; knows no connection.

use super::place::{Place, Places};
use super::record::{Values, damaged, decode, encode};
use redis::Value;
use std::collections::BTreeMap;
use zest_metadata::record::LockOwner;
use zest_metadata::{
    Applied, AttrDelta, AttrFields, ChangeSet, CommitError, Counter, EngineError, Expect, Key, Lengths,
    Record, Scan, Write,
};
use zest_types::{Attr, Ino, SliceRecord, Time};
use zest_world::planted::{self, Bug};

/// The script.
pub(crate) const SCRIPT: &str = include_str!("commit.lua");

/// A change set, ready to be sent, and what is needed to understand the answer.
#[derive(Debug, Default)]
pub(crate) struct Sentence {
    /// Keys of Redis, each once.
    pub(crate) keys: Vec<Vec<u8>>,
    /// Words.
    pub(crate) words: Vec<Vec<u8>>,
    expected: Vec<Key>,
    attrs: Vec<Key>,
    lists: Vec<Key>,
    numbers: Vec<Key>,
    plain: Vec<(Key, Option<Record>)>,
}

struct Writer<'a> {
    places: &'a Places,
    known: &'a Lengths,
    at: BTreeMap<Vec<u8>, usize>,
    out: Sentence,
}

/// The words of a change set.
pub(crate) fn sentence(
    places: &Places,
    changes: &ChangeSet,
    known: &Lengths,
) -> Result<Sentence, EngineError> {
    let mut writer = Writer { places, known, at: BTreeMap::new(), out: Sentence::default() };
    let told = if planted::active(Bug::KeyNotChecked) { 1 } else { usize::MAX };
    let expected = changes.expect.get(..told).unwrap_or(&changes.expect);
    writer.text(expected.len().to_string());
    for expect in expected {
        writer.expect(expect)?;
    }
    for write in &changes.write {
        writer.write(write, &changes.expect)?;
    }
    // Of a new directory this client believes that it is empty, so it wants to hear what others put there.
    for write in &changes.write {
        if let Write::Put(Key::Attr(ino), Record::Attr(attr)) = write
            && attr.is_dir()
        {
            writer.text("R");
            writer.key(writer.places.entries(*ino));
        }
    }
    // Amounts that other writes of the set may have moved since are left out: nobody believes them without asking.
    writer.out.plain.retain(|(key, _)| {
        !matches!(
            key,
            Key::Counter(_) | Key::DirStat(_) | Key::DirQuota(_) | Key::UserQuota(_) | Key::GroupQuota(_)
        )
    });
    Ok(writer.out)
}

fn time(time: Time) -> Vec<u8> {
    [&time.sec.to_be_bytes()[..], &time.nsec.to_be_bytes()[..]].concat()
}

fn fields_text(fields: AttrFields) -> String {
    let all = [
        (fields.access, 'a'),
        (fields.nlink, 'n'),
        (fields.length, 'l'),
        (fields.parent, 'p'),
        (fields.times, 't'),
    ];
    all.iter().filter(|(on, _)| *on).map(|(_, letter)| *letter).collect()
}

impl Writer<'_> {
    fn word(&mut self, word: impl Into<Vec<u8>>) {
        self.out.words.push(word.into());
    }

    fn text(&mut self, text: impl AsRef<str>) {
        self.word(text.as_ref().as_bytes());
    }

    /// The place of a key in `KEYS`, counted from 1.
    fn key(&mut self, key: Vec<u8>) {
        let next = self.out.keys.len() + 1;
        let at = *self.at.entry(key.clone()).or_insert(next);
        if at == next {
            self.out.keys.push(key);
        }
        self.text(at.to_string());
    }

    fn place(&mut self, place: Place) {
        let kind = match &place {
            Place::Whole(_) => "s",
            Place::Field(..) => "h",
            Place::List(_) => "l",
            Place::Score(..) => "z",
            Place::Member(..) => "m",
            Place::Hash(_) => "a",
            Place::Three(..) => "q",
        };
        self.text(kind);
        for key in place.keys() {
            self.key(key.clone());
        }
        match place {
            Place::Field(_, field)
            | Place::Score(_, field)
            | Place::Member(_, field)
            | Place::Three(_, field) => {
                self.word(field);
            }
            Place::Whole(_) | Place::List(_) | Place::Hash(_) => {}
        }
    }

    fn values(&mut self, values: Values) {
        let list = match values {
            Values::One(value) => vec![value],
            Values::List(list) => list,
            Values::Fields(fields) => fields.into_iter().flat_map(|(field, value)| [field, value]).collect(),
            Values::Three(values) => values.into(),
            Values::Nothing => Vec::new(),
        };
        self.text(list.len().to_string());
        for value in list {
            self.word(value);
        }
    }

    fn expect(&mut self, expect: &Expect) -> Result<(), EngineError> {
        let key = match expect {
            Expect::Absent(key) => {
                self.text("A");
                self.place(self.places.of(key));
                key.clone()
            }
            Expect::Same(key, record) => {
                self.text("S");
                self.place(self.places.of(key));
                self.values(encode(key, record)?);
                key.clone()
            }
            Expect::Attr { ino, seen, fields } => {
                self.text("F");
                self.place(self.places.of(&Key::Attr(*ino)));
                self.attr(*ino, seen)?;
                self.text(fields_text(*fields));
                Key::Attr(*ino)
            }
            Expect::Empty(dir) => {
                self.text("E");
                self.key(self.places.entries(*dir));
                self.key(self.places.attr(*dir));
                Key::Attr(*dir)
            }
        };
        self.out.expected.push(key);
        Ok(())
    }

    fn attr(&mut self, ino: Ino, attr: &Attr) -> Result<(), EngineError> {
        let key = Key::Attr(ino);
        match encode(&key, &Record::Attr(attr.clone()))? {
            Values::One(bytes) => {
                self.word(bytes);
                Ok(())
            }
            _ => Err(damaged(&key, "an attribute record is one value")),
        }
    }

    fn write(&mut self, write: &Write, expect: &[Expect]) -> Result<(), EngineError> {
        match write {
            Write::Put(key, record) => self.put(key, record, expect)?,
            Write::Delete(key) => self.delete(key, expect),
            Write::Attr(ino, delta) => self.change(*ino, delta, &[])?,
            Write::Resize { ino, delta, quotas } => self.change(*ino, delta, quotas)?,
            Write::Charge { quota, ino, sign } => {
                self.text("C");
                self.quota(quota)?;
                self.text(sign.to_string());
                self.text(created(quota));
                self.key(self.places.attr(*ino));
            }
            Write::AddQuota { quota, space, inodes } => {
                self.text("Q");
                self.quota(quota)?;
                self.text(created(quota));
                self.text(space.to_string());
                self.text(inodes.to_string());
            }
            Write::Append(ino, index, list) => self.append(*ino, *index, list, true)?,
            Write::AppendIfPresent(ino, index, list) => self.append(*ino, *index, list, false)?,
            Write::Add(_, 0) => {}
            Write::Add(key, n) => {
                self.text("I");
                self.place(self.places.of(key));
                self.text(n.to_string());
                self.out.numbers.push(key.clone());
            }
            Write::DeleteAll(scan) => {
                let key = match scan {
                    Scan::Parents(ino) => self.places.parents(*ino),
                    Scan::Xattrs(ino) => self.places.xattrs(*ino),
                    other => {
                        return Err(EngineError::Failed(format!(
                            "{other:?} can't be removed in one step here"
                        )));
                    }
                };
                self.text("X");
                self.key(key);
                self.out.plain.retain(|(key, _)| !scan.finds(key));
            }
            Write::Account { dir, ino, sign } => {
                self.text("G");
                for key in self.places.statistics() {
                    self.key(key);
                }
                self.text(dir.to_string());
                self.text(sign.to_string());
                self.key(self.places.attr(*ino));
            }
            Write::Usage { ino, sign } => {
                self.text("U");
                self.counter(Counter::UsedSpace);
                self.counter(Counter::TotalInodes);
                self.text(sign.to_string());
                self.key(self.places.attr(*ino));
            }
        }
        Ok(())
    }

    /// The three keys of a quota, and its field in them.
    fn quota(&mut self, quota: &Key) -> Result<(), EngineError> {
        let Place::Three(keys, field) = self.places.of(quota) else {
            return Err(damaged(quota, "not a quota"));
        };
        for key in keys {
            self.key(key);
        }
        self.word(field);
        Ok(())
    }

    fn counter(&mut self, counter: Counter) {
        self.key(self.places.name(super::place::counter_name(counter)));
    }

    fn put(&mut self, key: &Key, record: &Record, expect: &[Expect]) -> Result<(), EngineError> {
        let values = encode(key, record)?;
        if matches!(&values, Values::Fields(fields) if fields.is_empty()) {
            self.delete(key, expect);
            return Ok(());
        }
        self.text("P");
        let place = self.places.of(key);
        self.place(place);
        self.values(values);
        self.holders(key, Some(record), expect);
        self.out.plain.push((key.clone(), Some(record.clone())));
        Ok(())
    }

    fn delete(&mut self, key: &Key, expect: &[Expect]) {
        self.text("D");
        self.place(self.places.of(key));
        self.holders(key, None, expect);
        self.out.plain.push((key.clone(), None));
    }

    /// Each session knows the keys in which it has locks: who came is added there, who went is taken out. Who was
    /// there is what the change set expects to find.
    fn holders(&mut self, key: &Key, new: Option<&Record>, expect: &[Expect]) {
        let Place::Hash(name) = self.places.of(key) else { return };
        let old = expect.iter().find_map(|expect| match expect {
            Expect::Same(k, record) if k == key => Some(record),
            _ => None,
        });
        for (command, session) in moved_sessions(key, new, old) {
            self.text("K");
            self.text(command);
            self.key(self.places.locked(session));
            self.word(name.clone());
        }
    }

    fn change(&mut self, ino: Ino, delta: &AttrDelta, quotas: &[Key]) -> Result<(), EngineError> {
        self.text("T");
        self.key(self.places.attr(ino));
        self.counter(Counter::UsedSpace);
        self.key(self.places.parents(ino));
        for key in self.places.statistics() {
            self.key(key);
        }
        let word = |n: Option<u32>| n.map(|n| n.to_be_bytes().to_vec()).unwrap_or_default();
        let long = |n: Option<u64>| n.map(|n| n.to_be_bytes().to_vec()).unwrap_or_default();
        let stamp = |t: Option<Time>| t.map(time).unwrap_or_default();
        if delta.mode.is_some_and(|mode| mode > 0x0FFF) {
            return Err(damaged(&Key::Attr(ino), "the mode has more than 12 bits"));
        }
        let words = [
            delta.mode.map(|mode| mode.to_be_bytes().to_vec()).unwrap_or_default(),
            word(delta.uid),
            word(delta.gid),
            delta.flags.map(|flags| vec![flags]).unwrap_or_default(),
            long(delta.parent.map(|parent| parent.0)),
            long(delta.length),
            stamp(delta.atime),
            stamp(delta.mtime),
            stamp(delta.ctime),
            delta.nlink.to_string().into_bytes(),
            stamp(delta.touch_mtime),
            stamp(delta.touch_ctime),
            long(delta.grow_length),
            word(delta.access_acl),
            word(delta.default_acl),
        ];
        for word in words {
            self.word(word);
        }
        self.text(quotas.len().to_string());
        for quota in quotas {
            if let Place::Three([limits, space, _], field) = self.places.of(quota) {
                self.key(limits);
                self.key(space);
                self.word(field);
                self.text(created(quota));
            }
        }
        let key = Key::Attr(ino);
        if !self.out.attrs.contains(&key) {
            self.out.attrs.push(key);
        }
        Ok(())
    }

    fn append(
        &mut self,
        ino: Ino,
        index: u32,
        list: &[SliceRecord],
        create: bool,
    ) -> Result<(), EngineError> {
        let key = Key::Chunk(ino, index);
        let values = encode(&key, &Record::Slices(list.to_vec()))?;
        let once = matches!(list, [only] if !only.id.is_zeros());
        self.text("B");
        self.key(self.places.chunk(ino, index));
        self.text(self.known.get(&key).map_or_else(String::new, ToString::to_string));
        self.text(if create { "1" } else { "0" });
        self.text(if once { "1" } else { "0" });
        self.values(values);
        if !self.out.lists.contains(&key) {
            self.out.lists.push(key);
        }
        Ok(())
    }
}

/// Whether a quota that is missing is made: users and groups are counted with or without a limit.
fn created(quota: &Key) -> &'static str {
    if matches!(quota, Key::DirQuota(_)) { "0" } else { "1" }
}

/// Which sessions come to a lock record, or go from it, and by which command that is noted.
pub(crate) fn moved_sessions(
    key: &Key,
    new: Option<&Record>,
    old: Option<&Record>,
) -> Vec<(&'static str, u64)> {
    if !matches!(key, Key::Flocks(_) | Key::RangeLocks(_)) {
        return Vec::new();
    }
    let (old, new) = (old.map(sessions).unwrap_or_default(), new.map(sessions).unwrap_or_default());
    let came = new.iter().filter(|s| !old.contains(s)).map(|s| ("SADD", *s));
    let went = old.iter().filter(|s| !new.contains(s)).map(|s| ("SREM", *s));
    came.chain(went).collect()
}

fn sessions(record: &Record) -> Vec<u64> {
    let owners: Vec<LockOwner> = match record {
        Record::Flocks(list) => list.iter().map(|entry| entry.owner).collect(),
        Record::RangeLocks(list) => list.iter().map(|(owner, _)| *owner).collect(),
        _ => Vec::new(),
    };
    let mut sessions: Vec<u64> = owners.iter().map(|owner| owner.session).collect();
    sessions.dedup();
    sessions
}

impl Sentence {
    /// What the script's answer means.
    pub(crate) fn understand(self, answer: Value) -> Result<Applied, CommitError> {
        let shape = format!("{answer:?}").chars().take(200).collect::<String>();
        let odd = || CommitError::Unknown(format!("the server answers a change with {shape}"));
        let Value::Array(parts) = answer else { return Err(odd()) };
        let mut parts = parts.into_iter();
        match parts.next() {
            Some(Value::Int(1)) => {
                let (Some(attrs), Some(lists), Some(numbers)) = (parts.next(), parts.next(), parts.next())
                else {
                    return Err(odd());
                };
                let (mut records, mut grown) = (BTreeMap::from_iter(self.plain), Vec::new());
                for (keys, values) in [(self.attrs, attrs), (self.lists, lists), (self.numbers, numbers)] {
                    let Value::Array(values) = values else { return Err(odd()) };
                    for (key, value) in keys.into_iter().zip(values) {
                        if matches!((&key, &value), (Key::Chunk(..), Value::Int(_))) {
                            records.remove(&key);
                            grown.push(key);
                            continue;
                        }
                        // It is committed: a value that can't be read is damage for whoever reads it next.
                        if let Ok(record) = decode(&key, value) {
                            records.insert(key, record);
                        }
                    }
                }
                Ok(Applied { records: records.into_iter().collect(), grown })
            }
            Some(Value::Int(0)) => {
                let Some(Value::Array(values)) = parts.next() else { return Err(odd()) };
                let mut found = BTreeMap::new();
                for (key, value) in self.expected.into_iter().zip(values) {
                    let record = decode(&key, value)?;
                    found.insert(key, record);
                }
                Err(CommitError::Conflict(found.into_iter().collect()))
            }
            Some(Value::Int(2)) => {
                let key = parts.next().and_then(|text| super::record::bytes(text).ok().flatten());
                let key = String::from_utf8_lossy(&key.unwrap_or_default()).into_owned();
                let why = "the node to change is missing, or its record is not one".into();
                Err(EngineError::Damaged { key, why }.into())
            }
            _ => Err(odd()),
        }
    }
}

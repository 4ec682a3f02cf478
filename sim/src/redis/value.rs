//! What a key holds, and a database of keys. Everything is ordered, so that replies and runs repeat. Counts what was
//! changed; knows no command.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Bytes of a key, field, member or value.
pub type Text = Vec<u8>;

/// A sorted set: members with their scores.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SortedSet {
    scores: BTreeMap<Text, f64>,
}

impl SortedSet {
    /// The score of a member.
    #[must_use]
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        self.scores.get(member).copied()
    }

    /// Sets a score.
    pub fn set(&mut self, member: Text, score: f64) {
        self.scores.insert(member, score);
    }

    /// Removes a member; whether it was there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        self.scores.remove(member).is_some()
    }

    /// Number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.scores.len()
    }

    /// Whether there is no member.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.scores.is_empty()
    }

    /// Members by score, equal scores by bytes.
    #[must_use]
    pub fn ordered(&self) -> Vec<(Text, f64)> {
        let mut list: Vec<(Text, f64)> =
            self.scores.iter().map(|(member, score)| (member.clone(), *score)).collect();
        list.sort_by(|a, b| a.1.total_cmp(&b.1).then_with(|| a.0.cmp(&b.0)));
        list
    }

    fn bytes(&self) -> usize {
        self.scores.keys().map(|member| member.len() + 24).sum()
    }
}

/// What a key holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A string.
    Str(Text),
    /// A hash.
    Hash(BTreeMap<Text, Text>),
    /// A list.
    List(VecDeque<Text>),
    /// A set.
    Set(BTreeSet<Text>),
    /// A sorted set.
    Sorted(SortedSet),
}

impl Value {
    /// The name of its type.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Str(_) => "string",
            Value::Hash(_) => "hash",
            Value::List(_) => "list",
            Value::Set(_) => "set",
            Value::Sorted(_) => "zset",
        }
    }

    /// Whether it is a collection with nothing in it, which no key can hold.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        match self {
            Value::Str(_) => false,
            Value::Hash(map) => map.is_empty(),
            Value::List(list) => list.is_empty(),
            Value::Set(set) => set.is_empty(),
            Value::Sorted(set) => set.is_empty(),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Value::Str(text) => text.len(),
            Value::Hash(map) => map.iter().map(|(field, value)| field.len() + value.len() + 32).sum(),
            Value::List(list) => list.iter().map(|item| item.len() + 16).sum(),
            Value::Set(set) => set.iter().map(|member| member.len() + 24).sum(),
            Value::Sorted(set) => set.bytes(),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    value: Value,
    used: u64,
}

/// One database.
#[derive(Clone, Debug, Default)]
pub struct Database {
    entries: BTreeMap<Text, Entry>,
    touched: Vec<Text>,
    dirty: u64,
    uses: u64,
}

impl PartialEq for Database {
    fn eq(&self, other: &Database) -> bool {
        self.entries.len() == other.entries.len()
            && self
                .entries
                .iter()
                .zip(&other.entries)
                .all(|((a, one), (b, two))| a == b && one.value == two.value)
    }
}

impl Database {
    /// What a key holds; remembered as a use of it.
    pub fn get(&mut self, key: &[u8]) -> Option<&Value> {
        self.uses += 1;
        let uses = self.uses;
        let entry = self.entries.get_mut(key)?;
        entry.used = uses;
        Some(&entry.value)
    }

    /// Changes what a key holds, which `first` makes where there is nothing; a key left with nothing goes.
    pub fn change<R>(&mut self, key: &[u8], first: fn() -> Value, f: impl FnOnce(&mut Value) -> R) -> R {
        self.uses += 1;
        let used = self.uses;
        let entry = self.entries.entry(key.to_vec()).or_insert_with(|| Entry { value: first(), used });
        entry.used = used;
        let result = f(&mut entry.value);
        if entry.value.is_nothing() {
            self.entries.remove(key);
        }
        result
    }

    /// Sets what a key holds.
    pub fn put(&mut self, key: &[u8], value: Value) {
        self.uses += 1;
        self.entries.insert(key.to_vec(), Entry { value, used: self.uses });
    }

    /// Removes a key; what it held.
    pub fn remove(&mut self, key: &[u8]) -> Option<Value> {
        self.entries.remove(key).map(|entry| entry.value)
    }

    /// Whether a key exists.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        self.entries.contains_key(key)
    }

    /// Says that a key was changed, `times` times.
    pub fn changed(&mut self, key: &[u8], times: usize) {
        self.touched.push(key.to_vec());
        self.dirty += times as u64;
    }

    /// Keys in order.
    pub fn keys(&self) -> impl Iterator<Item = &Text> {
        self.entries.keys()
    }

    /// Keys and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Text, &Value)> {
        self.entries.iter().map(|(key, entry)| (key, &entry.value))
    }

    /// Number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Removes everything; the keys that were there.
    pub fn clear(&mut self) -> Vec<Text> {
        let keys: Vec<Text> = std::mem::take(&mut self.entries).into_keys().collect();
        self.dirty += keys.len() as u64;
        keys
    }

    /// The keys changed since the last call, and how many changes that were.
    pub fn take_changes(&mut self) -> (Vec<Text>, u64) {
        (std::mem::take(&mut self.touched), std::mem::take(&mut self.dirty))
    }

    /// Bytes that are used, roughly.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.entries.iter().map(|(key, entry)| key.len() + entry.value.bytes() + 64).sum()
    }

    /// The key that was not used for the longest time.
    #[must_use]
    pub fn least_used(&self) -> Option<Text> {
        self.entries.iter().min_by_key(|(_, entry)| entry.used).map(|(key, _)| key.clone())
    }
}

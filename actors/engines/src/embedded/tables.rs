//! What readers see: the batch being collected, before it the batch being written, before it the file. Nothing is
//! locked while the file is read: a reader takes what memory knows and the state of the file of one moment, and
//! goes on with these.

use super::store::Base;
use crate::kv::{Batch, KeyRange, Pair};
use parking_lot::RwLock;
use std::ops::Bound;
use std::sync::Arc;
use zest_metadata::EngineError;
use zest_types::limits;

/// Memory a map entry costs besides its bytes.
const ENTRY_COST: usize = 96;

struct Tables {
    /// Committed and not yet being written.
    active: Batch,
    active_bytes: usize,
    /// Being written, or waiting to be tried again after a failure.
    frozen: Option<Arc<Batch>>,
    frozen_bytes: usize,
    /// The file after the last transaction.
    base: Base,
    /// Number of the last commit, of the last one frozen, of the last one durable.
    committed: u64,
    frozen_to: u64,
    durable: u64,
}

/// The state shared by readers, commits and the flush.
pub(super) struct Shared(RwLock<Tables>);

/// The part of a range that memory knows: values and removals, and where knowledge of memory ends.
struct Overlay {
    entries: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    range: KeyRange,
}

impl Shared {
    pub(super) fn new(base: Base) -> Shared {
        Shared(RwLock::new(Tables {
            active: Batch::new(),
            active_bytes: 0,
            frozen: None,
            frozen_bytes: 0,
            base,
            committed: 0,
            frozen_to: 0,
            durable: 0,
        }))
    }

    /// Number of the last commit.
    pub(super) fn committed(&self) -> u64 {
        self.0.read().committed
    }

    /// Number of the last commit that is durable.
    pub(super) fn durable(&self) -> u64 {
        self.0.read().durable
    }

    /// Whether so much waits in memory that a flush must come first.
    pub(super) fn is_full(&self) -> bool {
        let tables = self.0.read();
        tables.active_bytes.saturating_add(tables.frozen_bytes) >= limits::META_BUFFER
    }

    /// Makes a commit visible, all of it at once.
    pub(super) fn add(&self, batch: Batch) {
        let mut tables = self.0.write();
        tables.add(batch);
        tables.committed += 1;
    }

    /// The batch to write now and the last commit in it; `None` when all is durable.
    pub(super) fn freeze(&self) -> Option<(Arc<Batch>, u64)> {
        let mut tables = self.0.write();
        let active = std::mem::take(&mut tables.active);
        let bytes = std::mem::take(&mut tables.active_bytes);
        if !active.is_empty() {
            tables.frozen_bytes = tables.frozen_bytes.saturating_add(bytes);
            match &mut tables.frozen {
                // Left from a failed flush: the later batch goes over it.
                Some(frozen) => Arc::make_mut(frozen).extend(active),
                None => tables.frozen = Some(Arc::new(active)),
            }
        }
        tables.frozen_to = tables.committed;
        match &tables.frozen {
            Some(frozen) => Some((frozen.clone(), tables.frozen_to)),
            None => {
                tables.durable = tables.committed;
                None
            }
        }
    }

    /// The frozen batch is in the file now.
    pub(super) fn settle(&self, base: Base, upto: u64) {
        let mut tables = self.0.write();
        tables.base = base;
        tables.frozen = None;
        tables.frozen_bytes = 0;
        tables.durable = upto;
    }

    /// The file was opened anew.
    pub(super) fn rebase(&self, base: Base) {
        self.0.write().base = base;
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        let base = {
            let tables = self.0.read();
            match tables.in_memory(key) {
                Some(value) => return Ok(value.clone()),
                None => tables.base.clone(),
            }
        };
        base.get(key)
    }

    /// Values of these keys, all of one moment.
    pub(super) fn get_all(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, EngineError> {
        let (known, base) = {
            let tables = self.0.read();
            let known: Vec<_> = keys.iter().map(|key| tables.in_memory(key).cloned()).collect();
            (known, tables.base.clone())
        };
        keys.iter().zip(known).map(|(key, known)| known.map_or_else(|| base.get(key), Ok)).collect()
    }

    /// The first `limit` keys and values of a range.
    pub(super) fn range(&self, range: &KeyRange, limit: usize) -> Result<Vec<Pair>, EngineError> {
        if range.start >= range.end || limit == 0 {
            return Ok(Vec::new());
        }
        let (overlay, base) = {
            let tables = self.0.read();
            (tables.overlay(range, limit), tables.base.clone())
        };
        merge(overlay, &base, limit)
    }
}

impl Tables {
    fn add(&mut self, batch: Batch) {
        let size = |value: &Option<Vec<u8>>| value.as_ref().map_or(0, Vec::len);
        for (key, value) in batch {
            let (key_cost, cost) = (key.len() + ENTRY_COST, size(&value));
            self.active_bytes += cost;
            match self.active.insert(key, value) {
                Some(old) => self.active_bytes -= size(&old),
                None => self.active_bytes += key_cost,
            }
        }
    }

    fn in_memory(&self, key: &[u8]) -> Option<&Option<Vec<u8>>> {
        self.active.get(key).or_else(|| self.frozen.as_ref()?.get(key))
    }

    /// What memory knows of a range, up to `limit` values: the file can only add keys before the last of them.
    fn overlay(&self, range: &KeyRange, limit: usize) -> Overlay {
        let bounds = (Bound::Included(range.start.as_slice()), Bound::Excluded(range.end.as_slice()));
        let none = Batch::new();
        let frozen = self.frozen.as_deref().unwrap_or(&none);
        let mut newer = self.active.range::<[u8], _>(bounds).peekable();
        let mut older = frozen.range::<[u8], _>(bounds).peekable();
        let mut overlay = Overlay { entries: Vec::new(), range: range.clone() };
        let mut values = 0;
        loop {
            let next = match (newer.peek(), older.peek()) {
                (Some((new, _)), Some((old, _))) => {
                    if new == old {
                        older.next();
                        newer.next()
                    } else if new < old {
                        newer.next()
                    } else {
                        older.next()
                    }
                }
                (Some(_), None) => newer.next(),
                _ => older.next(),
            };
            let Some((key, value)) = next else { return overlay };
            overlay.entries.push((key.clone(), value.clone()));
            values += usize::from(value.is_some());
            if values == limit {
                overlay.range.end.clone_from(key);
                return overlay;
            }
        }
    }
}

/// The overlay over the file.
fn merge(overlay: Overlay, base: &Base, limit: usize) -> Result<Vec<Pair>, EngineError> {
    let mut upper = overlay.entries.into_iter().peekable();
    let mut lower = base.range(&overlay.range)?;
    let mut found = Vec::new();
    let mut below = lower.next().transpose()?;
    while found.len() < limit {
        let order = match (upper.peek(), &below) {
            (None, None) => break,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some((key, _)), Some((other, _))) => key.cmp(other),
        };
        if order.is_ge() {
            let pair = std::mem::replace(&mut below, lower.next().transpose()?);
            if order.is_gt() {
                found.extend(pair);
            }
        }
        if order.is_le()
            && let Some((key, Some(value))) = upper.next()
        {
            found.push((key, value));
        }
    }
    Ok(found)
}

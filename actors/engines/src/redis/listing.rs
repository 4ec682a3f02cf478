//! Sorted listings of directories. A Redis holds entries without order, so a listing is fetched and sorted once,
//! and kept for the rest of the walk through it. Bounded in entries and in time.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use zest_metadata::{Key, Record};
use zest_types::{Ino, Name, limits};

/// Entries in the order of their names.
pub(crate) type Listing = Arc<[(Key, Record)]>;

#[derive(Default)]
pub(crate) struct Listings(Mutex<BTreeMap<Ino, (Duration, Listing)>>);

impl Listings {
    /// Keeps a listing that was just fetched.
    pub(crate) fn keep(&self, dir: Ino, listing: Listing, now: Duration) {
        if listing.len() > limits::LISTED_ENTRIES {
            return;
        }
        let mut kept = self.0.lock();
        kept.insert(dir, (now, listing));
        let alive = Duration::from_millis(limits::LISTED_MS);
        kept.retain(|_, (at, _)| now.saturating_sub(*at) < alive);
        while kept.values().map(|(_, listing)| listing.len()).sum::<usize>() > limits::LISTED_ENTRIES {
            let oldest = kept.iter().min_by_key(|(_, (at, _))| *at).map(|(dir, _)| *dir);
            let Some(oldest) = oldest else { return };
            kept.remove(&oldest);
        }
    }

    /// The listing that has this name, young enough to go on with.
    pub(crate) fn with(&self, dir: Ino, name: &Name, now: Duration) -> Option<Listing> {
        let kept = self.0.lock();
        let (at, listing) = kept.get(&dir)?;
        let young = now.saturating_sub(*at) < Duration::from_millis(limits::LISTED_MS);
        let key = Key::Dentry(dir, name.clone());
        (young && listing.binary_search_by(|(found, _)| found.cmp(&key)).is_ok()).then(|| Arc::clone(listing))
    }
}

/// Up to `limit` entries behind a name.
pub(crate) fn behind(listing: &Listing, dir: Ino, after: Option<&Name>, limit: usize) -> Vec<(Key, Record)> {
    let from = match after {
        None => 0,
        Some(name) => {
            let key = Key::Dentry(dir, name.clone());
            listing.partition_point(|(found, _)| *found <= key)
        }
    };
    listing.iter().skip(from).take(limit).cloned().collect()
}

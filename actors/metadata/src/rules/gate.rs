//! Jobs that one client at a time does for all: whoever finds the time of the last run old enough writes the new
//! one, and with it takes the job. Source: volume format, gates for periodic jobs.

use super::Decision;
use super::draft::{Draft, nothing};
use crate::key::{Counter, Key};
use crate::op::{Env, Outcome};
use crate::record::Record;
use crate::snapshot::{Snapshot, Stop};
use zest_types::Errno;

pub fn decide(job: Counter, interval: i64, snapshot: &Snapshot, env: &Env<'_>) -> Result<Decision, Stop> {
    let key = Key::Counter(job);
    let seen = snapshot.get(&key)?;
    let last = match seen {
        None => 0,
        Some(Record::Stamp(last)) => *last,
        Some(_) => return Err(Errno::EIO.into()),
    };
    let now = env.now.sec;
    if last > now.saturating_sub(interval) {
        return nothing(Outcome::Blocked);
    }
    let mut draft = Draft::new();
    draft.expect_seen(key.clone(), seen);
    draft.put(key, Record::Stamp(now));
    draft.done(Outcome::Done)
}

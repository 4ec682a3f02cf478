//! Whether it is this mount's turn to do a job for all: always where nobody else can use the volume, otherwise when
//! none of the others did it lately. Source: volume format, gates for periodic jobs.

use zest_metadata::{Change, Counter, Op, Outcome};
use zest_types::{Caller, Errno};
use zest_vfs::shared::Shared;

/// Asks for the turn, and takes it.
pub async fn pass(shared: &Shared, job: Counter) -> Result<bool, Errno> {
    if shared.exclusive {
        return Ok(true);
    }
    // A little less than the time between two tries, so that none is missed.
    let interval = i64::try_from(shared.jobs_every.as_secs() * 9 / 10).unwrap_or(i64::MAX);
    let op = Op::Gate { job, interval };
    let change = Change { caller: Caller::SYSTEM, op };
    let outcome = shared.links()?.metadata.send(change).await.map_err(|_| Errno::EIO)??;
    Ok(outcome == Outcome::Done)
}

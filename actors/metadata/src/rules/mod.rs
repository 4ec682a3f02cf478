//! What each change means: one pure function from what is known to a change set, an error, or the wish to see
//! more. No engine, no waiting, no clock.

use crate::change::ChangeSet;
use crate::op::{Env, Op, Outcome};
use crate::snapshot::{Snapshot, Stop};

/// A decision: what to write, and what to answer once it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What to commit; may be empty.
    pub changes: ChangeSet,
    /// What came out.
    pub outcome: Outcome,
}

/// Decides a change. Asks for records in as few rounds as it can; the same question with the same snapshot has
/// the same answer.
pub fn decide(op: &Op, snapshot: &Snapshot, env: &Env<'_>) -> Result<Decision, Stop> {
    let _ = (op, snapshot, env);
    Err(Stop::Fail(zest_types::Errno::ENOSYS))
}

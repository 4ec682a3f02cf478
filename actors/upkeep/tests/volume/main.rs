//! What looks through a whole volume: the search for leaked objects never takes what somebody needs, the check finds
//! what is broken and nothing else.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::disallowed_methods)]

mod check;
mod compact;
mod leaks;
mod quotas;
mod rig;

//! Where production's events and complaints go: the log. Events are for those who look for a mistake, and cost
//! nothing as long as nobody asked for that level.

use zest_world::{Event, Trace};

/// The log as a listener.
pub struct Journal;

impl Trace for Journal {
    fn event(&self, event: Event) {
        let Event { actor, kind, subject, detail } = event;
        tracing::trace!("{actor}: {kind} {subject} {detail}");
    }

    fn complain(&self, text: &str) {
        tracing::warn!("{text}");
    }
}

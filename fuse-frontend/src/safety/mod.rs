//! Whether a metadata server may be trusted with a volume: what its own words (INFO, CONFIG) say against it, each
//! finding with its reason and its remedy, and what follows for a mount. Pure: asked before a volume is made or
//! mounted, at every heartbeat, and by `zest status`.

mod memory;
mod persistence;
mod redis;

pub use redis::findings;

use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// What a server says about itself: names and values.
pub type Words = BTreeMap<String, String>;

/// How much a finding weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// Good to know.
    Note,
    /// Should be changed.
    Warning,
    /// Data can be lost.
    Critical,
    /// Data may be lost already: nothing is changed until somebody has looked.
    ReadOnly,
    /// Data will be lost: nothing is changed, unless the user insists.
    Refused,
    /// It can't work.
    Impossible,
}

/// Something that speaks against a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Finding {
    /// Short name, for scripts.
    pub id: &'static str,
    /// How much it weighs.
    pub weight: Weight,
    /// What was seen, and what it does.
    pub what: String,
    /// What helps.
    pub remedy: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.what, self.id, self.remedy)
    }
}

/// What follows for somebody who wants to change a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// It may be changed.
    Sound,
    /// It may be looked at.
    ReadOnly(&'a Finding),
    /// It may not be mounted for changes.
    Refused(&'a Finding),
}

/// The verdict of all findings; `forced` where the user insists.
#[must_use]
pub fn verdict(findings: &[Finding], forced: bool) -> Verdict<'_> {
    let worst = findings.iter().max_by_key(|finding| finding.weight);
    match worst {
        Some(finding) if finding.weight == Weight::Impossible => Verdict::Refused(finding),
        Some(finding) if finding.weight == Weight::Refused && !forced => Verdict::Refused(finding),
        Some(finding) if finding.weight == Weight::ReadOnly && !forced => Verdict::ReadOnly(finding),
        _ => Verdict::Sound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(weight: Weight) -> Finding {
        Finding { id: "x", weight, what: "what".into(), remedy: "remedy".into() }
    }

    #[test]
    fn the_worst_decides_and_a_user_can_insist_on_what_is_possible() {
        let all = [Weight::Critical, Weight::Refused, Weight::ReadOnly].map(finding);
        assert_eq!(verdict(&all, false), Verdict::Refused(&all[1]));
        assert_eq!(verdict(&all, true), Verdict::Sound);
        assert_eq!(verdict(&all[2..], false), Verdict::ReadOnly(&all[2]));
        assert_eq!(verdict(&all[..1], false), Verdict::Sound);
        let no = [finding(Weight::Impossible)];
        assert_eq!(verdict(&no, true), Verdict::Refused(&no[0]));
    }
}

//! Worlds with copies, quotas, fences and hours, in detail: a few plans written by hand, whose judges must have had
//! something to judge.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use zest_sim::explorer::run;
use zest_sim::plan::{Ending, EngineKind, Path, Round, Setup, Step};
use zest_world::planted::Bug;

fn path(text: &str) -> Path {
    Path::new(text)
}

fn file() -> Vec<Step> {
    vec![
        Step::Create { path: path("c"), slot: 0, excl: true },
        Step::Write { slot: 0, at: 0, len: 70_000 },
        Step::Fsync { slot: 0 },
    ]
}

/// The rule that is broken with a bug; none without it.
fn rule(plan: &Setup, bug: Bug) -> &'static str {
    assert_eq!(run(plan, None, false).violation, None);
    run(plan, Some(bug), false).violation.map_or("none", |violation| violation.rule)
}

#[test]
fn a_copy_outlives_its_source() {
    let mut steps = file();
    steps.extend([
        Step::Clone { path: path("c"), slot: 0 },
        Step::Close { slot: 0 },
        Step::Unlink { path: path("c") },
        Step::Pause { ms: 30_000 },
    ]);
    for engine in [EngineKind::Embedded, EngineKind::Records] {
        let plan =
            Setup { copies: true, ..Setup::calm(11, engine) }.round(vec![steps.clone()], Ending::Unmount);
        assert_ne!(rule(&plan, Bug::LostCloneReference), "none");
    }
}

#[test]
fn a_quota_is_held_against_a_recount() {
    let steps = vec![
        Step::Mkdir { path: path("a/d"), mode: 0o755 },
        Step::Create { path: path("a/d/e"), slot: 0, excl: true },
        Step::Write { slot: 0, at: 0, len: 9_000 },
        Step::Close { slot: 0 },
        Step::Rename { from: path("a/d"), to: path("b/d"), how: 0 },
    ];
    let plan = Setup { quotas: true, ..Setup::calm(12, EngineKind::Embedded) };
    let plan = plan.round(vec![steps], Ending::Unmount);
    assert_eq!(rule(&plan, Bug::QuotaNotCharged), "quotas");
}

#[test]
fn a_fenced_mount_takes_no_changes() {
    let mut steps = file();
    steps.extend([Step::Pause { ms: 100 }, Step::Write { slot: 0, at: 5, len: 10 }]);
    steps.extend([Step::Unlink { path: path("c") }, Step::Stat { path: path("c") }]);
    let fence = vec![Step::Pause { ms: 90 }, Step::Fence { ms: 500 }];
    let plan = Setup::calm(13, EngineKind::Embedded).round(vec![steps, fence], Ending::Unmount);
    assert_eq!(rule(&plan, Bug::WriteAfterFencing), "fence");
    let outcome = run(&plan, None, false);
    assert!(outcome.reached.contains(&("unlink", "EROFS".into())), "{:?}", outcome.reached);
}

#[test]
fn the_trash_keeps_its_days_and_no_more() {
    let steps = [file(), vec![Step::Close { slot: 0 }, Step::Unlink { path: path("c") }]].concat();
    let look = vec![vec![Step::Statfs]];
    let calm = || Setup { trash_days: 1, ..Setup::calm(14, EngineKind::Records) };
    let mut plan = calm().round(vec![steps.clone()], Ending::Unmount).round(look, Ending::Unmount);
    plan.rounds[1].later = 20;
    assert_eq!(rule(&plan, Bug::TrashExpiresEarly), "recovery");
    let mut plan = calm().round(vec![steps], Ending::Unmount);
    plan.rounds.push(Round { later: 50, ..Round::of(Vec::new(), Ending::Unmount) });
    assert_eq!(run(&plan, None, false).violation, None);
}

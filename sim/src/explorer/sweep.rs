//! Many seeds, on as many threads as wanted: violations, and figures of what the sweep has really done.

use crate::devices::Fault;
use crate::world::Outcome;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a sweep has done.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Runs made.
    pub runs: u64,
    /// Events over all runs.
    pub events: u64,
    /// Seeds that failed, with the rule and the text.
    pub failures: Vec<(u64, String)>,
    /// In how many runs each class of fault really happened.
    pub fired: BTreeMap<Fault, u64>,
    /// CPU seconds of this process meanwhile.
    pub cpu: f64,
}

/// CPU seconds this process has used.
#[must_use]
pub fn cpu_seconds() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a live value of the right type, and zeroes are a valid rusage if the call fails.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// Runs `one` for each of `seeds`, on `threads` threads; stops at the first failure unless `all`.
pub fn sweep(
    seeds: std::ops::Range<u64>,
    threads: u64,
    all: bool,
    one: impl Fn(u64) -> Result<Outcome, String> + Sync,
) -> Report {
    let began = cpu_seconds();
    let next = AtomicU64::new(seeds.start);
    let report = parking_lot::Mutex::new(Report::default());
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let outcome = one(seed);
                    let failed = report.lock().take(seed, outcome);
                    if failed && !all {
                        next.store(seeds.end, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let mut report = report.into_inner();
    report.failures.sort();
    report.cpu = cpu_seconds() - began;
    report
}

impl Report {
    fn take(&mut self, seed: u64, outcome: Result<Outcome, String>) -> bool {
        self.runs += 1;
        let failure = match outcome {
            Err(text) => Some(text),
            Ok(outcome) => {
                self.events += outcome.events;
                outcome.fired.keys().for_each(|fault| *self.fired.entry(*fault).or_insert(0) += 1);
                outcome.violation.map(|violation| format!("{}: {}", violation.rule, violation.text))
            }
        };
        let failed = failure.is_some();
        self.failures.extend(failure.map(|text| (seed, text)));
        failed
    }
}

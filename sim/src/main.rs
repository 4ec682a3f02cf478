//! `zest-sim`: tells a run, repeats runs, sweeps seeds, hunts planted bugs. Every failure ends with the one command
//! that shows it again.

// The simulator's program is outside the world it simulates.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use clap::{Parser, Subcommand};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use zest_sim::devices::Fault;
use zest_sim::explorer::{
    marks::Marks, planted::first_find, planted::first_find_wire, run, shrink::Limit, shrink::Plan,
    shrink::shrink, sweep::Report, sweep::sweep, twice::apart, twice::twice,
};
use zest_sim::plan::{Setup, draw::setup};
use zest_sim::redis::machine::Mishap;
use zest_sim::wire::{self, WireOutcome};
use zest_sim::world::Outcome;
use zest_world::planted::Bug;

#[derive(Parser)]
#[command(about = "Runs the actors of ZestFS in simulated worlds; a seed decides everything")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Tells one run as a timeline.
    Run {
        /// The seed, or a file with a saved plan.
        seed: String,
        /// Switches a planted bug on.
        #[arg(long)]
        bug: Option<String>,
        /// Makes the plan as small as it can be first, and prints it.
        #[arg(long)]
        shrink: bool,
        /// Prints what was broken, and no timeline.
        #[arg(long)]
        quiet: bool,
        /// A wire world: several clients of a simulated Redis.
        #[arg(long)]
        wire: bool,
    },
    /// Runs every seed twice and compares.
    Twice {
        #[command(flatten)]
        many: Many,
        /// Each run by a process of its own, with other variables and addresses.
        #[arg(long)]
        apart: bool,
    },
    /// Runs many seeds and reports.
    Sweep(Many),
    /// Counts what worlds reach, and names what they should and do not.
    Marks(Both),
    /// Counts which faults really strike; none may never do.
    Faults(Both),
    /// Looks for every planted bug with the ordinary sweep.
    Planted {
        /// Seeds tried for each bug.
        #[arg(long, default_value_t = 1000)]
        within: u64,
    },
    /// Makes what finds each planted bug small: at most 15 requests and 3 faults, within two minutes.
    Shrink {
        /// Seeds tried for each bug.
        #[arg(long, default_value_t = 1000)]
        within: u64,
        /// Seconds for each bug.
        #[arg(long, default_value_t = 120)]
        seconds: u64,
        /// This bug only.
        #[arg(long)]
        bug: Option<String>,
    },
}

#[derive(clap::Args)]
struct Both {
    /// Worlds of one client.
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// Wire worlds.
    #[arg(long, default_value_t = 300)]
    wire: u64,
    /// Worlds at a time.
    #[arg(long, default_value_t = 2)]
    threads: u64,
}

#[derive(clap::Args)]
struct Many {
    /// How many seeds.
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Worlds at a time.
    #[arg(long, default_value_t = 2)]
    threads: u64,
    /// Goes on after a failure.
    #[arg(long)]
    all: bool,
    /// Wire worlds: several clients of a simulated Redis.
    #[arg(long)]
    wire: bool,
}

fn main() -> ExitCode {
    let good = match Arguments::parse().command {
        Command::Run { seed, bug, quiet, wire: true, .. } => tell_wire(&seed, bug.as_deref(), quiet),
        Command::Run { seed, bug, shrink, quiet, .. } => tell(&seed, bug.as_deref(), shrink, quiet),
        Command::Twice { many, apart: true } => twice_apart(&many),
        Command::Twice { many, .. } if many.wire => {
            many_wire(&many, "twice", |seed| wire::twice(&wire::draw::setup(seed)))
        }
        Command::Sweep(many) if many.wire => {
            many_wire(&many, "sweep", |seed| Ok(wire::run(&wire::draw::setup(seed), None, false)))
        }
        Command::Twice { many, .. } => {
            report(&many, "twice", &sweep(many.range(), many.threads, many.all, |seed| twice(&setup(seed))))
        }
        Command::Sweep(many) => report(
            &many,
            "sweep",
            &sweep(many.range(), many.threads, many.all, |seed| Ok(run(&setup(seed), None, false))),
        ),
        Command::Planted { within } => hunt(within),
        Command::Shrink { within, seconds, bug } => shrink_all(within, seconds, bug.as_deref()),
        Command::Marks(both) => marks(&both),
        Command::Faults(both) => faults(&both),
    };
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn twice_apart(many: &Many) -> bool {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => {
            eprintln!("this program does not find itself: {error}");
            return false;
        }
    };
    let differing: Vec<String> = many
        .range()
        .filter_map(|seed| {
            let seed = seed.to_string();
            let wire = many.wire.then_some("--wire");
            let arguments: Vec<&str> = std::iter::once(seed.as_str()).chain(wire).collect();
            apart(&program, &arguments).err().map(|text| format!("seed {seed}: {text}"))
        })
        .collect();
    differing.iter().for_each(|text| println!("{text}"));
    println!("twice apart: {} of {} runs differ", differing.len(), many.seeds);
    differing.is_empty()
}

fn many_wire(many: &Many, what: &str, one: impl Fn(u64) -> Result<WireOutcome, String> + Sync) -> bool {
    let mishaps = parking_lot::Mutex::new(BTreeMap::<Mishap, u64>::new());
    let sweep = sweep(many.range(), many.threads, many.all, |seed| {
        let outcome = one(seed)?;
        outcome.mishaps.keys().for_each(|mishap| *mishaps.lock().entry(*mishap).or_insert(0) += 1);
        Ok(outcome.outcome)
    });
    for (mishap, worlds) in mishaps.into_inner() {
        println!(
            "  {:>5.1} % of the worlds had {}",
            worlds as f64 * 100.0 / sweep.runs.max(1) as f64,
            mishap.name()
        );
    }
    report(many, what, &sweep)
}

fn tell_wire(seed: &str, bug: Option<&str>, quiet: bool) -> bool {
    let plan = match seed.parse() {
        Ok(seed) => Ok(wire::draw::setup(seed)),
        Err(_) => {
            std::fs::read_to_string(seed).map_err(|error| format!("{seed}: {error}")).and_then(|json| {
                serde_json::from_str(&json).map_err(|error| format!("{seed} is no plan: {error}"))
            })
        }
    };
    let (plan, bug) = match plan.and_then(|plan| Ok((plan, bug.map(bug_of).transpose()?))) {
        Ok(prepared) => prepared,
        Err(text) => {
            eprintln!("{text}");
            return false;
        }
    };
    let outcome = wire::run(&plan, bug, !quiet);
    let good = show(plan.seed, &outcome.outcome);
    for (mishap, times) in &outcome.mishaps {
        println!("  {times} × {}", mishap.name());
    }
    println!(
        "  the server took {} connections; clients say of its silences: {:?}",
        outcome.connections, outcome.causes
    );
    good
}

impl Many {
    fn range(&self) -> std::ops::Range<u64> {
        self.from..self.from.saturating_add(self.seeds)
    }
}

fn plan_of(text: &str) -> Result<Setup, String> {
    if let Ok(seed) = text.parse() {
        return Ok(setup(seed));
    }
    let json = std::fs::read_to_string(text).map_err(|error| format!("{text}: {error}"))?;
    serde_json::from_str(&json).map_err(|error| format!("{text} is no plan: {error}"))
}

fn bug_of(name: &str) -> Result<Bug, String> {
    let found = Bug::ALL
        .into_iter()
        .chain(Bug::WIRE)
        .chain(Bug::LEAKS)
        .chain(Bug::CANARIES)
        .find(|bug| format!("{bug:?}").eq_ignore_ascii_case(name));
    found.ok_or_else(|| {
        format!("no planted bug is called {name}; there are {:?} and {:?}", Bug::ALL, Bug::WIRE)
    })
}

fn tell(seed: &str, bug: Option<&str>, small: bool, quiet: bool) -> bool {
    let prepared = plan_of(seed).and_then(|plan| Ok((plan, bug.map(bug_of).transpose()?)));
    let (mut plan, bug) = match prepared {
        Ok(prepared) => prepared,
        Err(text) => {
            eprintln!("{text}");
            return false;
        }
    };
    if small {
        plan = shrink(&plan, bug, Limit { tries: 3000, time: Duration::from_secs(600) }).0;
        println!("{}", serde_json::to_string_pretty(&plan).unwrap_or_default());
    }
    let outcome = run(&plan, bug, !quiet);
    show(plan.seed, &outcome)
}

fn show(seed: u64, outcome: &Outcome) -> bool {
    for (at, words) in &outcome.words {
        println!("{:>10.3} s  {words}", *at as f64 / 1e6);
    }
    println!("seed {}: {} events, digest {:016x}", seed, outcome.events, outcome.digest);
    for (fault, times) in &outcome.fired {
        println!("  {} × {}", times, fault.name());
    }
    match &outcome.violation {
        None => println!("no rule was broken"),
        Some(violation) => println!("BROKEN, {}: {}", violation.rule, violation.text),
    }
    outcome.violation.is_none()
}

fn report(many: &Many, what: &str, report: &Report) -> bool {
    let cpu = report.cpu.max(1e-9);
    println!(
        "{what}: {} runs from seed {}, {} events; {:.1} runs and {:.0} events per CPU second",
        report.runs,
        many.from,
        report.events,
        report.runs as f64 / cpu,
        report.events as f64 / cpu
    );
    for (fault, runs) in &report.fired {
        println!(
            "  {:>5.1} % of the worlds had {}",
            *runs as f64 * 100.0 / report.runs.max(1) as f64,
            fault.name()
        );
    }
    for (seed, text) in &report.failures {
        let wire = if many.wire { " --wire" } else { "" };
        println!("seed {seed}: {text}\n  again: cargo run -p zest-sim -- run {seed}{wire}");
    }
    println!("{} of {} runs failed", report.failures.len(), report.runs);
    report.failures.is_empty()
}

fn hunt(within: u64) -> bool {
    let mut all = true;
    for bug in Bug::WIRE.into_iter().chain(Bug::ALL) {
        let wire = Bug::WIRE.contains(&bug);
        let found = if wire { first_find_wire(bug, within) } else { first_find(bug, within) };
        match found {
            Some((seed, violation)) => {
                let wire = if wire { " --wire" } else { "" };
                println!("{bug:?}: seed {seed}, {}: {}", violation.rule, violation.text);
                println!("  again: cargo run -p zest-sim -- run {seed} --bug {bug:?}{wire}");
            }
            None => {
                println!("{bug:?}: not found within {within} seeds");
                all = false;
            }
        }
    }
    all
}

/// Requests and faults that what finds a bug may have left.
const SMALL: (usize, usize) = (15, 3);

fn shrink_all(within: u64, seconds: u64, only: Option<&str>) -> bool {
    let only = match only.map(bug_of).transpose() {
        Ok(only) => only,
        Err(text) => {
            eprintln!("{text}");
            return false;
        }
    };
    let limit = Limit { tries: usize::MAX, time: Duration::from_secs(seconds) };
    let (mut all, mut small) = (0, 0);
    for bug in Bug::ALL.into_iter().chain(Bug::WIRE).filter(|bug| only.is_none_or(|only| only == *bug)) {
        all += 1;
        let good = match Bug::WIRE.contains(&bug) {
            true => first_find_wire(bug, within)
                .map(|(seed, _)| shrunk(bug, &wire::draw::setup(seed), seed, limit)),
            false => first_find(bug, within).map(|(seed, _)| shrunk(bug, &setup(seed), seed, limit)),
        };
        small += u64::from(good.unwrap_or(false));
        if good.is_none() {
            println!("{bug:?}: not found within {within} seeds");
        }
    }
    println!("{small} of {all} bugs are shown by at most {} requests and {} faults", SMALL.0, SMALL.1);
    small == all
}

fn shrunk<P: Plan>(bug: Bug, plan: &P, seed: u64, limit: Limit) -> bool {
    let begun = Instant::now();
    let (small, tries) = shrink(plan, Some(bug), limit);
    let ((before, _), (requests, faults)) = (plan.size(), small.size());
    let rule = small.broken(Some(bug)).unwrap_or("none");
    println!(
        "{bug:?}: seed {seed}, {rule}: {before} requests became {requests}, with {faults} faults; {tries} runs, {:.1} s",
        begun.elapsed().as_secs_f64()
    );
    requests <= SMALL.0 && faults <= SMALL.1
}

/// What worlds of both kinds reach; false where a rule was broken.
fn reach(both: &Both) -> (Marks, bool) {
    let marks = parking_lot::Mutex::new(Marks::default());
    let logic = sweep(0..both.seeds, both.threads, true, |seed| {
        let outcome = run(&setup(seed), None, false);
        marks.lock().add(&outcome, []);
        Ok(outcome)
    });
    let wires = sweep(0..both.wire, both.threads, true, |seed| {
        let outcome = wire::run(&wire::draw::setup(seed), None, false);
        marks.lock().add(&outcome.outcome, outcome.mishaps.keys().map(|mishap| mishap.name()));
        Ok(outcome.outcome)
    });
    println!("{} worlds of one client, {} wire worlds", logic.runs, wires.runs);
    for (seed, text) in logic.failures.iter().chain(&wires.failures) {
        println!("seed {seed}: {text}");
    }
    (marks.into_inner(), logic.failures.is_empty() && wires.failures.is_empty())
}

fn marks(both: &Both) -> bool {
    let (marks, good) = reach(both);
    for (mark, worlds) in marks.reached() {
        println!("{worlds:>7}  {mark}");
    }
    let (missing, news) = (marks.missing(), marks.news());
    println!("{} marks reached", marks.reached().len());
    println!("{} wanted and not reached: {missing:?}", missing.len());
    println!("{} reached and not in the list: {news:?}", news.len());
    good && missing.is_empty()
}

fn faults(both: &Both) -> bool {
    let (marks, good) = reach(both);
    let met = Fault::ALL.into_iter().filter(|fault| !Fault::OF_SPARE_DISKS.contains(fault));
    let all = met.map(|fault| format!("fault: {}", fault.name()));
    let all = all.chain(Mishap::ALL.into_iter().map(|mishap| format!("mishap: {}", mishap.name())));
    let mut never = 0;
    for class in all {
        let worlds = marks.reached().get(&class).copied().unwrap_or(0);
        never += u64::from(worlds == 0);
        println!("{worlds:>7} worlds had {class}");
    }
    println!("{never} classes never struck");
    good && never == 0
}

//! Runs seeds, and prints those in which an invariant did not hold.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the output and the progress of a command")]

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Parser;
use sealway_evidence_simulation::{Defect, Outcome, relay, run_with};

/// Events that are printed before a violation.
const EVENTS_SHOWN: usize = 60;
/// Number of seeds between two lines of progress.
const PROGRESS_EVERY: usize = 100;

#[derive(Parser)]
struct Arguments {
    /// Runs this seed alone, and prints all events
    #[arg(long)]
    seed: Option<u64>,
    /// The first seed of those that run
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// The number of seeds that run
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// The number of threads, each with a seed of its own at a time
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Simulated time of a run, in seconds
    #[arg(long, default_value_t = 20)]
    time: u64,
    /// Begins no more seeds after this many minutes of real time
    #[arg(long, default_value_t = u64::MAX)]
    minutes: u64,
    /// Runs every seed twice, and compares the hashes
    #[arg(long)]
    twice: bool,
    /// Ends at the first seed in which an invariant does not hold
    #[arg(long)]
    stop: bool,
    /// Plants a defect that the invariants must find
    #[arg(long, value_parser = defect)]
    defect: Option<Defect>,
    /// Simulates nodes of the relay; a defect of the relay implies it
    #[arg(long)]
    relay: bool,
}

impl Arguments {
    fn is_relay(&self) -> bool {
        self.relay || matches!(self.defect, Some(Defect::Relay(_)))
    }

    fn run(&self, seed: u64) -> Outcome {
        let time = Duration::from_secs(self.time);
        match self.defect {
            Some(Defect::Relay(defect)) => relay::run_with(seed, time, Some(defect)),
            _ if self.relay => relay::run_with(seed, time, None),
            defect => run_with(seed, time, defect),
        }
    }
}

/// Returns all defects, each with its name.
fn defects() -> Vec<(&'static str, Defect)> {
    let of_relay = relay::Defect::ALL.into_iter().map(|(name, defect)| (name, Defect::Relay(defect)));
    Defect::ALL.into_iter().chain(of_relay).collect()
}

fn defect(name: &str) -> Result<Defect, String> {
    let all = defects();
    let found = all.iter().find(|(known, _)| *known == name).map(|(_, defect)| *defect);
    found.ok_or_else(|| format!("there are: {}", all.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(seed) = arguments.seed {
        // What the product says of itself, beside the events.
        tracing_subscriber::fmt().with_writer(std::io::stderr).without_time().init();
        let outcome = arguments.run(seed);
        outcome.events.iter().for_each(|event| println!("{event}"));
        println!("seed {seed} hash {:016x} {:?}", outcome.hash, outcome.counts);
        return report(&outcome, &arguments);
    }
    let begun = Instant::now();
    let (next, is_over) = (AtomicU64::new(arguments.first), AtomicBool::new(false));
    let done: Arc<Mutex<BTreeMap<u64, Outcome>>> = Arc::default();
    std::thread::scope(|scope| {
        for _ in 0..arguments.jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let is_late = begun.elapsed().as_secs() / 60 >= arguments.minutes;
                    if is_late || seed >= arguments.first + arguments.seeds || is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let mut outcome = arguments.run(seed);
                    if arguments.twice && arguments.run(seed).hash != outcome.hash {
                        outcome.violations.push("a second run of the seed took another course".into());
                    }
                    is_over.fetch_or(arguments.stop && !outcome.violations.is_empty(), Ordering::Relaxed);
                    if outcome.violations.is_empty() {
                        outcome.events.clear();
                    }
                    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                    done.insert(seed, outcome);
                    if done.len().is_multiple_of(PROGRESS_EVERY) {
                        eprintln!("{} seeds", done.len());
                    }
                }
            });
        }
    });
    let done = done.lock().unwrap_or_else(PoisonError::into_inner);
    let failed: Vec<&Outcome> = done.values().filter(|outcome| !outcome.violations.is_empty()).collect();
    for outcome in &failed {
        let from = outcome.events.iter().position(|event| event.contains("VIOLATION")).unwrap_or(0);
        let from = from.saturating_sub(EVENTS_SHOWN);
        outcome.events.iter().skip(from).take(EVENTS_SHOWN + 5).for_each(|event| println!("{event}"));
        report(outcome, &arguments);
    }
    let sum = |of: fn(&Outcome) -> u64| done.values().map(of).sum::<u64>();
    println!("seeds: {}", done.len());
    println!("failed: {}", failed.len());
    println!("first failed: {}", failed.first().map_or_else(String::new, |outcome| outcome.seed.to_string()));
    println!("faults: {}", sum(|outcome| outcome.counts.faults));
    if arguments.is_relay() {
        println!("connected: {}", sum(|outcome| outcome.counts.relay.connected));
        println!("bridged: {}", sum(|outcome| outcome.counts.relay.bridged));
        println!("delivered: {}", sum(|outcome| outcome.counts.relay.delivered));
        println!("replays: {}", sum(|outcome| outcome.counts.relay.replays));
        println!("rejected: {}", sum(|outcome| outcome.counts.relay.rejected));
        println!("unavailable: {}", sum(|outcome| outcome.counts.relay.unavailable));
        println!("tampered: {}", sum(|outcome| outcome.counts.relay.tampered));
        return if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    println!("sessions: {}", sum(|outcome| outcome.counts.sessions));
    println!("served: {}", sum(|outcome| outcome.counts.served));
    println!("answered: {}", sum(|outcome| outcome.counts.answered));
    println!("replays: {}", sum(|outcome| outcome.counts.replays));
    println!("rejected: {}", sum(|outcome| outcome.counts.rejected));
    println!("revocations: {}", sum(|outcome| outcome.counts.revocations));
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn report(outcome: &Outcome, arguments: &Arguments) -> ExitCode {
    if outcome.violations.is_empty() {
        return ExitCode::SUCCESS;
    }
    let (seed, time) = (outcome.seed, arguments.time);
    let planted = defects().into_iter().find(|(_, defect)| Some(*defect) == arguments.defect);
    let relay = if arguments.is_relay() { " --relay" } else { "" };
    let defect = planted.map(|(name, _)| format!(" --defect {name}")).unwrap_or_default();
    println!(
        "seed {seed} failed; again: cargo run -p sealway-evidence-simulation -- --seed {seed} --time {time}{relay}{defect}"
    );
    outcome.violations.iter().for_each(|violation| println!("  {violation}"));
    ExitCode::FAILURE
}

//! Tests against mutants: first each test alone with all mutants off, to learn which mutants it reaches; then each mutant
//! against the tests that reach it, the fastest first, until one fails.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::ensure;

use super::build::{self, Binary};
use crate::shell;

/// The least processor time that a test gets, and the multiple of its time without a mutant. Processor time, so that other work
/// on the machine makes no timeout.
const PROCESSOR_MIN: Duration = Duration::from_secs(2);
const PROCESSOR_FACTOR: u32 = 5;

/// The least time on the clock that a test gets, ten times its processor time at least: ends a test that waits for what never comes.
const CLOCK_MIN: Duration = Duration::from_secs(120);

/// The time of a test with all mutants off.
const TRACE_MAX: Duration = Duration::from_secs(300);

/// Address space of a test in KiB: a mutant may allocate without end.
const MEMORY_MAX_KIB: u32 = 6_000_000;

/// SIGXCPU, and SIGKILL where the first is ignored: the kernel ends a process whose processor time is used up.
const PROCESSOR_SIGNALS: [i32; 2] = [24, 9];

/// The result of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A test failed with the mutant on.
    Caught,
    /// A test did not end in its time.
    Timeout,
    /// All tests passed that reach the mutant, or no test reaches it.
    Missed,
    /// The mutant does not compile.
    Unviable,
    /// The mutant cannot be selected at run time.
    NotRun,
}

impl Outcome {
    pub(super) const ALL: [(Outcome, &str); 5] = [
        (Outcome::Caught, "caught"),
        (Outcome::Timeout, "timeout"),
        (Outcome::Missed, "missed"),
        (Outcome::Unviable, "unviable"),
        (Outcome::NotRun, "not run"),
    ];

    pub(super) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(outcome, _)| *outcome == self).map_or("", |(_, name)| name)
    }

    pub(super) fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(outcome, _)| *outcome)
    }
}

/// A test that passes without a mutant.
struct Test {
    binary: Binary,
    name: String,
    /// Its time without a mutant.
    took: Duration,
    reaches: BTreeSet<u32>,
}

/// The tests of a package and what they reach.
pub(super) struct Tests {
    tests: Vec<Test>,
    /// Tests that fail with all mutants off: they catch nothing.
    pub(super) failing: Vec<String>,
}

impl Tests {
    pub(super) fn len(&self) -> usize {
        self.tests.len()
    }

    /// Runs each test alone with all mutants off.
    ///
    /// # Errors
    /// A test program does not list its tests, or no test passes.
    pub(super) fn trace(binaries: &[Binary], without: &[&str]) -> anyhow::Result<Tests> {
        let mut all = Vec::new();
        for binary in binaries {
            let mut list = Command::new(&binary.path);
            list.args(["--list", "--format", "terse"]).current_dir(&binary.folder);
            let list = shell::output(&mut list)?;
            let names = list.lines().filter_map(|line| line.strip_suffix(": test"));
            let names = names.filter(|name| !without.iter().any(|beginning| name.starts_with(beginning)));
            all.extend(names.map(|name| (binary.clone(), name.to_owned())));
        }
        let traces = build::folder().join("traces");
        std::fs::create_dir_all(&traces)?;
        let traced = in_parallel(&all, |index, (binary, name)| {
            let trace = traces.join(index.to_string());
            let _ = std::fs::remove_file(&trace);
            let start = Instant::now();
            let outcome = run(binary, name, u32::MAX, Some(&trace), TRACE_MAX);
            let reaches = std::fs::read_to_string(&trace).unwrap_or_default();
            let reaches = reaches.lines().filter_map(|line| line.parse().ok()).collect();
            let test = Test { binary: binary.clone(), name: name.clone(), took: start.elapsed(), reaches };
            if outcome == Outcome::Missed { Ok(test) } else { Err(format!("{} {name}", binary.name)) }
        });
        let mut tests = Tests { tests: Vec::new(), failing: Vec::new() };
        for outcome in traced.into_values() {
            match outcome {
                Ok(test) => tests.tests.push(test),
                Err(name) => tests.failing.push(name),
            }
        }
        ensure!(!tests.tests.is_empty(), "no test passes with all mutants off: {:?}", tests.failing);
        tests.tests.sort_by_key(|test| test.took);
        Ok(tests)
    }

    /// Runs each mutant against the tests that reach it.
    pub(super) fn run(&self, mutants: &[u32]) -> BTreeMap<u32, Outcome> {
        let done = AtomicUsize::new(0);
        let outcomes = in_parallel(mutants, |_, &mutant| {
            let outcome = self.outcome(mutant);
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            if done.is_multiple_of(100) {
                println!("mutation: {done} of {} mutants", mutants.len());
            }
            outcome
        });
        outcomes.into_iter().filter_map(|(index, outcome)| Some((*mutants.get(index)?, outcome))).collect()
    }

    fn outcome(&self, mutant: u32) -> Outcome {
        for test in self.tests.iter().filter(|test| test.reaches.contains(&mutant)) {
            let processor = (test.took * PROCESSOR_FACTOR).max(PROCESSOR_MIN);
            let outcome = run(&test.binary, &test.name, mutant, None, processor);
            if outcome != Outcome::Missed {
                return outcome;
            }
        }
        Outcome::Missed
    }
}

/// Runs one test in a process of its own, whose processor time has a limit.
fn run(binary: &Binary, name: &str, mutant: u32, trace: Option<&Path>, processor: Duration) -> Outcome {
    let clock = CLOCK_MIN.max(processor * 10);
    let mut command = Command::new("sh");
    let limited = format!("ulimit -v {MEMORY_MAX_KIB}; ulimit -t {}; exec \"$0\" \"$@\"", processor.as_secs() + 1);
    command.arg("-c").arg(limited).arg(&binary.path).args(["--exact", name, "--test-threads", "2"]);
    command.current_dir(&binary.folder).env("CARGO_MANIFEST_DIR", &binary.folder);
    command.env("SEALWAY_MUTANT", mutant.to_string());
    command.env("WYCHEPROOF", shell::root().join(".venv/wycheproof"));
    command.env("ACVP", shell::root().join(".venv/acvp"));
    command.env("KRYOPTIC", shell::root().join(".venv/kryoptic/libkryoptic_pkcs11.so"));
    command.env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1").env("RUST_BACKTRACE", "0");
    // The same cases for each mutant and in each run.
    command.env("PROPTEST_RNG_SEED", "1");
    if let Some(trace) = trace {
        command.env("SEALWAY_MUTANT_TRACE", trace);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let Ok(mut child) = command.spawn() else { return Outcome::NotRun };
    let (start, mut pause) = (Instant::now(), Duration::from_millis(1));
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Outcome::Missed,
            Ok(Some(status)) if status.signal().is_some_and(|signal| PROCESSOR_SIGNALS.contains(&signal)) => {
                return Outcome::Timeout;
            }
            Ok(Some(_)) => return Outcome::Caught,
            Ok(None) if start.elapsed() < clock => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(50));
            }
            _ => {
                let group = format!("-{}", child.id());
                let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
                let _ = child.wait();
                return Outcome::Timeout;
            }
        }
    }
}

/// Applies a function to all items on as many threads as there are cores, or as `SEALWAY_MUTANTS_JOBS` says.
fn in_parallel<T: Sync, R: Send>(items: &[T], apply: impl Fn(usize, &T) -> R + Sync) -> BTreeMap<usize, R> {
    let jobs = std::env::var("SEALWAY_MUTANTS_JOBS").ok().and_then(|jobs| jobs.parse().ok());
    let jobs = jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(2, std::num::NonZero::get));
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { break };
                    let outcome = apply(index, item);
                    outcomes.lock().unwrap_or_else(PoisonError::into_inner).insert(index, outcome);
                }
            });
        }
    });
    outcomes.into_inner().unwrap_or_else(PoisonError::into_inner)
}

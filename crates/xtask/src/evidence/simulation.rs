//! Deterministic simulation: many seeds, and planted defects that the invariants must find.
//!
//! * `SEALWAY_SEEDS`: number of seeds; 10,000 if it is not set.
//! * `SEALWAY_MINUTES`: no seed begins after this number of minutes, of all seeds and of those of each defect; no bound if it is not set.

use std::collections::BTreeMap;
use std::process::Stdio;

use anyhow::Context;

use super::record::Record;
use crate::shell;

const SEEDS: u64 = 10_000;
/// Simulated seconds of a run.
const TIME: u64 = 12;
/// Seeds that a planted defect may need.
const DEFECT_SEEDS: u64 = 2000;
/// The program's names of the planted defects, and what they are.
const DEFECTS: [(&str, &str); 14] = [
    ("nonces-forgotten", "The script of Redis reserves a nonce that is reserved."),
    ("no-floor", "An epoch that takes the place of a lost one has no floor."),
    ("no-clock", "The script does not look at the steps of its server's clock."),
    ("short-memory", "The script keeps a nonce for a second."),
    ("mute", "Redis delivers no message of a revocation."),
    ("chain-stays", "The store does not store the end of a chain of renewals."),
    ("early-answer", "A session is acknowledged before it is stored."),
    ("held-body", "Session and stamp are not looked at again when the body has arrived."),
    ("buys-twice", "A client sends an unsafe request again when its session is said to be over."),
    ("rows-twice", "PostgreSQL returns the row of a nonce that it has."),
    ("unheard", "PostgreSQL delivers no notification of a revocation."),
    ("commits-lost", "A crash of PostgreSQL takes the last commits with it."),
    (
        "same-timeline",
        "A standby of PostgreSQL is promoted that lacks commits, and its timeline tells of no promotion.",
    ),
    ("unrecorded", "The tiered store does not record nonces that are stamped ahead of Redis's clock."),
];

pub(super) fn run() -> anyhow::Result<Record> {
    let seeds = number("SEALWAY_SEEDS")?.unwrap_or(SEEDS);
    let build = ["build", "-q", "--profile", "simulation", "--locked", "-p", "sealway-evidence-simulation"];
    shell::run(shell::cargo(&build).args(["--bin", "simulate"]))?;
    let minutes = number("SEALWAY_MINUTES")?;
    let (figures, printed) = simulate(seeds, minutes, &[])?;
    let value = |name: &str| figures.get(name).cloned().with_context(|| format!("no figure {name}"));
    anyhow::ensure!(value("failed")? == "0", "an invariant does not hold:\n{printed}");
    let mut record = Record::default();
    record.figure("seeds run, all without a violation", value("seeds")?);
    record.figure("simulated time of a seed", format!("{TIME} s"));
    for (name, figure) in [
        ("sessions agreed", "sessions"),
        ("requests served", "served"),
        ("answers opened by clients", "answered"),
        ("requests sent again by the attacker", "replays"),
        ("requests rejected as replayed", "rejected"),
        ("acknowledged revocations", "revocations"),
        ("faults", "faults"),
    ] {
        record.figure(name, value(figure)?);
    }
    let (found, rows) = plant(minutes)?;
    record.figure("planted defects that are found", format!("{found} of {}", DEFECTS.len()));
    record.table("Planted defects", &["defect", "name", "first seed that finds it"], rows);
    if value("seeds")?.parse::<u64>()? < SEEDS {
        let why = "the run was bounded by its number of seeds or its time";
        record.missing(&format!("the long form's {SEEDS} seeds"), why, "the number of seeds above");
    }
    missing(&mut record);
    Ok(record)
}

/// Runs the simulation with each planted defect until an invariant does not hold.
fn plant(minutes: Option<u64>) -> anyhow::Result<(usize, Vec<Vec<String>>)> {
    let (mut found, mut rows) = (0, Vec::new());
    for (name, what) in DEFECTS {
        let (figures, _) = simulate(DEFECT_SEEDS, minutes, &["--defect", name, "--stop"])?;
        let first = figures.get("first failed").filter(|first| !first.is_empty());
        found += usize::from(first.is_some());
        let count = figures.get("seeds").with_context(|| format!("{name}: no figure seeds"))?;
        let first = first.cloned().unwrap_or_else(|| format!("none of {count}"));
        rows.push(vec![what.to_owned(), name.to_owned(), first]);
    }
    Ok((found, rows))
}

fn number(variable: &str) -> anyhow::Result<Option<u64>> {
    match std::env::var(variable) {
        Ok(value) => Ok(Some(value.parse().with_context(|| format!("{variable} is not a number"))?)),
        Err(_) => Ok(None),
    }
}

/// Runs the program; returns its figures, and all that it printed. Its exit tells of violations, as the figures do.
fn simulate(
    seeds: u64,
    minutes: Option<u64>,
    arguments: &[&str],
) -> anyhow::Result<(BTreeMap<String, String>, String)> {
    let jobs = std::thread::available_parallelism()?.get();
    let mut command = shell::command(shell::target_dir().join("simulation/simulate"));
    command.arg(format!("--time={TIME}")).arg(format!("--seeds={seeds}")).arg(format!("--jobs={jobs}"));
    if let Some(minutes) = minutes {
        command.arg(format!("--minutes={minutes}"));
    }
    command.args(arguments).stderr(Stdio::inherit());
    let printed = command.output().context("cannot start simulate")?.stdout;
    let printed = String::from_utf8_lossy(&printed).into_owned();
    Ok((figures(&printed), printed))
}

fn figures(printed: &str) -> BTreeMap<String, String> {
    let lines = printed.lines().skip_while(|line| !line.starts_with("seeds: "));
    lines.filter_map(|line| line.split_once(':')).map(|(name, value)| (name.into(), value.trim().into())).collect()
}

fn missing(record: &mut Record) {
    let tested = "tests against the real servers, of docs/reference/failures.md";
    record.missing(
        "connection poolers, dumps and copies",
        "the model of PostgreSQL has one server and its standby",
        tested,
    );
    record.missing("the embedded store and remote authorities", "they are not connected to the model", tested);
    record.missing("Redis Cluster", "the model has single servers, and masters with Sentinels", tested);
    record.missing("relay nodes and bridges", "they are not connected to the model", tested);
    record.missing("key rotation and retirement", "identity and key ring stay the same in a run", tested);
    record.missing(
        "wires 1, 2 and 4",
        "the clients speak wire 3 alone",
        "the store's operations below, which all wires share, are simulated",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_the_lines_from_the_number_of_seeds_on() {
        let figures = figures("a: b\nseeds: 3\nfailed: 0\nfirst failed: \n");
        let value = |name: &str| figures.get(name).map(String::as_str);
        assert_eq!((value("a"), value("seeds"), value("first failed")), (None, Some("3"), Some("")));
    }
}

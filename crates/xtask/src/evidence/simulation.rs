//! Deterministic simulation: many seeds, and planted defects that the invariants must find.
//!
//! * `SEALWAY_SEEDS`: number of seeds of gateways; 10,000 if it is not set.
//! * `SEALWAY_RELAY_SEEDS`: number of seeds of relay nodes; 3,000 if it is not set.
//! * `SEALWAY_MINUTES`: no seed begins after this number of minutes, of all seeds and of those of each defect; no bound if it is not set.

use std::collections::BTreeMap;
use std::process::Stdio;

use anyhow::Context;

use super::record::Record;
use crate::shell;

const SEEDS: u64 = 10_000;
const RELAY_SEEDS: u64 = 3000;
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
/// The same, of the relay's nodes.
const RELAY_DEFECTS: [(&str, &str); 9] = [
    ("relay-tokens-forgotten", "The directory of relay nodes admits a token that is used up."),
    ("relay-no-floor", "The directory does not look at the floor of its epoch."),
    ("relay-short-tokens", "The directory keeps a used token for a second."),
    ("relay-own-clock", "A used token is forgotten when it ends by the clock of the node that admitted it."),
    ("relay-no-server", "The directory does not look at the server's replication id."),
    ("relay-no-owner", "The directory gives each channel to the node that asks."),
    ("relay-immortal", "The lease of a node does not end."),
    ("relay-stale-keys", "The nodes do not read a changed keyset."),
    ("relay-repeats", "A node sends an endpoint a message twice."),
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
    let relay_seeds = simulate_relay(&mut record, minutes)?;
    let (found, rows) = plant(minutes)?;
    record.figure("planted defects that are found", format!("{found} of {}", rows.len()));
    record.table("Planted defects", &["defect", "name", "first seed that finds it"], rows);
    if value("seeds")?.parse::<u64>()? < SEEDS {
        let why = "the run was bounded by its number of seeds or its time";
        record.missing(&format!("the long form's {SEEDS} seeds"), why, "the number of seeds above");
    }
    if relay_seeds < RELAY_SEEDS {
        let why = "the run was bounded by its number of seeds or its time";
        record.missing(
            &format!("the long form's {RELAY_SEEDS} seeds of relay nodes"),
            why,
            "the number of seeds above",
        );
    }
    missing(&mut record);
    Ok(record)
}

/// Runs the seeds of the relay's nodes; returns their number.
fn simulate_relay(record: &mut Record, minutes: Option<u64>) -> anyhow::Result<u64> {
    let seeds = number("SEALWAY_RELAY_SEEDS")?.unwrap_or(RELAY_SEEDS);
    let (figures, printed) = simulate(seeds, minutes, &["--relay"])?;
    let value = |name: &str| figures.get(name).cloned().with_context(|| format!("relay: no figure {name}"));
    anyhow::ensure!(value("failed")? == "0", "an invariant of relay nodes does not hold:\n{printed}");
    record.figure("seeds of relay nodes run, all without a violation", value("seeds")?);
    for (name, figure) in [
        ("channels' ends connected", "connected"),
        ("channels over a bridge", "bridged"),
        ("messages delivered", "delivered"),
        ("attaches sent again by the attacker", "replays"),
        ("attaches rejected as replayed", "rejected"),
        ("attaches rejected because a node could not know", "unavailable"),
        ("frames changed by the attacker", "tampered"),
        ("faults of relay nodes and their directory", "faults"),
    ] {
        record.figure(name, value(figure)?);
    }
    Ok(value("seeds")?.parse()?)
}

/// Runs the simulation with each planted defect until an invariant does not hold.
fn plant(minutes: Option<u64>) -> anyhow::Result<(usize, Vec<Vec<String>>)> {
    let (mut found, mut rows) = (0, Vec::new());
    for (name, what) in DEFECTS.into_iter().chain(RELAY_DEFECTS) {
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
    record.missing(
        "TCP, TLS and the upgrade of a relay's endpoints",
        "simulated endpoints begin as WebSockets",
        "tests of the relay over sockets",
    );
    record.missing(
        "steps of Redis's own clock below relay nodes",
        "used tokens and nodes' leases end by that clock, and the relay does not check it",
        "nothing: an operator must keep that clock from jumping",
    );
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

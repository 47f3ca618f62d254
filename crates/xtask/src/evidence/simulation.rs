//! Deterministic simulation: many seeds, and planted defects that the invariants must find.
//!
//! * `SEALWAY_SEEDS`: number of seeds; 10,000 if it is not set.

use std::collections::BTreeMap;
use std::process::Stdio;

use anyhow::Context;

use super::record::Record;
use crate::shell;

const SEEDS: u64 = 10_000;
/// Simulated seconds of a run.
const TIME: u64 = 20;
/// Seeds that a planted defect may need.
const DEFECT_SEEDS: u64 = 300;
/// The program's names of the planted defects, and what they are.
const DEFECTS: [(&str, &str); 4] = [
    ("chain-stays", "The store does not store the end of a chain of renewals."),
    ("unconfirmed", "A master of Redis claims confirmations that its replicas have not given."),
    ("nonces-forgotten", "Redis takes a nonce that it has."),
    ("mute", "Redis delivers no message of a revocation."),
];

pub(super) fn run() -> anyhow::Result<Record> {
    let seeds = match std::env::var("SEALWAY_SEEDS") {
        Ok(seeds) => seeds.parse().context("SEALWAY_SEEDS is not a number")?,
        Err(_) => SEEDS,
    };
    // All of the workspace, so that its features stay those of the other builds.
    shell::run(&mut shell::cargo(&["build", "-q", "--workspace", "--bin", "simulate", "--test", "seeds"]))?;
    let jobs = std::thread::available_parallelism()?.get();
    let (figures, printed) = simulate(&["--seeds", &seeds.to_string(), "--jobs", &jobs.to_string()])?;
    let value = |name: &str| figures.get(name).cloned().with_context(|| format!("no figure {name}"));
    anyhow::ensure!(value("failed")? == "0", "an invariant does not hold:\n{printed}");
    let mut record = Record::default();
    record.figure("Seeds without a violation", format!("{} of {seeds}", value("seeds")?));
    record.figure("Simulated time of a seed", format!("{TIME} s"));
    for (name, figure) in [
        ("Sessions agreed", "sessions"),
        ("Requests served", "served"),
        ("Answers opened by clients", "answered"),
        ("Requests sent again by the attacker", "replays"),
        ("Requests answered as replayed", "rejected"),
        ("Acknowledged revocations", "revocations"),
        ("Faults", "faults"),
    ] {
        record.figure(name, value(figure)?);
    }
    let mut rows = Vec::new();
    for (name, what) in DEFECTS {
        let count = DEFECT_SEEDS.to_string();
        let (figures, _) = simulate(&["--defect", name, "--stop", "--seeds", &count])?;
        let first = figures.get("first failed").filter(|first| !first.is_empty());
        rows.push(vec![
            what.to_owned(),
            first.with_context(|| format!("{name} is not found in {count} seeds"))?.clone(),
        ]);
    }
    record.table("Planted defects", &["defect", "first seed that finds it"], rows);
    missing(&mut record);
    Ok(record)
}

/// Runs the program; returns its figures, and all that it printed. Its exit tells of violations, as the figures do.
fn simulate(arguments: &[&str]) -> anyhow::Result<(BTreeMap<String, String>, String)> {
    let mut command = shell::command(shell::target_dir().join("debug/simulate"));
    command.args(["--time", &TIME.to_string()]).args(arguments).stderr(Stdio::inherit());
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
    record.missing("PostgreSQL and the tiered store", "there is no model of PostgreSQL", tested);
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

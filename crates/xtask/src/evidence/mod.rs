//! `cargo xtask evidence`: the long forms of all evidence, each with a record in `docs/assurance/results/` from which
//! `cargo xtask codegen` writes the pages of `docs/assurance/`. The short forms are tests, and run in `make test`.

mod constant_time;
mod fuzzing;
mod memory;
mod model;
mod mutation;
mod mutation_sdks;
mod page;
mod proofs;
mod record;
mod simulation;
mod supply_chain;

use std::time::Instant;

use anyhow::{Context, bail};

use crate::shell;
pub(crate) use page::generate;
use record::Record;

/// A kind of evidence. The page is `docs/assurance/NAME.md`.
struct Kind {
    name: &'static str,
    title: &'static str,
    /// The claim that the evidence supports, a sentence.
    claim: &'static str,
    /// Runs the long form, and returns its record.
    run: fn() -> anyhow::Result<Record>,
}

impl Kind {
    fn command(&self) -> String {
        format!("cargo xtask evidence {}", self.name)
    }
}

const KINDS: &[Kind] = &[
    Kind { name: "mutation", title: "Mutation tests", claim: "A changed decision fails a test.", run: mutation::run },
    Kind {
        name: "mutation-sdks",
        title: "Mutation tests of the SDKs",
        claim: "A changed decision of an SDK fails a test.",
        run: mutation_sdks::run,
    },
    Kind {
        name: "proofs",
        title: "Bounded exhaustive checks",
        claim: "Parsers, routes, replay windows and claims hold their properties for every input within a bound.",
        run: proofs::run,
    },
    Kind {
        name: "constant-time",
        title: "Constant time",
        claim: "No branch or index of the protocols' code depends on a secret, except those that are declared.",
        run: constant_time::run,
    },
    Kind {
        name: "simulation",
        title: "Deterministic simulation",
        claim: "Lost, delayed and reordered messages, crashes and fail-overs never lead to a replay, a lost session or a wrong plaintext.",
        run: simulation::run,
    },
    Kind {
        name: "fuzzing",
        title: "Fuzzing and differential tests",
        claim: "Hostile input neither panics nor reads otherwise than in other implementations.",
        run: fuzzing::run,
    },
    Kind {
        name: "memory",
        title: "Memory safety",
        claim: "Code with `unsafe` reads and writes only memory that it owns, and frees it.",
        run: memory::run,
    },
    Kind {
        name: "model",
        title: "Symbolic models",
        claim: "The protocols keep their properties against an attacker who owns the network.",
        run: model::run,
    },
    Kind {
        name: "supply-chain",
        title: "Supply chain",
        claim: "Every dependency is locked, checked for known vulnerabilities, and either reviewed or listed as not reviewed; a release \
                can be built again byte for byte.",
        run: supply_chain::run,
    },
];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The kinds to run, each in turn; all of them if left out
    kinds: Vec<String>,
}

/// Runs the long forms and writes their records.
///
/// # Errors
/// There is no such kind, or a run failed. The kinds after a failed one still run.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut failed = Vec::new();
    for kind in chosen(&arguments.kinds)? {
        println!("==> evidence: {}", kind.name);
        if let Err(error) = record(kind) {
            println!("==> evidence: {}: FAILED: {error:#}", kind.name);
            failed.push(kind.name);
        }
    }
    anyhow::ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    crate::codegen::run(false)
}

fn chosen(names: &[String]) -> anyhow::Result<Vec<&'static Kind>> {
    if names.is_empty() {
        return Ok(KINDS.iter().collect());
    }
    let by_name = |name: &String| {
        let all: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
        let found = KINDS.iter().find(|kind| kind.name == name);
        found.with_context(|| format!("there is no kind {name}; there are: {}", all.join(", ")))
    };
    names.iter().map(by_name).collect()
}

fn record(kind: &Kind) -> anyhow::Result<()> {
    let start = Instant::now();
    let mut record = (kind.run)()?;
    if record.figures.is_empty() {
        bail!("the run measured nothing");
    }
    record.stamp(start.elapsed())?;
    for [name, value] in &record.figures {
        println!("{name}: {value}");
    }
    if record.is_sample {
        return Ok(());
    }
    let path = result_path(kind.name);
    std::fs::write(shell::root().join(&path), record.write()).with_context(|| format!("cannot write {path}"))?;
    println!("{path}");
    Ok(())
}

fn result_path(name: &str) -> String {
    format!("docs/assurance/results/{name}.json")
}

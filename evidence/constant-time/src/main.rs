//! Evidence that no branch and no index of Sealway's code depends on a secret, by the method of ctgrind, and that refusals take
//! equal times, by the method of dudect.
//!
//! A case runs one path of the product, with the bytes of its secrets marked undefined for valgrind's memcheck. Memcheck follows
//! them through every instruction and reports each branch and each address that depends on one. `check` runs the cases under
//! valgrind, tells Sealway's places from those of libraries, and fails on a place in Sealway that [`declared`] does not list.
//!
//! | command | |
//! | --- | --- |
//! | `list` | the names of the cases |
//! | `run CASE…` | runs cases in this process; under valgrind it reports their places to valgrind's log |
//! | `check [--short]` | runs cases under valgrind, prints the report as JSON, and exits with 1 if a place is undeclared |
//! | `timing SAMPLES` | measures refusals, prints Welch's t of each pair as JSON |
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program whose output is its result")]

mod cases;
mod check;
mod declared;
mod memcheck;
mod owner;
mod sampling;
mod seam;
// The bench's own, so that there is one.
#[allow(dead_code, reason = "the bench prints its tables by it")]
#[path = "../../../bench/src/table.rs"]
mod table;
mod timing;
#[allow(dead_code, reason = "the bench prints its tables by it")]
#[path = "../../../bench/src/welch.rs"]
mod welch;

use std::process::ExitCode;

use anyhow::{Context, bail};

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("sealway-constant-time: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["list"] => cases::all().iter().for_each(|case| println!("{}", case.name())),
        ["run", names @ ..] if !names.is_empty() => return run_cases(names),
        ["check"] => return check::run(false),
        ["check", "--short"] => return check::run(true),
        ["timing", samples] => timing::run(samples.parse().context("expected a number of samples")?)?,
        _ => bail!("expected list, run CASE…, check [--short] or timing SAMPLES"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs cases in this process, and prints a line for each: its name, and the number of bytes that depended on a secret where the
/// case, or the seam, declared them.
fn run_cases(names: &[&str]) -> anyhow::Result<ExitCode> {
    let all = cases::all();
    for name in names {
        let case = all.iter().find(|case| case.name() == *name).with_context(|| format!("there is no case {name}"))?;
        memcheck::begin();
        case.run().with_context(|| case.name())?;
        println!("{name} {}", memcheck::declared_bytes());
    }
    memcheck::reasons().into_iter().for_each(|reason| println!("# {reason}"));
    Ok(ExitCode::SUCCESS)
}

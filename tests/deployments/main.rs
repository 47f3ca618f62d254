//! Samples of deployments in deploy/: the tool that uses each sample can read it, Sealway accepts the settings in it, and each
//! sample confines the service. No test needs a cluster or a container engine.
//!
//! nextest is the runner: each test has a process of its own.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod chart;
mod chart_matrix;
mod compose;
mod images;
mod memory;
mod units;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sealway_runtime::config::load_yaml;
use serde_json::Value;

/// Path of the `sealway` binary under test.
const BINARY: &str = env!("CARGO_BIN_EXE_sealway");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|err| panic!("{path}: {err}"))
}

fn yaml(path: &str) -> Value {
    load_yaml(&read(path)).unwrap_or_else(|err| panic!("{path}: {err}"))
}

/// A program that scripts/setup-tests.sh installs.
fn tool(name: &str) -> Command {
    let path = root().join(".venv/bin").join(name);
    assert!(path.is_file(), "{name} is missing from .venv/bin: run scripts/setup-tests.sh");
    Command::new(path)
}

/// Asserts that a program succeeds, or shows its whole output.
fn succeeds(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|err| panic!("{command:?}: {err}"));
    let said = [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy);
    assert!(output.status.success(), "{command:?}: {}{}", said[0], said[1]);
    output
}

/// `sealway` with no environment but this.
fn sealway(environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new(BINARY);
    command.env_clear().envs(environment.iter().copied());
    command
}

//! Unchanged clients of Vault. The programs are in `tests/transit_clients`; each says of every operation whether its result
//! is the expected one.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::ground::Ground;

/// Least number of operations of each program.
const OPERATIONS: usize = 12;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Runs a program with the address and token of a broker, and checks what it says.
fn run(mut program: Command) {
    let ground = Ground::new();
    let ran = program.args([ground.url(), ground.admin.clone()]).output().expect("run scripts/setup-tests.sh");
    let (output, errors) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{output}\n{errors}");
    let lines: Vec<Value> = output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut names: Vec<_> = lines.iter().map(|line| line["operation"].as_str().unwrap()).collect();
    assert!(lines.iter().all(|line| line["ok"] == true), "{output}");
    names.sort_unstable();
    names.dedup();
    assert!(names.len() >= OPERATIONS, "{output}");
}

#[test]
fn hvac_for_python() {
    let mut python = Command::new(root().join(".venv/transit/bin/python"));
    python.arg(root().join("tests/transit_clients/python/main.py"));
    run(python);
}

#[test]
fn node_vault() {
    let mut node = Command::new("node");
    node.arg(root().join("tests/transit_clients/node/main.mjs"));
    run(node);
}

#[test]
fn the_client_of_vault_for_go() {
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join("transit-go");
    let mut go = Command::new("go");
    go.args(["build", "-buildvcs=false", "-o"])
        .arg(&binary)
        .arg(".")
        .current_dir(root().join("tests/transit_clients/go"));
    let built = go.output().expect("Go is there: run scripts/setup-tests.sh");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    run(Command::new(binary));
}

#[test]
fn the_driver_of_jopenlibs_for_java() {
    run(Command::new(root().join("tests/transit_clients/java/run")));
}

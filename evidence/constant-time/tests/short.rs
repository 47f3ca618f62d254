//! The short form: a few cases under valgrind, and the planted leaks.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::Command;

use serde_json::Value;

#[test]
fn no_place_depends_on_a_secret_but_declared_ones_and_planted_leaks_are_reported() {
    let output = Command::new(env!("CARGO_BIN_EXE_sealway-constant-time")).args(["check", "--short"]).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("no report: {}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(report["problems"], Value::Array(Vec::new()));
    assert!(output.status.success());
    let cases = report["cases"].as_array().unwrap();
    let (planted, others): (Vec<_>, Vec<_>) = cases.iter().partition(|case| case["is_planted"] == true);
    assert_eq!(planted.len(), 3);
    assert!(planted.iter().all(|case| case["planted_places"].as_u64() > Some(0)), "{report:#}");
    assert!(others.len() >= 7, "{} cases", others.len());
    assert!(others.iter().all(|case| case["secret_bytes"].as_u64() > Some(0)), "{report:#}");
}

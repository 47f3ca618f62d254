//! The acceptance test in its short form: the same processes, fewer connections, and no bar on time, because a test on a busy
//! machine can set none.

use std::path::Path;
use std::process::Command;

/// Without a path to the binary, the test uses the one beside it: `--workspace` builds both.
#[test]
fn bursts_of_new_mtls_connections_succeed_within_a_small_memory() {
    let bench = Path::new(env!("CARGO_BIN_EXE_sealway-bench"));
    let sealway = bench.with_file_name("sealway");
    assert!(sealway.is_file(), "{} is missing: cargo build -p sealway-cli", sealway.display());
    let mut accept = Command::new(bench);
    accept.args(["accept", "--bursts", "2", "--size", "200", "--every", "1", "--delay-ms", "500"]);
    accept.args(["--cpu-ms-max", "1000", "--average-ms-max", "60000"]);
    let done = accept.output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{said}");
    assert!(said.contains("401 full handshakes with a client's certificate, 0 resumed"), "{said}");
    assert!(said.contains("Accepted."), "{said}");
}

/// A verdict that is always the same proves nothing: this test misses a bar.
#[test]
fn a_missed_limit_is_reported_and_sets_the_exit_code() {
    let mut accept = Command::new(env!("CARGO_BIN_EXE_sealway-bench"));
    accept.args(["accept", "--direct", "--bursts", "1", "--size", "5", "--delay-ms", "100", "--average-ms-max", "1"]);
    let done = accept.output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(!done.status.success() && said.contains("missed: average"), "{said}");
}

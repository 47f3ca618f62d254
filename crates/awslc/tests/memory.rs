//! Rejected input is freed. A process of its own: other tests' memory would be counted too.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::Command;

use sealway_awslc::PrivateKey;

/// Returns the number of resident pages of this process.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_key_with_trailing_bytes_is_wiped_from_memory() {
    let made = Command::new("openssl")
        .args(["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-outform", "DER"])
        .output()
        .expect("openssl runs: scripts/setup-tests.sh installs it");
    assert!(PrivateKey::from_sec1(&made.stdout).is_ok());
    let longer = [made.stdout.as_slice(), &[0]].concat();
    let refused = |times: usize| (0..times).for_each(|_| assert!(PrivateKey::from_sec1(&longer).is_err()));
    refused(1_000);
    let before = resident();
    // Each leaked key would take some 500 bytes: 2,400 pages of them here.
    refused(20_000);
    let grown = resident().saturating_sub(before);
    assert!(grown < 600, "{grown} pages more");
}

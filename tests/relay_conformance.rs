//! The relay by its spec, from outside: every row of the close table, every rule of pairing, buffering, replacement, limits
//! and clean-up; the same cases against a plain relay and one with TLS.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod relay_cases;

use std::path::Path;

use relay_cases::{Fleet, Ground, run};
use sealway_testkit::certificates::Certificates;
use sealway_testkit::relay::Issuer;

const BINARY: &str = env!("CARGO_BIN_EXE_sealway");

fn one(_: &Path) -> Vec<Vec<String>> {
    vec![Vec::new()]
}

fn ground(folder: &Path, ca: Option<&Path>, nodes: fn(&Path) -> Vec<Vec<String>>, arguments: Vec<String>) -> Ground {
    let issuer = Issuer::new(folder).unwrap();
    let all: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let shared = Fleet::start(BINARY, folder, ca, &nodes(folder), &all);
    let (folder, ca) = (folder.to_owned(), ca.map(Path::to_owned));
    Ground { binary: BINARY, folder, issuer, ca, arguments, nodes, shared }
}

#[test]
fn a_plain_relay_does_as_the_spec_says() {
    let folder = tempfile::tempdir().unwrap();
    run(&ground(folder.path(), None, one, Vec::new()));
}

#[test]
fn a_relay_with_tls_does_as_the_spec_says() {
    let folder = tempfile::tempdir().unwrap();
    let made = Certificates::make(folder.path(), "DNS:localhost,IP:127.0.0.1", "client").unwrap();
    let (cert, key) = (made.server.0.display().to_string(), made.server.1.display().to_string());
    let arguments = ["--tls-cert".to_owned(), cert, "--tls-key".to_owned(), key];
    run(&ground(folder.path(), Some(&made.ca), one, arguments.to_vec()));
}

//! Tokens of SoftHSM2 in real host processes: operations checked by another library, and faults.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod faults;
mod operations;

use std::path::Path;
use std::time::Duration;

use sealway_pkcs11::{Options, Token, Uri};
use sealway_testkit::softhsm::SoftHsm;

/// The host process: this binary again. Only [`start`] runs it, by name.
#[test]
#[ignore = "the host process of other tests"]
fn host_process() {
    sealway_pkcs11::run_host().unwrap();
}

/// Starts a token with this module in a host process.
fn start(hsm: &SoftHsm, module: &Path, deadline: Duration) -> Token {
    let options = Options {
        uri: Uri::parse(&hsm.uri(module)).unwrap(),
        program: "/usr/bin/env".into(),
        arguments: [
            format!("SOFTHSM2_CONF={}", hsm.conf().display()),
            std::env::current_exe().unwrap().display().to_string(),
            "--exact".into(),
            "--ignored".into(),
            "host_process".into(),
        ]
        .into(),
        hidden: Vec::new(),
        deadline,
        sessions: 4,
    };
    Token::start(options).unwrap()
}

/// Time for a token to get ready, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A token that is ready.
fn ready(hsm: &SoftHsm, module: &Path, deadline: Duration) -> Token {
    let token = start(hsm, module, deadline);
    let end = std::time::Instant::now() + PATIENCE;
    while let Err(err) = token.wait_ready(Duration::from_secs(1)) {
        assert!(std::time::Instant::now() < end, "{err}");
    }
    token
}

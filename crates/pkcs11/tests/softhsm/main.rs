//! Tokens of SoftHSM2 and of kryoptic in real host processes: operations checked by another library, and faults.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod faults;
mod operations;

use std::path::{Path, PathBuf};
use std::time::Duration;

use sealway_pkcs11::{Options, Token, Uri};
use sealway_testkit::kryoptic::Kryoptic;
use sealway_testkit::softhsm::SoftHsm;

/// The host process: this binary again. Only [`start`] runs it, by name.
#[test]
#[ignore = "the host process of other tests"]
fn host_process() {
    sealway_pkcs11::run_host().unwrap();
}

/// Starts a token with this module in a host process.
fn start(hsm: &SoftHsm, module: &Path, deadline: Duration) -> Token {
    start_at(&hsm.uri(module), hsm.environment(), deadline)
}

/// Starts the token of a URI in a host process with one more variable.
fn start_at(uri: &str, environment: (&str, PathBuf), deadline: Duration) -> Token {
    let options = Options {
        uri: Uri::parse(uri).unwrap(),
        program: "/usr/bin/env".into(),
        arguments: [
            format!("{}={}", environment.0, environment.1.display()),
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
    wait(start(hsm, module, deadline))
}

fn wait(token: Token) -> Token {
    let end = std::time::Instant::now() + PATIENCE;
    while let Err(err) = token.wait_ready(Duration::from_secs(1)) {
        assert!(std::time::Instant::now() < end, "{err}");
    }
    token
}

/// A module with a token: the tests of operations run with each.
enum Hsm {
    Soft(SoftHsm),
    Kryoptic(Kryoptic),
}

impl Hsm {
    /// Creates a token of each module.
    fn all() -> [Hsm; 2] {
        [Hsm::Soft(SoftHsm::new().unwrap()), Hsm::kryoptic()]
    }

    fn kryoptic() -> Hsm {
        Hsm::Kryoptic(Kryoptic::new().unwrap())
    }

    fn token(&self) -> Token {
        let uri = match self {
            Hsm::Soft(hsm) => hsm.uri(hsm.module()),
            Hsm::Kryoptic(hsm) => hsm.uri(),
        };
        wait(start_at(&uri, self.environment(), PATIENCE))
    }

    fn environment(&self) -> (&'static str, PathBuf) {
        match self {
            Hsm::Soft(hsm) => hsm.environment(),
            Hsm::Kryoptic(hsm) => hsm.environment(),
        }
    }

    fn module(&self) -> &Path {
        match self {
            Hsm::Soft(hsm) => hsm.module(),
            Hsm::Kryoptic(hsm) => hsm.module(),
        }
    }

    fn folder(&self) -> &Path {
        match self {
            Hsm::Soft(hsm) => hsm.folder(),
            Hsm::Kryoptic(hsm) => hsm.folder(),
        }
    }

    fn tool(&self, arguments: &[&str]) {
        match self {
            Hsm::Soft(hsm) => hsm.tool(arguments),
            Hsm::Kryoptic(hsm) => hsm.tool(arguments),
        }
        .unwrap();
    }
}

//! Flags for sealed sessions on top of HTTP.

use std::path::{Path, PathBuf};

use sealway_client::native::{INIT_PATH, public_key};
use sealway_client::{Pin, SUITES_DEFAULT, SignatureAlgorithm, Suite, Trust, TrustStore};
use sealway_runtime::config::{Problems, read_secret};
use serde::{Deserialize, Serialize};

use super::{given, values};
use crate::plan::{Agree, Protocol, Request, SealedSessions};

/// Flags for sealed sessions on top of HTTP.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args, Serialize, Deserialize)]
#[command(next_help_heading = "Sealed sessions")]
#[serde(default)]
pub(crate) struct SealedFlags {
    /// Seal requests and open responses on this wire: 1, 2 or 3
    #[arg(long, value_name = "WIRE")]
    pub(crate) sealed: Option<String>,
    /// Frequency of session agreement: per-request, per-connection, reuse (once per worker, before the run), init-only [default:
    /// reuse]
    #[arg(long, value_name = "WHEN")]
    pub(crate) agree: Option<String>,
    /// Wires 1 and 2: path of the endpoint that agrees sessions [default: /session/init]
    #[arg(long, value_name = "PATH")]
    pub(crate) init_path: Option<String>,
    /// Client ID; wire 1 sends none [default: sealway-load]
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// File with a bearer token for agreeing sessions
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<String>,
    /// Wire 3: trust only this identity key, given as its ID or in base64; repeatable. Without --pin and --root, the first
    /// key that the service presents is trusted, in memory
    #[arg(long, value_name = "KEYID|BASE64", conflicts_with = "root", value_delimiter = ',')]
    pub(crate) pin: Vec<String>,
    /// Wire 3: trust the keys that this root signs
    #[arg(long, value_name = "BASE64")]
    pub(crate) root: Option<String>,
    /// Wire 3: a suite to offer, in order of preference; repeatable [default: X25519MLKEM768, SecP256r1MLKEM768]
    #[arg(long, value_name = "SUITE", value_delimiter = ',')]
    pub(crate) suite: Vec<String>,
    /// Wire 3: a signature algorithm to accept of identity keys and roots; repeatable. Without it ES256, and any of keys and a root
    /// that are pinned
    #[arg(long, value_name = "ALG", value_delimiter = ',')]
    pub(crate) signature_algorithm: Vec<String>,
}

impl SealedFlags {
    pub(super) fn resolve(
        &self,
        problems: &mut Problems,
        protocol: Protocol,
        reuse: bool,
        request: &mut Request,
        method_given: bool,
    ) -> Option<SealedSessions> {
        let agree = values::named(problems, "--agree", &self.agree).unwrap_or(Agree::Reuse);
        if self.sealed.is_none() {
            let others = SealedFlags {
                pin: Vec::new(),
                root: None,
                suite: Vec::new(),
                signature_algorithm: Vec::new(),
                ..self.clone()
            };
            for flag in given(&others) {
                problems.add(flag, "applies to sealed sessions only: add --sealed 1, 2 or 3");
            }
            self.refuse_new(problems);
            return None;
        }
        let wire = values::word(problems, "--sealed", &self.sealed, &[("1", 1), ("2", 2), ("3", 3)])?;
        if !matches!(protocol, Protocol::Http1 | Protocol::Http2) {
            problems.add("--sealed", "sealed sessions need --http-version 1.1 or 2");
        }
        if agree == Agree::PerConnection && !reuse {
            problems.add(
                "--agree per-connection with --no-reuse",
                "without reuse this is the same as --agree per-request; give that",
            );
        }
        if wire == 3 {
            if self.init_path.is_some() {
                problems.add("--init-path", "applies to wires 1 and 2 only: wire 3 has a fixed path");
            }
        } else if !method_given {
            request.method = http::Method::POST;
        } else if request.method != http::Method::POST {
            problems.add(format!("--method {}", request.method), "wires 1 and 2 seal only POST requests");
        }
        if wire != 3 {
            self.refuse_new(problems);
        }
        let own = if wire == 3 { INIT_PATH } else { "/session/init" };
        let init_path = self.init_path.clone().unwrap_or_else(|| own.into());
        if !init_path.starts_with('/') || init_path.parse::<http::uri::PathAndQuery>().is_err() {
            values::wrong(problems, "--init-path", &init_path, "a path such as /session/init");
        }
        let client_id = self.client_id.clone().unwrap_or_else(|| "sealway-load".into());
        if client_id.is_empty() || client_id.len() > 128 || !client_id.bytes().all(|byte| byte.is_ascii_graphic()) {
            values::wrong(problems, "--client-id", &client_id, "1 to 128 visible ASCII characters");
        }
        if let Some(file) = &self.token_file {
            problems.take(format!("--token-file {file}"), read_secret(Path::new(file)));
        }
        let token_file = self.token_file.as_ref().map(PathBuf::from);
        let (trust, suites) = (self.trust(problems), self.suites(problems));
        let signature_algorithms = self.signature_algorithms(problems);
        Some(SealedSessions { wire, agree, init_path, client_id, token_file, trust, suites, signature_algorithms })
    }

    fn refuse_new(&self, problems: &mut Problems) {
        let (pin, root, suite) = (self.pin.clone(), self.root.clone(), self.suite.clone());
        let signature_algorithm = self.signature_algorithm.clone();
        for flag in given(&SealedFlags { pin, root, suite, signature_algorithm, ..SealedFlags::default() }) {
            problems.add(flag, "applies to wire 3 only: give --sealed 3");
        }
    }

    fn trust(&self, problems: &mut Problems) -> Trust {
        let root = self.root.as_ref().and_then(|root| problems.take("--root", public_key(root)));
        if let Some(key) = root {
            return Trust::Root { key, store: TrustStore::Memory };
        }
        let pins: Vec<_> = self.pin.iter().filter_map(|pin| problems.take("--pin", Pin::parse(pin))).collect();
        if pins.is_empty() { Trust::FirstUse(TrustStore::Memory) } else { Trust::Pins(pins) }
    }

    fn signature_algorithms(&self, problems: &mut Problems) -> Vec<SignatureAlgorithm> {
        let known = SignatureAlgorithm::ALL.map(|algorithm| (algorithm.name(), algorithm));
        let read = |name: &String| values::word(problems, "--signature-algorithm", Some(name), &known);
        self.signature_algorithm.iter().filter_map(read).collect()
    }

    fn suites(&self, problems: &mut Problems) -> Vec<Suite> {
        if self.suite.is_empty() {
            return SUITES_DEFAULT.to_vec();
        }
        let known = Suite::ALL.map(|suite| (suite.name(), suite));
        let read = |name: &String| values::word(problems, "--suite", Some(name), &known);
        self.suite.iter().filter_map(read).collect()
    }
}

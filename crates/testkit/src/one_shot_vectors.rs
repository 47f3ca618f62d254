//! Loads `vectors/one-shot`, as strictly as [`crate::vectors`] loads the rest.

use std::path::Path;

use anyhow::{Result, bail};
use serde::Deserialize;

use crate::native_vectors::{Asked, LongBytes, NativeSealed, Resend};
use crate::vectors::{Bytes, Claim, Head, HeaderList, Hex, body, folder, head, load_with, scenario_part};

/// One scenario of wire 4.
#[derive(Debug)]
pub struct OneShotVector {
    /// The file's name without `.json`.
    pub name: String,
    /// The purpose of the scenario.
    pub comment: String,
    /// The inputs and outputs of the scenario.
    pub scenario: OneShotScenario,
}

/// The content of a scenario, by its type.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum OneShotScenario {
    Request(Box<OneShotRequest>),
    RequestRefused(Box<OneShotRequestRefused>),
    Answer(Box<OneShotAnswer>),
    AnswerRefused(Box<OneShotAnswerRefused>),
    Document(OneShotDocument),
    DocumentRefused(OneShotDocumentRefused),
    Psk(DerivedPsk),
    Problem(OneShotProblem),
}

scenario_part!(
    /// A key of the service, whose private half is a seed or a scalar.
    OneShotKey { kem: String, config_hex: Hex, private_hex: Hex }
);
scenario_part!(
    /// A pre-shared key and its name.
    NamedPsk { id: String, psk_hex: Hex }
);
scenario_part!(
    /// A key of a server, and its times.
    TimedKey {
        kem: String, config_hex: Hex, private_hex: Hex, not_before_ms: u64, use_until_ms: u64, not_after_ms: u64,
    }
);
scenario_part!(
    /// The keys of a server.
    OneShotServer { keys: Vec<TimedKey>, psks: Vec<NamedPsk> }
);
scenario_part!(
    /// A key of a document; the KEM is absent if it is none of wire 4.
    ListedKey { kid: String, config_hex: Hex, kem: Option<String> }
);
scenario_part!(
    /// The key that a client with these KEMs uses at a time.
    Choice { now_ms: u64, kems: Vec<String>, kid: Option<String> }
);
scenario_part!(
    /// `request4`: sealed by a client, opened by a server.
    OneShotRequest {
        key: OneShotKey, psk: Option<NamedPsk>, randomness_hex: Hex, kem_secret_hex: Hex, group_private_hex: Hex, group_secret_hex: Hex,
        enc_hex: Hex, shared_secret_hex: Hex, c2s_hex: Hex, s2c_hex: Hex, now_ms: u64, window_ms: u64, method: String, path: String,
        content_type: Option<String>, stamp: String, nonce: String, inner: Vec<(String, LongBytes)>,
        frames: Vec<LongBytes>, key_hex: Hex, iv_hex: Hex, commit_hex: Hex, context_hex: Hex, sealed: NativeSealed,
        claim: Claim,
    }
);
scenario_part!(
    /// `request4-refused`: a server rejects a request.
    OneShotRequestRefused {
        server: OneShotServer, now_ms: u64, window_ms: u64, method: String, path: String, headers: HeaderList, body: Bytes,
        code: String,
    }
);
scenario_part!(
    /// `answer4`: sealed by a server, opened by a client.
    OneShotAnswer {
        kid: String, s2c_hex: Hex, request: Asked, status: u16, content_type: Option<String>, stamp: String,
        nonce: String, inner: Vec<(String, LongBytes)>, frames: Vec<LongBytes>, key_hex: Hex, iv_hex: Hex,
        commit_hex: Hex, context_hex: Hex, sealed: NativeSealed, problem: bool,
    }
);
scenario_part!(
    /// `answer4-refused`: a client rejects an answer.
    OneShotAnswerRefused {
        kid: String, s2c_hex: Hex, request: Asked, status: u16, headers: HeaderList, body: Bytes, code: String,
    }
);
scenario_part!(
    /// `key-document4`: a client that pins the root accepts a document.
    OneShotDocument {
        root_public_hex: Hex, now_ms: u64, taken_issued_ms: Option<u64>, body: String, issued_ms: u64,
        keys: Vec<ListedKey>, choices: Vec<Choice>, signature_algorithms: Option<Vec<String>>,
    }
);
scenario_part!(
    /// `key-document4-refused`: such a client rejects a document.
    OneShotDocumentRefused {
        root_public_hex: Hex, now_ms: u64, taken_issued_ms: Option<u64>, body: String, code: String,
        signature_algorithms: Option<Vec<String>>,
    }
);
scenario_part!(
    /// `psk4`: a pre-shared key that comes of a master.
    DerivedPsk { master_hex: Hex, psk_id: String, psk_hex: Hex }
);
scenario_part!(
    /// `problem4`: which calls are retried.
    OneShotProblem { stamp: String, status: u16, body: String, sealed: bool, resends: Vec<Resend> }
);

/// Loads every scenario of `vectors/one-shot`, by name.
///
/// # Errors
/// A file of the folder is not a scenario.
pub fn load_one_shot() -> Result<Vec<OneShotVector>> {
    load_with(&folder().join("one-shot"), read)
}

fn read(path: &Path) -> Result<OneShotVector> {
    let Head { kind, name, comment, members } = head(path, "one-shot.md#")?;
    let scenario = match kind.as_str() {
        "request4" => OneShotScenario::Request(body(members)?),
        "request4-refused" => OneShotScenario::RequestRefused(body(members)?),
        "answer4" => OneShotScenario::Answer(body(members)?),
        "answer4-refused" => OneShotScenario::AnswerRefused(body(members)?),
        "key-document4" => OneShotScenario::Document(body(members)?),
        "key-document4-refused" => OneShotScenario::DocumentRefused(body(members)?),
        "psk4" => OneShotScenario::Psk(body(members)?),
        "problem4" => OneShotScenario::Problem(body(members)?),
        unknown => bail!("nobody knows the type {unknown}"),
    };
    Ok(OneShotVector { name, comment, scenario })
}

//! Loads `vectors/session3`, as strictly as [`crate::vectors`] loads the rest.

use std::path::Path;

use anyhow::{Result, bail};
use serde::Deserialize;

use crate::vectors::{Bytes, Claim, Head, HeaderList, Hex, body, folder, head, load_with, scenario_part};

/// One scenario of wire 3.
#[derive(Debug)]
pub struct Session3Vector {
    /// The file's name without `.json`.
    pub name: String,
    /// The purpose of the scenario.
    pub comment: String,
    /// The inputs and outputs of the scenario.
    pub scenario: Session3Scenario,
}

/// The content of a scenario, by its type.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum Session3Scenario {
    Init(Box<Init3>),
    Renew(Box<Renew3>),
    InitRefused(Box<Init3Refused>),
    InitRequestRefused(Box<Init3RequestRefused>),
    Request(Box<Request3>),
    RequestRefused(Box<Request3Refused>),
    Answer(Box<Answer3>),
    AnswerRefused(Box<Answer3Refused>),
    KeySet(KeySet3),
    KeySetRefused(KeySet3Refused),
    Problem(Box<Problem3>),
    Headers(Headers3),
}

impl Session3Scenario {
    /// Returns the code of a rejection.
    pub fn code(&self) -> Option<&str> {
        match self {
            Session3Scenario::InitRefused(v) => Some(&v.code),
            Session3Scenario::InitRequestRefused(v) => Some(&v.code),
            Session3Scenario::RequestRefused(v) => Some(&v.code),
            Session3Scenario::AnswerRefused(v) => Some(&v.code),
            Session3Scenario::KeySetRefused(v) => Some(&v.code),
            _ => None,
        }
    }
}

/// Bytes, which may be one byte many times.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum LongBytes {
    /// One byte, repeated `count` times.
    Repeat {
        /// The byte to repeat, in hexadecimal.
        repeat: Hex,
        /// The number of its repetitions.
        count: usize,
    },
    /// Bytes, as in other scenarios.
    Bytes(Bytes),
}

impl LongBytes {
    /// Returns the bytes, repeated if necessary.
    pub fn to_vec(&self) -> Vec<u8> {
        match self {
            LongBytes::Repeat { repeat, count } => repeat.0.repeat(*count),
            LongBytes::Bytes(bytes) => bytes.to_vec(),
        }
    }
}

/// Bytes, or only their hash.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum HashedBytes {
    /// The hash of `count` bytes.
    Hashed {
        /// The SHA-256 of the bytes.
        sha256_hex: Hex,
        /// The number of the bytes.
        count: usize,
    },
    /// Bytes, as in other scenarios.
    Bytes(Bytes),
}

scenario_part!(
    /// A session as a server holds it.
    Session3 {
        id: String, wire: u8, client_id: String, prk_hex: Hex, c2s_hex: Hex, s2c_hex: Hex, created_ms: u64,
        expires_ms: u64,
    }
);
scenario_part!(
    /// The inputs of the same session on the client's side: an init of suite `P256`.
    Client3 { p256_scalar_hex: Hex, body: String, answer: String, trusted_hex: Hex }
);
scenario_part!(
    /// A client's private keys; those that the suite does not have are empty.
    ClientKeys { p256_scalar_hex: Hex, x25519_hex: Hex, kem_private_hex: Hex }
);
scenario_part!(
    /// An identity key and its lifetime.
    Identity { scalar_hex: Hex, not_before_ms: u64, not_after_ms: u64 }
);
scenario_part!(
    /// The keys, decisions and random values of a server; keys that the suite does not have are empty.
    ServerKeys {
        suites: Vec<String>, identities: Vec<Identity>, session_id_random_hex: Hex, expires_in_sec: u32, auth: String,
        subject: Option<String>, tenant: Option<String>, p256_scalar_hex: Hex, x25519_hex: Hex,
        kem_ciphertext_hex: Hex, kem_secret_hex: Hex,
    }
);
scenario_part!(
    /// The lists of a server that rejects.
    ServerLists { suites: Vec<String>, identities: Vec<Identity> }
);
scenario_part!(
    /// A session that is renewed.
    OldSession { session_id: String, prk_hex: Hex, exporter_hex: Hex, client: Client3 }
);
scenario_part!(
    /// A sealed message on the wire.
    Sealed3 { headers: HeaderList, body: HashedBytes }
);
scenario_part!(
    /// The request that an answer is for.
    Asked { method: String, path: String, nonce: String }
);
scenario_part!(
    /// The request that a problem is for.
    Stamped { stamp: String, nonce: String }
);
scenario_part!(
    /// Decision about a retry of a request of this method, sent this time ago.
    Resend { method: String, elapsed_ms: u64, again: bool }
);
scenario_part!(
    /// A key of a set.
    TakenKey { key_id: String, public_hex: Hex }
);
scenario_part!(
    /// Decision whether a key may have signed an answer with this time, by this clock of the client.
    Signer { key_id: String, server_time_ms: u64, now_ms: u64, trusted: bool }
);
scenario_part!(
    /// `init3`: both sides. No client of Sealway writes the body if `client` is absent.
    Init3 {
        authorization: Option<String>, body: Bytes, now_ms: u64, client: Option<ClientKeys>, trusted_hex: Vec<Hex>,
        server: ServerKeys, answer: String, init_hash_hex: Hex, credential_hex: Hex, transcript_hex: Hex, th_hex: Hex, secret_hex: Hex,
        prk_hex: Hex, c2s_hex: Hex, s2c_hex: Hex, exporter_hex: Hex, confirm_key_hex: Hex,
    }
);
/// `renew3`: the same in a session.
#[derive(Clone, Debug)]
pub struct Renew3 {
    /// The session that is renewed.
    pub old: OldSession,
    /// The agreement of the renewal.
    pub init: Init3,
}
scenario_part!(
    /// `init3-refused`: a client rejects an answer.
    Init3Refused {
        old: Option<OldSession>, authorization: Option<String>, body: Bytes, client: ClientKeys, trusted_hex: Vec<Hex>,
        status: u16, answer: Bytes, code: String,
    }
);
scenario_part!(
    /// `init3-request-refused`: a server rejects an init.
    Init3RequestRefused { body: Bytes, now_ms: u64, server: ServerLists, code: String, field: Option<String> }
);
scenario_part!(
    /// `request3`: sealed by a client, opened by a server.
    Request3 {
        session: Session3, client: Client3, now_ms: u64, window_ms: u64, method: String, path: String,
        content_type: Option<String>, stamp: String, nonce: String, inner: Vec<(String, LongBytes)>,
        frames: Vec<LongBytes>, key_hex: Hex, iv_hex: Hex, commit_hex: Hex, context_hex: Hex, sealed: Sealed3,
        claim: Claim,
    }
);
scenario_part!(
    /// `request3-refused`: a server rejects a request.
    Request3Refused {
        session: Session3, now_ms: u64, window_ms: u64, method: String, path: String, headers: HeaderList, body: Bytes,
        code: String,
    }
);
scenario_part!(
    /// `answer3`: sealed by a server, opened by a client.
    Answer3 {
        session: Session3, client: Client3, request: Asked, status: u16, content_type: Option<String>, stamp: String,
        nonce: String, inner: Vec<(String, LongBytes)>, frames: Vec<LongBytes>, key_hex: Hex, iv_hex: Hex,
        commit_hex: Hex, context_hex: Hex, sealed: Sealed3,
    }
);
scenario_part!(
    /// `answer3-refused`: a client rejects an answer.
    Answer3Refused { client: Client3, request: Asked, status: u16, headers: HeaderList, body: Bytes, code: String }
);
scenario_part!(
    /// `key-set3`: a client that pins the root accepts a set.
    KeySet3 {
        root_public_hex: Hex, now_ms: u64, taken_issued_ms: Option<u64>, body: String, issued_ms: u64,
        keys: Vec<TakenKey>, signers: Vec<Signer>,
    }
);
scenario_part!(
    /// `key-set3-refused`: such a client rejects a set.
    KeySet3Refused { root_public_hex: Hex, now_ms: u64, taken_issued_ms: Option<u64>, body: String, code: String }
);
scenario_part!(
    /// `problem3`: whether a problem's claims are proven, and which calls are retried.
    Problem3 {
        session: Session3, client: Client3, request: Stamped, body: String, proven: bool, resends: Vec<Resend>,
    }
);
scenario_part!(
    /// `headers3`: the headers of a request that the service behind a server receives.
    Headers3 { front_trusted: bool, inner: HeaderList, outer: HeaderList, service: HeaderList }
);

/// Loads every scenario of `headers3`, by name, for the servers that play them.
///
/// # Errors
/// A file of the folder is not a scenario.
pub fn load_headers3() -> Result<Vec<(String, Headers3)>> {
    let headers = load_session3()?.into_iter().filter_map(|vector| match vector.scenario {
        Session3Scenario::Headers(headers) => Some((vector.name, headers)),
        _ => None,
    });
    Ok(headers.collect())
}

/// Loads every scenario of `vectors/session3`, by name.
///
/// # Errors
/// A file of the folder is not a scenario.
pub fn load_session3() -> Result<Vec<Session3Vector>> {
    load_with(&folder().join("session3"), read)
}

fn read(path: &Path) -> Result<Session3Vector> {
    let Head { kind, name, comment, mut members } = head(path, "session-3.md#")?;
    let scenario = match kind.as_str() {
        "init3" => Session3Scenario::Init(body(members)?),
        "renew3" => {
            let old = serde_json::from_value(members.remove("old").unwrap_or_default())?;
            Session3Scenario::Renew(Box::new(Renew3 { old, init: body(members)? }))
        }
        "init3-refused" => Session3Scenario::InitRefused(body(members)?),
        "init3-request-refused" => Session3Scenario::InitRequestRefused(body(members)?),
        "request3" => Session3Scenario::Request(body(members)?),
        "request3-refused" => Session3Scenario::RequestRefused(body(members)?),
        "answer3" => Session3Scenario::Answer(body(members)?),
        "answer3-refused" => Session3Scenario::AnswerRefused(body(members)?),
        "key-set3" => Session3Scenario::KeySet(body(members)?),
        "key-set3-refused" => Session3Scenario::KeySetRefused(body(members)?),
        "problem3" => Session3Scenario::Problem(body(members)?),
        "headers3" => Session3Scenario::Headers(body(members)?),
        unknown => bail!("nobody knows the type {unknown}"),
    };
    Ok(Session3Vector { name, comment, scenario })
}

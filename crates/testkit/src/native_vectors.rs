//! Loads `vectors/native`, as strictly as [`crate::vectors`] loads the rest.

use std::path::Path;

use anyhow::{Result, bail};
use serde::Deserialize;

use crate::vectors::{Bytes, Claim, Head, HeaderList, Hex, body, folder, head, load_with, scenario_part};

/// One scenario of wire 3.
#[derive(Debug)]
pub struct NativeVector {
    /// The file's name without `.json`.
    pub name: String,
    /// The purpose of the scenario.
    pub comment: String,
    /// The inputs and outputs of the scenario.
    pub scenario: NativeScenario,
}

/// The content of a scenario, by its type.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum NativeScenario {
    Init(Box<NativeInit>),
    Renew(Box<NativeRenewal>),
    InitRefused(Box<NativeInitRefused>),
    InitRequestRefused(Box<NativeInitRequestRefused>),
    Request(Box<NativeRequest>),
    RequestRefused(Box<Request3Refused>),
    Answer(Box<NativeAnswer>),
    AnswerRefused(Box<Answer3Refused>),
    KeySet(NativeKeySet),
    KeySetRefused(KeySet3Refused),
    Problem(Box<NativeProblem>),
    Headers(NativeHeaders),
}

impl NativeScenario {
    /// Returns the code of a rejection.
    pub fn code(&self) -> Option<&str> {
        match self {
            NativeScenario::InitRefused(v) => Some(&v.code),
            NativeScenario::InitRequestRefused(v) => Some(&v.code),
            NativeScenario::RequestRefused(v) => Some(&v.code),
            NativeScenario::AnswerRefused(v) => Some(&v.code),
            NativeScenario::KeySetRefused(v) => Some(&v.code),
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
    NativeSession {
        id: String, wire: u8, client_id: String, prk_hex: Hex, c2s_hex: Hex, s2c_hex: Hex, created_ms: u64,
        expires_ms: u64,
    }
);
scenario_part!(
    /// The inputs of the same session on the client's side: an init of suite `P256`.
    NativeClient { p256_scalar_hex: Hex, body: String, answer: String, trusted_hex: Hex }
);
scenario_part!(
    /// A client's private keys; those that the suite does not have are empty.
    ClientKeys {
        p256_scalar_hex: Hex, x25519_hex: Hex, kem_private_hex: Hex, p384_scalar_hex: Option<Hex>, kem_seed_hex: Option<Hex>,
    }
);
scenario_part!(
    /// An identity key and its lifetime. Its algorithm is ES256 if none is named; otherwise its public key is there.
    Identity {
        scalar_hex: Hex, alg: Option<String>, seed_hex: Option<Hex>, public_hex: Option<Hex>, not_before_ms: u64, not_after_ms: u64,
    }
);
scenario_part!(
    /// The keys, decisions and random values of a server; keys that the suite does not have are empty.
    ServerKeys {
        suites: Vec<String>, identities: Vec<Identity>, session_id_random_hex: Hex, expires_in_sec: u32, auth: String,
        subject: Option<String>, tenant: Option<String>, p256_scalar_hex: Hex, x25519_hex: Hex,
        kem_ciphertext_hex: Hex, kem_secret_hex: Hex, p384_scalar_hex: Option<Hex>,
    }
);
scenario_part!(
    /// The lists of a server that rejects.
    ServerLists { suites: Vec<String>, identities: Vec<Identity> }
);
scenario_part!(
    /// A session that is renewed.
    EarlierSession { session_id: String, prk_hex: Hex, exporter_hex: Hex, client: NativeClient }
);
scenario_part!(
    /// A sealed message on the wire.
    NativeSealed { headers: HeaderList, body: HashedBytes }
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
    /// `native_init`: both sides. No client of Sealway writes the body if `client` is absent.
    NativeInit {
        authorization: Option<String>, body: Bytes, now_ms: u64, client: Option<ClientKeys>, trusted_hex: Vec<Hex>,
        server: ServerKeys, answer: String, init_hash_hex: Hex, credential_hex: Hex, transcript_hex: Hex, th_hex: Hex, secret_hex: Hex,
        prk_hex: Hex, c2s_hex: Hex, s2c_hex: Hex, exporter_hex: Hex, confirm_key_hex: Hex,
    }
);
/// `native_renewal`: the same in a session.
#[derive(Clone, Debug)]
pub struct NativeRenewal {
    /// The session that is renewed.
    pub old: EarlierSession,
    /// The agreement of the renewal.
    pub init: NativeInit,
}
scenario_part!(
    /// `native_init-refused`: a client rejects an answer.
    NativeInitRefused {
        old: Option<EarlierSession>, authorization: Option<String>, body: Bytes, client: ClientKeys, trusted_hex: Vec<Hex>,
        status: u16, answer: Bytes, code: String,
    }
);
scenario_part!(
    /// `native_init-request-refused`: a server rejects an init.
    NativeInitRequestRefused { body: Bytes, now_ms: u64, server: ServerLists, code: String, field: Option<String> }
);
scenario_part!(
    /// `native_request`: sealed by a client, opened by a server.
    NativeRequest {
        session: NativeSession, client: NativeClient, now_ms: u64, window_ms: u64, method: String, path: String,
        content_type: Option<String>, stamp: String, nonce: String, inner: Vec<(String, LongBytes)>,
        frames: Vec<LongBytes>, key_hex: Hex, iv_hex: Hex, commit_hex: Hex, context_hex: Hex, sealed: NativeSealed,
        claim: Claim,
    }
);
scenario_part!(
    /// `native_request-refused`: a server rejects a request.
    Request3Refused {
        session: NativeSession, now_ms: u64, window_ms: u64, method: String, path: String, headers: HeaderList, body: Bytes,
        code: String,
    }
);
scenario_part!(
    /// `native_answer`: sealed by a server, opened by a client.
    NativeAnswer {
        session: NativeSession, client: NativeClient, request: Asked, status: u16, content_type: Option<String>, stamp: String,
        nonce: String, inner: Vec<(String, LongBytes)>, frames: Vec<LongBytes>, key_hex: Hex, iv_hex: Hex,
        commit_hex: Hex, context_hex: Hex, sealed: NativeSealed,
    }
);
scenario_part!(
    /// `native_answer-refused`: a client rejects an answer.
    Answer3Refused { client: NativeClient, request: Asked, status: u16, headers: HeaderList, body: Bytes, code: String }
);
scenario_part!(
    /// `key-set3`: a client that pins the root accepts a set.
    NativeKeySet {
        root_public_hex: Hex, now_ms: u64, taken_issued_ms: Option<u64>, body: String, issued_ms: u64,
        keys: Vec<TakenKey>, signers: Vec<Signer>, signature_algorithms: Option<Vec<String>>,
    }
);
scenario_part!(
    /// `key-set3-refused`: such a client rejects a set.
    KeySet3Refused {
        root_public_hex: Hex, now_ms: u64, taken_issued_ms: Option<u64>, body: String, code: String,
        signature_algorithms: Option<Vec<String>>,
    }
);
scenario_part!(
    /// `native_problem`: whether a problem's claims are proven, and which calls are retried.
    NativeProblem {
        session: NativeSession, client: NativeClient, request: Stamped, body: String, proven: bool, resends: Vec<Resend>,
    }
);
scenario_part!(
    /// `native_headers`: the headers of a request that the service behind a server receives.
    NativeHeaders { front_trusted: bool, inner: HeaderList, outer: HeaderList, service: HeaderList }
);

/// Loads every scenario of `native_headers`, by name, for the servers that play them.
///
/// # Errors
/// A file of the folder is not a scenario.
pub fn load_native_headers() -> Result<Vec<(String, NativeHeaders)>> {
    let headers = load_native()?.into_iter().filter_map(|vector| match vector.scenario {
        NativeScenario::Headers(headers) => Some((vector.name, headers)),
        _ => None,
    });
    Ok(headers.collect())
}

/// Loads every scenario of `vectors/native`, by name.
///
/// # Errors
/// A file of the folder is not a scenario.
pub fn load_native() -> Result<Vec<NativeVector>> {
    load_with(&folder().join("session3"), read)
}

fn read(path: &Path) -> Result<NativeVector> {
    let Head { kind, name, comment, mut members } = head(path, "session-3.md#")?;
    let scenario = match kind.as_str() {
        "init3" => NativeScenario::Init(body(members)?),
        "renew3" => {
            let old = serde_json::from_value(members.remove("old").unwrap_or_default())?;
            NativeScenario::Renew(Box::new(NativeRenewal { old, init: body(members)? }))
        }
        "init3-refused" => NativeScenario::InitRefused(body(members)?),
        "init3-request-refused" => NativeScenario::InitRequestRefused(body(members)?),
        "request3" => NativeScenario::Request(body(members)?),
        "request3-refused" => NativeScenario::RequestRefused(body(members)?),
        "answer3" => NativeScenario::Answer(body(members)?),
        "answer3-refused" => NativeScenario::AnswerRefused(body(members)?),
        "key-set3" => NativeScenario::KeySet(body(members)?),
        "key-set3-refused" => NativeScenario::KeySetRefused(body(members)?),
        "problem3" => NativeScenario::Problem(body(members)?),
        "headers3" => NativeScenario::Headers(body(members)?),
        unknown => bail!("nobody knows the type {unknown}"),
    };
    Ok(NativeVector { name, comment, scenario })
}

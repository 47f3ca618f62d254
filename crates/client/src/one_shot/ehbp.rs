//! Messages of the Encrypted HTTP Body Protocol, without a connection.
//!
//! The protocol seals bodies alone: method, target, headers and status are in clear, and a request without a body has no seal.

use bytes::Bytes;
use http::StatusCode;
use http::header::HeaderMap;
use sealway_proto::Error as WireError;
use sealway_proto::crypto::agreement::default_agreement_provider;
use sealway_proto::ehbp::{ClientRequest, ENCAPSULATED_KEY, EhbpError, RESPONSE_NONCE, SUITE};
use sealway_proto::one_shot::KeyConfig;

use super::{coded, rejected};
use crate::error::{Error, ErrorKind};
use crate::message::{Message, insert};

/// Path at which a service publishes its key.
pub const KEYS_PATH: &str = "/.well-known/hpke-keys";
/// Status of an answer to a request under a key that is not live.
const KEY_MISMATCH: StatusCode = StatusCode::UNPROCESSABLE_ENTITY;
const KEY_MISMATCH_TYPE: &str = "urn:ietf:params:ehbp:error:key-config";

/// Reads the key of a service: a key configuration of the protocol's one suite.
///
/// # Errors
/// [`ErrorKind::Trust`] for bytes that are no such configuration.
pub fn key(bytes: &[u8]) -> Result<KeyConfig, Error> {
    let config = KeyConfig::decode(default_agreement_provider(), bytes);
    let config = config.map_err(|err| ErrorKind::Trust(format!("the key at {KEYS_PATH} is refused: {err}")))?;
    if config.suites().any(|suite| suite == SUITE) {
        return Ok(config);
    }
    Err(ErrorKind::Trust(format!("the key at {KEYS_PATH} is refused: its suite is not X25519 with AES-256-GCM")).into())
}

/// Seals the body of a request, which must not be empty, and adds the header of the seal to its headers.
///
/// # Errors
/// [`ErrorKind::Usage`] for an empty body and for a key that no secret can be agreed with, [`ErrorKind::Seal`].
pub fn seal(key: &KeyConfig, mut headers: HeaderMap, body: &[u8]) -> Result<(Message, EhbpPending), Error> {
    if body.is_empty() {
        return Err(ErrorKind::Usage("a request without a body has no seal".into()).into());
    }
    let failed = |err: EhbpError| match err {
        EhbpError::Key => ErrorKind::Usage(err.to_string()),
        _ => ErrorKind::Seal(WireError::Provider),
    };
    let mut request = ClientRequest::begin(default_agreement_provider(), key.public_key()).map_err(failed)?;
    let body = request.seal(body).map_err(failed)?.into();
    insert(&mut headers, ENCAPSULATED_KEY, &request.encapsulated_key())?;
    Ok((Message { headers, body, aad: Vec::new() }, EhbpPending(request)))
}

/// State that opens the answer to one request.
#[derive(Debug)]
pub struct EhbpPending(ClientRequest);

impl EhbpPending {
    /// Opens the body of a whole answer. Where the body ends only HTTP's own framing shows.
    ///
    /// # Errors
    /// [`ErrorKind::Problem`] of the codes `key_retired` and `replayed`; [`ErrorKind::Refused`] for another rejection in clear;
    /// [`ErrorKind::Untrusted`] for a successful answer in clear, and for one that does not open.
    pub fn open(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Result<Bytes, Error> {
        let mut nonces = headers.get_all(RESPONSE_NONCE).iter();
        let nonce = match (nonces.next(), nonces.next()) {
            (Some(nonce), None) => nonce,
            (None, _) if status == KEY_MISMATCH && problem_type(body) == Some(KEY_MISMATCH_TYPE.into()) => {
                return Err(coded(status, "key_retired"));
            }
            (None, _) => return Err(rejected(status, body, RESPONSE_NONCE)),
            (Some(_), Some(_)) => return Err(ErrorKind::Untrusted(WireError::HeaderInvalid(RESPONSE_NONCE)).into()),
        };
        let untrusted = |err: EhbpError| match err {
            EhbpError::ResponseNonce => ErrorKind::Untrusted(WireError::HeaderInvalid(RESPONSE_NONCE)),
            EhbpError::Truncated => ErrorKind::Untrusted(WireError::StreamTruncated),
            EhbpError::Provider => ErrorKind::Untrusted(WireError::Provider),
            _ => ErrorKind::Untrusted(WireError::Unsealable),
        };
        let answer = self.0.answer(default_agreement_provider(), nonce.as_bytes());
        let plaintext = answer.and_then(|mut answer| answer.open(body)).map_err(untrusted)?;
        if status == StatusCode::CONFLICT && plaintext == br#"{"error":"REPLAYED"}"# {
            return Err(coded(status, "replayed"));
        }
        Ok(plaintext.into())
    }
}

/// Returns the type of a problem (RFC 9457).
pub(super) fn problem_type(body: &[u8]) -> Option<String> {
    let problem: serde_json::Value = serde_json::from_slice(body).ok()?;
    problem.get("type")?.as_str().map(str::to_owned)
}

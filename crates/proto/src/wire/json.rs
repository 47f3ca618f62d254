//! The JSON bodies of session set-up: `{clientPublicKey, ttlSec?, keyAgreement?}` in, four members out.

use alloc::format;
use alloc::string::String;

use serde_json::Value;

use crate::error::Error;
use crate::wire::{SessionId, base64};

/// The body of an init request, parsed as JSON and not yet judged: the order of checks is the wire's.
#[derive(Debug)]
pub struct InitBody(Value);

impl InitBody {
    /// Reads JSON. Unknown members are ignored, of a repeated member the last one counts, and nesting of 128
    /// levels or more is refused.
    ///
    /// # Errors
    /// [`Error::JsonInvalid`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        serde_json::from_slice(bytes).map(InitBody).map_err(|_| Error::JsonInvalid)
    }

    /// The member `clientPublicKey`, a non-empty string.
    ///
    /// # Errors
    /// [`Error::FieldInvalid`].
    pub fn client_public_key(&self) -> Result<&str, Error> {
        match self.0.get("clientPublicKey") {
            Some(Value::String(key)) if !key.is_empty() => Ok(key),
            _ => Err(Error::FieldInvalid("clientPublicKey")),
        }
    }

    /// Wire 1's `keyAgreement`, which must be `ECDH_P256`.
    ///
    /// # Errors
    /// [`Error::FieldInvalid`].
    pub fn check_key_agreement(&self) -> Result<(), Error> {
        match self.0.get("keyAgreement") {
            Some(Value::String(name)) if name == "ECDH_P256" => Ok(()),
            _ => Err(Error::FieldInvalid("keyAgreement")),
        }
    }

    /// Wire 2's `ttlSec`: absent or null is `None`; an integer value, however written, at least 0; the rest is refused.
    ///
    /// # Errors
    /// [`Error::FieldInvalid`].
    pub fn ttl_strict(&self) -> Result<Option<u32>, Error> {
        let invalid = Error::FieldInvalid("ttlSec");
        match self.0.get("ttlSec") {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Number(number)) => match number.as_f64() {
                // `as` saturates, and every bound is far below u32::MAX.
                Some(sec) if sec >= 0.0 && is_whole(sec) => Ok(Some(sec as u32)),
                _ => Err(invalid),
            },
            Some(_) => Err(invalid),
        }
    }

    /// Wire 1's `ttlSec`, read as its servers did: finite numbers and those in strings count, fractions are cut,
    /// negatives are 0, the rest is `None`.
    pub fn ttl_lax(&self) -> Option<u32> {
        let sec = match self.0.get("ttlSec") {
            Some(Value::Number(number)) => number.as_f64(),
            Some(Value::String(text)) => text.trim().parse().ok(),
            _ => None,
        };
        // `parse` also takes words such as "inf", which are no numbers to anyone else. `as` saturates: negatives become 0.
        sec.filter(|sec: &f64| sec.is_finite()).map(|sec| sec as u32)
    }
}

fn is_whole(number: f64) -> bool {
    // Every f64 of at least 2^52 is whole; below, the round trip through u64 is exact.
    number >= 4_503_599_627_370_496.0 || (number as u64) as f64 == number
}

/// What a server answers to an init: exactly four members, since some clients fail on a fifth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitAnswer {
    /// The new session.
    pub session_id: SessionId,
    /// The server's ephemeral public key.
    pub server_public: [u8; 65],
    /// `A256GCM` or `aes-256-gcm`, by init family.
    pub enc_alg: &'static str,
    /// Seconds until the session expires.
    pub expires_in_sec: u32,
}

impl InitAnswer {
    /// The JSON text.
    pub fn encode(&self) -> String {
        // No member needs escaping: hexadecimal, base64, a constant and a number.
        format!(
            r#"{{"sessionId":"{}","serverPublicKey":"{}","encAlg":"{}","expiresInSec":{}}}"#,
            self.session_id,
            base64::encode(&self.server_public),
            self.enc_alg,
            self.expires_in_sec
        )
    }

    /// Reads the JSON text, for a client. Extra members are ignored.
    ///
    /// # Errors
    /// [`Error::JsonInvalid`], [`Error::FieldInvalid`], [`Error::PublicKeyInvalid`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let body: Value = serde_json::from_slice(bytes).map_err(|_| Error::JsonInvalid)?;
        let text = |name| body.get(name).and_then(Value::as_str).ok_or(Error::FieldInvalid(name));
        let session_id = SessionId::parse(text("sessionId")?).map_err(|_| Error::FieldInvalid("sessionId"))?;
        let server_public = base64::decode_array(text("serverPublicKey")?).map_err(|_| Error::PublicKeyInvalid)?;
        let enc_alg = match text("encAlg")? {
            "A256GCM" => "A256GCM",
            "aes-256-gcm" => "aes-256-gcm",
            _ => return Err(Error::FieldInvalid("encAlg")),
        };
        let expires_in_sec = body
            .get("expiresInSec")
            .and_then(Value::as_u64)
            .and_then(|sec| u32::try_from(sec).ok())
            .ok_or(Error::FieldInvalid("expiresInSec"))?;
        Ok(InitAnswer { session_id, server_public, enc_alg, expires_in_sec })
    }
}

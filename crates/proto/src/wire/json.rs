//! The JSON bodies of session set-up: `{clientPublicKey, ttlSec?, keyAgreement?}` in, four members out.

use alloc::format;
use alloc::string::String;

use serde_json::Value;

use crate::error::Error;
use crate::wire::{SessionId, base64};

/// The body of an init request, parsed as JSON. Its members are checked later, in the order of the wire.
#[derive(Debug)]
pub struct InitBody(Value);

impl InitBody {
    /// Parses JSON. Unknown members are ignored, the last of a repeated member counts, and nesting of 128 levels or more is
    /// rejected.
    ///
    /// # Errors
    /// [`Error::JsonInvalid`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        serde_json::from_slice(bytes).map(InitBody).map_err(|_| Error::JsonInvalid)
    }

    /// Returns the member `clientPublicKey`, a non-empty string.
    ///
    /// # Errors
    /// [`Error::FieldInvalid`].
    pub fn client_public_key(&self) -> Result<&str, Error> {
        match self.0.get("clientPublicKey") {
            Some(Value::String(key)) if !key.is_empty() => Ok(key),
            _ => Err(Error::FieldInvalid("clientPublicKey")),
        }
    }

    /// Checks wire 1's `keyAgreement`, which must be `ECDH_P256`.
    ///
    /// # Errors
    /// [`Error::FieldInvalid`].
    pub fn check_key_agreement(&self) -> Result<(), Error> {
        match self.0.get("keyAgreement") {
            Some(Value::String(name)) if name == "ECDH_P256" => Ok(()),
            _ => Err(Error::FieldInvalid("keyAgreement")),
        }
    }

    /// Returns wire 2's `ttlSec`: absent or null is `None`; an integer value of at least 0, in any notation; anything else is
    /// rejected.
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

    /// Returns wire 1's `ttlSec`, read as its servers did: finite numbers and those in strings count, fractions are cut,
    /// negatives are 0, anything else is `None`.
    pub fn ttl_lax(&self) -> Option<u32> {
        let sec = match self.0.get("ttlSec") {
            Some(Value::Number(number)) => number.as_f64(),
            Some(Value::String(text)) => text.trim().parse().ok(),
            _ => None,
        };
        // `parse` also accepts words such as "inf", which other implementations do not read as numbers. `as` saturates:
        // negatives become 0.
        sec.filter(|sec: &f64| sec.is_finite()).map(|sec| sec as u32)
    }
}

fn is_whole(number: f64) -> bool {
    // Every f64 of at least 2^52 is whole; below, the round trip through u64 is exact.
    number >= 4_503_599_627_370_496.0 || (number as u64) as f64 == number
}

/// The answer of a server to an init: exactly four members, since some clients fail on a fifth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitAnswer {
    /// The id of the new session.
    pub session_id: SessionId,
    /// The server's ephemeral public key.
    pub server_public: [u8; 65],
    /// `A256GCM` or `aes-256-gcm`, by init family.
    pub enc_alg: &'static str,
    /// Seconds until the session expires.
    pub expires_in_sec: u32,
}

impl InitAnswer {
    /// Encodes the JSON text of the answer.
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

    /// Parses the JSON text, for a client. Extra members are ignored.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn ttl(value: &str) -> InitBody {
        InitBody::parse(format!(r#"{{"ttlSec":{value}}}"#).as_bytes()).unwrap()
    }

    #[test]
    fn wire_2_reads_whole_numbers_alone() {
        for (value, sec) in [
            ("null", None),
            ("0", Some(0)),
            ("-0.0", Some(0)),
            ("60", Some(60)),
            ("6e1", Some(60)),
            ("4294967296", Some(u32::MAX)),
            ("4503599627370496", Some(u32::MAX)),
            ("1e300", Some(u32::MAX)),
        ] {
            assert_eq!(ttl(value).ttl_strict(), Ok(sec), "{value}");
        }
        for value in ["-1", "0.5", "60.25", "\"60\"", "true", "[]"] {
            assert_eq!(ttl(value).ttl_strict(), Err(Error::FieldInvalid("ttlSec")), "{value}");
        }
        assert_eq!(InitBody::parse(b"{}").unwrap().ttl_strict(), Ok(None));
    }

    #[test]
    fn wire_1_reads_numbers_in_texts_too_and_cuts_fractions() {
        for (value, sec) in [
            ("60.9", Some(60)),
            ("-5", Some(0)),
            ("\" 60 \"", Some(60)),
            ("\"inf\"", None),
            ("\"x\"", None),
            ("true", None),
            ("null", None),
        ] {
            assert_eq!(ttl(value).ttl_lax(), sec, "{value}");
        }
    }

    #[test]
    fn members_have_a_type_and_a_value() {
        for body in [r#"{"clientPublicKey":"","keyAgreement":"ECDH_P384"}"#, r#"{"clientPublicKey":1}"#, "{}", "[]"] {
            let body = InitBody::parse(body.as_bytes()).unwrap();
            assert_eq!(body.client_public_key(), Err(Error::FieldInvalid("clientPublicKey")));
            assert_eq!(body.check_key_agreement(), Err(Error::FieldInvalid("keyAgreement")));
        }
        let body = InitBody::parse(br#"{"clientPublicKey":"AA","keyAgreement":"ECDH_P256"}"#).unwrap();
        assert_eq!((body.client_public_key(), body.check_key_agreement()), (Ok("AA"), Ok(())));
        assert!(matches!(InitBody::parse(b"{"), Err(Error::JsonInvalid)));
    }
}

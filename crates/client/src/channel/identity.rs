//! Static key of this side, for grants that pin the peers' keys, so that the control plane need not be trusted.

use sealway_proto::channel::{NativeSuite, Pattern};
use sealway_proto::crypto::agreement::{Cipher, Curve, default_agreement_provider};
use sealway_proto::crypto::default_provider;
use sealway_proto::relay::{b64u_decode, b64u_encode};
use zeroize::Zeroizing;

use super::error::{Error, Stage};

/// Attempts at drawing a private key: a P-256 key is out of range once in 2^32 draws.
const DRAWS_MAX: usize = 4;

/// The private half of a static key: 32 bytes.
#[derive(Clone)]
pub struct Identity(Zeroizing<[u8; 32]>);

impl Identity {
    /// Draws a private key of the curve.
    ///
    /// # Errors
    /// `key_invalid`, if the crypto module fails.
    pub fn draw(curve: Curve) -> Result<Self, Error> {
        let mut failure = fault("no key could be drawn");
        for _ in 0..DRAWS_MAX {
            let mut private = Zeroizing::new([0; 32]);
            default_provider().fill_random(private.as_mut_slice()).map_err(|err| fault(&err.to_string()))?;
            let identity = Identity(private);
            match identity.public(curve) {
                Ok(_) => return Ok(identity),
                Err(err) => failure = err,
            }
        }
        Err(failure)
    }

    /// Parses the text of [`Identity::encode`]; `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = Zeroizing::new(b64u_decode(text)?);
        Some(Identity(Zeroizing::new(bytes.as_slice().try_into().ok()?)))
    }

    /// Encodes the private key in base64url; the text is secret.
    pub fn encode(&self) -> Zeroizing<String> {
        Zeroizing::new(b64u_encode(self.0.as_slice()))
    }

    /// The public half in base64url, as grants pin it: 32 bytes of X25519, or a compressed point of P-256 (33 bytes).
    ///
    /// # Errors
    /// `key_invalid`, if the key does not fit the curve.
    pub fn public(&self, curve: Curve) -> Result<String, Error> {
        // Any suite of this curve with static keys.
        let suite = NativeSuite { pattern: Pattern::KKpsk0, curve, cipher: Cipher::Aes256Gcm, hybrid: false };
        let public = suite.static_public(default_agreement_provider(), &self.0);
        Ok(b64u_encode(&public.map_err(|err| fault(&err.to_string()))?))
    }

    pub(super) fn private(&self) -> Zeroizing<[u8; 32]> {
        self.0.clone()
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Identity(redacted)")
    }
}

fn fault(text: &str) -> Error {
    Error::new(Stage::Handshake, "key_invalid", text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_was_written_and_is_not_shown() {
        for (curve, len) in [(Curve::X25519, 32), (Curve::P256, 33)] {
            let identity = Identity::draw(curve).unwrap();
            let again = Identity::parse(&identity.encode()).unwrap();
            assert_eq!(again.public(curve).unwrap(), identity.public(curve).unwrap());
            assert_eq!(b64u_decode(&identity.public(curve).unwrap()).unwrap().len(), len);
            assert!(!format!("{identity:?}").contains(identity.encode().as_str()));
        }
        assert!(Identity::parse("AAAA").is_none() && Identity::parse("?").is_none());
    }
}

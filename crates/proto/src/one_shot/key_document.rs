//! The key document of wire 4: the key configurations that a service publishes, their times, and the signature of a root.
// SPEC one-shot.md#the-key-document

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde_json::Value;

use super::{KeyConfig, KeyConfigError};
use crate::crypto::agreement::AgreementProvider;
use crate::crypto::identity::{IdentityLibrary, IdentityPair};
use crate::error::Error;
use crate::session::native::key_set::{TIME_MS_MAX, time};
use crate::session::native::{Fields, KeySetFault, RootSignature, signed_list};
use crate::wire::base64;

/// The path at which a service publishes its document.
pub const KEY_DOCUMENT_PATH: &str = "/.well-known/sealway-hpke-keys";
/// Prefix of the hash that a root signs, so that its signature is valid for nothing else.
const ROOT_LABEL: &[u8] = b"sealway/4 keys";
/// The suites of a key configuration on wire 4: one, HKDF-SHA256 with AES-256-GCM.
const SUITE: [u8; 6] = [0, 4, 0, 1, 0, 2];

/// A key configuration in a document, and its times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentKey {
    /// The key configuration, encoded. Its KEM may be one that this build lacks.
    pub config: Vec<u8>,
    /// Clients use the key, and servers accept it, from this time on, in Unix milliseconds.
    pub not_before_ms: u64,
    /// Clients use the key until before this time.
    pub use_until_ms: u64,
    /// Servers accept the key until before this time.
    pub not_after_ms: u64,
}

impl DocumentKey {
    /// Returns whether a client may use the key.
    pub fn is_in_use(&self, now_ms: u64) -> bool {
        self.not_before_ms <= now_ms && now_ms < self.use_until_ms
    }

    fn signed_part(&self) -> Fields {
        let fields = Fields::new().field(&self.config).number(self.not_before_ms);
        fields.number(self.use_until_ms).number(self.not_after_ms)
    }

    /// Checks the order and the bounds of the times.
    fn check_times(&self) -> Result<(), Error> {
        let times = [self.not_before_ms, self.use_until_ms, self.not_after_ms, TIME_MS_MAX];
        if times.is_sorted() { Ok(()) } else { Err(Error::FieldInvalid("use_until_ms")) }
    }
}

/// The keys of a service for wire 4, as published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyDocument {
    /// Time of issue, in Unix milliseconds.
    pub issued_ms: u64,
    /// Time from which on the document is expired, in Unix milliseconds.
    pub expires_ms: u64,
    /// At most 16 keys, the one that the service prefers first.
    pub keys: Vec<DocumentKey>,
    /// The signature of a root over all of the above.
    pub root: Option<RootSignature>,
}

impl KeyDocument {
    /// Encodes the JSON text of the document.
    pub fn encode(&self) -> String {
        let keys = self.keys.iter().map(|key| {
            let config = base64::encode(&key.config);
            format!(
                r#"{{"config":"{config}","not_before_ms":{},"use_until_ms":{},"not_after_ms":{}}}"#,
                key.not_before_ms, key.use_until_ms, key.not_after_ms
            )
        });
        signed_list::encode((self.issued_ms, self.expires_ms), keys, self.root.as_ref())
    }

    /// Parses the JSON text. Unknown members are ignored, `null` counts as absent. A key of a KEM that this build lacks stays in the
    /// document, since the root's signature covers it; a malformed one, or one that occurs twice, rejects the whole. Nothing is
    /// verified yet.
    ///
    /// # Errors
    /// [`Error::BodyTooLarge`], [`Error::JsonInvalid`], [`Error::FieldInvalid`].
    pub fn parse(provider: &dyn AgreementProvider, bytes: &[u8]) -> Result<KeyDocument, Error> {
        let is_same = |one: &DocumentKey, other: &DocumentKey| one.config == other.config;
        let parsed = signed_list::parse(bytes, |key| parse_key(provider, key), ("config", is_same))?;
        let (issued_ms, expires_ms, keys, root) = parsed;
        Ok(KeyDocument { issued_ms, expires_ms, keys, root })
    }

    /// Returns the message that a root signs.
    fn signed_message(&self, provider: &dyn AgreementProvider) -> Vec<u8> {
        let keys = self.keys.iter().map(DocumentKey::signed_part);
        signed_list::message(provider, ROOT_LABEL, (self.issued_ms, self.expires_ms), keys)
    }

    /// Signs the document with a root, and replaces any signature before.
    ///
    /// # Errors
    /// [`Error::Provider`].
    pub fn sign(&mut self, provider: &dyn AgreementProvider, root: &IdentityPair) -> Result<(), Error> {
        self.root = Some(signed_list::sign(provider, root, &self.signed_message(provider))?);
        Ok(())
    }

    /// Verifies the document for a client that pins `root`. `last_issued_ms` is that of the document accepted last, 0 for none.
    ///
    /// # Errors
    /// [`KeySetFault`], by the first check that fails.
    pub fn verify(
        &self,
        provider: &dyn AgreementProvider,
        library: &dyn IdentityLibrary,
        root: &[u8],
        now_ms: u64,
        last_issued_ms: u64,
    ) -> Result<(), KeySetFault> {
        let message = self.signed_message(provider);
        KeySetFault::check(provider, library, root, self.root.as_ref(), &message)?;
        KeySetFault::check_times((self.issued_ms, self.expires_ms), now_ms, last_issued_ms)
    }
}

fn parse_key(provider: &dyn AgreementProvider, key: &Value) -> Result<DocumentKey, Error> {
    let config = key.get("config").and_then(Value::as_str).ok_or(Error::FieldInvalid("config"))?;
    let config = base64::decode(config.as_bytes()).map_err(|_| Error::FieldInvalid("config"))?;
    let is_formed = match KeyConfig::decode(provider, &config) {
        Ok(known) => known.pairs().len() == 1 && config.ends_with(&SUITE),
        // A key of another KEM is skipped, but its one suite is that of wire 4.
        Err(KeyConfigError::UnknownKem(_)) => config.len() > 3 + SUITE.len() && config.ends_with(&SUITE),
        Err(_) => false,
    };
    if !is_formed {
        return Err(Error::FieldInvalid("config"));
    }
    let key = DocumentKey {
        config,
        not_before_ms: time(key, "not_before_ms")?,
        use_until_ms: time(key, "use_until_ms")?,
        not_after_ms: time(key, "not_after_ms")?,
    };
    key.check_times()?;
    Ok(key)
}

#[cfg(all(test, feature = "aws-lc"))]
#[allow(clippy::unwrap_used, reason = "a test stops where it fails")]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::crypto::default_provider;
    use crate::hpke::{Aead, Kem, PrivateKey};

    fn key(byte: u8) -> DocumentKey {
        let private = PrivateKey::from_bytes(default_provider(), Kem::X25519, &[byte; 32]).unwrap();
        let config = KeyConfig::new(byte, private.public_key().clone(), &[Aead::Aes256Gcm]).unwrap();
        DocumentKey { config: config.encode(), not_before_ms: 1, use_until_ms: 5, not_after_ms: 9 }
    }

    fn document(keys: Vec<DocumentKey>) -> KeyDocument {
        KeyDocument { issued_ms: 2, expires_ms: 8, keys, root: None }
    }

    fn parse(text: &str) -> Result<KeyDocument, Error> {
        KeyDocument::parse(default_provider(), text.as_bytes())
    }

    #[test]
    fn a_document_is_read_as_it_was_written_and_in_use_between_its_times() {
        let unknown = DocumentKey { config: [&[1, 0x99, 0x99, 7, 7][..], &SUITE].concat(), ..key(1) };
        let whole = document(vec![key(1), unknown, key(2)]);
        assert_eq!(parse(&whole.encode()).unwrap(), whole);
        assert_eq!([0, 1, 4, 5].map(|now_ms| key(1).is_in_use(now_ms)), [false, true, true, false]);
    }

    #[test]
    fn what_is_malformed_rejects_the_whole() {
        let mut two_suites = key(1);
        two_suites.config.splice(35.., [0, 8, 0, 1, 0, 2, 0, 1, 0, 1]);
        let cases = [
            (document(vec![key(1), key(1)]), "config"),
            (document(vec![two_suites]), "config"),
            (document(vec![DocumentKey { config: vec![1, 0, 0x20, 7], ..key(1) }]), "config"),
            (document(vec![DocumentKey { use_until_ms: 0, ..key(1) }]), "use_until_ms"),
            (document(vec![DocumentKey { use_until_ms: 10, ..key(1) }]), "use_until_ms"),
            (document((0..17).map(key).collect()), "keys"),
            (KeyDocument { issued_ms: TIME_MS_MAX + 1, ..document(vec![]) }, "issued_ms"),
        ];
        for (document, member) in cases {
            assert_eq!(parse(&document.encode()).unwrap_err(), Error::FieldInvalid(member), "{}", document.encode());
        }
        assert_eq!(parse("[").unwrap_err(), Error::JsonInvalid);
    }
}

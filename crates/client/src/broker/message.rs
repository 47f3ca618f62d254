//! What goes to the broker and comes back, as callers write and read it.

use std::fmt;

use sealway_proto::broker::v1;
pub use sealway_proto::broker::v1::{Deprecation, Descriptor};

use super::error::Code;
use super::secret::Secret;

/// What came of a batch, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch<T> {
    /// One for each input.
    pub outputs: Vec<T>,
    /// What made them.
    pub descriptor: Descriptor,
}

/// A certificate to be signed by a key that the broker keeps. What is not said is the profile's to say.
#[derive(Clone, Copy, Debug, Default)]
pub struct CertificateRequest<'a> {
    /// The profile.
    pub profile: &'a str,
    /// PKCS#10, PEM or DER, at most 64 KiB.
    pub csr: &'a [u8],
    /// The authority's key, by its id in the broker's store.
    pub ca_key: &'a str,
    /// The authority's certificate, PEM or DER, at most 64 KiB.
    pub ca_certificate: &'a [u8],
    /// The first second of its validity, since 1970.
    pub not_before: Option<i64>,
    /// The last second of its validity, since 1970.
    pub not_after: Option<i64>,
    /// Another subject than the request's, such as `CN=service,O=Example`.
    pub subject: Option<&'a str>,
    /// Where its revocation list lies: at most 16 http(s) URLs.
    pub crl_points: &'a [&'a str],
}

/// A signed certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// X.509.
    pub der: Vec<u8>,
    /// What made it.
    pub descriptor: Descriptor,
}

/// What is to be encrypted.
#[derive(Clone, Copy, Default)]
pub struct Plain<'a> {
    /// What is hidden.
    pub plaintext: &'a [u8],
    /// What is authenticated with it, and not stored.
    pub aad: &'a [u8],
    /// Only where the profile leaves the nonce to the caller; else empty.
    pub nonce: &'a [u8],
}

impl fmt::Debug for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plain").field("len", &self.plaintext.len()).finish_non_exhaustive()
    }
}

/// What was encrypted: all of it is to be stored, but the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cipher {
    /// The version of the key that sealed it.
    pub key_version: u32,
    /// Of the seal.
    pub nonce: Vec<u8>,
    /// As long as the plaintext.
    pub ciphertext: Vec<u8>,
    /// Of the seal.
    pub tag: Vec<u8>,
}

/// What is to be opened.
#[derive(Clone, Copy, Debug)]
pub struct Sealed<'a> {
    /// As it was made.
    pub cipher: &'a Cipher,
    /// As it was given then.
    pub aad: &'a [u8],
}

/// Why one of a batch failed while others went on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text} ({code:?})")]
pub struct Refusal {
    /// Who is to blame.
    pub code: Code,
    /// Why, in one line.
    pub text: String,
}

/// What is to be verified.
#[derive(Clone, Copy)]
pub struct Signed<'a> {
    /// What was signed.
    pub input: &'a [u8],
    /// The signature, or the tag.
    pub signature: &'a [u8],
    /// The version of the key; 0 tries the current one.
    pub key_version: u32,
}

impl fmt::Debug for Signed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signed").field("key_version", &self.key_version).finish_non_exhaustive()
    }
}

/// A key to be derived.
#[derive(Clone, Copy, Default)]
pub struct Derivation<'a> {
    /// HKDF's salt; may be empty.
    pub salt: &'a [u8],
    /// What the key is for.
    pub info: &'a [u8],
    /// In bytes.
    pub length: u32,
}

impl fmt::Debug for Derivation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Derivation").field("length", &self.length).finish_non_exhaustive()
    }
}

/// Whom a secret is shared with.
#[derive(Clone, Copy, Debug)]
pub enum Recipient<'a> {
    /// A key of the broker's store.
    Key(&'a str),
    /// A public key.
    Public(&'a [u8]),
}

/// A shared secret, and what tells it to the other side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encapsulated {
    /// For the other side.
    pub ciphertext: Vec<u8>,
    /// For this side alone.
    pub shared_secret: Secret,
}

/// What a broker says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Information {
    /// Sealway's version.
    pub version: String,
    /// The crypto module, and its version.
    pub module: String,
    /// The module's version.
    pub module_version: String,
    /// Of the module's validation, or `none`.
    pub certificate: String,
    /// Whether it is a FIPS build.
    pub is_fips: bool,
    /// Profiles that the caller may use.
    pub profiles: Vec<String>,
}

/// How a broker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It serves.
    Serving,
    /// It is about to end.
    NotServing,
}

impl Sealed<'_> {
    pub(super) fn message(&self) -> v1::Cipher {
        v1::Cipher {
            key_version: self.cipher.key_version,
            nonce: self.cipher.nonce.clone(),
            ciphertext: self.cipher.ciphertext.clone(),
            tag: self.cipher.tag.clone(),
            aad: self.aad.to_vec(),
        }
    }
}

impl Signed<'_> {
    pub(super) fn message(&self) -> v1::Signed {
        v1::Signed { input: self.input.to_vec(), signature: self.signature.to_vec(), key_version: self.key_version }
    }
}

impl From<v1::Cipher> for Cipher {
    fn from(cipher: v1::Cipher) -> Self {
        let v1::Cipher { key_version, nonce, ciphertext, tag, aad: _ } = cipher;
        Cipher { key_version, nonce, ciphertext, tag }
    }
}

impl From<v1::Refusal> for Refusal {
    fn from(refusal: v1::Refusal) -> Self {
        let code = Code::from_i32(i32::try_from(refusal.code).unwrap_or(i32::MAX));
        Refusal { code, text: refusal.message }
    }
}

impl From<v1::InformationResponse> for Information {
    fn from(answer: v1::InformationResponse) -> Self {
        let v1::InformationResponse { version, module, module_version, certificate, is_fips, profiles } = answer;
        Information { version, module, module_version, certificate, is_fips, profiles }
    }
}

impl From<v1::Encapsulated> for Encapsulated {
    fn from(one: v1::Encapsulated) -> Self {
        Encapsulated { ciphertext: one.ciphertext, shared_secret: one.shared_secret.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_shown_has_an_input_in_it() {
        let secret = b"a secret";
        let shown = [
            format!("{:?}", Plain { plaintext: secret, aad: secret, nonce: secret }),
            format!("{:?}", Signed { input: secret, signature: secret, key_version: 7 }),
            format!("{:?}", Derivation { salt: secret, info: secret, length: 32 }),
        ];
        // Bytes are shown as numbers.
        let numbers = format!("{:?}", &secret[..4]);
        for text in shown {
            assert!(!text.contains("a secret") && !text.contains(numbers.trim_matches(['[', ']'])), "{text}");
        }
    }
}

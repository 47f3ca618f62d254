//! Requests and answers of the broker, as callers write and read them.

use std::fmt;

use sealway_proto::broker::v1;
pub use sealway_proto::broker::v1::{Deprecation, Descriptor, ProfileOperations};

use super::error::Code;
use super::secret::Secret;

/// Results of a batch, in the order of its inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch<T> {
    /// Results, one for each input.
    pub outputs: Vec<T>,
    /// Algorithm and profile that made the results.
    pub descriptor: Descriptor,
}

/// A request for a certificate, signed by a key of the broker's store. The profile decides what the request leaves out.
#[derive(Clone, Copy, Debug, Default)]
pub struct CertificateRequest<'a> {
    /// Name of the certificate profile.
    pub profile: &'a str,
    /// Certificate signing request, PKCS#10 in PEM or DER, at most 64 KiB.
    pub csr: &'a [u8],
    /// Id of the authority's key in the broker's store.
    pub ca_key: &'a str,
    /// The authority's certificate, PEM or DER, at most 64 KiB.
    pub ca_certificate: &'a [u8],
    /// First second of the certificate's validity, in seconds since 1970.
    pub not_before: Option<i64>,
    /// Last second of the certificate's validity, in seconds since 1970.
    pub not_after: Option<i64>,
    /// Subject instead of the request's, such as `CN=service,O=Example`.
    pub subject: Option<&'a str>,
    /// URLs of the certificate's revocation list: at most 16, http(s).
    pub crl_points: &'a [&'a str],
}

/// A signed certificate and the algorithm used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The certificate, X.509 in DER.
    pub der: Vec<u8>,
    /// Algorithm and profile that made the certificate.
    pub descriptor: Descriptor,
}

/// A plaintext to encrypt, with its parameters.
#[derive(Clone, Copy, Default)]
pub struct Plain<'a> {
    /// Bytes to encrypt, of any length that the profile allows.
    pub plaintext: &'a [u8],
    /// Additional authenticated data, which is not part of the result.
    pub aad: &'a [u8],
    /// Nonce, only if the profile leaves it to the caller; else empty.
    pub nonce: &'a [u8],
}

impl fmt::Debug for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plain").field("len", &self.plaintext.len()).finish_non_exhaustive()
    }
}

/// A ciphertext with all that decryption needs, except the key and the additional data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cipher {
    /// Version of the key that encrypted.
    pub key_version: u32,
    /// Nonce that the encryption used.
    pub nonce: Vec<u8>,
    /// Ciphertext, as long as the plaintext.
    pub ciphertext: Vec<u8>,
    /// Authentication tag of the ciphertext.
    pub tag: Vec<u8>,
}

/// A ciphertext to decrypt or rewrap.
#[derive(Clone, Copy, Debug)]
pub struct DecryptInput<'a> {
    /// The result of the encryption, unchanged.
    pub cipher: &'a Cipher,
    /// Additional authenticated data, as given for encryption.
    pub aad: &'a [u8],
}

/// Failure of one input of a batch, which leaves the other inputs unaffected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text} ({code:?})")]
pub struct Refusal {
    /// Kind of the failure, as a gRPC code.
    pub code: Code,
    /// The reason, in one line.
    pub text: String,
}

/// A signature or tag to verify.
#[derive(Clone, Copy)]
pub struct Verification<'a> {
    /// The input that was signed.
    pub input: &'a [u8],
    /// The signature, or the authentication tag.
    pub signature: &'a [u8],
    /// The version of the key; 0 tries the current one.
    pub key_version: u32,
}

impl fmt::Debug for Verification<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signed").field("key_version", &self.key_version).finish_non_exhaustive()
    }
}

/// Parameters of a key to derive with HKDF.
#[derive(Clone, Copy, Default)]
pub struct Derivation<'a> {
    /// HKDF's salt; may be empty.
    pub salt: &'a [u8],
    /// HKDF's info: the purpose of the key.
    pub info: &'a [u8],
    /// Length of the key in bytes.
    pub length: u32,
}

impl fmt::Debug for Derivation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Derivation").field("length", &self.length).finish_non_exhaustive()
    }
}

/// An encrypted content key of JWE.
#[derive(Clone, Copy, Debug)]
pub struct WrappedKey<'a> {
    /// Encrypted key, as long as the modulus of the RSA key.
    pub encrypted_key: &'a [u8],
    /// Length of the content key in bytes: 16, 24, 32, 48 or 64.
    pub length: u32,
}

/// Recipient of an encapsulated secret.
#[derive(Clone, Copy, Debug)]
pub enum Recipient<'a> {
    /// Id of a key in the broker's store.
    Key(&'a str),
    /// Public key of the recipient, as bytes.
    Public(&'a [u8]),
}

/// A shared secret, and the ciphertext that carries it to the recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encapsulation {
    /// Ciphertext to send to the recipient.
    pub ciphertext: Vec<u8>,
    /// Shared secret, to be kept by the caller.
    pub shared_secret: Secret,
}

/// Version, build and profiles of a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Information {
    /// Version of the Sealway release.
    pub version: String,
    /// Name of the crypto module.
    pub module: String,
    /// Version of the crypto module.
    pub module_version: String,
    /// Number of the module's validation certificate, or `none`.
    pub certificate: String,
    /// True for a FIPS build.
    pub is_fips: bool,
    /// Names of the profiles that the caller may use.
    pub profiles: Vec<String>,
    /// Algorithms of each of these profiles.
    pub operations: Vec<ProfileOperations>,
}

/// Health of a broker, by gRPC's health protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// The broker serves and accepts calls.
    Serving,
    /// The broker reports any other status, as it does before it ends.
    NotServing,
}

impl DecryptInput<'_> {
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

impl Verification<'_> {
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
        let v1::InformationResponse { version, module, module_version, certificate, is_fips, profiles, operations } =
            answer;
        Information { version, module, module_version, certificate, is_fips, profiles, operations }
    }
}

impl From<v1::Encapsulated> for Encapsulation {
    fn from(one: v1::Encapsulated) -> Self {
        Encapsulation { ciphertext: one.ciphertext, shared_secret: one.shared_secret.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_debug_output_shows_an_input() {
        let secret = b"a secret";
        let shown = [
            format!("{:?}", Plain { plaintext: secret, aad: secret, nonce: secret }),
            format!("{:?}", Verification { input: secret, signature: secret, key_version: 7 }),
            format!("{:?}", Derivation { salt: secret, info: secret, length: 32 }),
        ];
        // Debug output shows bytes as numbers.
        let numbers = format!("{:?}", &secret[..4]);
        for text in shown {
            assert!(!text.contains("a secret") && !text.contains(numbers.trim_matches(['[', ']'])), "{text}");
        }
    }
}

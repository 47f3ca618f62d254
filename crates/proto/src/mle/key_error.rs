//! Defects of keys and of their files.

use alloc::string::String;

use super::algorithm::{Alg, JwsAlg};
use super::load::{KEY_FILE_LEN_MAX, RSA_BITS_MAX, RSA_BITS_MIN};

/// The defect of key material. It holds nothing of the material but lengths, labels and names of keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The input is empty or longer than [`KEY_FILE_LEN_MAX`].
    #[error("the key is empty or longer than {KEY_FILE_LEN_MAX} bytes")]
    Length,
    /// The PEM text is cut, or its base64 is malformed.
    #[error("the PEM block has no end, or is not base64")]
    Pem,
    /// The PEM text holds no key or certificate.
    #[error("the PEM text holds no key and no certificate")]
    Absent,
    /// The PEM text holds more than one candidate.
    #[error("the PEM text holds more than one block of the kind {0:?}")]
    Ambiguous(&'static str),
    /// The private key is encrypted with a password.
    #[error("the private key is encrypted: decrypt it, or keep it in a PKCS#11 token")]
    Encrypted,
    /// A certificate or a public key where a private key is due.
    #[error("a private key is due, and the file holds a certificate or a public key")]
    PublicInPlaceOfPrivate,
    /// A private key where a certificate or a public key is due.
    #[error("a certificate or a public key is due, and the file holds a private key")]
    PrivateInPlaceOfPublic,
    /// The DER is not a key or a certificate of a known form.
    #[error("the DER is not of the form that is due")]
    Der,
    /// The key is not of the kind that its algorithm needs.
    #[error("the key is not of its algorithm's kind: RSA (rsaEncryption), or EC for ECDH-ES and ES256")]
    Kind,
    /// The key is on another curve than P-256, or its curve is not named.
    #[error("the key is not on the curve P-256 (prime256v1)")]
    Curve,
    /// The modulus is too short or too long.
    #[error("the RSA key has {0} bits; {RSA_BITS_MIN} to {RSA_BITS_MAX} are taken")]
    Bits(usize),
    /// The public exponent is even, 1, or longer than 32 bits.
    #[error("the public exponent is even, 1, or longer than 32 bits")]
    Exponent,
    /// The modulus has the structure of CVE-2017-15361 (ROCA).
    #[error("the RSA key has the structure of CVE-2017-15361 (ROCA)")]
    Roca,
    /// The algorithm does not belong to this kind of key.
    #[error("{0} is not an algorithm of this kind of key")]
    Algorithm(Alg),
    /// The algorithm does not belong to this kind of signing key.
    #[error("{0} is not an algorithm of this kind of key")]
    JwsAlgorithm(JwsAlg),
    /// A shared key has a length that is not its algorithm's.
    #[error("the shared key has {0} bytes, and its algorithm needs {1}")]
    SharedLength(usize, usize),
    /// A shared key is not base64.
    #[error("a shared key is base64 with padding (RFC 4648 section 4), and nothing else in its file")]
    SharedText,
    /// The certificate is not that of the private key.
    #[error("the certificate is not that of the private key")]
    Mismatch,
    /// The kid is empty or too long.
    #[error("the kid is empty or longer than 256 bytes")]
    Kid,
    /// Two keys of one set have the same kid.
    #[error("two keys have the kid {0:?}")]
    KidTwice(String),
    /// The derivation of the kid needs a certificate, and there is none.
    #[error("this kid is derived from a certificate, and there is none")]
    CertificateAbsent,
    /// The subject of the certificate has no serialNumber attribute, or several.
    #[error("the certificate's subject has no serialNumber attribute, or more than one")]
    SerialNumber,
}

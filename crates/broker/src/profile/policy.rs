//! The checked form of a profile. Whoever holds one may rely on every rule of spec/broker.md: algorithms exist, ranges are not
//! empty, validity does not end before it begins.

use std::time::Duration;

/// One named profile. The default one has no name and allows nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// 1 to 64 bytes, unique in the file; matched exactly.
    pub name: String,
    /// Set when it is to go away.
    pub deprecation: Option<Deprecation>,
    /// `API.HashData`.
    pub hash: Option<HashAlgorithm>,
    /// `API.SignCertificate`.
    pub certificate: Option<CertificatePolicy>,
    /// `API.EncryptData`.
    pub encrypt: Option<EncryptPolicy>,
    /// `API.SignData`.
    pub sign: Option<SignAlgorithm>,
    /// `API.SignData.KeyConstraints` for the kind of key that `sign` takes: others are refused. None where the file has none.
    pub sign_key_size: Option<SizeRange>,
    /// `API.Mac`.
    pub mac: Option<MacAlgorithm>,
    /// `API.Derive`.
    pub derive: Option<DeriveAlgorithm>,
    /// `API.Random`.
    pub random: bool,
    /// `API.Encapsulate`.
    pub kem: Option<KemAlgorithm>,
}

/// That a profile is to go away, as the file says it; told with every answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deprecation {
    /// `ReplacedBy`.
    pub replaced_by: Option<String>,
    /// `DeprecatedSince`.
    pub deprecated_since: Option<String>,
    /// `RemoveAfter`.
    pub remove_after: Option<String>,
    /// `Reason`.
    pub reason: Option<String>,
}

/// The digests of `API.HashData.HashAlg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HashAlgorithm {
    /// sha-256
    Sha256,
    /// sha-384
    Sha384,
    /// sha-512
    Sha512,
    /// sha-512/256
    Sha512_256,
    /// sha3-256
    Sha3_256,
    /// sha3-384
    Sha3_384,
    /// sha3-512
    Sha3_512,
    /// shake-128, 16 bytes of output
    Shake128,
    /// shake-256, 32 bytes of output
    Shake256,
}

/// The digests that a certificate's signature may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SignatureHash {
    /// SHA-256
    Sha256,
    /// SHA-384
    Sha384,
    /// SHA-512
    Sha512,
}

/// The kinds of keys that certificates are issued for and by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyKind {
    /// rsa; its size is the bit length of the modulus
    Rsa,
    /// ecdsa; its size is that of the curve's field, in bits
    Ecdsa,
}

/// The digest that a subject key identifier is the leftmost 160 bits of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SkiHash {
    /// An identifier, not security.
    Sha1,
    /// SHA-256
    Sha256,
    /// SHA-384
    Sha384,
    /// SHA-512
    Sha512,
    /// SHA3-256
    Sha3_256,
    /// SHA3-384
    Sha3_384,
    /// SHA3-512
    Sha3_512,
}

/// A time from now on, to either side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Offset {
    /// Nanoseconds, as a duration of Go counts them.
    pub ns: i64,
}

/// Sizes of keys in bits, both ends within. A file that was read leniently may have one that is empty: no key meets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeRange {
    /// The least.
    pub min: u32,
    /// The most.
    pub max: u32,
}

/// What keys of one side are allowed: an absent kind is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyConstraints {
    /// RSA keys.
    pub rsa: Option<SizeRange>,
    /// Keys on the NIST curves.
    pub ecdsa: Option<SizeRange>,
}

impl KeyConstraints {
    /// The sizes that keys of a kind may have.
    pub fn of(&self, kind: KeyKind) -> Option<SizeRange> {
        match kind {
            KeyKind::Rsa => self.rsa,
            KeyKind::Ecdsa => self.ecdsa,
        }
    }
}

/// The bits of KeyUsage (RFC 5280 section 4.2.1.3): bit n of this is bit n of the extension, 0 being digitalSignature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyUsage(pub u16);

/// Purposes of ExtendedKeyUsage (RFC 5280 section 4.2.1.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// serverAuth
    ServerAuth,
    /// clientAuth
    ClientAuth,
    /// codeSigning
    CodeSigning,
    /// emailProtection
    EmailProtection,
    /// timeStamping
    TimeStamping,
    /// OCSPSigning
    OcspSigning,
}

/// What is asked of the issuer; each can be switched off, none is unless the file says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IssuerChecks {
    /// Its certificate says that it is a CA.
    pub is_ca: bool,
    /// Its KeyUsage, where there is one, has keyCertSign.
    pub may_sign: bool,
    /// Its certificate is valid now.
    pub in_date: bool,
    /// Its path length allows what is issued.
    pub path_length: bool,
    /// What is issued does not outlive it.
    pub not_beyond: bool,
    /// Its certificate's own signature holds, where it is self-issued.
    pub own_signature: bool,
}

impl Default for IssuerChecks {
    fn default() -> IssuerChecks {
        IssuerChecks {
            is_ca: true,
            may_sign: true,
            in_date: true,
            path_length: true,
            not_beyond: true,
            own_signature: true,
        }
    }
}

/// `API.SignCertificate`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificatePolicy {
    /// The kind of the issuer's key; RSA is PKCS#1 v1.5.
    pub key_kind: KeyKind,
    /// The digest of its signature.
    pub hash: SignatureHash,
    /// Of the subject key identifier.
    pub ski: SkiHash,
    /// The earliest begin, from now, and the begin where the request names none.
    pub not_before: Offset,
    /// The latest end, from now, and the end where the request names none. Never before `not_before`.
    pub not_after: Offset,
    /// Keys that certificates are issued for.
    pub subject: KeyConstraints,
    /// Keys that issue.
    pub issuer: KeyConstraints,
    /// No extension when empty.
    pub key_usage: KeyUsage,
    /// In the file's order; no extension when empty.
    pub purposes: Vec<Purpose>,
    /// BasicConstraints: a CA.
    pub is_ca: bool,
    /// With `is_ca` alone.
    pub path_length: Option<u32>,
    /// The request's SubjectAltName is taken over (off unless the file says so).
    pub copies_san: bool,
    /// The OIDs, in dotted form, of further requested extensions that are taken over.
    pub copies_extensions: Vec<String>,
    /// What is asked of the issuer.
    pub checks: IssuerChecks,
}

/// Ciphers of `API.EncryptData.EncryptAlg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EncryptAlgorithm {
    /// aes-gcm with a key of 128 bits
    Aes128Gcm,
    /// aes-gcm with a key of 192 bits
    Aes192Gcm,
    /// aes-gcm with a key of 256 bits
    Aes256Gcm,
    /// aes-gcm-siv with a key of 256 bits
    Aes256GcmSiv,
    /// chacha20-poly1305
    ChaCha20Poly1305,
}

/// `API.EncryptData`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncryptPolicy {
    /// The cipher.
    pub algorithm: EncryptAlgorithm,
    /// The caller brings the nonce (`user-provided`); else the broker draws it. W4 knows the first alone.
    pub is_nonce_callers: bool,
    /// 12 to 16 bytes; our own wire honours it, W4 has 16 always.
    pub tag_len: usize,
}

/// Signatures of `API.SignData`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SignAlgorithm {
    /// RSA PKCS#1 v1.5
    RsaPkcs1(SignatureHash),
    /// RSA PSS, the salt as long as the digest
    RsaPss(SignatureHash),
    /// ECDSA, ASN.1 DER form
    EcdsaDer(Curve, SignatureHash),
    /// ECDSA, fixed form
    EcdsaRaw(Curve, SignatureHash),
    /// Ed25519
    Ed25519,
    /// ML-DSA-65
    MlDsa65,
}

/// The NIST curves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Curve {
    /// P-256
    P256,
    /// P-384
    P384,
    /// P-521
    P521,
}

/// `API.Mac`: HMAC (RFC 2104) over one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MacAlgorithm {
    /// hmac-sha-256
    HmacSha256,
    /// hmac-sha-384
    HmacSha384,
    /// hmac-sha-512
    HmacSha512,
}

/// `API.Derive`: HKDF (RFC 5869) over one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeriveAlgorithm {
    /// hkdf-sha-256
    HkdfSha256,
    /// hkdf-sha-384
    HkdfSha384,
    /// hkdf-sha-512
    HkdfSha512,
}

/// `API.Encapsulate` (FIPS 203).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KemAlgorithm {
    /// ml-kem-768
    MlKem768,
}

impl Offset {
    /// How far it is from now, to either side.
    pub fn distance(self) -> Duration {
        Duration::from_nanos(self.ns.unsigned_abs())
    }
}

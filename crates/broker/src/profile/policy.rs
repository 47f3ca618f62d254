//! The checked form of a profile. All rules of spec/broker.md hold for it: algorithms exist, ranges are not empty,
//! validity does not end before it begins.

use std::time::Duration;

use super::approval::Fault;
use super::standards::Adherence;

/// One named profile. The default value has no name and allows nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Name of 1 to 64 bytes, unique in the file; matched exactly.
    pub name: String,
    /// Announcement that the profile will be removed.
    pub deprecation: Option<Deprecation>,
    /// Digest algorithm of `API.HashData`; `None`: the operation is off.
    pub hash: Option<HashAlgorithm>,
    /// Certificate policy of `API.SignCertificate`; `None`: the operation is off.
    pub certificate: Option<CertificatePolicy>,
    /// Policy of `API.EncryptData`, also for decryption and rewrapping; `None`: the operations are off.
    pub encrypt: Option<EncryptPolicy>,
    /// Signature algorithm of `API.SignData`, also for verification; `None`: the operations are off.
    pub sign: Option<SignAlgorithm>,
    /// `API.SignData.KeyConstraints` for the key kind of `sign`: other sizes are rejected. `None` if the file has none.
    pub sign_key_size: Option<SizeRange>,
    /// True if `API.SignData` also signs with keys that have issued certificates.
    pub signs_with_ca_keys: bool,
    /// True if `API.SignData.Prehashed` lets callers sign and verify digests, which hide their messages.
    pub sign_digests: bool,
    /// MAC algorithm of `API.Mac`, also for verification; `None`: the operations are off.
    pub mac: Option<MacAlgorithm>,
    /// Derivation algorithm of `API.Derive`; `None`: the operation is off.
    pub derive: Option<DeriveAlgorithm>,
    /// True if `API.Random` is on.
    pub random: bool,
    /// Algorithm of `API.Encapsulate`, also for decapsulation; `None`: the operations are off.
    pub kem: Option<KemAlgorithm>,
    /// Algorithm of `API.Unwrap`; `None`: the operation is off.
    pub unwrap: Option<UnwrapAlgorithm>,
    /// Standard that the profile keeps to; `None` if it names none.
    pub standard: Option<Adherence>,
    /// Faults for which a validated module switches operations off.
    pub unapproved: Vec<Fault>,
}

/// Announcement that a profile will be removed, from the file; sent with every answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deprecation {
    /// Replacement, from the key `ReplacedBy`.
    pub replaced_by: Option<String>,
    /// Begin, from the key `DeprecatedSince`.
    pub deprecated_since: Option<String>,
    /// End, from the key `RemoveAfter`.
    pub remove_after: Option<String>,
    /// Text from the key `Reason`.
    pub reason: Option<String>,
}

/// Digests that `API.HashData.HashAlg` can name, of FIPS 180-4 and FIPS 202.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HashAlgorithm {
    /// sha-256, 32 bytes of output
    Sha256,
    /// sha-384, 48 bytes of output
    Sha384,
    /// sha-512, 64 bytes of output
    Sha512,
    /// sha-512/256, 32 bytes of output
    Sha512_256,
    /// sha3-256, 32 bytes of output
    Sha3_256,
    /// sha3-384, 48 bytes of output
    Sha3_384,
    /// sha3-512, 64 bytes of output
    Sha3_512,
    /// shake-128, 16 bytes of output
    Shake128,
    /// shake-256, 32 bytes of output
    Shake256,
}

/// Digests of a certificate's signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SignatureHash {
    /// SHA-256, a digest of 32 bytes
    Sha256,
    /// SHA-384, a digest of 48 bytes
    Sha384,
    /// SHA-512, a digest of 64 bytes
    Sha512,
}

impl SignatureHash {
    /// Returns the length of its digests, in bytes.
    pub const fn digest_len(self) -> usize {
        match self {
            SignatureHash::Sha256 => 32,
            SignatureHash::Sha384 => 48,
            SignatureHash::Sha512 => 64,
        }
    }
}

/// Kinds of keys in certificates, of subjects and issuers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyKind {
    /// rsa; its size is the bit length of the modulus
    Rsa,
    /// ecdsa; its size is that of the curve's field, in bits
    Ecdsa,
    /// ml-dsa; its size is the number of its parameter set: 44, 65 or 87
    MlDsa,
}

impl KeyKind {
    /// All kinds by the names of profiles.
    pub const NAMES: [(&str, KeyKind); 3] =
        [("rsa", KeyKind::Rsa), ("ecdsa", KeyKind::Ecdsa), ("ml-dsa", KeyKind::MlDsa)];

    /// Name of the kind in profiles and errors.
    pub fn name(self) -> &'static str {
        match self {
            KeyKind::Rsa => "rsa",
            KeyKind::Ecdsa => "ecdsa",
            KeyKind::MlDsa => "ml-dsa",
        }
    }
}

/// Signature algorithms of certificates, with which an issuer's key signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CertificateSignature {
    /// RSA PKCS#1 v1.5 with this digest
    Rsa(SignatureHash),
    /// ECDSA with this digest, on the curve of the issuer's key
    Ecdsa(SignatureHash),
    /// ML-DSA in its pure mode (RFC 9881)
    MlDsa(MlDsaAlgorithm),
}

impl CertificateSignature {
    /// Kind of the issuer's key.
    pub fn kind(self) -> KeyKind {
        match self {
            CertificateSignature::Rsa(_) => KeyKind::Rsa,
            CertificateSignature::Ecdsa(_) => KeyKind::Ecdsa,
            CertificateSignature::MlDsa(_) => KeyKind::MlDsa,
        }
    }

    /// True if a key of this kind and size, as in [`KeyKind`], can sign so.
    pub fn fits(self, kind: KeyKind, size: u32) -> bool {
        match self {
            CertificateSignature::MlDsa(set) => (kind, size) == (KeyKind::MlDsa, set.number()),
            CertificateSignature::Rsa(_) | CertificateSignature::Ecdsa(_) => kind == self.kind(),
        }
    }
}

/// Digest of a subject key identifier: its leftmost 160 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SkiHash {
    /// SHA-1 as an identifier, not for security.
    Sha1,
    /// SHA-256, the first 20 of 32 bytes
    Sha256,
    /// SHA-384, the first 20 of 48 bytes
    Sha384,
    /// SHA-512, the first 20 of 64 bytes
    Sha512,
    /// SHA3-256, the first 20 of 32 bytes
    Sha3_256,
    /// SHA3-384, the first 20 of 48 bytes
    Sha3_384,
    /// SHA3-512, the first 20 of 64 bytes
    Sha3_512,
}

/// A time relative to now, before or after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Offset {
    /// Nanoseconds, as in Go's durations.
    pub ns: i64,
}

/// Sizes of keys in bits, both ends included. A leniently read file may have an empty range, which no key meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeRange {
    /// Smallest allowed size of a key, in bits.
    pub min: u32,
    /// Largest allowed size of a key, in bits.
    pub max: u32,
}

/// Allowed sizes of keys by kind: an absent kind is rejected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyConstraints {
    /// Sizes of RSA keys, measured as the modulus.
    pub rsa: Option<SizeRange>,
    /// Sizes of keys on the NIST curves.
    pub ecdsa: Option<SizeRange>,
    /// Numbers of the parameter sets of ML-DSA keys.
    pub ml_dsa: Option<SizeRange>,
}

impl KeyConstraints {
    /// Allowed sizes of keys of a kind.
    pub fn of(&self, kind: KeyKind) -> Option<SizeRange> {
        match kind {
            KeyKind::Rsa => self.rsa,
            KeyKind::Ecdsa => self.ecdsa,
            KeyKind::MlDsa => self.ml_dsa,
        }
    }
}

/// Bits of KeyUsage (RFC 5280 section 4.2.1.3): bit n here is bit n of the extension, 0 being digitalSignature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyUsage(pub u16);

/// Purposes of ExtendedKeyUsage (RFC 5280 section 4.2.1.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// serverAuth: authentication of TLS servers
    ServerAuth,
    /// clientAuth: authentication of TLS clients
    ClientAuth,
    /// codeSigning: signatures of executable code
    CodeSigning,
    /// emailProtection: signed and encrypted e-mail
    EmailProtection,
    /// timeStamping: signatures of time stamps
    TimeStamping,
    /// OCSPSigning: signatures of OCSP responses
    OcspSigning,
}

/// Checks of the issuer. All are on by default; the file can switch each off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IssuerChecks {
    /// Checks that the issuer's certificate marks a CA.
    pub is_ca: bool,
    /// Checks that its KeyUsage, if present, has keyCertSign.
    pub may_sign: bool,
    /// Checks that its certificate is valid now.
    pub in_date: bool,
    /// Checks that its path length allows the issued certificate.
    pub path_length: bool,
    /// Checks that the issued certificate does not outlive it.
    pub not_beyond: bool,
    /// Checks the signature of a self-issued issuer's certificate.
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

/// Checked policy of `API.SignCertificate`: accepted keys, and contents of the issued certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificatePolicy {
    /// Signature algorithm of the certificates, which decides on the kind of the issuer's key.
    pub signature: CertificateSignature,
    /// Digest of the subject key identifier.
    pub ski: SkiHash,
    /// Earliest begin, relative to now; also the default begin.
    pub not_before: Offset,
    /// Latest end, relative to now; also the default end. Never before `not_before`.
    pub not_after: Offset,
    /// Kinds and sizes of keys that a request may hold.
    pub subject: KeyConstraints,
    /// Kinds and sizes of keys that may sign.
    pub issuer: KeyConstraints,
    /// Key usages; without any, no extension.
    pub key_usage: KeyUsage,
    /// Purposes in the file's order; without any, no extension.
    pub purposes: Vec<Purpose>,
    /// True to issue CA certificates (BasicConstraints).
    pub is_ca: bool,
    /// Path length of issued CAs, only with `is_ca`.
    pub path_length: Option<u32>,
    /// True to copy the request's SubjectAltName. Default false.
    pub copies_san: bool,
    /// OIDs, in dotted form, of further requested extensions that are copied.
    pub copies_extensions: Vec<String>,
    /// Checks of the issuer's certificate.
    pub checks: IssuerChecks,
}

/// Ciphers that `API.EncryptData.EncryptAlg` can name: AEADs with a nonce of 12 bytes.
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
    /// chacha20-poly1305 with a key of 256 bits (RFC 8439)
    ChaCha20Poly1305,
}

/// Encryption policy of `API.EncryptData`, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncryptPolicy {
    /// Cipher and length of its keys.
    pub algorithm: EncryptAlgorithm,
    /// True if the caller brings the nonce (`user-provided`), else the broker draws it. W4 knows only the first.
    pub is_nonce_callers: bool,
    /// Length of tags, 12 to 16 bytes; W4 always has 16.
    pub tag_len: usize,
}

/// Signature algorithms that `API.SignData` can name, with their digest and form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SignAlgorithm {
    /// RSA PKCS#1 v1.5 with this digest
    RsaPkcs1(SignatureHash),
    /// RSA PSS, the salt as long as the digest
    RsaPss(SignatureHash),
    /// ECDSA with signatures in ASN.1 DER form
    EcdsaDer(Curve, SignatureHash),
    /// ECDSA with signatures in the fixed form
    EcdsaRaw(Curve, SignatureHash),
    /// Ed25519 (RFC 8032), signatures of 64 bytes
    Ed25519,
    /// ML-DSA (FIPS 204) with the empty context
    MlDsa(MlDsaAlgorithm),
}

/// Parameter sets of ML-DSA (FIPS 204 table 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MlDsaAlgorithm {
    /// ml-dsa-44: signatures of 2,420 bytes, public keys of 1,312
    MlDsa44,
    /// ml-dsa-65: signatures of 3,309 bytes, public keys of 1,952
    MlDsa65,
    /// ml-dsa-87: signatures of 4,627 bytes, public keys of 2,592
    MlDsa87,
}

impl MlDsaAlgorithm {
    /// All parameter sets by the names of profiles and keys.
    pub const NAMES: [(&str, MlDsaAlgorithm); 3] = [
        ("ml-dsa-44", MlDsaAlgorithm::MlDsa44),
        ("ml-dsa-65", MlDsaAlgorithm::MlDsa65),
        ("ml-dsa-87", MlDsaAlgorithm::MlDsa87),
    ];

    /// Name of the parameter set in profiles, keys and descriptors.
    pub fn name(self) -> &'static str {
        match self {
            MlDsaAlgorithm::MlDsa44 => "ml-dsa-44",
            MlDsaAlgorithm::MlDsa65 => "ml-dsa-65",
            MlDsaAlgorithm::MlDsa87 => "ml-dsa-87",
        }
    }

    /// Number of the parameter set, which is its size in constraints of keys.
    pub fn number(self) -> u32 {
        match self {
            MlDsaAlgorithm::MlDsa44 => 44,
            MlDsaAlgorithm::MlDsa65 => 65,
            MlDsaAlgorithm::MlDsa87 => 87,
        }
    }
}

/// NIST curves of ECDSA keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Curve {
    /// P-256, signatures of 64 bytes in the fixed form
    P256,
    /// P-384, signatures of 96 bytes in the fixed form
    P384,
    /// P-521, signatures of 132 bytes in the fixed form
    P521,
}

impl Curve {
    /// Size of the curve's field, in bits.
    pub fn bits(self) -> u32 {
        match self {
            Curve::P256 => 256,
            Curve::P384 => 384,
            Curve::P521 => 521,
        }
    }
}

/// Algorithm of `API.Mac`: HMAC (RFC 2104) over a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MacAlgorithm {
    /// hmac-sha-256, tags of 32 bytes
    HmacSha256,
    /// hmac-sha-384, tags of 48 bytes
    HmacSha384,
    /// hmac-sha-512, tags of 64 bytes
    HmacSha512,
}

/// Algorithm of `API.Derive`: HKDF (RFC 5869) over a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeriveAlgorithm {
    /// hkdf-sha-256, outputs of at most 8,160 bytes
    HkdfSha256,
    /// hkdf-sha-384, outputs of at most 12,240 bytes
    HkdfSha384,
    /// hkdf-sha-512, outputs of at most 16,320 bytes
    HkdfSha512,
}

/// Algorithms of `API.Encapsulate`: parameter sets of ML-KEM (FIPS 203 table 2), each with shared secrets of 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KemAlgorithm {
    /// ml-kem-512: public keys of 800 bytes
    MlKem512,
    /// ml-kem-768: public keys of 1,184 bytes
    MlKem768,
    /// ml-kem-1024: public keys of 1,568 bytes
    MlKem1024,
}

impl KemAlgorithm {
    /// All parameter sets by the names of profiles and keys.
    pub const NAMES: [(&str, KemAlgorithm); 3] = [
        ("ml-kem-512", KemAlgorithm::MlKem512),
        ("ml-kem-768", KemAlgorithm::MlKem768),
        ("ml-kem-1024", KemAlgorithm::MlKem1024),
    ];

    /// Name of the parameter set in profiles, keys and descriptors.
    pub fn name(self) -> &'static str {
        match self {
            KemAlgorithm::MlKem512 => "ml-kem-512",
            KemAlgorithm::MlKem768 => "ml-kem-768",
            KemAlgorithm::MlKem1024 => "ml-kem-1024",
        }
    }

    /// Length of a ciphertext, in bytes (FIPS 203 table 3).
    pub fn ciphertext_len(self) -> usize {
        match self {
            KemAlgorithm::MlKem512 => 768,
            KemAlgorithm::MlKem768 => 1088,
            KemAlgorithm::MlKem1024 => 1568,
        }
    }
}

/// Algorithms of `API.Unwrap`, for content keys of JWE: RSAES-OAEP (RFC 8017 section 7.1) with an empty label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnwrapAlgorithm {
    /// rsa-oaep-256: SHA-256, also in MGF1; RSA-OAEP-256 of RFC 7518
    RsaOaep256,
    /// rsa-oaep: SHA-1, also in MGF1; RSA-OAEP of RFC 7518
    RsaOaep,
}

impl UnwrapAlgorithm {
    /// All algorithms with their names in profiles and descriptors.
    pub(crate) const NAMES: [(&str, UnwrapAlgorithm); 2] =
        [("rsa-oaep-256", UnwrapAlgorithm::RsaOaep256), ("rsa-oaep", UnwrapAlgorithm::RsaOaep)];

    /// Returns the name in profiles and descriptors.
    pub fn name(self) -> &'static str {
        UnwrapAlgorithm::NAMES.iter().find(|(_, known)| *known == self).map_or("unknown", |(name, _)| name)
    }
}

impl Offset {
    /// Absolute distance from now, before or after it.
    pub fn distance(self) -> Duration {
        Duration::from_nanos(self.ns.unsigned_abs())
    }
}

//! Algorithms of keys: only the operations of its algorithm use a key.

use std::fmt;

use aws_lc_rs::aead;

use crate::profile::policy::{
    Curve, DeriveAlgorithm, EncryptAlgorithm, KemAlgorithm, KeyKind, MacAlgorithm, MlDsaAlgorithm,
};

/// Smallest modulus of an RSA key, in bits.
const RSA_BITS_MIN: u32 = 2048;
/// Largest modulus of an RSA key, in bits.
const RSA_BITS_MAX: u32 = 8192;

/// Algorithm of a key, with the names of spec/broker.proto.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Encryption: `aes-128-gcm` and the other ciphers.
    Encrypt(EncryptAlgorithm),
    /// MACs: `hmac-sha-256` and the others.
    Mac(MacAlgorithm),
    /// Derivations: `hkdf-sha-256` and the others; the key is the input keying material.
    Derive(DeriveAlgorithm),
    /// ECDSA on a NIST curve: `ecdsa-p256`, `ecdsa-p384`, `ecdsa-p521`; also signs certificates.
    Ecdsa(Curve),
    /// RSA: `rsa-2048` to `rsa-8192`, the modulus in bits, a multiple of 8; both paddings, and certificates.
    Rsa(u32),
    /// RSA for content keys of JWE alone: `rsa-unwrap-2048` to `rsa-unwrap-8192`, the modulus in bits, a multiple of 8. It
    /// signs nothing.
    RsaUnwrap(u32),
    /// Ed25519: `ed25519`; a FIPS build generates and imports none.
    Ed25519,
    /// ML-DSA: `ml-dsa-44`, `ml-dsa-65`, `ml-dsa-87`, not in a FIPS build.
    MlDsa(MlDsaAlgorithm),
    /// Key encapsulation of FIPS 203: `ml-kem-512`, `ml-kem-768`, `ml-kem-1024`.
    Kem(KemAlgorithm),
}

/// Algorithms with a fixed name; RSA's names contain a number.
const NAMES: &[(&str, Algorithm)] = &[
    ("aes-128-gcm", Algorithm::Encrypt(EncryptAlgorithm::Aes128Gcm)),
    ("aes-192-gcm", Algorithm::Encrypt(EncryptAlgorithm::Aes192Gcm)),
    ("aes-256-gcm", Algorithm::Encrypt(EncryptAlgorithm::Aes256Gcm)),
    ("aes-256-gcm-siv", Algorithm::Encrypt(EncryptAlgorithm::Aes256GcmSiv)),
    ("chacha20-poly1305", Algorithm::Encrypt(EncryptAlgorithm::ChaCha20Poly1305)),
    ("hmac-sha-256", Algorithm::Mac(MacAlgorithm::HmacSha256)),
    ("hmac-sha-384", Algorithm::Mac(MacAlgorithm::HmacSha384)),
    ("hmac-sha-512", Algorithm::Mac(MacAlgorithm::HmacSha512)),
    ("hkdf-sha-256", Algorithm::Derive(DeriveAlgorithm::HkdfSha256)),
    ("hkdf-sha-384", Algorithm::Derive(DeriveAlgorithm::HkdfSha384)),
    ("hkdf-sha-512", Algorithm::Derive(DeriveAlgorithm::HkdfSha512)),
    ("ecdsa-p256", Algorithm::Ecdsa(Curve::P256)),
    ("ecdsa-p384", Algorithm::Ecdsa(Curve::P384)),
    ("ecdsa-p521", Algorithm::Ecdsa(Curve::P521)),
    ("ed25519", Algorithm::Ed25519),
    ("ml-dsa-44", Algorithm::MlDsa(MlDsaAlgorithm::MlDsa44)),
    ("ml-dsa-65", Algorithm::MlDsa(MlDsaAlgorithm::MlDsa65)),
    ("ml-dsa-87", Algorithm::MlDsa(MlDsaAlgorithm::MlDsa87)),
    ("ml-kem-512", Algorithm::Kem(KemAlgorithm::MlKem512)),
    ("ml-kem-768", Algorithm::Kem(KemAlgorithm::MlKem768)),
    ("ml-kem-1024", Algorithm::Kem(KemAlgorithm::MlKem1024)),
];

impl Algorithm {
    /// Returns the algorithm of a name in lower case.
    pub fn parse(name: &str) -> Option<Algorithm> {
        if let Some((_, algorithm)) = NAMES.iter().find(|(known, _)| *known == name) {
            return Some(*algorithm);
        }
        let digits = name.strip_prefix("rsa-")?;
        if let Some(digits) = digits.strip_prefix("unwrap-") {
            return rsa_bits(digits).map(Algorithm::RsaUnwrap);
        }
        rsa_bits(digits).map(Algorithm::Rsa)
    }

    /// All names, RSA's in the sizes that can be generated.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let unwrap = ["rsa-unwrap-2048", "rsa-unwrap-3072", "rsa-unwrap-4096", "rsa-unwrap-8192"];
        NAMES.iter().map(|(name, _)| *name).chain(["rsa-2048", "rsa-3072", "rsa-4096", "rsa-8192"]).chain(unwrap)
    }

    /// Approximate duration of an operation other than a verification, in µs, which decides on blocking work.
    pub(crate) fn about_us(self) -> u64 {
        match self {
            Algorithm::Encrypt(_) | Algorithm::Mac(_) | Algorithm::Derive(_) => 1,
            Algorithm::Ecdsa(Curve::P256) | Algorithm::Ed25519 => 20,
            Algorithm::Kem(_) => 50,
            Algorithm::Ecdsa(Curve::P384) => 90,
            Algorithm::Ecdsa(Curve::P521) | Algorithm::MlDsa(_) => 200,
            // Cubic in the length; 2 ms at 4096 bits.
            Algorithm::Rsa(bits) | Algorithm::RsaUnwrap(bits) => u64::from(bits / 1024).pow(3) * 32,
        }
    }

    /// Approximate duration of a verification, in µs.
    pub(crate) fn verify_us(self) -> u64 {
        match self {
            Algorithm::Ecdsa(Curve::P256) | Algorithm::Ed25519 | Algorithm::MlDsa(_) => 70,
            Algorithm::Ecdsa(Curve::P384) => 250,
            Algorithm::Ecdsa(Curve::P521) => 500,
            Algorithm::Rsa(bits) => u64::from(bits / 1024).pow(2) * 4,
            _ => self.about_us(),
        }
    }

    /// Kind and size of an RSA, ECDSA or ML-DSA key, as profiles measure it.
    pub(crate) fn size(self) -> Option<(KeyKind, u32)> {
        match self {
            Algorithm::Rsa(bits) => Some((KeyKind::Rsa, bits)),
            Algorithm::Ecdsa(curve) => Some((KeyKind::Ecdsa, curve.bits())),
            Algorithm::MlDsa(set) => Some((KeyKind::MlDsa, set.number())),
            _ => None,
        }
    }

    /// Name without the size of RSA, and the size of the key in bits or the number of the parameter set. Secrets of MACs and
    /// derivations have any length: 0.
    pub(crate) fn name_and_size(self) -> (&'static str, u32) {
        let name = NAMES.iter().find(|(_, algorithm)| *algorithm == self).map_or("rsa", |(name, _)| name);
        let size = match self {
            Algorithm::Encrypt(EncryptAlgorithm::Aes128Gcm) => 128,
            Algorithm::Encrypt(EncryptAlgorithm::Aes192Gcm) => 192,
            Algorithm::Encrypt(_) | Algorithm::Ed25519 => 256,
            Algorithm::Mac(_) | Algorithm::Derive(_) => 0,
            Algorithm::Ecdsa(curve) => curve.bits(),
            Algorithm::Rsa(bits) | Algorithm::RsaUnwrap(bits) => bits,
            Algorithm::MlDsa(MlDsaAlgorithm::MlDsa44) => 44,
            Algorithm::MlDsa(MlDsaAlgorithm::MlDsa65) => 65,
            Algorithm::MlDsa(MlDsaAlgorithm::MlDsa87) => 87,
            Algorithm::Kem(KemAlgorithm::MlKem512) => 512,
            Algorithm::Kem(KemAlgorithm::MlKem768) => 768,
            Algorithm::Kem(KemAlgorithm::MlKem1024) => 1024,
        };
        (name, size)
    }

    /// True if the key has a public half.
    pub fn is_asymmetric(self) -> bool {
        !matches!(self, Algorithm::Encrypt(_) | Algorithm::Mac(_) | Algorithm::Derive(_))
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, NAMES.iter().find(|(_, algorithm)| algorithm == self)) {
            (Algorithm::Rsa(bits), _) => write!(f, "rsa-{bits}"),
            (Algorithm::RsaUnwrap(bits), _) => write!(f, "rsa-unwrap-{bits}"),
            (_, Some((name, _))) => f.write_str(name),
            (_, None) => f.write_str("unknown"),
        }
    }
}

/// Returns the size in a name of RSA. Only one spelling of each: no sign, no leading zero.
fn rsa_bits(digits: &str) -> Option<u32> {
    let bits: u32 = digits.parse().ok().filter(|bits: &u32| bits.to_string() == digits)?;
    ((RSA_BITS_MIN..=RSA_BITS_MAX).contains(&bits) && bits.is_multiple_of(8)).then_some(bits)
}

/// Cipher of an encryption algorithm in the crypto library.
pub(crate) fn cipher(algorithm: EncryptAlgorithm) -> &'static aead::Algorithm {
    match algorithm {
        EncryptAlgorithm::Aes128Gcm => &aead::AES_128_GCM,
        EncryptAlgorithm::Aes192Gcm => &aead::AES_192_GCM,
        EncryptAlgorithm::Aes256Gcm => &aead::AES_256_GCM,
        EncryptAlgorithm::Aes256GcmSiv => &aead::AES_256_GCM_SIV,
        EncryptAlgorithm::ChaCha20Poly1305 => &aead::CHACHA20_POLY1305,
    }
}

/// Length of a generated secret key, in bytes: that of the cipher's key, or of the digest.
pub(crate) fn secret_len(algorithm: Algorithm) -> usize {
    match algorithm {
        Algorithm::Encrypt(algorithm) => cipher(algorithm).key_len(),
        Algorithm::Mac(MacAlgorithm::HmacSha256) | Algorithm::Derive(DeriveAlgorithm::HkdfSha256) => 32,
        Algorithm::Mac(MacAlgorithm::HmacSha384) | Algorithm::Derive(DeriveAlgorithm::HkdfSha384) => 48,
        Algorithm::Mac(MacAlgorithm::HmacSha512) | Algorithm::Derive(DeriveAlgorithm::HkdfSha512) => 64,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_name_round_trips_and_other_spellings_are_rejected() {
        for name in Algorithm::names().chain(["rsa-2056", "rsa-7680", "rsa-unwrap-2056"]) {
            assert_eq!(Algorithm::parse(name).unwrap().to_string(), name);
        }
        for name in ["", "aes", "AES-256-GCM", "rsa-", "rsa-02048", "rsa-+2048", "rsa-2047", "rsa-2049", "rsa-1024"] {
            assert_eq!(Algorithm::parse(name), None, "{name}");
        }
        for name in
            ["rsa-8200", "rsa-99999999999999999999", "aes-256-gcm ", "ecdsa-p224", "rsa-unwrap-", "rsa-unwrap-1024"]
        {
            assert_eq!(Algorithm::parse(name), None, "{name}");
        }
    }
}

//! Mechanisms of a profile: which the token offers, and the checks of their parameters.

use cryptoki_sys::{
    CK_EDDSA_PARAMS, CK_FLAGS, CK_MECHANISM, CK_MECHANISM_INFO, CK_MECHANISM_TYPE, CK_RSA_PKCS_MGF_TYPE,
    CK_RSA_PKCS_OAEP_PARAMS, CK_RSA_PKCS_PSS_PARAMS, CK_ULONG, CKF_DECRYPT, CKF_DIGEST, CKF_EC_F_P, CKF_EC_NAMEDCURVE,
    CKF_EC_UNCOMPRESS, CKF_SIGN, CKF_VERIFY, CKG_MGF1_SHA1, CKG_MGF1_SHA256, CKG_MGF1_SHA384, CKG_MGF1_SHA512,
    CKM_ECDSA, CKM_ECDSA_SHA256, CKM_ECDSA_SHA384, CKM_ECDSA_SHA512, CKM_EDDSA, CKM_RSA_PKCS, CKM_RSA_PKCS_OAEP,
    CKM_RSA_PKCS_PSS, CKM_SHA_1, CKM_SHA3_256, CKM_SHA3_384, CKM_SHA3_512, CKM_SHA256, CKM_SHA256_RSA_PKCS,
    CKM_SHA256_RSA_PKCS_PSS, CKM_SHA384, CKM_SHA384_RSA_PKCS, CKM_SHA384_RSA_PKCS_PSS, CKM_SHA512, CKM_SHA512_256,
    CKM_SHA512_RSA_PKCS, CKM_SHA512_RSA_PKCS_PSS, CKR_MECHANISM_INVALID, CKR_MECHANISM_PARAM_INVALID,
};
use sealway_client::broker::ProfileOperations;

use crate::failure::{Failure, Result};
use crate::pointer;

/// Smallest and largest RSA key of the broker, in bits.
const RSA_BITS: (CK_ULONG, CK_ULONG) = (2048, 8192);

/// Digests that signatures and paddings use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hash {
    Sha1,
    Sha256,
    Sha384,
    Sha512,
}

impl Hash {
    /// Length of a digest in bytes.
    pub(crate) fn len(self) -> usize {
        match self {
            Hash::Sha1 => 20,
            Hash::Sha256 => 32,
            Hash::Sha384 => 48,
            Hash::Sha512 => 64,
        }
    }

    fn mechanism(self) -> CK_MECHANISM_TYPE {
        match self {
            Hash::Sha1 => CKM_SHA_1,
            Hash::Sha256 => CKM_SHA256,
            Hash::Sha384 => CKM_SHA384,
            Hash::Sha512 => CKM_SHA512,
        }
    }

    fn mgf(self) -> CK_RSA_PKCS_MGF_TYPE {
        match self {
            Hash::Sha1 => CKG_MGF1_SHA1,
            Hash::Sha256 => CKG_MGF1_SHA256,
            Hash::Sha384 => CKG_MGF1_SHA384,
            Hash::Sha512 => CKG_MGF1_SHA512,
        }
    }

    /// Start of the DigestInfo of RFC 8017 section 9.2, which the digest follows.
    pub(crate) fn digest_info(self) -> Vec<u8> {
        let id = match self {
            Hash::Sha1 => return vec![0x30, 0x21, 0x30, 9, 6, 5, 0x2b, 0x0e, 3, 2, 0x1a, 5, 0, 4, 20],
            Hash::Sha256 => 1,
            Hash::Sha384 => 2,
            Hash::Sha512 => 3,
        };
        let len = self.len() as u8;
        vec![0x30, 17 + len, 0x30, 13, 6, 9, 0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, id, 5, 0, 4, len]
    }

    fn named(name: &str) -> Option<Hash> {
        match name {
            "sha-256" => Some(Hash::Sha256),
            "sha-384" => Some(Hash::Sha384),
            "sha-512" => Some(Hash::Sha512),
            _ => None,
        }
    }
}

/// Signature algorithm of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// ECDSA with numbers of this many bits; `is_raw` if the broker's signatures have the form of PKCS#11.
    Ecdsa {
        bits: CK_ULONG,
        is_raw: bool,
        hash: Hash,
    },
    RsaPkcs1(Hash),
    RsaPss(Hash),
    Ed25519,
}

impl Algorithm {
    /// Parses the name of a descriptor, such as `ecdsa-p256-raw-sha-256`; `None` for one without a mechanism.
    pub(crate) fn parse(name: &str) -> Option<Algorithm> {
        if name == "ed25519" {
            return Some(Algorithm::Ed25519);
        }
        let (family, hash) = name.split_at_checked(name.len().checked_sub("sha-256".len())?)?;
        let hash = Hash::named(hash)?;
        let ecdsa = |bits, is_raw| Some(Algorithm::Ecdsa { bits, is_raw, hash });
        match family {
            "rsa-pkcs1-" => Some(Algorithm::RsaPkcs1(hash)),
            "rsa-pss-" => Some(Algorithm::RsaPss(hash)),
            "ecdsa-p256-" => ecdsa(256, false),
            "ecdsa-p256-raw-" => ecdsa(256, true),
            "ecdsa-p384-" => ecdsa(384, false),
            "ecdsa-p384-raw-" => ecdsa(384, true),
            "ecdsa-p521-" => ecdsa(521, false),
            "ecdsa-p521-raw-" => ecdsa(521, true),
            _ => None,
        }
    }

    /// Digest of the algorithm, if it has one.
    pub(crate) fn hash(self) -> Option<Hash> {
        match self {
            Algorithm::Ecdsa { hash, .. } | Algorithm::RsaPkcs1(hash) | Algorithm::RsaPss(hash) => Some(hash),
            Algorithm::Ed25519 => None,
        }
    }

    /// Returns the mechanism that signs messages.
    fn of_messages(self) -> CK_MECHANISM_TYPE {
        let by_hash = |hash, mechanisms: [CK_MECHANISM_TYPE; 3]| match hash {
            Hash::Sha1 | Hash::Sha256 => mechanisms[0],
            Hash::Sha384 => mechanisms[1],
            Hash::Sha512 => mechanisms[2],
        };
        match self {
            Algorithm::Ecdsa { hash, .. } => by_hash(hash, [CKM_ECDSA_SHA256, CKM_ECDSA_SHA384, CKM_ECDSA_SHA512]),
            Algorithm::RsaPkcs1(hash) => by_hash(hash, [CKM_SHA256_RSA_PKCS, CKM_SHA384_RSA_PKCS, CKM_SHA512_RSA_PKCS]),
            Algorithm::RsaPss(hash) => {
                by_hash(hash, [CKM_SHA256_RSA_PKCS_PSS, CKM_SHA384_RSA_PKCS_PSS, CKM_SHA512_RSA_PKCS_PSS])
            }
            Algorithm::Ed25519 => CKM_EDDSA,
        }
    }

    /// Returns the mechanism that signs digests, if there is one.
    fn of_digests(self) -> Option<CK_MECHANISM_TYPE> {
        match self {
            Algorithm::Ecdsa { .. } => Some(CKM_ECDSA),
            Algorithm::RsaPkcs1(_) => Some(CKM_RSA_PKCS),
            Algorithm::RsaPss(_) => Some(CKM_RSA_PKCS_PSS),
            Algorithm::Ed25519 => None,
        }
    }

    fn sizes(self) -> (CK_ULONG, CK_ULONG) {
        match self {
            Algorithm::Ecdsa { bits, .. } => (bits, bits),
            Algorithm::RsaPkcs1(_) | Algorithm::RsaPss(_) => RSA_BITS,
            Algorithm::Ed25519 => (255, 255),
        }
    }
}

/// Purpose of a mechanism in a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Signs and verifies; `is_digest` if the input is a digest.
    Sign { algorithm: Algorithm, is_digest: bool },
    /// Decrypts a content key of JWE.
    Decrypt { hash: Hash, content_key_len: usize },
    /// Digests, to this many bytes.
    Digest { len: usize },
}

/// A mechanism that a token offers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    pub(crate) mechanism: CK_MECHANISM_TYPE,
    pub(crate) purpose: Use,
    sizes: (CK_ULONG, CK_ULONG),
    flags: CK_FLAGS,
}

impl Offer {
    pub(crate) fn info(&self) -> CK_MECHANISM_INFO {
        CK_MECHANISM_INFO { ulMinKeySize: self.sizes.0, ulMaxKeySize: self.sizes.1, flags: self.flags }
    }
}

/// Returns the mechanisms of a profile.
pub(crate) fn offers(operations: &ProfileOperations, content_key_len: Option<usize>) -> Vec<Offer> {
    let mut found = Vec::new();
    if let Some(algorithm) = Algorithm::parse(&operations.sign_data) {
        let curve = CKF_EC_F_P | CKF_EC_NAMEDCURVE | CKF_EC_UNCOMPRESS;
        let kind = if matches!(algorithm, Algorithm::Ecdsa { .. }) { curve } else { 0 };
        let mut add = |mechanism, is_digest| {
            let (purpose, flags) = (Use::Sign { algorithm, is_digest }, CKF_SIGN | CKF_VERIFY | kind);
            found.push(Offer { mechanism, purpose, sizes: algorithm.sizes(), flags });
        };
        add(algorithm.of_messages(), false);
        if let Some(mechanism) = algorithm.of_digests().filter(|_| operations.signs_digests) {
            add(mechanism, true);
        }
    }
    let hash = match operations.unwrap.as_str() {
        "rsa-oaep-256" => Some(Hash::Sha256),
        "rsa-oaep" => Some(Hash::Sha1),
        _ => None,
    };
    if let Some((hash, content_key_len)) = hash.zip(content_key_len) {
        let purpose = Use::Decrypt { hash, content_key_len };
        found.push(Offer { mechanism: CKM_RSA_PKCS_OAEP, purpose, sizes: RSA_BITS, flags: CKF_DECRYPT });
    }
    let digest = match operations.hash_data.as_str() {
        "sha-256" => Some((CKM_SHA256, 32)),
        "sha-384" => Some((CKM_SHA384, 48)),
        "sha-512" => Some((CKM_SHA512, 64)),
        "sha-512/256" => Some((CKM_SHA512_256, 32)),
        "sha3-256" => Some((CKM_SHA3_256, 32)),
        "sha3-384" => Some((CKM_SHA3_384, 48)),
        "sha3-512" => Some((CKM_SHA3_512, 64)),
        _ => None,
    };
    if let Some((mechanism, len)) = digest {
        found.push(Offer { mechanism, purpose: Use::Digest { len }, sizes: (0, 0), flags: CKF_DIGEST });
    }
    found
}

/// Finds the offer of a mechanism, and checks its parameter.
///
/// # Safety
/// The parameter of the mechanism is NULL, or has the length that the mechanism says.
pub(crate) unsafe fn find(offers: &[Offer], wanted: &CK_MECHANISM) -> Result<Offer> {
    let found = offers.iter().find(|offer| offer.mechanism == wanted.mechanism);
    let offer = *found.ok_or(Failure(CKR_MECHANISM_INVALID))?;
    let (parameter, len) = (wanted.pParameter, wanted.ulParameterLen);
    let fits = match offer.purpose {
        Use::Sign { algorithm: Algorithm::RsaPss(hash), .. } => {
            // SAFETY: the caller's promise.
            let pss = unsafe { pointer::parameter::<CK_RSA_PKCS_PSS_PARAMS>(parameter, len) };
            pss.is_some_and(|pss| {
                let is_salt = usize::try_from(pss.sLen) == Ok(hash.len());
                pss.hashAlg == hash.mechanism() && pss.mgf == hash.mgf() && is_salt
            })
        }
        Use::Decrypt { hash, .. } => {
            // SAFETY: the caller's promise.
            let oaep = unsafe { pointer::parameter::<CK_RSA_PKCS_OAEP_PARAMS>(parameter, len) };
            oaep.is_some_and(|oaep| {
                oaep.hashAlg == hash.mechanism() && oaep.mgf == hash.mgf() && oaep.ulSourceDataLen == 0
            })
        }
        Use::Sign { algorithm: Algorithm::Ed25519, .. } if len > 0 => {
            // SAFETY: the caller's promise.
            let eddsa = unsafe { pointer::parameter::<CK_EDDSA_PARAMS>(parameter, len) };
            eddsa.is_some_and(|eddsa| eddsa.phFlag == 0 && eddsa.ulContextDataLen == 0)
        }
        Use::Sign { .. } | Use::Digest { .. } => len == 0,
    };
    if fits { Ok(offer) } else { Err(Failure(CKR_MECHANISM_PARAM_INVALID)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signature_name_of_the_broker_is_known_or_has_no_mechanism() {
        for (name, wanted) in [
            ("ecdsa-p256-sha-256", Some(CKM_ECDSA_SHA256)),
            ("ecdsa-p384-raw-sha-384", Some(CKM_ECDSA_SHA384)),
            ("ecdsa-p521-sha-512", Some(CKM_ECDSA_SHA512)),
            ("rsa-pkcs1-sha-384", Some(CKM_SHA384_RSA_PKCS)),
            ("rsa-pss-sha-512", Some(CKM_SHA512_RSA_PKCS_PSS)),
            ("ed25519", Some(CKM_EDDSA)),
            ("ml-dsa-65", None),
            ("", None),
        ] {
            assert_eq!(Algorithm::parse(name).map(Algorithm::of_messages), wanted, "{name}");
        }
    }

    #[test]
    fn digests_have_a_mechanism_only_if_the_profile_allows_them() {
        let of = |signs_digests| {
            let operations =
                ProfileOperations { sign_data: "ecdsa-p256-sha-256".into(), signs_digests, ..Default::default() };
            offers(&operations, None).iter().map(|offer| offer.mechanism).collect::<Vec<_>>()
        };
        assert_eq!(of(false), [CKM_ECDSA_SHA256]);
        assert_eq!(of(true), [CKM_ECDSA_SHA256, CKM_ECDSA]);
    }
}

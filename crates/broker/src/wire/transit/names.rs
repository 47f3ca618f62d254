//! Names of the transit API: types of keys, digests, and the texts `vault:vN:…` that carry a version of a key.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use super::Fields;
use crate::keys::Algorithm;
use crate::profile::policy::{Curve, HashAlgorithm, MacAlgorithm, SignAlgorithm, SignatureHash};
use crate::{Refusal, Result};

/// Types of keys by their names, and the broker's algorithms.
const TYPES: [(&str, &str); 10] = [
    ("aes256-gcm96", "aes-256-gcm"),
    ("aes128-gcm96", "aes-128-gcm"),
    ("chacha20-poly1305", "chacha20-poly1305"),
    ("ed25519", "ed25519"),
    ("ecdsa-p256", "ecdsa-p256"),
    ("ecdsa-p384", "ecdsa-p384"),
    ("ecdsa-p521", "ecdsa-p521"),
    ("rsa-2048", "rsa-2048"),
    ("rsa-3072", "rsa-3072"),
    ("rsa-4096", "rsa-4096"),
];
/// HMAC keys by their length in bytes: the broker binds a key to one digest, whose length the key has.
const MACS: [(u32, MacAlgorithm); 3] =
    [(32, MacAlgorithm::HmacSha256), (48, MacAlgorithm::HmacSha384), (64, MacAlgorithm::HmacSha512)];
/// Digests of signatures by their names, the default first.
const SIGNATURE_HASHES: [(&str, SignatureHash); 3] =
    [("sha2-256", SignatureHash::Sha256), ("sha2-384", SignatureHash::Sha384), ("sha2-512", SignatureHash::Sha512)];
/// Digests of HMAC keys by their names.
const MAC_HASHES: [(&str, MacAlgorithm); 3] = [
    ("sha2-256", MacAlgorithm::HmacSha256),
    ("sha2-384", MacAlgorithm::HmacSha384),
    ("sha2-512", MacAlgorithm::HmacSha512),
];
/// Digests of the endpoint `hash`.
const HASHES: [(&str, HashAlgorithm); 6] = [
    ("sha2-256", HashAlgorithm::Sha256),
    ("sha2-384", HashAlgorithm::Sha384),
    ("sha2-512", HashAlgorithm::Sha512),
    ("sha3-256", HashAlgorithm::Sha3_256),
    ("sha3-384", HashAlgorithm::Sha3_384),
    ("sha3-512", HashAlgorithm::Sha3_512),
];
/// Begin of a text with a version.
const PREFIX: &str = "vault:v";

/// Takes the algorithm of a new key from `type`, `key_size` and `parameter_set`.
pub(super) fn algorithm(fields: &mut Fields) -> Result<Algorithm> {
    let (name, size) = (fields.text("type")?, fields.number("key_size")?.unwrap_or_default());
    let set = fields.text("parameter_set")?;
    let name = name.as_ref().map_or("aes256-gcm96", |name| name.as_str());
    match name {
        "hmac" => {
            let found = MACS.iter().find(|(len, _)| *len == if size == 0 { 32 } else { size });
            let text = "key_size: expected 32, 48 or 64 bytes, for sha2-256, sha2-384 or sha2-512";
            found.map(|(_, mac)| Algorithm::Mac(*mac)).ok_or_else(|| Refusal::invalid(text))
        }
        _ if size != 0 => Err(Refusal::invalid("key_size: only keys of type hmac have one")),
        "ml-dsa" => {
            let set = set.as_ref().and_then(|set| Algorithm::parse(&format!("ml-dsa-{}", set.as_str())));
            set.ok_or_else(|| Refusal::invalid("parameter_set: expected 44, 65 or 87"))
        }
        name => {
            let found = TYPES.iter().find(|(known, _)| *known == name);
            found.and_then(|(_, name)| Algorithm::parse(name)).ok_or_else(|| {
                let names: Vec<_> = TYPES.iter().map(|(name, _)| *name).collect();
                Refusal::invalid(format!("type: this broker generates {}, hmac, ml-dsa", names.join(", ")))
            })
        }
    }
}

/// Name of the type of a key; for a type that the API does not have, the broker's own.
pub(super) fn type_of(algorithm: Algorithm) -> String {
    let own = algorithm.to_string();
    match algorithm {
        Algorithm::Mac(_) => "hmac".to_owned(),
        Algorithm::MlDsa(_) => "ml-dsa".to_owned(),
        _ => TYPES.iter().find(|(_, name)| *name == own).map_or(own, |(name, _)| (*name).to_owned()),
    }
}

/// Finds a digest in the path, or takes it from one of two fields; the default is the first one.
fn hash<T: Copy>(option: Option<&str>, fields: &mut Fields, names: &[&str], known: &[(&str, T)]) -> Result<Option<T>> {
    let mut given = option.map(|option| zeroize::Zeroizing::new(option.to_owned()));
    for name in names {
        let text = fields.text(name)?.filter(|text| !text.is_empty());
        given = given.or(text);
    }
    let Some(given) = given else { return Ok(None) };
    let found = known.iter().find(|(name, _)| *name == given.as_str());
    found.map(|(_, hash)| Some(*hash)).ok_or_else(|| {
        let known: Vec<_> = known.iter().map(|(name, _)| *name).collect();
        Refusal::invalid(format!("{}: expected one of {}", names.first().unwrap_or(&"hash"), known.join(", ")))
    })
}

/// Finds the digest of the endpoint `hash`.
pub(super) fn plain_hash(option: Option<&str>, fields: &mut Fields) -> Result<(&'static str, HashAlgorithm)> {
    let found = hash(option, fields, &["algorithm"], &HASHES)?.unwrap_or(HashAlgorithm::Sha256);
    let name = HASHES.iter().find(|(_, known)| *known == found).map_or("", |(name, _)| name);
    Ok((name, found))
}

/// Checks that a digest that a request of HMAC names is that of the key, and returns the key's algorithm.
pub(super) fn mac(option: Option<&str>, fields: &mut Fields, key: Algorithm) -> Result<MacAlgorithm> {
    let asked = hash(option, fields, &["algorithm", "hash_algorithm"], &MAC_HASHES)?;
    let Algorithm::Mac(mac) = key else {
        let text = format!("a key of type {} makes no HMAC here; generate one of type hmac", type_of(key));
        return Err(Refusal::invalid(text));
    };
    if asked.is_some_and(|asked| asked != mac) {
        let own = MAC_HASHES.iter().find(|(_, known)| *known == mac).map_or("", |(name, _)| name);
        return Err(Refusal::invalid(format!("algorithm: the key is bound to {own}")));
    }
    Ok(mac)
}

/// Form of signatures in texts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Base64 with padding; of ECDSA the DER form.
    Asn1,
    /// Base64 of JWS, for URLs and without padding; of ECDSA the fixed form.
    Jws,
}

/// Takes the parameters of a signature: the algorithm for this key, and the form.
pub(super) fn signature(option: Option<&str>, fields: &mut Fields, key: Algorithm) -> Result<(SignAlgorithm, Form)> {
    let hash = hash(option, fields, &["hash_algorithm", "algorithm"], &SIGNATURE_HASHES)?;
    let digest = hash.unwrap_or(SignatureHash::Sha256);
    let form = fields.choice("marshaling_algorithm", &[("asn1", Form::Asn1), ("jws", Form::Jws)])?;
    let is_pss = fields.choice("signature_algorithm", &[("pss", true), ("", true), ("pkcs1v15", false)])?;
    let salt = fields.text("salt_length")?;
    let digest_len = match digest {
        SignatureHash::Sha256 => "32",
        SignatureHash::Sha384 => "48",
        SignatureHash::Sha512 => "64",
    };
    if salt.as_ref().is_some_and(|salt| !["", "auto", "hash", digest_len].contains(&salt.as_str())) {
        return Err(Refusal::invalid("salt_length: expected auto or hash: the salt is as long as the digest"));
    }
    fields.without(&["prehashed"], "this broker signs inputs and not digests; send the input")?;
    fields.without(&["context", "signature_context"], NOT_DERIVED)?;
    let algorithm = match key {
        Algorithm::Rsa(_) if is_pss => SignAlgorithm::RsaPss(digest),
        Algorithm::Rsa(_) => SignAlgorithm::RsaPkcs1(digest),
        Algorithm::Ecdsa(curve) if form == Form::Jws => SignAlgorithm::EcdsaRaw(curve, digest),
        Algorithm::Ecdsa(curve) => SignAlgorithm::EcdsaDer(curve, digest),
        Algorithm::Ed25519 => SignAlgorithm::Ed25519,
        Algorithm::MlDsa(set) => SignAlgorithm::MlDsa(set),
        other => return Err(Refusal::invalid(format!("a key of type {} signs nothing", type_of(other)))),
    };
    Ok((algorithm, form))
}

/// Name of a curve in descriptions of keys.
pub(super) fn curve_name(curve: Curve) -> &'static str {
    match curve {
        Curve::P256 => "P-256",
        Curve::P384 => "P-384",
        Curve::P521 => "P-521",
    }
}

/// Error for fields of derived keys and of convergent encryption.
pub(super) const NOT_DERIVED: &str = "this broker has no derived keys and no convergent encryption";

/// Writes bytes with the version of the key that made them.
pub(super) fn versioned(version: u32, bytes: &[u8], form: Form) -> String {
    let text = match form {
        Form::Asn1 => STANDARD.encode(bytes),
        Form::Jws => URL_SAFE_NO_PAD.encode(bytes),
    };
    format!("{PREFIX}{version}:{text}")
}

/// Reads a version and bytes of [`versioned`].
///
/// # Errors
/// [`Code::InvalidArgument`](crate::Code::InvalidArgument), with the name of the field.
pub(super) fn parse_versioned(field: &str, text: &str, form: Form) -> Result<(u32, Vec<u8>)> {
    let parsed = || {
        let (digits, text) = text.strip_prefix(PREFIX)?.split_once(':')?;
        let version: u32 = digits.parse().ok().filter(|version: &u32| *version > 0 && version.to_string() == digits)?;
        let bytes = match form {
            Form::Asn1 => STANDARD.decode(text),
            Form::Jws => URL_SAFE_NO_PAD.decode(text),
        };
        Some((version, bytes.ok()?))
    };
    parsed().ok_or_else(|| Refusal::invalid(format!("{field}: expected vault:vN: and base64")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_with_a_version_round_trips_and_other_spellings_are_rejected() {
        for form in [Form::Asn1, Form::Jws] {
            let text = versioned(12, b"\xff\xfe", form);
            assert_eq!(parse_versioned("ciphertext", &text, form).unwrap(), (12, b"\xff\xfe".to_vec()));
        }
        for text in ["", "vault:v1", "vault:v0:YQ==", "vault:v01:YQ==", "vault:v+1:YQ==", "vault:v1:YQ", "bao:v1:YQ=="]
        {
            let refusal = parse_versioned("ciphertext", text, Form::Asn1).unwrap_err();
            assert_eq!(refusal.text, "ciphertext: expected vault:vN: and base64", "{text}");
        }
        assert!(parse_versioned("x", "vault:v4294967296:YQ==", Form::Asn1).is_err());
    }

    #[test]
    fn every_type_of_key_is_known_by_its_own_name() {
        for (name, own) in TYPES {
            assert_eq!(type_of(Algorithm::parse(own).unwrap()), name);
        }
        assert_eq!(type_of(Algorithm::parse("aes-256-gcm-siv").unwrap()), "aes-256-gcm-siv");
    }
}

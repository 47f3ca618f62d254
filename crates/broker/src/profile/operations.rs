//! Operations on data of a profile: hash, encrypt, sign, mac, derive, random, encapsulate, unwrap.

use super::constraints;
use super::policy::{
    Curve, DeriveAlgorithm, EncryptAlgorithm, EncryptPolicy, HashAlgorithm, KemAlgorithm, MacAlgorithm, MlDsaAlgorithm,
    SignAlgorithm, SignatureHash, SizeRange, UnwrapAlgorithm,
};
use super::problem::Notes;
use super::section::{At, Section};
use crate::hash::NAMES;

pub(super) const SIGNATURE_HASHES: [(&str, SignatureHash); 3] =
    [("sha-256", SignatureHash::Sha256), ("sha-384", SignatureHash::Sha384), ("sha-512", SignatureHash::Sha512)];

/// Resolves `API.HashData`; `None` if it is absent or wrong, which `notes` then says.
pub(super) fn hash(api: &Section<'_>, notes: &mut Notes) -> Option<HashAlgorithm> {
    let section = present(api, "HashData", &["HashAlg"], notes)?;
    Some(section.required_name("HashAlg", &NAMES, "unsupported algorithm", notes)?.value)
}

/// Returns a section with content. An empty one is warned of, as its operation is off.
pub(super) fn present<'a>(api: &Section<'a>, key: &str, known: &[&str], notes: &mut Notes) -> Option<Section<'a>> {
    let section = api.section(key, known, notes);
    let left_empty = match &section {
        Some(section) => section.is_empty().then_some(section.line),
        None => api.is_left_empty(key),
    };
    if let Some(line) = left_empty {
        notes.warn(line, api.path_of(key), "is empty: the operation is off; name its algorithm, or take the key out");
        return None;
    }
    section
}

#[derive(Clone, Copy, PartialEq)]
enum Cipher {
    AesGcm,
    AesGcmSiv,
    ChaCha20Poly1305,
}

/// Resolves `API.EncryptData`; `None` if it is absent or wrong, which `notes` then says.
pub(super) fn encrypt(api: &Section<'_>, notes: &mut Notes) -> Option<EncryptPolicy> {
    let known = ["EncryptAlg", "KeySize", "NonceStrategy", "TagLength"];
    let section = present(api, "EncryptData", &known, notes)?;
    let ciphers = [
        ("aes-gcm", Cipher::AesGcm),
        ("aes-gcm-siv", Cipher::AesGcmSiv),
        ("chacha20-poly1305", Cipher::ChaCha20Poly1305),
    ];
    let cipher = section.required_name("EncryptAlg", &ciphers, "unsupported algorithm", notes);
    let strategies = [("user-provided", true), ("broker-generated", false)];
    let strategy = section.name("NonceStrategy", &strategies, "unsupported nonce strategy", notes);
    let size = section.number("KeySize", notes);
    let cipher = cipher?.value;
    let algorithm = algorithm(cipher, size, &section, notes);
    let tag_len = tag_len(cipher, &section, notes);
    Some(EncryptPolicy {
        algorithm: algorithm?,
        is_nonce_callers: strategy.is_some_and(|strategy| strategy.value),
        tag_len: tag_len?,
    })
}

fn algorithm(
    cipher: Cipher,
    size: Option<At<i64>>,
    section: &Section<'_>,
    notes: &mut Notes,
) -> Option<EncryptAlgorithm> {
    let (allowed, found) = match (cipher, size.map(|size| size.value)) {
        (Cipher::AesGcm, Some(128)) => ("", Some(EncryptAlgorithm::Aes128Gcm)),
        (Cipher::AesGcm, Some(192)) => ("", Some(EncryptAlgorithm::Aes192Gcm)),
        (Cipher::AesGcm, Some(256)) => ("", Some(EncryptAlgorithm::Aes256Gcm)),
        (Cipher::AesGcm, _) => ("128, 192, 256", None),
        (Cipher::AesGcmSiv, None | Some(256)) => ("", Some(EncryptAlgorithm::Aes256GcmSiv)),
        (Cipher::ChaCha20Poly1305, None | Some(256)) => ("", Some(EncryptAlgorithm::ChaCha20Poly1305)),
        (Cipher::AesGcmSiv | Cipher::ChaCha20Poly1305, Some(_)) => ("256", None),
    };
    if found.is_none() {
        match size {
            Some(size) => {
                let text = format!("unsupported key size: {}, available values: [{allowed}]", size.value);
                notes.problem(size.line, section.path_of("KeySize"), text);
            }
            None if section.get("KeySize").is_none() => {
                notes.problem(section.line, section.path_of("KeySize"), format!("required; one of {allowed}"));
            }
            None => {}
        }
    }
    found
}

/// Resolves the length of tags in bytes. Only AES-GCM allows other lengths than 16.
fn tag_len(cipher: Cipher, section: &Section<'_>, notes: &mut Notes) -> Option<usize> {
    if section.get("TagLength").is_none() {
        return Some(16);
    }
    let bits = section.number("TagLength", notes)?;
    let allowed: &[i64] = if cipher == Cipher::AesGcm { &[96, 104, 112, 120, 128] } else { &[128] };
    if !allowed.contains(&bits.value) {
        let listed = allowed.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
        let text = format!("unsupported tag length: {}, available values: [{listed}]", bits.value);
        notes.problem(bits.line, section.path_of("TagLength"), text);
        return None;
    }
    usize::try_from(bits.value / 8).ok()
}

#[derive(Clone, Copy, PartialEq)]
enum Family {
    Rsa,
    RsaPss,
    Ecdsa,
    Ed25519,
    MlDsa(MlDsaAlgorithm),
}

impl Family {
    /// True for families whose algorithm needs neither a digest nor a curve.
    fn is_fixed(self) -> bool {
        matches!(self, Family::Ed25519 | Family::MlDsa(_))
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Legacy,
    PostQuantum,
}

/// Policy of `API.SignData` in a profile.
pub(super) struct SignPolicy {
    pub(super) algorithm: SignAlgorithm,
    pub(super) key_size: Option<SizeRange>,
    pub(super) has_digests: bool,
    pub(super) has_ca_keys: bool,
}

/// Resolves `API.SignData`; `None` if it is absent or wrong, which `notes` then says.
pub(super) fn sign(api: &Section<'_>, notes: &mut Notes) -> Option<SignPolicy> {
    let known =
        ["SigningMode", "SignAlg", "HashAlg", "SignatureFormat", "Curve", "KeyConstraints", "CAKeys", "Prehashed"];
    let section = present(api, "SignData", &known, notes)?;
    let families = [
        ("rsa", Family::Rsa),
        ("rsa-pss", Family::RsaPss),
        ("ecdsa", Family::Ecdsa),
        ("ed25519", Family::Ed25519),
        ("ml-dsa-44", Family::MlDsa(MlDsaAlgorithm::MlDsa44)),
        ("ml-dsa-65", Family::MlDsa(MlDsaAlgorithm::MlDsa65)),
        ("ml-dsa-87", Family::MlDsa(MlDsaAlgorithm::MlDsa87)),
    ];
    let family = section.required_name("SignAlg", &families, "unsupported algorithm", notes);
    let modes = [("legacy", Mode::Legacy), ("post-quantum", Mode::PostQuantum)];
    let mode = section.name("SigningMode", &modes, "unsupported signing mode", notes);
    let sizes =
        section.get("KeyConstraints").map(|node| constraints::sizes(node, &section.path_of("KeyConstraints"), notes));
    let has_ca_keys = section.truth("CAKeys", notes).is_some_and(|is_on| is_on.value);
    let family = family?.value;
    let wanted = if matches!(family, Family::MlDsa(_)) { Mode::PostQuantum } else { Mode::Legacy };
    if let Some(mode) = mode.filter(|mode| mode.value != wanted) {
        notes.problem(mode.line, section.path_of("SigningMode"), "does not fit SignAlg");
    }
    let is_der = format(family, &section, notes);
    let has_digests = section.truth("Prehashed", notes).is_some_and(|is_on| is_on.value);
    let size = sizes.map(|sizes| match family {
        Family::Rsa | Family::RsaPss => sizes.rsa.unwrap_or(constraints::NONE),
        Family::Ecdsa => sizes.ecdsa.unwrap_or(constraints::NONE),
        Family::Ed25519 | Family::MlDsa(_) => SizeRange { min: 0, max: u32::MAX },
    });
    if family.is_fixed() {
        for key in ["HashAlg", "Curve", "KeyConstraints", "Prehashed"] {
            if let Some(node) = section.get(key) {
                notes.problem(node.line, section.path_of(key), "this SignAlg has none");
            }
        }
    }
    let algorithm = match family {
        Family::Ed25519 => SignAlgorithm::Ed25519,
        Family::MlDsa(set) => SignAlgorithm::MlDsa(set),
        Family::Rsa => SignAlgorithm::RsaPkcs1(signature_hash(&section, notes)?),
        Family::RsaPss => SignAlgorithm::RsaPss(signature_hash(&section, notes)?),
        Family::Ecdsa => {
            let (hash, curve) = (signature_hash(&section, notes), curve(&section, size, notes));
            if is_der { SignAlgorithm::EcdsaDer(curve?, hash?) } else { SignAlgorithm::EcdsaRaw(curve?, hash?) }
        }
    };
    Some(SignPolicy { algorithm, key_size: size.filter(|_| !family.is_fixed()), has_digests, has_ca_keys })
}

pub(super) fn signature_hash(section: &Section<'_>, notes: &mut Notes) -> Option<SignatureHash> {
    Some(section.required_name("HashAlg", &SIGNATURE_HASHES, "unsupported algorithm", notes)?.value)
}

/// Resolves `SignatureFormat`: true for DER, which only ECDSA supports besides the raw form.
fn format(family: Family, section: &Section<'_>, notes: &mut Notes) -> bool {
    let formats = [("raw", false), ("der", true)];
    let Some(format) = section.name("SignatureFormat", &formats, "unsupported signature format", notes) else {
        return true;
    };
    if format.value && family != Family::Ecdsa {
        notes.problem(format.line, section.path_of("SignatureFormat"), "DER is for ecdsa alone");
    }
    format.value
}

/// Resolves `Curve`, or the one curve that `KeyConstraints` allow.
fn curve(section: &Section<'_>, size: Option<SizeRange>, notes: &mut Notes) -> Option<Curve> {
    let curves = [("P-256", Curve::P256), ("P-384", Curve::P384), ("P-521", Curve::P521)];
    let within = |curve: Curve| size.is_none_or(|size| (size.min..=size.max).contains(&curve.bits()));
    let path = section.path_of("Curve");
    if section.get("Curve").is_some() {
        let At { line, value: curve } = section.name("Curve", &curves, "unsupported curve", notes)?;
        if !within(curve) {
            notes.problem(line, path, format!("KeyConstraints do not allow keys of {} bits", curve.bits()));
        }
        return Some(curve);
    }
    let mut left = curves.iter().filter(|(_, curve)| within(*curve));
    match (left.next(), left.next()) {
        (Some((_, curve)), None) => Some(*curve),
        _ => {
            let text = "required, unless KeyConstraints leave one curve; one of P-256, P-384, P-521";
            notes.problem(section.line, path, text);
            None
        }
    }
}

/// Resolves `API.Mac`; `None` if it is absent or wrong, which `notes` then says.
pub(super) fn mac(api: &Section<'_>, notes: &mut Notes) -> Option<MacAlgorithm> {
    let section = present(api, "Mac", &["MacAlg"], notes)?;
    let names = [
        ("hmac-sha-256", MacAlgorithm::HmacSha256),
        ("hmac-sha-384", MacAlgorithm::HmacSha384),
        ("hmac-sha-512", MacAlgorithm::HmacSha512),
    ];
    Some(section.required_name("MacAlg", &names, "unsupported algorithm", notes)?.value)
}

/// Resolves `API.Derive`; `None` if it is absent or wrong, which `notes` then says.
pub(super) fn derive(api: &Section<'_>, notes: &mut Notes) -> Option<DeriveAlgorithm> {
    let section = present(api, "Derive", &["DeriveAlg"], notes)?;
    let names = [
        ("hkdf-sha-256", DeriveAlgorithm::HkdfSha256),
        ("hkdf-sha-384", DeriveAlgorithm::HkdfSha384),
        ("hkdf-sha-512", DeriveAlgorithm::HkdfSha512),
    ];
    Some(section.required_name("DeriveAlg", &names, "unsupported algorithm", notes)?.value)
}

/// Resolves the switch `API.Random`; false if it is absent or no truth value, which `notes` then says.
pub(super) fn random(api: &Section<'_>, notes: &mut Notes) -> bool {
    api.truth("Random", notes).is_some_and(|is_on| is_on.value)
}

/// Resolves `API.Encapsulate`; `None` if it is absent or wrong, which `notes` then says.
pub(super) fn kem(api: &Section<'_>, notes: &mut Notes) -> Option<KemAlgorithm> {
    let section = present(api, "Encapsulate", &["KemAlg"], notes)?;
    Some(section.required_name("KemAlg", &KemAlgorithm::NAMES, "unsupported algorithm", notes)?.value)
}

/// Resolves `API.Unwrap`; `None` if it is absent or wrong, which `notes` then says.
pub(super) fn unwrap(api: &Section<'_>, notes: &mut Notes) -> Option<UnwrapAlgorithm> {
    let section = present(api, "Unwrap", &["UnwrapAlg"], notes)?;
    Some(section.required_name("UnwrapAlg", &UnwrapAlgorithm::NAMES, "unsupported algorithm", notes)?.value)
}

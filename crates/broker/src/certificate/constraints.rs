//! Constraints of a profile on the certified key and the issuer's key.

use super::key::{SigningKey, SubjectKey};
use crate::profile::policy::{KeyConstraints, KeyKind, SizeRange};
use crate::refusal::Refusal;

/// Checks the key that is to be certified.
pub(super) fn check_subject(allowed: &KeyConstraints, key: &SubjectKey) -> Result<(), Refusal> {
    let refused = |why: String| Err(Refusal::invalid(format!("error while signing data: {why}")));
    let (kind, size) = match key {
        SubjectKey::Sized { kind, size, .. } => (*kind, *size),
        SubjectKey::Unsupported(name) => {
            let why = format!("unsupported signature algorithm (public key) of type {name}");
            return refused(format!("invalid public key, err: {why}"));
        }
    };
    let Some(range) = allowed.of(kind) else { return refused(missing("algorithm used in the CSR's public key", kind)) };
    match outside(range, "public", size) {
        Some(why) => refused(format!("invalid public key, err: {why}")),
        None => Ok(()),
    }
}

/// Checks the key that is to sign.
pub(super) fn check_issuer(allowed: &KeyConstraints, key: &SigningKey<'_>) -> Result<(), Refusal> {
    let refused = |why: String| Err(Refusal::invalid(format!("error while signing data: {why}")));
    let (kind, size) = match key.size() {
        Ok(sized) => sized,
        Err(name) => {
            return refused(format!("invalid private key, err: unsupported private key algorithm of type {name}"));
        }
    };
    let Some(range) = allowed.of(kind) else { return refused(missing("algorithm used in the CA's private key", kind)) };
    match outside(range, "private", size) {
        Some(why) => refused(format!("invalid private key, err: {why}")),
        None => Ok(()),
    }
}

fn missing(whose: &str, kind: KeyKind) -> String {
    let name = match kind {
        KeyKind::Rsa => "rsa",
        KeyKind::Ecdsa => "ecdsa",
    };
    format!("profile does not contain key constraints for {whose}, err: missing key constraints for '{name}' algorithm")
}

fn outside(range: SizeRange, half: &str, size: u32) -> Option<String> {
    if size < range.min {
        return Some(format!("expected {half} key to be at least {} size, got: {size}", range.min));
    }
    (size > range.max).then(|| format!("expected {half} key to be at most {} size, got: {size}", range.max))
}

//! Constraints of a profile on the certified key and the issuer's key.

use super::key::{SigningKey, SubjectKey};
use crate::profile::policy::{KeyConstraints, KeyKind};
use crate::{Refusal, Result};

/// Checks the key that is to be certified.
pub(super) fn check_subject(allowed: &KeyConstraints, key: &SubjectKey) -> Result<()> {
    let checked = match key {
        SubjectKey::Sized { kind, size, .. } => {
            check(allowed, *kind, *size, "public", "algorithm used in the CSR's public key")
        }
        SubjectKey::Unsupported(name) => {
            Err(format!("invalid public key, err: unsupported signature algorithm (public key) of type {name}"))
        }
    };
    checked.map_err(refusal)
}

/// Checks the key that is to sign.
pub(super) fn check_issuer(allowed: &KeyConstraints, key: &SigningKey<'_>) -> Result<()> {
    let checked = match key.size() {
        Ok((kind, size)) => check(allowed, kind, size, "private", "algorithm used in the CA's private key"),
        Err(name) => Err(format!("invalid private key, err: unsupported private key algorithm of type {name}")),
    };
    checked.map_err(refusal)
}

fn refusal(why: String) -> Refusal {
    Refusal::invalid(format!("error while signing data: {why}"))
}

fn check(allowed: &KeyConstraints, kind: KeyKind, size: u32, half: &str, whose: &str) -> Result<(), String> {
    let Some(range) = allowed.of(kind) else {
        let name = kind.name();
        return Err(format!(
            "profile does not contain key constraints for {whose}, err: missing key constraints for '{name}' algorithm"
        ));
    };
    let (bound, limit) = match size {
        _ if size < range.min => ("least", range.min),
        _ if size > range.max => ("most", range.max),
        _ => return Ok(()),
    };
    Err(format!("invalid {half} key, err: expected {half} key to be at {bound} {limit} size, got: {size}"))
}

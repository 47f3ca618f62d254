//! Further checks of an issuer, beyond the fit of its key. Each check has a switch in the profile; the broker that this
//! one replaces had none of them. The checks cover the certificate in the request, not its chain: a relying party
//! verifies the chain.

use std::collections::VecDeque;

use aws_lc_rs::digest;
use parking_lot::Mutex;

use super::authority::Authority;
use super::time;
use super::validity::Validity;
use crate::profile::policy::CertificatePolicy;
use crate::{Refusal, Result};

/// Applies the profile's checks to the issuer.
pub(super) fn check(policy: &CertificatePolicy, ca: &Authority<'_>, validity: Validity, now_ms: u64) -> Result<()> {
    let refused =
        |why: String| Err(Refusal::invalid(format!("error while signing data: invalid CA certificate, err: {why}")));
    let checks = policy.checks;
    if checks.is_ca && !ca.is_ca {
        return refused("it is not that of a CA".to_owned());
    }
    if checks.may_sign && !ca.may_sign {
        return refused("its key usage lacks keyCertSign".to_owned());
    }
    let now = i64::try_from(now_ms / 1000).unwrap_or(i64::MAX);
    if checks.in_date && now < ca.not_before {
        return refused(format!("it is not valid before {}", time::text(ca.not_before)));
    }
    if checks.in_date && now > ca.not_after {
        return refused(format!("it has expired at {}", time::text(ca.not_after)));
    }
    if checks.path_length && policy.is_ca {
        let left = ca.path_length.map(|length| length.checked_sub(1));
        match (left, policy.path_length) {
            (Some(None), _) => return refused("its path length allows no CA below it".to_owned()),
            (Some(Some(left)), Some(asked)) if asked > left => {
                return refused(format!("its path length allows a path length of {left} below it, not {asked}"));
            }
            _ => {}
        }
    }
    if checks.not_beyond && validity.not_after > ca.not_after {
        let (end, own) = (time::text(validity.not_after), time::text(ca.not_after));
        return refused(format!("what it issues would end at {end}, after its own end at {own}"));
    }
    if checks.own_signature
        && ca.is_self_signed()
        && let Err(why) = own_signature(ca)
    {
        return refused(format!("its own signature does not hold: {why}"));
    }
    Ok(())
}

/// Most remembered certificates. Brokers have few issuers.
const HELD_MAX: usize = 64;

/// SHA-256 of certificates with a valid self-signature, the oldest first. An issuer signs many times, and its
/// self-signature takes as long to verify as a request's; the result for the same bytes never changes.
static HELD: Mutex<VecDeque<[u8; 32]>> = Mutex::new(VecDeque::new());

fn own_signature(ca: &Authority<'_>) -> Result<(), String> {
    let mut fingerprint = [0; 32];
    fingerprint.copy_from_slice(digest::digest(&digest::SHA256, ca.whole).as_ref());
    if HELD.lock().contains(&fingerprint) {
        return Ok(());
    }
    ca.verify_self()?;
    let mut held = HELD.lock();
    if held.len() >= HELD_MAX {
        held.pop_front();
    }
    held.push_back(fingerprint);
    Ok(())
}

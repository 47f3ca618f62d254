//! Validity of a certificate, compared in whole seconds, the resolution of certificates.

use super::{Bound, Request, time};
use crate::profile::policy::{CertificatePolicy, Offset};
use crate::{Refusal, Result};

/// Begin and end, in seconds since 1970, within the years 1 to 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Validity {
    pub(super) not_before: i64,
    pub(super) not_after: i64,
}

/// Returns the requested validity if the profile allows it; the profile's ends replace absent ones.
pub(super) fn resolve(policy: &CertificatePolicy, request: &Request<'_>) -> Result<Validity> {
    let refused = |why: String| Err(Refusal::invalid(format!("error while signing data: certificate validity {why}")));
    let (earliest, latest) = (after(request.now_ms, policy.not_before), after(request.now_ms, policy.not_after));
    let not_before = resolved(request.not_before, request.now_ms, earliest);
    let not_after = resolved(request.not_after, request.now_ms, latest);
    if not_before < earliest {
        let (asked, allowed) = (time::text(not_before), time::text(earliest));
        return refused(format!("(valid not before) {asked} is earlier than the allowed by the profile {allowed}"));
    }
    if not_after > latest {
        let (asked, allowed) = (time::text(not_after), time::text(latest));
        return refused(format!("(valid not after) {asked} is later than the allowed by the profile {allowed}"));
    }
    if not_before > not_after {
        let (begin, end) = (time::text(not_before), time::text(not_after));
        return refused(format!("(valid not before) {begin} is later than (valid not after) {end}"));
    }
    Ok(Validity { not_before, not_after })
}

fn resolved(asked: Bound, now_ms: u64, own: i64) -> i64 {
    match asked {
        Bound::Profile => own,
        Bound::At(seconds) => i64::try_from(seconds).unwrap_or(i64::MAX),
        Bound::From(offset) => after(now_ms, offset),
    }
}

/// Adds an offset to now, and rounds down to seconds.
fn after(now_ms: u64, offset: Offset) -> i64 {
    let ns = i128::from(now_ms) * 1_000_000 + i128::from(offset.ns);
    i64::try_from(ns.div_euclid(1_000_000_000)).unwrap_or(i64::MAX)
}

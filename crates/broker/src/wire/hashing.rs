//! Digests, as every wire asks for them.

use tracing::Span;

use super::call::{Call, work_of};
use crate::profile::policy::{Deprecation, Profile};
use crate::service::{Asked, Done, Service};
use crate::telemetry::{Trace, hashed};
use crate::{Refusal, hash};

/// What the slowest digest takes in of long inputs in a µs.
const BYTES_A_US: u64 = 300;

/// Digests, and by what they were made.
#[derive(Debug)]
pub(super) struct Hashed {
    pub(super) algorithm: &'static str,
    pub(super) digests: Vec<Vec<u8>>,
    pub(super) deprecation: Option<Deprecation>,
}

/// Digests inputs under a profile.
pub(super) async fn hash(
    call: &Call,
    service: &Service,
    trace: Trace<'_>,
    asked: (&'static str, &str),
    inputs: &[impl AsRef<[u8]> + Sync],
    shape: Result<(), Refusal>,
) -> Result<Hashed, Refusal> {
    let (wire, profile) = asked;
    let bytes_in = inputs.iter().map(|input| input.as_ref().len()).sum();
    let asked = Asked { operation: "HashData", wire, profile: Some(profile), key: None, count: inputs.len(), bytes_in };
    let work = |profile: &Profile| {
        let algorithm = profile.hash.ok_or_else(none)?;
        let name = hash::name(algorithm);
        let digest = || inputs.iter().map(|input| hash::digest(algorithm, input.as_ref())).collect();
        let digests: Vec<_> = work_of(bytes_in as u64 / BYTES_A_US, digest);
        hashed(name, digests.len());
        let bytes_out = digests.iter().map(Vec::len).sum();
        let span = Span::current();
        span.record("crypto.hash_algorithm", name);
        span.record("crypto.hash_output_size", bytes_out);
        let value = Hashed { algorithm: name, digests, deprecation: profile.deprecation.clone() };
        Ok(Done { value, key_version: None, bytes_out })
    };
    call.run(service, trace, asked, shape, |allowed| work(allowed.profile()?)).await
}

/// The profile hashes nothing.
fn none() -> Refusal {
    let names: Vec<_> = hash::ALL.into_iter().map(hash::name).collect();
    Refusal::invalid(format!(
        "error while hashing data: unknown '' algorithm value, available values: [{}]",
        names.join(" ")
    ))
}

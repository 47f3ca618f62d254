//! What the operations of our own wire have in common: trace context in a header, a profile, mostly a key, a descriptor.

use std::sync::Arc;

use sealway_proto::broker::v1::{Deprecation, Descriptor, Refusal as Refused};
use tonic::{Request, Status};

use super::super::bounds;
use super::super::call::{Call, work_of};
use super::super::status::status;
use crate::Refusal;
use crate::keys::{Algorithm, Key};
use crate::profile::policy::{self, Curve, Profile, SignAlgorithm, SignatureHash};
use crate::service::{Allowed, Asked, Done, Service};
use crate::telemetry::Trace;

/// What ciphers and MACs do at least in a µs.
const BYTES_A_US: u64 = 500;

/// A call of our own wire, short of its message.
pub(super) struct Arrived {
    pub(super) call: Call,
    trace_id: String,
    span_id: String,
}

impl Arrived {
    /// Takes the message out.
    pub(super) fn of<T>(request: Request<T>) -> Result<(Arrived, T), Status> {
        let call = Call::of(&request)?;
        let parent = request.metadata().get("traceparent").and_then(|value| value.to_str().ok()).unwrap_or_default();
        let mut parts = parent.split('-').skip(1).map(str::to_owned);
        let (trace_id, span_id) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        Ok((Arrived { call, trace_id, span_id }, request.into_inner()))
    }

    pub(super) fn trace(&self) -> Trace<'_> {
        Trace { trace_id: &self.trace_id, span_id: &self.span_id, correlation: "" }
    }
}

/// What is asked for under a profile.
pub(super) struct Wanted<'a> {
    pub(super) operation: &'static str,
    pub(super) profile: &'a str,
    pub(super) key: Option<&'a str>,
    pub(super) count: usize,
    pub(super) bytes_in: usize,
    /// What else is wrong with the request.
    pub(super) shape: Result<(), Refusal>,
}

/// What came of it.
pub(super) struct Outcome<T> {
    pub(super) value: T,
    /// 0 where no key of the store took part, or several versions did.
    pub(super) key_version: u32,
    pub(super) bytes_out: usize,
    pub(super) algorithm: String,
}

/// Does it, and describes it.
pub(super) async fn run<T: Send>(
    service: &Service,
    arrived: &Arrived,
    wanted: Wanted<'_>,
    work: impl FnOnce(&Profile, Option<&Arc<Key>>) -> Result<Outcome<T>, Refusal> + Send,
) -> Result<(Descriptor, T), Status> {
    let key_fits = wanted.key.map_or(Ok(()), |id| bounds::required("key_id", id.len(), crate::keys::KEY_ID_LEN_MAX));
    let shape = bounds::profile(wanted.profile).and(key_fits).and(wanted.shape);
    let asked = Asked {
        operation: wanted.operation,
        wire: "v1",
        profile: Some(wanted.profile),
        key: wanted.key,
        count: wanted.count,
        bytes_in: wanted.bytes_in,
    };
    let work = |allowed: &Allowed| {
        let profile = allowed.profile()?;
        let key = wanted.key.map(|_| allowed.key()).transpose()?;
        let each_us = if wanted.operation == "VerifyData" { Algorithm::verify_us } else { Algorithm::about_us };
        let each_us = key.map_or(0, |key| each_us(key.algorithm()));
        let about_us = each_us * wanted.count as u64 + wanted.bytes_in as u64 / BYTES_A_US;
        let outcome = work_of(about_us, || work(profile, key))?;
        let descriptor = Descriptor {
            profile: profile.name.clone(),
            operation: wanted.operation.to_owned(),
            algorithm: outcome.algorithm,
            key_id: wanted.key.unwrap_or_default().to_owned(),
            key_version: outcome.key_version,
            deprecation: profile.deprecation.as_ref().map(deprecation),
        };
        let key_version = Some(outcome.key_version).filter(|version| *version > 0);
        Ok(Done { value: (descriptor, outcome.value), key_version, bytes_out: outcome.bytes_out })
    };
    arrived.call.run(service, arrived.trace(), asked, shape, work).await.map_err(status)
}

pub(super) fn deprecation(found: &policy::Deprecation) -> Deprecation {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    Deprecation {
        replaced_by: text(&found.replaced_by),
        deprecated_since: text(&found.deprecated_since),
        remove_after: text(&found.remove_after),
        reason: text(&found.reason),
    }
}

/// One of a batch that was refused while others went on.
pub(super) fn refused(refusal: Refusal) -> Refused {
    Refused { code: refusal.code.number().into(), message: refusal.text }
}

/// A signature's algorithm by name, such as `ecdsa-p384-sha-384`.
pub(super) fn signature_name(algorithm: Option<SignAlgorithm>) -> String {
    let hash = |hash| match hash {
        SignatureHash::Sha256 => "sha-256",
        SignatureHash::Sha384 => "sha-384",
        SignatureHash::Sha512 => "sha-512",
    };
    let curve = |curve| match curve {
        Curve::P256 => "p256",
        Curve::P384 => "p384",
        Curve::P521 => "p521",
    };
    match algorithm {
        Some(SignAlgorithm::RsaPkcs1(of)) => format!("rsa-pkcs1-{}", hash(of)),
        Some(SignAlgorithm::RsaPss(of)) => format!("rsa-pss-{}", hash(of)),
        Some(SignAlgorithm::EcdsaDer(on, of)) => format!("ecdsa-{}-{}", curve(on), hash(of)),
        Some(SignAlgorithm::EcdsaRaw(on, of)) => format!("ecdsa-{}-raw-{}", curve(on), hash(of)),
        Some(SignAlgorithm::Ed25519) => "ed25519".into(),
        Some(SignAlgorithm::MlDsa65) => "ml-dsa-65".into(),
        None => String::new(),
    }
}

/// All of a batch together, in bytes.
pub(super) fn sum<'a, T: 'a>(batch: &'a [T], len: impl Fn(&T) -> usize) -> usize {
    batch.iter().map(len).fold(0, usize::saturating_add)
}

/// The inputs of a batch, as operations take them.
pub(super) fn slices(batch: &[Vec<u8>]) -> Vec<&[u8]> {
    batch.iter().map(Vec::as_slice).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signature_algorithm_has_a_name_of_its_own() {
        let mut names = std::collections::BTreeSet::new();
        for hash in [SignatureHash::Sha256, SignatureHash::Sha384, SignatureHash::Sha512] {
            names.insert(signature_name(Some(SignAlgorithm::RsaPkcs1(hash))));
            names.insert(signature_name(Some(SignAlgorithm::RsaPss(hash))));
            for curve in [Curve::P256, Curve::P384, Curve::P521] {
                names.insert(signature_name(Some(SignAlgorithm::EcdsaDer(curve, hash))));
                names.insert(signature_name(Some(SignAlgorithm::EcdsaRaw(curve, hash))));
            }
        }
        names.insert(signature_name(Some(SignAlgorithm::Ed25519)));
        names.insert(signature_name(Some(SignAlgorithm::MlDsa65)));
        assert_eq!(names.len(), 3 * 2 + 3 * 3 * 2 + 2);
        for name in ["rsa-pkcs1-sha-256", "rsa-pss-sha-512", "ecdsa-p384-sha-384", "ecdsa-p521-raw-sha-512"] {
            assert!(names.contains(name), "{name}: {names:?}");
        }
        assert_eq!(signature_name(None), "");
    }
}

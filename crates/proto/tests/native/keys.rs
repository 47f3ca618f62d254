//! Key sets, and the proofs of problems.

use sealway_proto::crypto::identity::SignatureAlgorithm;
use sealway_proto::session::native::problem::prove_clock;
use sealway_proto::session::native::{KeyId, KeySet, KeySetFault, Problem, RejectedRequest, sends_again};
use sealway_proto::wire::base64;
use sealway_proto::wire::stripped::{crosses_from_outside, crosses_from_within, is_alike};
use sealway_testkit::native_vectors::{KeySet3Refused, NativeHeaders, NativeKeySet, NativeProblem};
use sealway_testkit::vectors::Hex;

use super::calls::session;
use super::inits::client_session;
use super::{library, provider};

/// Returns the set if a client accepts it, otherwise the code of the rejection.
fn take(
    root: &Hex,
    accepted: Option<&[String]>,
    body: &str,
    now_ms: u64,
    taken_issued_ms: Option<u64>,
) -> Result<KeySet, &'static str> {
    // The caller, who has pinned the root, rejects such a one before.
    let named = SignatureAlgorithm::of_public(&root.0).map(SignatureAlgorithm::name);
    let is_restricted_away = accepted.is_some_and(|names| names.iter().all(|name| Some(name.as_str()) != named));
    let set = KeySet::parse(provider(), body.as_bytes()).map_err(|error| error.code())?;
    let last = taken_issued_ms.unwrap_or_default();
    if is_restricted_away && set.root.is_some() {
        return Err("key_untrusted");
    }
    set.verify(provider(), library(), &root.0, now_ms, last).map_err(|fault| match fault {
        KeySetFault::SignatureInvalid => "signature_invalid",
        KeySetFault::Unsigned
        | KeySetFault::OtherRoot
        | KeySetFault::Expired
        | KeySetFault::RolledBack
        | KeySetFault::RootInvalid => "key_untrusted",
    })?;
    Ok(set)
}

pub(crate) fn key_set(v: &NativeKeySet) {
    let accepted = v.signature_algorithms.as_deref();
    let set = take(&v.root_public_hex, accepted, &v.body, v.now_ms, v.taken_issued_ms).unwrap();
    assert_eq!(set.issued_ms, v.issued_ms);
    let known: Vec<_> = set.keys.iter().filter(|key| key.algorithm().is_some()).collect();
    assert_eq!(known.len(), v.keys.len());
    for (key, want) in known.into_iter().zip(&v.keys) {
        assert_eq!(key.key_id.as_str(), want.key_id);
        assert_eq!(*key.public_key, want.public_hex.0);
    }
    assert!(!v.signers.is_empty());
    for signer in &v.signers {
        let key = set.signer(&KeyId::parse(&signer.key_id).unwrap(), signer.server_time_ms, signer.now_ms);
        let is_accepted =
            |name: &str| accepted.map_or(name == "ES256", |names| names.iter().any(|other| other == name));
        let key = key.filter(|key| is_accepted(&key.alg));
        assert_eq!(key.is_some(), signer.trusted, "{signer:?}");
    }
    // The set is accepted once more after it is encoded again.
    assert_eq!(take(&v.root_public_hex, accepted, &set.encode(), v.now_ms, v.taken_issued_ms), Ok(set));
}

pub(crate) fn key_set_refused(v: &KeySet3Refused) -> &'static str {
    take(&v.root_public_hex, v.signature_algorithms.as_deref(), &v.body, v.now_ms, v.taken_issued_ms).unwrap_err()
}

/// Returns whether a client may accept the time in a problem.
fn is_proven(v: &NativeProblem, problem: &Problem) -> bool {
    let client = client_session(&v.client);
    let mac = problem.more.get("mac").and_then(|mac| base64::decode_array(mac.as_str()?).ok());
    let time = problem.more.get("server_time_ms").and_then(|value| value.as_u64());
    let (stamp, nonce) = (v.request.stamp.as_str(), v.request.nonce.as_str());
    let verifies = |(time, mac): (u64, [u8; 32])| client.verifies_clock(provider(), stamp, nonce, time, &mac);
    problem.code == "clock_skew" && time.zip(mac).is_some_and(verifies)
}

pub(crate) fn problem(v: &NativeProblem) {
    let status = if v.body.contains("clock_skew") { 400 } else { 401 };
    let problem = Problem::parse(status, v.body.as_bytes()).unwrap();
    assert_eq!(is_proven(v, &problem), v.proven);
    assert!(!v.resends.is_empty());
    for resend in &v.resends {
        let stamp_ms = v.request.stamp.parse().unwrap();
        let refused = RejectedRequest { method: &resend.method, stamp_ms, elapsed_ms: resend.elapsed_ms };
        assert_eq!(sends_again(&problem, v.proven, &refused), resend.again, "{resend:?}");
    }
    if v.proven {
        // The server's side: its mac is the same.
        let (session, time) = (session(&v.session), problem.more["server_time_ms"].as_u64().unwrap());
        let mac = prove_clock(provider(), &session, &v.request.stamp, &v.request.nonce, time).unwrap();
        assert_eq!(problem.more["mac"].as_str(), Some(base64::encode(&mac).as_str()));
    }
}

/// Checks each name by itself; the servers' tests run the whole scenario.
pub(crate) fn headers(v: &NativeHeaders) {
    let received = |name: &str, value: &str| v.service.contains(&(name.to_lowercase(), value.to_owned()));
    for (name, value) in &v.inner {
        assert_eq!(crosses_from_within(name), received(name, value), "{name} within");
    }
    for (name, value) in &v.outer {
        let lower = name.to_lowercase();
        let is_within = v.inner.iter().any(|(within, _)| is_alike(within, &lower) && crosses_from_within(within));
        let crosses = crosses_from_outside(&lower, v.front_trusted) && !is_within;
        assert_eq!(crosses, received(name, value), "{name} outside");
    }
}

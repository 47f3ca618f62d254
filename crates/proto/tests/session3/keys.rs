//! Key sets, and the proofs of problems.

use sealway_proto::session::three::problem::{expired_message, prove_clock};
use sealway_proto::session::three::{KeyId, KeySet, KeySetFault, Problem, Refused, sends_again};
use sealway_proto::wire::base64;
use sealway_testkit::session3_vectors::{KeySet3, KeySet3Refused, Problem3};
use sealway_testkit::vectors::Hex;

use super::calls::session;
use super::inits::{client_session, trusted};
use super::{es256, provider};

/// The set as far as it is taken; else the code of the refusal.
fn take(root: &Hex, body: &str, now_ms: u64, taken_issued_ms: Option<u64>) -> Result<KeySet, &'static str> {
    let set = KeySet::parse(provider(), body.as_bytes()).map_err(|error| error.code())?;
    let last = taken_issued_ms.unwrap_or_default();
    set.verify(provider(), es256(), &root.array(), now_ms, last).map_err(|fault| match fault {
        KeySetFault::SignatureInvalid => "signature_invalid",
        KeySetFault::Unsigned
        | KeySetFault::OtherRoot
        | KeySetFault::Expired
        | KeySetFault::RolledBack
        | KeySetFault::RootInvalid => "key_untrusted",
    })?;
    Ok(set)
}

pub(crate) fn key_set(v: &KeySet3) {
    let set = take(&v.root_public_hex, &v.body, v.now_ms, v.taken_issued_ms).unwrap();
    assert_eq!(set.issued_ms, v.issued_ms);
    assert_eq!(set.keys.len(), v.keys.len());
    for (key, want) in set.keys.iter().zip(&v.keys) {
        assert_eq!(key.key_id.as_str(), want.key_id);
        assert_eq!(key.public_key, want.public_hex.array());
    }
    // What is written anew is taken once more.
    assert_eq!(take(&v.root_public_hex, &set.encode(), v.now_ms, v.taken_issued_ms), Ok(set));
}

pub(crate) fn key_set_refused(v: &KeySet3Refused) -> &'static str {
    take(&v.root_public_hex, &v.body, v.now_ms, v.taken_issued_ms).unwrap_err()
}

/// Whether a client may do what the problem makes it do.
fn is_proven(v: &Problem3, problem: &Problem) -> bool {
    let client = client_session(&v.client);
    let text = |name: &str| problem.more.get(name).and_then(|value| value.as_str());
    let Some(time) = problem.more.get("server_time_ms").and_then(|value| value.as_u64()) else { return false };
    let (stamp, nonce) = (v.request.stamp.as_str(), v.request.nonce.as_str());
    match problem.code.as_str() {
        "clock_skew" => text("mac")
            .and_then(|mac| base64::decode_array(mac).ok())
            .is_some_and(|mac| client.verifies_clock(provider(), stamp, nonce, time, &mac)),
        "session_expired" => {
            let key = text("key_id").and_then(|id| trusted(&v.trusted_hex, &KeyId::parse(id).unwrap()));
            let signature = text("signature").and_then(|signature| base64::decode_array(signature).ok());
            key.zip(signature).is_some_and(|(key, signature)| {
                client.verifies_expiry(provider(), key.as_ref(), stamp, nonce, time, &signature)
            })
        }
        other => panic!("{other} carries no proof"),
    }
}

pub(crate) fn problem(v: &Problem3) {
    let status = if v.body.contains("clock_skew") { 400 } else { 401 };
    let problem = Problem::parse(status, v.body.as_bytes()).unwrap();
    assert_eq!(is_proven(v, &problem), v.proven);
    assert!(!v.resends.is_empty());
    for resend in &v.resends {
        let stamp_ms = v.request.stamp.parse().unwrap();
        let (method, elapsed_ms, session_end_ms) = (resend.method.as_str(), resend.elapsed_ms, v.session.expires_ms);
        let refused = Refused { method, stamp_ms, elapsed_ms, session_end_ms };
        assert_eq!(sends_again(&problem, v.proven, &refused), resend.again, "{resend:?}");
    }
    if !v.proven {
        return;
    }
    // The server's side: its mac is the same, its signature as good.
    let (session, time) = (session(&v.session), problem.more["server_time_ms"].as_u64().unwrap());
    let (stamp, nonce) = (v.request.stamp.as_str(), v.request.nonce.as_str());
    if problem.code == "clock_skew" {
        let mac = prove_clock(provider(), &session, stamp, nonce, time).unwrap();
        assert_eq!(problem.more["mac"].as_str(), Some(base64::encode(&mac).as_str()));
    } else {
        let message = expired_message(provider(), session.id(), stamp, nonce, time);
        let signature = base64::decode_array(problem.more["signature"].as_str().unwrap()).unwrap();
        let key = trusted(&v.trusted_hex, &KeyId::parse(problem.more["key_id"].as_str().unwrap()).unwrap()).unwrap();
        assert!(key.verify(&message, &signature));
    }
}

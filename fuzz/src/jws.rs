//! `mle-jws`: any bytes as a signed token, as a detached signature, and as a body that is signed. A signature is right if it is the text
//! `sig`, so that inputs reach the checks after it.

use std::sync::{Arc, LazyLock};

use sealway_proto::crypto::no_security::NoSecurity;
use sealway_proto::mle::compact::{Alphabet, decode};
use sealway_proto::mle::crypto::CryptoFailure;
use sealway_proto::mle::sign::jws::{self, Signer};
use sealway_proto::mle::sign::seam::{JwsProvider, Sign, Verify};
use sealway_proto::mle::sign::{Parties, SigningKey, VerifyingKey, VerifyingKeys, nested};
use sealway_proto::mle::{JwsAlg, KidSource, Message, Public};
use sealway_proto::session::Fresh;
use sealway_proto::wire::ReplayPolicy;
use serde_json::Value;

const NOW_S: u64 = 1_790_000_000;
const WINDOW_S: u64 = 120;
const PRIVATE: &[u8] = include_bytes!("../data/rfc7516-a1.pem");
const PUBLIC: &[u8] = include_bytes!("../../crates/proto/tests/mle/data/rfc7515-a2.pem");
const SIGNATURE: &[u8] = b"sig";

struct NoSignatures;

impl Sign for NoSignatures {
    fn sign(&self, _message: &[u8]) -> Result<Vec<u8>, CryptoFailure> {
        Ok(SIGNATURE.to_vec())
    }

    fn public_spki(&self) -> Result<Vec<u8>, CryptoFailure> {
        Ok(Public::load(PUBLIC).map_err(|_| CryptoFailure)?.der().to_vec())
    }
}

impl Verify for NoSignatures {
    fn verify(&self, _message: &[u8], signature: &[u8]) -> bool {
        signature == SIGNATURE
    }
}

impl JwsProvider for NoSignatures {
    fn signing_key(&self, _alg: JwsAlg, _pkcs8: &[u8]) -> Result<Box<dyn Sign>, CryptoFailure> {
        Ok(Box::new(NoSignatures))
    }

    fn verifying_key(&self, _alg: JwsAlg, _spki: &[u8]) -> Result<Box<dyn Verify>, CryptoFailure> {
        Ok(Box::new(NoSignatures))
    }
}

static KEYS: LazyLock<(SigningKey, VerifyingKeys)> = LazyLock::new(|| {
    let kid = KidSource::Fixed("k".into());
    let private = SigningKey::rsa(JwsAlg::Ps256, PRIVATE, None, &kid, &NoSignatures, &NoSecurity).expect("a key");
    let public = VerifyingKey::load(JwsAlg::Ps256, PUBLIC, &kid, &NoSignatures, &NoSecurity).expect("a key");
    (private, VerifyingKeys::new([Arc::new(public)]).expect("one key"))
});

fn parties() -> Parties {
    Parties { issuer: "i".into(), audience: "a".into(), subject: None }
}

fn verified(token: &[u8]) -> Option<Vec<u8>> {
    let replay = ReplayPolicy::new(WINDOW_S * 1000, 0);
    let now_ms = NOW_S * 1000;
    let opened = nested::verify(token, &parties(), &KEYS.1, Message::Request, &replay, now_ms, &NoSecurity).ok()?;
    assert!(opened.has_id);
    let opened = opened.guarded;
    assert!(opened.claim().stamp_ms().abs_diff(now_ms) <= WINDOW_S * 1000);
    let fresh = Fresh::reserved(opened.claim());
    Some(opened.release(fresh).expect("its own claim").to_vec())
}

/// Checks by another reader, which takes the last of a repeated member, that a header is one of the verifier's; returns it if the other
/// reader can hold its numbers.
fn check_header(token: &[u8]) -> Option<Value> {
    let header = token.split(|byte| *byte == b'.').next().unwrap_or_default();
    let header = decode(header, Alphabet::Strict).expect("a header that is taken is base64url");
    let header = crate::json::read(&header)?;
    assert_eq!(header["alg"], "PS256");
    assert!(header.get("kid").is_none_or(|kid| kid == "k"));
    for name in ["b64", "jku", "jwk", "x5u", "x5c", "x5t"] {
        assert!(header.get(name).is_none(), "{name} is taken");
    }
    Some(header)
}

/// The fuzz target for signed tokens.
pub fn jws(data: &[u8]) {
    if let Ok(payload) = jws::verify(data, &KEYS.1) {
        assert!(check_header(data).is_none_or(|header| header.get("crit").is_none()), "an extension is taken");
        assert_eq!(data.iter().filter(|byte| **byte == b'.').count(), 2);
        if let Some(claims) = verified(data) {
            assert_eq!(claims, payload, "the payload is not what was signed");
            check_claims(&claims);
        }
    } else {
        assert!(verified(data).is_none(), "claims without a signature are taken");
    }
    let signer = Signer { issuer: "i".into(), trust_anchor: "t".into() };
    if jws::verify_detached(data, b"body", &KEYS.1, &signer, WINDOW_S * 1000, NOW_S * 1000).is_ok()
        && let Some(header) = check_header(data)
    {
        assert_eq!(header["crit"].as_array().map(Vec::len), Some(3));
        assert_eq!(
            (&header["http://openbanking.org.uk/iss"], &header["http://openbanking.org.uk/tan"]),
            (&"i".into(), &"t".into())
        );
    }
    sign(data);
}

fn check_claims(payload: &[u8]) {
    let Some(claims) = crate::json::read(payload) else { return };
    assert_eq!(claims["iss"], "i");
    let is_audience = |value: &Value| value == "a" || value.as_array().is_some_and(|list| list.contains(&"a".into()));
    assert!(is_audience(&claims["aud"]));
    assert!(claims["exp"].as_u64().is_some_and(|exp| exp + 60 > NOW_S));
    assert!(claims["iat"].as_u64().is_some_and(|iat| iat.abs_diff(NOW_S) <= WINDOW_S));
    assert!(claims["jti"].as_str().is_some_and(|id| (1..=256).contains(&id.len())));
}

/// Signs a body: other members stay, whatever it had in the place of claims, and what is signed verifies.
fn sign(body: &[u8]) {
    let Ok(token) = nested::sign(body, &parties(), &KEYS.0, NOW_S * 1000, [7; 16]) else { return };
    let Some(mut before) = crate::json::read(body) else { return };
    let Some(payload) = verified(token.as_bytes()) else {
        // A member that stands twice, and `nbf`, are the body's own.
        return;
    };
    let mut after: Value = serde_json::from_slice(&payload).expect("a payload is JSON");
    assert_eq!((&after["iss"], &after["exp"]), (&"i".into(), &(NOW_S + 300).into()));
    for value in [&mut before, &mut after] {
        let members = value.as_object_mut().expect("an object");
        members.retain(|name, _| !["iss", "aud", "iat", "exp", "jti"].contains(&name.as_str()));
    }
    assert_eq!(after, before, "another member has changed");
}

//! DPoP proofs of a key (RFC 9449 section 4), each made for one init: `init_hash` covers the client's share, so a
//! captured proof does not fit another client's init. `spec/session-3.md#who-the-client-is`.
//!
//! The caller, which has a store and a clock, checks that a proof is new and within the time window.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sealway_proto::crypto::Provider;
use sealway_proto::crypto::identity::default_identity_library;
use serde_json::{Map, Value};

use super::normal_url;
use crate::answer::Refusal;

/// Maximum length of a proof, in bytes.
const PROOF_LEN_MAX: usize = 8 * 1024;
/// Maximum length of `jti`, in characters.
const JTI_LEN_MAX: usize = 128;
/// Length of a signature by ES256, in bytes.
const SIGNATURE_LEN: usize = 64;
/// Members of a JWK that hold, or imply, a private or symmetric key.
const PRIVATE: [&str; 8] = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"];

/// Claims of a verified proof.
#[derive(Debug)]
pub(super) struct Proof {
    /// Thumbprint of the proof's key (RFC 7638), base64url.
    pub(super) thumbprint: String,
    /// Id of the proof, its claim `jti`.
    pub(super) jti: String,
    /// Time at which the proof was made, in milliseconds since the epoch.
    pub(super) stamp_ms: u64,
}

/// Verifies a proof of `POST` to one of `urls`, each in normal form, with this token and this init.
// SPEC session-3.md#who-the-client-is
pub(super) fn verify(
    provider: &dyn Provider,
    proof: &str,
    token: &str,
    urls: &[String],
    init_hash: &[u8; 32],
) -> Result<Proof, Refusal> {
    const MALFORMED: Refusal = Refusal::Token("the proof is malformed");
    let mut parts = proof.split('.');
    let (Some(header), Some(payload), Some(signature), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(MALFORMED);
    };
    if proof.len() > PROOF_LEN_MAX {
        return Err(MALFORMED);
    }
    let signed = &proof[..header.len() + 1 + payload.len()];
    let (header, claims) = (object(header).ok_or(MALFORMED)?, object(payload).ok_or(MALFORMED)?);
    if text(&header, "typ") != Some("dpop+jwt") || text(&header, "alg") != Some("ES256") || header.contains_key("crit")
    {
        return Err(Refusal::Token("the proof is of a kind that is not taken"));
    }
    let jwk = header.get("jwk").and_then(Value::as_object).ok_or(MALFORMED)?;
    let (point, thumbprint) = public(provider, jwk).ok_or(Refusal::Token("the proof's key is not taken"))?;
    let signature = bytes(signature).filter(|signature| signature.len() == SIGNATURE_LEN).ok_or(MALFORMED)?;
    let key = default_identity_library().public(&point).map_err(|_| Refusal::Token("the proof's key is not taken"))?;
    if !key.verify(signed.as_bytes(), &signature) {
        return Err(Refusal::Token("the proof's signature"));
    }
    if text(&claims, "htm") != Some("POST") {
        return Err(Refusal::Token("the proof is of another method"));
    }
    let url = text(&claims, "htu").and_then(normal_url);
    if !url.is_some_and(|url| urls.contains(&url)) {
        return Err(Refusal::Token("the proof is for another URL"));
    }
    let hash = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    if text(&claims, "ath") != Some(hash(&provider.sha256(&[token.as_bytes()])).as_str()) {
        return Err(Refusal::Token("the proof is of another token"));
    }
    if text(&claims, "init_hash") != Some(hash(init_hash).as_str()) {
        return Err(Refusal::Token("the proof is of another init"));
    }
    let jti = text(&claims, "jti").filter(|jti| (1..=JTI_LEN_MAX).contains(&jti.chars().count())).ok_or(MALFORMED)?;
    // A time before the epoch becomes 0 and is thus outside every window.
    let stamp_ms = claims.get("iat").and_then(Value::as_f64).map(|sec| (sec * 1000.0) as u64).ok_or(MALFORMED)?;
    Ok(Proof { thumbprint, jti: jti.into(), stamp_ms })
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

fn object(text: &str) -> Option<Map<String, Value>> {
    serde_json::from_slice(&bytes(text)?).ok()
}

fn text<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    object.get(name).and_then(Value::as_str)
}

/// Returns the point of a P-256 key and its thumbprint (RFC 7638 section 3).
fn public(provider: &dyn Provider, jwk: &Map<String, Value>) -> Option<([u8; 65], String)> {
    let is_public = !PRIVATE.iter().any(|name| jwk.contains_key(*name));
    if !is_public || text(jwk, "kty") != Some("EC") || text(jwk, "crv") != Some("P-256") {
        return None;
    }
    // The decoder accepts one spelling of each value only, so one key has one thumbprint.
    let (x_text, y_text) = (text(jwk, "x")?, text(jwk, "y")?);
    let (x, y) = (bytes(x_text)?, bytes(y_text)?);
    if x.len() != 32 || y.len() != 32 {
        return None;
    }
    let mut point = [4; 65];
    point[1..33].copy_from_slice(&x);
    point[33..].copy_from_slice(&y);
    let canonical = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x_text}","y":"{y_text}"}}"#);
    Some((point, URL_SAFE_NO_PAD.encode(provider.sha256(&[canonical.as_bytes()]))))
}

//! The JWT of Visa Acceptance (Cybersource), which has a digest of the body among its claims. SPEC mle.md#visa-acceptance-jwt

use alloc::format;
use alloc::string::String;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::key::SigningKey;
use super::{Request, hex, jws};
use crate::crypto::Provider;
use crate::mle::refusal::Refusal;

/// Time for which a token is valid, in seconds.
const VALID_S: u64 = 120;

/// Signs a request, and returns the token for `Authorization: Bearer`. `key` has the algorithm `RS256`, and the serialNumber attribute of
/// the merchant certificate's subject as its name. `answer_kid` is the key that answers are encrypted to. `id` is used once.
///
/// # Errors
/// [`Class::Signature`](super::super::Class::Signature) if the library fails.
pub fn token(
    request: &Request<'_>,
    merchant_id: &str,
    answer_kid: Option<&str>,
    key: &SigningKey,
    now_ms: u64,
    id: [u8; 16],
    hashes: &dyn Provider,
) -> Result<String, Refusal> {
    let text = |value: &str| Value::from(value);
    let (now_s, merchant) = (now_ms / 1000, text(merchant_id));
    let mut claims = String::from("{");
    if !request.body.is_empty() || ["POST", "PUT", "PATCH"].contains(&request.method) {
        let digest = STANDARD.encode(hashes.sha256(&[request.body]));
        claims += &format!(r#""digest":"{digest}","digestAlgorithm":"SHA-256","#);
    }
    claims += &format!(
        r#""iat":{now_s},"exp":{},"request-host":{},"request-resource-path":{},"request-method":{},"#,
        now_s + VALID_S,
        text(request.origin.authority()),
        text(&request.target()),
        text(request.method),
    );
    claims += &format!(r#""iss":{merchant},"jti":"{}","v-c-jwt-version":"2","v-c-merchant-id":{merchant}"#, uuid(id),);
    if let Some(kid) = answer_kid {
        claims += &format!(r#","v-c-response-mle-kid":{}"#, text(kid));
    }
    claims.push('}');
    jws::sign(claims.as_bytes(), "JWT", key)
}

/// Writes random bytes as a UUID of version 4 (RFC 9562 section 5.4).
fn uuid(mut id: [u8; 16]) -> String {
    id[6] = id[6] & 0x0f | 0x40;
    id[8] = id[8] & 0x3f | 0x80;
    let mut text = hex(&id);
    for at in [20, 16, 12, 8] {
        text.insert(at, '-');
    }
    text
}

//! Proofs that a client holds the key that its token is bound to (RFC 9449). `spec/session-3.md#who-the-client-is`.

use sealway_proto::crypto::default_provider;
use sealway_proto::wire::base64;
use serde_json::json;

use super::session::DpopKey;
use crate::clock::now_ms;
use crate::error::{Error, ErrorKind};

/// Creates a proof for one init at `url`, which has no query.
pub(super) fn proof(key: &DpopKey, token: &str, url: &str, init_hash: &[u8; 32]) -> Result<String, Error> {
    let (provider, key) = (default_provider(), &key.0);
    let mut id = [0; 16];
    provider.fill_random(&mut id).map_err(ErrorKind::Seal)?;
    let (x, y) = key.public()[1..].split_at(32);
    let jwk = json!({ "kty": "EC", "crv": "P-256", "x": base64url(x), "y": base64url(y) });
    let head = json!({ "typ": "dpop+jwt", "alg": "ES256", "jwk": jwk });
    let claims = json!({
        "jti": base64url(&id),
        "htm": "POST",
        "htu": url,
        "iat": now_ms() / 1000,
        "ath": base64url(&provider.sha256(&[token.as_bytes()])),
        "init_hash": base64url(init_hash),
    });
    let signed = [head, claims].map(|part| base64url(part.to_string().as_bytes())).join(".");
    let signature = key.sign(signed.as_bytes()).map_err(ErrorKind::Seal)?;
    Ok([signed.as_str(), &base64url(&signature)].join("."))
}

fn base64url(bytes: &[u8]) -> String {
    base64::encode(bytes).trim_end_matches('=').replace('+', "-").replace('/', "_")
}

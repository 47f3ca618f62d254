//! Visa's `x-pay-token`: an HMAC over time, path, query and body. SPEC mle.md#visa-x-pay-token

use alloc::format;
use alloc::string::{String, ToString};

use super::{Request, hex, refusal};
use crate::crypto::Provider;
use crate::mle::refusal::Refusal;

/// Signs a request, and returns the value of its header `x-pay-token`. `path_prefix` is the start of the path that the token leaves out;
/// the query is covered as it stands.
///
/// # Errors
/// [`Class::Signature`](super::super::Class::Signature) for a path that does not begin with the prefix.
pub fn token(
    request: &Request<'_>,
    shared_secret: &[u8],
    path_prefix: &str,
    now_ms: u64,
    hashes: &dyn Provider,
) -> Result<String, Refusal> {
    let path = request.path.strip_prefix(path_prefix);
    let path = path.ok_or_else(|| refusal("the path does not begin with the prefix that the token leaves out"))?;
    let timestamp = (now_ms / 1000).to_string();
    let query = request.query.unwrap_or_default();
    let parts = [timestamp.as_bytes(), path.as_bytes(), query.as_bytes(), request.body];
    let mac = hashes.hmac_sha256(shared_secret, &parts);
    Ok(format!("xv2:{timestamp}:{}", hex(mac.as_slice())))
}

//! The opening handshake of WebSocket over HTTP/1.1 (RFC 6455 section 4): keys and their answers.

use aws_lc_rs::{digest, rand};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue};

/// The protocol's name in `Upgrade` and `:protocol`.
pub const PROTOCOL: &[u8] = b"websocket";
/// The header with the client's key.
pub const KEY: HeaderName = HeaderName::from_static("sec-websocket-key");
/// The header with the server's answer to the key.
pub const ACCEPT: HeaderName = HeaderName::from_static("sec-websocket-accept");

/// Appended to a key before it is hashed (RFC 6455 section 1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Length of a key, decoded, in bytes.
const KEY_LEN: usize = 16;

/// Returns the client's key; `None` without a key of 16 bytes in base64, or with several.
pub fn key(headers: &HeaderMap) -> Option<&[u8]> {
    let mut keys = headers.get_all(KEY).iter().map(HeaderValue::as_bytes);
    let key = keys.next().filter(|_| keys.next().is_none());
    key.filter(|key| STANDARD.decode(key).is_ok_and(|key| key.len() == KEY_LEN))
}

/// Creates a key. `None` if the system gives no random numbers.
pub fn new_key() -> Option<HeaderValue> {
    let mut key = [0; KEY_LEN];
    rand::fill(&mut key).ok()?;
    HeaderValue::try_from(STANDARD.encode(key)).ok()
}

/// Returns the server's answer to a key.
pub fn accept(key: &[u8]) -> String {
    let mut context = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    context.update(key);
    context.update(GUID);
    STANDARD.encode(context.finish().as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_a_key_is_that_of_the_rfc() {
        assert_eq!(accept(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn a_key_has_16_bytes_and_stands_once() {
        let of = |keys: &[&'static str]| {
            let headers: HeaderMap = keys.iter().map(|key| (KEY, HeaderValue::from_static(key))).collect();
            key(&headers).is_some()
        };
        assert!(of(&["dGhlIHNhbXBsZSBub25jZQ=="]));
        for keys in [&[][..], &[""], &["dGhlIHNhbXBsZSBub25jZQ"], &["dGhlIHNhbXBsZQ=="], &["no base64 at all!!!!!!=="]]
        {
            assert!(!of(keys), "{keys:?}");
        }
        let mut headers = HeaderMap::new();
        let (one, other) = (new_key().unwrap(), new_key().unwrap());
        assert_ne!(one, other);
        headers.append(KEY, one);
        assert!(key(&headers).is_some());
        headers.append(KEY, other);
        assert!(key(&headers).is_none());
    }
}

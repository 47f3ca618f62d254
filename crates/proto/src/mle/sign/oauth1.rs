//! OAuth 1.0a (RFC 5849) as Mastercard has it: RSA with SHA-256, PKCS#1 or PSS, and a hash of the body among the parameters. SPEC
//! mle.md#mastercard-oauth-1-0a

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use super::key::SigningKey;
use super::{Request, failed, hex, refusal};
use crate::crypto::Provider;
use crate::mle::algorithm::JwsAlg;
use crate::mle::refusal::Refusal;

/// Longest consumer key, in bytes.
const CONSUMER_KEY_LEN_MAX: usize = 256;

/// The name of a project at Mastercard, which goes with its signing key.
#[derive(Clone)]
pub struct ConsumerKey(Zeroizing<String>);

impl ConsumerKey {
    /// Takes 1 to 256 letters, digits and characters of `-._~!`; `None` for another text.
    pub fn parse(text: &str) -> Option<ConsumerKey> {
        let is_known = |byte: u8| is_unreserved(byte) || byte == b'!';
        let is_valid = (1..=CONSUMER_KEY_LEN_MAX).contains(&text.len()) && text.bytes().all(is_known);
        is_valid.then(|| ConsumerKey(Zeroizing::new(text.into())))
    }
}

impl fmt::Debug for ConsumerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConsumerKey(redacted)")
    }
}

/// Signs a request, and returns the value of its `Authorization` header. `key` has the algorithm `RS256` or
/// `PS256`. A nonce is used once.
///
/// # Errors
/// [`Class::Signature`](super::super::Class::Signature) for a query with a malformed escape or a parameter of OAuth, for a key of
/// another algorithm, or if the library fails.
pub fn authorization(
    request: &Request<'_>,
    consumer_key: &ConsumerKey,
    key: &SigningKey,
    now_ms: u64,
    nonce: [u8; 16],
    hashes: &dyn Provider,
) -> Result<String, Refusal> {
    let body_hash = STANDARD.encode(hashes.sha256(&[request.body]));
    let method = match key.alg() {
        JwsAlg::Rs256 => "RSA-SHA256",
        JwsAlg::Ps256 => "RSA-PSS",
        JwsAlg::Es256 => return Err(refusal("OAuth has no signature of this key's algorithm")),
    };
    let (nonce, timestamp) = (hex(&nonce), (now_ms / 1000).to_string());
    let own = [
        ("oauth_body_hash", body_hash.as_str()),
        ("oauth_consumer_key", consumer_key.0.as_str()),
        ("oauth_nonce", &nonce),
        ("oauth_signature_method", method),
        ("oauth_timestamp", &timestamp),
        ("oauth_version", "1.0"),
    ];
    let signature = key.sign(base_string(request, &own)?.as_bytes()).map_err(failed)?;
    let own: String = own.iter().map(|(name, value)| format!(r#"{name}="{value}","#)).collect();
    Ok(format!(r#"OAuth {own}oauth_signature="{}""#, encode(STANDARD.encode(signature).as_bytes())))
}

/// Returns the text that is signed (RFC 5849 section 3.4.1.1).
///
/// Mastercard's libraries put the values of `oauth_` parameters into the list as they are, where section 3.4.1.3.2 would encode them:
/// the `/` of a body hash is encoded once, with the list, and not twice. This does as they do.
fn base_string(request: &Request<'_>, own: &[(&str, &str)]) -> Result<String, Refusal> {
    let mut pairs = query_pairs(request.query.unwrap_or_default())?;
    pairs.extend(own.iter().map(|(name, value)| (name.to_string(), value.to_string())));
    pairs.sort_unstable();
    let list: Vec<_> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let url = format!("{}://{}{}", request.origin.scheme, request.origin.authority, request.path);
    let method = request.method.to_ascii_uppercase();
    Ok(format!("{method}&{}&{}", encode(url.as_bytes()), encode(list.join("&").as_bytes())))
}

/// Returns the parameters of a query, encoded. Mastercard's libraries leave a query without escapes as it is; one that has some
/// is decoded and encoded anew.
fn query_pairs(query: &str) -> Result<Vec<(String, String)>, Refusal> {
    let has_escapes = query.contains('%');
    let mut pairs = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let decoded = decode(name)?;
        // With two values for one parameter, the signature would not say which of them counts.
        if decoded.starts_with(b"oauth_") {
            return Err(refusal("the query has a parameter of OAuth, whose place is the header"));
        }
        let value_decoded = decode(value)?;
        pairs.push(if has_escapes {
            (encode(&decoded), encode(&value_decoded))
        } else {
            (name.to_string(), value.to_string())
        });
    }
    Ok(pairs)
}

/// Decodes the escapes of a query; `+` is a space.
fn decode(text: &str) -> Result<Vec<u8>, Refusal> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                match (digit(bytes.next()), digit(bytes.next())) {
                    (Some(high), Some(low)) => (high * 16 + low) as u8,
                    _ => return Err(refusal("the query has a malformed escape")),
                }
            }
            byte => byte,
        });
    }
    Ok(out)
}

/// Encodes every byte but the unreserved ones of RFC 3986 section 2.3 (RFC 5849 section 3.6).
fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for &byte in bytes {
        if is_unreserved(byte) {
            out.push(byte.into());
        } else {
            out += &format!("%{byte:02X}");
        }
    }
    out
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

#[cfg(test)]
mod tests {
    use super::super::WebOrigin;
    use super::*;

    fn list(query: &str) -> String {
        let origin = WebOrigin::new(true, "API.example:443");
        let request = Request { method: "POST", origin: &origin, path: "/a b%2F", query: Some(query), body: b"" };
        let base = base_string(&request, &[("oauth_version", "1/0")]).unwrap();
        let list = base.strip_prefix("POST&https%3A%2F%2Fapi.example%2Fa%20b%252F&").expect(&base);
        String::from_utf8(decode(list).unwrap()).unwrap()
    }

    #[test]
    fn parameters_are_sorted_by_name_and_value_and_encoded_once() {
        assert_eq!(list("b=2&a=3&a=1&a-b=x&c&&=e"), "=e&a=1&a=3&a-b=x&b=2&c=&oauth_version=1/0");
        assert_eq!(list("a=b+c:d"), "a=b+c:d&oauth_version=1/0");
        assert_eq!(list("a=b+c:d&%61=%7e%2f%C3%a9"), "a=b%20c%3Ad&a=~%2F%C3%A9&oauth_version=1/0");
    }

    #[test]
    fn a_query_that_would_make_the_signature_ambiguous_is_rejected() {
        for query in ["oauth_nonce=1", "a=1&%6Fauth_token=x", "a=%", "a=%4", "%zz=1", "a=%+1"] {
            let pairs = query_pairs(query);
            assert_eq!(pairs.expect_err(query).class(), "signature");
        }
    }

    #[test]
    fn a_consumer_key_has_nothing_that_a_header_could_end_with() {
        assert!(ConsumerKey::parse("aB3-_.~!0f").is_some());
        for text in ["", "a b", "a\"", "a,b", "a&b", "a%20", "é", "a\n", &"a".repeat(257)] {
            assert!(ConsumerKey::parse(text).is_none(), "{text:?}");
        }
        let key = ConsumerKey::parse("secret!key").unwrap();
        assert_eq!(format!("{key:?}"), "ConsumerKey(redacted)");
    }
}

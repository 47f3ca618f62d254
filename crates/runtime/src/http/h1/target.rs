//! The host of a request: its target (RFC 9112 section 3.2) and `Host`.

use bytes::Bytes;
use http::header::{HOST, HeaderMap};
use http::uri::Scheme;
use http::{Method, Uri, Version};

use super::Fault;

/// Longest target, in bytes: the capacity of a [`Uri`].
const TARGET_MAX: usize = u16::MAX as usize - 1;

/// Parses one of the four forms of RFC 9112 section 3.2.
pub(super) fn parse_target(method: &Method, target: Bytes) -> Result<Uri, Fault> {
    let refused = Fault::Malformed("the request target is none");
    if target.len() > TARGET_MAX {
        return Err(Fault::TargetTooLong);
    }
    // A fragment is never sent; everything but visible ASCII must be percent-encoded.
    if target.is_empty() || target.iter().any(|byte| !byte.is_ascii_graphic() || *byte == b'#') {
        return Err(refused);
    }
    let is_origin = target.starts_with(b"/");
    let is_asterisk = target.as_ref() == b"*";
    let is_absolute = !is_origin && target.windows(3).any(|three| three == b"://");
    let is_right = match *method {
        Method::CONNECT => !is_origin && !is_asterisk && !is_absolute,
        Method::OPTIONS => is_origin || is_absolute || is_asterisk,
        _ => is_origin || is_absolute,
    };
    if !is_right {
        return Err(refused);
    }
    let uri = Uri::from_maybe_shared(target).map_err(|_| refused)?;
    let is_http = uri.scheme().is_none_or(|scheme| *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS);
    let is_host = uri.authority().is_none_or(|authority| is_host(authority.as_str().as_bytes()));
    if is_http && is_host { Ok(uri) } else { Err(refused) }
}

/// Checks `Host`: one in HTTP/1.1, none or one before, with a valid host (RFC 9112 section 3.2).
pub(super) fn check_host(headers: &HeaderMap, version: Version) -> Result<(), Fault> {
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (_, Some(_)) => Err(Fault::Malformed("Host stands twice")),
        (None, None) if version == Version::HTTP_10 => Ok(()),
        (None, None) => Err(Fault::Malformed("no Host")),
        // An empty one is for targets without an authority.
        (Some(host), None) if host.is_empty() || is_host(host.as_bytes()) => Ok(()),
        (Some(_), None) => Err(Fault::Malformed("Host is no host")),
    }
}

/// Returns whether a text is `uri-host [ ":" port ]` (RFC 9110 section 7.2): a name, an IPv4 address, or an IPv6 address in
/// brackets. No user, and no percent-encoding, which is of no use and not read alike by all.
pub(in crate::http) fn is_host(text: &[u8]) -> bool {
    let (host, port) = match text.iter().position(|byte| *byte == b']') {
        Some(end) => text.split_at(end + 1),
        None => text.split_at(text.iter().position(|byte| *byte == b':').unwrap_or(text.len())),
    };
    let is_address =
        |inner: &[u8]| !inner.is_empty() && inner.iter().all(|byte| byte.is_ascii_hexdigit() || b":.".contains(byte));
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(byte);
    let is_right = match host {
        [b'[', inner @ .., b']'] => is_address(inner),
        name => !name.is_empty() && name.iter().all(is_name),
    };
    let port = match port {
        [] => Some(0),
        [b':', digits @ ..] if digits.iter().all(u8::is_ascii_digit) => std::str::from_utf8(digits)
            .ok()
            .and_then(|digits| if digits.is_empty() { Some(0) } else { digits.parse::<u16>().ok() }),
        _ => None,
    };
    is_right && port.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_hosts_are_distinguished_from_invalid_ones() {
        for host in ["a", "a.example:80", "127.0.0.1:1", "[::1]", "[::1]:8080", "a_b:", "a!b"] {
            assert!(is_host(host.as_bytes()), "{host}");
        }
        for host in [
            "", ":80", "a b", "u@a", "a:b", "a:99999", "a:1:2", "[", "]", "[]", "[::1", "[::1]x", "[g]", "a/b", "a%41",
            "a\\b", "a?", "a#", "a:+1",
        ] {
            assert!(!is_host(host.as_bytes()), "{host}");
        }
    }

    #[test]
    fn targets_have_one_of_four_forms_and_stay_as_sent() {
        for (method, target) in [
            (Method::GET, "/"),
            (Method::GET, "//a/../%2e%2F;x?y=//z?\\"),
            (Method::GET, "http://a.example:80/x"),
            (Method::GET, "https://[::1]"),
            (Method::OPTIONS, "*"),
            (Method::CONNECT, "a.example:443"),
        ] {
            let uri = parse_target(&method, Bytes::from_static(target.as_bytes())).unwrap();
            assert_eq!(uri.to_string().trim_end_matches('/'), target.trim_end_matches('/'));
        }
        for (method, target) in [
            (Method::GET, "*"),
            (Method::GET, "a"),
            (Method::GET, "a.example:443"),
            (Method::GET, "ftp://a/"),
            (Method::GET, "http://u@a/"),
            (Method::GET, "http:///x"),
            (Method::GET, "http://a:b/"),
            (Method::GET, "/#f"),
            (Method::GET, "/\u{e9}"),
            (Method::CONNECT, "/"),
            (Method::CONNECT, "http://a/"),
            (Method::CONNECT, "*"),
        ] {
            assert!(parse_target(&method, Bytes::from_static(target.as_bytes())).is_err(), "{method} {target}");
        }
    }
}

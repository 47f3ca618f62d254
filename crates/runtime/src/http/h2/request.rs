//! Requests of HTTP/2 as services see them: held to what HTTP/1 rejects, and in the form that HTTP/1 has.

use http::header::{CONTENT_LENGTH, COOKIE, HOST, HeaderMap, HeaderValue};
use http::{Method, Request, StatusCode, Version};

use super::RequestHead;
use crate::http::h1::{Setup, expects_continue, is_host};
use crate::http::{ExtendedConnect, Interim, RequestBody};

/// Makes the request that the service sees.
pub(super) fn request(head: RequestHead, body: RequestBody, setup: &Setup, interim: Interim) -> Request<RequestBody> {
    let protocol = head.protocol.and_then(|protocol| HeaderValue::from_maybe_shared(protocol).ok());
    let mut request = Request::new(body);
    *request.method_mut() = head.method;
    *request.uri_mut() = head.uri;
    *request.version_mut() = Version::HTTP_2;
    *request.headers_mut() = head.headers;
    canonical_length(request.headers_mut());
    join_cookies(request.headers_mut());
    request.extensions_mut().insert(setup.origin.clone());
    request.extensions_mut().insert(interim);
    if let Some(protocol) = protocol {
        request.extensions_mut().insert(ExtendedConnect { protocol });
    }
    request
}

/// Returns the announced length of a body.
pub(super) fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Rejects requests that HTTP/1 rejects and RFC 9113 does not: two lengths, an expectation other than 100-continue, a target that
/// is neither a path nor the `*` of OPTIONS (section 8.3.1), one with bytes that must be percent-encoded, which a service may
/// decode to another one, and a `Host` that differs from `:authority`; and an extended CONNECT with a length, whose data is no
/// content (RFC 9110 section 9.3.6).
pub(super) fn check(head: &RequestHead) -> Result<(), (StatusCode, &'static str)> {
    let refused = |why| Err((StatusCode::BAD_REQUEST, why));
    if head.headers.get_all(CONTENT_LENGTH).iter().nth(1).is_some() {
        return refused("Content-Length stands twice");
    }
    if head.protocol.is_some() && head.headers.contains_key(CONTENT_LENGTH) {
        return refused("Content-Length of an extended CONNECT");
    }
    if let Err(fault) = expects_continue(&head.headers) {
        return Err((fault.status(), "an unknown expectation"));
    }
    let target = head.uri.path_and_query().map_or("", |target| target.as_str());
    let is_form = match head.method {
        Method::CONNECT if head.protocol.is_none() => true,
        Method::OPTIONS => target.starts_with('/') || target == "*",
        _ => target.starts_with('/'),
    };
    if !is_form || !target.bytes().all(|byte| byte.is_ascii_graphic()) {
        return refused("the request target is none");
    }
    let authority = head.uri.authority().map(|authority| authority.as_str().as_bytes());
    let mut hosts = head.headers.get_all(HOST).iter().map(HeaderValue::as_bytes);
    let (host, other) = (hosts.next(), hosts.next());
    let is_right = match (authority, host) {
        (Some(authority), Some(host)) => is_host(authority) && authority.eq_ignore_ascii_case(host),
        (Some(one), None) | (None, Some(one)) => is_host(one),
        (None, None) => false,
    };
    if is_right && other.is_none() { Ok(()) } else { refused("Host is no host, or another than :authority") }
}

/// Writes a length without leading zeros, as HTTP/1 does: not every reader parses `0005` as five, or `10` as ten.
fn canonical_length(headers: &mut HeaderMap) {
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if let Some(length) = length {
        headers.insert(CONTENT_LENGTH, length.into());
    }
}

/// Joins the parts of `Cookie` into one (RFC 9113 section 8.2.3): of several fields HTTP/1 services read the first, or each
/// another.
fn join_cookies(headers: &mut HeaderMap) {
    if headers.get_all(COOKIE).iter().nth(1).is_none() {
        return;
    }
    let parts = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes);
    // An empty part would leave a blank at the end of the value, which HTTP/2 forbids (RFC 9113 section 8.2.1).
    let parts: Vec<&[u8]> = parts.filter(|part| !part.is_empty()).collect();
    if let Ok(joined) = HeaderValue::from_bytes(&parts.join(&b"; "[..])) {
        headers.insert(COOKIE, joined);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_cookie_are_one_and_empty_ones_leave_no_blank() {
        for (parts, joined) in [
            (&["a=1", "b=2"][..], "a=1; b=2"),
            (&["a=1", ""], "a=1"),
            (&["", "b=2", ""], "b=2"),
            (&["", ""], ""),
            (&["a=1; "], "a=1; "),
        ] {
            let mut headers = HeaderMap::new();
            for part in parts {
                headers.append(COOKIE, HeaderValue::from_static(part));
            }
            join_cookies(&mut headers);
            let found: Vec<_> = headers.get_all(COOKIE).iter().collect();
            assert_eq!(found, [joined], "{parts:?}");
        }
    }
}

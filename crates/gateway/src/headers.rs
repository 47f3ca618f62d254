//! Which headers cross the gateway, hop by hop and around a seal.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use sealway_proto::wire::header::SEALING;

/// Headers of one hop (RFC 9110 section 7.6.1), and what others use as such.
static HOP_BY_HOP: [HeaderName; 9] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("http2-settings"),
];

/// Describes a sealed body, not the one inside; or asks for what a sealed answer cannot be.
static OF_SEALED_BODY: [HeaderName; 12] = [
    header::CONTENT_TYPE,
    header::CONTENT_LENGTH,
    header::CONTENT_ENCODING,
    header::ACCEPT_ENCODING,
    header::ACCEPT,
    header::EXPECT,
    header::RANGE,
    header::IF_RANGE,
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_UNMODIFIED_SINCE,
];

/// Describes the service's own body, which goes into the seal; or is the gateway's to say.
static OF_SERVICE_BODY: [HeaderName; 15] = [
    header::CONTENT_TYPE,
    header::CONTENT_LENGTH,
    header::CONTENT_ENCODING,
    header::CONTENT_RANGE,
    header::ACCEPT_RANGES,
    header::ETAG,
    header::LAST_MODIFIED,
    header::TRAILER,
    HeaderName::from_static("server-timing"),
    header::ACCESS_CONTROL_ALLOW_ORIGIN,
    header::ACCESS_CONTROL_ALLOW_HEADERS,
    header::ACCESS_CONTROL_ALLOW_METHODS,
    header::ACCESS_CONTROL_ALLOW_CREDENTIALS,
    header::ACCESS_CONTROL_EXPOSE_HEADERS,
    header::ACCESS_CONTROL_MAX_AGE,
];

/// Takes out every header that `drop` names, and keeps the rest in their order: `HeaderMap::remove` moves the last header
/// into the gap, and headers are to arrive in the order they were sent in.
pub(crate) fn remove_where(headers: &mut HeaderMap, drop: impl Fn(&HeaderName) -> bool) {
    if !headers.keys().any(&drop) {
        return;
    }
    let mut kept = HeaderMap::with_capacity(headers.len());
    let mut is_kept = false;
    let mut last = None;
    for (name, value) in std::mem::take(headers) {
        // Further values of a header come without its name.
        if let Some(name) = name {
            is_kept = !drop(&name);
            last = Some(name);
        }
        if let Some(name) = last.as_ref().filter(|_| is_kept) {
            kept.append(name, value);
        }
    }
    *headers = kept;
}

/// What `Connection` names (RFC 9110 section 7.6.1). Names that are none are passed over.
fn nominated(headers: &HeaderMap) -> Vec<HeaderName> {
    let options =
        headers.get_all(header::CONNECTION).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    let names = options.filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok());
    // A message without its host or its length would be another one.
    names.filter(|name| *name != header::HOST && *name != header::CONTENT_LENGTH).collect()
}

/// Which headers are of this hop, those that `Connection` names included.
pub(crate) fn of_hop(headers: &HeaderMap) -> impl Fn(&HeaderName) -> bool + use<> {
    let nominated = nominated(headers);
    move |name| HOP_BY_HOP.contains(name) || nominated.contains(name)
}

/// Takes out the headers of this hop.
pub(crate) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let is_of_hop = of_hop(headers);
    remove_where(headers, is_of_hop);
}

/// Whether `Connection: close` was sent.
pub(crate) fn says_close(headers: &HeaderMap) -> bool {
    nominated(headers).iter().any(|option| option == "close")
}

/// Turns the headers of a sealed request into those of the request inside.
pub(crate) fn unseal_request(headers: &mut HeaderMap, content_type: &HeaderValue) {
    remove_where(headers, |name| OF_SEALED_BODY.contains(name) || SEALING.contains(&name.as_str()));
    headers.insert(header::CONTENT_TYPE, content_type.clone());
    headers.insert(header::ACCEPT, content_type.clone());
}

/// Turns the headers of a service's answer into those of the sealed one.
pub(crate) fn seal_answer(headers: &mut HeaderMap) {
    remove_hop_by_hop(headers);
    remove_where(headers, |name| OF_SERVICE_BODY.contains(name) || SEALING.contains(&name.as_str()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_that_connection_names_do_not_cross_and_the_others_keep_their_order() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Hop, host,content-length"),
            ("x-hop", "1"),
            ("host", "h"),
            ("x-a", "1"),
            ("te", "trailers"),
            ("x-b", "1"),
            ("upgrade", "h2c"),
            ("x-a", "2"),
            ("content-length", "3"),
            ("x-c", "1"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        assert!(says_close(&headers));
        remove_hop_by_hop(&mut headers);
        let left: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(
            left,
            [("host", "h"), ("x-a", "1"), ("x-a", "2"), ("x-b", "1"), ("content-length", "3"), ("x-c", "1")]
        );
    }
}

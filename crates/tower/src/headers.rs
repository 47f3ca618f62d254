//! Which headers cross the seal, and those that tell a service who its client is.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use sealway_proto::session::SessionRecord;
use sealway_proto::session::three::InnerHeaders;
use sealway_proto::wire::Field;
use sealway_proto::wire::header::SEALING;

/// Describe a sealed body and not the one inside, or ask for what a sealed answer cannot be.
static OF_SEALED_BODY: [HeaderName; 13] = [
    header::CONTENT_TYPE,
    header::CONTENT_LENGTH,
    header::CONTENT_ENCODING,
    header::TRANSFER_ENCODING,
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

/// Describe the service's own body, which goes into the seal.
static OF_SERVICE_BODY: [HeaderName; 10] = [
    header::CONTENT_TYPE,
    header::CONTENT_LENGTH,
    header::CONTENT_ENCODING,
    header::CONTENT_RANGE,
    header::TRANSFER_ENCODING,
    header::ACCEPT_RANGES,
    header::ETAG,
    header::LAST_MODIFIED,
    header::TRAILER,
    HeaderName::from_static("server-timing"),
];

/// Of what stands outside a seal of wire 3 a service is told this whoever wrote it, where the seal has none of the name.
static OUTSIDE_A_SEAL: [HeaderName; 3] = [header::HOST, header::USER_AGENT, header::ACCEPT_LANGUAGE];

/// The way that a request took, which nobody is let in by: from outside a seal alone.
static OF_WAY: [&str; 3] = ["via", "traceparent", "tracestate"];
/// What only somebody who is trusted may say of where a request came from, never its client: `X-Forwarded-…` too.
static OF_ORIGIN: [&str; 5] = ["forwarded", "x-real-ip", "client-cert", "client-cert-chain", "x-client-cert"];

/// What of an answer stands outside the seal of wire 3 too.
static OUTSIDE_AN_ANSWER: [HeaderName; 9] = [
    header::SET_COOKIE,
    header::RETRY_AFTER,
    header::VARY,
    header::ACCESS_CONTROL_ALLOW_ORIGIN,
    header::ACCESS_CONTROL_ALLOW_HEADERS,
    header::ACCESS_CONTROL_ALLOW_METHODS,
    header::ACCESS_CONTROL_ALLOW_CREDENTIALS,
    header::ACCESS_CONTROL_EXPOSE_HEADERS,
    header::ACCESS_CONTROL_MAX_AGE,
];

/// Headers of an HTTP library as the wires see them.
pub(crate) struct HttpHeaders<'a>(pub(crate) &'a HeaderMap);

impl sealway_proto::wire::Headers for HttpHeaders<'_> {
    fn field(&self, name: &'static str) -> Field<'_> {
        let mut values = self.0.get_all(name).iter();
        match (values.next(), values.next()) {
            (None, _) => Field::Absent,
            (Some(value), None) => value.to_str().map_or(Field::Malformed, Field::Value),
            _ => Field::Malformed,
        }
    }
}

/// Takes out every header that `drop` names.
fn remove_where(headers: &mut HeaderMap, drop: impl Fn(&HeaderName) -> bool) {
    let names: Vec<HeaderName> = headers.keys().filter(|name| drop(name)).cloned().collect();
    for name in names {
        headers.remove(name);
    }
}

/// The name as a service reads it that makes variables of headers: hyphens and underscores are one.
fn is_alike(one: &str, other: &str) -> bool {
    let plain = |byte: u8| if byte == b'_' { b'-' } else { byte };
    one.len() == other.len() && one.bytes().zip(other.bytes()).all(|(one, other)| plain(one) == plain(other))
}

fn begins(name: &str, beginning: &str) -> bool {
    name.get(..beginning.len()).is_some_and(|begin| is_alike(begin, beginning))
}

/// Whether a header says where a request came from.
fn is_of_origin(name: &str) -> bool {
    begins(name, "x-forwarded-") || OF_ORIGIN.iter().any(|origin| is_alike(origin, name))
}

fn is_of_way(name: &str) -> bool {
    OF_WAY.iter().any(|way| is_alike(way, name))
}

/// Takes out what a client says under the names that the layer alone may use.
pub(crate) fn remove_identity(headers: &mut HeaderMap) {
    remove_where(headers, |name| begins(name.as_str(), "x-sealway-"));
}

/// Tells the service whose session the request is of.
pub(crate) fn put_identity(headers: &mut HeaderMap, session: &SessionRecord) {
    for (name, text) in session.identity_headers() {
        if let Ok(value) = HeaderValue::try_from(text) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
}

/// Turns the headers of a sealed request of wires 1 and 2 into those of the request inside. Where the request came from is told
/// if whoever is in front is trusted.
pub(crate) fn unseal(headers: &mut HeaderMap, content_type: &HeaderValue, trusts_origin: bool) {
    remove_where(headers, |name| {
        let is_of_seal = OF_SEALED_BODY.contains(name) || SEALING.contains(&name.as_str());
        is_of_seal || (!trusts_origin && is_of_origin(name.as_str()))
    });
    remove_identity(headers);
    headers.insert(header::CONTENT_TYPE, content_type.clone());
    headers.insert(header::ACCEPT, content_type.clone());
}

/// Turns the headers of a sealed request of wire 3 into those of the request inside; of those outside stay what always does,
/// what is `listed`, and where the request came from if whoever is in front is trusted.
// SPEC session-3.md#sealed-requests
pub(crate) fn unseal3(headers: &mut HeaderMap, inner: &InnerHeaders, listed: &[HeaderName], trusts_origin: bool) {
    let stays = |name: &HeaderName| {
        let is_told = OUTSIDE_A_SEAL.contains(name) || is_of_way(name.as_str());
        is_told || listed.contains(name) || (trusts_origin && is_of_origin(name.as_str()))
    };
    remove_where(headers, |name| !stays(name) || SEALING.contains(&name.as_str()));
    remove_identity(headers);
    let inner = inner.iter().filter(|(name, _)| !is_of_origin(name) && !is_of_way(name));
    let inner = inner.filter_map(|(name, value)| {
        Some((HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_bytes(value).ok()?))
    });
    let inner: Vec<_> = inner.collect();
    remove_where(headers, |name| inner.iter().any(|(within, _)| is_alike(within.as_str(), name.as_str())));
    for (name, value) in inner {
        headers.append(name, value);
    }
}

/// Turns the headers of a service's answer into those of the sealed one, wires 1 and 2.
pub(crate) fn seal_answer(headers: &mut HeaderMap) {
    remove_where(headers, |name| OF_SERVICE_BODY.contains(name) || SEALING.contains(&name.as_str()));
}

/// Leaves of an answer's headers what stands outside the seal of wire 3 too.
pub(crate) fn seal_answer3(headers: &mut HeaderMap) {
    remove_where(headers, |name| !OUTSIDE_AN_ANSWER.contains(name));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store, no-transform"));
}

/// Puts what a seal adds.
pub(crate) fn put_seal(headers: &mut HeaderMap, seal: Vec<(&'static str, String)>) {
    for (name, value) in seal {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_says_nothing_of_who_the_client_is_or_where_it_came_from() {
        let mut inner = InnerHeaders::new();
        for (name, value) in [("x-a", "in"), ("x_forwarded_for", "6.6.6.6"), ("via", "x"), ("x-b", "1"), ("x-b", "2")] {
            inner.push(name, value.as_bytes()).unwrap();
        }
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("host", "h"),
            ("x-a", "out"),
            ("x-c", "listed"),
            ("x-kid", "session:S"),
            ("x_sealway_subject", "root"),
            ("cookie", "a=b"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        unseal3(&mut headers, &inner, &[HeaderName::from_static("x-c"), HeaderName::from_static("x-a")], false);
        let mut left: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        left.sort_unstable();
        assert_eq!(left, [("host", "h"), ("x-a", "in"), ("x-b", "1"), ("x-b", "2"), ("x-c", "listed")]);
    }
}

//! Headers that cross the seal, and hop-by-hop headers.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use sealway_proto::session::SessionRecord;
use sealway_proto::session::native::{InnerHeaders, may_be_inner};
use sealway_proto::wire::header::SEALING;
use sealway_proto::wire::stripped::{crosses_from_outside, crosses_from_within, is_claimed, is_forged, is_of_way};
use sealway_proto::wire::{Field, stripped};

/// Hop-by-hop headers (RFC 9110 section 7.6.1), and headers that some implementations treat as such.
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

/// Number of headers that a gateway adds to a request by default: where it comes from, `Host`, and a trace.
const ADDED: usize = 8;

/// Headers that describe the sealed body instead of the plaintext, or that request properties that a sealed answer
/// cannot have.
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

/// Headers that describe the service's own body, which is sealed.
static OF_SERVICE_BODY: [HeaderName; 9] = [
    header::CONTENT_TYPE,
    header::CONTENT_LENGTH,
    header::CONTENT_ENCODING,
    header::CONTENT_RANGE,
    header::ACCEPT_RANGES,
    header::ETAG,
    header::LAST_MODIFIED,
    header::TRAILER,
    HeaderName::from_static("server-timing"),
];

/// Headers of an answer that are also outside the seal of wire 3.
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

/// Adapter from an HTTP library's headers to those of the wires.
pub struct HttpHeaders<'a>(pub &'a HeaderMap);

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

/// Removes every header that `drop` selects, and keeps the others in their order. `HeaderMap::remove` would move the
/// last header into the gap, but headers must arrive in the order in which they were sent.
pub fn remove_where(headers: &mut HeaderMap, drop: impl Fn(&HeaderName) -> bool) {
    let Some(first) = headers.keys().position(&drop) else { return };
    if headers.keys().skip(first).all(&drop) {
        // Nothing stands behind them that could move.
        let last: Vec<_> = headers.keys().skip(first).cloned().collect();
        for name in last.iter().rev() {
            headers.remove(name);
        }
        return;
    }
    // With room for the headers that a gateway adds: a map that grows hashes all names anew.
    let mut kept = HeaderMap::with_capacity(headers.len() + ADDED);
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

/// True if a service may confuse two names: many pass headers on as variables, in which a hyphen is an underscore.
pub fn is_alike(one: &HeaderName, other: &HeaderName) -> bool {
    stripped::is_alike(one.as_str(), other.as_str())
}

/// Returns the names in `Connection` (RFC 9110 section 7.6.1). Invalid names are skipped.
fn nominated(headers: &HeaderMap) -> Vec<HeaderName> {
    let options =
        headers.get_all(header::CONNECTION).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    let names = options.filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok());
    // Without its host or its length the message would mean something else.
    names.filter(|name| *name != header::HOST && *name != header::CONTENT_LENGTH).collect()
}

/// Returns a predicate for hop-by-hop headers, including those that `Connection` names.
pub fn of_hop(headers: &HeaderMap) -> impl Fn(&HeaderName) -> bool + use<> {
    let nominated = nominated(headers);
    move |name| HOP_BY_HOP.contains(name) || nominated.contains(name)
}

/// Removes the hop-by-hop headers.
pub fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let is_of_hop = of_hop(headers);
    remove_where(headers, is_of_hop);
}

/// True if `Connection: close` was sent.
pub fn says_close(headers: &HeaderMap) -> bool {
    nominated(headers).iter().any(|option| option == "close")
}

/// Returns the headers that give the service the identity of a session's client; unknown values are left out.
pub fn identity_headers(session: &SessionRecord) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    let headers = session.identity_headers().into_iter();
    headers.filter_map(|(name, text)| Some((HeaderName::from_static(name), HeaderValue::try_from(text).ok()?)))
}

/// Removes a client's headers under names that only a server may use.
pub fn remove_identity(headers: &mut HeaderMap) {
    remove_where(headers, |name| is_claimed(name.as_str()));
}

/// Turns the headers of a sealed request into those of its plaintext, for a wire that seals no headers. Headers of
/// origin are kept if the peer is trusted.
pub(crate) fn unseal_outer(headers: &mut HeaderMap, content_type: &HeaderValue, trusts_origin: bool) {
    let is_of_hop = of_hop(headers);
    remove_where(headers, |name| {
        let is_of_seal = OF_SEALED_BODY.contains(name) || SEALING.contains(&name.as_str());
        is_of_hop(name) || is_of_seal || is_claimed(name.as_str()) || is_forged(name.as_str(), trusts_origin)
    });
    headers.insert(header::CONTENT_TYPE, content_type.clone());
    headers.insert(header::ACCEPT, content_type.clone());
}

/// Turns the headers of a sealed request into those of its plaintext, for a wire that seals headers. Keeps
/// those outer headers that the spec and `listed` name, and forwarding headers if the peer is a trusted proxy.
// SPEC session-3.md#sealed-requests
pub(crate) fn unseal_inner(headers: &mut HeaderMap, inner: &InnerHeaders, listed: &[HeaderName], trusts_origin: bool) {
    let inner = inner.iter().filter(|(name, _)| crosses_from_within(name));
    let inner = inner.filter_map(|(name, value)| {
        Some((HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_bytes(value).ok()?))
    });
    let inner: Vec<_> = inner.collect();
    let is_of_hop = of_hop(headers);
    let stays = |name: &HeaderName| {
        let is_listed = listed.contains(name) && !is_forged(name.as_str(), trusts_origin);
        let is_of_way = is_of_way(name.as_str()) && !name.as_str().contains('_');
        is_listed || is_of_way || crosses_from_outside(name.as_str(), trusts_origin)
    };
    remove_where(headers, |name| {
        is_of_hop(name)
            || !stays(name)
            || SEALING.contains(&name.as_str())
            || is_claimed(name.as_str())
            || inner.iter().any(|(within, _)| is_alike(within, name))
    });
    for (name, value) in inner {
        headers.append(name, value);
    }
}

/// Turns the headers of a service's answer into those of an answer that is sealed as a whole.
pub(crate) fn seal_whole(headers: &mut HeaderMap) {
    let is_of_hop = of_hop(headers);
    remove_where(headers, |name| is_of_hop(name) || OF_SERVICE_BODY.contains(name) || SEALING.contains(&name.as_str()));
}

/// Takes all headers of a service's answer into its seal, except those of framing and the server's own; headers that
/// intermediaries act on stay outside as well. `None` if they exceed the limits of a seal.
pub(crate) fn seal_inner(headers: &mut HeaderMap) -> Option<InnerHeaders> {
    let mut inner = InnerHeaders::new();
    for (name, value) in headers.iter().filter(|(name, _)| may_be_inner(name.as_str())) {
        inner.push(name.as_str(), value.as_bytes()).ok()?;
    }
    remove_where(headers, |name| !OUTSIDE_AN_ANSWER.contains(name));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store, no-transform"));
    Some(inner)
}

/// Sets the headers that a seal adds.
pub(crate) fn put_seal(headers: &mut HeaderMap, seal: Vec<(&'static str, String)>) {
    for (name, value) in seal {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use sealway_proto::session::{Auth, SessionKey};
    use sealway_proto::wire::{SessionId, Wire};

    use super::*;

    #[test]
    fn a_service_receives_the_headers_of_each_vector() {
        let vectors = sealway_testkit::native_vectors::load_native_headers().unwrap();
        assert!(vectors.len() >= 100);
        for (name, vector) in vectors {
            let (mut inner, mut headers) = (InnerHeaders::new(), HeaderMap::new());
            for (name, value) in &vector.inner {
                inner.push(name, value.as_bytes()).unwrap();
            }
            for (name, value) in &vector.outer {
                headers.append(HeaderName::try_from(name).unwrap(), HeaderValue::from_str(value).unwrap());
            }
            unseal_inner(&mut headers, &inner, &[], vector.front_trusted);
            let mut got: Vec<_> =
                headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
            let mut want: Vec<_> = vector.service.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            got.sort_unstable();
            want.sort_unstable();
            assert_eq!(got, want, "{name}");
        }
    }

    #[test]
    fn a_seal_carries_no_identity_or_address_of_the_client() {
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
        unseal_inner(&mut headers, &inner, &[HeaderName::from_static("x-c"), HeaderName::from_static("x-a")], false);
        let mut left: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        left.sort_unstable();
        assert_eq!(left, [("host", "h"), ("x-a", "in"), ("x-b", "1"), ("x-b", "2"), ("x-c", "listed")]);
    }

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

    #[test]
    fn headers_at_the_end_are_removed_with_all_their_values_and_the_others_keep_their_order() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-a", "1"),
            ("x-b", "1"),
            ("x-hop", "1"),
            ("x-a", "2"),
            ("connection", "x-hop"),
            ("x-hop", "2"),
            ("connection", "close"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        remove_hop_by_hop(&mut headers);
        let left: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(left, [("x-a", "1"), ("x-a", "2"), ("x-b", "1")]);
    }

    #[test]
    fn the_connection_header_strips_no_header_that_the_gateway_adds() {
        let mut headers = HeaderMap::new();
        for (name, value) in [("connection", "content-type, accept, x-own"), ("accept", "text/html"), ("x-own", "1")] {
            headers.append(name, HeaderValue::from_static(value));
        }
        unseal_outer(&mut headers, &HeaderValue::from_static("application/json"), false);
        remove_hop_by_hop(&mut headers);
        let left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(left, ["content-type", "accept"]);
    }

    #[test]
    fn a_service_is_told_who_its_client_is_in_headers_that_two_clients_never_share() {
        let record = |subject: &str, tenant: Option<&str>| SessionRecord {
            id: SessionId::from_random(&[1; 16], false),
            wire: Wire::Native,
            client_id: Some(" web 100%".into()),
            subject: Some(subject.into()),
            tenant: tenant.map(Into::into),
            auth: Auth::Dpop,
            lineage: None,
            created_ms: 0,
            expires_ms: 1,
            key: SessionKey::from_bytes([0; 32]),
        };
        let told = |record: &SessionRecord| -> Vec<(String, String)> {
            let headers = identity_headers(record);
            headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect()
        };
        let pair = |name: &str, value: &str| (format!("x-sealway-{name}"), value.to_owned());
        assert_eq!(
            told(&record("CN=a b,O=\u{e9}", Some("acme\r\nx-evil: 1"))),
            [
                pair("client-id", "%20web 100%25"),
                pair("auth", "dpop"),
                pair("subject", "CN=a b,O=%C3%A9"),
                pair("tenant", "acme%0D%0Ax-evil: 1"),
            ]
        );
        assert_eq!(told(&record("alice", None)).len(), 3);
        let subjects =
            ["a", " a", "a ", "%20a", "\ta", "\u{a0}a", ""].map(|subject| told(&record(subject, None))[2].1.clone());
        for (at, one) in subjects.iter().enumerate() {
            assert!(subjects[..at].iter().all(|other| other.trim() != one.trim()), "{one}");
        }
    }
}

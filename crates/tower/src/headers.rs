//! Which headers cross the seal, and those that tell a service who its client is.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use sealway_proto::session::SessionRecord;
use sealway_proto::session::three::InnerHeaders;
use sealway_proto::wire::Field;
use sealway_proto::wire::header::SEALING;
use sealway_proto::wire::stripped::{
    crosses_from_outside, crosses_from_within, is_alike, is_claimed, is_forged, is_of_way,
};

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

/// Takes out what a client says under the names that the layer alone may use.
pub(crate) fn remove_identity(headers: &mut HeaderMap) {
    remove_where(headers, |name| is_claimed(name.as_str()));
}

/// Tells the service whose session the request is of.
pub(crate) fn put_identity(headers: &mut HeaderMap, session: &SessionRecord) {
    for (name, text) in session.identity_headers() {
        if let Ok(value) = HeaderValue::try_from(text) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
}

/// Turns the headers of a sealed request of wires 1 and 2 into those of the request inside. Where the request came from stays
/// if the peer in front is trusted.
pub(crate) fn unseal(headers: &mut HeaderMap, content_type: &HeaderValue, trusts_origin: bool) {
    remove_where(headers, |name| {
        let is_of_seal = OF_SEALED_BODY.contains(name) || SEALING.contains(&name.as_str());
        is_of_seal || is_forged(name.as_str(), trusts_origin)
    });
    remove_identity(headers);
    headers.insert(header::CONTENT_TYPE, content_type.clone());
    headers.insert(header::ACCEPT, content_type.clone());
}

/// Turns the headers of a sealed request of wire 3 into those of the request inside. Of those outside stay the ones that the
/// spec and `listed` name, and where the request came from if the peer in front is trusted.
// SPEC session-3.md#sealed-requests
pub(crate) fn unseal3(headers: &mut HeaderMap, inner: &InnerHeaders, listed: &[HeaderName], trusts_origin: bool) {
    let stays = |name: &HeaderName| {
        let is_listed = listed.contains(name) && !is_forged(name.as_str(), trusts_origin);
        let is_of_way = is_of_way(name.as_str()) && !name.as_str().contains('_');
        is_listed || is_of_way || crosses_from_outside(name.as_str(), trusts_origin)
    };
    remove_where(headers, |name| !stays(name) || SEALING.contains(&name.as_str()));
    remove_identity(headers);
    let inner = inner.iter().filter(|(name, _)| crosses_from_within(name));
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
    fn a_service_receives_the_headers_of_each_vector() {
        let vectors = sealway_testkit::session3_vectors::load_headers3().unwrap();
        assert!(vectors.len() >= 100);
        for (name, vector) in vectors {
            let (mut inner, mut headers) = (InnerHeaders::new(), HeaderMap::new());
            for (name, value) in &vector.inner {
                inner.push(name, value.as_bytes()).unwrap();
            }
            for (name, value) in &vector.outer {
                headers.append(HeaderName::try_from(name).unwrap(), HeaderValue::from_str(value).unwrap());
            }
            unseal3(&mut headers, &inner, &[], vector.front_trusted);
            let mut got: Vec<_> =
                headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
            let mut want: Vec<_> = vector.service.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            got.sort_unstable();
            want.sort_unstable();
            assert_eq!(got, want, "{name}");
        }
    }

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

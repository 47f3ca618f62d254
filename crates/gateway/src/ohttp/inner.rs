//! The request within: from control data and fields to a request for a service.

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, DATE, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{Method, Request};
use sealway_exchange::headers::{of_hop, remove_where};
use sealway_proto::bhttp::{Control, Field, Head};
use sealway_proto::ehbp::{ENCAPSULATED_KEY, RESPONSE_NONCE};
use sealway_proto::wire::header::{SEALING, X_SEAL};
use sealway_proto::wire::stripped::{crosses_from_within, is_alike};
use sealway_runtime::clock::parse_http_date;

use super::rejection::Rejection;
use super::target::{Authority, Targets};
use crate::route::Forward;
use crate::upstream::PreservedHost;

/// Headers of a message that is sealed again.
const OF_SEALS: [&str; 3] = [X_SEAL, ENCAPSULATED_KEY, RESPONSE_NONCE];

/// A request within that may be forwarded.
pub(super) struct Inner<'a> {
    pub(super) parts: Parts,
    pub(super) forward: &'a Forward,
    /// The time in `Date`, in Unix milliseconds.
    pub(super) date_ms: Option<u64>,
}

impl<'a> Inner<'a> {
    /// Checks a head against the rules of the gateway, and makes it one for a service.
    pub(super) fn of(head: Head, targets: &'a Targets) -> Result<Inner<'a>, Rejection> {
        let Control::Request { method, scheme, authority, path } = head.control else { return Err(Rejection::METHOD) };
        let method = Method::from_bytes(method.as_bytes()).map_err(|_| Rejection::METHOD)?;
        if method == Method::CONNECT || method == Method::TRACE {
            return Err(Rejection::METHOD);
        }
        let mut headers = header_map(&head.fields)?;
        let authority = authority_of(&authority, &headers)?;
        // Targets of `http` would be reached over a path that anybody reads and changes (RFC 9458 section 6.3).
        let target = Authority::parse(&authority).filter(|_| scheme == "https").ok_or(Rejection::TARGET)?;
        let forward = targets.find(&target).ok_or(Rejection::TARGET)?;
        if has_dot_segments(&path) {
            return Err(Rejection::PATH);
        }
        let uri = PathAndQuery::try_from(path).map_err(|_| Rejection::PATH)?;
        // RFC 9458 section 5.1 for 100-continue; nothing else is registered.
        if headers.contains_key(EXPECT) {
            return Err(Rejection::FIELD);
        }
        // A message that is encapsulated again would pass the gateway more than once.
        let is_nested = |value: &HeaderValue| {
            value.as_bytes().get(..14).is_some_and(|begin| begin.eq_ignore_ascii_case(b"message/ohttp-"))
        };
        let is_sealed = headers.keys().any(|name| OF_SEALS.iter().any(|known| is_alike(known, name.as_str())));
        if is_sealed || headers.get_all(CONTENT_TYPE).iter().any(is_nested) {
            return Err(Rejection::TARGET);
        }
        let date_ms = date_of(&headers)?;
        to_service(&mut headers);
        let host = HeaderValue::try_from(target.host_header()).map_err(|_| Rejection::TARGET)?;
        headers.insert(HOST, host);
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.method = method;
        parts.uri = uri.into();
        parts.headers = headers;
        // The service behind a target has its name; the address that the upstream has for it is the gateway's own matter.
        parts.extensions.insert(PreservedHost);
        Ok(Inner { parts, forward, date_ms })
    }
}

/// Returns headers of fields. Several of a name stay several.
fn header_map(fields: &[Field]) -> Result<HeaderMap, Rejection> {
    let mut headers = HeaderMap::with_capacity(fields.len());
    for field in fields {
        // The name of a pseudo-field is none of a header: one that is not known cannot be forwarded.
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| Rejection::FIELD)?;
        headers.append(name, HeaderValue::from_bytes(&field.value).map_err(|_| Rejection::FIELD)?);
    }
    Ok(headers)
}

/// Returns trailers of fields, without those that a trailer must not have.
pub(super) fn trailers_of(fields: &[Field]) -> Result<HeaderMap, Rejection> {
    let mut trailers = header_map(fields)?;
    to_service(&mut trailers);
    trailers.remove(HOST);
    Ok(trailers)
}

/// Removes what concerns one hop, states an origin or belongs to a seal, in each spelling that a service may read as such.
fn to_service(headers: &mut HeaderMap) {
    let is_of_hop = of_hop(headers);
    remove_where(headers, |name| {
        let hyphened = HeaderName::from_bytes(name.as_str().replace('_', "-").as_bytes());
        let is_of_seal = SEALING.iter().chain(&OF_SEALS).any(|known| is_alike(known, name.as_str()));
        is_of_hop(name)
            || hyphened.is_ok_and(|name| is_of_hop(&name) || name == CONTENT_LENGTH)
            || is_of_seal
            || !crosses_from_within(name.as_str())
    });
}

/// Returns the authority: that of the control data, or `host` if that is empty (RFC 9292 section 3.4).
fn authority_of(control: &str, headers: &HeaderMap) -> Result<String, Rejection> {
    let mut hosts = headers.get_all(HOST).iter();
    let host = hosts.next().map(|host| host.to_str().map_err(|_| Rejection::HOST)).transpose()?;
    if hosts.next().is_some() {
        return Err(Rejection::HOST);
    }
    match host {
        None => Ok(control.to_owned()),
        Some(host) if control.is_empty() => Ok(host.to_owned()),
        Some(host) if Authority::parse(host) == Authority::parse(control) || host.eq_ignore_ascii_case(control) => {
            Ok(control.to_owned())
        }
        Some(_) => Err(Rejection::HOST),
    }
}

/// Returns whether a segment of the path is `.` or `..`, escaped or not, which services resolve in different ways.
fn has_dot_segments(path: &str) -> bool {
    let path = path.split('?').next().unwrap_or_default();
    let mut segments = path.split(['/', '\\']);
    segments.any(|segment| {
        let name = segment.split(';').next().unwrap_or_default().to_ascii_lowercase().replace("%2e", ".");
        name == "." || name == ".."
    })
}

/// Returns the time of `Date`, which the client may leave out.
fn date_of(headers: &HeaderMap) -> Result<Option<u64>, Rejection> {
    let mut dates = headers.get_all(DATE).iter();
    let Some(date) = dates.next() else { return Ok(None) };
    let date = date.to_str().ok().and_then(parse_http_date).ok_or(Rejection::DATE)?;
    if dates.next().is_some() { Err(Rejection::DATE) } else { Ok(Some(date)) }
}

/// Returns fields of headers, for an answer.
pub(super) fn fields_of(headers: &HeaderMap) -> Vec<Field> {
    headers.iter().map(|(name, value)| Field::new(name.as_str(), value.as_bytes())).collect()
}

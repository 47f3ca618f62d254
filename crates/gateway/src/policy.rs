//! Changes of a route to headers on their way to the service and back: the request's origin, the client's identity, and
//! the rules of the configuration.

use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use http::Version;
use http::header::{self, Entry, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use ipnet::IpNet;
use sealway_exchange::headers::{identity_headers, is_alike, of_hop, remove_hop_by_hop, remove_where};
use sealway_proto::session::{IDENTITY_HEADERS, Session};
use sealway_proto::wire::stripped::{is_claimed, is_forged, is_of_way, may_be_reserved};
use sealway_runtime::http::{Origin, Peer};
use sealway_runtime::telemetry;
pub use sealway_runtime::tls::CertificateField;
use sealway_runtime::tls::PeerCertificate;

use crate::upstream::PreservedHost;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Headers for the client's identity, by RFC 9440 and by default. Only the gateway sets them, also on a route that uses
/// other headers: a service behind two routes cannot tell them apart.
static OF_IDENTITY: [HeaderName; 3] = [
    HeaderName::from_static("client-cert"),
    HeaderName::from_static("client-cert-chain"),
    HeaderName::from_static("x-client-cert"),
];

/// Headers to set, and headers to remove.
#[derive(Clone, Debug, Default)]
pub struct HeaderRules {
    /// Headers to set, in place of existing ones.
    pub set: Vec<(HeaderName, HeaderValue)>,
    /// Headers to remove before any are set.
    pub remove: Vec<HeaderName>,
}

impl HeaderRules {
    /// Applies the rules to a message's headers.
    pub(crate) fn apply(&self, headers: &mut HeaderMap) {
        if self.set.is_empty() && self.remove.is_empty() {
            return;
        }
        let is_other = |name: &HeaderName, set: &HeaderName| name != set && is_alike(name, set);
        remove_where(headers, |name| {
            self.remove.iter().any(|gone| is_alike(gone, name)) || self.set.iter().any(|(set, _)| is_other(name, set))
        });
        for (name, value) in &self.set {
            headers.insert(name, value.clone());
        }
    }
}

/// Returns a certificate field as a header's value; `None` if the certificate lacks the field or no header can carry
/// it.
fn field_header(field: CertificateField, certificate: &PeerCertificate) -> Option<HeaderValue> {
    let sequence = |der: &[u8]| format!(":{}:", STANDARD.encode(der));
    let text = match field {
        CertificateField::Certificate => sequence(certificate.chain.first()?),
        CertificateField::Chain => {
            let chain: Vec<String> = certificate.chain.iter().skip(1).map(|der| sequence(der)).collect();
            chain.join(", ")
        }
        field => {
            // A name with a comma would look like two names in a list.
            let is_list = matches!(field, CertificateField::Dns | CertificateField::Uri);
            let texts = field.texts(certificate).into_iter();
            texts.filter(|text| !is_list || !text.contains(',')).collect::<Vec<_>>().join(",")
        }
    };
    if text.is_empty() { None } else { HeaderValue::try_from(text).ok() }
}

/// Changes of a route to the headers of requests and answers.
#[derive(Clone, Debug)]
pub struct HeaderPolicy {
    /// True if the service gets `Forwarded`, `Via` and similar headers.
    pub forwarded: bool,
    /// True if the service gets the client's `Host` instead of its own.
    pub preserve_host: bool,
    /// Headers with the client's identity. A client's own headers of these names are removed, with and without a
    /// certificate.
    pub identity: Vec<(HeaderName, CertificateField)>,
    /// Header rules for requests.
    pub request: HeaderRules,
    /// Header rules for answers.
    pub response: HeaderRules,
}

impl Default for HeaderPolicy {
    fn default() -> Self {
        HeaderPolicy {
            forwarded: true,
            preserve_host: false,
            identity: vec![(HeaderName::from_static("x-client-cert"), CertificateField::Certificate)],
            request: HeaderRules::default(),
            response: HeaderRules::default(),
        }
    }
}

impl HeaderPolicy {
    /// Prepares a request's headers for the service. Without `preserve_host` the upstream writes its own `Host` over that of the
    /// client. The peer's forwarding headers are kept if it `is_trusted`.
    pub(crate) fn to_upstream(&self, parts: &mut Parts, is_trusted: bool) {
        let headers = &mut parts.headers;
        let is_of_hop = of_hop(headers);
        let host = parts.uri.authority().and_then(|host| HeaderValue::from_str(host.as_str()).ok());
        let host = host.or_else(|| headers.get(header::HOST).cloned());
        remove_where(headers, |name| is_of_hop(name) || self.is_ours(name, is_trusted));
        if let Some(session) = parts.extensions.get::<Arc<Session>>() {
            headers.extend(identity_headers(session.record()));
        }
        let Some(origin) = parts.extensions.get::<Origin>() else { return };
        if self.forwarded {
            add_origin(headers, parts.version, origin, host.as_ref());
        }
        for (name, field) in &self.identity {
            if let Some(value) = origin.certificate.as_ref().and_then(|certificate| field_header(*field, certificate)) {
                headers.insert(name, value);
            }
        }
        if let Some(host) = host.filter(|_| self.preserve_host) {
            headers.insert(header::HOST, host);
            parts.extensions.insert(PreservedHost);
        }
        self.request.apply(headers);
    }

    /// True for a request header that only the gateway may set.
    fn is_ours(&self, name: &HeaderName, is_trusted: bool) -> bool {
        let text = name.as_str();
        // `OF_IDENTITY` is of names of origin that not even a trusted proxy may set.
        let is_reserved = || {
            OF_IDENTITY.iter().any(|ours| is_alike(ours, name))
                || is_claimed(text)
                || is_forged(text, is_trusted)
                || (!is_trusted && is_of_way(text))
        };
        self.identity.iter().any(|(set, _)| is_alike(set, name)) || (may_be_reserved(text) && is_reserved())
    }

    /// Returns the names that a client may not use in trailers, in addition to headers of origin and forwarding, for a
    /// service that treats trailers as headers.
    pub(crate) fn barred_trailers(&self) -> Vec<HeaderName> {
        let set = self.identity.iter().map(|(name, _)| name).chain(self.request.set.iter().map(|(name, _)| name));
        set.chain(&self.request.remove)
            .chain(&OF_IDENTITY)
            .cloned()
            .chain(IDENTITY_HEADERS.map(HeaderName::from_static))
            .collect()
    }

    /// Prepares an answer's headers for the client.
    pub(crate) fn to_client(&self, headers: &mut HeaderMap) {
        remove_hop_by_hop(headers);
        self.response.apply(headers);
    }
}

/// Adds the request's origin: `Forwarded` (RFC 7239) and its predecessors, `Via` (RFC 9110 section 7.6.3), and a trace
/// (W3C Trace Context). Elements of a trusted peer stay before it.
fn add_origin(headers: &mut HeaderMap, version: Version, origin: &Origin, host: Option<&HeaderValue>) {
    let protocol = if origin.is_tls { "https" } else { "http" };
    let peer = origin.peer.ip();
    let mut element = String::with_capacity(128);
    element.push_str(match peer {
        Some(IpAddr::V4(_)) => "for=",
        Some(IpAddr::V6(_)) => "for=\"[",
        None => "for=unknown",
    });
    let begin = element.len();
    if let Some(peer) = peer {
        push_address(&mut element, peer);
    }
    let address = begin..element.len();
    if peer.is_some_and(|peer| peer.is_ipv6()) {
        element.push_str("]\"");
    }
    if let Some(host) = host.and_then(|host| host.to_str().ok()) {
        // A port, or brackets, need quotes; a host contains no quote.
        element.extend([";host=\"", host, "\""]);
    }
    element.extend([";proto=", protocol]);
    // The values share one allocation.
    let element = Bytes::from(element);
    let address = peer.and_then(|_| value_of(element.slice(address)));
    if let Some(element) = value_of(element) {
        append(headers, header::FORWARDED, element);
    }
    if let Some(address) = address {
        append(headers, X_FORWARDED_FOR, address);
    }
    // These two describe the client's own request: the first proxy sets them.
    headers.entry(X_FORWARDED_PROTO).or_insert(HeaderValue::from_static(protocol));
    if let Some(host) = host {
        headers.entry(X_FORWARDED_HOST).or_insert_with(|| host.clone());
    }
    // The version in which the request was received.
    let via = match version {
        Version::HTTP_10 => "1.0 sealway",
        Version::HTTP_2 => "2 sealway",
        _ => "1.1 sealway",
    };
    append(headers, header::VIA, HeaderValue::from_static(via));
    if let Entry::Vacant(place) = headers.entry(TRACEPARENT)
        && let Some(value) = value_of(telemetry::traceparent().into())
    {
        place.insert(value);
    }
}

/// Appends an element to a list header, or creates the header.
fn append(headers: &mut HeaderMap, name: HeaderName, element: HeaderValue) {
    match headers.entry(name) {
        Entry::Vacant(place) => {
            place.insert(element);
        }
        Entry::Occupied(mut place) => {
            let mut list = BytesMut::new();
            // A value that is no text would make the list none.
            for value in place.iter().chain([&element]).filter(|value| value.to_str().is_ok()) {
                if !list.is_empty() {
                    list.extend_from_slice(b", ");
                }
                list.extend_from_slice(value.as_bytes());
            }
            if let Ok(value) = HeaderValue::from_maybe_shared(list.freeze()) {
                place.insert(value);
            }
        }
    }
}

/// Appends the text of an address. An IPv4 address is written without the machinery of `format!`.
fn push_address(text: &mut String, address: IpAddr) {
    let IpAddr::V4(address) = address else { return text.push_str(&address.to_string()) };
    for (index, octet) in address.octets().into_iter().enumerate() {
        if index > 0 {
            text.push('.');
        }
        let digits = [octet / 100, octet / 10 % 10, octet % 10];
        let zeros = digits.iter().take(2).take_while(|digit| **digit == 0).count();
        text.extend(digits.iter().skip(zeros).map(|digit| char::from(b'0' + digit)));
    }
}

/// Makes a header's value of a text, without a copy.
fn value_of(text: Bytes) -> Option<HeaderValue> {
    HeaderValue::from_maybe_shared(text).ok()
}

/// Trusted proxies: peers whose forwarding headers are accepted.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies {
    /// Networks of trusted proxies.
    pub networks: Vec<IpNet>,
    /// True if peers of a Unix socket are trusted.
    pub unix: bool,
}

impl TrustedProxies {
    /// True if the connection's peer is a trusted proxy.
    pub(crate) fn trusts(&self, peer: &Peer) -> bool {
        match peer.ip() {
            Some(address) => self.networks.iter().any(|network| network.contains(&address)),
            None => self.unix,
        }
    }

    /// Returns the client's address: the last address of `X-Forwarded-For` that is not a trusted proxy's; the peer's if
    /// the peer is not trusted, or sends no valid address.
    pub(crate) fn client(&self, peer: &Peer, headers: &HeaderMap) -> Option<IpAddr> {
        let mut client = peer.ip();
        if !self.trusts(peer) {
            return client;
        }
        let values: Vec<&str> =
            headers.get_all(X_FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok()).collect();
        for element in values.iter().rev().flat_map(|value| value.rsplit(',')) {
            let Ok(address) = element.trim().parse::<IpAddr>() else { return client };
            client = Some(address.to_canonical());
            if !self.networks.iter().any(|network| network.contains(&address.to_canonical())) {
                return client;
            }
        }
        client
    }
}

#[cfg(test)]
mod tests;

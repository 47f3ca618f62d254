//! Which headers cross the gateway, and which it sets itself.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use sealway_proto::wire::header::SEALING;
use sealway_runtime::http::Origin;

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

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

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
    HeaderName::from_static("trailer"),
    HeaderName::from_static("server-timing"),
    header::ACCESS_CONTROL_ALLOW_ORIGIN,
    header::ACCESS_CONTROL_ALLOW_HEADERS,
    header::ACCESS_CONTROL_ALLOW_METHODS,
    header::ACCESS_CONTROL_ALLOW_CREDENTIALS,
    header::ACCESS_CONTROL_EXPOSE_HEADERS,
    header::ACCESS_CONTROL_MAX_AGE,
];

fn remove_all(headers: &mut HeaderMap, names: &[HeaderName]) {
    for name in names {
        headers.remove(name);
    }
}

/// Takes out the headers of this hop, those that `Connection` names included.
pub(crate) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    if headers.contains_key(header::CONNECTION) {
        let nominated: Vec<HeaderName> = headers
            .get_all(header::CONNECTION)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .filter_map(|name| name.trim().parse().ok())
            .collect();
        remove_all(headers, &nominated);
    }
    remove_all(headers, &HOP_BY_HOP);
}

/// Makes a request's headers fit for the service behind. `Host` is left to the upstream's client, which sets its own.
pub(crate) fn to_upstream(headers: &mut HeaderMap, origin: Option<&Origin>, authority: Option<&str>) {
    remove_hop_by_hop(headers);
    let host = headers.remove(header::HOST);
    let host = authority.and_then(|host| HeaderValue::from_str(host).ok()).or(host);
    // What a stranger claims about where it comes from is dropped, not passed on.
    remove_all(headers, &[X_FORWARDED_FOR, X_FORWARDED_PROTO, X_FORWARDED_HOST, header::FORWARDED]);
    let client = origin.and_then(|origin| origin.client);
    if let Some(peer) = client.and_then(|client| HeaderValue::from_str(&client.to_string()).ok()) {
        headers.insert(X_FORWARDED_FOR, peer);
    }
    headers.insert(X_FORWARDED_PROTO, HeaderValue::from_static("http"));
    if let Some(host) = host {
        headers.insert(X_FORWARDED_HOST, host);
    }
}

/// Turns the headers of a sealed request into those of the request inside.
pub(crate) fn unseal_request(headers: &mut HeaderMap, content_type: &HeaderValue) {
    for name in SEALING {
        headers.remove(*name);
    }
    remove_all(headers, &OF_SEALED_BODY);
    headers.insert(header::CONTENT_TYPE, content_type.clone());
    headers.insert(header::ACCEPT, content_type.clone());
}

/// Turns the headers of a service's answer into those of the sealed one.
pub(crate) fn seal_answer(headers: &mut HeaderMap) {
    remove_hop_by_hop(headers);
    remove_all(headers, &OF_SERVICE_BODY);
    for name in SEALING {
        headers.remove(*name);
    }
}

#[cfg(test)]
mod tests {
    use sealway_runtime::http::Peer;

    use super::*;

    #[test]
    fn headers_that_connection_names_do_not_cross() {
        let mut headers = HeaderMap::new();
        for (name, value) in
            [("connection", "close, X-Hop"), ("x-hop", "1"), ("te", "trailers"), ("upgrade", "h2c"), ("x-kept", "1")]
        {
            headers.append(name, HeaderValue::from_static(value));
        }
        remove_hop_by_hop(&mut headers);
        assert_eq!(headers.keys().collect::<Vec<_>>(), ["x-kept"]);
    }

    #[test]
    fn a_strangers_forwarding_headers_are_replaced() {
        let mut headers = HeaderMap::new();
        headers.append("x-forwarded-for", HeaderValue::from_static("1.2.3.4"));
        headers.append("forwarded", HeaderValue::from_static("for=1.2.3.4"));
        headers.append("host", HeaderValue::from_static("shop.example"));
        let peer = Peer::Ip("[::ffff:127.0.0.1]:9".parse().unwrap());
        let origin = Origin { listener: "a".into(), peer, client: peer.ip(), is_tls: false, certificate: None };
        to_upstream(&mut headers, Some(&origin), None);
        assert_eq!(headers["x-forwarded-for"], "127.0.0.1");
        assert_eq!(headers["x-forwarded-host"], "shop.example");
        assert!(!headers.contains_key("forwarded") && !headers.contains_key("host"));
    }
}

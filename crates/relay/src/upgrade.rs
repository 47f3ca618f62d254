//! HTTP until a connection is a WebSocket (RFC 6455 section 4.2): the upgrade, `/healthz` and `/metrics`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::header::{ALLOW, CONNECTION, CONTENT_TYPE, ORIGIN, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Version};
use sealway_runtime::http::{Body, Origin, RequestBody, TakeOver, full, websocket};
use sealway_runtime::shutdown::Shutdown;

use crate::endpoint;
use crate::relay::Relay;

/// Most connections over the bound that get a close frame at once.
const TOLD_MAX: usize = 1024;

/// The handler of HTTP requests.
pub(crate) struct Door {
    pub(crate) relay: Arc<Relay>,
    /// Renders the metrics in Prometheus' text format.
    pub(crate) render: Box<dyn Fn() -> String + Send + Sync>,
    pub(crate) shutdown: Shutdown,
}

impl Door {
    pub(crate) fn answer(&self, request: &Request<RequestBody>) -> Response<Body> {
        let path = request.uri().path();
        let is_known = path == self.relay.settings.ws_path || matches!(path, "/healthz" | "/metrics");
        if !is_known {
            return plain(StatusCode::NOT_FOUND, "not found");
        }
        if request.method() != Method::GET && (request.method() != Method::HEAD || path != "/healthz") {
            let mut refusal = plain(StatusCode::METHOD_NOT_ALLOWED, "method not allowed");
            refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
            return refusal;
        }
        match path {
            "/healthz" => plain(StatusCode::OK, "ok"),
            "/metrics" if self.relay.shows_metrics.load(Ordering::Relaxed) => {
                let mut answer = Response::new(full((self.render)()));
                let kind = HeaderValue::from_static("text/plain; version=0.0.4");
                answer.headers_mut().insert(CONTENT_TYPE, kind);
                answer
            }
            "/metrics" => plain(StatusCode::NOT_FOUND, "not found"),
            _ => self.upgrade(request),
        }
    }

    fn upgrade(&self, request: &Request<RequestBody>) -> Response<Body> {
        let headers = request.headers();
        let key = match handshake_key(request.version(), headers) {
            Ok(key) => key,
            Err(refusal) => return *refusal,
        };
        if !self.is_origin_allowed(headers) {
            return plain(StatusCode::FORBIDDEN, "origin not allowed");
        }
        let max = self.relay.settings.limits.connections_max.saturating_add(TOLD_MAX);
        if self.relay.is_draining.load(Ordering::Acquire) || self.relay.conns.len() >= max {
            return plain(StatusCode::SERVICE_UNAVAILABLE, "no new connections");
        }
        let mut answer = Response::new(full(""));
        *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let out = answer.headers_mut();
        out.insert(UPGRADE, HeaderValue::from_static("websocket"));
        out.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        if let Ok(accept) = HeaderValue::from_str(&websocket::accept(key)) {
            out.insert(websocket::ACCEPT, accept);
        }
        let address = request.extensions().get::<Origin>().and_then(|origin| origin.peer.ip());
        let (relay, shutdown) = (self.relay.clone(), self.shutdown.clone());
        answer.extensions_mut().insert(TakeOver::new(move |io| async move {
            // A task of its own: the one that served HTTP is larger, and ends here.
            endpoint::spawn(&relay, io, address, &shutdown);
        }));
        answer
    }

    /// Returns whether a request's origin is on the list. A request without `Origin` is from no page.
    fn is_origin_allowed(&self, headers: &HeaderMap) -> bool {
        let settings = &self.relay.settings;
        let mut origins = headers.get_all(ORIGIN).iter();
        match (origins.next(), origins.next()) {
            (None, _) => settings.allow_no_origin,
            (Some(origin), None) => settings.allow_origin.iter().any(|allowed| is_allowed(allowed, origin.as_bytes())),
            (Some(_), Some(_)) => false,
        }
    }
}

/// Returns the client's key, or an error answer for its request.
fn handshake_key(version: Version, headers: &HeaderMap) -> Result<&[u8], Box<Response<Body>>> {
    let one = |name: &str| {
        let mut values = headers.get_all(name).iter();
        values.next().filter(|_| values.next().is_none()).map(HeaderValue::as_bytes)
    };
    let has = |name: HeaderName, item: &str| {
        let values = headers.get_all(name).iter();
        values
            .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
            .any(|word| word.trim_ascii().eq_ignore_ascii_case(item.as_bytes()))
    };
    let upgrade_required = || {
        let mut refusal = plain(StatusCode::UPGRADE_REQUIRED, "this is a WebSocket");
        let out = refusal.headers_mut();
        out.insert(UPGRADE, HeaderValue::from_static("websocket"));
        out.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        out.insert(HeaderName::from_static("sec-websocket-version"), HeaderValue::from_static("13"));
        Box::new(refusal)
    };
    if version != Version::HTTP_11 || !has(UPGRADE, "websocket") || !has(CONNECTION, "upgrade") {
        return Err(upgrade_required());
    }
    if one("sec-websocket-version").is_none_or(|version| version != b"13") {
        return Err(upgrade_required());
    }
    websocket::key(headers).ok_or_else(|| Box::new(plain(StatusCode::BAD_REQUEST, "bad Sec-WebSocket-Key")))
}

fn plain(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut answer = Response::new(full(text));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}

/// Returns whether an entry of the list allows an origin: the whole value byte for byte, a host with or without its port, or
/// `*.` before a host for each name below it.
fn is_allowed(allowed: &str, origin: &[u8]) -> bool {
    if allowed.as_bytes() == origin {
        return true;
    }
    let origin = std::str::from_utf8(origin).ok().and_then(|origin| origin.split_once("://"));
    let Some((scheme, place)) =
        origin.filter(|(_, place)| !allowed.contains('/') && !place.contains(['/', '@', '?', '#']))
    else {
        return false;
    };
    let (host, port) = host_and_port(place);
    let (allowed_host, allowed_port) = host_and_port(allowed);
    let is_port = allowed_port.is_none_or(|allowed| Some(allowed) == port.or(default_port(scheme)));
    is_port
        && match allowed_host.strip_prefix("*.") {
            Some(parent) => host.split_once('.').is_some_and(|_| is_below(host, parent)),
            None => !host.is_empty() && host.eq_ignore_ascii_case(allowed_host),
        }
}

fn is_below(host: &str, parent: &str) -> bool {
    let Some(at) = host.len().checked_sub(parent.len() + 1) else { return false };
    !parent.is_empty() && at > 0 && host.as_bytes()[at] == b'.' && host[at + 1..].eq_ignore_ascii_case(parent)
}

/// Splits a host and its port. The port is `None` if no number follows the last colon; addresses of IPv6 keep their brackets.
fn host_and_port(place: &str) -> (&str, Option<u16>) {
    match place.rsplit_once(':') {
        Some((host, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => {
            (host, port.parse().ok())
        }
        _ => (place, None),
    }
}

fn default_port(scheme: &str) -> Option<u16> {
    match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_accept_value_is_that_of_the_standard() {
        assert_eq!(websocket::accept(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn an_origin_is_allowed_by_its_value_by_its_host_or_by_a_name_above_it() {
        for (allowed, origin) in [
            ("https://a.example", "https://a.example"),
            ("null", "null"),
            ("a.example", "https://a.example"),
            ("a.example", "http://A.example:8080"),
            ("a.example:443", "https://a.example"),
            ("a.example:8443", "https://a.example:8443"),
            ("[::1]:80", "http://[::1]"),
            ("*.example", "https://a.example"),
            ("*.a.example", "https://c.b.a.example:1"),
        ] {
            assert!(is_allowed(allowed, origin.as_bytes()), "{allowed} {origin}");
        }
        for (allowed, origin) in [
            ("https://a.example", "https://a.example:443"),
            ("https://a.example", "http://a.example"),
            ("a.example", "https://b.a.example"),
            ("a.example", "https://a.example.evil"),
            ("a.example", "https://evil/a.example"),
            ("a.example", "https://evil@a.example"),
            ("a.example", "https://evila.example"),
            ("a.example:80", "https://a.example"),
            ("*.a.example", "https://a.example"),
            ("*.a.example", "https://eviLa.example"),
            ("*.a.example", "https://.a.example"),
            ("*.", "https://a."),
            ("*", "https://a.example"),
            ("", "https://"),
            ("a.example", "A.example"),
            ("null", "https://null.example"),
        ] {
            assert!(!is_allowed(allowed, origin.as_bytes()), "{allowed} {origin}");
        }
        assert!(!is_allowed("a.example", b"https://\xff"));
    }
}

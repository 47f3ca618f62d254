//! Hop-by-hop requests that are passed to the next hop: another protocol on the connection (RFC 9110 section 7.8) or on a
//! stream of HTTP/2 (RFC 8441), and trailers (section 10.1.4).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, TE, UPGRADE};
use http::request::Parts;
use http::{Response, StatusCode, Version};
use metrics::{counter, gauge};
use sealway_exchange::headers::{is_alike, remove_where};
use sealway_runtime::http::{Body, ExtendedConnect, Raw, TakeOver, full, websocket};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::upstream::{Upstream, UpstreamIo};

/// Size of the buffer for each direction of a tunnel, in bytes.
const TUNNEL_BUFFER: usize = 16 * 1024;

/// Hop-by-hop requests of a client.
#[derive(Debug, Default)]
pub(crate) struct HopByHop {
    upgrade: Option<HeaderValue>,
    trailers: bool,
    /// True if the request is an extended CONNECT.
    is_extended: bool,
}

impl HopByHop {
    /// Reads the headers, before those of this hop are removed. One protocol of `allowed` is passed on, and nothing
    /// else: messages in another one, such as HTTP in a tunnel, would bypass every route. Without its `Upgrade` the
    /// request continues as a plain one, which RFC 9110 section 7.8 permits. An extended CONNECT cannot continue: it is
    /// [`HopByHop::is_barred`].
    pub(crate) fn of(parts: &Parts, allowed: &[String]) -> Self {
        let (version, headers) = (parts.version, &parts.headers);
        let extended = parts.extensions.get::<ExtendedConnect>();
        let mut offered = headers.get_all(UPGRADE).iter();
        let offered = offered.next().filter(|_| offered.next().is_none());
        let is_allowed = |offer: &&HeaderValue| allowed.iter().any(|name| is_protocol(offer, name.as_bytes()));
        let may_be = |_: &&HeaderValue| version == Version::HTTP_11 && has(headers, &CONNECTION, "upgrade");
        let upgrade = match extended {
            Some(extended) => Some(&extended.protocol).filter(is_allowed),
            None => offered.filter(is_allowed).filter(may_be),
        };
        HopByHop { upgrade: upgrade.cloned(), trailers: has(headers, &TE, "trailers"), is_extended: extended.is_some() }
    }

    /// True for an extended CONNECT to a protocol that is not passed on.
    pub(crate) fn is_barred(&self) -> bool {
        self.is_extended && self.upgrade.is_none()
    }

    /// Adds the headers for the next hop. The upstream adds those of the handshake to an extended CONNECT, which has none
    /// (RFC 8441 section 5).
    pub(crate) fn put_back(self, headers: &mut HeaderMap) {
        if self.is_extended {
            remove_where(headers, |name| is_alike(name, &websocket::KEY) || is_alike(name, &websocket::ACCEPT));
        }
        if let Some(upgrade) = self.upgrade {
            headers.append(CONNECTION, HeaderValue::from_static("upgrade"));
            headers.insert(UPGRADE, upgrade);
        }
        if self.trailers {
            headers.append(CONNECTION, HeaderValue::from_static("te"));
            headers.insert(TE, HeaderValue::from_static("trailers"));
        }
    }
}

/// True if a header names exactly this protocol, in any case (RFC 9110 section 7.8).
pub(crate) fn is_protocol(header: &HeaderValue, name: &[u8]) -> bool {
    header.as_bytes().eq_ignore_ascii_case(name)
}

/// True if a list contains an item; case and parameters are ignored.
fn has(headers: &HeaderMap, name: &HeaderName, item: &str) -> bool {
    let items = headers.get_all(name).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    let mut names = items.map(|item| item.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii());
    names.any(|name| name.eq_ignore_ascii_case(item.as_bytes()))
}

/// Answers an extended CONNECT that opens no tunnel although its handler succeeds, or that asks for another protocol than
/// the route allows (RFC 9220 section 3). Its client would take a success for a tunnel.
pub(crate) fn not_switched() -> Response<Body> {
    let mut response = Response::new(full(""));
    *response.status_mut() = StatusCode::NOT_IMPLEMENTED;
    response
}

/// Turns the service's 101 into the client's: the two connections become one, until both ends are closed or nothing
/// moves for the upstream's idle time. `upgrade` is the service's header of that name, read before headers of its hop
/// were removed; `None` for the client of an extended CONNECT, which gets 200. Does nothing for any other status.
pub(crate) fn join(response: &mut Response<Body>, upgrade: Option<HeaderValue>, upstream: &Upstream) {
    let Some(tunnel) = response.extensions_mut().remove::<UpstreamIo>().and_then(|io| io.take()) else { return };
    match upgrade {
        Some(upgrade) => {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
            response.headers_mut().insert(UPGRADE, upgrade);
        }
        None => {
            *response.status_mut() = StatusCode::OK;
            remove_where(response.headers_mut(), |name| *name == websocket::ACCEPT || *name == CONTENT_LENGTH);
        }
    }
    let (name, idle) = (upstream.name().to_owned(), upstream.idle_time());
    response.extensions_mut().insert(TakeOver::new(move |client| async move {
        counter!("sealway_tunnels_total", "upstream" => name.clone()).increment(1);
        let open = gauge!("sealway_tunnels", "upstream" => name);
        open.increment(1.0);
        let _closed = TunnelCount(open);
        carry(client, tunnel, idle).await;
    }));
}

/// Decrements the gauge of tunnels when dropped.
struct TunnelCount(metrics::Gauge);

impl Drop for TunnelCount {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

/// Copies bytes both ways. An idle tunnel is closed after `idle`, at the latest after twice that.
async fn carry(client: Box<dyn Raw>, server: impl AsyncRead + AsyncWrite + Unpin, idle: Duration) {
    let moved = Arc::new(AtomicBool::new(false));
    let mut client = ActivityIo { io: client, moved: moved.clone() };
    let mut server = ActivityIo { io: server, moved: moved.clone() };
    let carried = tokio::io::copy_bidirectional_with_sizes(&mut client, &mut server, TUNNEL_BUFFER, TUNNEL_BUFFER);
    let idled = async {
        loop {
            tokio::time::sleep(idle).await;
            if !moved.swap(false, Ordering::Relaxed) {
                return;
            }
        }
    };
    tokio::select! {
        carried = carried => if let Err(err) = carried {
            tracing::debug!(%err, "a tunnel was interrupted");
        },
        () = idled => tracing::debug!("a tunnel was idle for too long"),
    }
}

/// Wrapper that records reads; every write follows a read.
struct ActivityIo<IO> {
    io: IO,
    moved: Arc<AtomicBool>,
}

impl<IO: AsyncRead + Unpin> AsyncRead for ActivityIo<IO> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.io).poll_read(cx, buf);
        if polled.is_ready() {
            self.moved.store(true, Ordering::Relaxed);
        }
        polled
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for ActivityIo<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write(cx, bytes);
        if polled.is_ready() {
            self.moved.store(true, Ordering::Relaxed);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(version: Version, headers: HeaderMap) -> Parts {
        let mut request = http::Request::new(());
        *request.version_mut() = version;
        *request.headers_mut() = headers;
        request.into_parts().0
    }

    #[test]
    fn an_extended_connect_passes_an_allowed_protocol_alone_and_no_header_of_the_handshake() {
        for (protocol, is_allowed) in [("websocket", true), ("WebSocket", true), ("chat", false), ("", false)] {
            let mut headers = HeaderMap::new();
            for name in ["sec-websocket-key", "sec_websocket_key", "sec-websocket-accept", "sec-websocket-version"] {
                headers.insert(name, HeaderValue::from_static("13"));
            }
            // No client of HTTP/2 can send it, so it counts for nothing.
            headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
            let mut parts = parts(Version::HTTP_2, headers);
            parts.extensions.insert(ExtendedConnect { protocol: HeaderValue::from_static(protocol) });
            let asked = HopByHop::of(&parts, &["websocket".to_owned()]);
            assert_eq!(asked.is_barred(), !is_allowed, "{protocol}");
            if is_allowed {
                asked.put_back(&mut parts.headers);
                let names: Vec<_> = parts.headers.keys().map(HeaderName::as_str).collect();
                assert_eq!(names, ["sec-websocket-version", "upgrade", "connection"]);
                assert_eq!(parts.headers[UPGRADE], protocol);
            }
        }
    }

    fn passed(version: Version, fields: &[(&'static str, &'static str)]) -> Vec<(String, String)> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_static(value));
        }
        let asked = HopByHop::of(&parts(version, headers), &["websocket".to_owned(), "chat/2".to_owned()]);
        assert!(!asked.is_barred());
        let mut next = HeaderMap::new();
        asked.put_back(&mut next);
        next.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect()
    }

    #[test]
    fn an_upgrade_is_forwarded_only_if_the_route_allows_its_protocol() {
        let asked = passed(Version::HTTP_11, &[("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")]);
        assert_eq!(asked, [("connection".into(), "upgrade".into()), ("upgrade".into(), "websocket".into())]);
        for allowed in ["WebSocket", "Chat/2"] {
            let asked = passed(Version::HTTP_11, &[("connection", "upgrade"), ("upgrade", allowed)]);
            assert_eq!(asked[1], ("upgrade".into(), allowed.into()));
        }
        for fields in [
            &[("upgrade", "websocket")][..],
            &[("connection", "upgrade"), ("upgrade", "TLS/1.0")],
            &[("connection", "upgrade"), ("upgrade", "HTTP/2.0")],
            &[("connection", "upgrade"), ("upgrade", "chat")],
            &[("connection", "upgrade"), ("upgrade", "websocket, TLS/1.0")],
            &[("connection", "upgrade"), ("upgrade", "")],
            &[("connection", "upgrade")],
            &[("connection", "upgrade"), ("upgrade", "h2c")],
            &[("connection", "upgrade"), ("upgrade", "websocket, H2C")],
            &[("connection", "upgrade"), ("upgrade", "websocket"), ("upgrade", "h2c")],
        ] {
            assert!(passed(Version::HTTP_11, fields).is_empty(), "{fields:?}");
        }
        assert!(passed(Version::HTTP_10, &[("connection", "upgrade"), ("upgrade", "websocket")]).is_empty());
    }

    #[test]
    fn te_trailers_is_forwarded_only_from_the_client() {
        let asked = passed(Version::HTTP_2, &[("te", "gzip;q=0.5, Trailers")]);
        assert_eq!(asked, [("connection".into(), "te".into()), ("te".into(), "trailers".into())]);
        assert!(passed(Version::HTTP_11, &[("te", "gzip")]).is_empty());
    }
}

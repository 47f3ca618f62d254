//! Hop-by-hop requests that are passed to the next hop: another protocol on the connection (RFC 9110 section 7.8), and
//! trailers (section 10.1.4).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue, TE, UPGRADE};
use http::{Response, Version};
use metrics::{counter, gauge};
use sealway_runtime::http::{Body, Raw, TakeOver};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::upstream::{Upstream, UpstreamIo};

/// Size of the buffer for each direction of a tunnel, in bytes.
const TUNNEL_BUFFER: usize = 16 * 1024;

/// Hop-by-hop requests of a client.
#[derive(Debug, Default)]
pub(crate) struct HopByHop {
    upgrade: Option<HeaderValue>,
    trailers: bool,
}

impl HopByHop {
    /// Reads the headers, before those of this hop are removed. One protocol of `allowed` is passed on, and nothing
    /// else: messages in another one, such as HTTP in a tunnel, would bypass every route. Without its `Upgrade` the
    /// request continues as a plain one, which RFC 9110 section 7.8 permits.
    pub(crate) fn of(version: Version, headers: &HeaderMap, allowed: &[String]) -> Self {
        let mut offered = headers.get_all(UPGRADE).iter();
        let offered = offered.next().filter(|_| offered.next().is_none());
        let is_allowed = |offer: &&HeaderValue| allowed.iter().any(|name| is_protocol(offer, name.as_bytes()));
        let may_be = version == Version::HTTP_11 && has(headers, &CONNECTION, "upgrade");
        HopByHop {
            upgrade: offered.filter(is_allowed).filter(|_| may_be).cloned(),
            trailers: has(headers, &TE, "trailers"),
        }
    }

    /// Adds the headers for the next hop.
    pub(crate) fn put_back(self, headers: &mut HeaderMap) {
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

/// Turns the service's 101 into the client's: the two connections become one, until both ends are closed or nothing
/// moves for the upstream's idle time. `upgrade` is the service's header of that name, read before headers of its hop
/// were removed. Does nothing for any other status.
pub(crate) fn join(response: &mut Response<Body>, upgrade: Option<HeaderValue>, upstream: &Upstream) {
    let Some(tunnel) = response.extensions_mut().remove::<UpstreamIo>().and_then(|io| io.take()) else { return };
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
    if let Some(upgrade) = upgrade {
        response.headers_mut().insert(UPGRADE, upgrade);
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

    fn passed(version: Version, fields: &[(&'static str, &'static str)]) -> Vec<(String, String)> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_static(value));
        }
        let asked = HopByHop::of(version, &headers, &["websocket".to_owned(), "chat/2".to_owned()]);
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

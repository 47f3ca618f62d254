//! Services that keep the requests that reach them, and check the form of each.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use sealway_testkit::raw_http::Connection;
use sealway_testkit::upstream::{RequestHead, Upstream, answer};

use crate::raw_http2::{Message, Service};

/// A service that keeps the requests that reach it whole. Trailers stand among their headers, as `trailer NAME`.
pub(crate) trait Recorder {
    fn address(&self) -> SocketAddr;
    /// Returns the protocol as a setting of the gateway.
    fn protocol(&self) -> &'static str;
    /// Returns the next request, and waits for it.
    ///
    /// # Errors
    /// None comes, or it is no valid message of the protocol.
    fn next(&self) -> anyhow::Result<(RequestHead, Vec<u8>)>;
    /// Returns whether no (further) request reached it.
    fn is_untouched(&self) -> bool;
}

/// Fields that end at a connection of HTTP/1.
const OF_CONNECTION: [&str; 5] = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

fn trailer(trailer: (String, String)) -> (String, String) {
    (format!("trailer {}", trailer.0), trailer.1)
}

/// A service that speaks HTTP/1. What follows a request on its connection belongs to the request's body here: no service would
/// ignore it.
pub(crate) struct Http1Service {
    upstream: Upstream,
    seen: Mutex<Receiver<(RequestHead, Vec<u8>)>>,
}

impl Http1Service {
    pub(crate) fn start() -> anyhow::Result<Http1Service> {
        let (sender, seen) = channel();
        let sender = Mutex::new(sender);
        let upstream = Upstream::serve(move |received, connection: &mut Connection| {
            let (mut body, trailers) = connection.read_body_and_trailers(&received.headers)?;
            // Errors that the decoder must notice are after the first chunk, so the answer follows the body.
            connection.write(&answer("200 OK", &[], b"served"))?;
            body.extend(connection.read_to_end()?);
            let mut received = received.clone();
            received.headers.extend(trailers.into_iter().map(trailer));
            sender.lock().ok().context("another request failed")?.send((received, body))?;
            Ok(Vec::new())
        })?;
        Ok(Http1Service { upstream, seen: Mutex::new(seen) })
    }
}

impl Recorder for Http1Service {
    fn address(&self) -> SocketAddr {
        self.upstream.address
    }

    fn protocol(&self) -> &'static str {
        "http1"
    }

    fn next(&self) -> anyhow::Result<(RequestHead, Vec<u8>)> {
        let receiver = self.seen.lock().ok().context("another test failed")?;
        let (head, body) = receiver.recv_timeout(Duration::from_secs(10)).context("the service was not asked")?;
        ensure!(head.line.split(' ').count() == 3 && !head.line.contains(char::is_control), "{:?}", head.line);
        for (name, value) in &head.headers {
            let is_text = |c: char| !c.is_control() || c == '\t' || u32::from(c) >= 0x80;
            ensure!(!name.is_empty() && value.chars().all(is_text), "{name:?}: {value:?}");
        }
        let count = |name: &str| head.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name)).count();
        let framings = count("content-length") + count("transfer-encoding");
        ensure!(count("host") == 1 && framings < 2, "{:?}", head.headers);
        Ok((head, body))
    }

    fn is_untouched(&self) -> bool {
        self.seen.lock().is_ok_and(|receiver| receiver.try_recv().is_err())
    }
}

impl Recorder for Service {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn protocol(&self) -> &'static str {
        "http2"
    }

    fn next(&self) -> anyhow::Result<(RequestHead, Vec<u8>)> {
        let Message { head, body, trailers } = Service::next(self)?;
        let pseudo = |name: &str| head.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let (Some(method), Some(path), Some("http")) = (pseudo(":method"), pseudo(":path"), pseudo(":scheme")) else {
            bail!("{head:?}")
        };
        ensure!(!pseudo(":authority").unwrap_or_default().is_empty() && path.starts_with(['/', '*']), "{head:?}");
        let line = format!("{method} {path} HTTP/1.1");
        let count = head.iter().take_while(|(name, _)| name.starts_with(':')).count();
        ensure!(count == 4 && head.iter().skip(4).all(|(name, _)| !name.starts_with(':')), "{head:?}");
        for (name, value) in head.iter().chain(&trailers) {
            let is_allowed =
                !OF_CONNECTION.contains(&&**name) && name != "host" && (name != "te" || value == "trailers");
            ensure!(is_allowed, "{name}: {value}");
        }
        let mut lengths = head.iter().filter(|(name, _)| name == "content-length").map(|(_, value)| value);
        let (length, other) = (lengths.next(), lengths.next());
        ensure!(length.is_none_or(|len| *len == body.len().to_string()) && other.is_none(), "{head:?}");
        let headers = head.into_iter().skip(4).chain(trailers.into_iter().map(trailer));
        Ok((RequestHead { line, headers: headers.collect() }, body))
    }

    fn is_untouched(&self) -> bool {
        Service::is_untouched(self)
    }
}

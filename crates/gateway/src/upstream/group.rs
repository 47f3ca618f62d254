//! The servers of an upstream: a request goes to one of them, and to another one if nothing of it was sent.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use http::header::{self, HeaderMap};
use http::request::Parts;
use http::uri::{PathAndQuery, Scheme};
use http::{Method, Request, Response, StatusCode, Uri};
use hyper::body::Body as HttpBody;
use sealway_runtime::http::h1::{Framing, encode_request, response_has_no_body};
use sealway_runtime::http::h2::RequestHead;
use sealway_runtime::http::share::Taker;
use sealway_runtime::http::{Body, ExtendedConnect, Interim, Origin, full};

use super::balance::{Attempts, Balance, pick};
use super::connect::ConnectError;
use super::h1::{Connection, Exchange, ExchangeError, response_of};
use super::h2::{Stream, Times};
use super::pool::Slot;
use super::sending::Sending;
use super::server::{InFlight, Link, LinkRequest, Need, Server};
use super::switch::Switch;
use super::tunnel::UpstreamIo;
use super::unframed::EndsWithConnection;
use super::{PreservedHost, UpstreamError, UpstreamLimits};
use sealway_exchange::headers;

/// Maximum number of servers that one request tries to connect to.
const TRIES_MAX: usize = 3;
/// Headers of HTTP/1.1 only. `Expect` has no use in HTTP/2, whose flow control governs bodies.
const NOT_OF_H2: [header::HeaderName; 6] = [
    header::EXPECT,
    header::CONNECTION,
    header::UPGRADE,
    header::TRANSFER_ENCODING,
    header::HeaderName::from_static("keep-alive"),
    header::HeaderName::from_static("proxy-connection"),
];

#[derive(Debug)]
pub(super) struct Group {
    pub(super) servers: Vec<Arc<Server>>,
    balance: Balance,
    turn: AtomicUsize,
    limits: UpstreamLimits,
}

/// A request until it is answered. It may be sent again as long as its body is complete.
pub(super) struct Outgoing {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    interim: Option<Interim>,
    /// The body; `None` if there is none, or if it was taken.
    body: Option<Body>,
    /// True if a part of the body is gone.
    is_spent: bool,
    /// True if nothing was sent, not even the head.
    is_unsent: bool,
    /// True if the `Host` of `headers` goes to the server, and not the server's own.
    keeps_host: bool,
    /// The other protocol that it asks for.
    switch: Option<Switch>,
    /// Network of its client, if it is known.
    network: Option<Taker>,
}

impl Outgoing {
    pub(super) fn new(request: Request<Body>) -> Self {
        let (Parts { method, uri, headers, mut extensions, .. }, body) = request.into_parts();
        let interim = extensions.remove::<Interim>();
        let keeps_host = extensions.remove::<PreservedHost>().is_some();
        let is_extended = extensions.remove::<ExtendedConnect>().is_some();
        let body = (!body.is_end_stream()).then_some(body);
        let switch = Switch::of(&method, &headers, is_extended, body.is_some());
        // A request that does not show its client to the service has the network beside it.
        let network = extensions.get::<Taker>().copied().or_else(|| Taker::network(extensions.get::<Origin>()));
        Outgoing { method, uri, headers, interim, body, is_spent: false, is_unsent: false, keeps_host, switch, network }
    }

    /// Returns the kind of connection that it needs.
    fn need(&self) -> Need {
        match &self.switch {
            None => Need::Any,
            Some(switch) if switch.may_be_connect() => Need::Tunnel,
            Some(_) => Need::Http1,
        }
    }

    /// True if a retry is harmless.
    fn may_be_sent_again(&self) -> bool {
        self.is_unsent || (!self.is_spent && self.method.is_idempotent())
    }

    /// Returns the framing of the body in HTTP/1.1.
    fn framing(&self) -> Framing {
        let Some(body) = &self.body else {
            let says_length = self.headers.contains_key(header::CONTENT_LENGTH);
            let has_meaning = [Method::POST, Method::PUT, Method::PATCH].contains(&self.method);
            return if says_length || has_meaning { Framing::Length(0) } else { Framing::None };
        };
        body.size_hint().exact().map_or(Framing::Chunked, Framing::Length)
    }
}

impl Group {
    pub(super) fn new(servers: Vec<Arc<Server>>, balance: Balance, limits: UpstreamLimits) -> Self {
        Group { servers, balance, turn: AtomicUsize::new(0), limits }
    }

    /// Sends a request to one of the servers.
    pub(super) async fn call(&self, request: Request<Body>) -> Result<Response<Body>, UpstreamError> {
        let mut request = Outgoing::new(request);
        let mut tried = Attempts::default();
        let mut is_fresh = false;
        loop {
            let Some(index) = pick(&self.servers, self.balance, &self.turn, tried) else {
                return Err(UpstreamError::Unreachable("it has no servers".into()));
            };
            let server = &self.servers[index];
            let in_flight = InFlight::at(server);
            let wanted = LinkRequest { need: request.need(), is_fresh, network: request.network };
            let link = match server.link(wanted).await {
                Ok(link) => link,
                Err(err) => {
                    tried.add(index);
                    // Nothing was sent, so any request may go to another server.
                    if tried.len() < self.servers.len().min(TRIES_MAX) {
                        continue;
                    }
                    return Err(err.into());
                }
            };
            let (answer, is_reused) = self.exchange(link, server, in_flight, &mut request).await;
            match answer {
                // The server had closed the connection before it read the request, or during it.
                Err(ExchangeError::Ended(_)) if is_reused && !is_fresh && request.may_be_sent_again() => {
                    is_fresh = true
                }
                answer => return Ok(answer?),
            }
        }
    }

    /// Sends a health check to one server, without a retry.
    pub(super) async fn ask(
        &self,
        server: &Arc<Server>,
        request: Request<Body>,
    ) -> Result<Response<Body>, UpstreamError> {
        let mut request = Outgoing::new(request);
        let link = server.link(LinkRequest { need: Need::Any, is_fresh: true, network: None }).await?;
        Ok(self.exchange(link, server, InFlight::at(server), &mut request).await.0?)
    }

    async fn exchange(
        &self,
        link: Link,
        server: &Server,
        in_flight: InFlight,
        request: &mut Outgoing,
    ) -> (Result<Response<Body>, ExchangeError>, bool) {
        match link {
            Link::H1(connection, slot) => {
                let is_reused = connection.is_reused;
                (self.exchange_h1(connection, slot, server, in_flight, request).await, is_reused)
            }
            Link::H2(stream) => {
                let is_reused = stream.is_reused;
                // Boxed: its future is three times as large as that of HTTP/1.
                (Box::pin(self.exchange_h2(stream, server, in_flight, request)).await, is_reused)
            }
        }
    }

    async fn exchange_h1(
        &self,
        connection: Connection,
        slot: Slot,
        server: &Server,
        in_flight: InFlight,
        request: &mut Outgoing,
    ) -> Result<Response<Body>, ExchangeError> {
        if !request.keeps_host {
            request.headers.insert(header::HOST, server.address.host.clone());
        }
        if let Some(switch) = &mut request.switch {
            switch.complete(&mut request.headers)?;
        }
        let framing = request.framing();
        let mut head = bytes::BytesMut::with_capacity(1024);
        encode_request(&mut head, &request.method, &target(&request.uri), &request.headers, framing);
        let is_held = request.body.is_some() && request.headers.contains_key(header::EXPECT);
        let sending = Sending::new(head, framing, request.body.take(), is_held);
        let method = request.method.clone();
        let wants_upgrade = request.switch.is_some();
        let mut exchange = Exchange::new(connection, slot, in_flight, sending, method, wants_upgrade);
        let times = self.times();
        let mut head = match exchange.head(times.response, &server.continue_ms, request.interim.as_ref()).await {
            Ok(head) => head,
            Err(failed) => {
                match exchange.into_body() {
                    Some(body) => request.body = body,
                    None => request.is_spent = true,
                }
                return Err(failed);
            }
        };
        head.keep_alive &= !headers::says_close(&request.headers);
        let mut headers = std::mem::take(&mut head.headers);
        if head.status == StatusCode::NO_CONTENT {
            // A 204 has no content and so no length (RFC 9110 section 8.6).
            headers.remove(header::CONTENT_LENGTH);
        }
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            if let Some(switch) = &request.switch {
                switch.check(&headers)?;
            }
            let mut response = response_of(head.status, headers, full(bytes::Bytes::new()));
            response.extensions_mut().insert(UpstreamIo::new(exchange.into_tunnel()));
            return Ok(response);
        }
        exchange.check_first_chunk(&head)?;
        let is_unproved = head.framing == Framing::Close && !exchange.is_over_tls();
        let body = exchange.into_body_of(&head, times.idle);
        let mut response = response_of(head.status, headers, body);
        if is_unproved {
            response.extensions_mut().insert(EndsWithConnection);
        }
        Ok(response)
    }

    async fn exchange_h2(
        &self,
        stream: Stream,
        server: &Server,
        in_flight: InFlight,
        request: &mut Outgoing,
    ) -> Result<Response<Body>, ExchangeError> {
        let mut headers = request.headers.clone();
        let host = headers.remove(header::HOST).filter(|_| request.keeps_host);
        for name in &NOT_OF_H2 {
            headers.remove(name);
        }
        if request.switch.is_some() {
            Switch::without_handshake(&mut headers);
        }
        let authority = host.and_then(|host| http::uri::Authority::try_from(host.as_bytes()).ok());
        let mut parts = http::uri::Parts::default();
        parts.scheme = Some(if server.address.is_tls() { Scheme::HTTPS } else { Scheme::HTTP });
        parts.authority = Some(authority.unwrap_or_else(|| server.address.authority.clone()));
        parts.path_and_query = Some(request.uri.path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/")));
        let uri = Uri::from_parts(parts).map_err(|err| ExchangeError::CutOff(err.to_string()))?;
        request.is_unsent = false;
        let had_body = request.body.is_some();
        let protocol = request.switch.as_ref().map(Switch::protocol);
        let method = if protocol.is_some() { Method::CONNECT } else { request.method.clone() };
        let head = RequestHead { method, uri, headers, protocol };
        let (body, interim) = (request.body.take(), request.interim.as_ref());
        let answer = stream.exchange(head, body, self.times(), in_flight, interim).await;
        let answer = answer.map(|mut answer| {
            if let Some(switch) = request.switch.as_ref().filter(|_| answer.extensions().get::<UpstreamIo>().is_some())
            {
                switch.to_101(&mut answer);
            }
            without_barred_body(&request.method, answer)
        });
        answer.map_err(|(failed, unsent)| {
            match unsent {
                Some(body) => (request.body, request.is_unsent) = (body, true),
                None => request.is_spent = had_body,
            }
            failed
        })
    }

    fn times(&self) -> Times {
        Times {
            response: Duration::from_millis(self.limits.response_ms),
            idle: Duration::from_millis(self.limits.idle_ms),
        }
    }
}

/// Removes a body that a status or a method must not have (RFC 9110 section 6.4.1): HTTP/1 has no place for it, and a
/// client of HTTP/2 would receive it.
fn without_barred_body(method: &Method, answer: Response<Body>) -> Response<Body> {
    if !response_has_no_body(method, answer.status()) {
        return answer;
    }
    let mut answer = answer.map(|_| full(bytes::Bytes::new()));
    if answer.status() == StatusCode::NO_CONTENT {
        answer.headers_mut().remove(header::CONTENT_LENGTH);
    }
    answer
}

/// Returns the target as the client wrote it, in the form for a server.
fn target(uri: &Uri) -> std::borrow::Cow<'_, str> {
    match uri.path_and_query().map(PathAndQuery::as_str) {
        None | Some("") => "/".into(),
        Some(target) if target.starts_with('/') || target == "*" => target.into(),
        Some(query) => format!("/{query}").into(),
    }
}

impl From<ConnectError> for UpstreamError {
    fn from(err: ConnectError) -> Self {
        match err {
            ConnectError::Failed(why) => UpstreamError::Unreachable(why),
            ConnectError::TimedOut => UpstreamError::ConnectTimeout,
            ConnectError::Overloaded => UpstreamError::Overloaded,
        }
    }
}

impl From<ExchangeError> for UpstreamError {
    fn from(failed: ExchangeError) -> Self {
        match failed {
            ExchangeError::Ended(why) | ExchangeError::CutOff(why) => UpstreamError::Unreachable(why),
            ExchangeError::Faulty(fault) => UpstreamError::Faulty(fault),
            ExchangeError::TooSlow => UpstreamError::TooSlow,
            ExchangeError::RequestBody(refusal) => UpstreamError::RequestBody(refusal),
        }
    }
}

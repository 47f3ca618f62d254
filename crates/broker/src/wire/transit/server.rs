//! The listener of the transit API: HTTP/1.1 on a loopback address, with bounds on connections, headers, bodies and times.
//!
//! A request is known by its token before its body is read, and a connection is kept for requests with a token alone.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use sealway_runtime::listener::{self, BindError};
use sealway_runtime::shutdown::Shutdown;
use tokio::net::TcpStream;
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::answer::Answer;
use super::route::{NoRoute, Route};
use super::{Fields, Request, Transit, status};
use crate::accept;
use crate::call::Call;
use crate::callers::Peer;
use crate::service::NO_ROOM;
use crate::wire::bounds::{CALL_LEN, REQUEST_MAX};
use crate::{Code, Refusal, Result};

/// Concurrent connections; further ones wait.
const CONNECTIONS_MAX: usize = 256;
/// Time for the headers of a connection's first request.
const FIRST_TIME: Duration = Duration::from_secs(10);
/// Time for the headers of a request, which is also the longest idle time of a connection.
const HEADERS_TIME: Duration = Duration::from_secs(60);
/// Time for the body of a request.
const ARRIVAL: Duration = Duration::from_secs(60);
/// Time of a connection, after which it closes behind its request in progress.
const CONNECTION_TIME: Duration = Duration::from_secs(600);
/// Time for the last request of a connection that closes.
const LAST_TIME: Duration = Duration::from_secs(90);
/// Longest headers, in bytes, and the most headers.
const HEADERS_LEN_MAX: usize = 16 * 1024;
const HEADERS_MAX: usize = 64;

/// Serves the API until shutdown begins; returns the addresses.
///
/// # Errors
/// The address cannot be bound.
pub fn serve(transit: Transit, address: SocketAddr, shutdown: &Shutdown) -> Result<Vec<SocketAddr>, BindError> {
    let transit = Arc::new(transit);
    let mut addresses = Vec::new();
    for listener in listener::bind(&[address], "--transit")? {
        let address = listener.local_addr().unwrap_or(address);
        tracing::info!(%address, mount = transit.mount, "transit API");
        addresses.push(address);
        let (transit, begun) = (transit.clone(), shutdown.clone());
        let serve = move |stream| connection(stream, transit.clone(), begun.clone());
        shutdown.spawn(accept::each(listener, ("transit", CONNECTIONS_MAX), shutdown.clone(), serve));
    }
    Ok(addresses)
}

async fn connection(stream: TcpStream, transit: Arc<Transit>, shutdown: Shutdown) {
    // Answers are short, and their clients wait for them.
    let _ = stream.set_nodelay(true);
    let is_asked = Arc::<AtomicBool>::default();
    let asked = is_asked.clone();
    let service = service_fn(move |request| {
        asked.store(true, Ordering::Relaxed);
        let transit = transit.clone();
        async move { Ok::<_, Infallible>(transit.answer(request).await) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_TIME)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEADERS_LEN_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut serving = pin!(serving);
    let silent = async {
        tokio::time::sleep(FIRST_TIME).await;
        if is_asked.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    };
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = silent => return tracing::debug!("a connection to the transit API without a request is closed"),
        () = async { tokio::select! { () = shutdown.begun() => {}, () = tokio::time::sleep(CONNECTION_TIME) => {} } } => {
            serving.as_mut().graceful_shutdown();
            tokio::time::timeout(LAST_TIME, serving).await.unwrap_or(Ok(()))
        }
    };
    if let Err(err) = ended {
        tracing::debug!(%err, "a connection to the transit API ended early");
    }
}

impl Transit {
    async fn answer(&self, request: http::Request<Incoming>) -> http::Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let no_path = || Answer::error(StatusCode::NOT_FOUND, "unsupported path");
        let Some(path) = head.uri.path().strip_prefix("/v1/") else { return last(no_path()) };
        let service = &self.wires.service;
        if let Some(answer) = status::public(&head.method, path, &*service.clock) {
            return last(answer);
        }
        let name = token(&head.headers).and_then(|token| self.tokens.current().name_of(token));
        let Some(name) = name else { return last(Answer::denied()) };
        if path == "auth/token/lookup-self" && head.method == http::Method::GET {
            return respond(status::lookup_self(&name), None);
        }
        let below = path.strip_prefix(self.mount.as_str()).and_then(|path| path.strip_prefix('/'));
        let route = below.ok_or(NoRoute::Path).and_then(|path| Route::find(&head.method, path, head.uri.query()));
        let route = match route {
            Ok(route) => route,
            Err(NoRoute::Path) => return respond(no_path(), None),
            Err(NoRoute::Method) => {
                return respond(Answer::error(StatusCode::METHOD_NOT_ALLOWED, "unsupported operation"), None);
            }
        };
        let peer = Peer::of_token(name);
        let share = self.wires.memory.take(&peer, CALL_LEN).ok();
        let call = Arc::new(Call::new(route.method(), peer, &head.headers, share, service.now_ms()));
        let answered = self.run(&call, &route, &head.headers, body).await;
        match &answered {
            Ok(_) => call.end(tonic::Code::Ok, ""),
            Err(refusal) => call.end(refusal.code.into(), &refusal.text),
        }
        let answer = answered.unwrap_or_else(|refusal| Answer::of_refusal(&refusal, route.is_read()));
        respond(answer, Some(call))
    }

    async fn run(&self, call: &Call, route: &Route<'_>, headers: &HeaderMap, body: Incoming) -> Result<Answer> {
        if !call.has_room() {
            return Err(Refusal::new(Code::ResourceExhausted, NO_ROOM));
        }
        check_headers(headers)?;
        let body = read(call, body).await?;
        let mut fields = Fields::parse(&body)?;
        drop(body);
        // Some clients repeat the name of the path.
        if fields.text("name")?.is_some_and(|name| name.as_str() != route.name) {
            return Err(Refusal::invalid("name: it is not that of the path"));
        }
        let request = Request { wires: &self.wires, call, name: route.name, option: route.option };
        route.run(&request, fields).await
    }
}

/// Returns the token of a request: `X-Vault-Token`, else `Authorization: Bearer`.
fn token(headers: &HeaderMap) -> Option<&[u8]> {
    if let Some(token) = headers.get("x-vault-token") {
        return Some(token.as_bytes());
    }
    let (scheme, token) = headers.get(AUTHORIZATION)?.as_bytes().split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(token)
}

/// Rejects headers whose effect this broker does not have.
fn check_headers(headers: &HeaderMap) -> Result<()> {
    let is_set = |name: &str| headers.get(name).is_some_and(|value| !value.is_empty());
    if is_set("x-vault-wrap-ttl") {
        return Err(Refusal::invalid("X-Vault-Wrap-TTL: this broker wraps no answers"));
    }
    if is_set("x-vault-namespace") {
        return Err(Refusal::invalid("X-Vault-Namespace: this broker has no namespaces"));
    }
    Ok(())
}

/// Reads a body within its bounds of length, time and memory.
async fn read(call: &Call, mut body: Incoming) -> Result<Zeroizing<Vec<u8>>> {
    let too_long = || Refusal::new(Code::OutOfRange, format!("body: too large (max {REQUEST_MAX})"));
    let hint = body.size_hint();
    if hint.lower() > REQUEST_MAX as u64 {
        return Err(too_long());
    }
    // Allocated at full length: a growing buffer would leave copies.
    let known = usize::try_from(hint.exact().unwrap_or_default()).unwrap_or_default();
    if !call.holds(known) {
        return Err(Refusal::new(Code::ResourceExhausted, NO_ROOM));
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(known));
    let end = Instant::now() + ARRIVAL;
    loop {
        let frame = tokio::time::timeout_at(end, body.frame()).await;
        let frame = frame.map_err(|_| Refusal::new(Code::DeadlineExceeded, "the request did not arrive in time"))?;
        let Some(frame) = frame else { return Ok(bytes) };
        let frame = frame.map_err(|_| Refusal::invalid("body: it ended early"))?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > REQUEST_MAX {
            return Err(too_long());
        }
        if bytes.len() + data.len() > known && !call.holds(data.len()) {
            return Err(Refusal::new(Code::ResourceExhausted, NO_ROOM));
        }
        bytes.extend_from_slice(&data);
    }
}

/// Bytes of an answer, with the call whose share of memory they are.
struct AnswerBytes {
    bytes: Vec<u8>,
    _call: Option<Arc<Call>>,
}

impl AsRef<[u8]> for AnswerBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Answers a request without a token, after which the connection ends: only callers with one keep theirs.
fn last(answer: Answer) -> http::Response<Full<Bytes>> {
    let mut response = respond(answer, None);
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

fn respond(answer: Answer, call: Option<Arc<Call>>) -> http::Response<Full<Bytes>> {
    let bytes = answer.body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
    // Nothing was written yet: the answer has a share of memory, or it is none.
    let (status, bytes) = match &call {
        Some(call) if !call.holds(bytes.len()) => {
            let short = Answer::error(StatusCode::SERVICE_UNAVAILABLE, NO_ROOM);
            (short.status, short.body.map(|body| body.to_string().into_bytes()).unwrap_or_default())
        }
        _ => (answer.status, bytes),
    };
    let mut response = http::Response::new(Full::new(Bytes::from_owner(AnswerBytes { bytes, _call: call })));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

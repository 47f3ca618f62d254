//! The admin listener, behind a token: live state of the process, operations on it, and a page that shows both.
//!
//! Everything except the page and the probes takes the token in a header, never in a cookie: another site's page in the
//! same browser has nothing to send.

mod actions;
mod counts;
mod events;
mod page;
mod services;
mod snapshot;

use std::path::PathBuf;
use std::sync::Arc;

use http::header::{ALLOW, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use parking_lot::Mutex;
use sealway_runtime::clock::{Clock, SystemClock};
use sealway_runtime::http::{Body, Origin, RequestBody, full};
use sealway_runtime::inventory;
use sealway_runtime::log_tail::log_tail;
use sealway_sessions::admin::Admin;
use sealway_sessions::answer::{json, v1_error};
use sealway_sessions::endpoint::bearer_is;
use serde::Serialize;
use tokio::sync::Semaphore;
use zeroize::Zeroizing;

use crate::server::Server;
use services::Service;
use snapshot::Samples;

/// Maximum number of concurrent event streams.
const WATCHERS_MAX: usize = 16;

/// Maximum number of connections in one list.
const CONNECTIONS_MAX: usize = 1000;

/// The admin listener's service. Clones share the same state.
#[derive(Clone)]
pub struct Dashboard(Arc<Inner>);

struct Inner {
    server: Server,
    /// Service for the sessions' part: metrics, keys, revocation, probes.
    sessions: Admin,
    token: Zeroizing<String>,
    /// A folder of `sealway certs`, if configured.
    certificates: Option<PathBuf>,
    samples: Samples,
    /// Relays and brokers, as last read.
    services: Mutex<Vec<Service>>,
    watchers: Arc<Semaphore>,
}

impl Dashboard {
    /// Creates the service for `server`, and starts to sample it. `token` guards everything; `certificates` is the
    /// folder whose certificates may be renewed from here; `services` are upstreams of relays and brokers.
    pub fn new(
        server: Server,
        sessions: Admin,
        token: Zeroizing<String>,
        certificates: Option<PathBuf>,
        services: Vec<String>,
    ) -> Self {
        let shutdown = server.shutdown().clone();
        let watchers = Arc::new(Semaphore::new(WATCHERS_MAX));
        let (samples, read) = (Samples::default(), Mutex::default());
        let inner = Inner { server, sessions, token, certificates, samples, services: read, watchers };
        let dashboard = Dashboard(Arc::new(inner));
        shutdown.spawn(dashboard.clone().sample());
        if !services.is_empty() {
            shutdown.spawn(dashboard.clone().watch_services(services));
        }
        dashboard
    }

    /// Answers one request on the admin listener.
    pub async fn handle(&self, request: Request<RequestBody>) -> Response<Body> {
        let mut response = match page::find(request.method(), request.uri().path()) {
            Some(page) => page,
            None if bearer_is(request.headers(), &self.0.token) => self.answer(request).await,
            // Probes, and the answer to a missing token.
            None => self.0.sessions.handle(request).await,
        };
        let headers = response.headers_mut();
        headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        headers.insert(HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff"));
        response
    }

    async fn answer(&self, request: Request<RequestBody>) -> Response<Body> {
        let path = request.uri().path().to_owned();
        let Some(of_ours) = path.strip_prefix("/admin/") else { return self.0.sessions.handle(request).await };
        let method = request.method().clone();
        let (parts, body) = request.into_parts();
        let query = parts.uri.query().unwrap_or_default();
        let segments: Vec<&str> = of_ours.split('/').collect();
        if method == Method::GET {
            return match segments.as_slice() {
                ["status"] => answer(&self.snapshot()),
                ["events"] => self.events(query),
                ["config"] => answer(&*self.0.server.shown()),
                ["certificates"] => answer(&self.0.server.certificates()),
                ["upstreams"] => answer(&snapshot::upstreams(&self.0.server)),
                ["connections"] => self.connections(query),
                ["sessions"] => answer(&snapshot::sessions(&self.0.server)),
                ["identity"] => answer(&snapshot::identity_keys(&self.0.server)),
                ["routes"] => answer(&snapshot::routes(&self.0.server, &self.counts())),
                ["inventory"] => inventory(),
                ["refusals"] => answer(&self.counts().refusals()),
                ["logs"] => logs(query),
                [first, ..] if actions::is_one(first) => not_allowed(actions::methods(first)),
                _ => nothing_here(),
            };
        }
        if let ["sessions", _] = segments.as_slice() {
            return self.0.sessions.handle(Request::from_parts(parts, body)).await;
        }
        sealway_runtime::http::discard(body).await;
        let response = self.act(&method, &segments, query).await;
        let peer = parts.extensions.get::<Origin>().map(|origin| origin.peer.to_string());
        tracing::info!(%method, path, status = response.status().as_u16(), peer, "requested by the admin listener");
        response
    }
}

impl Dashboard {
    /// Returns the oldest connections of a listener, `max` of them, at most [`CONNECTIONS_MAX`].
    fn connections(&self, query: &str) -> Response<Body> {
        let listener = parameter(query, "listener").unwrap_or_default();
        let max = parameter(query, "max").and_then(|max| max.parse().ok()).unwrap_or(CONNECTIONS_MAX);
        match self.0.server.connections(&listener, max.min(CONNECTIONS_MAX)) {
            Ok(connections) => answer(&connections.iter().map(snapshot::connection).collect::<Vec<_>>()),
            Err(refused) => actions::refuse(&refused),
        }
    }
}

impl std::fmt::Debug for Dashboard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dashboard").field("server", &self.0.server).finish_non_exhaustive()
    }
}

/// Answers 200 with JSON text.
fn answer(value: &impl Serialize) -> Response<Body> {
    match serde_json::to_vec(value) {
        Ok(bytes) => json(StatusCode::OK, bytes),
        Err(err) => v1_error(StatusCode::INTERNAL_SERVER_ERROR, &err.to_string()),
    }
}

/// Answers with the inventory of used cryptography.
fn inventory() -> Response<Body> {
    match inventory::installed() {
        Some(counts) => answer(&counts.document("gateway", SystemClock.now_ms())),
        None => nothing_here(),
    }
}

fn nothing_here() -> Response<Body> {
    v1_error(StatusCode::NOT_FOUND, "The admin listener has nothing of this name")
}

fn not_allowed(allow: &'static str) -> Response<Body> {
    let mut response = v1_error(StatusCode::METHOD_NOT_ALLOWED, &format!("This path takes {allow}"));
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    response
}

/// Answers with the tail of the log as text.
fn logs(query: &str) -> Response<Body> {
    let (lines, _) = log_tail().since(0);
    let mut text = String::with_capacity(lines.iter().map(|(_, line)| line.len() + 1).sum());
    for (_, line) in lines {
        text.push_str(&line);
        text.push('\n');
    }
    let mut response = Response::new(full(text));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    if parameter(query, "download").is_some() {
        let as_file = HeaderValue::from_static("attachment; filename=\"sealway.log\"");
        response.headers_mut().insert(CONTENT_DISPOSITION, as_file);
    }
    response
}

/// Returns a parameter of a query, decoded.
fn parameter(query: &str, name: &str) -> Option<String> {
    let mut pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.find(|(key, _)| *key == name).and_then(|(_, value)| decoded(value))
}

/// Percent-decodes a text (RFC 3986 section 2.1); `None` if it is malformed or not UTF-8.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        if *first == b'%' {
            let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))?);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_paths_are_decoded_or_refused() {
        assert_eq!(decoded("listeners%5B0%5d").as_deref(), Some("listeners[0]"));
        assert_eq!(decoded("plain").as_deref(), Some("plain"));
        for bad in ["%", "%4", "%zz", "%+4", "%ff"] {
            assert_eq!(decoded(bad), None, "{bad}");
        }
        assert_eq!(parameter("a=1&download", "download").as_deref(), Some(""));
        assert_eq!(parameter("listener=a%20b", "listener").as_deref(), Some("a b"));
        assert_eq!(parameter("", "x"), None);
    }
}

//! The operator's view of the authority: metrics and probes behind a token that allows nothing else, and on the admin
//! listener also revocation. The admin token does not give access to session keys: the key endpoint has its own secret
//! on every listener.

use std::sync::Arc;

use http::{HeaderMap, Method, Request, Response, StatusCode};
use hyper::body::Body as HttpBody;
use sealway_proto::wire::SessionId;
use sealway_runtime::http::{Body, discard, full};
use zeroize::Zeroizing;

use crate::answer::{Form, json, plain_error, rejected};
use crate::authority::Authority;
use crate::endpoint::{KEY_PREFIX, bearer_is, guarded_key, health, ready};

/// Renders the process's metrics as Prometheus text.
pub type RenderMetrics = Arc<dyn Fn() -> String + Send + Sync>;

/// The service of the metrics listener: `GET /metrics` with a token, `/health` and `/ready` without one.
#[derive(Clone)]
pub struct Scrape {
    authority: Arc<Authority>,
    token: Arc<Zeroizing<String>>,
    metrics: RenderMetrics,
}

impl Scrape {
    /// Guards the metrics of `authority`'s process with `token`.
    pub fn new(authority: Arc<Authority>, token: Zeroizing<String>, metrics: RenderMetrics) -> Self {
        Scrape { authority, token: Arc::new(token), metrics }
    }

    /// Answers one request on the metrics listener; any path other than the three is `404 NOT_FOUND`.
    pub async fn handle<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: HttpBody + Unpin + 'static,
    {
        let (parts, body) = request.into_parts();
        discard(body).await;
        let answer = self.answer(&parts.method, parts.uri.path(), &parts.headers);
        answer.unwrap_or_else(|| plain_error(StatusCode::NOT_FOUND, "NOT_FOUND"))
    }

    /// Returns the answer to a request without the token, to a probe, or to a request for metrics; `None` for any other
    /// path with the token.
    fn answer(&self, method: &Method, path: &str, headers: &HeaderMap) -> Option<Response<Body>> {
        let reads = matches!(*method, Method::GET | Method::HEAD);
        // Probes carry no token, and show nothing that the public listener does not show.
        match path {
            "/health" if reads => return Some(health(&self.authority)),
            "/ready" if reads => return Some(ready(&self.authority)),
            _ => {}
        }
        if !bearer_is(headers, &self.token) {
            let mut response = plain_error(StatusCode::UNAUTHORIZED, "UNAUTHORIZED");
            let challenge = http::HeaderValue::from_static("Bearer");
            response.headers_mut().insert(http::header::WWW_AUTHENTICATE, challenge);
            return Some(response);
        }
        (path == "/metrics").then(|| {
            if !reads {
                return plain_error(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED");
            }
            self.authority.refresh_gauges();
            let mut response = Response::new(full((self.metrics)()));
            let text = http::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
            response.headers_mut().insert(http::header::CONTENT_TYPE, text);
            response
        })
    }
}

impl std::fmt::Debug for Scrape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scrape").field("authority", &self.authority).finish_non_exhaustive()
    }
}

/// The service of the admin listener.
#[derive(Clone, Debug)]
pub struct Admin(Scrape);

impl Admin {
    /// Guards the admin endpoints of `authority` with the bearer token `token`.
    pub fn new(authority: Arc<Authority>, token: Zeroizing<String>, metrics: RenderMetrics) -> Self {
        Admin(Scrape::new(authority, token, metrics))
    }

    /// Returns the process's metrics in Prometheus' text format.
    pub fn metrics(&self) -> String {
        (self.0.metrics)()
    }

    /// Answers one request on the admin listener.
    pub async fn handle<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: HttpBody + Unpin + 'static,
    {
        let (parts, body) = request.into_parts();
        discard(body).await;
        let path = parts.uri.path();
        if let Some(id) = path.strip_prefix(KEY_PREFIX) {
            return match parts.method {
                Method::GET | Method::HEAD => guarded_key(&self.0.authority, id, &parts.headers).await,
                _ => plain_error(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED"),
            };
        }
        if let Some(answer) = self.0.answer(&parts.method, path, &parts.headers) {
            return answer;
        }
        match (&parts.method, path.strip_prefix("/admin/sessions/")) {
            (&Method::DELETE, Some(id)) => self.revoke(id).await,
            (_, Some(_)) => plain_error(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED"),
            (_, None) => plain_error(StatusCode::NOT_FOUND, "NOT_FOUND"),
        }
    }

    async fn revoke(&self, id: &str) -> Response<Body> {
        let Ok(id) = SessionId::parse(id) else {
            return plain_error(StatusCode::BAD_REQUEST, "INVALID_SESSION_ID");
        };
        match self.0.authority.revoke(&id).await {
            Ok(true) => {
                tracing::info!(session = %id, "session revoked by the admin listener");
                json(StatusCode::OK, format!(r#"{{"revoked":"{id}"}}"#))
            }
            Ok(false) => plain_error(StatusCode::NOT_FOUND, "NOT_FOUND"),
            Err(refusal) => rejected(refusal, Form::Plain),
        }
    }
}

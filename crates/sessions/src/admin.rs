//! The admin listener: on loopback, behind a token. Metrics, session keys for API sides that ask, revocation, health.

use std::sync::Arc;

use http::{Method, Request, Response, StatusCode};
use hyper::body::Body as HttpBody;
use sealway_proto::wire::SessionId;
use sealway_runtime::http::{Body, discard, full};
use zeroize::Zeroizing;

use crate::answer::{json, plain_error};
use crate::authority::Authority;
use crate::endpoint::{bearer_is, health, key, ready};

/// Renders the process's metrics.
pub type RenderMetrics = Arc<dyn Fn() -> String + Send + Sync>;

/// The admin listener's service.
#[derive(Clone)]
pub struct Admin {
    authority: Arc<Authority>,
    token: Arc<Zeroizing<String>>,
    metrics: RenderMetrics,
}

impl Admin {
    /// Guards `authority` with `token`.
    pub fn new(authority: Arc<Authority>, token: Zeroizing<String>, metrics: RenderMetrics) -> Self {
        Admin { authority, token: Arc::new(token), metrics }
    }

    /// Answers a request.
    pub async fn handle<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: HttpBody + Unpin + 'static,
    {
        let (parts, body) = request.into_parts();
        discard(body).await;
        let path = parts.uri.path();
        // Probes carry no token, and learn nothing that the public side does not tell.
        match (&parts.method, path) {
            (&Method::GET, "/health") => return health(&self.authority),
            (&Method::GET, "/ready") => return ready(&self.authority),
            _ => {}
        }
        if !bearer_is(&parts.headers, &self.token) {
            let mut response = plain_error(StatusCode::UNAUTHORIZED, "UNAUTHORIZED");
            let challenge = http::HeaderValue::from_static("Bearer");
            response.headers_mut().insert(http::header::WWW_AUTHENTICATE, challenge);
            return response;
        }
        let key_id = path.strip_prefix("/v1/session/");
        let revoke_id = path.strip_prefix("/admin/sessions/");
        match (&parts.method, path, key_id, revoke_id) {
            (&Method::GET, "/metrics", _, _) => {
                self.authority.refresh_gauges();
                let mut response = Response::new(full((self.metrics)()));
                let text = http::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
                response.headers_mut().insert(http::header::CONTENT_TYPE, text);
                response
            }
            (&Method::GET, _, Some(id), _) => key(&self.authority, id, &parts.headers).await,
            (&Method::DELETE, _, _, Some(id)) => self.revoke(id).await,
            (_, "/metrics", _, _) | (_, _, Some(_), _) | (_, _, _, Some(_)) => {
                plain_error(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED")
            }
            _ => plain_error(StatusCode::NOT_FOUND, "NOT_FOUND"),
        }
    }

    async fn revoke(&self, id: &str) -> Response<Body> {
        let Ok(id) = SessionId::parse(id) else {
            return plain_error(StatusCode::BAD_REQUEST, "INVALID_SESSION_ID");
        };
        match self.authority.revoke(&id).await {
            Ok(true) => json(StatusCode::OK, format!(r#"{{"revoked":"{id}"}}"#)),
            Ok(false) => plain_error(StatusCode::NOT_FOUND, "NOT_FOUND"),
            Err(refusal) => refusal.plain(),
        }
    }
}

impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admin").field("authority", &self.authority).finish_non_exhaustive()
    }
}

//! A control plane that is small enough to run: mints grants over HTTP for whoever has the bearer token, or a certificate
//! of the client authority. SPEC relay.md#control-plane
//!
//! It knows nothing of users: what asks it is a service that does.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use http::header::{ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::service::Service;
use sealway_runtime::clock::Clock;
use sealway_runtime::http::{Body, Connections, HttpLimits, Listening, Origin, RequestBody, full, read_body, serve};
use sealway_runtime::listener::{self, Socket};
use sealway_runtime::shutdown::Shutdown;
use sealway_runtime::tls::{self, ServerFiles};
use serde_json::Value;
use zeroize::Zeroizing;

use crate::mint::Issuer;

/// Largest body of a request, in bytes.
const BODY_MAX: usize = 4096;
const BODY_TIME: Duration = Duration::from_secs(10);
/// Shortest bearer token, in bytes.
const BEARER_LEN_MIN: usize = 16;
const DRAIN: Duration = Duration::from_secs(5);

/// A control plane could not be started: a sentence.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ControlError(String);

/// How it is set up.
pub struct ControlSettings {
    /// Where it listens.
    pub listen: Vec<SocketAddr>,
    /// What callers must bring; none where their certificates are asked for.
    pub bearer: Option<Zeroizing<Vec<u8>>>,
    /// TLS; with client certificates these are enough.
    pub tls: Option<ServerFiles>,
    /// Makes the grants.
    pub issuer: Issuer,
}

impl std::fmt::Debug for ControlSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControlSettings").field("listen", &self.listen).finish_non_exhaustive()
    }
}

/// A control plane that serves.
#[derive(Debug)]
pub struct Control {
    addresses: Vec<SocketAddr>,
    shutdown: Shutdown,
}

impl Control {
    /// Binds and serves.
    ///
    /// # Errors
    /// [`ControlError`], also when callers would need neither a bearer token nor a certificate.
    pub fn start(settings: ControlSettings, clock: Arc<dyn Clock>) -> Result<Control, ControlError> {
        let asks_certificates = settings.tls.as_ref().is_some_and(|tls| tls.client_auth == tls::ClientAuth::Required);
        match &settings.bearer {
            Some(bearer) if bearer.len() < BEARER_LEN_MIN => {
                return Err(ControlError(format!("the bearer token has less than {BEARER_LEN_MIN} bytes")));
            }
            None if !asks_certificates => {
                return Err(ControlError("anyone could mint: a bearer token or client certificates are needed".into()));
            }
            _ => {}
        }
        let loaded = settings.tls.map(|files| tls::Server::load(files, clock.clone()));
        let loaded = loaded.transpose().map_err(|err| ControlError(format!("TLS: {err}")))?;
        let sockets = listener::bind(&settings.listen, "--listen").map_err(|err| ControlError(err.to_string()))?;
        let addresses = sockets.iter().filter_map(|socket| socket.local_addr().ok()).collect();
        let desk = Desk(Arc::new(Inner { bearer: settings.bearer, issuer: settings.issuer, clock }));
        let listening = Listening {
            name: "control".into(),
            limits: HttpLimits { connections_max: 1024, ..HttpLimits::default() },
            tls: loaded.map(Arc::new),
            connections: Arc::new(Connections::new("control")),
        };
        let (listening, shutdown) = (Arc::new(listening), Shutdown::new());
        for socket in sockets {
            tokio::spawn(serve(Socket::Tcp(socket), listening.clone(), desk.clone(), shutdown.clone()));
        }
        Ok(Control { addresses, shutdown })
    }

    /// Where it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Answers what is in flight, and ends.
    pub async fn stop(self) {
        self.shutdown.drain(DRAIN).await;
    }
}

struct Inner {
    bearer: Option<Zeroizing<Vec<u8>>>,
    issuer: Issuer,
    clock: Arc<dyn Clock>,
}

#[derive(Clone)]
struct Desk(Arc<Inner>);

impl Service<Request<RequestBody>> for Desk {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn call(&self, request: Request<RequestBody>) -> Self::Future {
        let desk = self.0.clone();
        Box::pin(async move { Ok(desk.answer(request).await) })
    }
}

impl Inner {
    async fn answer(&self, request: Request<RequestBody>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        match (&parts.method, parts.uri.path()) {
            (&Method::GET | &Method::HEAD, "/healthz") => answer(StatusCode::OK, "text/plain", "ok".to_owned()),
            (_, "/healthz") => not_allowed("GET"),
            (&Method::POST, "/v1/channel/init") if !self.is_known(&parts) => {
                let mut refusal = fault(StatusCode::UNAUTHORIZED, "a bearer token or a certificate is needed");
                let scheme = HeaderValue::from_static("Bearer");
                refusal.headers_mut().insert(http::header::WWW_AUTHENTICATE, scheme);
                refusal
            }
            (&Method::POST, "/v1/channel/init") => match read_body(body, BODY_MAX, BODY_TIME).await {
                Ok(body) => self.mint(&body),
                Err(_) => fault(StatusCode::BAD_REQUEST, "the body is too long, or did not come"),
            },
            (_, "/v1/channel/init") => not_allowed("POST"),
            _ => fault(StatusCode::NOT_FOUND, "not found"),
        }
    }

    /// A certificate was verified by the listener; a bearer token is compared without telling how much of it is right.
    fn is_known(&self, parts: &http::request::Parts) -> bool {
        if parts.extensions.get::<Origin>().is_some_and(|origin| origin.certificate.is_some()) {
            return true;
        }
        let mut values = parts.headers.get_all(AUTHORIZATION).iter();
        let (Some(bearer), Some(value), None) = (&self.bearer, values.next(), values.next()) else { return false };
        let given = value.as_bytes().split_at_checked(7).filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"bearer "));
        given.is_some_and(|(_, given)| verify_slices_are_equal(given, bearer).is_ok())
    }

    fn mint(&self, body: &[u8]) -> Response<Body> {
        let asked: Value = match body.trim_ascii() {
            [] => Value::Null,
            body => match serde_json::from_slice(body) {
                Ok(asked @ (Value::Object(_) | Value::Null)) => asked,
                _ => return fault(StatusCode::BAD_REQUEST, "the body is no JSON object"),
            },
        };
        let channel_id = match asked.get("channel_id") {
            None | Some(Value::Null) => None,
            Some(Value::String(name)) if name.is_empty() => None,
            Some(Value::String(name)) => Some(name.as_str()),
            Some(_) => return fault(StatusCode::BAD_REQUEST, "channel_id is no text"),
        };
        let now_s = i64::try_from(self.clock.now_ms() / 1000).unwrap_or(i64::MAX);
        match self.issuer.pair(channel_id, now_s) {
            Ok([client, server]) => {
                metrics::counter!("sealway_relay_minted_total").increment(1);
                let text = format!("{{\"grant_client\":{},\"grant_server\":{}}}", *client.encode(), *server.encode());
                answer(StatusCode::OK, "application/json", text)
            }
            Err(err) => fault(StatusCode::BAD_REQUEST, &err.to_string()),
        }
    }
}

fn not_allowed(method: &'static str) -> Response<Body> {
    let mut refusal = fault(StatusCode::METHOD_NOT_ALLOWED, "method not allowed");
    refusal.headers_mut().insert(ALLOW, HeaderValue::from_static(method));
    refusal
}

fn fault(status: StatusCode, text: &str) -> Response<Body> {
    answer(status, "application/json", serde_json::json!({ "error": text }).to_string())
}

fn answer(status: StatusCode, kind: &'static str, text: String) -> Response<Body> {
    let mut answer = Response::new(full(text));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

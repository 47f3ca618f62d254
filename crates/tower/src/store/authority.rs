//! Sessions and claims of an authority, over HTTP. `spec/session.md#authority-endpoints`.
//!
//! A claim is sent once: if its answer is lost it may have been granted. A cached session is used for less than a
//! second without asking again, and not longer while the authority is unavailable.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::{ClientConfig, RootCertStore};
use sealway_proto::crypto::{Provider, default_provider};
use sealway_proto::session::{Claim, Fresh, Session};
use sealway_proto::wire::SessionId;
use tokio::sync::Semaphore;
use zeroize::Zeroizing;

use super::held::SessionCache;
use super::message::{MESSAGE_LEN_MAX, Reply, hex, session};
use super::{ReserveError, Store, StoreError};

/// Maximum time of a request.
const DEADLINE: Duration = Duration::from_millis(1500);
/// Maximum number of concurrent requests.
const QUESTIONS_MAX: usize = 256;
/// Idle time after which a connection is closed, before a server closes it: a claim on a closing connection is lost.
const IDLE: Duration = Duration::from_secs(10);

/// Error of an unusable URL or secret of an authority. The text contains neither.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct AuthorityUrlError(String);

/// Store that uses an authority over HTTP.
pub struct Authority {
    provider: &'static dyn Provider,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    base: Uri,
    authorization: HeaderValue,
    permits: Semaphore,
    held: SessionCache,
}

struct Answer {
    status: StatusCode,
    body: Zeroizing<Vec<u8>>,
}

impl Authority {
    /// Creates a store for the authority at `url`, with its secret: `https://`, verified by the machine's certificate
    /// authorities, or `http://` on this machine only. Does not connect.
    ///
    /// # Errors
    /// [`AuthorityUrlError`].
    pub fn new(url: &str, secret: &str) -> Result<Self, AuthorityUrlError> {
        let fail = |what: &str| AuthorityUrlError(what.into());
        let base: Uri = url.trim_end_matches('/').parse().map_err(|_| fail("the authority's URL is none"))?;
        let named = base.authority().filter(|authority| !authority.host().is_empty());
        let named = named.ok_or_else(|| fail("the authority's URL names no host"))?;
        if base.query().is_some() || url.contains('#') || named.as_str().contains('@') {
            return Err(fail("the authority's URL has no user, query or fragment"));
        }
        let is_tls = base.scheme_str() == Some("https");
        let is_private = is_tls || (base.scheme_str() == Some("http") && is_loopback(&base));
        if !is_private {
            return Err(fail("session keys travel to the authority: use https://, or http:// on this machine"));
        }
        let bearer = Zeroizing::new(format!("Bearer {secret}"));
        let value = HeaderValue::from_str(&bearer).ok().filter(|_| !secret.is_empty());
        let mut authorization = value.ok_or_else(|| fail("the authority's secret is not fit for a header"))?;
        authorization.set_sensitive(true);
        let tls = tls(is_tls).map_err(AuthorityUrlError)?;
        let connector = HttpsConnectorBuilder::new().with_tls_config(tls);
        let connector = if is_tls { connector.https_only() } else { connector.https_or_http() };
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(DEADLINE));
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(QUESTIONS_MAX)
            .build(connector.enable_http1().wrap_connector(http));
        let permits = Semaphore::new(QUESTIONS_MAX);
        Ok(Authority {
            provider: default_provider(),
            client,
            base,
            authorization,
            permits,
            held: SessionCache::default(),
        })
    }

    async fn ask(&self, method: Method, path: String, body: String) -> Result<Answer, String> {
        let asked = tokio::time::timeout(DEADLINE, async {
            let _permit = self.permits.acquire().await.map_err(|err| err.to_string())?;
            self.ask_once(method, path, body).await
        });
        asked.await.unwrap_or_else(|_| Err("the authority did not answer in time".into()))
    }

    async fn ask_once(&self, method: Method, path: String, body: String) -> Result<Answer, String> {
        let mut parts = self.base.clone().into_parts();
        let path = format!("{}{path}", self.base.path().trim_end_matches('/'));
        parts.path_and_query = Some(path.parse().map_err(|_| "the path is none".to_owned())?);
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = method;
        *request.uri_mut() = Uri::from_parts(parts).map_err(|err| err.to_string())?;
        request.headers_mut().insert(AUTHORIZATION, self.authorization.clone());
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let answer = self.client.request(request).await.map_err(|_| "the authority cannot be reached".to_owned())?;
        let (head, body) = answer.into_parts();
        let is_json = head.headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes() == b"application/json");
        if !is_json {
            return Err(format!("the authority answered {}, and no JSON", head.status.as_u16()));
        }
        let mut whole = Zeroizing::new(Vec::with_capacity(4096));
        let mut body = Limited::new(body, MESSAGE_LEN_MAX);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| "the authority's answer broke off, or is too long".to_owned())?;
            whole.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
        }
        Ok(Answer { status: head.status, body: whole })
    }

    async fn fetch(&self, id: &SessionId) -> Result<Option<Arc<Session>>, String> {
        let since = Instant::now();
        let path = format!("/v1/authority/sessions/{id}");
        let answer = match self.ask(Method::GET, path.clone(), String::new()).await {
            // A retry is harmless: the request changes nothing.
            Err(_) => self.ask(Method::GET, path, String::new()).await?,
            Ok(answer) => answer,
        };
        match answer.status {
            StatusCode::OK => {
                let record = session(&answer.body)?;
                if record.id != *id {
                    return Err("the authority's answer is to another question".into());
                }
                let session = Arc::new(Session::new(self.provider, record).map_err(|err| err.to_string())?);
                self.held.hold(&session, since);
                Ok(Some(session))
            }
            StatusCode::NOT_FOUND => {
                let told = Reply::read(&answer.body);
                let is_ours = told.is_some_and(|told| {
                    told.error.as_deref() == Some("SESSION_NOT_FOUND") && told.id.as_deref() == Some(id.as_str())
                });
                if is_ours {
                    self.held.forget(id);
                    return Ok(None);
                }
                // Any other 404 comes from a proxy, or from an authority without this endpoint: it says nothing about a
                // session.
                Err("the authority answered 404: is sessions.authority_secret_file set there?".into())
            }
            status => Err(format!("the authority answered {}", status.as_u16())),
        }
    }
}

fn is_loopback(url: &Uri) -> bool {
    let host = url.host().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || bare.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

fn tls(is_used: bool) -> Result<ClientConfig, String> {
    let crypto = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(crypto).with_safe_default_protocol_versions();
    let builder = builder.map_err(|err| err.to_string())?;
    let builder = match is_used {
        true => {
            builder.with_native_roots().map_err(|err| format!("no certificate authorities on this machine: {err}"))?
        }
        false => builder.with_root_certificates(RootCertStore::empty()),
    };
    Ok(builder.with_no_client_auth())
}

#[async_trait]
impl Store for Authority {
    async fn get(&self, id: &SessionId) -> Result<Option<Arc<Session>>, StoreError> {
        match self.held.at_hand(id) {
            Some(session) => Ok(Some(session)),
            None => self.fetch(id).await.map_err(StoreError::Unavailable),
        }
    }

    async fn reserve(&self, claim: &Claim) -> Result<Fresh, ReserveError> {
        let key = hex(claim.key());
        let body = format!(r#"{{"key":"{key}","sealed":{},"stamp_ms":{}}}"#, claim.is_sealed(), claim.stamp_ms());
        let answer = self.ask(Method::POST, "/v1/authority/nonces".into(), body).await;
        let answer = answer.map_err(ReserveError::Unavailable)?;
        let told = Reply::read(&answer.body);
        let is_ours = told.as_ref().is_some_and(|told| told.key.as_deref() == Some(key.as_str()));
        let error = told.as_ref().and_then(|told| told.error.as_deref());
        match (answer.status, error) {
            (StatusCode::CREATED, None) if is_ours => Ok(Fresh::reserved(claim)),
            (StatusCode::CONFLICT, Some("REPLAYED")) if is_ours => Err(ReserveError::Replayed),
            (StatusCode::CONFLICT, Some("TIMESTAMP_OUTSIDE_WINDOW")) if is_ours => Err(ReserveError::OutsideWindow),
            (StatusCode::INSUFFICIENT_STORAGE, Some("NONCES_FULL")) => Err(ReserveError::Full),
            (status, _) => Err(ReserveError::Unavailable(format!("the authority answered {}", status.as_u16()))),
        }
    }
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").field("base", &self.base).finish_non_exhaustive()
    }
}

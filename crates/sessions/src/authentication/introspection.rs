//! Token introspection (RFC 7662): the issuer's endpoint decides if a token is good.
//!
//! Errors contain neither token nor body. A good answer is cached for at most a minute, a bad one not at all.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use sealway_proto::crypto::Provider;
use sealway_proto::error::chain;
use sealway_runtime::config::{ConfigError, read_secret};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use zeroize::Zeroizing;

use super::token::{ClaimNames, Token};
use crate::answer::Refusal;
use crate::store::remote::connector;

/// Maximum length of an answer, in bytes.
const ANSWER_LEN_MAX: usize = 64 * 1024;
/// Maximum number of concurrent requests to the endpoint.
const AT_ONCE: usize = 32;
/// Maximum number of requests in progress or waiting.
const WAITING_MAX: usize = 1024;
/// Maximum number of good tokens in the cache.
const REMEMBERED_MAX: u64 = 10_000;
/// Idle time after which a connection is closed, before a server or a proxy closes it.
const IDLE: Duration = Duration::from_secs(10);

/// Settings of the introspection endpoint, and the claims that an answer must have.
#[derive(Clone, Debug)]
pub struct IntrospectionConfig {
    /// URL of the introspection endpoint.
    pub url: Uri,
    /// Client id of this server at the endpoint.
    pub client_id: String,
    /// File with the client secret of this server.
    pub client_secret_file: PathBuf,
    /// Certificates from which the endpoint's must descend; by default the system's.
    pub ca_file: Option<PathBuf>,
    /// The only accepted `iss`; any if `None`.
    pub issuer: Option<String>,
    /// The only accepted `aud`; any if `None`.
    pub audience: Option<String>,
    /// Tolerance for the clock in `exp` and `nbf`, in seconds.
    pub leeway_sec: u64,
    /// Maximum time for an answer, the wait for a connection included.
    pub timeout: Duration,
    /// Maximum time that a good answer is cached, and thus the delay until a revocation takes effect; zero disables the
    /// cache.
    pub cache: Duration,
}

/// Client of an introspection endpoint, with a cache of good answers.
pub struct Introspection {
    config: IntrospectionConfig,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    authorization: HeaderValue,
    room: Semaphore,
    turns: Semaphore,
    /// Good answers by SHA-256 of the token.
    good: moka::sync::Cache<[u8; 32], Arc<Token>>,
}

impl Introspection {
    /// Reads the secret and the certificates; does not connect.
    ///
    /// # Errors
    /// [`ConfigError`], naming the file at fault.
    pub fn open(config: IntrospectionConfig) -> Result<Self, ConfigError> {
        let at = "sessions.authentication.introspection";
        let secret = read_secret(&config.client_secret_file)
            .map(Zeroizing::new)
            .map_err(|err| ConfigError(format!("{at}.client_secret_file: {err}")))?;
        // RFC 6749 section 2.3.1: id and secret are form-encoded before they are joined.
        let pair = Zeroizing::new(format!("{}:{}", *form_encoded(&config.client_id), *form_encoded(&secret)));
        let value = Zeroizing::new(format!("Basic {}", STANDARD.encode(pair.as_bytes())));
        let mut authorization = HeaderValue::from_str(&value).map_err(|_| ConfigError(format!("{at}: no header")))?;
        authorization.set_sensitive(true);
        let connector = connector(&config.url, config.timeout, config.ca_file.as_deref(), None)
            .map_err(|err| ConfigError(format!("{at}: {err}")))?;
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(AT_ONCE)
            .build(connector);
        let good = moka::sync::Cache::builder().max_capacity(REMEMBERED_MAX).time_to_live(config.cache).build();
        let (room, turns) = (Semaphore::new(WAITING_MAX), Semaphore::new(AT_ONCE));
        Ok(Introspection { config, client, authorization, room, turns, good })
    }

    /// Asks the endpoint about a token, or answers from the cache.
    ///
    /// # Errors
    /// [`Refusal::Token`] for a token that is not good, [`Refusal::IntrospectionUnavailable`] without an answer in
    /// time.
    pub async fn ask(
        &self,
        provider: &dyn Provider,
        token: &str,
        names: &ClaimNames,
        now_ms: u64,
    ) -> Result<Token, Refusal> {
        let key = provider.sha256(&[token.as_bytes()]);
        // A cached answer also ends with the token itself.
        if let Some(good) = self.good.get(&key)
            && good.expires_ms.is_none_or(|end_ms| now_ms < end_ms)
        {
            count("remembered");
            return Ok(Token::clone(&good));
        }
        let asked = tokio::time::timeout(self.config.timeout, self.ask_for_long(token)).await;
        let claims = asked.unwrap_or_else(|_| Err("it did not answer in time".into())).map_err(|what| {
            count("failed");
            Refusal::IntrospectionUnavailable(what)
        })?;
        let verdict = self.check(&claims, now_ms).and_then(|()| Token::read(&claims, names));
        count(if verdict.is_ok() { "good" } else { "refused" });
        let token = verdict?;
        if !self.config.cache.is_zero() {
            self.good.insert(key, Arc::new(token.clone()));
        }
        Ok(token)
    }

    async fn ask_for_long(&self, token: &str) -> Result<Map<String, Value>, String> {
        let _room = self.room.try_acquire().map_err(|_| "too many wait")?;
        let _turn = self.turns.acquire().await.map_err(|_| "closed")?;
        let body = Zeroizing::new(format!("token={}&token_type_hint=access_token", *form_encoded(token)).into_bytes());
        let mut request = Request::new(Full::new(Bytes::from_owner(body)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.config.url.clone();
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(AUTHORIZATION, self.authorization.clone());
        let response = self.client.request(request).await.map_err(|err| chain(&err))?;
        let (parts, body) = response.into_parts();
        // A 401 is a fault of this server's configuration: it says nothing about the token.
        if parts.status != StatusCode::OK {
            return Err(format!("it answered {}", parts.status.as_u16()));
        }
        let body = Limited::new(body, ANSWER_LEN_MAX).collect().await;
        let body = body.map_err(|_| "its answer is too long or broke off")?;
        serde_json::from_slice(&body.to_bytes()).map_err(|_| "its answer is no JSON object".into())
    }

    /// Checks the claims of an answer (RFC 7662 section 2.2). The endpoint checked most of them before it set `active`;
    /// they are checked again because it may not know which audience and issuer this server requires.
    fn check(&self, claims: &Map<String, Value>, now_ms: u64) -> Result<(), Refusal> {
        match claims.get("active") {
            Some(Value::Bool(true)) => {}
            Some(Value::Bool(false)) => return Err(Refusal::Token("not active")),
            _ => return Err(Refusal::IntrospectionUnavailable("its answer does not say whether it is active".into())),
        }
        let now_sec = now_ms as f64 / 1000.0;
        let leeway = self.config.leeway_sec as f64;
        let time = |name| match claims.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => value.as_f64().map(Some).ok_or(Refusal::Token("malformed")),
        };
        if time("exp")?.is_some_and(|end| end + leeway <= now_sec) {
            return Err(Refusal::Token("expired"));
        }
        if time("nbf")?.is_some_and(|begin| begin > now_sec + leeway) {
            return Err(Refusal::Token("not yet valid"));
        }
        let names = |name: &str, wanted: &Option<String>| {
            wanted.as_deref().is_none_or(|wanted| match claims.get(name) {
                Some(Value::String(text)) => text == wanted,
                Some(Value::Array(texts)) if name == "aud" => texts.iter().any(|text| text == wanted),
                _ => false,
            })
        };
        if !names("iss", &self.config.issuer) {
            return Err(Refusal::Token("issuer"));
        }
        if !names("aud", &self.config.audience) {
            return Err(Refusal::Token("audience"));
        }
        Ok(())
    }
}

impl std::fmt::Debug for Introspection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Introspection").field("config", &self.config).finish_non_exhaustive()
    }
}

fn count(result: &'static str) {
    metrics::counter!("sealway_introspections_total", "result" => result).increment(1);
}

/// Encodes a value of `application/x-www-form-urlencoded`.
fn form_encoded(text: &str) -> Zeroizing<String> {
    // Has capacity for the longest result: a reallocation would leave a copy of the secret in memory.
    let mut out = Zeroizing::new(String::with_capacity(3 * text.len()));
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.extend([byte >> 4, byte & 15].map(|nibble| char::from(b"0123456789ABCDEF"[usize::from(nibble)])));
        }
    }
    out
}

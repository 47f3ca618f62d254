//! A small control plane: it mints grants over HTTP for clients with a token or a certificate. SPEC relay.md#control-plane
//!
//! | | |
//! | --- | --- |
//! | `GET /healthz` | `ok`, to anybody |
//! | `POST /v1/channel/init` | both grants of a new channel, as v1's demonstration has it |
//! | `POST /v1/grant` | one end's grant: two ends that say the same name meet |
//!
//! This module does not know the users of its clients: every authorised client may use every name.

mod rendezvous;
mod server;

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use http::header::{ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use sealway_proto::relay::{Grant, Issuer};
use sealway_runtime::clock::Clock;
use sealway_runtime::http::share::Taker;
use sealway_runtime::http::{Body, BodyRefusal, RequestBody, full, read_body};
use serde_json::{Value, json};

use crate::relay::now_s;
use rendezvous::{NoGrant, Rendezvous, WAIT};
pub use server::{ControlServer, ControlSettings};

/// Longest body of a request, in bytes.
const BODY_LEN_MAX: usize = 4096;
/// Longest time for the arrival of a body.
const BODY_TIME: Duration = Duration::from_secs(10);

/// The tokens of authorised clients; empty if certificates alone decide.
#[derive(Default)]
pub struct Tokens(Vec<[u8; 32]>);

impl Tokens {
    /// Parses a file's text: a token a line, of at least 16 visible characters; empty lines and those that begin with `#` do
    /// not count.
    ///
    /// # Errors
    /// The number of the first invalid line.
    pub fn parse(text: &str) -> Result<Self, usize> {
        let mut tokens = Vec::new();
        for (number, line) in text.lines().map(str::trim).enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if line.len() < 16 || !line.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(number + 1);
            }
            tokens.push(hash(line.as_bytes()));
        }
        Ok(Tokens(tokens))
    }

    /// Returns whether there is no token.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of a request's token if the request is authorised; 0 if no token is required.
    fn lets_in(&self, headers: &HeaderMap) -> Option<usize> {
        if self.0.is_empty() {
            return Some(0);
        }
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else { return None };
        let (scheme, token) = value.as_bytes().split_at_checked(7)?;
        if !scheme.eq_ignore_ascii_case(b"bearer ") {
            return None;
        }
        let shown = hash(token);
        // All are compared, so that the time does not reveal which one matched.
        self.0.iter().enumerate().fold(None, |found, (number, known)| {
            if verify_slices_are_equal(known, &shown).is_ok() { Some(number) } else { found }
        })
    }
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tokens({})", self.0.len())
    }
}

fn hash(token: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(digest(&SHA256, token).as_ref());
    out
}

/// The handler of HTTP requests.
pub(crate) struct Control {
    issuer: Issuer,
    tokens: Tokens,
    meetings: Rendezvous,
    clock: Arc<dyn Clock>,
}

/// An error answer: its status, and a sentence.
struct Refusal(StatusCode, String);

impl Refusal {
    fn bad(text: &str) -> Self {
        Refusal(StatusCode::BAD_REQUEST, text.into())
    }
}

impl From<NoGrant> for Refusal {
    fn from(err: NoGrant) -> Self {
        let status = match err {
            NoGrant::NobodyListens => StatusCode::NOT_FOUND,
            NoGrant::NameInvalid => StatusCode::BAD_REQUEST,
            NoGrant::ShareTaken(_) => StatusCode::TOO_MANY_REQUESTS,
            NoGrant::TooManyNames | NoGrant::TooManyListeners => StatusCode::SERVICE_UNAVAILABLE,
            NoGrant::Mint(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Refusal(status, err.to_string())
    }
}

impl Control {
    pub(crate) fn new(
        issuer: Issuer,
        tokens: Tokens,
        names_per_client_max: Option<u64>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Control { issuer, tokens, meetings: Rendezvous::new(names_per_client_max), clock }
    }

    fn now_s(&self) -> i64 {
        now_s(&*self.clock)
    }

    pub(crate) async fn answer(&self, request: Request<RequestBody>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let method = match head.uri.path() {
            "/healthz" => Method::GET,
            "/v1/channel/init" | "/v1/grant" => Method::POST,
            _ => return refusal(&Refusal(StatusCode::NOT_FOUND, "no such path".into())),
        };
        if head.method != method {
            let mut answer =
                refusal(&Refusal(StatusCode::METHOD_NOT_ALLOWED, format!("{method} alone is answered here")));
            if let Ok(allow) = HeaderValue::from_str(method.as_str()) {
                answer.headers_mut().insert(ALLOW, allow);
            }
            return answer;
        }
        if method == Method::GET {
            return Response::new(full("ok"));
        }
        let Some(token) = self.tokens.lets_in(&head.headers) else {
            let mut answer = refusal(&Refusal(StatusCode::UNAUTHORIZED, "a token is needed".into()));
            answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            return answer;
        };
        // One token for all clients does not distinguish them.
        let client = match self.tokens.0.len() {
            0 | 1 => Taker::network(head.extensions.get()),
            _ => Some(Taker::Token(token)),
        };
        let done = match read(body).await {
            Ok(asked) if head.uri.path() == "/v1/grant" => self.grant(&asked, client).await,
            Ok(asked) => self.pair(&asked).map(Some),
            Err(err) => Err(err),
        };
        match done {
            Ok(Some(text)) => json_answer(StatusCode::OK, text),
            Ok(None) => {
                let mut answer = Response::new(full(""));
                *answer.status_mut() = StatusCode::NO_CONTENT;
                answer
            }
            Err(err) => refusal(&err),
        }
    }

    /// Mints both grants at once.
    fn pair(&self, asked: &Value) -> Result<String, Refusal> {
        let channel_id = match asked.get("channel_id") {
            None | Some(Value::Null) => None,
            Some(Value::String(name)) if name.is_empty() => None,
            Some(Value::String(name)) => Some(name.as_str()),
            Some(_) => return Err(Refusal::bad("channel_id is no text")),
        };
        let pair = self.issuer.pair(channel_id, self.now_s()).map_err(|err| Refusal::bad(&err.to_string()))?;
        let [client, server] = pair.each_ref().map(Grant::encode);
        Ok(format!("{{\"grant_client\":{},\"grant_server\":{}}}", *client, *server))
    }

    /// Mints the grant of one end of a channel whose other end uses the same name; `None` for a listener that waited in vain.
    async fn grant(&self, asked: &Value, client: Option<Taker>) -> Result<Option<String>, Refusal> {
        let name = asked.get("name").and_then(Value::as_str).ok_or_else(|| Refusal::bad("name is no text"))?;
        let grant = match (asked.get("role").and_then(Value::as_str), wait(asked)?) {
            (Some("server"), Some(wait)) => match self.meetings.await_client(name, client, wait, self.now_s()).await? {
                Some(grant) => grant,
                None => return Ok(None),
            },
            (Some("server"), None) => self.meetings.listen(name, client, &self.issuer, self.now_s())?,
            (Some("client"), _) => self.meetings.connect(name, client, &self.issuer, || self.now_s()).await?,
            _ => return Err(Refusal::bad("role is neither \"client\" nor \"server\"")),
        };
        Ok(Some(String::clone(&grant.encode())))
    }
}

/// Returns the time for which a listener waits for a client.
fn wait(asked: &Value) -> Result<Option<Duration>, Refusal> {
    match asked.get("wait_s") {
        None | Some(Value::Null) => Ok(None),
        Some(wait) => match wait.as_u64().filter(|wait| (1..=WAIT.as_secs()).contains(wait)) {
            Some(wait) => Ok(Some(Duration::from_secs(wait))),
            None => Err(Refusal(StatusCode::BAD_REQUEST, format!("wait_s is no number from 1 to {}", WAIT.as_secs()))),
        },
    }
}

async fn read(body: RequestBody) -> Result<Value, Refusal> {
    let bytes = read_body(body, BODY_LEN_MAX, BODY_TIME).await.map_err(|err| match err {
        BodyRefusal::TooLarge => Refusal(StatusCode::PAYLOAD_TOO_LARGE, format!("more than {BODY_LEN_MAX} bytes")),
        _ => Refusal(StatusCode::REQUEST_TIMEOUT, "the body did not come".into()),
    })?;
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(json!({}));
    }
    let value: Value = serde_json::from_slice(&bytes).map_err(|err| Refusal::bad(&format!("no JSON: {err}")))?;
    if value.is_object() { Ok(value) } else { Err(Refusal::bad("no JSON object")) }
}

fn refusal(Refusal(status, text): &Refusal) -> Response<Body> {
    json_answer(*status, json!({"error": text}).to_string())
}

fn json_answer(status: StatusCode, text: String) -> Response<Body> {
    let mut answer = Response::new(full(text));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

#[cfg(test)]
mod tests;

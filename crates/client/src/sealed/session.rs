//! Sessions of wire 3 without a connection: what to send, and what to make of the answer. `spec/session-3.md`.
//!
//! ```text
//! Agreement::begin -> Outgoing -> (an answer) -> claimed -> its key, if it is trusted -> finish -> Session
//! Session::seal -> Outgoing -> (an answer) -> Pending::open -> Opened
//! ```

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use sealway_proto::crypto::es256::default_es256;
use sealway_proto::crypto::{agreement::default_agreement_provider, default_provider};
use sealway_proto::limits::{FRAME_LEN_MAX, X_SEALED_LEN_MAX};
use sealway_proto::session::three::client::Claimed;
use sealway_proto::session::three::{
    self, ClientInit, ClientOffer, ClientSession, FrameOpener, FrameSealer, InitAnswer, InnerHeaders, KeyId, Problem,
    Read, Refused, RequestLine, ShareKey, Suite, may_be_inner, sends_again,
};
use sealway_proto::wire::header::{SEALING, X_SEALED};
use sealway_proto::wire::{SessionId, base64};
use serde_json::Value;

use super::dpop;
use super::trust::PublicKey;
use crate::error::{Error, excerpt};
use crate::exchange::{Outgoing, Received, SentAt, insert};
use crate::session::Options;

/// The init endpoint.
pub const INIT_PATH: &str = "/v3/sessions";
/// What of a session's life is left when it is renewed: a tenth, and no more than this.
const RENEW_BEFORE_MAX: Duration = Duration::from_secs(60);

/// An init, or a renewal, that was begun, and when.
pub struct Agreement(ClientInit, SentAt);

/// An agreed session, for as many calls as its time allows, concurrent ones too.
pub struct Session {
    pub(super) agreed: ClientSession,
    /// The server's clock, and when it said so.
    clock: Mutex<(u64, Instant)>,
    /// When its init was sent, so not later than it was agreed.
    pub(super) born: SentAt,
}

/// What must be remembered of a sealed request to open its answer.
pub struct Pending<'a> {
    pub(super) session: &'a Session,
    pub(super) answer: three::call::PendingAnswer<'a>,
    method: Method,
    /// Taken before the request is sealed, so not later than it was sent.
    sent: SentAt,
}

/// An answer that opened.
#[derive(Debug)]
pub struct Opened {
    /// The headers within the seal.
    pub headers: HeaderMap,
    /// What the service said.
    pub body: Bytes,
}

/// What a refusal in plain makes a client do, as far as it is proven.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The session is over, says the service or whoever is in between.
    Expired { problem: Problem },
    /// The service's clock, under the session's key.
    Clock { server_time_ms: u64, problem: Problem },
    /// Nothing more.
    Final(Error),
}

/// How a request begins on the wire.
pub(super) struct Begun<'a> {
    pub(super) headers: HeaderMap,
    pub(super) sealer: FrameSealer,
    /// The encoded headers within, which the stream begins with.
    pub(super) inner: Vec<u8>,
    /// Whether the stream belongs into a header.
    pub(super) is_bodyless: bool,
    pub(super) pending: Pending<'a>,
}

impl Agreement {
    /// Draws a share of `suite` and says what to send as `POST` to [`INIT_PATH`] at `url`, the init's URL without query. A
    /// renewal goes as a sealed request instead.
    ///
    /// # Errors
    /// [`Error::Seal`], [`Error::Usage`].
    pub fn begin(
        options: &Options,
        suite: Suite,
        pinned: Vec<KeyId>,
        url: &str,
        renewed: Option<&Session>,
    ) -> Result<(Agreement, Outgoing), Error> {
        let (provider, begun) = (default_agreement_provider(), SentAt::now());
        let mut headers = HeaderMap::with_capacity(2);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let token = options.token.as_ref().filter(|_| renewed.is_none());
        let scheme = if options.dpop.is_some() { "DPoP" } else { "Bearer" };
        let authorization = token.map(|token| format!("{scheme} {token}"));
        if let Some(value) = &authorization {
            insert(&mut headers, AUTHORIZATION.as_str(), value)?;
        }
        let offer = ClientOffer {
            suites: options.suites.clone(),
            client_id: options.client_id.clone(),
            ttl_sec: options.ttl_sec,
            pinned_key_ids: pinned,
            credential: authorization.map(|value| provider.sha256(&[value.as_bytes()])),
        };
        let share = ShareKey::generate(provider, suite).map_err(Error::Seal)?;
        let mut init = ClientInit::new(offer, share, renewed.map(|old| &old.agreed)).map_err(Error::Seal)?;
        if let (Some(key), Some(token)) = (&options.dpop, token) {
            let proof = dpop::proof(key, token, url, &init.init_hash(provider))?;
            init.set_proof(&proof);
        }
        let body = init.body().into();
        Ok((Agreement(init, begun), Outgoing { headers, body, aad: Vec::new() }))
    }

    /// Who is to have signed the answer: the caller says whether that key is trusted.
    ///
    /// # Errors
    /// [`Error::Problem`], [`Error::InitRefused`], [`Error::Untrusted`].
    pub fn claimed(&self, status: StatusCode, body: &[u8]) -> Result<Claimed, Error> {
        if status != StatusCode::CREATED {
            return Err(match problem(status, body) {
                Some(problem) => told(problem),
                None => Error::InitRefused { status, body: excerpt(body) },
            });
        }
        self.0.claimed(body).map_err(Error::Untrusted)
    }

    /// Finishes with the answer that came at `arrived`. `key` is the trusted identity key that it claims.
    ///
    /// # Errors
    /// [`Error::Untrusted`].
    pub fn finish(self, key: &PublicKey, body: &[u8], arrived: Instant) -> Result<Session, Error> {
        let key = default_es256().public(key).map_err(Error::Untrusted)?;
        let agreed = self.0.finish(default_agreement_provider(), Some(key.as_ref()), body).map_err(Error::Untrusted)?;
        let clock = Mutex::new((agreed.agreed().server_time_ms, arrived));
        Ok(Session { agreed, clock, born: self.1 })
    }
}

impl Session {
    /// Its id.
    pub fn id(&self) -> &SessionId {
        self.agreed.id()
    }

    /// What was agreed, all of it under the service's signature.
    pub fn agreed(&self) -> &InitAnswer {
        self.agreed.agreed()
    }

    /// Whether it lasts a while yet: in the last tenth of its life, a minute at most, it is to be renewed.
    pub fn is_usable(&self) -> bool {
        self.left() > (self.life() / 10).min(RENEW_BEFORE_MAX)
    }

    /// Whether its life is over.
    pub fn is_over(&self) -> bool {
        self.left().is_zero()
    }

    fn life(&self) -> Duration {
        Duration::from_secs(self.agreed().expires_in_sec.into())
    }

    /// By the clock that says less: a machine that slept may wake after the session's end.
    fn left(&self) -> Duration {
        self.life().saturating_sub(Duration::from_millis(self.born.elapsed_ms()))
    }

    /// The server's clock, as this session knows it: what the server said, and what has passed since by a clock that never
    /// jumps.
    pub(super) fn stamp_ms(&self) -> u64 {
        let (server_ms, at) = *self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        server_ms.saturating_add(u64::try_from(at.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// Takes the server's time, which its mac has proven.
    pub(crate) fn set_clock(&self, server_time_ms: u64) {
        *self.clock.lock().unwrap_or_else(PoisonError::into_inner) = (server_time_ms, Instant::now());
    }

    /// Seals a whole request: headers and body go within. Its answer's headers are within too.
    ///
    /// # Errors
    /// [`Error::Usage`] for a method or a header that cannot be sealed, [`Error::Seal`].
    pub fn seal(
        &self,
        method: &Method,
        path_and_query: &str,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<(Outgoing, Pending<'_>), Error> {
        let begun = self.begin(method, path_and_query, headers, body.is_empty())?;
        let Begun { mut headers, mut sealer, inner, is_bodyless, pending } = begun;
        let len = FrameSealer::stream_len((inner.len() + body.len()) as u64);
        let mut out = Vec::with_capacity(usize::try_from(len).unwrap_or_default());
        let mut rest = (inner.as_slice(), body);
        loop {
            let frame = sealer.begin(&mut out);
            let mut room = FRAME_LEN_MAX;
            for part in [&mut rest.0, &mut rest.1] {
                let (now, later) = part.split_at(room.min(part.len()));
                out.extend_from_slice(now);
                (*part, room) = (later, room - now.len());
            }
            let is_last = rest.1.is_empty();
            sealer.seal(&mut out, frame, is_last).map_err(Error::Seal)?;
            if is_last {
                break;
            }
        }
        if is_bodyless {
            insert(&mut headers, X_SEALED, &base64::encode(&out))?;
            out.clear();
        }
        Ok((Outgoing { headers, body: out.into(), aad: Vec::new() }, pending))
    }

    pub(super) fn begin(
        &self,
        method: &Method,
        path_and_query: &str,
        headers: &HeaderMap,
        is_empty: bool,
    ) -> Result<Begun<'_>, Error> {
        if [Method::CONNECT, Method::TRACE, Method::OPTIONS].contains(method) {
            return Err(Error::Usage(format!("{method} is not sealed")));
        }
        let (provider, sent) = (default_provider(), SentAt::now());
        let mut inner = Vec::new();
        inner_headers(headers)?.encode(&mut inner);
        // Whoever is in between drops or refuses the body of such a message.
        let by_nature = [Method::GET, Method::HEAD, Method::DELETE].contains(method);
        let sealed_len = FrameSealer::stream_len(inner.len() as u64).div_ceil(3) * 4;
        let is_bodyless = is_empty && by_nature && sealed_len <= X_SEALED_LEN_MAX as u64;
        let content_type = if is_bodyless { "" } else { "application/octet-stream" };
        let mut nonce = [0; 16];
        provider.fill_random(&mut nonce).map_err(Error::Seal)?;
        let line = RequestLine { method: method.as_str(), target: path_and_query };
        let call = self.agreed.seal(provider, line, content_type, self.stamp_ms(), &nonce).map_err(Error::Seal)?;
        let mut outer = HeaderMap::with_capacity(6);
        if !is_bodyless {
            outer.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        }
        for (name, value) in &call.headers {
            insert(&mut outer, name, value)?;
        }
        let pending = Pending { session: self, answer: call.pending, method: method.clone(), sent };
        Ok(Begun { headers: outer, sealer: call.sealer, inner, is_bodyless, pending })
    }
}

impl Pending<'_> {
    /// Opens a whole answer.
    ///
    /// # Errors
    /// [`Error::Problem`] and [`Error::Refused`] if it is not sealed at all, [`Error::Untrusted`].
    pub fn open(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Result<Opened, Error> {
        let (sealed, mut opener) = match self.opener(status, headers) {
            Err(Error::Untrusted(sealway_proto::Error::Unsealed)) => {
                return Err(self.refused(status, body).into_error());
            }
            opener => opener?,
        };
        let (mut input, mut all, mut inner) = (sealed.as_deref().unwrap_or(body), Vec::new(), None);
        let mut frame = Vec::new();
        while !input.is_empty() {
            if opener.read(&mut input, &mut frame).map_err(Error::Untrusted)? == Read::More {
                continue;
            }
            let from = match &inner {
                Some(_) => 0,
                None => {
                    let (headers, len) = outer_headers(&frame)?;
                    inner = Some(headers);
                    len
                }
            };
            all.extend_from_slice(&frame[from..]);
            frame.clear();
        }
        opener.end().map_err(Error::Untrusted)?;
        Ok(Opened { headers: inner.unwrap_or_default(), body: all.into() })
    }

    /// What opens an answer with these headers, and its stream where it is in one of them.
    pub(super) fn opener(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Result<(Option<Vec<u8>>, FrameOpener), Error> {
        self.answer.open(default_provider(), &Received(headers), status.as_u16()).map_err(Error::Untrusted)
    }

    /// What an answer that is not sealed says.
    pub(crate) fn refused(&self, status: StatusCode, body: &[u8]) -> Refusal {
        let Some(problem) = problem(status, body) else {
            return Refusal::Final(Error::Refused { status, body: excerpt(body) });
        };
        let time = problem.more.get("server_time_ms").and_then(Value::as_u64);
        let text = |name| problem.more.get(name).and_then(Value::as_str);
        let (code, mac) = (problem.code.as_str(), text("mac"));
        let (stamp, nonce) = self.answer.stamp_and_nonce();
        match (code, time, mac.and_then(|mac| base64::decode_array(mac).ok())) {
            ("clock_skew", Some(ms), Some(mac))
                if self.session.agreed.verifies_clock(default_provider(), stamp, nonce, ms, &mac) =>
            {
                return Refusal::Clock { server_time_ms: ms, problem };
            }
            ("session_expired", ..) => return Refusal::Expired { problem },
            _ => {}
        }
        Refusal::Final(told(problem))
    }

    /// Whether the request is to be sent again at this problem, now that it has come.
    pub(crate) fn sends_again(&self, problem: &Problem, is_proven: bool) -> bool {
        let Ok(stamp_ms) = self.answer.stamp_and_nonce().0.parse() else { return false };
        let (method, elapsed_ms) = (self.method.as_str(), self.sent.elapsed_ms());
        sends_again(problem, is_proven, &Refused { method, stamp_ms, elapsed_ms })
    }
}

impl Refusal {
    pub(crate) fn into_error(self) -> Error {
        match self {
            Refusal::Expired { problem } | Refusal::Clock { problem, .. } => told(problem),
            Refusal::Final(err) => err,
        }
    }
}

/// A problem of ours in an answer.
pub(super) fn problem(status: StatusCode, body: &[u8]) -> Option<Problem> {
    Problem::parse(status.as_u16(), body)
}

pub(super) fn told(problem: Problem) -> Error {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::BAD_REQUEST);
    Error::Problem { status, code: excerpt(problem.code.as_bytes()), more: problem.more }
}

/// A caller's headers, as they go within. Those that frame a message are made anew at the other end.
fn inner_headers(headers: &HeaderMap) -> Result<InnerHeaders, Error> {
    let mut inner = InnerHeaders::new();
    for (name, value) in headers {
        let name = name.as_str();
        if SEALING.contains(&name) || name.starts_with("x-sealway-") {
            return Err(Error::Usage(format!("the header {name} is not a caller's to send")));
        }
        if may_be_inner(name) {
            let full = |_| Error::Usage(format!("the header {name}, or all headers together, cannot be sealed"));
            inner.push(name, value.as_bytes()).map_err(full)?;
        }
    }
    Ok(inner)
}

/// The headers at the beginning of a first frame, and where the body begins.
pub(super) fn outer_headers(frame: &[u8]) -> Result<(HeaderMap, usize), Error> {
    let invalid = || Error::Untrusted(sealway_proto::Error::InnerHeadersInvalid);
    let (inner, len) = InnerHeaders::parse(frame).map_err(Error::Untrusted)?;
    let mut headers = HeaderMap::new();
    for (name, value) in inner.iter() {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
        headers.append(name, HeaderValue::from_bytes(value).map_err(|_| invalid())?);
    }
    Ok((headers, len))
}

/// A stream of nothing but the headers within.
pub(super) fn one_frame(sealer: &mut FrameSealer, inner: &[u8]) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    let frame = sealer.begin(&mut out);
    out.extend_from_slice(inner);
    sealer.seal(&mut out, frame, true).map_err(Error::Seal)?;
    Ok(out)
}

/// Which suite a `suite_required` asks for: the first of ours that is in its list.
pub fn suite_required(err: &Error, offered: &[Suite]) -> Option<Suite> {
    let Error::Problem { code, more, .. } = err else { return None };
    let list = more.get("suites").filter(|_| code == "suite_required")?.as_array()?;
    offered.iter().copied().find(|suite| list.iter().any(|name| name.as_str() == Some(suite.name())))
}

impl std::fmt::Debug for Agreement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agreement").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Session").field(self.id()).finish()
    }
}

impl std::fmt::Debug for Pending<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pending").finish_non_exhaustive()
    }
}

/// A signing key for DPoP proofs (RFC 9449); the token has to be bound to it.
#[derive(Clone)]
pub struct DpopKey(pub(super) Arc<dyn sealway_proto::crypto::es256::Es256Key>);

impl DpopKey {
    /// A new key, and its PKCS #8 document, which is secret.
    ///
    /// # Errors
    /// [`Error::Seal`].
    pub fn generate() -> Result<(Self, zeroize::Zeroizing<Vec<u8>>), Error> {
        let (document, key) = default_es256().generate().map_err(Error::Seal)?;
        Ok((DpopKey(key.into()), document))
    }

    /// The key in a PKCS #8 document.
    ///
    /// # Errors
    /// [`Error::Usage`].
    pub fn from_pkcs8(document: &[u8]) -> Result<Self, Error> {
        let key = default_es256().from_pkcs8(document);
        key.map(|key| DpopKey(key.into())).map_err(|_| Error::Usage("no PKCS #8 document of a P-256 key".into()))
    }
}

impl std::fmt::Debug for DpopKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DpopKey(redacted)")
    }
}

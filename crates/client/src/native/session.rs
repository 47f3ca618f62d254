//! Sessions of wire 3, without a connection. `spec/session-3.md`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode, Uri};
use sealway_proto::crypto::identity::{IdentityPair, SignatureAlgorithm, default_identity_library};
use sealway_proto::crypto::{agreement::default_agreement_provider, default_provider};
use sealway_proto::limits::{FRAME_LEN_MAX, X_SEALED_LEN_MAX};
use sealway_proto::session::native::client::SignerClaim;
use sealway_proto::session::native::{
    self, ClientInit, ClientOffer, ClientSession, FrameOpener, FrameSealer, InitAnswer, InnerHeaders, KeyId, Problem,
    Read, RejectedRequest, RequestLine, ShareKey, Suite, may_be_inner, sends_again,
};
use sealway_proto::wire::header::{SEALING, X_SEALED};
use sealway_proto::wire::{SessionId, base64};
use serde_json::Value;

use super::dpop;
use crate::call::{Failure, Offer, Remedy};
use crate::clock::SentAt;
use crate::error::{Error, ErrorKind, Stage, excerpt};
use crate::message::{AnswerHeaders, Message, insert, outer};

/// Path of the endpoint that agrees sessions.
pub const INIT_PATH: &str = "/v3/sessions";
/// Longest remaining lifetime at which a session is renewed; the usual one is a tenth of its lifetime.
const RENEW_BEFORE_MAX: Duration = Duration::from_secs(60);

/// An init or a renewal that awaits its answer, and the time of its start.
#[derive(Debug)]
pub struct Agreement(ClientInit, SentAt);

/// An agreed session for any number of calls, also concurrent ones, until it expires.
#[derive(Debug)]
pub struct Session {
    pub(super) agreed: ClientSession,
    /// The server's last known time in milliseconds, and the moment of its receipt.
    clock: Mutex<(u64, Instant)>,
    /// Time at which the init was sent, and so not later than the agreement.
    pub(super) born: SentAt,
}

/// State that opens the answer to one sealed request.
#[derive(Debug)]
pub struct Pending<'a> {
    pub(super) session: &'a Session,
    pub(super) answer: native::call::PendingAnswer<'a>,
    method: Method,
    /// Taken before the request is sealed, and so not later than it was sent.
    sent: SentAt,
}

/// Head of a sealed request, and the sealer of the stream that follows it.
pub(crate) struct StreamHead<P> {
    pub(crate) headers: HeaderMap,
    /// Bytes of the stream before its frames.
    pub(super) prefix: Vec<u8>,
    pub(super) sealer: FrameSealer,
    /// Encoded inner headers, with which the stream begins.
    pub(super) inner: Vec<u8>,
    /// True if the stream goes in a header.
    pub(super) is_bodyless: bool,
    pub(crate) pending: P,
}

impl Agreement {
    /// Draws a share of `suite` and makes the `POST` to send to [`INIT_PATH`] at `url`, the init's URL without query. A
    /// renewal is sent as a sealed request instead.
    ///
    /// # Errors
    /// [`ErrorKind::Seal`], [`ErrorKind::Usage`].
    pub fn begin(
        offer: &Offer,
        suite: Suite,
        pinned: Vec<KeyId>,
        url: &str,
        renewed: Option<&Session>,
    ) -> Result<(Agreement, Message), Error> {
        let (provider, begun) = (default_agreement_provider(), SentAt::now());
        let mut headers = outer("application/json", &[])?;
        let authorization = offer.authorization.as_ref().filter(|_| renewed.is_none());
        if let Some(value) = authorization {
            insert(&mut headers, AUTHORIZATION.as_str(), value)?;
        }
        let asked = ClientOffer {
            suites: offer.suites.clone(),
            client_id: offer.client_id.clone(),
            ttl_sec: offer.ttl_sec,
            pinned_key_ids: pinned,
            signature_algorithms: offer.signature_algorithms.clone(),
            credential: authorization.map(|value| provider.sha256(&[value.as_bytes()])),
        };
        let share = ShareKey::generate(provider, suite).map_err(ErrorKind::Seal)?;
        let mut init = ClientInit::new(asked, share, renewed.map(|old| &old.agreed)).map_err(ErrorKind::Seal)?;
        if let (Some(key), Some(value)) = (&offer.dpop, authorization) {
            let token = value.strip_prefix("DPoP ");
            let token =
                token.ok_or_else(|| ErrorKind::Usage("authorization: with dpop, expected DPoP TOKEN".into()))?;
            init.set_proof(&dpop::proof(key, token, url, &init.init_hash(provider))?);
        }
        let body = init.body().into();
        Ok((Agreement(init, begun), Message { headers, body, aad: Vec::new() }))
    }

    /// Returns the signer that the answer claims. The caller decides if that key is trusted.
    ///
    /// # Errors
    /// [`ErrorKind::Problem`], [`ErrorKind::Refused`], [`ErrorKind::Untrusted`].
    pub fn claimed(&self, status: StatusCode, body: &[u8]) -> Result<SignerClaim, Error> {
        if status != StatusCode::CREATED {
            return Err(plain(status, body).at(Stage::Agreement, &Uri::default()));
        }
        Ok(self.0.claimed(body).map_err(ErrorKind::Untrusted)?)
    }

    /// Completes the agreement with the answer that came at `arrived`. `key` is the trusted identity key that the
    /// answer claims.
    ///
    /// # Errors
    /// [`ErrorKind::Untrusted`].
    pub fn finish(self, key: &[u8], body: &[u8], arrived: Instant) -> Result<Session, Error> {
        let key = default_identity_library().public(key).map_err(ErrorKind::Untrusted)?;
        let agreed = self.0.finish(default_agreement_provider(), Some(&key), body).map_err(ErrorKind::Untrusted)?;
        let clock = Mutex::new((agreed.agreed().server_time_ms, arrived));
        Ok(Session { agreed, clock, born: self.1 })
    }
}

impl Session {
    /// Id of the session, chosen by the service.
    pub fn id(&self) -> &SessionId {
        self.agreed.id()
    }

    /// The service's answer, all of it signed.
    pub fn agreed(&self) -> &InitAnswer {
        self.agreed.agreed()
    }

    /// Returns false in the last tenth of the lifetime, at most a minute, when the caller has to renew the session.
    pub fn is_usable(&self) -> bool {
        self.left() > (self.life() / 10).min(RENEW_BEFORE_MAX)
    }

    /// Returns true once the lifetime is over.
    pub fn is_over(&self) -> bool {
        self.left().is_zero()
    }

    fn life(&self) -> Duration {
        Duration::from_secs(self.agreed().expires_in_sec.into())
    }

    /// Remaining lifetime by the clock that says less: a machine may wake from sleep after the session's end.
    fn left(&self) -> Duration {
        self.life().saturating_sub(Duration::from_millis(self.born.elapsed_ms()))
    }

    /// The server's time: its last known time, plus the time since by the monotonic clock.
    pub(super) fn stamp_ms(&self) -> u64 {
        let (server_ms, at) = *self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        server_ms.saturating_add(u64::try_from(at.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// Sets the server's time, which the caller has verified by its MAC.
    pub(crate) fn set_clock(&self, server_time_ms: u64) {
        *self.clock.lock().unwrap_or_else(PoisonError::into_inner) = (server_time_ms, Instant::now());
    }

    /// Seals a whole request with its headers and body. The answer's headers are sealed too.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] for a method or a header that cannot be sealed, [`ErrorKind::Seal`].
    pub fn seal(
        &self,
        method: &Method,
        path_and_query: &str,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<(Message, Pending<'_>), Error> {
        let head = self.begin(method, path_and_query, headers, body.is_empty())?;
        head.whole(body)
    }

    pub(super) fn begin(
        &self,
        method: &Method,
        path_and_query: &str,
        headers: &HeaderMap,
        is_empty: bool,
    ) -> Result<StreamHead<Pending<'_>>, Error> {
        let sent = SentAt::now();
        let shape = Shape::of(method, headers, is_empty, 0)?;
        let line = RequestLine { method: method.as_str(), target: path_and_query };
        let call = self.agreed.seal(default_provider(), line, shape.content_type, self.stamp_ms(), &shape.nonce);
        let call = call.map_err(ErrorKind::Seal)?;
        let pending = Pending { session: self, answer: call.pending, method: method.clone(), sent };
        shape.head(&call.headers, Vec::new(), call.sealer, pending)
    }
}

/// Form of a sealed request before its keys are used.
pub(crate) struct Shape {
    /// Encoded inner headers, with which the stream begins.
    inner: Vec<u8>,
    /// True if the stream goes in a header.
    is_bodyless: bool,
    /// Media type outside the seal.
    pub(crate) content_type: &'static str,
    /// Random nonce of the request.
    pub(crate) nonce: [u8; 16],
}

impl Shape {
    /// Chooses the form of a request. `prefix_len` is the length of the stream before its frames, in bytes.
    pub(crate) fn of(method: &Method, headers: &HeaderMap, is_empty: bool, prefix_len: usize) -> Result<Self, Error> {
        if [Method::CONNECT, Method::TRACE, Method::OPTIONS].contains(method) {
            return Err(ErrorKind::Usage(format!("{method} is not sealed")).into());
        }
        let mut inner = Vec::new();
        inner_headers(headers)?.encode(&mut inner);
        // Intermediaries drop or reject the body of a request with such a method.
        let by_nature = [Method::GET, Method::HEAD, Method::DELETE].contains(method);
        let sealed_len = (prefix_len as u64 + FrameSealer::stream_len(inner.len() as u64)).div_ceil(3) * 4;
        let is_bodyless = is_empty && by_nature && sealed_len <= X_SEALED_LEN_MAX as u64;
        let content_type = if is_bodyless { "" } else { "application/octet-stream" };
        let mut nonce = [0; 16];
        default_provider().fill_random(&mut nonce).map_err(ErrorKind::Seal)?;
        Ok(Shape { inner, is_bodyless, content_type, nonce })
    }

    pub(crate) fn head<P>(
        self,
        seal: &[(&'static str, String)],
        prefix: Vec<u8>,
        sealer: FrameSealer,
        pending: P,
    ) -> Result<StreamHead<P>, Error> {
        let headers = outer(self.content_type, seal)?;
        Ok(StreamHead { headers, prefix, sealer, inner: self.inner, is_bodyless: self.is_bodyless, pending })
    }
}

impl<P> StreamHead<P> {
    /// Seals a whole body behind the head.
    pub(crate) fn whole(self, body: &[u8]) -> Result<(Message, P), Error> {
        let StreamHead { mut headers, prefix, mut sealer, inner, is_bodyless, pending } = self;
        let len = FrameSealer::stream_len((inner.len() + body.len()) as u64);
        let mut out = Vec::with_capacity(prefix.len() + usize::try_from(len).unwrap_or_default());
        out.extend_from_slice(&prefix);
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
            sealer.seal(&mut out, frame, is_last).map_err(ErrorKind::Seal)?;
            if is_last {
                break;
            }
        }
        if is_bodyless {
            insert(&mut headers, X_SEALED, &base64::encode(&out))?;
            out.clear();
        }
        Ok((Message { headers, body: out.into(), aad: Vec::new() }, pending))
    }
}

/// State that opens the answer to one sealed request, on any wire with frames.
pub(crate) trait AnswerOpening {
    /// Returns the opener of an answer with these headers, and its stream if a header holds it.
    fn opener(&self, status: StatusCode, headers: &HeaderMap) -> Result<(Option<Vec<u8>>, FrameOpener), Error>;

    /// Converts an unsealed answer into a failure.
    fn refused(&self, status: StatusCode, body: &[u8]) -> Failure;

    /// Returns true if a sealed answer with these headers is a problem of the server, which on wire 3 is never sealed.
    fn is_problem(&self, headers: &HeaderMap) -> bool {
        let _ = headers;
        false
    }

    /// Converts a sealed problem, which the service alone can have made, into a failure.
    fn problem(&self, status: StatusCode, body: &[u8]) -> Failure {
        self.refused(status, body)
    }
}

impl AnswerOpening for Pending<'_> {
    fn opener(&self, status: StatusCode, headers: &HeaderMap) -> Result<(Option<Vec<u8>>, FrameOpener), Error> {
        self.opener(status, headers)
    }

    fn refused(&self, status: StatusCode, body: &[u8]) -> Failure {
        self.refused(status, body)
    }
}

impl Pending<'_> {
    /// Opens a whole answer: the sealed headers and the body.
    ///
    /// # Errors
    /// [`ErrorKind::Problem`] and [`ErrorKind::Refused`] if the answer is not sealed, [`ErrorKind::Untrusted`] if it does not open.
    pub fn open(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Result<(HeaderMap, Bytes), Error> {
        match self.opener(status, headers) {
            Err(err) if err.code() == "unsealed" => Err(plain(status, body)),
            opener => open_whole(opener?, body),
        }
    }

    /// Returns the opener of an answer with these headers, and its stream if a header holds it.
    pub(super) fn opener(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Result<(Option<Vec<u8>>, FrameOpener), Error> {
        Ok(self
            .answer
            .open(default_provider(), &AnswerHeaders(headers), status.as_u16())
            .map_err(ErrorKind::Untrusted)?)
    }

    /// Converts an unsealed answer into a failure. Takes over the service's time if the service proves it.
    pub(super) fn refused(&self, status: StatusCode, body: &[u8]) -> Failure {
        let Some(problem) = Problem::parse(status.as_u16(), body) else {
            // An answer to HEAD has no body that gives a reason; for sealed requests this status has only one.
            let is_over = self.method == Method::HEAD && status == StatusCode::UNAUTHORIZED;
            let remedy = is_over.then_some(Remedy::NewSession);
            return Failure { err: plain(status, body).repeatable(is_over), remedy };
        };
        let (stamp, nonce) = self.answer.stamp_and_nonce();
        let time = problem.more.get("server_time_ms").and_then(Value::as_u64);
        let mac = problem.more.get("mac").and_then(Value::as_str).and_then(|mac| base64::decode_array(mac).ok());
        let remedy = match (problem.code.as_str(), time, mac) {
            ("clock_skew", Some(ms), Some(mac))
                if self.session.agreed.verifies_clock(default_provider(), stamp, nonce, ms, &mac) =>
            {
                self.session.set_clock(ms);
                Some(Remedy::Clock)
            }
            ("session_expired", ..) => Some(Remedy::NewSession),
            _ => None,
        };
        let may_repeat = remedy.zip(stamp.parse().ok()).is_some_and(|(remedy, stamp_ms)| {
            let (method, elapsed_ms) = (self.method.as_str(), self.sent.elapsed_ms());
            sends_again(&problem, remedy == Remedy::Clock, &RejectedRequest { method, stamp_ms, elapsed_ms })
        });
        Failure { err: plain(status, body).repeatable(may_repeat), remedy }
    }
}

/// Opens the frames of a whole answer, which are in its body or in a header. Returns the sealed headers and the body.
pub(crate) fn open_whole(
    (sealed, mut opener): (Option<Vec<u8>>, FrameOpener),
    body: &[u8],
) -> Result<(HeaderMap, Bytes), Error> {
    if sealed.is_some() && !body.is_empty() {
        return Err(ErrorKind::Untrusted(sealway_proto::Error::HeaderInvalid(X_SEALED)).into());
    }
    let (mut input, mut all, mut inner) = (sealed.as_deref().unwrap_or(body), Vec::new(), None);
    let mut frame = Vec::new();
    while !input.is_empty() {
        if opener.read(&mut input, &mut frame).map_err(ErrorKind::Untrusted)? == Read::More {
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
    opener.end().map_err(ErrorKind::Untrusted)?;
    Ok((inner.unwrap_or_default(), all.into()))
}

/// Converts an unsealed answer into an error: a problem with a code, or another rejection.
pub(crate) fn plain(status: StatusCode, body: &[u8]) -> Error {
    match Problem::parse(status.as_u16(), body) {
        Some(Problem { code, more, .. }) => ErrorKind::Problem { status, code: excerpt(code.as_bytes()), more },
        None => ErrorKind::Refused { status, body: excerpt(body) },
    }
    .into()
}

/// Encodes a caller's headers for the seal. Headers that frame a message are dropped: the service makes its own.
fn inner_headers(headers: &HeaderMap) -> Result<InnerHeaders, Error> {
    let mut inner = InnerHeaders::new();
    for (name, value) in headers {
        let name = name.as_str();
        if SEALING.contains(&name) || name.starts_with("x-sealway-") {
            return Err(ErrorKind::Usage(format!("the header {name} is not a caller's to send")).into());
        }
        if may_be_inner(name) {
            let full = |_| ErrorKind::Usage(format!("the header {name}, or all headers together, cannot be sealed"));
            inner.push(name, value.as_bytes()).map_err(full)?;
        }
    }
    Ok(inner)
}

/// Parses the headers at the start of a first frame; also returns the offset of the body.
pub(super) fn outer_headers(frame: &[u8]) -> Result<(HeaderMap, usize), Error> {
    let invalid = || ErrorKind::Untrusted(sealway_proto::Error::InnerHeadersInvalid);
    let (inner, len) = InnerHeaders::parse(frame).map_err(ErrorKind::Untrusted)?;
    let mut headers = HeaderMap::new();
    for (name, value) in inner.iter() {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
        headers.append(name, HeaderValue::from_bytes(value).map_err(|_| invalid())?);
    }
    Ok((headers, len))
}

/// Suite to use after a `suite_required`: the first offered one that the service accepts.
pub fn suite_required(err: &Error, offered: &[Suite]) -> Option<Suite> {
    let ErrorKind::Problem { code, more, .. } = err.kind() else { return None };
    let list = more.get("suites").filter(|_| code == "suite_required")?.as_array()?;
    offered.iter().copied().find(|suite| list.iter().any(|name| name.as_str() == Some(suite.name())))
}

/// A signing key for DPoP proofs (RFC 9449). The token has to be bound to it.
#[derive(Clone)]
pub struct DpopKey(pub(super) Arc<IdentityPair>);

impl DpopKey {
    /// Generates a key; also returns its PKCS #8 document, which is secret.
    ///
    /// # Errors
    /// [`ErrorKind::Seal`] of the crypto module.
    pub fn generate() -> Result<(Self, zeroize::Zeroizing<Vec<u8>>), Error> {
        let (document, key) =
            default_identity_library().generate(SignatureAlgorithm::Es256).map_err(ErrorKind::Seal)?;
        Ok((DpopKey(key.into()), document))
    }

    /// Reads a key from a PKCS #8 document.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] for a document without a P-256 key.
    pub fn from_pkcs8(document: &[u8]) -> Result<Self, Error> {
        let key = default_identity_library().from_pkcs8(document);
        let key = key.ok().filter(|key| key.algorithm() == SignatureAlgorithm::Es256);
        let key = key.ok_or_else(|| ErrorKind::Usage("no PKCS #8 document of a P-256 key".into()))?;
        Ok(DpopKey(key.into()))
    }
}

impl std::fmt::Debug for DpopKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DpopKey(redacted)")
    }
}

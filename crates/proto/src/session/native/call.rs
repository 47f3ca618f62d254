//! Sealed requests at a server, and sealed answers on both sides. `spec/session-3.md#sealed-requests`.
//!
//! ```text
//! headers ─ SealedRequest::parse ─► session ─ check ─► opener ─► frames …
//!       the first frame ─ Opening::first ─► Unreplayed<OpenedRequest> ─ a claim ─► headers, body, Reply
//!                                                           Reply::seal ─► (headers, FrameSealer)
//! ```

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::Fields;
use super::client::ClientSession;
use super::frame::{FrameOpener, FrameSealer};
use super::inner::InnerHeaders;
use super::schedule::{Keys, Labels};
use crate::crypto::Provider;
use crate::error::Error;
use crate::limits::{NONCE_LEN_MIN_V3, PATH_LEN_MAX, WINDOW3_MS_MAX, X_SEALED_LEN_MAX};
use crate::session::record::Session;
use crate::session::replay::{Claim, NonceGuard, Scope};
use crate::wire::header::{X_IDEMPOTENCY_KEY, X_KID, X_SEAL, X_SEALED};
use crate::wire::nonce::{ANSWER_PREFIX, check_answer, check_one_shot_answer, push_hex};
use crate::wire::{Field, Headers, Nonce, ReplayPolicy, SessionId, Timestamp, Wire, base64, idempotency};

/// The headers that sealing adds to a message: lower-case names and their values.
pub type SealHeaders = Vec<(&'static str, String)>;

/// Method and target of a request, as sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLine<'a> {
    /// The method of the request, as sent.
    pub method: &'a str,
    /// Path and query, as sent.
    pub target: &'a str,
}

pub(crate) fn request_context(
    provider: &dyn Provider,
    labels: &Labels,
    line: RequestLine<'_>,
    content_type: &str,
    stamp: &str,
    nonce: &str,
    session: &SessionId,
) -> [u8; 32] {
    let fields = Fields::new().field(labels.request_context).field(line.method).field(line.target);
    let fields = fields.field(content_type).field(stamp).field(nonce).field(labels.id(session));
    provider.sha256(&[fields.as_bytes()])
}

fn answer_context(
    provider: &dyn Provider,
    labels: &Labels,
    status: u16,
    line: RequestLine<'_>,
    content_type: &str,
    stamp: &str,
    nonce: &str,
    session: &SessionId,
) -> [u8; 32] {
    let fields = Fields::new().field(labels.answer_context).number(status.into()).field(line.method);
    let fields = fields.field(line.target).field(content_type).field(stamp).field(nonce).field(labels.id(session));
    provider.sha256(&[fields.as_bytes()])
}

/// Returns a header's value, `None` if it is absent.
fn optional<'a>(headers: &'a impl Headers, name: &'static str) -> Result<Option<&'a str>, Error> {
    match headers.field(name) {
        Field::Absent => Ok(None),
        Field::Value(value) => Ok(Some(value)),
        Field::Malformed => Err(Error::HeaderInvalid(name)),
    }
}

fn seal_of(headers: &impl Headers) -> Result<&'static Labels, Error> {
    Labels::of_seal(headers.field(X_SEAL).required(X_SEAL)?).ok_or(Error::HeaderInvalid(X_SEAL))
}

/// Decodes a whole stream in the header `X-Sealed`.
fn sealed_header(headers: &impl Headers) -> Result<Option<Vec<u8>>, Error> {
    match optional(headers, X_SEALED)? {
        None => Ok(None),
        Some(text) if text.len() > X_SEALED_LEN_MAX => Err(Error::HeaderInvalid(X_SEALED)),
        Some(text) => base64::decode(text).map(Some).map_err(|_| Error::HeaderInvalid(X_SEALED)),
    }
}

/// A sealed request with valid headers; the next step is to look up its session.
#[derive(Debug)]
pub struct SealedRequest<'a> {
    labels: &'static Labels,
    line: RequestLine<'a>,
    content_type: &'a str,
    session_id: Result<SessionId, Error>,
    stamp: Timestamp<'a>,
    nonce: Nonce<'a>,
    is_in_header: bool,
    sealed: Option<Vec<u8>>,
}

impl<'a> SealedRequest<'a> {
    /// Parses the headers of a sealed request.
    ///
    /// # Errors
    /// One of the peer's errors of [`Error`].
    // SPEC session-3.md#sealed-requests
    pub fn parse(headers: &'a impl Headers, line: RequestLine<'a>) -> Result<Self, Error> {
        let labels = seal_of(headers)?;
        let kid = headers.field(X_KID).required(X_KID)?;
        let (stamp, nonce) = idempotency::split(headers.field(X_IDEMPOTENCY_KEY).required(X_IDEMPOTENCY_KEY)?)?;
        let nonce = Nonce::parse(nonce, NONCE_LEN_MIN_V3)?;
        let stamp = Timestamp::parse(stamp)?;
        let session_id = labels.parse_kid(kid)?;
        let content_type = optional(headers, "content-type")?.unwrap_or_default();
        let sealed = sealed_header(headers)?;
        if line.target.len() > PATH_LEN_MAX {
            return Err(Error::HeaderInvalid(":path"));
        }
        Ok(SealedRequest {
            labels,
            line,
            content_type,
            session_id,
            stamp,
            nonce,
            is_in_header: sealed.is_some(),
            sealed,
        })
    }

    /// Returns the id of the session to look up.
    ///
    /// # Errors
    /// [`Error::SessionUnknown`] for a malformed id: the store need not be asked.
    pub fn session_id(&self) -> Result<&SessionId, Error> {
        self.session_id.as_ref().map_err(|err| *err)
    }

    /// Returns the name of the key that a request on wire 4 is sealed to.
    #[cfg(feature = "one-shot")]
    pub(crate) fn key_name(&self) -> Option<&str> {
        let id = self.session_id.as_ref().ok()?;
        (self.labels.wire == Wire::OneShot).then(|| self.labels.id(id))
    }

    /// Returns stamp and nonce, which the proofs in problems contain.
    pub fn stamp_and_nonce(&self) -> (&'a str, &'a str) {
        (self.stamp.as_str(), self.nonce.as_str())
    }

    /// Takes the stream that came in `X-Sealed`, if there is one: then there may be no body.
    pub fn take_sealed(&mut self) -> Option<Vec<u8>> {
        self.sealed.take()
    }

    /// Checks that the request may use a session. Order: id, expiry, wire, stamp. The window is the policy's, and no wider than
    /// [`WINDOW3_MS_MAX`] either way.
    ///
    /// # Errors
    /// [`Error::SessionUnknown`], [`Error::SessionExpired`], [`Error::WireMismatch`], [`Error::TimestampOutsideWindow`].
    pub fn check(&self, session: &Session, now_ms: u64, policy: &ReplayPolicy) -> Result<(), Error> {
        if self.session_id()? != session.id() {
            return Err(Error::SessionUnknown);
        }
        if session.is_expired(now_ms) {
            return Err(Error::SessionExpired);
        }
        if session.record().wire != self.labels.wire || self.labels.wire != Wire::Native {
            return Err(Error::WireMismatch);
        }
        policy.within(WINDOW3_MS_MAX).check(&self.stamp, now_ms)
    }

    /// Begins to open the stream. It repeats the checks of [`SealedRequest::check`], so that no caller can leave them out.
    ///
    /// # Errors
    /// Those of [`SealedRequest::check`], [`Error::Provider`].
    pub fn open(
        &self,
        provider: &dyn Provider,
        session: Arc<Session>,
        now_ms: u64,
        policy: &ReplayPolicy,
    ) -> Result<(FrameOpener, Opening), Error> {
        self.check(&session, now_ms, policy)?;
        let opener = self.opener(provider, session.native_keys()?, session.id())?;
        let claim = Claim::new(provider, Scope::Session(session.id()), self.nonce, &self.stamp, now_ms, policy);
        Ok((opener, Opening { claim, reply: self.reply(session) }))
    }

    /// Begins to open the stream of wire 4 behind its prefix, with the keys that HPKE gave, which are the session's. Stamp and policy
    /// are checked when the first frame has opened.
    ///
    /// # Errors
    /// [`Error::WireMismatch`], [`Error::Provider`].
    // SPEC one-shot.md#steps-of-the-server
    #[cfg(feature = "one-shot")]
    pub(crate) fn open_one_shot(
        &self,
        provider: &dyn Provider,
        session: Arc<Session>,
        claim: impl FnOnce(&Timestamp<'_>) -> Claim,
    ) -> Result<(FrameOpener, Opening), Error> {
        if self.session_id()? != session.id() || session.record().wire != self.labels.wire {
            return Err(Error::WireMismatch);
        }
        let opener = self.opener(provider, session.native_keys()?, session.id())?;
        Ok((opener, Opening { claim: claim(&self.stamp), reply: self.reply(session) }))
    }

    fn reply(&self, session: Arc<Session>) -> Reply {
        let (method, target) = (self.line.method.to_owned(), self.line.target.to_owned());
        Reply { session, method, target, nonce: self.nonce.as_str().to_owned() }
    }

    /// Creates the opener of the stream from a session's keys; the caller has checked the rest.
    pub(super) fn opener(&self, provider: &dyn Provider, keys: &Keys, id: &SessionId) -> Result<FrameOpener, Error> {
        let (stamp, nonce) = self.stamp_and_nonce();
        let context = request_context(provider, keys.labels(), self.line, self.content_type, stamp, nonce, id);
        Ok(FrameOpener::new(keys.request(provider, nonce, stamp)?, context, self.is_in_header))
    }
}

/// A request whose first frame has not arrived yet.
#[derive(Debug)]
pub struct Opening {
    claim: Claim,
    reply: Reply,
}

/// A request whose first frame was opened.
pub struct OpenedRequest {
    /// The headers within the seal.
    pub headers: InnerHeaders,
    /// The first frame, and the offset at which the body begins in it.
    pub first: (Vec<u8>, usize),
    /// The context that seals the answer.
    pub reply: Reply,
}

impl Opening {
    /// Returns the identity of the request among all: its claim, with the stamp, its session and its nonce.
    pub(crate) fn identity(&self) -> (&Claim, &SessionId, &str) {
        (&self.claim, self.reply.session.id(), &self.reply.nonce)
    }

    /// Accepts the first frame, which the opener that came with this has opened. It stays inaccessible until its nonce is
    /// reserved.
    ///
    /// # Errors
    /// [`Error::InnerHeadersInvalid`].
    pub fn first(self, frame: Vec<u8>) -> Result<NonceGuard<OpenedRequest>, Error> {
        let (headers, len) = InnerHeaders::parse(&frame)?;
        let Opening { claim, reply } = self;
        Ok(NonceGuard::new(OpenedRequest { headers, first: (frame, len), reply }, claim))
    }
}

/// The context of a request that sealing its answer needs.
#[derive(Clone)]
pub struct Reply {
    session: Arc<Session>,
    method: String,
    target: String,
    nonce: String,
}

impl Reply {
    /// Returns the session of the request.
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Begins an answer: returns its headers, and the writer of its stream, which begins with inner headers. `content_type` is
    /// that of the outer message, empty without a body; `nonce` is random.
    ///
    /// # Errors
    /// [`Error::Provider`].
    // SPEC session-3.md#sealed-answers
    pub fn seal(
        &self,
        provider: &dyn Provider,
        status: u16,
        content_type: &str,
        now_ms: u64,
        nonce: &[u8; 16],
    ) -> Result<(SealHeaders, FrameSealer), Error> {
        self.seal_as(provider, status, content_type, now_ms, (ANSWER_PREFIX, nonce))
    }

    /// Begins an answer, as [`Reply::seal`], whose nonce has a prefix that states its author.
    pub(crate) fn seal_as(
        &self,
        provider: &dyn Provider,
        status: u16,
        content_type: &str,
        now_ms: u64,
        (prefix, nonce): (&str, &[u8; 16]),
    ) -> Result<(SealHeaders, FrameSealer), Error> {
        let mut text = String::with_capacity(prefix.len() + 32);
        text.push_str(prefix);
        push_hex(&mut text, nonce);
        let stamp = now_ms.to_string();
        let id = self.session.id();
        let line = RequestLine { method: &self.method, target: &self.target };
        let keys = self.session.native_keys()?;
        let labels = keys.labels();
        let context = answer_context(provider, labels, status, line, content_type, &stamp, &text, id);
        let sealer = FrameSealer::new(keys.answer(provider, &self.nonce, &text)?, context);
        let key = [stamp.as_str(), &text].join(".");
        Ok((alloc::vec![(X_SEAL, labels.seal.into()), (X_KID, labels.kid(id)), (X_IDEMPOTENCY_KEY, key)], sealer))
    }
}

/// The state that a client keeps of a request to open its answer.
pub struct PendingAnswer<'a> {
    keys: PendingKeys<'a>,
    id: SessionId,
    method: String,
    target: String,
    stamp: String,
    nonce: String,
}

enum PendingKeys<'a> {
    OfSession(&'a Keys),
    /// Keys of one request on wire 4.
    #[cfg(feature = "one-shot")]
    Own(Keys),
}

impl PendingKeys<'_> {
    fn get(&self) -> &Keys {
        match self {
            PendingKeys::OfSession(keys) => keys,
            #[cfg(feature = "one-shot")]
            PendingKeys::Own(keys) => keys,
        }
    }
}

impl<'a> PendingAnswer<'a> {
    pub(super) fn new(session: &'a ClientSession, line: RequestLine<'_>, stamp: &str, nonce: &str) -> Self {
        PendingAnswer::under(PendingKeys::OfSession(session.keys()), *session.id(), line, stamp, nonce)
    }

    #[cfg(feature = "one-shot")]
    pub(crate) fn one_shot(
        keys: Keys,
        id: SessionId,
        line: RequestLine<'_>,
        stamp: &str,
        nonce: &str,
    ) -> PendingAnswer<'static> {
        PendingAnswer::under(PendingKeys::Own(keys), id, line, stamp, nonce)
    }

    fn under(keys: PendingKeys<'a>, id: SessionId, line: RequestLine<'_>, stamp: &str, nonce: &str) -> Self {
        let (method, target) = (line.method.to_owned(), line.target.to_owned());
        PendingAnswer { keys, id, method, target, stamp: stamp.to_owned(), nonce: nonce.to_owned() }
    }

    /// Returns stamp and nonce of the request, which the proofs in problems contain.
    pub fn stamp_and_nonce(&self) -> (&str, &str) {
        (&self.stamp, &self.nonce)
    }

    /// Begins to open an answer: returns the stream, if it came in `X-Sealed`, and its opener.
    ///
    /// # Errors
    /// [`Error::Unsealed`] without `X-Seal`, [`Error::AnswerMismatch`], errors of headers.
    // SPEC session-3.md#sealed-answers
    pub fn open(
        &self,
        provider: &dyn Provider,
        headers: &impl Headers,
        status: u16,
    ) -> Result<(Option<Vec<u8>>, FrameOpener), Error> {
        let line = RequestLine { method: &self.method, target: &self.target };
        answer_opener(provider, self.keys.get(), &self.id, (line, &self.nonce), headers, status)
    }
}

/// Begins to open the answer to the request with this line and nonce.
pub(super) fn answer_opener(
    provider: &dyn Provider,
    keys: &Keys,
    id: &SessionId,
    (line, request_nonce): (RequestLine<'_>, &str),
    headers: &impl Headers,
    status: u16,
) -> Result<(Option<Vec<u8>>, FrameOpener), Error> {
    if headers.field(X_SEAL) == Field::Absent {
        return Err(Error::Unsealed);
    }
    let labels = keys.labels();
    if seal_of(headers)?.wire != labels.wire {
        return Err(Error::HeaderInvalid(X_SEAL));
    }
    let kid = headers.field(X_KID).required(X_KID)?;
    if labels.parse_kid(kid)? != Ok(*id) {
        return Err(Error::AnswerMismatch);
    }
    let (stamp, nonce) = idempotency::split(headers.field(X_IDEMPOTENCY_KEY).required(X_IDEMPOTENCY_KEY)?)?;
    match labels.wire {
        Wire::OneShot => check_one_shot_answer(nonce, NONCE_LEN_MIN_V3)?,
        _ => check_answer(nonce, NONCE_LEN_MIN_V3)?,
    }
    Timestamp::parse(stamp)?;
    let content_type = optional(headers, "content-type")?.unwrap_or_default();
    let context = answer_context(provider, labels, status, line, content_type, stamp, nonce, id);
    let keys = keys.answer(provider, request_nonce, nonce)?;
    let sealed = sealed_header(headers)?;
    let opener = FrameOpener::new(keys, context, sealed.is_some());
    Ok((sealed, opener))
}

impl fmt::Debug for OpenedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (frame, from) = &self.first;
        write!(f, "OpenedRequest({} bytes of a first frame, {from} of them headers, {:?})", frame.len(), self.reply)
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").field("session", self.session.id()).finish_non_exhaustive()
    }
}

impl fmt::Debug for PendingAnswer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingAnswer").field("session", &self.id).finish_non_exhaustive()
    }
}

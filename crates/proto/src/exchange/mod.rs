//! The server's side of a sealed request, without I/O: the caller passes in bytes, and this module returns decisions. Each
//! protocol is a variant of the types here. The code that calls it and the service behind the gateway are the same for all
//! protocols.
//!
//! ```text
//! headers ─ Exchange::begin ─► session ─ Exchange::session ─► (Opening, Stream)
//!                 body ─ Stream::read, Stream::end ─► Piece, the first of them ─ Opening::open ─► Unreplayed<PlainRequest>
//!                                         the store's Fresh ─ Unreplayed::release ─► PlainRequest { head, first, reply }
//!                                                  the rest of the body ─ Stream ─► Pieces of plaintext
//!       the service's answer ─ Reply::answer ─► AnswerSeal::{Whole, Frames, Plain}
//! ```
//!
//! A rejected request is a [`Rejection`] at every step, and [`Rejection::answer`] is all that the client receives.

#[cfg(feature = "one-shot")]
mod one_shot;
mod refusal;
mod rejection;
mod reply;
mod stream;
#[cfg(all(test, feature = "aws-lc"))]
mod tests;

use alloc::sync::Arc;

use serde_json::Value;

use crate::crypto::Provider;
use crate::error::Error;
use crate::limits::{ANON_BODY_MAX, WINDOW3_MS_MAX};
#[cfg(feature = "one-shot")]
use crate::one_shot::RecipientKey;
use crate::session::native::problem::prove_clock;
use crate::session::native::{self, Fields, InnerHeaders, RequestLine, SealedRequest};
use crate::session::{Claim, Laps, NonceGuard, Plaintext, SealedCall, Session, Step};
use crate::wire::header::{X_IDEMPOTENCY_KEY, X_KID, X_SEAL};
use crate::wire::{Field, Headers, ReplayPolicy, SessionId, Wire, base64};
#[cfg(feature = "one-shot")]
pub use one_shot::{HpkeOpening, ProblemSeal, SealedProblem};
pub use refusal::{BodyFault, Refusal};
#[cfg(feature = "one-shot")]
pub use rejection::SEALED_PROBLEMS;
pub use rejection::{ErrorAnswer, Form, Rejection};
pub use reply::{AnswerSeal, FrameSeal, Reply, WholeSeal};
pub use stream::{Piece, Stream};

/// Bounds on the sealed body of a request, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyBounds {
    /// For protocols that open a body as a whole.
    pub whole: usize,
    /// For protocols that open a body frame by frame.
    pub stream: u64,
}

/// A sealed request whose headers are valid. The caller looks up its session next.
#[derive(Debug)]
pub struct Exchange<'a> {
    call: Call<'a>,
    now_ms: u64,
    policy: ReplayPolicy,
}

#[derive(Debug)]
enum Call<'a> {
    Compat(SealedCall<'a>),
    Native(SealedRequest<'a>),
}

/// Returns true if the headers contain a seal header of any protocol.
pub fn looks_sealed(headers: &impl Headers) -> bool {
    [X_KID, X_IDEMPOTENCY_KEY, X_SEAL].iter().any(|name| headers.field(name) != Field::Absent)
}

/// Returns the protocol that the headers of a request name.
pub fn wire_of(headers: &impl Headers) -> Wire {
    match headers.field(X_SEAL) {
        Field::Absent => Wire::of(headers),
        #[cfg(feature = "one-shot")]
        Field::Value("4") => Wire::OneShot,
        _ => Wire::Native,
    }
}

impl<'a> Exchange<'a> {
    /// Parses the headers of a sealed request received at `now_ms`. `served` decides whether this server accepts the protocol.
    ///
    /// # Errors
    /// One of the wire's, [`Refusal::Method`], and what `served` says.
    // SPEC session.md#open session-3.md#sealed-requests
    pub fn begin(
        headers: &'a impl Headers,
        line: RequestLine<'a>,
        now_ms: u64,
        policy: &ReplayPolicy,
        served: impl FnOnce(Wire) -> Result<(), Refusal>,
    ) -> Result<Self, Refusal> {
        let wire = wire_of(headers);
        served(wire)?;
        let is_framed = Form::of(wire) == Form::Problem;
        if !is_framed && line.method != "POST" {
            return Err(Refusal::Method("POST, OPTIONS"));
        }
        let call = if is_framed {
            Call::Native(SealedRequest::parse(headers, line)?)
        } else {
            // The path of an absolute-form target without one is `/` (RFC 9110 section 4.2.3).
            let path = line.target.split('?').next().filter(|path| !path.is_empty()).unwrap_or("/");
            Call::Compat(SealedCall::parse(headers, path, now_ms, policy)?)
        };
        Ok(Exchange { call, now_ms, policy: *policy })
    }

    /// Returns the id of the session that the caller has to look up.
    ///
    /// # Errors
    /// [`Error::SessionUnknown`] for a malformed id: no store need be asked.
    pub fn session_id(&self) -> Result<&SessionId, Error> {
        match &self.call {
            Call::Compat(call) => call.session_id(),
            Call::Native(request) => request.session_id(),
        }
    }

    /// Returns the name of the key that a request on wire 4 is sealed to, which the caller has to look up; `None` on the wires of
    /// sessions.
    #[cfg(feature = "one-shot")]
    pub fn key_name(&self) -> Option<&str> {
        match &self.call {
            Call::Native(request) => request.key_name(),
            Call::Compat(_) => None,
        }
    }

    /// Takes the key that a request on wire 4 is sealed to, and returns the state that opens its body.
    ///
    /// # Errors
    /// [`Error::KeyRetired`] for a key of another name, [`Error::WireMismatch`] on the wires of sessions.
    #[cfg(feature = "one-shot")]
    pub fn key(self, key: Arc<dyn RecipientKey>) -> Result<(HpkeOpening<'a>, Stream), Error> {
        match self.call {
            Call::Native(request) => HpkeOpening::begin(request, key, self.policy),
            Call::Compat(_) => Err(Error::WireMismatch),
        }
    }

    /// Checks that the request may use the session, and returns the state that opens its body.
    ///
    /// # Errors
    /// [`Rejection`], with the proof of the server's time where the request's is too far from it.
    pub fn session(self, provider: &dyn Provider, session: Arc<Session>) -> Result<(Opening<'a>, Stream), Rejection> {
        let (kind, stream) = match self.call {
            Call::Compat(call) => {
                call.check(&session)?;
                (OpeningKind::Compat(call), Stream::whole())
            }
            Call::Native(mut request) => {
                let sealed = request.take_sealed();
                let opened = request.open(provider, session.clone(), self.now_ms, &self.policy);
                let (opener, opening) = opened.map_err(|err| match err {
                    Error::TimestampOutsideWindow => skewed(provider, &session, &request, self.now_ms),
                    err => err.into(),
                })?;
                (OpeningKind::Native(opening), Stream::frames(opener, sealed))
            }
        };
        Ok((Opening { session, kind }, stream))
    }
}

/// Returns the rejection of a stamp outside the window, with the server's time and its MAC under the session's keys.
fn skewed(provider: &dyn Provider, session: &Session, request: &SealedRequest<'_>, now_ms: u64) -> Rejection {
    let rejection = Rejection::from(Error::TimestampOutsideWindow).with("server_time_ms", now_ms);
    let (stamp, nonce) = request.stamp_and_nonce();
    match prove_clock(provider, session, stamp, nonce, now_ms) {
        Ok(mac) => rejection.with("mac", Value::from(base64::encode(&mac))),
        Err(_) => rejection,
    }
}

/// Returns the rejection of a request that was not admitted at `now_ms`, in a session that the store has. If the stamp has left
/// the window since the headers were parsed, the rejection holds the proof of the server's time.
// SPEC session-3.md#sealed-requests
pub fn unadmitted(
    provider: &dyn Provider,
    session: &Session,
    headers: &impl Headers,
    line: RequestLine<'_>,
    now_ms: u64,
    refusal: Refusal,
) -> Rejection {
    if refusal == Refusal::Wire(Error::TimestampOutsideWindow)
        && wire_of(headers) == Wire::Native
        && let Ok(request) = SealedRequest::parse(headers, line)
    {
        return skewed(provider, session, &request, now_ms);
    }
    refusal.into()
}

/// A request whose session is known. Its body is read next.
#[derive(Debug)]
pub struct Opening<'a> {
    session: Arc<Session>,
    kind: OpeningKind<'a>,
}

#[derive(Debug)]
enum OpeningKind<'a> {
    Compat(SealedCall<'a>),
    Native(native::Opening),
}

impl Opening<'_> {
    /// Returns the session that the request uses.
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Returns true if [`Opening::open`] opens the whole body. If false, [`Stream`] opens the body piece by piece.
    pub fn is_whole(&self) -> bool {
        matches!(self.kind, OpeningKind::Compat(_))
    }

    /// Returns the longest sealed body that may follow, in bytes.
    pub fn body_max(&self, bounds: BodyBounds) -> u64 {
        match self.kind {
            OpeningKind::Compat(_) if self.session.id().is_anonymous() => bounds.whole.min(ANON_BODY_MAX) as u64,
            OpeningKind::Compat(_) => bounds.whole as u64,
            OpeningKind::Native(_) => bounds.stream,
        }
    }

    /// Returns a SHA-256 hash of the claim, session, nonce, stamp and body that identifies the request. `None` if `first` is not
    /// the whole body, or if the protocol is v1 or v2.
    pub fn fingerprint(&self, provider: &dyn Provider, first: &Piece) -> Option<[u8; 32]> {
        let OpeningKind::Native(opening) = &self.kind else { return None };
        let (claim, session, nonce) = opening.identity();
        // On wire 4 all clients of a key share the session's id: the claim tells their requests apart.
        let fields = Fields::new().field(claim.key().0).field(session.as_str()).field(nonce).number(claim.stamp_ms());
        first.is_last.then(|| provider.sha256(&[fields.as_bytes(), &first.bytes]))
    }

    /// Opens the request with the first piece of its stream. The result gives out the plaintext after its nonce is reserved.
    ///
    /// # Errors
    /// One of the wire's.
    pub fn open(
        self,
        provider: &dyn Provider,
        first: Piece,
        laps: Laps<'_>,
    ) -> Result<NonceGuard<PlainRequest>, Error> {
        match self.kind {
            OpeningKind::Compat(call) => {
                let opened = call.open(provider, self.session, first.bytes, laps)?;
                Ok(opened.map(|opened| PlainRequest {
                    inner: None,
                    first: opened.plaintext,
                    reply: Reply::Compat(opened.reply),
                }))
            }
            OpeningKind::Native(opening) => {
                laps(Step::Decrypt);
                let opened = opening.first(first.bytes)?;
                Ok(opened.map(|opened| {
                    let (frame, at) = opened.first;
                    let end = frame.len();
                    PlainRequest {
                        inner: Some(opened.headers),
                        first: Plaintext::new(frame, at..end),
                        reply: Reply::Native(opened.reply),
                    }
                }))
            }
        }
    }
}

/// An opened request whose nonce was not used before.
#[derive(Debug)]
pub struct PlainRequest {
    /// The headers within the seal. `None` if the protocol does not seal headers: then the outer headers apply.
    pub inner: Option<InnerHeaders>,
    /// The beginning of the body; the whole body if the first piece was the last one.
    pub first: Plaintext,
    /// The state that seals the answer.
    pub reply: Reply,
}

/// Checks the session and the stamp again when a request is admitted, and creates its claim anew. The client decides how long the
/// body takes; meanwhile the session may end and the store may forget the first claim. `found` is the session that the store has
/// now.
///
/// # Errors
/// [`Error::SessionUnknown`], [`Error::SessionExpired`], [`Error::TimestampOutsideWindow`].
// SPEC session-3.md#sealed-requests
pub fn readmit(found: Option<&Session>, claim: &Claim, now_ms: u64, policy: &ReplayPolicy) -> Result<Claim, Error> {
    let found = found.ok_or(Error::SessionUnknown)?;
    if found.is_expired(now_ms) {
        return Err(found.ended());
    }
    let is_framed = Form::of(found.record().wire) == Form::Problem;
    let window = if is_framed { policy.within(WINDOW3_MS_MAX) } else { *policy };
    window.check_ms(claim.stamp_ms(), now_ms)?;
    Claim::passed_on(claim.key(), claim.is_sealed(), claim.stamp_ms(), now_ms, policy)
}

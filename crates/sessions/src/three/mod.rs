//! Wire 3 at the authority: agreements, renewals and ends of sessions, and what the gateway asks of a sealed request.
//! `spec/session-3.md`.
//!
//! It may not know: where a sealed request goes, nor how its body streams there.

mod init;
mod manage;
mod problem;

use std::sync::Arc;

use http::HeaderMap;
use sealway_proto::Error;
use sealway_proto::limits::WINDOW3_MS_MAX;
use sealway_proto::session::three::{
    Fields, FrameOpener, FrameSealer, OpenedRequest, Opening, Reply, RequestLine, SealHeaders, SealedRequest, Suite,
};
use sealway_proto::session::{Session, Unreplayed};
use sealway_proto::wire::Wire;
use sealway_proto::wire::header::{X_IDEMPOTENCY_KEY, X_KID};
use sealway_runtime::timing::ServerTiming;

use crate::answer::Refusal;
use crate::authority::{Authority, HttpHeaders};
use crate::random;
use crate::share::Holder;

pub(crate) use init::handle as handle_init;
pub(crate) use manage::{handle as handle_managed, is_managed};
pub use problem::{problem_response, refusal_response};

/// What the authority grants on wire 3.
#[derive(Clone, Debug)]
pub struct Wire3Policy {
    /// Suites, in any order: the client's preference counts.
    pub suites: Vec<Suite>,
    /// How long a chain of renewals may last, in seconds.
    pub renew_max_sec: u32,
    /// Inits a minute and address; 0 is no limit.
    pub inits_per_minute: u32,
}

impl Default for Wire3Policy {
    fn default() -> Self {
        Wire3Policy { suites: Suite::ALL.to_vec(), renew_max_sec: 86_400, inits_per_minute: 0 }
    }
}

/// A sealed request whose session is known and may be used for it.
#[derive(Debug)]
pub struct Begun {
    sealed: Option<Vec<u8>>,
    opener: FrameOpener,
    opening: Opening,
    session: Arc<Session>,
}

impl Begun {
    /// The session.
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Its parts: the stream where it came in a header (then there is no body), what opens it, and what
    /// [`Authority::admit3`] takes.
    pub fn into_parts(self) -> (Option<Vec<u8>>, FrameOpener, Opening) {
        (self.sealed, self.opener, self.opening)
    }
}

/// A refusal, and what of the request its proof names.
#[derive(Debug)]
pub struct Refused {
    /// Why.
    pub refusal: Refusal,
    /// Proofs and other members of the problem.
    more: Vec<(&'static str, serde_json::Value)>,
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Refused { refusal, more: Vec::new() }
    }
}

impl From<Error> for Refused {
    fn from(err: Error) -> Self {
        Refusal::from(err).into()
    }
}

impl Authority {
    /// Begins a sealed request: headers, then the session, then what that may do.
    ///
    /// # Errors
    /// [`Refused`], with the proofs that a client needs to act on it.
    // SPEC session-3.md#sealed-requests
    pub async fn begin3(
        &self,
        headers: &HeaderMap,
        line: RequestLine<'_>,
        timing: &mut ServerTiming,
    ) -> Result<Begun, Refused> {
        let begun = self.begin_any(headers, line, timing).await?;
        let policy = self.policies().of(begun.session.record());
        if !policy.allows_wire(Wire::Three) || !policy.allows_path(path_of(line.target)) {
            return Err(Error::Policy.into());
        }
        Ok(begun)
    }

    /// The same, wherever it goes: a session's own paths are no route.
    async fn begin_any(
        &self,
        headers: &HeaderMap,
        line: RequestLine<'_>,
        timing: &mut ServerTiming,
    ) -> Result<Begun, Refused> {
        self.check_wire(Wire::Three)?;
        let headers = HttpHeaders(headers);
        let mut request = SealedRequest::parse(&headers, line)?;
        let now_ms = self.now_ms();
        let session = self.known(&request).await?;
        timing.lap("session-get");
        let sealed = request.take_sealed();
        let (opener, opening) =
            request.open(self.provider(), session.clone(), now_ms, &self.policy.replay).map_err(|err| match err {
                Error::TimestampOutsideWindow => self.skewed(&session, &request, now_ms),
                err => err.into(),
            })?;
        timing.lap("replay-protection");
        Ok(Begun { sealed, opener, opening, session })
    }

    /// The session of a request, which is not over.
    async fn known(&self, request: &SealedRequest<'_>) -> Result<Arc<Session>, Refusal> {
        let session = self.find(request.session_id()?).await?.ok_or(Error::SessionUnknown)?;
        if session.is_expired(self.now_ms()) { Err(Error::SessionExpired.into()) } else { Ok(session) }
    }

    /// Takes the first frame of a request, which the opener of [`Begun::into_parts`] has opened, and reserves its nonce.
    ///
    /// # Errors
    /// [`Refusal`].
    pub async fn admit3(
        &self,
        opening: Opening,
        first: Vec<u8>,
        timing: &mut ServerTiming,
    ) -> Result<OpenedRequest, Refusal> {
        timing.lap("aes-gcm-decrypt");
        let session = opening.session().clone();
        let opened: Unreplayed<OpenedRequest> = opening.first(first)?;
        self.check_again(&session).await?;
        let window = self.policy.replay.within(WINDOW3_MS_MAX);
        window.check_ms(opened.claim().stamp_ms(), self.now_ms())?;
        let fresh = self.reserve_for(Holder::Session(*session.id()), opened.claim()).await?;
        let opened = opened.release(fresh)?;
        timing.lap("replay-protection");
        self.note_call(Wire::Three);
        Ok(opened)
    }

    /// What tells a request that was opened from every other: two that are alike were the same bytes.
    pub fn fingerprint3(&self, headers: &HeaderMap, plaintext: &[u8]) -> [u8; 32] {
        let value = |name: &str| headers.get(name).map_or(&[][..], |value| value.as_bytes());
        let fields = Fields::new().field(value(X_KID)).field(value(X_IDEMPOTENCY_KEY));
        self.provider().sha256(&[fields.as_bytes(), plaintext])
    }

    /// Begins an answer. `content_type` is that of the outer message, empty without a body.
    ///
    /// # Errors
    /// [`Refusal`] when the crypto module fails.
    pub fn seal3(&self, reply: &Reply, status: u16, content_type: &str) -> Result<(SealHeaders, FrameSealer), Refusal> {
        let nonce = random::with_pool(|pool| pool.take(self.provider()))?;
        Ok(reply.seal(self.provider(), status, content_type, self.now_ms(), &nonce)?)
    }
}

/// The path of a target, without its query.
fn path_of(target: &str) -> &str {
    target.split('?').next().unwrap_or_default()
}

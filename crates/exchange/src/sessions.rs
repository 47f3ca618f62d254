//! Interface to sessions, claims and the clock.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::one_shot::{self, OneShotKeys};
use sealway_proto::Error;
use sealway_proto::crypto::agreement::AgreementProvider;
use sealway_proto::exchange::{Refusal, readmit};
use sealway_proto::session::{Claim, Fresh, SealRandoms, Session};
use sealway_proto::wire::{ReplayPolicy, SessionId, Wire};

/// Interval of checks of the session of a request in progress. A remote authority's answers may be 500 ms old: together
/// they stay below a second.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// Sessions and claims, with the clock and the replay policy for them.
pub trait Sessions: Send + Sync + 'static {
    /// Returns the provider of cryptography.
    fn provider(&self) -> &'static dyn AgreementProvider;

    /// Returns the time, in milliseconds since the epoch.
    fn now_ms(&self) -> u64;

    /// Returns the window of stamps and the lifetime of nonces.
    fn replay(&self) -> &ReplayPolicy;

    /// Checks that a wire is enabled.
    ///
    /// # Errors
    /// [`Refusal::WireOff`].
    fn check_wire(&self, wire: Wire) -> Result<(), Refusal>;

    /// Counts a request on wire 4 against the limit of its client's network, before any of it is opened.
    ///
    /// # Errors
    /// [`Refusal::RateLimited`].
    // SPEC one-shot.md#steps-of-the-server
    fn count_opening(&self) -> Result<(), Refusal> {
        Ok(())
    }

    /// Finds a session; an expired one may still be found. The implementation has its own deadline.
    ///
    /// # Errors
    /// Errors of the store.
    fn find(&self, id: &SessionId) -> impl Future<Output = Result<Option<Arc<Session>>, Refusal>> + Send;

    /// Reserves a claim of a session. Of any number of equal claims exactly one succeeds. The implementation has its
    /// own deadline.
    ///
    /// # Errors
    /// [`Error::Replayed`], and errors of the store.
    fn reserve(&self, session: &Session, claim: &Claim) -> impl Future<Output = Result<Fresh, Refusal>> + Send;

    /// Returns the keys of wire 4; `None` on a server without any.
    fn one_shot(&self) -> Option<&dyn OneShotKeys> {
        None
    }

    /// Draws the random inputs of one answer.
    ///
    /// # Errors
    /// [`Error::Provider`].
    fn randoms(&self) -> Result<SealRandoms, Error> {
        SealRandoms::draw(self.provider())
    }

    /// Logs and counts a rejection. `what` is `call` or `seal`.
    fn report(&self, refusal: &Refusal, what: &'static str);

    /// Counts a request that was admitted.
    fn admitted(&self, wire: Wire) {
        let _ = wire;
    }
}

/// Reserves the nonce of an opened request, after another check of its session and stamp.
pub(crate) async fn admit(sessions: &impl Sessions, session: &Session, claim: &Claim) -> Result<Fresh, Refusal> {
    let found = sessions.find(session.id()).await?;
    let claim = readmit(found.as_deref(), claim, sessions.now_ms(), sessions.replay())?;
    sessions.reserve(session, &claim).await
}

/// Returns when a session is over: expired, or revoked by any process; on wire 4, when its key or its pre-shared key is. An
/// unavailable store does not end it. The result is the error of its requests.
// SPEC session-3.md#renew-and-end one-shot.md#steps-of-the-server
pub async fn over(sessions: &impl Sessions, session: &Session) -> Error {
    loop {
        let left = Duration::from_millis(session.record().expires_ms.saturating_sub(sessions.now_ms()));
        tokio::time::sleep(left.clamp(Duration::from_millis(1), LOOK_INTERVAL)).await;
        if session.key_name().is_some() {
            if let Err(err) = one_shot::check(sessions, session) {
                return err;
            }
        } else if matches!(sessions.find(session.id()).await, Ok(None)) {
            return session.ended();
        }
        if session.is_expired(sessions.now_ms()) {
            return session.ended();
        }
    }
}

/// Returns the outcome of work, or the error of a session that ended first: then the work is dropped.
pub(crate) async fn unless_over<T>(
    sessions: &impl Sessions,
    session: &Session,
    work: impl Future<Output = T>,
) -> Result<T, Error> {
    let (mut over, mut work) = (pin!(over(sessions, session)), pin!(work));
    poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(outcome) => Poll::Ready(Ok(outcome)),
        Poll::Pending => over.as_mut().poll(cx).map(Err),
    })
    .await
}

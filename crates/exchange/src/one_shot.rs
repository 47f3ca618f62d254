//! Interface to the keys of wire 4, and the admission of its requests.
// SPEC one-shot.md#steps-of-the-server

use std::sync::Arc;

use sealway_proto::Error;
use sealway_proto::exchange::{Refusal, Rejection, readmit};
use sealway_proto::hpke::Kem;
use sealway_proto::limits::KEY_LEN;
use sealway_proto::one_shot::RecipientKey;
use sealway_proto::session::{Claim, Fresh, Session};
use sealway_proto::wire::header::X_SEAL;
use sealway_proto::wire::{Field, Headers, Wire};
use zeroize::Zeroizing;

use crate::Rules;
use crate::sessions::Sessions;

/// Keys of wire 4 and pre-shared keys of its clients.
pub trait OneShotKeys: Send + Sync {
    /// Returns the key of a name, if it is accepted now.
    fn key(&self, name: &str, now_ms: u64) -> Option<Arc<dyn RecipientKey>>;

    /// Returns the pre-shared key of a name. For an unknown or revoked name it is one that no client has, at the same cost.
    ///
    /// # Errors
    /// [`Error::Provider`].
    fn psk(&self, id: &str) -> Result<Zeroizing<[u8; KEY_LEN]>, Error>;

    /// Returns whether requests under the pre-shared key of this name are accepted now. `key` opened one: it must be the name's key still.
    fn is_psk_accepted(&self, id: &str, key: &[u8; KEY_LEN]) -> bool;

    /// Returns the key document as JSON, for clients whose key is not accepted.
    fn document(&self, now_ms: u64) -> Option<serde_json::Value>;
}

/// Settings of a route for requests on wire 4.
#[derive(Clone, Copy)]
pub struct OneShotRules<'a> {
    /// KEMs that the route accepts.
    pub kems: &'a [Kem],
    /// True if the route accepts requests in mode psk alone.
    pub needs_psk: bool,
}

/// Returns the refusal of a request on another wire, at a route that serves wire 4 alone. An `X-Seal` that names no wire counts as a
/// damaged one of wire 4.
pub(crate) fn served_alone(headers: &impl Headers, wire: Wire) -> Refusal {
    match headers.field(X_SEAL) {
        Field::Absent | Field::Value("3") => Refusal::WireOff(wire),
        _ => Error::HeaderInvalid(X_SEAL).into(),
    }
}

/// Returns the key of a name, if a route accepts it now.
pub(crate) fn key(sessions: &impl Sessions, rules: &Rules<'_>, name: &str) -> Result<Arc<dyn RecipientKey>, Refusal> {
    let key = sessions.one_shot().and_then(|keys| keys.key(name, sessions.now_ms()));
    let is_served = |key: &Arc<dyn RecipientKey>| {
        let kem = key.private().public_key().kem();
        rules.one_shot.is_some_and(|rules| rules.kems.contains(&kem))
    };
    key.filter(is_served).ok_or_else(|| Error::KeyRetired.into())
}

/// Checks that the key of a request, and its pre-shared key, are accepted now.
pub(crate) fn check(sessions: &impl Sessions, session: &Session) -> Result<(), Error> {
    let keys = sessions.one_shot().ok_or(Error::KeyRetired)?;
    let name = session.key_name().unwrap_or_default();
    if keys.key(name, sessions.now_ms()).is_none() {
        return Err(Error::KeyRetired);
    }
    let record = session.record();
    match record.subject.as_deref() {
        Some(id) if !keys.is_psk_accepted(id, record.key.expose()) => Err(Error::Unsealable),
        _ => Ok(()),
    }
}

/// Reserves the claim of a request whose first frame has opened, after the checks that come behind it.
///
/// # Errors
/// A rejection, which goes under the seal if [`Rejection::is_sealed`].
pub(crate) async fn admit(
    sessions: &impl Sessions,
    rules: &Rules<'_>,
    session: &Session,
    claim: &Claim,
) -> Result<Fresh, Rejection> {
    check(sessions, session)?;
    let now_ms = sessions.now_ms();
    let claim = readmit(Some(session), claim, now_ms, sessions.replay()).map_err(|err| skewed(err, now_ms))?;
    if rules.one_shot.is_none_or(|rules| rules.needs_psk && session.record().subject.is_none()) {
        return Err(Error::Policy.into());
    }
    (rules.allows)(session)?;
    let reserved = sessions.reserve(session, &claim).await;
    // The store reads the clock again.
    reserved.map_err(|refusal| match refusal {
        Refusal::Wire(err) => skewed(err, sessions.now_ms()),
        refusal => refusal.into(),
    })
}

fn skewed(err: Error, now_ms: u64) -> Rejection {
    let rejection = Rejection::from(err);
    if err == Error::TimestampOutsideWindow { rejection.with("server_time_ms", now_ms) } else { rejection }
}

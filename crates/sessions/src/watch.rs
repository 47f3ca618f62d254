//! A session that a request began with may end while the body comes, or while streams are in flight: it is looked at again.

use std::time::Duration;

use sealway_proto::Error;
use sealway_proto::session::Session;

use crate::answer::Refusal;
use crate::authority::Authority;

/// Time between two looks at the session of a stream in flight. A remote authority's answers may be 500 ms old: together they
/// stay below a second.
pub const LOOK_INTERVAL: Duration = Duration::from_millis(250);

impl Authority {
    /// That a session is still good, as the first frame or the whole of a body is there: it may have been revoked meanwhile.
    ///
    /// # Errors
    /// [`Error::SessionUnknown`], [`Error::SessionExpired`], and those of the store.
    pub(crate) async fn check_again(&self, session: &Session) -> Result<(), Refusal> {
        let found = self.find(session.id()).await?.ok_or(Error::SessionUnknown)?;
        if found.is_expired(self.now_ms()) { Err(Error::SessionExpired.into()) } else { Ok(()) }
    }

    /// Returns when a session is over: expired, or revoked by whichever process. A store that cannot be asked says neither.
    // SPEC session-3.md#renew-and-end
    pub async fn over(&self, session: &Session) {
        loop {
            let left = Duration::from_millis(session.record().expires_ms.saturating_sub(self.now_ms()));
            tokio::time::sleep(left.min(LOOK_INTERVAL)).await;
            if session.is_expired(self.now_ms()) || matches!(self.find(session.id()).await, Ok(None)) {
                return;
            }
        }
    }
}

//! Cache of sessions that are used for a moment without asking again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sealway_proto::session::Session;
use sealway_proto::wire::SessionId;

/// Time for which a session is used without asking again, from the start of the request for it.
const FRESH: Duration = Duration::from_millis(500);
/// Maximum number of cached sessions.
const SESSIONS_MAX: usize = 10_000;

/// Cached sessions, each with the time of its request.
#[derive(Default)]
pub(super) struct SessionCache(Mutex<HashMap<SessionId, (Arc<Session>, Instant)>>);

impl SessionCache {
    /// Returns a session that was requested a moment ago.
    pub(super) fn at_hand(&self, id: &SessionId) -> Option<Arc<Session>> {
        let held = self.0.lock();
        held.get(id).filter(|(_, since)| since.elapsed() < FRESH).map(|(session, _)| session.clone())
    }

    /// Caches a session that was requested at `since`.
    pub(super) fn hold(&self, session: &Arc<Session>, since: Instant) {
        let mut held = self.0.lock();
        if held.len() >= SESSIONS_MAX {
            held.retain(|_, (_, since)| since.elapsed() < FRESH);
        }
        if held.len() < SESSIONS_MAX {
            held.insert(*session.id(), (session.clone(), since));
        }
    }

    /// Removes a session that no longer exists.
    pub(super) fn forget(&self, id: &SessionId) {
        self.0.lock().remove(id);
    }
}

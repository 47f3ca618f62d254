//! Sessions that are used for a moment without asking again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sealway_proto::session::Session;
use sealway_proto::wire::SessionId;

/// How long a session is used without asking again, from when it was asked for.
const FRESH: Duration = Duration::from_millis(500);
/// Sessions at hand.
const SESSIONS_MAX: usize = 10_000;

/// Sessions at hand, each with the time that it was asked for.
#[derive(Default)]
pub(super) struct Held(Mutex<HashMap<SessionId, (Arc<Session>, Instant)>>);

impl Held {
    /// A session that was asked for a moment ago.
    pub(super) fn at_hand(&self, id: &SessionId) -> Option<Arc<Session>> {
        let held = self.0.lock();
        held.get(id).filter(|(_, since)| since.elapsed() < FRESH).map(|(session, _)| session.clone())
    }

    /// Keeps a session that was asked for at `since`.
    pub(super) fn hold(&self, session: &Arc<Session>, since: Instant) {
        let mut held = self.0.lock();
        if held.len() >= SESSIONS_MAX {
            held.retain(|_, (_, since)| since.elapsed() < FRESH);
        }
        if held.len() < SESSIONS_MAX {
            held.insert(*session.id(), (session.clone(), since));
        }
    }

    /// Forgets a session that is no more.
    pub(super) fn forget(&self, id: &SessionId) {
        self.0.lock().remove(id);
    }
}

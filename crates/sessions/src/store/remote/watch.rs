//! Polling of the authority's state every half second, so that health is accurate without other requests.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use http::{Method, StatusCode};
use zeroize::Zeroizing;

use super::line::{Answer, Question};
use super::message::State;
use super::{Remote, STATE, StateReport};

/// Interval of polls of the state.
const EVERY: Duration = Duration::from_millis(500);
/// Age from which a reported state is not used any more.
pub(super) const STALE: Duration = Duration::from_secs(3);
/// Difference of clocks from which a warning is logged, in milliseconds.
const SKEW_MS: u64 = 5000;

/// Starts polling, until the store is dropped.
pub(super) fn spawn(remote: &Arc<Remote>) {
    let remote = Arc::downgrade(remote);
    tokio::spawn(look_on(remote));
}

async fn look_on(remote: Weak<Remote>) {
    loop {
        tokio::time::sleep(EVERY).await;
        let Some(remote) = remote.upgrade() else { return };
        // The authority answered at the start; a rejection now, such as after a change of the secret, is logged and
        // shown.
        let _ = remote.look().await;
    }
}

impl Remote {
    /// Polls the state of the authority once.
    ///
    /// # Errors
    /// Only if the authority rejects the request; an unavailable authority is a normal state.
    pub(super) async fn look(&self) -> Result<(), String> {
        let question = Question {
            method: Method::GET,
            route: STATE,
            name: String::new(),
            body: Zeroizing::default(),
            repeatable: true,
            urgent: true,
        };
        let mut status = None;
        let read = |answer: &Answer| {
            status = Some(answer.status);
            (answer.status == StatusCode::OK).then(|| State::decode(&answer.body).map_err(|err| err.to_string()))
        };
        match self.ask("state", question, read).await {
            Ok(state) => self.saw(state),
            Err(what) => {
                let refusals = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::NOT_FOUND];
                if status.is_some_and(|status| refusals.contains(&status)) {
                    return Err(what);
                }
            }
        }
        Ok(())
    }

    fn saw(&self, state: State) {
        let skew_ms = self.clock.now_ms().abs_diff(state.now_ms);
        let before = self.seen.lock().replace(StateReport { at: Instant::now(), state, skew_ms });
        let was_skewed = before.is_some_and(|before| before.skew_ms > SKEW_MS);
        if skew_ms > SKEW_MS && !was_skewed {
            tracing::warn!(skew_ms, "the authority's clock differs; it rejects stamps outside its own window");
        }
    }
}

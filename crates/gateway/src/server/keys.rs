//! Keys of listeners on tokens: checked each second, and reported by `/ready`, a metric and the log.

use std::sync::{Arc, Weak};
use std::time::Duration;

use sealway_runtime::tls;
use sealway_sessions::ListenerKeyFault;

use super::{Inner, Server};

/// Interval of the checks of keys.
const LOOK: Duration = Duration::from_secs(1);

impl Server {
    /// Checks the keys each second. A check of a slow token delays the next check, and nothing else.
    pub(super) fn watch_keys(&self) {
        tokio::spawn(watch_keys(Arc::downgrade(&self.0)));
    }

    /// Listeners whose key is on a token.
    fn keys(&self) -> Vec<(String, Arc<tls::Server>)> {
        self.tls_servers().into_iter().filter(|(_, tls)| tls.has_external_key()).collect()
    }

    /// Reports the state of the keys: that of the last check, or of one that is done now and blocks.
    pub(super) fn note_keys(&self, checks: bool) {
        let before = self.0.parts.authority.listener_key_faults();
        let mut faults = Vec::new();
        for (listener, tls) in self.keys() {
            let fault = if checks { tls.check_key() } else { tls.key_fault() };
            let up = metrics::gauge!("sealway_listener_key_up", "listener" => listener.clone());
            up.set(if fault.is_none() { 1.0 } else { 0.0 });
            let known = before.iter().find(|known| known.listener == listener).map(|known| known.reason);
            match &fault {
                Some(fault) if known != Some(fault.reason) => {
                    tracing::error!(listener, reason = fault.reason, why = %fault, "the key of a listener does not sign");
                }
                None if known.is_some() => tracing::info!(listener, "the key of a listener signs again"),
                _ => {}
            }
            faults.extend(fault.map(|fault| ListenerKeyFault { listener, reason: fault.reason }));
        }
        self.0.parts.authority.set_listener_key_faults(faults);
    }
}

async fn watch_keys(server: Weak<Inner>) {
    let mut tick = tokio::time::interval(LOOK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let Some(server) = server.upgrade().map(Server) else { return };
        let has_none = server.keys().is_empty() && server.0.parts.authority.listener_key_faults().is_empty();
        if has_none {
            continue;
        }
        if tokio::task::spawn_blocking(move || server.note_keys(true)).await.is_err() {
            tracing::error!("watching the keys of listeners failed: /ready no longer follows them");
            return;
        }
    }
}

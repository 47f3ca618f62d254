//! Reloads: the configuration is read and checked first, then its sockets and files are bound and read, and only then
//! anything changes.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::listeners::{self, Inventory, ListenerPlan, Running};
use super::{OperationError, Server};
use crate::config::GatewayConfig;

/// A configuration that was read again.
#[derive(Debug)]
pub struct Fresh {
    /// The configuration, checked.
    pub config: GatewayConfig,
    /// The configuration for display, without its secrets.
    pub shown: serde_json::Value,
    /// Settings that differ from those at the start and need a restart.
    pub needs_restart: Vec<String>,
    /// Warnings about the configuration, for the operator.
    pub warnings: Vec<String>,
}

/// Reads the configuration again and checks it; an error names every setting at fault.
pub type Reread = Box<dyn Fn() -> Result<Fresh, String> + Send + Sync>;

/// Result of a reload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReloadReport {
    /// Listeners that serve from now on.
    pub added: Vec<String>,
    /// Listeners whose connections end now.
    pub removed: Vec<String>,
    /// Listeners whose new connections use other settings.
    pub changed: Vec<String>,
    /// Names of the listeners that did not change.
    pub kept: Vec<String>,
    /// Settings that differ and need a restart.
    pub needs_restart: Vec<String>,
    /// Warnings about the configuration, for the operator.
    pub warnings: Vec<String>,
}

/// Results of all reloads of the configuration.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Reloads {
    /// Number of reloads that applied.
    pub ok: u64,
    /// Number of reloads that failed.
    pub failed: u64,
    /// Time of the last reload, in milliseconds since 1970.
    pub last_ms: Option<u64>,
    /// Error of the last reload, if it failed.
    pub last_error: Option<String>,
}

fn count(result: &'static str) -> metrics::Counter {
    metrics::counter!("sealway_config_reloads_total", "result" => result)
}

/// Creates the counters of reloads at 0: a scraper sees no increment of a counter that begins with it.
pub(super) fn register() {
    let _ = [count("ok"), count("failed")];
}

impl Server {
    /// Reads the configuration again and applies it, as a whole or not at all.
    ///
    /// # Errors
    /// [`OperationError::Failed`] names the setting at fault; nothing has changed.
    pub async fn reload(&self) -> Result<ReloadReport, OperationError> {
        let server = self.clone();
        // Blocking: files are read and keys unlocked.
        let done = tokio::task::spawn_blocking(move || server.reload_now()).await;
        done.unwrap_or_else(|err| Err(OperationError::Failed(format!("the reload broke off: {err}"))))
    }

    fn reload_now(&self) -> Result<ReloadReport, OperationError> {
        let _one = self.0.operation.lock();
        let done = self.try_reload();
        let result = if done.is_ok() { "ok" } else { "failed" };
        {
            let reloads = &mut self.0.state.lock().reloads;
            *(if done.is_ok() { &mut reloads.ok } else { &mut reloads.failed }) += 1;
            reloads.last_ms = Some(self.now_ms());
            reloads.last_error = done.as_ref().err().map(ToString::to_string);
        }
        count(result).increment(1);
        match &done {
            Ok(done) => {
                for warning in &done.warnings {
                    tracing::warn!("{warning}");
                }
                for setting in &done.needs_restart {
                    tracing::warn!(
                        setting,
                        "changed in the configuration: needs a restart, and is as it was until then"
                    );
                }
                tracing::info!(added = ?done.added, removed = ?done.removed, changed = ?done.changed, "configuration reloaded");
            }
            Err(err) => tracing::error!(%err, "configuration not reloaded: the current one stays in use"),
        }
        done
    }

    fn try_reload(&self) -> Result<ReloadReport, OperationError> {
        let fresh = (self.0.reread)().map_err(OperationError::Failed)?;
        let config = fresh.config;
        // No other operation runs, so the plan stays valid until it is applied; but draining may begin.
        let there = Inventory::of(&self.0.state.lock().listeners);
        let planned = listeners::plan(&config, &there, &self.0.parts.clock).map_err(OperationError::Failed)?;
        let before = self.0.service.current();
        let gateway = self.0.parts.gateway(&config, Some(&before)).map_err(OperationError::Failed)?;
        let mut state = self.0.state.lock();
        if state.is_stopping {
            return Err(OperationError::Stopping);
        }
        let mut done =
            ReloadReport { needs_restart: fresh.needs_restart, warnings: fresh.warnings, ..ReloadReport::default() };
        state.shown = Arc::new(fresh.shown);
        (state.drain, state.stop_delay) = (config.drain, config.stop_delay);
        let mut old = std::mem::take(&mut state.listeners);
        let (leaving, mut staying): (Vec<_>, Vec<_>) = old
            .drain(..)
            .partition(|running| !planned.iter().any(|planned| planned.config.name == running.config.name));
        // Routes first: a new listener must not serve by the old ones.
        self.0.service.replace(gateway);
        let gives: Vec<bool> = leaving.iter().map(|running| running.gives_to(&planned)).collect();
        for planned in planned {
            let place = staying.iter().position(|running| running.config.name == planned.config.name);
            let running = place.map(|place| staying.swap_remove(place));
            let running = self.apply(planned, running, config.drain, &mut done);
            state.listeners.push(running);
        }
        for (mut running, gives) in leaving.into_iter().zip(gives) {
            done.removed.push(running.name().to_owned());
            // Not 0: nothing is wrong with a listener that the configuration no longer has.
            running.note_down(f64::NAN);
            if gives {
                running.hand_on(config.drain);
            } else {
                let _ = running.stop(config.drain);
            }
        }
        Ok(done)
    }

    fn apply(
        &self,
        planned: ListenerPlan,
        running: Option<Running>,
        drain: Duration,
        done: &mut ReloadReport,
    ) -> Running {
        let name = planned.config.name.to_string();
        let Some(running) = running else {
            done.added.push(name);
            return planned.start(&self.0.service, &self.0.shutdown);
        };
        if planned.config.serves_as(&running.config) && planned.limits == running.limits {
            done.kept.push(name);
            return running;
        }
        done.changed.push(name);
        planned.replace(running, &self.0.service, &self.0.shutdown, drain)
    }
}

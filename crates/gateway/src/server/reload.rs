//! Reloading: the configuration is read and checked first, what it needs is bound and read next, and only then does
//! anything change.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::listeners::{self, Planned, Running, There};
use super::{Refused, Server};
use crate::config::GatewayConfig;

/// A configuration that was read again.
#[derive(Debug)]
pub struct Fresh {
    /// Checked.
    pub config: GatewayConfig,
    /// The same as it may be shown.
    pub shown: serde_json::Value,
    /// Settings that differ from those at the start and take a restart to apply.
    pub needs_restart: Vec<String>,
    /// What is to be said about it.
    pub warnings: Vec<String>,
}

/// Reads the configuration again and checks it; an error names every setting at fault.
pub type Reread = Box<dyn Fn() -> Result<Fresh, String> + Send + Sync>;

/// What a reload did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Reloaded {
    /// Listeners that serve from now on.
    pub added: Vec<String>,
    /// Listeners whose connections end now.
    pub removed: Vec<String>,
    /// Listeners whose new connections are under other settings.
    pub changed: Vec<String>,
    /// Listeners left as they were.
    pub kept: Vec<String>,
    /// Settings that differ and take a restart to apply.
    pub needs_restart: Vec<String>,
    /// What is to be said about the configuration.
    pub warnings: Vec<String>,
}

/// How reloads of the configuration went.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Reloads {
    /// Those that applied.
    pub ok: u64,
    /// Those that did not.
    pub failed: u64,
    /// When the last was, in milliseconds since 1970.
    pub last_ms: Option<u64>,
    /// Why the last did not apply.
    pub last_error: Option<String>,
}

impl Server {
    /// Reads the configuration again and applies it, whole or not at all.
    ///
    /// # Errors
    /// [`Refused::Failed`] names the setting at fault; everything is as it was.
    pub async fn reload(&self) -> Result<Reloaded, Refused> {
        let server = self.clone();
        // Files are read and keys unlocked.
        let done = tokio::task::spawn_blocking(move || server.reload_now()).await;
        done.unwrap_or_else(|err| Err(Refused::Failed(format!("the reload broke off: {err}"))))
    }

    fn reload_now(&self) -> Result<Reloaded, Refused> {
        let _one = self.0.operation.lock();
        let done = self.try_reload();
        let result = if done.is_ok() { "ok" } else { "failed" };
        {
            let reloads = &mut self.0.state.lock().reloads;
            *(if done.is_ok() { &mut reloads.ok } else { &mut reloads.failed }) += 1;
            reloads.last_ms = Some(self.now_ms());
            reloads.last_error = done.as_ref().err().map(ToString::to_string);
        }
        metrics::counter!("sealway_config_reloads_total", "result" => result).increment(1);
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
            Err(err) => tracing::error!(%err, "configuration not reloaded: everything is as it was"),
        }
        done
    }

    fn try_reload(&self) -> Result<Reloaded, Refused> {
        let fresh = (self.0.reread)().map_err(Refused::Failed)?;
        let config = fresh.config;
        // No other operation runs, so what is planned here still stands when it is applied; but draining may begin.
        let there = There::of(&self.0.state.lock().listeners);
        let planned = listeners::plan(&config, &there, &self.0.parts.clock).map_err(Refused::Failed)?;
        let gateway = self.0.parts.gateway(&config).map_err(Refused::Failed)?;
        let mut state = self.0.state.lock();
        if state.is_stopping {
            return Err(Refused::Stopping);
        }
        let mut done = Reloaded { needs_restart: fresh.needs_restart, warnings: fresh.warnings, ..Reloaded::default() };
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
            running.note_down();
            if gives {
                running.hand_on(config.drain);
            } else {
                let _ = running.stop(config.drain);
            }
        }
        Ok(done)
    }

    fn apply(&self, planned: Planned, running: Option<Running>, drain: Duration, done: &mut Reloaded) -> Running {
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

//! Certificates in use: watched each second, read again when their files change, shown with their dates.

use std::sync::Arc;
use std::time::Duration;

use sealway_runtime::tls;
use sealway_runtime::tls::{CertificateStatus, TlsError};
use serde::Serialize;

use super::Server;

/// How often files are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// A certificate that is in use, or a list of revoked ones.
#[derive(Clone, Debug, Serialize)]
pub struct Certificate {
    /// What uses it: `listener NAME` or `an upstream`.
    pub used_by: String,
    /// Whole days that are left; negative once it is over. None for a list that does not say when the next is due.
    pub days_left: Option<i64>,
    /// What it says of itself.
    #[serde(flatten)]
    pub status: CertificateStatus,
}

/// TLS material of either side.
#[derive(Clone)]
enum Material {
    Shown(Arc<tls::Server>),
    Asked(Arc<tls::Client>),
}

impl Material {
    fn files_changed(&self) -> bool {
        match self {
            Material::Shown(tls) => tls.files_changed(),
            Material::Asked(tls) => tls.files_changed(),
        }
    }

    fn reload(&self) -> Result<bool, TlsError> {
        match self {
            Material::Shown(tls) => tls.reload(),
            Material::Asked(tls) => tls.reload(),
        }
    }

    fn certificates(&self) -> Vec<CertificateStatus> {
        match self {
            Material::Shown(tls) => tls.certificates(),
            Material::Asked(tls) => tls.certificates(),
        }
    }
}

impl Server {
    /// The certificates in use, those of listeners first.
    pub fn certificates(&self) -> Vec<Certificate> {
        let now_ms = self.0.parts.clock.now_ms();
        let shown = |used_by: &str, status: CertificateStatus| {
            let days_left = (status.not_after_ms > 0).then(|| status.days_left(now_ms));
            Certificate { used_by: used_by.to_owned(), days_left, status }
        };
        let materials = self.materials();
        let all = materials.iter().flat_map(|(used_by, material)| {
            material.certificates().into_iter().map(|status| shown(used_by, status)).collect::<Vec<_>>()
        });
        all.collect()
    }

    fn materials(&self) -> Vec<(String, Material)> {
        let state = self.0.state.lock();
        let shown = state.listeners.iter().filter_map(|running| {
            Some((format!("listener {}", running.name()), Material::Shown(running.tls.clone()?)))
        });
        let gateway = self.0.service.current();
        let asked = gateway.upstreams().iter().filter_map(|upstream| {
            Some((format!("upstream {}", upstream.name()), Material::Asked(upstream.tls()?.clone())))
        });
        shown.chain(asked).collect()
    }

    /// Looks at the files until stopping begins.
    pub(super) async fn watch_files(self) {
        let mut tick = tokio::time::interval(LOOK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = tick.tick() => {}
                () = self.0.shutdown.begun() => return,
            }
            let server = self.clone();
            // Reading waits a little where a key does not fit its certificate yet.
            if tokio::task::spawn_blocking(move || server.look_at_files()).await.is_err() {
                tracing::error!("the watch on certificate files has failed: they are read at a reload alone");
                return;
            }
        }
    }

    /// Reads again what has changed. It may wait a little, and blocks meanwhile.
    pub(crate) fn look_at_files(&self) {
        for (used_by, material) in self.materials() {
            // A file that cannot be read is looked at again when it changes once more: one line in the log, not one a second.
            if material.files_changed() {
                note(&used_by, material.reload());
            }
            for status in material.certificates().iter().filter(|status| status.not_after_ms > 0) {
                metrics::gauge!("sealway_certificate_expiry_seconds", "file" => status.file.clone(), "role" => status.role)
                    .set((status.not_after_ms / 1000) as f64);
            }
        }
    }
}

fn note(used_by: &str, reloaded: Result<bool, TlsError>) {
    let result = match &reloaded {
        // Touched, and the same.
        Ok(false) => return,
        Ok(true) => {
            tracing::info!(used_by, "certificates reloaded");
            "ok"
        }
        Err(err) => {
            tracing::error!(used_by, %err, "certificates not reloaded: those that were loaded stay in force");
            "failed"
        }
    };
    metrics::counter!("sealway_certificate_reloads_total", "result" => result).increment(1);
}

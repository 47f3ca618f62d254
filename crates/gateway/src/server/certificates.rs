//! Certificates in use: checked each second, reloaded when their files change, reported with their dates.

use std::sync::{Arc, Weak};
use std::time::Duration;

use sealway_runtime::tls;
use sealway_runtime::tls::{CertificateStatus, TlsError};
use serde::Serialize;

use super::{Inner, Server};

/// Interval of checks for changed files.
const LOOK: Duration = Duration::from_secs(1);

/// A certificate or a list of revoked certificates in use.
#[derive(Clone, Debug, Serialize)]
pub struct Certificate {
    /// User of the certificate: `listener NAME`, `upstream NAME` or `mle key NAME`.
    pub used_by: String,
    /// Whole days left; negative once it has expired. `None` for a list without the date of its next update.
    pub days_left: Option<i64>,
    /// Dates and names from the certificate.
    #[serde(flatten)]
    pub status: CertificateStatus,
}

/// TLS files of either side.
#[derive(Clone)]
enum Material {
    Server(Arc<tls::Server>),
    Client(Arc<tls::Client>),
}

impl Material {
    fn files_changed(&self) -> bool {
        match self {
            Material::Server(tls) => tls.files_changed(),
            Material::Client(tls) => tls.files_changed(),
        }
    }

    fn reload(&self) -> Result<bool, TlsError> {
        match self {
            Material::Server(tls) => tls.reload(),
            Material::Client(tls) => tls.reload(),
        }
    }

    fn certificates(&self) -> Vec<CertificateStatus> {
        match self {
            Material::Server(tls) => tls.certificates(),
            Material::Client(tls) => tls.certificates(),
        }
    }
}

impl Server {
    /// Returns the certificates in use: those of listeners, of upstreams, and of keys of messages.
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
        let gateway = self.0.service.current();
        let keys = gateway.mle_keys().certificates();
        all.chain(keys.map(|(name, status)| shown(&format!("mle key {name}"), status.clone()))).collect()
    }

    /// Returns the TLS of all listeners that have one, with their names: those of the gateway first.
    pub(super) fn tls_servers(&self) -> Vec<(String, Arc<tls::Server>)> {
        let mut servers = Vec::new();
        for running in &self.0.state.lock().listeners {
            servers.extend(running.tls.clone().map(|tls| (running.name().to_owned(), tls)));
        }
        servers.extend(self.0.others.lock().iter().map(|(name, tls)| ((*name).to_owned(), tls.clone())));
        servers
    }

    fn materials(&self) -> Vec<(String, Material)> {
        let servers = self.tls_servers().into_iter();
        let shown = servers.map(|(name, tls)| (format!("listener {name}"), Material::Server(tls)));
        let gateway = self.0.service.current();
        let asked = gateway.upstreams().iter().filter_map(|upstream| {
            Some((format!("upstream {}", upstream.name()), Material::Client(upstream.tls()?.clone())))
        });
        shown.chain(asked).collect()
    }

    /// Checks the files each second, also while draining: a key that is retired or revoked ends requests in flight. Draining does not
    /// wait for the task, which ends with the server.
    pub(super) fn watch_files(&self) {
        tokio::spawn(watch_files(Arc::downgrade(&self.0)));
    }

    /// Reloads changed files. It blocks, and may wait a little.
    pub(crate) fn look_at_files(&self) {
        for (used_by, material) in self.materials() {
            // A file that cannot be read is tried again at its next change: one line in the log, not one a second.
            if material.files_changed() {
                note(&used_by, material.reload());
            }
        }
        let in_use = self.certificates().into_iter().map(|certificate| certificate.status);
        self.0.expiry.lock().set(in_use);
        let gateway = self.0.service.current();
        let (now_ms, authority) = (self.0.parts.clock.now_ms(), &self.0.parts.authority);
        gateway.mle_keys().warn_of_ends(now_ms);
        authority.set_mle_certificates_end(gateway.mle_keys().earliest_end_ms());
        let one_shot = gateway.one_shot();
        one_shot.reload_if_changed(now_ms);
        one_shot.warn_of_ends(now_ms);
        one_shot.set_gauges();
        authority.set_one_shot_keys_end(one_shot.earliest_end_ms());
    }
}

async fn watch_files(server: Weak<Inner>) {
    let mut tick = tokio::time::interval(LOOK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let Some(server) = server.upgrade().map(Server) else { return };
        // Reading waits a little if a key does not fit its certificate yet.
        if tokio::task::spawn_blocking(move || server.look_at_files()).await.is_err() {
            tracing::error!("watching certificate files failed: they are read on reload only");
            return;
        }
    }
}

fn note(used_by: &str, reloaded: Result<bool, TlsError>) {
    tls::count_reload(&reloaded);
    match reloaded {
        // Changed in time, but not in content.
        Ok(false) => {}
        Ok(true) => tracing::info!(used_by, "certificates reloaded"),
        Err(err) => tracing::error!(used_by, %err, "certificates not reloaded: the loaded ones stay in use"),
    }
}

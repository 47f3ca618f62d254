//! `admin:` and `metrics:`: the operators' listeners, raw and checked.

use std::path::{Path, PathBuf};

use sealway_gateway::GatewayConfig;
use sealway_gateway::config::{Place, RawTls};
use sealway_runtime::config::{FilePath, Problems};
use sealway_runtime::tls::ServerFiles;
use serde::{Deserialize, Serialize};

/// `admin:` as written.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawAdmin {
    /// Loopback only: `127.0.0.1:PORT`, `[::1]:PORT`, `localhost:PORT`, or `unix:PATH`.
    address: String,
    /// One line of at least 16 visible ASCII characters.
    token_file: FilePath,
    /// Folder of `sealway certs` whose certificates may be renewed from the admin listener.
    certificates_folder: Option<FilePath>,
    /// Upstreams whose servers are relays, or brokers with `--metrics`: the page shows their state, read from `/metrics` every two
    /// seconds.
    services: Option<Vec<String>>,
}

/// Checked settings of the admin listener.
#[derive(Clone, Debug)]
pub(crate) struct AdminConfig {
    pub(crate) place: Place,
    pub(crate) token_file: PathBuf,
    pub(crate) certificates_folder: Option<PathBuf>,
    pub(crate) services: Vec<String>,
}

impl RawAdmin {
    /// Checks the settings; paths are relative to `file`.
    pub(super) fn resolve(&self, file: Option<&Path>, gateway: &GatewayConfig, problems: &mut Problems) -> AdminConfig {
        let place = place("admin.address", &self.address, file, gateway, None, problems);
        if is_beyond_loopback(&place) {
            let stays = "the admin listener stays on this machine: 127.0.0.1, [::1], localhost or a Unix socket";
            problems.add("admin.address", stays);
        }
        let folder = self.certificates_folder.as_ref();
        let services = self.services.clone().unwrap_or_default();
        for (index, name) in services.iter().enumerate().filter(|(_, name)| !gateway.has_upstream(name)) {
            problems.add(format!("admin.services[{index}]"), format!("no upstream is named \"{name}\""));
        }
        AdminConfig {
            place,
            token_file: problems.file("admin.token_file", file, &self.token_file),
            certificates_folder: folder.map(|folder| problems.file("admin.certificates_folder", file, folder)),
            services,
        }
    }
}

/// `metrics:` as written.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawMetrics {
    /// As of a listener; any address. Beyond loopback without `tls` a warning is given.
    address: String,
    /// One line of at least 16 visible ASCII characters; the token reads metrics and nothing else.
    token_file: FilePath,
    /// As of a listener.
    /// - default: none: plain
    tls: Option<RawTls>,
}

/// Checked settings of the metrics listener.
#[derive(Clone, Debug)]
pub(crate) struct MetricsConfig {
    pub(crate) place: Place,
    pub(crate) token_file: PathBuf,
    pub(crate) tls: Option<ServerFiles>,
}

impl RawMetrics {
    /// Checks the settings; paths are relative to `file`.
    pub(super) fn resolve(
        &self,
        file: Option<&Path>,
        gateway: &GatewayConfig,
        admin: Option<&AdminConfig>,
        problems: &mut Problems,
        warnings: &mut Vec<String>,
    ) -> MetricsConfig {
        let place = place("metrics.address", &self.address, file, gateway, admin, problems);
        if self.tls.is_none() && is_beyond_loopback(&place) {
            let plain = "metrics.address: the token and the metrics cross the network in plain; set metrics.tls";
            warnings.push(plain.into());
        }
        MetricsConfig {
            place,
            token_file: problems.file("metrics.token_file", file, &self.token_file),
            tls: self.tls.as_ref().map(|tls| tls.resolve("metrics.tls", &gateway.tokens, file, problems)),
        }
    }
}

/// Checks an address that no other listener may have.
fn place(
    setting: &str,
    address: &str,
    file: Option<&Path>,
    gateway: &GatewayConfig,
    admin: Option<&AdminConfig>,
    problems: &mut Problems,
) -> Place {
    let place = problems.take(setting, Place::parse(address, file)).unwrap_or(Place::Tcp(Vec::new()));
    let listeners = gateway.listeners.iter().map(|listener| (&listener.place, listener.setting.as_str()));
    let mut taken = listeners.chain(admin.map(|admin| (&admin.place, "admin.address")));
    if let Some((_, other)) = taken.find(|(other, _)| other.collides(&place)) {
        problems.add(setting, format!("{address} is also {other}"));
    }
    place
}

fn is_beyond_loopback(place: &Place) -> bool {
    matches!(place, Place::Tcp(addresses) if addresses.iter().any(|address| !address.ip().is_loopback()))
}

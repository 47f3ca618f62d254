//! Check of the files that a configuration names. They are read as `start` reads them, so that errors are found before
//! a start; nothing is created, changed or connected to.

use std::path::Path;
use std::sync::Arc;

use sealway_proto::crypto::Provider;
use sealway_proto::wire::Wire;
use sealway_runtime::clock::Clock;
use sealway_runtime::config::{ConfigError, Problems, readable_by_others};
use zeroize::Zeroizing;

use super::{SessionsConfig, StoreUrl, strong_secret};
use crate::kek::{KekSource, KeyRing};

impl SessionsConfig {
    /// Reads every file that [`SessionsConfig::start`] would read. Adds errors that would prevent the start to
    /// `problems`, and notices for the operator to `warnings`.
    pub fn check_files(
        &self,
        provider: &'static dyn Provider,
        clock: &Arc<dyn Clock>,
        problems: &mut Problems,
        warnings: &mut Vec<String>,
    ) {
        if let StoreUrl::File(store) = &self.store {
            problems.folder_of("sessions.store", store);
        }
        if !matches!(self.store, StoreUrl::Memory | StoreUrl::Remote(_)) && self.kek_broker.is_none() {
            self.check_key_file(provider, problems, warnings);
        }
        let secrets = [
            ("sessions.key_endpoint_secret_file", &self.key_endpoint_secret_file, self.key_endpoint_secret().map(drop)),
            ("sessions.authority_secret_file", &self.authority_secret_file, self.authority_secret().map(drop)),
        ];
        for (setting, file, read) in secrets {
            match (read, file.as_deref().and_then(readable_by_others)) {
                (Err(err), _) => problems.add_error(&err),
                (Ok(()), Some(warning)) => warnings.push(format!("{setting}: {warning}")),
                (Ok(()), None) => {}
            }
        }
        let stores = [
            ("sessions.postgres", self.store.postgres().map(|_| self.postgres_config().map(drop))),
            ("sessions.redis", self.store.redis().map(|_| self.redis_config().map(drop))),
            ("sessions.authentication", Some(self.authentication.open().map(drop))),
        ];
        for (section, read) in stores {
            if let Some(Err(err)) = read {
                problems.add(section, err);
            }
        }
        self.identity.check_files(provider, clock.now_ms(), problems);
    }

    fn check_key_file(&self, provider: &'static dyn Provider, problems: &mut Problems, warnings: &mut Vec<String>) {
        const AT: &str = "sessions.kek_file";
        let source = match self.kek_source() {
            Ok(source) => source,
            Err(err) => return problems.add_error(&err),
        };
        if let KekSource::File(file) = &source {
            if !file.exists() {
                match self.may_make_key_file(file) {
                    Ok(()) => problems.folder_of(AT, file),
                    Err(err) => problems.add_error(&err),
                }
                return;
            }
            warnings.extend(readable_by_others(file).map(|warning| format!("{AT}: {warning}")));
        }
        problems.take(AT, KeyRing::open(provider, source));
    }

    /// Reads the secret of the key endpoint from its file.
    pub(super) fn key_endpoint_secret(&self) -> Result<Option<Zeroizing<String>>, ConfigError> {
        secret("sessions.key_endpoint_secret_file", self.key_endpoint_secret_file.as_deref())
    }

    /// Reads the secret that other processes present to this authority from its file.
    pub(super) fn authority_secret(&self) -> Result<Option<Zeroizing<String>>, ConfigError> {
        secret("sessions.authority_secret_file", self.authority_secret_file.as_deref())
    }

    /// Returns the paths that a route must lead to the sessions, each with the setting that needs it and the reason.
    pub fn paths_needed(&self) -> Vec<(&'static str, &'static str, &'static str)> {
        let mut needed = Vec::new();
        if self.authority_secret_file.is_some() {
            needed.push((
                "sessions.authority_secret_file",
                crate::peer::PREFIX,
                "other processes ask this authority there",
            ));
        }
        // With a store that several processes share, sessions may be agreed at another process.
        let is_alone = matches!(self.store, StoreUrl::Memory | StoreUrl::File(_));
        if is_alone && self.identity.is_asked_for() && self.wires.has(Wire::Native) {
            needed.push(("sessions.identity", "/v3/sessions", "clients of the native protocol agree sessions there"));
        }
        needed
    }
}

fn secret(setting: &str, file: Option<&Path>) -> Result<Option<Zeroizing<String>>, ConfigError> {
    let secret = file.map(strong_secret).transpose();
    secret.map_err(|err| ConfigError(format!("{setting}: {err}")))
}

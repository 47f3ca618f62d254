//! From checked settings to an open store.

use std::path::Path;
use std::sync::Arc;

use sealway_proto::crypto::Provider;
use sealway_runtime::clock::Clock;
use sealway_runtime::config::ConfigError;

use super::{SessionsConfig, StoreUrl};
use crate::kek::{KekSource, KeyRing};
use crate::store::{Embedded, Memory, Store};

/// Holds key-encryption keys where no file is configured: the lines of a key file.
const KEK_VARIABLE: &str = "SEALWAY_KEK";

impl SessionsConfig {
    pub(super) async fn open_store(
        &self,
        provider: &'static dyn Provider,
        clock: &Arc<dyn Clock>,
    ) -> Result<Arc<dyn Store>, ConfigError> {
        match &self.store {
            StoreUrl::Memory => Ok(Arc::new(Memory::new(self.limits))),
            StoreUrl::File(path) => {
                let keys = Arc::new(self.key_ring(provider)?);
                let opened = Embedded::open(provider, path, keys, self.limits, clock.now_ms());
                Ok(Arc::new(opened.map_err(|err| ConfigError(err.to_string()))?))
            }
            _ => todo!(),
        }
    }

    /// Where the key-encryption keys are, by what is configured and what is there.
    ///
    /// # Errors
    /// [`ConfigError`]: nothing is configured, and the store has no place of its own for a key file.
    pub fn kek_source(&self) -> Result<KekSource, ConfigError> {
        if let Some(file) = &self.kek_file {
            return Ok(KekSource::File(file.clone()));
        }
        if std::env::var_os(KEK_VARIABLE).is_some() {
            return Ok(KekSource::Env(KEK_VARIABLE.into()));
        }
        match &self.store {
            StoreUrl::File(path) => Ok(KekSource::File(path.with_extension("kek"))),
            _ => Err(ConfigError(format!(
                "sessions.kek_file: name a key file, the same for every process of this store (a line with an id and 32 \
                 random bytes in base64, mode 0600), or set {KEK_VARIABLE} to such lines: session keys are wrapped \
                 before they leave this process"
            ))),
        }
    }

    /// Reads the key-encryption keys; makes a missing file where that is allowed.
    ///
    /// # Errors
    /// [`ConfigError`], naming the file.
    pub fn key_ring(&self, provider: &'static dyn Provider) -> Result<KeyRing, ConfigError> {
        let source = self.kek_source()?;
        if let KekSource::File(file) = &source
            && !file.exists()
        {
            self.make_key_file(provider, file)?;
        }
        KeyRing::open(provider, source)
    }

    fn make_key_file(&self, provider: &'static dyn Provider, file: &Path) -> Result<(), ConfigError> {
        if !self.allow_generated_kek {
            return Err(ConfigError(format!(
                "sessions.kek_file: there is no key file {}; make one (a line with an id and 32 random bytes in base64, \
                 mode 0600), or set sessions.allow_generated_kek: true",
                file.display()
            )));
        }
        KeyRing::generate(provider, file)?;
        tracing::warn!(file = %file.display(), "a key file was made; keep it apart from the store's backups");
        Ok(())
    }
}

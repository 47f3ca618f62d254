//! Keys of the MLE bridge: read from the files that the configuration names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use sealway_proto::mle::aws_lc::AwsLcJose;
use sealway_proto::mle::load::{KEY_FILE_LEN_MAX, shared};
use sealway_proto::mle::{Alg, Enc, JoseProvider, KidSource, OpeningKey, OpeningKeys, SealingKey};
use zeroize::Zeroizing;

/// Settings of a key, after their checks.
#[derive(Clone, Debug)]
pub(crate) struct KeyFiles {
    /// The private key; `None` for a key that seals.
    pub(crate) file: Option<PathBuf>,
    /// A shared key, which opens and seals, with its name.
    pub(crate) secret: Option<(PathBuf, String)>,
    /// The certificate or public key.
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) alg: Alg,
    /// The content encryption of tokens that it seals.
    pub(crate) enc: Enc,
    pub(crate) kid: KidSource,
}

/// The keys of one route that open its messages.
pub(crate) type Opening = OpeningKeys;

/// The keys of one recipient: those of two certificates while one follows the other.
#[derive(Debug)]
pub(crate) struct Recipient {
    /// The subject of the caller's certificate; `None` for every caller.
    pub(crate) caller: Option<String>,
    keys: Vec<Arc<SealingKey>>,
}

impl Recipient {
    /// Returns the key whose certificate began last among those that are valid. A public key without a certificate is always valid,
    /// and older than all certificates.
    pub(super) fn key(&self, now_ms: u64) -> Option<&Arc<SealingKey>> {
        let now_s = i64::try_from(now_ms / 1000).unwrap_or(i64::MAX);
        let times = |key: &SealingKey| {
            let certificate = key.public().and_then(|public| public.x509());
            certificate.map_or((i64::MIN, i64::MAX), |it| (it.not_before_s(), it.not_after_s()))
        };
        let live = self.keys.iter().filter(|key| {
            let (begins, ends) = times(key);
            begins <= now_s && now_s <= ends
        });
        live.max_by_key(|key| times(key).0)
    }
}

/// Returns the cryptography of card schemes' messages: AWS-LC.
pub fn jose_provider() -> &'static dyn JoseProvider {
    static PROVIDER: LazyLock<AwsLcJose> = LazyLock::new(|| {
        AwsLcJose::new(|key, nonce, aad, data, tag| sealway_awslc::aes_gcm_open(key, nonce, aad, data, tag).is_ok())
    });
    &*PROVIDER
}

/// All keys of `mle_keys:`, read.
#[derive(Debug, Default)]
pub(crate) struct KeyRing {
    opening: BTreeMap<String, Arc<OpeningKey>>,
    sealing: BTreeMap<String, Arc<SealingKey>>,
}

impl KeyRing {
    /// Reads every key from its files.
    ///
    /// # Errors
    /// The setting at fault, and what is wrong with its file.
    pub(crate) fn read(keys: &BTreeMap<String, KeyFiles>) -> Result<KeyRing, (String, String)> {
        let mut ring = KeyRing::default();
        for (name, files) in keys {
            ring.add(name, files)?;
        }
        Ok(ring)
    }

    fn add(&mut self, name: &str, files: &KeyFiles) -> Result<(), (String, String)> {
        let at = |setting: &str| format!("mle_keys.{name}.{setting}");
        let certificate = match &files.certificate {
            Some(path) => Some(contents(path).map_err(|err| (at("certificate"), err))?),
            None => None,
        };
        let certificate_bytes = certificate.as_ref().map(|bytes| bytes.as_slice());
        let wrong = |path: &Path, err: sealway_proto::mle::KeyError| format!("{}: {err}", path.display());
        if let Some((path, kid)) = &files.secret {
            let text = contents(path).map_err(|err| (at("secret_file"), err))?;
            let made = shared(&text).and_then(|key| {
                let opening = OpeningKey::secret(files.alg, files.enc, &key, kid, jose_provider())?;
                Ok((opening, SealingKey::secret(files.alg, files.enc, &key, kid, jose_provider())?))
            });
            let (opening, sealing) = made.map_err(|err| (at("secret_file"), wrong(path, err)))?;
            self.opening.insert(name.to_owned(), Arc::new(opening));
            self.sealing.insert(name.to_owned(), Arc::new(sealing));
            return Ok(());
        }
        match (&files.file, &files.certificate, certificate_bytes) {
            (Some(path), certificate_path, certificate) => {
                let private = contents(path).map_err(|err| (at("file"), err))?;
                let key = match files.alg {
                    Alg::EcdhEs => OpeningKey::p256(&private, certificate, &files.kid, jose_provider()),
                    alg => OpeningKey::rsa(alg, &private, certificate, &files.kid, jose_provider()),
                };
                let key = key.map_err(|err| match (&err, certificate_path) {
                    (sealway_proto::mle::KeyError::Mismatch, Some(path)) => (at("certificate"), wrong(path, err)),
                    _ => (at("file"), wrong(path, err)),
                })?;
                self.opening.insert(name.to_owned(), Arc::new(key));
            }
            (None, Some(path), Some(public)) => {
                let key = match files.alg {
                    Alg::EcdhEs => SealingKey::p256(files.enc, public, &files.kid, jose_provider()),
                    alg => SealingKey::rsa(alg, files.enc, public, &files.kid, jose_provider()),
                };
                let key = key.map_err(|err| (at("certificate"), wrong(path, err)))?;
                self.sealing.insert(name.to_owned(), Arc::new(key));
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the keys of these names as the opening keys of one route.
    ///
    /// # Errors
    /// Two keys have one kid.
    pub(crate) fn opening(&self, names: &[String]) -> Result<OpeningKeys, String> {
        let keys = names.iter().filter_map(|name| self.opening.get(name)).cloned();
        OpeningKeys::new(keys).map_err(|err| err.to_string())
    }

    /// Returns the keys of these names as those of one recipient.
    pub(crate) fn recipient(&self, caller: Option<String>, names: &[String]) -> Recipient {
        let keys = names.iter().filter_map(|name| self.sealing.get(name)).cloned().collect();
        Recipient { caller, keys }
    }

    /// Sets the gauge of each certificate's end.
    pub(crate) fn set_gauges(&self) {
        for (name, key) in &self.sealing {
            if let Some(certificate) = key.public().and_then(|public| public.x509()) {
                let end = certificate.not_after_s() as f64;
                metrics::gauge!("sealway_mle_key_expiry_seconds", "key" => name.clone()).set(end);
            }
        }
    }
}

/// Reads a key file of at most 64 KiB.
fn contents(path: &Path) -> Result<Zeroizing<Vec<u8>>, String> {
    let read = std::fs::metadata(path).and_then(|found| {
        if found.len() > KEY_FILE_LEN_MAX as u64 {
            return Err(std::io::Error::other(format!("it has more than {KEY_FILE_LEN_MAX} bytes, and is no key")));
        }
        std::fs::read(path).map(Zeroizing::new)
    });
    read.map_err(|err| format!("{}: {err}", path.display()))
}

//! Keys of the MLE bridge: read from the files that the configuration names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use sealway_proto::mle::aws_lc::AwsLcJose;
use sealway_proto::mle::load::{KEY_FILE_LEN_MAX, rsa_modulus};
use sealway_proto::mle::sign::{JwsProvider, SigningKey};
use sealway_proto::mle::{Alg, Enc, JoseProvider, JwsAlg, KidSource, OpeningKey, OpeningKeys, SealingKey};
use zeroize::Zeroizing;

/// The one algorithm of a key, which says what the key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyAlg {
    /// It opens, with a private key, or seals.
    Encryption(Alg),
    /// It signs, with a private key.
    Signature(JwsAlg),
}

/// Settings of a key, after their checks.
#[derive(Clone, Debug)]
pub(crate) struct KeyFiles {
    /// The private key, of a key that opens or signs; `None` for a key that seals.
    pub(crate) file: Option<PathBuf>,
    /// The certificate or public key.
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) alg: KeyAlg,
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

static PROVIDER: LazyLock<AwsLcJose> = LazyLock::new(|| {
    AwsLcJose::new(|key, nonce, aad, data, tag| sealway_awslc::aes_gcm_open(key, nonce, aad, data, tag).is_ok())
});

/// Returns the cryptography of card schemes' messages: AWS-LC.
pub fn jose_provider() -> &'static dyn JoseProvider {
    &*PROVIDER
}

/// Returns the cryptography of signatures: AWS-LC.
fn jws_provider() -> &'static dyn JwsProvider {
    &*PROVIDER
}

/// All keys of `mle_keys:`, read.
#[derive(Debug, Default)]
pub(crate) struct KeyRing {
    opening: BTreeMap<String, Arc<OpeningKey>>,
    sealing: BTreeMap<String, Arc<SealingKey>>,
    signing: BTreeMap<String, Arc<SigningKey>>,
    /// The modulus of each private key.
    moduli: BTreeMap<String, Vec<u8>>,
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
        ring.check_apart()?;
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
        match (&files.file, &files.certificate, certificate_bytes) {
            (Some(path), certificate_path, certificate) => {
                let private = contents(path).map_err(|err| (at("file"), err))?;
                let at_fault = |err| match (&err, certificate_path) {
                    (sealway_proto::mle::KeyError::Mismatch, Some(path)) => (at("certificate"), wrong(path, err)),
                    _ => (at("file"), wrong(path, err)),
                };
                match files.alg {
                    KeyAlg::Encryption(alg) => {
                        let key = OpeningKey::rsa(alg, &private, certificate, &files.kid, jose_provider());
                        self.opening.insert(name.to_owned(), Arc::new(key.map_err(at_fault)?));
                    }
                    KeyAlg::Signature(alg) => {
                        let (provider, hashes) = (jws_provider(), jose_provider().base());
                        let key = SigningKey::rsa(alg, &private, certificate, &files.kid, provider, hashes);
                        self.signing.insert(name.to_owned(), Arc::new(key.map_err(at_fault)?));
                    }
                }
                self.moduli.insert(name.to_owned(), rsa_modulus(&private).unwrap_or_default());
            }
            (None, Some(path), Some(public)) => {
                let KeyAlg::Encryption(alg) = files.alg else { return Ok(()) };
                let key = SealingKey::rsa(alg, files.enc, public, &files.kid, jose_provider());
                let key = key.map_err(|err| (at("certificate"), wrong(path, err)))?;
                self.sealing.insert(name.to_owned(), Arc::new(key));
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks that no private key both opens and signs: a signature over chosen bytes would help to decrypt (RFC 8017 section 6).
    fn check_apart(&self) -> Result<(), (String, String)> {
        for name in self.signing.keys() {
            let opens = |(other, modulus): &(&String, &Vec<u8>)| {
                self.opening.contains_key(*other) && self.moduli.get(name) == Some(modulus)
            };
            if let Some((other, _)) = self.moduli.iter().find(opens) {
                let why = format!("this private key also opens, as \"{other}\": a key signs or opens, and never both");
                return Err((format!("mle_keys.{name}.file"), why));
            }
        }
        Ok(())
    }

    /// Returns the key of this name that signs.
    pub(super) fn signing(&self, name: &str) -> Option<Arc<SigningKey>> {
        self.signing.get(name).cloned()
    }

    /// Returns the kid of the key of this name that opens.
    pub(super) fn opening_kid(&self, name: &str) -> Option<&str> {
        self.opening.get(name).map(|key| key.kid())
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
        let sealing = self.sealing.iter().map(|(name, key)| (name, key.public()));
        let signing = self.signing.iter().map(|(name, key)| (name, key.public()));
        for (name, public) in sealing.chain(signing) {
            if let Some(certificate) = public.and_then(|public| public.x509()) {
                let end = certificate.not_after_s() as f64;
                metrics::gauge!("sealway_mle_key_expiry_seconds", "key" => name.clone()).set(end);
            }
        }
    }
}

/// Reads a key file of at most 64 KiB.
pub(super) fn contents(path: &Path) -> Result<Zeroizing<Vec<u8>>, String> {
    let read = std::fs::metadata(path).and_then(|found| {
        if found.len() > KEY_FILE_LEN_MAX as u64 {
            return Err(std::io::Error::other(format!("it has more than {KEY_FILE_LEN_MAX} bytes, and is no key")));
        }
        std::fs::read(path).map(Zeroizing::new)
    });
    read.map_err(|err| format!("{}: {err}", path.display()))
}

//! Keys of the MLE bridge: read from the files that the configuration names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use sealway_proto::mle::aws_lc::AwsLcJose;
use sealway_proto::mle::load::{KEY_FILE_LEN_MAX, rsa_modulus, shared};
use sealway_proto::mle::sign::{JwsProvider, SigningKey, VerifyingKey, VerifyingKeys};
use sealway_proto::mle::{
    Alg, Enc, JoseProvider, JwsAlg, KeyError, KidSource, OpeningKey, OpeningKeys, Public, SealingKey,
};
use sealway_runtime::clock::iso8601;
use sealway_runtime::tls::CertificateStatus;
use zeroize::Zeroizing;

use super::broker::{BrokerKey, BrokerKeys, BrokerSettings};

/// Days before the end of a certificate from which it is warned of.
const WARNING_DAYS: i64 = 30;
const DAY_MS: u64 = 86_400_000;

/// The one algorithm of a key, which says what the key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyAlg {
    /// It opens, with a private key, or seals.
    Encryption(Alg),
    /// It signs, with a private key, or verifies.
    Signature(JwsAlg),
}

/// Settings of a key, after their checks.
#[derive(Clone, Debug)]
pub(crate) struct KeyFiles {
    /// The private key, of a key that opens or signs; `None` for a key that seals, and for one in a broker.
    pub(crate) file: Option<PathBuf>,
    /// The broker that holds the private key.
    pub(crate) broker: Option<BrokerSettings>,
    /// A shared key, which opens and seals, with its name.
    pub(crate) secret: Option<(PathBuf, String)>,
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
pub fn jws_provider() -> &'static dyn JwsProvider {
    &*PROVIDER
}

/// All keys of `mle_keys:`, read.
#[derive(Debug, Default)]
pub(crate) struct KeyRing {
    opening: BTreeMap<String, Arc<OpeningKey>>,
    brokers: BTreeMap<String, Arc<BrokerKey>>,
    sealing: BTreeMap<String, Arc<SealingKey>>,
    signing: BTreeMap<String, Arc<SigningKey>>,
    verifying: BTreeMap<String, Arc<VerifyingKey>>,
    /// The modulus of each private key.
    moduli: BTreeMap<String, Vec<u8>>,
    certificates: BTreeMap<String, CertificateStatus>,
    /// Day of the last warnings, in days since 1970.
    warned_on_day: AtomicU64,
}

impl KeyRing {
    /// Reads every key from its files. Brokers are not asked yet: [`KeyRing::connect`].
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
        let wrong = |path: &Path, err: KeyError| format!("{}: {err}", path.display());
        if let (Some(path), Some(bytes)) = (&files.certificate, certificate_bytes) {
            let public = Public::load(bytes).map_err(|err| (at("certificate"), wrong(path, err)))?;
            let status = public.x509().and_then(|x509| CertificateStatus::read(path, "mle", x509.der()));
            self.certificates.extend(status.map(|status| (name.to_owned(), status)));
        }
        if let (Some((path, kid)), KeyAlg::Encryption(alg)) = (&files.secret, files.alg) {
            let text = contents(path).map_err(|err| (at("secret_file"), err))?;
            let made = shared(&text).and_then(|key| {
                let opening = OpeningKey::secret(alg, files.enc, &key, kid, jose_provider())?;
                Ok((opening, SealingKey::secret(alg, files.enc, &key, kid, jose_provider())?))
            });
            let (opening, sealing) = made.map_err(|err| (at("secret_file"), wrong(path, err)))?;
            self.opening.insert(name.to_owned(), Arc::new(opening));
            self.sealing.insert(name.to_owned(), Arc::new(sealing));
            return Ok(());
        }
        match (&files.file, &files.certificate, certificate_bytes) {
            (Some(path), certificate_path, certificate) => {
                let private = contents(path).map_err(|err| (at("file"), err))?;
                let at_fault = |err| match (&err, certificate_path) {
                    (KeyError::Mismatch, Some(path)) => (at("certificate"), wrong(path, err)),
                    _ => (at("file"), wrong(path, err)),
                };
                match files.alg {
                    KeyAlg::Encryption(alg) => {
                        let key = match alg {
                            Alg::EcdhEs => OpeningKey::p256(&private, certificate, &files.kid, jose_provider()),
                            alg => OpeningKey::rsa(alg, &private, certificate, &files.kid, jose_provider()),
                        };
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
                let wrong = |err| (at("certificate"), wrong(path, err));
                match (files.alg, &files.broker) {
                    (KeyAlg::Signature(alg), _) => {
                        let (provider, hashes) = (jws_provider(), jose_provider().base());
                        let key = VerifyingKey::load(alg, public, &files.kid, provider, hashes).map_err(wrong)?;
                        self.verifying.insert(name.to_owned(), Arc::new(key));
                    }
                    (KeyAlg::Encryption(alg), None) => {
                        let key = match alg {
                            Alg::EcdhEs => SealingKey::p256(files.enc, public, &files.kid, jose_provider()),
                            alg => SealingKey::rsa(alg, files.enc, public, &files.kid, jose_provider()),
                        };
                        self.sealing.insert(name.to_owned(), Arc::new(key.map_err(wrong)?));
                    }
                    (KeyAlg::Encryption(alg), Some(broker)) => {
                        let held = external(name, (alg, &files.kid), broker, public);
                        let (key, broker) = held.map_err(wrong)?;
                        self.opening.insert(name.to_owned(), Arc::new(key));
                        self.brokers.insert(name.to_owned(), Arc::new(broker));
                    }
                }
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

    /// Asks the brokers for their keys, so that a wrong one shows at a start and at a reload. `before` has the keys in force. It blocks.
    ///
    /// # Errors
    /// The setting at fault, and what the broker said.
    pub(crate) fn connect(&self, before: Option<&KeyRing>) -> Result<(), (String, String)> {
        for (name, key) in &self.brokers {
            let known = before.and_then(|before| before.brokers.get(name)).map(|key| &**key);
            key.connect(known, before.is_none()).map_err(|err| (format!("mle_keys.{name}.broker"), err))?;
        }
        Ok(())
    }

    /// Returns the key of this name that signs.
    pub(super) fn signing(&self, name: &str) -> Option<Arc<SigningKey>> {
        self.signing.get(name).cloned()
    }

    /// Returns the keys of these names that verify signatures, as those of one signer.
    ///
    /// # Errors
    /// Two keys have one kid.
    pub(super) fn verifying(&self, names: &[String]) -> Result<VerifyingKeys, String> {
        let keys = names.iter().filter_map(|name| self.verifying.get(name)).cloned();
        VerifyingKeys::new(keys).map_err(|err| err.to_string())
    }

    /// Returns the kid of the key of this name that opens.
    pub(super) fn opening_kid(&self, name: &str) -> Option<&str> {
        self.opening.get(name).map(|key| key.kid())
    }

    /// Returns the keys of these names that brokers hold, by kid.
    pub(crate) fn brokers(&self, names: &[String]) -> BrokerKeys {
        let found = names.iter().filter_map(|name| Some((self.opening.get(name)?, self.brokers.get(name)?)));
        BrokerKeys::new(found.map(|(key, broker)| (key.kid().to_owned(), broker.clone())))
    }

    /// Checks that the recipient with the keys of these names has one that has not ended.
    ///
    /// # Errors
    /// The setting at fault, and the end of its certificate.
    pub(crate) fn check_ends(&self, names: &[String], now_ms: u64) -> Result<(), (String, String)> {
        let mut last = None;
        for name in names {
            match self.certificates.get(name) {
                Some(status) if status.not_after_ms < now_ms => last = Some((name, status)),
                // A public key without a certificate has no end.
                _ => return Ok(()),
            }
        }
        let Some((name, status)) = last else { return Ok(()) };
        let end = iso8601(status.not_after_ms);
        let why =
            format!("{}: the certificate ended at {end}, and no other key of its recipient is valid", status.file);
        Err((format!("mle_keys.{name}.certificate"), why))
    }

    /// Returns the earliest end of a certificate, in Unix milliseconds.
    pub(crate) fn earliest_end_ms(&self) -> Option<u64> {
        self.certificates.values().map(|status| status.not_after_ms).min()
    }

    /// Warns of certificates that end within 30 days, or have ended: once a day, and once after each reload.
    pub(crate) fn warn_of_ends(&self, now_ms: u64) {
        let today = now_ms / DAY_MS;
        if self.warned_on_day.swap(today, Ordering::Relaxed) == today {
            return;
        }
        for (key, status) in &self.certificates {
            let days_left = status.days_left(now_ms);
            if days_left < WARNING_DAYS {
                let ends = iso8601(status.not_after_ms);
                tracing::warn!(
                    key,
                    file = status.file,
                    ends,
                    days_left,
                    "the certificate of an MLE key ends soon, or has ended"
                );
            }
        }
    }

    /// Returns the certificates of keys, each with the key's name.
    pub(crate) fn certificates(&self) -> impl Iterator<Item = (&str, &CertificateStatus)> {
        self.certificates.iter().map(|(name, status)| (name.as_str(), status))
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

    /// Sets the gauge of each certificate's end. That of a key which `before` had and this ring has not becomes NaN, so that no alert
    /// fires for it.
    pub(crate) fn set_gauges(&self, before: Option<&KeyRing>) {
        let gauge = |name: &str| metrics::gauge!("sealway_mle_key_expiry_seconds", "key" => name.to_owned());
        let removed = before.into_iter().flat_map(|before| before.certificates.keys());
        for name in removed.filter(|name| !self.certificates.contains_key(*name)) {
            gauge(name).set(f64::NAN);
        }
        for (name, status) in &self.certificates {
            gauge(name).set((status.not_after_ms / 1000) as f64);
        }
    }
}

/// Creates a key whose private half a broker holds.
fn external(
    name: &str,
    (alg, kid): (Alg, &KidSource),
    broker: &BrokerSettings,
    public: &[u8],
) -> Result<(OpeningKey, BrokerKey), KeyError> {
    let key = OpeningKey::external(alg, public, kid, jose_provider())?;
    let public = Public::load(public)?;
    let wrap = jose_provider().rsa_public(alg, public.der()).map_err(|_| KeyError::Der)?;
    Ok((key, BrokerKey::new(name, broker.clone(), wrap, public.der())))
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

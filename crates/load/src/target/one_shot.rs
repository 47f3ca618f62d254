//! Requests that are sealed to a public key, without a session, over a connection of another kind: wire 4, EHBP and Oblivious HTTP.
//!
//! Each request has an encapsulation of its own, since a service rejects one that it received before. The operations block the thread
//! that offers the load: they are the generator's cost, and the sample has their times.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_LENGTH, DATE, HOST, TRANSFER_ENCODING};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use parking_lot::RwLock;
use sealway_client::one_shot::ehbp::{self, EhbpPending};
use sealway_client::one_shot::ohttp::{self, Form, OhttpPending};
use sealway_client::one_shot::{KEY_DOCUMENT_PATH, Kem, KeyConfig, KeyDocument, OneShotKeys, OneShotPending};
use sealway_client::{Error, ErrorKind, Message, OneShotTrust};
use sealway_runtime::clock::{Clock, SystemClock, http_date};
use sealway_runtime::config::read_secret;
use tokio::sync::Mutex;
use zeroize::Zeroizing;

use super::carrier::Carrier;
use super::connect::Lines;
use super::{Connection, Sample};
use crate::plan::{OneShotProtocol, OneShotRequests};
use crate::record::{Class, Failure};
use crate::request::{CurrentRequest, Program, Raw};

/// Seal of a run's requests and the keys of its service, shared by all workers.
pub(crate) struct OneShotSeals {
    seal: Seal,
    kems: Vec<Kem>,
    /// Path at which the target publishes its keys; with Oblivious HTTP, that of all outer requests.
    keys_path: PathAndQuery,
    /// True if the key was given, so that no other takes its place.
    is_pinned: bool,
    /// True once keys were fetched.
    has_begun: AtomicBool,
    /// Key to seal with, and the time until which it is in use, in Unix milliseconds.
    known: RwLock<Option<(Arc<KeyConfig>, u64)>>,
    /// Document that was accepted last, on wire 4. Its lock makes workers share one fetch.
    document: Mutex<Option<KeyDocument>>,
}

/// Protocol of a run, with what it needs besides the key.
enum Seal {
    Hpke(Box<OneShotKeys>),
    Ehbp,
    Ohttp(Form, Uri),
}

impl OneShotSeals {
    /// Prepares the plan's seal and reads the file with the pre-shared key.
    ///
    /// # Errors
    /// A one-line message if the plan's keys cannot be used, or the file cannot be read.
    pub(crate) fn new(asked: &OneShotRequests, url: &Uri) -> Result<Self, String> {
        let mut pinned = None;
        if let Some(OneShotTrust::Configs(configs)) = &asked.trust {
            let is_allowed = |config: &&KeyConfig| match asked.protocol {
                OneShotProtocol::Ehbp => ehbp::key(&config.encode()).is_ok(),
                _ => asked.kems.is_empty() || asked.kems.contains(&config.public_key().kem()),
            };
            pinned = configs.iter().find(is_allowed).cloned();
        }
        let seal = match (asked.protocol, &asked.trust) {
            (OneShotProtocol::Hpke, Some(trust)) => {
                let keys = OneShotKeys::new(trust.clone(), url, asked.kems.clone());
                let mut keys = keys.map_err(|err| err.to_string())?;
                pinned = keys.pinned().map_err(|err| err.to_string())?;
                if let Some((id, file)) = &asked.psk {
                    keys.set_psk(id.clone(), *read_psk(file)?).map_err(|err| err.to_string())?;
                }
                Seal::Hpke(Box::new(keys))
            }
            (OneShotProtocol::Hpke, None) => return Err("wire 4 needs a key or a root that is trusted".into()),
            (OneShotProtocol::Ehbp, _) => Seal::Ehbp,
            (protocol, _) => {
                let form = if protocol == OneShotProtocol::Ohttp { Form::Whole } else { Form::Chunked };
                Seal::Ohttp(form, asked.inner.clone().ok_or("Oblivious HTTP needs the URL of the inner requests")?)
            }
        };
        if pinned.is_none() && matches!(&asked.trust, Some(OneShotTrust::Configs(_))) {
            return Err("no pinned key has an allowed KEM and a known suite".into());
        }
        let keys_path = match seal {
            Seal::Hpke(_) => PathAndQuery::from_static(KEY_DOCUMENT_PATH),
            Seal::Ehbp => PathAndQuery::from_static(ehbp::KEYS_PATH),
            Seal::Ohttp(..) => url.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/")),
        };
        Ok(OneShotSeals {
            seal,
            kems: asked.kems.clone(),
            keys_path,
            is_pinned: pinned.is_some(),
            has_begun: AtomicBool::new(false),
            known: RwLock::new(pinned.map(|key| (Arc::new(key), u64::MAX))),
            document: Mutex::default(),
        })
    }

    fn known(&self) -> Option<Arc<KeyConfig>> {
        let known = self.known.read();
        let (key, until_ms) = known.as_ref()?;
        (*until_ms == u64::MAX || SystemClock.now_ms() < *until_ms).then(|| key.clone())
    }

    /// Takes the keys that the target published.
    fn take(&self, held: &mut Option<KeyDocument>, bytes: &[u8]) -> Result<Arc<KeyConfig>, String> {
        let (key, until_ms) = match &self.seal {
            Seal::Hpke(keys) => {
                keys.take(held, bytes).map_err(|err| err.to_string())?;
                let none = "the service's key document has no trusted key that is in use, of an allowed KEM";
                held.as_ref().and_then(|document| keys.choose(document)).ok_or(none)?
            }
            Seal::Ehbp => (ehbp::key(bytes).map_err(|err| err.to_string())?, u64::MAX),
            Seal::Ohttp(..) => (ohttp::key(bytes, &self.kems).map_err(|err| err.to_string())?, u64::MAX),
        };
        let key = Arc::new(key);
        self.has_begun.store(true, Ordering::Relaxed);
        *self.known.write() = Some((key.clone(), until_ms));
        Ok(key)
    }

    /// Forgets a key that the service rejected, and takes the document of the rejection where a root proves it. Returns whether it took
    /// one.
    async fn retired(&self, key: &Arc<KeyConfig>, err: &Error) -> bool {
        let mut held = self.document.lock().await;
        if self.is_pinned || !self.known().is_some_and(|known| Arc::ptr_eq(&known, key)) {
            return false;
        }
        *self.known.write() = None;
        let Seal::Hpke(keys) = &self.seal else { return false };
        if keys.retired(&mut held, err).is_err() {
            return false;
        }
        let chosen = held.as_ref().and_then(|document| keys.choose(document));
        *self.known.write() = chosen.map(|(key, until_ms)| (Arc::new(key), until_ms));
        self.known.read().is_some()
    }
}

/// Reads a pre-shared key of 32 bytes in base64.
///
/// # Errors
/// A one-line message that names the file.
pub(crate) fn read_psk(file: &Path) -> Result<Zeroizing<[u8; 32]>, String> {
    let text = read_secret(file).map_err(|err| err.to_string())?;
    let bytes = STANDARD.decode(text.as_bytes()).map(Zeroizing::new).unwrap_or_default();
    let key = bytes.as_slice().try_into().map(Zeroizing::new);
    key.map_err(|_| format!("{}: expected 32 bytes in base64", file.display()))
}

/// State that opens the answer to a request.
enum Pending<'a> {
    Hpke(OneShotPending<'a>),
    Ehbp(EhbpPending),
    Ohttp(OhttpPending),
}

impl Pending<'_> {
    /// Returns the status and the body under the seal.
    fn open(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Result<(StatusCode, Bytes), Error> {
        match self {
            Pending::Hpke(pending) => pending.open(status, headers, body).map(|(_, plaintext)| (status, plaintext)),
            Pending::Ehbp(pending) => pending.open(status, headers, body).map(|plaintext| (status, plaintext)),
            Pending::Ohttp(pending) => {
                pending.open(status, headers, body).map(|(inner, _, plaintext)| (inner, plaintext))
            }
        }
    }
}

/// Connection whose requests are sealed to a public key.
pub(crate) struct OneShotConnection {
    carrier: Carrier,
    seals: Arc<OneShotSeals>,
}

impl OneShotConnection {
    pub(super) fn new(inner: Connection, lines: Rc<Lines>, seals: Arc<OneShotSeals>, program: &Arc<Program>) -> Self {
        OneShotConnection { carrier: Carrier::new(inner, lines, program), seals }
    }

    pub(super) fn keeps(&self) -> bool {
        self.carrier.keeps()
    }

    pub(super) async fn is_open(&mut self) -> Result<bool, Failure> {
        self.carrier.is_open().await
    }

    pub(super) async fn finish(self, wait: Option<Duration>) {
        self.carrier.finish(wait).await;
    }

    /// Seals a request, and opens and checks its answer. Sends the request a second time where the client libraries do: after a retired
    /// key if the method is safe, and after a proven clock skew.
    ///
    /// # Errors
    /// A failure of class `Session` if there is no key, `KeyRetired`, `Replayed` and `ClockSkew` for such a rejection, `Unsealed` if an
    /// answer does not open, `Status` for another rejection, or any failure of the connection or of the checks.
    pub(super) async fn exchange(&mut self, prepared: &mut CurrentRequest, sample: &mut Sample) -> Result<(), Failure> {
        loop {
            let seals = self.seals.clone();
            let key = self.key(sample).await?;
            let before = Instant::now();
            let (raw, pending) = seal(&seals, &key, prepared)?;
            sample.seal = Some(sample.seal.unwrap_or_default() + before.elapsed());
            let (status, headers, body) = self.carrier.send(raw, sample).await?;
            let before = Instant::now();
            let opened = pending.open(status, &headers, &body);
            sample.open = Some(sample.open.unwrap_or_default() + before.elapsed());
            let err = match opened {
                Ok((status, plaintext)) => {
                    sample.status = status.as_u16();
                    sample.ended = Some(Instant::now());
                    return prepared.check_other(sample.status, &plaintext);
                }
                Err(err) => err,
            };
            let is_retired = err.code() == "key_retired";
            if is_retired {
                sample.keys_fetched += u32::from(seals.retired(&key, &err).await);
            }
            // Anybody on the path can have written the rejection of a key: only what may be executed twice is sent again.
            let is_safe = [Method::GET, Method::HEAD].contains(prepared.method());
            let is_renewed = !matches!(seals.seal, Seal::Hpke(_)) && !seals.is_pinned;
            let may_repeat = err.is_retryable() || (is_retired && is_safe && is_renewed);
            if sample.repeats > 0 || !may_repeat {
                return Err(failure(&err));
            }
            sample.repeats += 1;
        }
    }

    /// Returns the key to seal with. Fetches the target's keys if none is known.
    async fn key(&mut self, sample: &mut Sample) -> Result<Arc<KeyConfig>, Failure> {
        if let Some(known) = self.seals.known() {
            return Ok(known);
        }
        let before = Instant::now();
        let seals = self.seals.clone();
        let is_first = !seals.has_begun.load(Ordering::Relaxed);
        let mut held = seals.document.lock().await;
        let key = match seals.known() {
            Some(known) => known,
            None => {
                let keys = self.fetch(sample).await?;
                sample.keys_fetched += 1;
                seals.take(&mut held, &keys).map_err(|err| Failure::new(Class::Session, err))?
            }
        };
        // The time of the first key is no part of a request. That of a later one is: the first was retired or has ended.
        if is_first {
            sample.aside += before.elapsed();
        }
        Ok(key)
    }

    async fn fetch(&mut self, sample: &mut Sample) -> Result<Vec<u8>, Failure> {
        let path = self.seals.keys_path.clone();
        let mut headers = HeaderMap::new();
        if matches!(self.seals.seal, Seal::Ohttp(..)) {
            headers.insert(ACCEPT, HeaderValue::from_static(ohttp::KEYS_TYPE));
        }
        let raw = Raw { path: Some(path.clone()), headers, ..Raw::default() };
        let (status, _, keys) = self.carrier.send(raw, sample).await?;
        if status == StatusCode::OK {
            return Ok(keys);
        }
        let words = format!("the target has no keys at {path}: {status}; give --one-shot-key with its key");
        Err(Failure::new(Class::Session, words))
    }
}

/// Seals the request with a fresh encapsulation.
fn seal<'a>(
    seals: &'a OneShotSeals,
    key: &KeyConfig,
    prepared: &CurrentRequest,
) -> Result<(Raw, Pending<'a>), Failure> {
    let (path, body, mut headers) = (prepared.path()?, prepared.sent(), prepared.headers()?);
    for name in [CONTENT_LENGTH, TRANSFER_ENCODING, HOST] {
        headers.remove(name);
    }
    let internal = |err: Error| Failure::new(Class::Internal, err);
    let method = prepared.method();
    let (method, path, message, pending): (_, _, Message, _) = match &seals.seal {
        Seal::Hpke(keys) => {
            let (message, pending) = keys.seal(key, method, path.as_str(), &headers, &body).map_err(internal)?;
            (method.clone(), path, message, Pending::Hpke(pending))
        }
        Seal::Ehbp => {
            let (message, pending) = ehbp::seal(key, headers, &body).map_err(internal)?;
            (method.clone(), path, message, Pending::Ehbp(pending))
        }
        Seal::Ohttp(form, target) => {
            if !headers.contains_key(DATE) {
                let date = HeaderValue::try_from(http_date(SystemClock.now_ms()));
                headers.insert(DATE, date.map_err(|err| Failure::new(Class::Internal, err))?);
            }
            let inner = (method, target, path.as_str());
            let (message, pending) = ohttp::seal(key, *form, inner, &headers, &body).map_err(internal)?;
            (Method::POST, seals.keys_path.clone(), message, Pending::Ohttp(pending))
        }
    };
    let Message { headers, body, .. } = message;
    Ok((Raw { method, path: Some(path), headers, body, is_last: true, ..Raw::default() }, pending))
}

fn failure(err: &Error) -> Failure {
    let class = match (err.kind(), err.code()) {
        (ErrorKind::Problem { .. }, "key_retired") => Class::KeyRetired,
        (ErrorKind::Problem { .. }, "replayed") => Class::Replayed,
        (ErrorKind::Problem { .. }, "clock_skew") => Class::ClockSkew,
        (ErrorKind::Refused { status, .. }, _) if status.is_success() => Class::Unsealed,
        (ErrorKind::Problem { .. } | ErrorKind::Refused { .. }, _) => Class::Status,
        _ => Class::Unsealed,
    };
    Failure::new(class, err)
}

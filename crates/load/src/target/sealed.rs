//! Sealed sessions over a connection of another kind: `spec/session.md`, `spec/session-3.md`.
//!
//! [`sealway_client::compat`] and [`sealway_client::native`] seal and open; this module decides when a session is agreed and
//! measures the cost.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::header::{CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::uri::PathAndQuery;
use http::{Method, StatusCode, Uri};
use sealway_client::compat::{Agreement, Session};
use sealway_client::native::{self, KEY_SET_PATH, Keyring, suite_required};
use sealway_client::{Error, ErrorKind, Message, Offer, Wire};
use sealway_runtime::config::read_secret;

use super::carrier::Carrier;
use super::connect::Lines;
use super::{Connection, Sample};
use crate::plan::{self, Agree};
use crate::record::{Class, Failure};
use crate::request::{CurrentRequest, Program, Raw};

/// Settings by which a run agrees its sessions.
#[derive(Clone)]
pub(crate) struct Seals {
    wire: Wire,
    offer: Arc<Offer>,
    init_path: PathAndQuery,
    agree: Agree,
    service: Option<Arc<NativeService>>,
}

/// Knowledge about a service of wire 3, shared by all workers.
#[derive(Debug)]
struct NativeService {
    keyring: Keyring,
    /// Index of the offered suite that the service accepts.
    suite: AtomicUsize,
    url: String,
}

/// Agreed session of any wire.
#[derive(Debug)]
pub(crate) enum AnySession {
    Old(Session),
    Native(Box<native::Session>),
}

impl AnySession {
    fn is_usable(&self) -> bool {
        match self {
            AnySession::Old(session) => session.is_usable(),
            AnySession::Native(session) => session.is_usable(),
        }
    }
}

impl Seals {
    /// Prepares the plan's sessions and reads the file with the token.
    ///
    /// # Errors
    /// A one-line message if an init message cannot be built from the plan, or the token file cannot be read.
    pub(crate) fn new(sealed: &plan::SealedSessions, url: &Uri) -> Result<Self, String> {
        let wire = match sealed.wire {
            1 => Wire::V1,
            2 => Wire::V2,
            3 => Wire::Native,
            other => return Err(format!("wire {other} does not exist; use 1, 2 or 3")),
        };
        let init_path: PathAndQuery =
            sealed.init_path.parse().map_err(|err| format!("the init path {} is invalid: {err}", sealed.init_path))?;
        let token = sealed.token_file.as_deref().map(read_secret).transpose().map_err(|err| err.to_string())?;
        let offer = Offer {
            client_id: sealed.client_id.clone(),
            authorization: token.map(|token| format!("Bearer {token}")),
            suites: sealed.suites.clone(),
            signature_algorithms: sealed.signature_algorithms.clone(),
            ..Offer::default()
        };
        // Settings that allow no init message fail here instead of in each request.
        let service = match offer.suites.first() {
            _ if wire != Wire::Native => {
                Agreement::begin(wire, init_path.path(), &offer, &mut |_| ()).map_err(|err| err.to_string())?;
                None
            }
            None => return Err("no suite is offered".into()),
            Some(suite) => {
                let origin = native::origin(url);
                let keyring = Keyring::new(sealed.trust.clone(), &origin, &sealed.signature_algorithms)
                    .map_err(|err| err.to_string())?;
                let url = format!("{origin}{init_path}");
                native::Agreement::begin(&offer, *suite, keyring.pinned(), &url, None)
                    .map_err(|err| err.to_string())?;
                Some(Arc::new(NativeService { keyring, suite: 0.into(), url }))
            }
        };
        Ok(Seals { wire, offer: Arc::new(offer), init_path, agree: sealed.agree, service })
    }
}

/// Connection whose requests are sealed.
pub(crate) struct SealedConnection {
    carrier: Carrier,
    seals: Seals,
    /// Session of this connection, if each connection has its own.
    session: Option<Rc<AnySession>>,
}

impl SealedConnection {
    pub(crate) fn new(inner: Connection, lines: Rc<Lines>, seals: Seals, program: &Arc<Program>) -> Self {
        SealedConnection { carrier: Carrier::new(inner, lines, program), seals, session: None }
    }

    pub(crate) fn keeps(&self) -> bool {
        self.carrier.keeps()
    }

    pub(crate) async fn is_open(&mut self) -> Result<bool, Failure> {
        self.carrier.is_open().await
    }

    pub(crate) async fn finish(self, wait: Option<Duration>) {
        self.carrier.finish(wait).await;
    }

    /// Agrees a session if one is due, seals a request and opens its answer.
    ///
    /// # Errors
    /// A failure of class `Session` if no session can be agreed, `Unsealed` if the answer does not open, or any failure of the
    /// connection.
    pub(crate) async fn exchange(&mut self, prepared: &mut CurrentRequest, sample: &mut Sample) -> Result<(), Failure> {
        if self.seals.agree == Agree::InitOnly {
            self.agree(sample, true).await?;
            return prepared.check_other(sample.status, &[]);
        }
        let session = self.session(prepared, sample).await?;
        match self.call(&session, prepared, sample).await {
            // The service does not know the session any more: the client agrees another, once.
            Err(Refusal::Unknown(_)) if self.seals.agree != Agree::PerRequest => {
                let session = Rc::new(self.agree(sample, false).await?);
                self.keep(&session, prepared);
                self.call(&session, prepared, sample).await.map_err(Refusal::into_failure)
            }
            done => done.map_err(Refusal::into_failure),
        }
    }

    /// Returns the session to use now, agreed first if there is none.
    async fn session(&mut self, prepared: &mut CurrentRequest, sample: &mut Sample) -> Result<Rc<AnySession>, Failure> {
        let known = match self.seals.agree {
            Agree::PerConnection => self.session.clone(),
            Agree::Reuse => prepared.session.clone(),
            Agree::PerRequest | Agree::InitOnly => None,
        };
        if let Some(session) = known.as_ref().filter(|session| session.is_usable()) {
            return Ok(session.clone());
        }
        let before = Instant::now();
        let session = Rc::new(self.agree(sample, false).await?);
        // The time of a worker's first session is no part of its first request. A later session is: the first has ended.
        if self.seals.agree == Agree::Reuse && known.is_none() {
            sample.aside += before.elapsed();
        }
        self.keep(&session, prepared);
        Ok(session)
    }

    fn keep(&mut self, session: &Rc<AnySession>, prepared: &mut CurrentRequest) {
        match self.seals.agree {
            Agree::PerConnection => self.session = Some(session.clone()),
            Agree::Reuse => prepared.session = Some(session.clone()),
            Agree::PerRequest | Agree::InitOnly => {}
        }
    }

    async fn agree(&mut self, sample: &mut Sample, is_last: bool) -> Result<AnySession, Failure> {
        let before = Instant::now();
        let agreed = match self.seals.service.clone() {
            Some(service) => AnySession::Native(Box::new(self.agree_native(&service, sample, is_last).await?)),
            None => {
                let Seals { wire, offer, init_path, .. } = &self.seals;
                let begun = Agreement::begin(*wire, init_path.path(), offer, &mut |_| ());
                let (agreement, message) = begun.map_err(not_agreed)?;
                let raw = raw(Method::POST, self.seals.init_path.clone(), message, is_last);
                let (status, _, body) = self.carrier.send(raw, sample).await?;
                AnySession::Old(agreement.finish(status, &body, &mut |_| ()).map_err(not_agreed)?)
            }
        };
        sample.key_agreement = Some(sample.key_agreement.unwrap_or_default() + before.elapsed());
        sample.sessions_agreed += 1;
        Ok(agreed)
    }

    async fn agree_native(
        &mut self,
        service: &NativeService,
        sample: &mut Sample,
        is_last: bool,
    ) -> Result<native::Session, Failure> {
        let offer = self.seals.offer.clone();
        let mut may_change = true;
        loop {
            let suite = offer.suites.get(service.suite.load(Ordering::Relaxed)).copied().unwrap_or(offer.suites[0]);
            let begun = native::Agreement::begin(&offer, suite, service.keyring.pinned(), &service.url, None);
            let (agreement, message) = begun.map_err(not_agreed)?;
            let raw = raw(Method::POST, self.seals.init_path.clone(), message, is_last);
            let (status, _, body) = self.carrier.send(raw, sample).await?;
            let arrived = Instant::now();
            let signer = match agreement.claimed(status, &body) {
                Ok(signer) => signer,
                Err(err) => {
                    let wanted = suite_required(&err, &offer.suites).filter(|_| std::mem::take(&mut may_change));
                    let index = offer.suites.iter().position(|suite| Some(*suite) == wanted);
                    service.suite.store(index.ok_or_else(|| not_agreed(err))?, Ordering::Relaxed);
                    continue;
                }
            };
            let key = match service.keyring.key(&signer).map_err(not_agreed)? {
                Some(key) => key,
                None => {
                    let set = self.key_set(sample, is_last).await?;
                    service.keyring.look_up(&signer, &set).map_err(not_agreed)?
                }
            };
            let session = agreement.finish(&key, &body, arrived).map_err(not_agreed)?;
            service.keyring.remember(session.agreed()).map_err(not_agreed)?;
            sample.status = status.as_u16();
            sample.suite = Some(suite);
            return Ok(session);
        }
    }

    async fn key_set(&mut self, sample: &mut Sample, is_last: bool) -> Result<Vec<u8>, Failure> {
        let path = PathAndQuery::from_static(KEY_SET_PATH);
        let (status, _, set) = self.carrier.send(Raw { path: Some(path), is_last, ..Raw::default() }, sample).await?;
        if status == StatusCode::OK {
            return Ok(set);
        }
        let words = format!("the service has no key set at {KEY_SET_PATH}: {status}; give --pin with its public key");
        Err(Failure::new(Class::Session, words))
    }

    async fn call(
        &mut self,
        session: &AnySession,
        prepared: &CurrentRequest,
        sample: &mut Sample,
    ) -> Result<(), Refusal> {
        match session {
            AnySession::Old(session) => self.call_compat(session, prepared, sample).await,
            AnySession::Native(session) => self.call_native(session, prepared, sample).await,
        }
    }

    async fn call_native(
        &mut self,
        session: &native::Session,
        prepared: &CurrentRequest,
        sample: &mut Sample,
    ) -> Result<(), Refusal> {
        let (path, body, method) = (prepared.path()?, prepared.sent(), prepared.method());
        let before = Instant::now();
        let sealed = session.seal(method, path.as_str(), &prepared.headers()?, &body);
        let (message, pending) = sealed.map_err(|err| Failure::new(Class::Internal, err))?;
        sample.seal = Some(before.elapsed());
        let (status, headers, body) = self.carrier.send(raw(method.clone(), path, message, true), sample).await?;
        let before = Instant::now();
        let opened = pending.open(status, &headers, &body);
        sample.open = Some(before.elapsed());
        let (_, plaintext) = match opened {
            Ok(opened) => opened,
            Err(err) => {
                let failure = match err.kind() {
                    ErrorKind::Problem { .. } => {
                        Failure::new(Class::Status, format!("the call was rejected without sealing: {err}"))
                    }
                    ErrorKind::Refused { .. } => Failure::new(Class::Status, format!("response not sealed: {err}")),
                    _ => return Err(Failure::new(Class::Unsealed, err).into()),
                };
                return Err(if err.code() == "session_expired" { Refusal::Unknown(failure) } else { failure.into() });
            }
        };
        sample.ended = Some(Instant::now());
        prepared.check_other(sample.status, &plaintext)?;
        Ok(())
    }

    async fn call_compat(
        &mut self,
        session: &Session,
        prepared: &CurrentRequest,
        sample: &mut Sample,
    ) -> Result<(), Refusal> {
        let path = prepared.path()?;
        let body = prepared.sent();
        let before = Instant::now();
        let sealed = session.seal(path.as_str(), &body, &mut |_| ());
        let (message, pending) = sealed.map_err(|err| Failure::new(Class::Internal, err))?;
        sample.seal = Some(before.elapsed());
        let mut raw = raw(Method::POST, path, message, true);
        for (name, value) in prepared.headers()? {
            let Some(name) = name else { continue };
            if !raw.headers.contains_key(&name) && ![CONTENT_LENGTH, TRANSFER_ENCODING, HOST].contains(&name) {
                raw.headers.insert(name, value);
            }
        }
        let (status, headers, body) = self.carrier.send(raw, sample).await?;
        let before = Instant::now();
        let opened = pending.open(status, &headers, body.into(), &mut |_| ());
        sample.open = Some(before.elapsed());
        let plaintext = match opened {
            Ok(plaintext) => plaintext,
            Err(err) => {
                return Err(match err.kind() {
                    ErrorKind::Refused { status: StatusCode::UNAUTHORIZED, body } => {
                        let words = format!("the call was rejected: the session is unknown or has ended: 401 {body}");
                        Refusal::Unknown(Failure::new(Class::Status, words))
                    }
                    ErrorKind::Refused { status, body } => {
                        Failure::new(Class::Status, format!("the call was rejected without sealing: {status} {body}"))
                            .into()
                    }
                    _ => Failure::new(Class::Unsealed, err).into(),
                });
            }
        };
        sample.ended = Some(Instant::now());
        prepared.check_other(sample.status, &plaintext)?;
        Ok(())
    }
}

fn not_agreed(err: Error) -> Failure {
    Failure::new(Class::Session, format!("no session could be agreed: {err}"))
}

fn raw(method: Method, path: PathAndQuery, message: Message, is_last: bool) -> Raw {
    Raw { method, path: Some(path), headers: message.headers, body: message.body, is_last, ..Raw::default() }
}

/// Reason why a call failed.
enum Refusal {
    /// The service does not know the session; the client may agree another.
    Unknown(Failure),
    Other(Failure),
}

impl Refusal {
    fn into_failure(self) -> Failure {
        match self {
            Refusal::Unknown(failure) | Refusal::Other(failure) => failure,
        }
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Refusal::Other(failure)
    }
}

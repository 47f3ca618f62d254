//! Calls over HTTP: one client for all wires. It agrees sessions, sends sealed requests, and retries safe ones.
//!
//! The module does not know the bytes of a wire. [`crate::compat`] has wires 1 and 2, [`crate::native`] wire 3.

mod body;
mod builder;
mod trace;
mod transport;

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::header::HeaderMap;
use http::{Method, Request, Response, Uri};
use hyper::body::Body as HttpBody;
use sealway_proto::wire::{SessionId, Wire};
use tokio::sync::RwLock;
use tokio::time::Instant;

pub use self::body::Body;
pub(crate) use self::body::Payload;
use self::body::read;
pub(crate) use self::builder::Settings;
pub use self::builder::{Builder, Offer};
pub(crate) use self::trace::{Meter, texts};
pub use self::trace::{Timings, Trace};
pub(crate) use self::transport::{AGREEMENT_LEN_MAX, BoxError, Outgoing, Pieces, Transport};
use crate::error::{Error, ErrorKind, Stage};
use crate::native::{InitAnswer, Keyring, KnownService, Trust, TrustStore, key_log, origin};
use crate::{compat, native};

/// Description of an agreed session.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SessionInfo {
    /// Id of the session, chosen by the service.
    pub id: SessionId,
    /// Lifetime of the session in seconds, from its agreement.
    pub expires_in_sec: u64,
    /// Durations of the agreement's steps.
    pub timings: Timings,
    /// On wire 3, the service's signed answer; `None` on wires 1 and 2, which do not prove the service's identity.
    pub agreed: Option<InitAnswer>,
}

/// A client of one service. Clones share the session and its connections.
#[derive(Clone)]
pub struct Client(Arc<Calls>);

/// A session of any wire.
enum Session {
    Compat(compat::Session),
    Native(Box<native::Session>),
}

/// The client's current session and its state.
struct Active {
    session: Session,
    info: SessionInfo,
    /// Set when the service reports, proven or not, that it does not know the session: no further call begins in it.
    /// The flag belongs to this session, so that a late answer does not invalidate a newer one.
    is_given_up: AtomicBool,
}

impl Active {
    fn is_usable(&self) -> bool {
        let lasts = match &self.session {
            Session::Compat(session) => session.is_usable(),
            Session::Native(session) => session.is_usable(),
        };
        lasts && !self.is_given_up.load(Ordering::Relaxed)
    }

    /// The session for a renewal or an end at the service; `None` on wires 1 and 2, and after its end.
    fn live(&self) -> Option<&native::Session> {
        match &self.session {
            Session::Native(session) if !session.is_over() => Some(session),
            _ => None,
        }
    }
}

/// Method, path and headers that are sealed with a request.
pub(crate) struct Line<'a> {
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) headers: &'a HeaderMap,
}

/// Failure of one attempt, with its remedy.
pub(crate) struct Failure {
    pub(crate) err: Error,
    /// Change after which another attempt may succeed.
    pub(crate) remedy: Option<Remedy>,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Remedy {
    /// Agree a new session: the service or an intermediary says that the old one is over.
    NewSession,
    /// Retry with the corrected clock, which the service proved.
    Clock,
    /// Seal to another key: the service no longer accepts this one.
    #[cfg(feature = "one-shot")]
    NewKey,
}

impl<E: Into<Error>> From<E> for Failure {
    fn from(err: E) -> Self {
        Failure { err: err.into(), remedy: None }
    }
}

/// Connections, settings and the session of one client.
pub(crate) struct Calls {
    pub(crate) service: Transport,
    /// Connections to the service that agrees, renews and ends sessions.
    pub(crate) authority: Transport,
    pub(crate) settings: Arc<Settings>,
    pub(crate) keyring: Arc<Keyring>,
    slot: RwLock<Option<Arc<Active>>>,
}

impl Client {
    /// Starts the settings of a client for the service at `url`, `http://` or `https://`. The URL's path is not used.
    pub fn builder<U: TryInto<Uri, Error: Display>>(url: U) -> Builder {
        Builder::new(url)
    }

    fn new(base: Uri, settings: Settings) -> Result<Self, Error> {
        let service = Transport::new(base, &settings)?;
        let authority = match &settings.authority_url {
            Some(url) if *url != service.base => Transport::new(url.clone(), &settings)?,
            _ => service.clone(),
        };
        let is_native = settings.wire == Wire::Native;
        if let Some(file) = settings.key_log.as_deref().filter(|_| is_native) {
            key_log::check(file)?;
        }
        let trust = match &settings.trust {
            _ if !is_native => Trust::FirstUse(TrustStore::Memory),
            Some(trust) => trust.clone(),
            None => {
                let remedy = "pin the service's keys (Trust::Pins) or their root (Trust::Root), or trust the first use";
                return Err(ErrorKind::Usage(format!("trust is missing: {remedy} (Trust::FirstUse)")).into());
            }
        };
        let keyring = Arc::new(Keyring::new(trust, &origin(&authority.base), &settings.offer.signature_algorithms)?);
        let settings = Arc::new(settings);
        Ok(Client(Arc::new(Calls { service, authority, settings, keyring, slot: RwLock::default() })))
    }

    /// Returns the current session. Agrees one if there is none or it is about to end.
    ///
    /// # Errors
    /// [`Error`] of the agreement.
    pub async fn session(&self) -> Result<SessionInfo, Error> {
        self.0.session(self.0.deadline()).await.map(|active| active.info.clone())
    }

    /// Identity keys that this client learnt at its first use; `None` if it learnt none itself. Only
    /// [`Trust::FirstUse`] learns keys.
    pub fn first_use(&self) -> Option<KnownService> {
        self.0.keyring.first_use()
    }

    /// Drops the session on this side: the next call agrees a new one.
    pub async fn forget(&self) {
        *self.0.slot.write().await = None;
    }

    /// Ends the session, on wire 3 also at the service; wires 1 and 2 have no message for it. The next call agrees a
    /// new one.
    ///
    /// # Errors
    /// [`Error`] of the exchange; the session is dropped on this side nonetheless.
    pub async fn end(&self) -> Result<(), Error> {
        let calls = &self.0;
        let end = async {
            let active = calls.slot.write().await.take();
            match active.as_ref().and_then(|active| active.live()) {
                Some(session) => native::end(calls, session).await,
                None => Ok(()),
            }
        };
        calls.within(calls.deadline(), Stage::Agreement, end).await
    }

    /// Seals a request, sends it, and opens its answer as it arrives. A URI with an origin has to name this service's:
    /// nothing is sent elsewhere. The response has a [`Trace`] among its extensions.
    ///
    /// On wire 3 the request's headers are sealed, except those that frame a message, which are dropped; the response's
    /// headers are those that the service sealed. A body of known length up to [`Builder::request_max_bytes`] bytes is
    /// read before it is sent. A longer one is sealed as it arrives: a frame ends when its source has no more data
    /// ready, and less than 1 MiB is held. Wires 1 and 2 seal only a `POST` without headers, whose bodies are read
    /// whole; intermediaries can change the response's headers.
    ///
    /// If the service no longer knows the session, the client agrees a new one; if the client's clock is wrong, the
    /// client corrects it. Each happens once per call. The client then retries a request whose body was buffered; on
    /// wire 3 the method must also be safe, or the service must prove that no server can have executed the request.
    /// Else the caller gets the error, and the next call has the new session or time.
    ///
    /// # Errors
    /// [`Error`] of the agreement or the exchange.
    pub async fn send<B>(&self, request: Request<B>) -> Result<Response<Body>, Error>
    where
        B: HttpBody + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let (head, body) = request.into_parts();
        self.0.service.check_origin(&head.uri)?;
        let line = Line { method: &head.method, path: path(&head.uri), headers: &head.headers };
        let (settings, deadline) = (&self.0.settings, self.0.deadline());
        let payload = async {
            if settings.wire == Wire::Native {
                return Payload::new(body, settings.request_max_bytes).await;
            }
            compat::check(&line)?;
            read(body, settings.request_max_bytes).await.map(Payload::Whole)
        };
        let payload = self.0.within(deadline, Stage::Call, payload).await?;
        self.0.send(&line, payload, deadline).await
    }

    /// Seals a request without sending it, for demonstrations and tests. The body has at most [`Builder::request_max_bytes`]
    /// bytes.
    ///
    /// # Errors
    /// [`Error`] of the agreement, of the body or of the seal.
    pub async fn seal<B>(&self, request: Request<B>) -> Result<Request<Bytes>, Error>
    where
        B: HttpBody + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let (mut head, body) = request.into_parts();
        let body = read(body, self.0.settings.request_max_bytes).await?;
        let line = Line { method: &head.method, path: path(&head.uri), headers: &head.headers };
        let message = match &self.0.session(self.0.deadline()).await?.session {
            Session::Compat(session) => {
                compat::check(&line)?;
                session.seal(line.path, &body, &mut |_| ())?.0
            }
            Session::Native(session) => session.seal(line.method, line.path, line.headers, &body)?.0,
        };
        head.headers = message.headers;
        Ok(Request::from_parts(head, message.body))
    }

    /// Sends a request unchanged: one that [`Client::seal`] sealed, or a captured one. Its answer is not opened. For
    /// demonstrations and tests.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`], and those of the exchange.
    pub async fn send_sealed(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Error> {
        let (head, body) = request.into_parts();
        self.0.service.check_origin(&head.uri)?;
        let len_max = self.0.settings.answer_max_bytes;
        let sent = self.0.service.whole(head.method, path(&head.uri), head.headers, body, len_max);
        self.0.within(self.0.deadline(), Stage::Call, sent).await
    }
}

fn path(uri: &Uri) -> &str {
    uri.path_and_query().map_or("/", |path| path.as_str())
}

impl Calls {
    /// End of a call that begins now.
    fn deadline(&self) -> Option<Instant> {
        self.settings.total_timeout.map(|total| Instant::now() + total)
    }

    /// Runs a part of a call until the call's deadline, and completes its error.
    async fn within<T>(
        &self,
        deadline: Option<Instant>,
        stage: Stage,
        part: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let base = if stage == Stage::Agreement { &self.authority.base } else { &self.service.base };
        let done = match (deadline, self.settings.total_timeout) {
            (Some(at), Some(after)) => tokio::time::timeout_at(at, part).await.unwrap_or_else(|_| {
                Err(ErrorKind::Timeout { url: base.to_string(), after, option: "total_timeout" }.into())
            }),
            _ => part.await,
        };
        done.map_err(|err| err.at(stage, base))
    }

    /// Terms of an init, with `Authorization`, or of a renewal, which its session authorizes.
    pub(crate) async fn offer(&self, is_init: bool) -> Result<Offer, Error> {
        let mut offer = self.settings.offer.clone();
        if let Some(authorization) = self.settings.authorization.as_ref().filter(|_| is_init) {
            offer.authorization = Some(authorization().await?);
        }
        Ok(offer)
    }

    /// Returns the current session: renewed if it is about to end, agreed anew if there is none or it was given up.
    /// Concurrent callers share one agreement, and each waits until its own deadline.
    async fn session(&self, deadline: Option<Instant>) -> Result<Arc<Active>, Error> {
        self.within(deadline, Stage::Agreement, self.usable()).await
    }

    async fn usable(&self) -> Result<Arc<Active>, Error> {
        if let Some(active) = self.slot.read().await.as_ref().filter(|active| active.is_usable()) {
            return Ok(active.clone());
        }
        // Waits for the agreement of another caller.
        let mut slot = self.slot.write().await;
        // Another task may have agreed a session meanwhile.
        if let Some(active) = slot.as_ref().filter(|active| active.is_usable()) {
            return Ok(active.clone());
        }
        let old = slot.as_ref().filter(|old| !old.is_given_up.load(Ordering::Relaxed));
        let renewed = match old.and_then(|old| old.live()) {
            // After a failed renewal, an init may still succeed.
            Some(old) => self.agree(Some(old)).await.ok(),
            None => None,
        };
        let active = Arc::new(match renewed {
            Some(active) => active,
            None => self.agree(None).await?,
        });
        *slot = Some(active.clone());
        Ok(active)
    }

    async fn agree(&self, old: Option<&native::Session>) -> Result<Active, Error> {
        let meter = Meter::new();
        let (session, headers) = if self.settings.wire == Wire::Native {
            let (session, headers) = native::agree(self, old, &meter).await?;
            (Session::Native(Box::new(session)), headers)
        } else {
            let (session, headers) = compat::agree(self, &meter).await?;
            (Session::Compat(session), headers)
        };
        meter.end();
        let (id, expires_in_sec, agreed) = match &session {
            Session::Compat(session) => (*session.id(), session.expires_in_sec(), None),
            Session::Native(session) => {
                (*session.id(), session.agreed().expires_in_sec.into(), Some(session.agreed().clone()))
            }
        };
        let info = SessionInfo { id, expires_in_sec, timings: meter.timings(trace::server_timing(&headers)), agreed };
        Ok(Active { session, info, is_given_up: false.into() })
    }

    async fn send(
        &self,
        line: &Line<'_>,
        mut payload: Payload,
        deadline: Option<Instant>,
    ) -> Result<Response<Body>, Error> {
        let (mut done, mut active) = (Vec::new(), self.session(deadline).await?);
        loop {
            let kept = match &payload {
                Payload::Whole(body) => Some(body.clone()),
                Payload::Flow(_) => None,
            };
            let attempt = async {
                Ok(match (&active.session, payload) {
                    (Session::Compat(session), Payload::Whole(body)) => compat::call(self, session, line, body).await,
                    (Session::Compat(_), Payload::Flow(_)) => {
                        Err(ErrorKind::Usage("bodies stream on wire 3 alone".into()).into())
                    }
                    (Session::Native(session), payload) => {
                        native::call(self, &self.service, session, line, payload, deadline).await
                    }
                })
            };
            let Failure { err, remedy } = match self.within(deadline, Stage::Call, attempt).await? {
                Ok(response) => return Ok(response),
                Err(failure) => failure,
            };
            let err = err.at(Stage::Call, &self.service.base);
            if remedy == Some(Remedy::NewSession) {
                active.is_given_up.store(true, Ordering::Relaxed);
            }
            // Each remedy is tried once; a body that was not buffered cannot be sent again.
            let (Some(remedy), Some(body), true) = (remedy, kept, err.is_retryable()) else { return Err(err) };
            if done.contains(&remedy) {
                return Err(err);
            }
            done.push(remedy);
            if remedy == Remedy::NewSession {
                active = self.session(deadline).await?;
            }
            payload = Payload::Whole(body);
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("base", &self.0.service.base).finish_non_exhaustive()
    }
}

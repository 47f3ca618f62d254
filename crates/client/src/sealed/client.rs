//! Sessions of wire 3 over connections: agreed, renewed, ended, and calls in them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Body;
use sealway_proto::session::Step;
use sealway_proto::session::three::FrameSealer;
use sealway_proto::session::three::client::Claimed;
use sealway_proto::session::three::problem::PROBLEM_LEN_MAX;
use sealway_proto::wire::base64;
use sealway_proto::wire::header::{X_IDEMPOTENCY_KEY, X_KID, X_SEAL, X_SEALED};
use tokio::sync::RwLock;

use super::session::{Begun, Pending, Refusal, told};
use super::stream::{Progress, Sealing};
use super::trust::{KEY_SET_PATH, origin};
use super::{Agreement, INIT_PATH, Keyring, PublicKey, SealedBody, Session, key_log, suite_required};
use crate::error::Error;
use crate::exchange::{Laps, Outgoing, insert};
use crate::session::{Answer, Options, Seen, Timings, server_timing, texts};
use crate::transport::{BoxError, Sent, Transport, whole};

/// Agreed, and what that cost.
pub(crate) struct Agreed {
    pub(crate) session: Session,
    pub(crate) timings: Timings,
    /// The service says, proven or not, that it does not know the session: no further call begins in it. It is this one's
    /// own, so a late answer takes none from the calls that a newer one serves.
    is_given_up: AtomicBool,
}

impl Agreed {
    fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::Relaxed)
    }
}

/// The sessions of one client, one at a time.
pub(crate) struct Sessions {
    transport: Transport,
    /// Where sessions are agreed, renewed and ended.
    authority: Transport,
    options: Arc<Options>,
    keyring: Arc<Keyring>,
    slot: RwLock<Option<Arc<Agreed>>>,
}

/// A call that came to nothing.
enum Failed {
    /// The session is over, says the service or somebody in between.
    Over {
        again: bool,
        err: Error,
    },
    /// The session's clock was set anew, by the service's own word.
    Clock {
        again: bool,
        err: Error,
    },
    Other(Error),
}

impl From<Error> for Failed {
    fn from(err: Error) -> Self {
        Failed::Other(err)
    }
}

impl Failed {
    fn into_error(self) -> Error {
        match self {
            Failed::Over { err, .. } | Failed::Clock { err, .. } | Failed::Other(err) => err,
        }
    }
}

/// What was done once and is not done again.
#[derive(Default)]
struct Again {
    clock: bool,
    session: bool,
}

/// How the stream of a request is made.
type MakeBody = Box<dyn FnOnce(FrameSealer, Vec<u8>, Arc<Progress>) -> Sent + Send>;

impl Sessions {
    pub(crate) fn new(transport: Transport, options: Arc<Options>) -> Result<Self, Error> {
        if options.suites.is_empty() {
            return Err(Error::Usage("no suite is offered".into()));
        }
        if let Some(file) = &options.key_log {
            key_log::check(file)?;
        }
        let authority = transport.at(options.session_url.as_ref())?;
        let keyring = Arc::new(Keyring::new(options.trust.clone(), &origin(authority.base()))?);
        Ok(Sessions { transport, authority, options, keyring, slot: RwLock::default() })
    }

    /// Whether the service is known: at first use it is not yet.
    pub(crate) fn is_met(&self) -> bool {
        self.keyring.is_met()
    }

    /// Where a request to this path goes: a session's own paths are its authority's.
    fn place(&self, path: &str) -> &Transport {
        let is_of_session = path.strip_prefix(INIT_PATH).is_some_and(|rest| rest.starts_with('/'));
        if is_of_session { &self.authority } else { &self.transport }
    }

    /// Seals without sending.
    pub(crate) async fn seal_only(&self, method: &Method, path: &str, body: &[u8]) -> Result<Outgoing, Error> {
        let agreed = self.session().await?;
        agreed.session.seal(method, path, &HeaderMap::new(), body).map(|(message, _)| message)
    }

    /// The session in use; renewed when it is about to end, agreed anew when there is none or it was given up: once, however
    /// many callers want it.
    pub(crate) async fn session(&self) -> Result<Arc<Agreed>, Error> {
        let usable = |agreed: &&Arc<Agreed>| !agreed.is_given_up() && agreed.session.is_usable();
        if let Some(agreed) = self.slot.read().await.as_ref().filter(usable) {
            return Ok(agreed.clone());
        }
        // Whoever waits here waits for another's exchange, and no longer than for one of its own.
        let after = self.transport.timeout();
        let mut slot = tokio::time::timeout(after, self.slot.write())
            .await
            .map_err(|_| Error::Timeout { url: self.transport.base().to_string(), after })?;
        // Another task may have been faster.
        if let Some(agreed) = slot.as_ref().filter(usable) {
            return Ok(agreed.clone());
        }
        let old = slot.as_ref().filter(|old| !old.is_given_up() && !old.session.is_over());
        let renewed = match old {
            // Whatever speaks against a renewal, an init may still do.
            Some(old) => self.agree(Some(old)).await.ok(),
            None => None,
        };
        let agreed = Arc::new(match renewed {
            Some(agreed) => agreed,
            None => self.agree(None).await?,
        });
        *slot = Some(agreed.clone());
        Ok(agreed)
    }

    pub(crate) async fn forget(&self) {
        *self.slot.write().await = None;
    }

    /// Has the service forget the session, if there is one.
    pub(crate) async fn end(&self) -> Result<(), Error> {
        let Some(agreed) = self.slot.write().await.take().filter(|agreed| !agreed.session.is_over()) else {
            return Ok(());
        };
        let path = format!("{INIT_PATH}/{}", agreed.session.id());
        match self.exchange(&agreed.session, &Method::DELETE, &path, &HeaderMap::new(), b"").await {
            Ok(answer) if answer.status.is_success() => Ok(()),
            Ok(answer) => Err(Error::Refused { status: answer.status, body: String::new() }),
            // It knows no such session any more: that is what was wanted.
            Err(Failed::Over { .. }) => Ok(()),
            Err(failed) => Err(failed.into_error()),
        }
    }

    async fn agree(&self, old: Option<&Arc<Agreed>>) -> Result<Agreed, Error> {
        let start = Instant::now();
        let (mut suite, mut may_change, mut may_retake) = (self.options.suites[0], true, true);
        if let Some(old) = old {
            suite = old.session.agreed().suite;
        }
        let url = self.authority.uri(INIT_PATH)?.to_string();
        loop {
            let mut laps = Laps::start();
            let pinned = self.keyring.pinned();
            let renewed = old.map(|old| &old.session);
            let (agreement, message) = Agreement::begin(&self.options, suite, pinned, &url, renewed)?;
            laps.named("share");
            let sent = Instant::now();
            let answered = self.ask(message, old).await;
            let (http, arrived) = (sent.elapsed(), Instant::now());
            let claimed = answered.and_then(|(status, headers, body)| {
                agreement.claimed(status, &body).map(|signer| (signer, headers, body))
            });
            let (signer, headers, body) = match claimed {
                Ok(claimed) => claimed,
                Err(err) => {
                    let wanted = suite_required(&err, &self.options.suites).filter(|wanted| *wanted != suite);
                    if let Some(wanted) = wanted.filter(|_| may_change) {
                        (suite, may_change) = (wanted, false);
                        continue;
                    }
                    match &err {
                        Error::Problem { code, more, .. } if code == "key_retired" && may_retake => {
                            may_retake = false;
                            self.keyring.retired(more.get("key_set"))?;
                        }
                        _ => return Err(err),
                    }
                    continue;
                }
            };
            let key = self.key(signer).await?;
            laps.skip();
            let session = agreement.finish(&key, &body, arrived)?;
            laps.named("agree");
            self.keep(&session).await?;
            let crypto = laps.steps;
            let timings = Timings { round_trip: start.elapsed(), http, crypto, server: server_timing(&headers) };
            return Ok(Agreed { session, timings, is_given_up: false.into() });
        }
    }

    /// Sends an init in plain, or a renewal in the session that it is about.
    async fn ask(&self, message: Outgoing, old: Option<&Arc<Agreed>>) -> Result<(StatusCode, HeaderMap, Bytes), Error> {
        let Some(old) = old else {
            let body = whole(message.body);
            return self.authority.send(self.authority.request(Method::POST, INIT_PATH, message.headers, body)?).await;
        };
        let path = format!("{INIT_PATH}/{}/renew", old.session.id());
        let sent = self.exchange(&old.session, &Method::POST, &path, &message.headers, &message.body).await;
        let answer = sent.map_err(Failed::into_error)?;
        Ok((answer.status, answer.headers, answer.body))
    }

    /// The signer's identity key, if it is trusted; asks the service for its key set where that is needed.
    async fn key(&self, signer: Claimed) -> Result<PublicKey, Error> {
        match self.keyring.key(&signer)? {
            Some(key) => Ok(key),
            None => {
                let (set, keyring) = (self.key_set().await?, self.keyring.clone());
                blocking(move || keyring.look_up(&signer, &set)).await
            }
        }
    }

    async fn key_set(&self) -> Result<Bytes, Error> {
        let request = self.authority.request(Method::GET, KEY_SET_PATH, HeaderMap::new(), whole(Bytes::new()))?;
        let (status, _, body) = self.authority.send(request).await?;
        if status == StatusCode::OK {
            return Ok(body);
        }
        Err(Error::Trust(format!("the service has no key set at {KEY_SET_PATH} ({status}); pin its public key itself")))
    }

    /// Keeps what an agreed session says of the service's keys, and writes the key log.
    async fn keep(&self, session: &Session) -> Result<(), Error> {
        let agreed = session.agreed();
        if self.keyring.wants_set(agreed) {
            match self.key_set().await {
                Ok(set) => self.keyring.see(&set)?,
                // The key in use is known; the next agreement asks again for the others.
                Err(_) if self.keyring.is_met() => {}
                Err(err) => return Err(err),
            }
        }
        let (keyring, agreed) = (self.keyring.clone(), agreed.clone());
        blocking(move || keyring.remember(&agreed)).await?;
        self.options.key_log.as_ref().map_or(Ok(()), |file| key_log::write(file, session))
    }

    /// A call with a body that is there. It is sent once more if its method is safe, or no server can have served it.
    pub(crate) async fn request(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<Answer, Error> {
        let mut again = Again::default();
        let mut agreed = self.session().await?;
        loop {
            match self.exchange(&agreed.session, method, path, headers, body).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => agreed = self.heal(agreed, failed, true, &mut again).await?,
            }
        }
    }

    /// A call whose bodies flow. It is sent once more only if its own body is empty: of another, a part is gone.
    pub(crate) async fn stream<B>(&self, request: Request<B>) -> Result<Response<SealedBody>, Error>
    where
        B: Body + Send + 'static,
        B::Error: Into<BoxError>,
    {
        self.transport.check_origin(request.uri())?;
        let (head, body) = request.into_parts();
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let (is_empty, mut body) = (body.is_end_stream(), Some(body));
        let mut again = Again::default();
        let mut agreed = self.session().await?;
        loop {
            let begun = agreed.session.begin(&head.method, path, &head.headers, is_empty)?;
            let make: MakeBody = match body.take().filter(|_| !is_empty) {
                Some(body) => Box::new(|sealer, inner, progress| {
                    Sealing::new(body, sealer, inner, false, progress).boxed_unsync()
                }),
                None => Box::new(|sealer, inner, progress| {
                    Sealing::new(whole(Bytes::new()), sealer, inner, true, progress).boxed_unsync()
                }),
            };
            match self.call(begun, &head.method, path, make).await {
                Ok(response) => return Ok(response),
                Err(failed) => agreed = self.heal(agreed, failed, is_empty, &mut again).await?,
            }
        }
    }

    /// What to send a call in that failed, if it may be sent once more and `is_whole`, with its body at hand. A session that is
    /// over serves no further call either way.
    async fn heal(
        &self,
        agreed: Arc<Agreed>,
        failed: Failed,
        is_whole: bool,
        done: &mut Again,
    ) -> Result<Arc<Agreed>, Error> {
        match failed {
            Failed::Clock { again: true, .. } if is_whole && !std::mem::replace(&mut done.clock, true) => Ok(agreed),
            Failed::Over { again, err } => {
                agreed.is_given_up.store(true, Ordering::Relaxed);
                if !again || !is_whole || std::mem::replace(&mut done.session, true) {
                    return Err(err);
                }
                self.session().await
            }
            failed => Err(failed.into_error()),
        }
    }

    async fn exchange(
        &self,
        session: &Session,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<Answer, Failed> {
        let start = Instant::now();
        let mut laps = Laps::start();
        let (message, pending) = session.seal(method, path, headers, body)?;
        laps.named(Step::Encrypt.name());
        let mut seen =
            Seen { request_headers: texts(message.headers.iter()), request_len: message.body.len(), ..Seen::default() };
        seen.request_aad = bound(method, path, &message.headers);
        let request = self.place(path).request(method.clone(), path, message.headers, whole(message.body))?;
        let sent = Instant::now();
        let (status, outer, body) = self.transport.send(request).await?;
        let http = sent.elapsed();
        (seen.answer_len, seen.answer_headers) = (body.len(), texts(outer.iter()));
        if !outer.contains_key(X_SEAL) {
            return Err(self.refused(&pending, method, status, &body));
        }
        laps.skip();
        let opened = pending.open(status, &outer, &body)?;
        laps.named(Step::Decrypt.name());
        let timings = Timings { round_trip: start.elapsed(), http, crypto: laps.steps, server: server_timing(&outer) };
        Ok(Answer { status, headers: opened.headers, body: opened.body, timings, seen })
    }

    async fn call(
        &self,
        begun: Begun<'_>,
        method: &Method,
        path: &str,
        make: MakeBody,
    ) -> Result<Response<SealedBody>, Failed> {
        let Begun { mut headers, mut sealer, inner, is_bodyless, pending } = begun;
        let progress = Progress::new();
        let body = if is_bodyless {
            let begun_at = Instant::now();
            let sealed = super::session::one_frame(&mut sealer, &inner)?;
            progress.sealed(sealed.len(), begun_at.elapsed());
            insert(&mut headers, X_SEALED, &base64::encode(&sealed))?;
            whole(Bytes::new())
        } else {
            make(sealer, inner, progress.clone())
        };
        let request = self.transport.request(method.clone(), path, headers, body)?;
        let (url, after) = (request.uri().to_string(), self.transport.timeout());
        let mut seen = Seen { request_headers: texts(request.headers().iter()), ..Seen::default() };
        seen.request_aad = bound(method, path, request.headers());
        let start = Instant::now();
        let answered = async {
            let (head, body) = self.transport.head(request).await?.into_parts();
            if !head.headers.contains_key(X_SEAL) {
                let body = self.transport.rest(&url, body, PROBLEM_LEN_MAX).await.unwrap_or_default();
                return Err(self.refused(&pending, method, head.status, &body));
            }
            let (sealed, opener) = pending.opener(head.status, &head.headers)?;
            let (inner, body) =
                SealedBody::open(opener, sealed, body, self.options.idle_timeout, url.clone(), progress.clone())
                    .await?;
            let mut response = Response::new(body);
            (*response.status_mut(), *response.headers_mut()) = (head.status, inner);
            seen.answer_headers = texts(head.headers.iter());
            let (took, server) = (start.elapsed(), server_timing(&head.headers));
            let timings = Timings { round_trip: took, http: took, crypto: Vec::new(), server };
            response.extensions_mut().insert(seen);
            response.extensions_mut().insert(timings);
            Ok(response)
        };
        tokio::select! {
            answered = answered => answered,
            () = progress.stalled(after) => Err(Error::Timeout { url: url.clone(), after }.into()),
        }
    }

    /// What an answer in plain makes this client do. It sets the session's clock where that is proven.
    fn refused(&self, pending: &Pending<'_>, method: &Method, status: StatusCode, body: &[u8]) -> Failed {
        match pending.refused(status, body) {
            // What answers HEAD has no body to say more in; of sealed requests, this status has one reason.
            Refusal::Final(err) if *method == Method::HEAD && status == StatusCode::UNAUTHORIZED => {
                Failed::Over { again: true, err }
            }
            Refusal::Clock { server_time_ms, problem } => {
                let again = pending.sends_again(&problem, true);
                pending.session.set_clock(server_time_ms);
                Failed::Clock { again, err: told(problem) }
            }
            Refusal::Expired { problem } => {
                Failed::Over { again: pending.sends_again(&problem, false), err: told(problem) }
            }
            Refusal::Final(err) => Failed::Other(err),
        }
    }
}

/// Work that waits for files.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|err| Err(Error::Trust(format!("a file was not handled: {err}"))))
}

/// What the seal of a request is bound to beside its key, in the order of its context. SPEC session-3.md#sealed-requests
fn bound(method: &Method, path: &str, headers: &HeaderMap) -> String {
    let value = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (stamp, nonce) = value(X_IDEMPOTENCY_KEY).split_once('.').unwrap_or_default();
    format!("{method}|{path}|{}|{stamp}|{nonce}|{}", value("content-type"), value(X_KID))
}

//! Wires 1 and 2: only whole bodies of `POST` are sealed, and the service's identity is not verified.
//! `spec/session.md`.
//!
//! ```text
//! Agreement::begin -> Message -> (an answer) -> Agreement::finish -> Session
//! Session::seal -> Message -> (an answer) -> Pending::open -> plaintext
//! ```
//!
//! Each step calls `laps` at its end, for callers that measure. [`crate::Client`] runs all steps over its connections.

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap};
use http::{Method, Response, StatusCode, Uri};
use sealway_proto::crypto::default_provider;
use sealway_proto::session::{ClientInit, ClientSession, Laps, PendingAnswer, SealBuffer, SealRandoms, Step};
use sealway_proto::wire::{ReplayPolicy, SessionId, Wire, header};

use crate::Body;
use crate::call::{AGREEMENT_LEN_MAX, Calls, Failure, Line, Meter, Offer, Remedy, Trace, texts};
use crate::clock::now_ms;
use crate::error::{Error, ErrorKind, Stage, excerpt};
use crate::message::{AnswerHeaders, Message, insert, outer};

/// Time before a session's end at which the client replaces it, in milliseconds.
const RENEW_BEFORE_MS: u64 = 5000;

/// A session init that awaits the service's answer, and the time of its start in milliseconds.
#[derive(Debug)]
pub struct Agreement(ClientInit, u64);

/// An agreed session for any number of calls, also concurrent ones, until it expires.
#[derive(Debug)]
pub struct Session(ClientSession);

/// State that opens the answer to one sealed request.
pub struct Pending<'a>(PendingAnswer<'a>);

impl Agreement {
    /// Draws a key pair and makes the `POST` to send to `init_path`.
    ///
    /// # Errors
    /// [`ErrorKind::Seal`], [`ErrorKind::Usage`].
    pub fn begin(wire: Wire, init_path: &str, offer: &Offer, laps: Laps<'_>) -> Result<(Agreement, Message), Error> {
        let provider = default_provider();
        let ephemeral = provider.p256_generate().map_err(ErrorKind::Seal)?;
        laps(Step::EcdhKeygen);
        let mut nonce = [0; 16];
        provider.fill_random(&mut nonce).map_err(ErrorKind::Seal)?;
        let anonymous = init_path.ends_with("/anon");
        let sent_ms = now_ms();
        let init = ClientInit::new(wire, anonymous, &offer.client_id, offer.ttl_sec, ephemeral, &nonce, sent_ms);
        let (init, message) = init.map_err(ErrorKind::Seal)?;
        let mut headers = outer("application/json", &message.headers)?;
        if let Some(value) = &offer.authorization {
            insert(&mut headers, AUTHORIZATION.as_str(), value)?;
        }
        Ok((Agreement(init, sent_ms), Message { headers, body: message.body.into(), aad: Vec::new() }))
    }

    /// Completes the agreement with the service's answer.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] for a status other than 200, [`ErrorKind::Untrusted`] if the answer cannot be verified.
    pub fn finish(self, status: StatusCode, body: &[u8], laps: Laps<'_>) -> Result<Session, Error> {
        if status != StatusCode::OK {
            let refused = Error::from(ErrorKind::Refused { status, body: excerpt(body) });
            return Err(refused.at(Stage::Agreement, &Uri::default()));
        }
        Ok(self.0.finish(default_provider(), body, self.1, laps).map(Session).map_err(ErrorKind::Untrusted)?)
    }
}

impl Session {
    /// The session's id, chosen by the service.
    pub fn id(&self) -> &SessionId {
        self.0.id()
    }

    /// Returns false in the session's last 5 seconds, when the caller has to replace it.
    pub fn is_usable(&self) -> bool {
        now_ms() + RENEW_BEFORE_MS < self.0.expires_ms()
    }

    /// Remaining lifetime in seconds, rounded up.
    pub fn expires_in_sec(&self) -> u64 {
        self.0.expires_ms().saturating_sub(now_ms()).div_ceil(1000)
    }

    /// Seals a request to this path. The query is not sealed.
    ///
    /// # Errors
    /// [`ErrorKind::Seal`], [`ErrorKind::Usage`].
    pub fn seal(&self, path_and_query: &str, body: &[u8], laps: Laps<'_>) -> Result<(Message, Pending<'_>), Error> {
        let randoms = SealRandoms::draw(default_provider()).map_err(ErrorKind::Seal)?;
        let path = path_and_query.split('?').next().unwrap_or_default();
        let sealed = self.0.seal(path, SealBuffer::from(body), now_ms(), &randoms, laps);
        let (message, pending) = sealed.map_err(ErrorKind::Seal)?;
        let headers = outer(message.content_type, &message.headers)?;
        Ok((Message { headers, body: message.body.into(), aad: message.aad }, Pending(pending)))
    }
}

impl Pending<'_> {
    /// Opens the answer and returns its plaintext body.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] if the answer is not sealed, [`ErrorKind::Untrusted`] if it does not open.
    pub fn open(&self, status: StatusCode, headers: &HeaderMap, body: Bytes, laps: Laps<'_>) -> Result<Bytes, Error> {
        if !headers.contains_key(header::X_KID) {
            return Err(ErrorKind::Refused { status, body: excerpt(&body) }.into());
        }
        let opened = self.0.open(
            &AnswerHeaders(headers),
            status.as_u16(),
            body.into(),
            now_ms(),
            &ReplayPolicy::default(),
            laps,
        );
        let (buffer, range) = opened.map_err(ErrorKind::Untrusted)?.into_parts();
        Ok(Bytes::from(buffer).slice(range))
    }
}

impl std::fmt::Debug for Pending<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pending").finish_non_exhaustive()
    }
}

/// Rejects a request that these wires cannot seal: another method than POST, or sealed headers.
pub(crate) fn check(line: &Line<'_>) -> Result<(), Error> {
    if line.method != Method::POST {
        return Err(ErrorKind::Usage(format!("wires 1 and 2 seal POST alone, not {}", line.method)).into());
    }
    if line.headers.is_empty() { Ok(()) } else { Err(ErrorKind::Usage("wires 1 and 2 seal no headers".into()).into()) }
}

/// Agrees a session over the connections of `calls`.
pub(crate) async fn agree(calls: &Calls, meter: &Meter) -> Result<(Session, HeaderMap), Error> {
    let settings = &calls.settings;
    let offer = calls.offer(true).await?;
    let (agreement, message) = Agreement::begin(settings.wire, &settings.init_path, &offer, &mut meter.laps())?;
    let sent = calls
        .authority
        .whole(Method::POST, &settings.init_path, message.headers, message.body, AGREEMENT_LEN_MAX)
        .await?;
    let (head, body) = sent.into_parts();
    let session = agreement.finish(head.status, &body, &mut meter.laps())?;
    Ok((session, head.headers))
}

/// Sends one sealed request and opens its answer. A service that does not know the session answers 401 unsealed.
pub(crate) async fn call(
    calls: &Calls,
    session: &Session,
    line: &Line<'_>,
    body: Bytes,
) -> Result<Response<Body>, Failure> {
    let meter = Meter::new();
    let (message, pending) = session.seal(line.path, &body, &mut meter.laps())?;
    let request_headers = texts(message.headers.iter().filter(|(name, _)| *name != CONTENT_TYPE));
    let request_aad = String::from_utf8_lossy(&message.aad).into_owned();
    meter.sent(message.body.len());
    let len_max = calls.settings.answer_max_bytes;
    let answer = calls.service.whole(Method::POST, line.path, message.headers, message.body, len_max).await?;
    let (head, body) = answer.into_parts();
    meter.received(body.len());
    let opened = pending.open(head.status, &head.headers, body, &mut meter.laps()).map_err(|err| {
        let is_unknown = matches!(err.kind(), ErrorKind::Refused { status: StatusCode::UNAUTHORIZED, .. });
        Failure { remedy: is_unknown.then_some(Remedy::NewSession), err: err.repeatable(is_unknown) }
    })?;
    meter.end();
    let mut response = Response::new(Body::from(opened));
    response.extensions_mut().insert(Trace::new(request_headers, request_aad, &head.headers, meter));
    (*response.status_mut(), *response.headers_mut()) = (head.status, head.headers);
    Ok(response)
}

//! Exchanges of wire 3 over connections: agreements, renewals, ends and calls. `spec/session-3.md`.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::header::{HeaderMap, TRANSFER_ENCODING};
use http::{Method, Response, StatusCode};
use http_body_util::BodyExt;
use sealway_proto::session::Step;
use sealway_proto::session::native::client::SignerClaim;
use sealway_proto::session::native::problem::PROBLEM_LEN_MAX;
use sealway_proto::wire::base64;
use sealway_proto::wire::header::{X_IDEMPOTENCY_KEY, X_KID, X_SEAL, X_SEALED};
use tokio::time::{Instant as Deadline, timeout};

use super::session::{AnswerOpening, StreamHead};
use super::stream::{Opening, Sealing};
use super::trust::KEY_SET_PATH;
use super::{Agreement, INIT_PATH, PublicKey, Session, key_log, suite_required};
use crate::Body;
use crate::call::{
    AGREEMENT_LEN_MAX, Calls, Failure, Line, Meter, Payload, Pieces, Remedy, Settings, Trace, Transport, texts,
};
use crate::error::{Error, ErrorKind};
use crate::message::{Message, insert};

/// Agrees a session, or renews `old` within itself.
pub(crate) async fn agree(calls: &Calls, old: Option<&Session>, meter: &Meter) -> Result<(Session, HeaderMap), Error> {
    let offer = calls.offer(old.is_none()).await?;
    let (mut may_change, mut may_retake) = (true, true);
    let mut suite = old.map_or(offer.suites[0], |old| old.agreed().suite);
    let url = calls.authority.uri(INIT_PATH)?.to_string();
    loop {
        let at = Instant::now();
        let (agreement, message) = Agreement::begin(&offer, suite, calls.keyring.pinned(), &url, old)?;
        meter.lap("share", at);
        let answered = ask(calls, message, old).await;
        let arrived = Instant::now();
        let claimed = answered.and_then(|answer| Ok((agreement.claimed(answer.status(), answer.body())?, answer)));
        let err = match claimed {
            Err(err) => err,
            Ok((signer, answer)) => {
                let key = key(calls, signer).await?;
                let at = Instant::now();
                let session = agreement.finish(&key, answer.body(), arrived)?;
                meter.lap("agree", at);
                keep(calls, &session).await?;
                return Ok((session, answer.into_parts().0.headers));
            }
        };
        let wanted = suite_required(&err, &offer.suites).filter(|wanted| *wanted != suite);
        match (wanted, err.kind()) {
            (Some(wanted), _) if std::mem::take(&mut may_change) => suite = wanted,
            (_, ErrorKind::Problem { code, more, .. }) if code == "key_retired" && std::mem::take(&mut may_retake) => {
                calls.keyring.retired(more.get("key_set"))?;
            }
            _ => return Err(err),
        }
    }
}

/// Sends an init in plain, or a renewal sealed in the session that it renews.
async fn ask(calls: &Calls, message: Message, old: Option<&Session>) -> Result<Response<Bytes>, Error> {
    let Some(old) = old else {
        return calls.authority.whole(Method::POST, INIT_PATH, message.headers, message.body, AGREEMENT_LEN_MAX).await;
    };
    let path = format!("{INIT_PATH}/{}/renew", old.id());
    let line = Line { method: &Method::POST, path: &path, headers: &message.headers };
    let sent = call(calls, &calls.authority, old, &line, Payload::Whole(message.body), None).await;
    let (head, body) = sent.map_err(|failure| failure.err)?.into_parts();
    Ok(Response::from_parts(head, body.bytes_within(AGREEMENT_LEN_MAX).await?))
}

/// Tells the service to forget a session.
pub(crate) async fn end(calls: &Calls, session: &Session) -> Result<(), Error> {
    let path = format!("{INIT_PATH}/{}", session.id());
    let line = Line { method: &Method::DELETE, path: &path, headers: &HeaderMap::new() };
    match call(calls, &calls.authority, session, &line, Payload::Whole(Bytes::new()), None).await {
        Ok(answer) => {
            let (head, body) = answer.into_parts();
            body.bytes().await?;
            let (status, body) = (head.status, String::new());
            if status.is_success() { Ok(()) } else { Err(ErrorKind::Refused { status, body }.into()) }
        }
        // The service does not know the session any more, which is the aim.
        Err(Failure { remedy: Some(Remedy::NewSession), .. }) => Ok(()),
        Err(failure) => Err(failure.err),
    }
}

/// Returns the signer's identity key if it is trusted. Fetches the service's key set if the decision needs it.
async fn key(calls: &Calls, signer: SignerClaim) -> Result<PublicKey, Error> {
    match calls.keyring.key(&signer)? {
        Some(key) => Ok(key),
        None => {
            let (set, keyring) = (key_set(calls).await?, calls.keyring.clone());
            blocking(move || keyring.look_up(&signer, &set)).await
        }
    }
}

async fn key_set(calls: &Calls) -> Result<Bytes, Error> {
    let (headers, body) = (HeaderMap::new(), Bytes::new());
    let answer = calls.authority.whole(Method::GET, KEY_SET_PATH, headers, body, AGREEMENT_LEN_MAX).await?;
    let status = answer.status();
    if status == StatusCode::OK {
        return Ok(answer.into_body());
    }
    Err(ErrorKind::Trust(format!("the service has no key set at {KEY_SET_PATH} ({status}); pin its public key itself"))
        .into())
}

/// Stores the service's keys that an agreed session names, and writes the key log.
async fn keep(calls: &Calls, session: &Session) -> Result<(), Error> {
    let (keyring, agreed) = (calls.keyring.clone(), session.agreed().clone());
    if keyring.wants_set(&agreed) {
        match key_set(calls).await {
            Ok(set) => keyring.see(&set)?,
            // The key in use is known; the next agreement asks for the others again.
            Err(_) if keyring.is_met() => {}
            Err(err) => return Err(err),
        }
    }
    blocking(move || keyring.remember(&agreed)).await?;
    calls.settings.key_log.as_ref().map_or(Ok(()), |file| key_log::write(file, session))
}

/// Sends one sealed request, and opens its answer up to the first frame.
pub(crate) async fn call(
    calls: &Calls,
    to: &Transport,
    session: &Session,
    line: &Line<'_>,
    payload: Payload,
    deadline: Option<Deadline>,
) -> Result<Response<Body>, Failure> {
    let begin = |is_empty| session.begin(line.method, line.path, line.headers, is_empty);
    exchange(to, &calls.settings, begin, line, payload, deadline).await
}

/// Seals a request with the head that `begin` makes for it, sends it, and opens its answer up to the first frame.
pub(crate) async fn exchange<P: AnswerOpening>(
    to: &Transport,
    settings: &Arc<Settings>,
    begin: impl FnOnce(bool) -> Result<StreamHead<P>, Error>,
    line: &Line<'_>,
    payload: Payload,
    deadline: Option<Deadline>,
) -> Result<Response<Body>, Failure> {
    let meter = Meter::new();
    let (headers, body, pending) = match payload {
        Payload::Whole(body) => {
            let at = Instant::now();
            let (message, pending) = begin(body.is_empty())?.whole(&body)?;
            meter.lap(Step::Encrypt.name(), at);
            if let Some(Ok(stream)) = message.headers.get(X_SEALED).map(|stream| base64::decode(stream.as_bytes())) {
                meter.sent(stream.len());
            }
            (message.headers, Pieces::new(message.body, meter.clone()).boxed_unsync(), pending)
        }
        Payload::Flow(source) => {
            let StreamHead { mut headers, prefix, sealer, inner, pending, .. } = begin(false)?;
            // hyper treats GET and HEAD with a body of unknown length as requests without a body.
            if [Method::GET, Method::HEAD].contains(line.method) {
                insert(&mut headers, TRANSFER_ENCODING.as_str(), "chunked")?;
            }
            (headers, Sealing::new(source, prefix, sealer, inner, meter.clone()).boxed_unsync(), pending)
        }
    };
    let request = to.request(line.method, line.path, headers, body)?;
    let (url, after) = (request.uri().clone(), settings.head_timeout);
    let (request_headers, aad) = (texts(request.headers().iter()), bound(line, request.headers()));
    let answered = async {
        let (head, body) = to.head(request).await?.into_parts();
        let late = |_| to.late(&url);
        if !head.headers.contains_key(X_SEAL) {
            let body = timeout(after, to.beginning(&url, body, PROBLEM_LEN_MAX)).await.map_err(late)??;
            return Err(pending.refused(head.status, &body));
        }
        let (sealed, opener) = pending.opener(head.status, &head.headers)?;
        let begun = Opening::begin(opener, sealed, body, settings.clone(), deadline, url.clone(), meter.clone());
        let (inner, body) = timeout(after, begun).await.map_err(late)??;
        let mut response = Response::new(Body::opening(body));
        (*response.status_mut(), *response.headers_mut()) = (head.status, inner);
        if pending.is_problem(&head.headers) {
            let body = response.into_body().bytes_within(PROBLEM_LEN_MAX).await?;
            return Err(pending.problem(head.status, &body));
        }
        response.extensions_mut().insert(Trace::new(request_headers, aad, &head.headers, meter.clone()));
        Ok(response)
    };
    tokio::select! {
        answered = answered => answered,
        () = meter.stalled(after) => Err(to.late(&url).into()),
    }
}

/// Runs work that blocks on files in a blocking thread.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|err| Err(ErrorKind::Trust(format!("a file was not handled: {err}")).into()))
}

/// Fields that the seal of a request is bound to, in the order of its context. SPEC session-3.md#sealed-requests
fn bound(line: &Line<'_>, headers: &HeaderMap) -> String {
    let value = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (stamp, nonce) = value(X_IDEMPOTENCY_KEY).split_once('.').unwrap_or_default();
    format!("{}|{}|{}|{stamp}|{nonce}|{}", line.method, line.path, value("content-type"), value(X_KID))
}

//! Handling of one sealed request, from its headers to its answer.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt;
use sealway_proto::Error;
use sealway_proto::exchange::{
    AnswerSeal, BodyBounds, BodyFault, Exchange, FrameSeal, HpkeOpening, Opening, Piece, Refusal, Rejection, Reply,
    Stream, unadmitted,
};
use sealway_proto::limits::FRAME_LEN_MAX;
use sealway_proto::session::native::{InnerHeaders, RequestLine};
use sealway_proto::session::{SealBuffer, Session};
use sealway_proto::wire::Wire;
use sealway_proto::wire::header::X_SEALED;

use crate::body::{Body, Incoming, full, keeping};
use crate::cut::Cut;
use crate::error_answer;
use crate::headers::{self, HttpHeaders};
use crate::kept::{KeptAnswers, Promise, StoredAnswer};
use crate::one_shot::{self, OneShotRules};
use crate::open::{Fault, Plain, Reader};
use crate::problems::Problems;
use crate::seal::Sealing;
use crate::sessions::{Sessions, admit, unless_over};
use crate::timing::ServerTiming;

/// Settings of a route for sealed requests.
#[derive(Clone, Copy)]
pub struct Rules<'a> {
    /// Rejects sessions that may not be used for the request. The protocol's own checks come first.
    pub allows: &'a (dyn Fn(&Session) -> Result<(), Refusal> + Sync),
    /// Media type of the plaintext, for wires that seal no headers.
    pub content_type: &'a HeaderValue,
    /// Headers outside the seal that are passed to the service, in addition to those that the spec names. Anyone on the
    /// path can have written them.
    pub unsealed_headers: &'a [HeaderName],
    /// True if the origin headers of the peer (`Forwarded`, `X-Forwarded-…`) are passed to the service.
    pub trusts_origin: bool,
    /// Maximum lengths of sealed bodies. An answer that is sealed as a whole has at most `whole` bytes.
    pub body: BodyBounds,
    /// Maximum time for the first piece of the body, since a stamp expires.
    pub first_time: Duration,
    /// Maximum time for an answer that is read as a whole.
    pub answer_time: Duration,
    /// Kept answers, for clients that repeat a request.
    pub kept: Option<&'a KeptAnswers>,
    /// True if the service's work is dropped when the session ends.
    pub ends_with_session: bool,
    /// True if the route serves requests in a session.
    pub serves_sessions: bool,
    /// Settings for requests on wire 4; `None` if the route does not serve them.
    pub one_shot: Option<OneShotRules<'a>>,
}

/// A failure of the service, without a sealed answer.
#[derive(Debug)]
pub struct Failure<E> {
    /// The cause of the failure.
    pub cause: Cause<E>,
    /// The way in which the client is answered.
    pub problems: Problems,
}

/// The cause of a failure of the service.
#[derive(Debug)]
pub enum Cause<E> {
    /// The error of the service itself.
    Service(E),
    /// The service's answer cannot be sealed.
    Unsealable {
        /// Reason, for the log.
        reason: String,
        /// True if the answer did not come in time.
        is_late: bool,
    },
}

impl<E> Cause<E> {
    fn unsealable(reason: impl Into<String>) -> Self {
        Cause::Unsealable { reason: reason.into(), is_late: false }
    }
}

/// Answers a sealed request: opens it, calls the service, and seals the service's answer. The service is called at most
/// once, with its `Arc<Session>` among the extensions, and with a body of known length if all of it is available.
///
/// # Errors
/// [`Failure`]; a client's error is an answer.
pub async fn serve<S, B, F, E>(
    sessions: &Arc<S>,
    rules: Rules<'_>,
    mut parts: Parts,
    body: B,
    timing: &mut ServerTiming,
    service: impl FnOnce(Request<Body>) -> F + Send,
) -> Result<Response<Body>, Failure<E>>
where
    S: Sessions,
    B: Incoming,
    F: Future<Output = Result<Response<Body>, E>> + Send,
    E: Send,
{
    let mut problems = Problems::of(&parts);
    let opened = match open(sessions, &rules, &parts, body, &mut problems, timing).await {
        Ok(OpenOutcome::Fresh(opened)) => *opened,
        Ok(OpenOutcome::Again(kept)) => return Ok(kept.response()),
        Err(rejection) => return Ok(reject(&**sessions, rejection, &problems, timing)),
    };
    let OpenRequest { inner, body, whole, fault, promise, reply } = opened;
    match &inner {
        Some(inner) => {
            headers::unseal_inner(&mut parts.headers, inner, rules.unsealed_headers, rules.trusts_origin);
        }
        None => headers::unseal_outer(&mut parts.headers, rules.content_type, rules.trusts_origin),
    }
    let session = reply.session();
    parts.extensions.insert(session.clone());
    let is_head = parts.method == Method::HEAD;
    timing.skip();
    let answered = async {
        let answer = service(Request::from_parts(parts, body)).await;
        timing.lap("upstream");
        // The service saw a body that broke off.
        if let Some(refusal) = fault.get() {
            return Err(SealError::Refused(refusal.clone()));
        }
        let answer = answer.map_err(Cause::Service)?;
        seal(sessions, &rules, &reply, answer, is_head, timing).await
    };
    let sealed = if rules.ends_with_session {
        let sealed = unless_over(&**sessions, session, answered).await;
        sealed.unwrap_or_else(|ended| Err(SealError::Refused(reply.session_ended(ended))))
    } else {
        answered.await
    };
    // A stream that broke off is the client's fault, whatever the service answers.
    let sealed = match fault.get() {
        Some(refusal) if sealed.is_err() => Err(SealError::Refused(refusal.clone())),
        _ => sealed,
    };
    match sealed {
        Ok(SealedAnswer { answer, all }) => {
            if let (Some(body), Some(promise), Some(kept)) = (all, &promise, rules.kept) {
                kept.keep(promise, StoredAnswer { status: answer.status(), headers: answer.headers().clone(), body });
            }
            // Bytes of a request that is held as a whole count until its answer, also made as a whole, has been sent.
            Ok(match whole {
                Some(whole) => answer.map(|body| keeping(body, whole)),
                None => answer,
            })
        }
        Err(SealError::Refused(refusal)) => Ok(reject(&**sessions, refusal.into(), &problems, timing)),
        Err(SealError::Crypto(err)) => {
            let rejection = Rejection::from(err);
            sessions.report(&rejection.refusal, "seal");
            Ok(problems.answer(&**sessions, rejection))
        }
        Err(SealError::Failure(cause)) => Err(Failure { cause, problems }),
    }
}

/// Builds the answer to a rejected client. It contains no steps of the timing, since they would reveal how far the
/// request came.
fn reject(
    sessions: &impl Sessions,
    rejection: Rejection,
    problems: &Problems,
    timing: &mut ServerTiming,
) -> Response<Body> {
    sessions.report(&rejection.refusal, "call");
    timing.forget_steps();
    problems.answer(sessions, rejection)
}

/// Result of opening a request.
enum OpenOutcome<B> {
    /// The request goes to the service.
    Fresh(Box<OpenRequest<B>>),
    /// The request was received before, and this is its answer.
    Again(StoredAnswer),
}

struct OpenRequest<B> {
    /// Headers within the seal, if the wire seals headers.
    inner: Option<InnerHeaders>,
    /// Body of the request for the service.
    body: Body,
    /// The sealed body, if it was opened as a whole: it holds its share of the memory budget.
    whole: Option<B>,
    /// Place of the fault, if the stream breaks off.
    fault: Fault,
    /// Registration of the answer, if it is to be kept.
    promise: Option<Promise>,
    reply: Reply,
}

/// Opens the request's head and the first piece of its body, and prepares the body for the service.
async fn open<S: Sessions, B: Incoming>(
    sessions: &Arc<S>,
    rules: &Rules<'_>,
    parts: &Parts,
    body: B,
    problems: &mut Problems,
    timing: &mut ServerTiming,
) -> Result<OpenOutcome<B>, Rejection> {
    let headers = HttpHeaders(&parts.headers);
    let begun = begin(&**sessions, rules, &headers, parts, timing).await.and_then(|(begun, mut stream)| {
        let len_max = match &begun {
            BodyStart::Session(opening) => opening.body_max(rules.body),
            BodyStart::Key(opening) => opening.body_max(rules.body),
        };
        if body.size_hint().lower() > len_max {
            return Err(BodyFault::TooLarge.into());
        }
        let in_header = stream.take_header();
        if in_header.is_some() && !body.is_end_stream() {
            return Err(Error::HeaderInvalid(X_SEALED).into());
        }
        Ok((begun, stream, in_header, len_max))
    });
    let (begun, stream, in_header, len_max) = match begun {
        Ok(begun) => begun,
        Err(rejection) => {
            // The client may still be sending: it must finish to read the answer.
            body.discard().await;
            return Err(rejection);
        }
    };
    let mut reader = Reader::new(body, stream, len_max, in_header);
    timing.skip();
    // The deadline covers the whole piece, however regularly its bytes arrive.
    let first = tokio::time::timeout(rules.first_time, first(&**sessions, begun, &mut reader)).await;
    let (opening, first) = match first.unwrap_or_else(|_| Err(BodyFault::TooSlow.into())) {
        Ok(first) => first,
        Err(refusal) => {
            if !matches!(refusal, Refusal::Body(BodyFault::TooSlow | BodyFault::Broken)) {
                reader.into_body().discard().await;
            }
            return Err(refusal.into());
        }
    };
    let (provider, is_last, session) = (sessions.provider(), first.is_last, opening.session().clone());
    if opening.is_whole() {
        // Opening begins here: the wait for the body is no cryptography.
        timing.skip();
    }
    let kept = rules.kept.and_then(|kept| Some((kept, opening.fingerprint(provider, &first)?)));
    let opened = opening.open(provider, first, &mut |step| timing.lap(step.name()))?;
    // A stamp that left the window while the body arrived is answered with the server's time, as one outside it at first.
    let unadmitted =
        |refusal| unadmitted(provider, &session, &headers, request_line(parts), sessions.now_ms(), refusal);
    problems.seal = opened.problem_seal();
    let admitted = match session.key_name() {
        Some(_) => one_shot::admit(&**sessions, rules, &session, opened.claim()).await,
        None => admit(&**sessions, &session, opened.claim()).await.map_err(unadmitted),
    };
    let fresh = match (admitted, &kept) {
        (Err(Rejection { refusal: Refusal::Wire(Error::Replayed), .. }), Some((kept, fingerprint))) => {
            drop(reader);
            let answer = kept.find(fingerprint).await;
            return answer.map(OpenOutcome::Again).ok_or_else(|| Error::Replayed.into());
        }
        (fresh, _) => fresh?,
    };
    let plain = opened.release(fresh)?;
    timing.lap("replay-protection");
    sessions.admitted(session.record().wire);
    let (buffer, range) = plain.first.into_parts();
    let first = Bytes::from(buffer).slice(range);
    let fault = reader.fault().clone();
    let (body, whole) = match (is_last, &plain.inner) {
        (true, None) => (full(first), Some(reader.into_body())),
        // Its share of the memory budget is held until the service has the body.
        (true, Some(_)) => (keeping(full(first), reader.into_body()), None),
        (false, _) => {
            let plain = Body::new(Plain::new(first, reader));
            (Body::new(Cut::new(plain, sessions, &session, fault.clone())), None)
        }
    };
    let promise = kept.map(|(kept, fingerprint)| kept.begin(fingerprint));
    Ok(OpenOutcome::Fresh(Box::new(OpenRequest {
        inner: plain.inner,
        body,
        whole,
        fault,
        promise,
        reply: plain.reply,
    })))
}

fn request_line(parts: &Parts) -> RequestLine<'_> {
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    RequestLine { method: parts.method.as_str(), target }
}

/// A request whose body is read next.
enum BodyStart<'a> {
    Session(Opening<'a>),
    Key(HpkeOpening<'a>),
}

/// Reads the first piece of a body; on wire 4 first its prefix, which gives the keys.
async fn first<'a, B: Incoming>(
    sessions: &impl Sessions,
    begun: BodyStart<'a>,
    reader: &mut Reader<B>,
) -> Result<(Opening<'a>, Piece), Refusal> {
    let opening = match begun {
        BodyStart::Session(opening) => opening,
        BodyStart::Key(opening) => {
            let prefix = poll_fn(|cx| reader.poll_prefix(cx)).await?;
            let keys = sessions.one_shot().ok_or(Error::KeyRetired)?;
            let psk = prefix.psk_id.as_deref().map(|id| keys.psk(id)).transpose()?;
            let (provider, now_ms) = (sessions.provider(), sessions.now_ms());
            opening.open(provider, &prefix, psk.as_deref(), reader.stream_mut(), now_ms)?
        }
    };
    let first = poll_fn(|cx| reader.poll_piece(cx)).await?;
    Ok((opening, first.ok_or(Error::StreamTruncated)?))
}

async fn begin<'a>(
    sessions: &impl Sessions,
    rules: &Rules<'_>,
    headers: &'a HttpHeaders<'a>,
    parts: &'a Parts,
    timing: &mut ServerTiming,
) -> Result<(BodyStart<'a>, Stream), Rejection> {
    let (line, now_ms) = (request_line(parts), sessions.now_ms());
    let is_served = |wire| match wire {
        Wire::OneShot if rules.one_shot.is_none() => Err(Refusal::WireOff(wire)),
        Wire::OneShot => sessions.count_opening(),
        wire if !rules.serves_sessions => Err(one_shot::served_alone(headers, wire)),
        wire => sessions.check_wire(wire),
    };
    let exchange = Exchange::begin(headers, line, now_ms, sessions.replay(), is_served)?;
    timing.lap("replay-protection");
    if let Some(name) = exchange.key_name() {
        let key = one_shot::key(sessions, rules, name)?;
        let (opening, stream) = exchange.key(key)?;
        return Ok((BodyStart::Key(opening), stream));
    }
    let session = sessions.find(exchange.session_id()?).await?.ok_or(Error::SessionUnknown)?;
    timing.lap("session-get");
    let (opening, stream) = exchange.session(sessions.provider(), session)?;
    (rules.allows)(opening.session())?;
    timing.lap("replay-protection");
    Ok((BodyStart::Session(opening), stream))
}

/// A sealed answer, with its body's bytes.
struct SealedAnswer {
    answer: Response<Body>,
    /// Bytes of the body, if all of it is available.
    all: Option<Bytes>,
}

/// Reason for a missing sealed answer.
enum SealError<E> {
    Refused(Refusal),
    Crypto(Error),
    Failure(Cause<E>),
}

impl<E> From<Cause<E>> for SealError<E> {
    fn from(cause: Cause<E>) -> Self {
        SealError::Failure(cause)
    }
}

impl<E> From<Error> for SealError<E> {
    fn from(err: Error) -> Self {
        SealError::Crypto(err)
    }
}

/// Seals the answer of the service.
// SPEC session.md#answer session-3.md#sealed-answers
async fn seal<S: Sessions, E>(
    sessions: &Arc<S>,
    rules: &Rules<'_>,
    reply: &Reply,
    answer: Response<Body>,
    is_head: bool,
    timing: &mut ServerTiming,
) -> Result<SealedAnswer, SealError<E>> {
    let (mut head, body) = answer.into_parts();
    let seal = reply.answer(head.status.as_u16(), is_head).map_err(Cause::unsealable)?;
    let (body, all) = match seal {
        AnswerSeal::Plain(error) => {
            // Read to its end, so that the connection to the service can be reused.
            collect(body, rules).await?;
            return Ok(SealedAnswer { answer: error_answer(error), all: None });
        }
        AnswerSeal::Whole(seal) => {
            let buffer = collect(body, rules).await?;
            timing.lap("upstream");
            let randoms = sessions.randoms()?;
            let message = seal.seal(buffer, sessions.now_ms(), &randoms, &mut |step| timing.lap(step.name()))?;
            headers::seal_whole(&mut head.headers);
            head.headers.insert(CONTENT_TYPE, HeaderValue::from_static(message.content_type));
            headers::put_seal(&mut head.headers, message.headers);
            head.status = StatusCode::from_u16(seal.status()).unwrap_or(head.status);
            (full(message.body), None)
        }
        AnswerSeal::Frames(seal) => {
            let too_many = || Cause::unsealable("the headers of its answer are more than a seal holds");
            let inner = headers::seal_inner(&mut head.headers).ok_or_else(too_many)?;
            // Short enough for one frame, and of known length.
            let is_short = body.size_hint().exact().is_some_and(|len| len <= (FRAME_LEN_MAX / 2) as u64);
            let (short, long) = match body {
                _ if seal.is_bodyless() => (None, None),
                body if is_short => (Some(read(body, rules).await?), None),
                body => (None, Some(body)),
            };
            timing.lap("upstream");
            let (marks, sealer) = seal.begin(sessions.provider(), sessions.now_ms(), &sessions.randoms()?)?;
            headers::put_seal(&mut head.headers, marks);
            if !seal.is_bodyless() {
                head.headers.insert(CONTENT_TYPE, HeaderValue::from_static(FrameSeal::CONTENT_TYPE));
            }
            if let Some(long) = long {
                let cut = Cut::new(long, sessions, reply.session(), Fault::default());
                (Body::new(Sealing::new(Body::new(cut), sealer, inner)), None)
            } else if let Some(short) = short {
                let unsealable = |err| Cause::unsealable(format!("its answer cannot be sealed: {err}"));
                let stream = Bytes::from(FrameSeal::one_frame(sealer, &inner, &short).map_err(unsealable)?);
                (full(stream.clone()), Some(stream))
            } else {
                let stream = FrameSeal::in_header(sealer, &inner).map_err(|_| too_many())?;
                headers::put_seal(&mut head.headers, vec![(X_SEALED, stream)]);
                (full(""), Some(Bytes::new()))
            }
        }
    };
    timing.lap("aes-gcm-encrypt");
    let mut answer = Response::new(body);
    *answer.status_mut() = head.status;
    *answer.headers_mut() = head.headers;
    Ok(SealedAnswer { answer, all })
}

/// Reads all of a short answer.
async fn read<E>(body: Body, rules: &Rules<'_>) -> Result<Bytes, Cause<E>> {
    let read = tokio::time::timeout(rules.answer_time, body.collect()).await;
    let read = read.map_err(|_| late())?.map_err(|err| Cause::unsealable(format!("its answer broke off: {err}")))?;
    Ok(read.to_bytes())
}

/// Reads all of an answer that becomes one sealed message.
async fn collect<E>(mut body: Body, rules: &Rules<'_>) -> Result<SealBuffer, Cause<E>> {
    let len_max = rules.body.whole;
    let len = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let too_long = || Cause::unsealable("its answer is longer than a sealed body may be");
    if len > len_max {
        return Err(too_long());
    }
    let mut buffer = SealBuffer::with_capacity(len);
    let read = async {
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|err| Cause::unsealable(format!("its answer broke off: {err}")))?;
            let Some(data) = frame.data_ref() else { continue };
            if buffer.len() + data.len() > len_max {
                return Err(too_long());
            }
            buffer.extend(data);
        }
        Ok(())
    };
    tokio::time::timeout(rules.answer_time, read).await.map_err(|_| late())??;
    Ok(buffer)
}

fn late<E>() -> Cause<E> {
    Cause::Unsealable { reason: "its answer comes too slowly".into(), is_late: true }
}

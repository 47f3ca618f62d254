//! The MLE bridge: a route whose messages are encrypted as a card scheme asks for it, in front of an unchanged service (inbound), or
//! between an unchanged service and the scheme (outbound). `spec/mle.md` has the messages; this module has the exchange around them.

mod broker;
mod fields;
mod keys;
mod message;
mod opened;
mod pool;
mod sign;
mod verify;

use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, EXPECT,
    HeaderMap, HeaderName, HeaderValue, LAST_MODIFIED, RANGE, TRAILER,
};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use parking_lot::Mutex;
use sealway_exchange::Sessions;
use sealway_exchange::headers::remove_where;
use sealway_exchange::timing::ServerTiming;
use sealway_proto::mle::sign::WebOrigin;
use sealway_proto::mle::{FieldRule, Message, Profile, Scalars};
use sealway_proto::wire::ReplayPolicy;
use sealway_runtime::http::share::Share;
use sealway_runtime::http::{Body, BodyRefusal, ExtendedConnect, Interim, Origin, RequestBody, full, read_body};
use sealway_sessions::Authority;
use sealway_sessions::answer::{Form, busy, plain_error, rejected};
use serde::{Deserialize, Serialize};

pub(crate) use self::broker::{BrokerKeys, BrokerSettings};
pub(crate) use self::keys::{KeyAlg, KeyFiles, KeyRing, Opening, Recipient};
pub use self::keys::{jose_provider, jws_provider};
use self::message::{Fault, SealFault, TokenBody};
pub(crate) use self::sign::{Scheme, SignPolicy};
use self::sign::{Signer, X_JWS_SIGNATURE};
use self::verify::Verifier;
pub(crate) use self::verify::{Evidence, VerifyPolicy};
use crate::body::keeping;
use crate::config::RequestLimits;
use crate::route::Forward;
use crate::upstream::{UpstreamError, break_off_unframed};

/// Says to a service how the request came: `mle:` and the name of the profile, or `ehbp`.
pub(crate) const WIRE: HeaderName = HeaderName::from_static("x-sealway-wire");

/// The side of the route that speaks the scheme's form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Direction {
    /// The client: its requests are opened, and answers are encrypted to it.
    Inbound,
    /// The upstream: requests are encrypted to it, and its answers are opened.
    Outbound,
}

/// The callers whose messages are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Caller {
    /// Those that show a certificate which the listener verified.
    ClientCertificate,
    /// Everybody: each holder of the public key can make a message.
    Anybody,
}

/// The messages in clear that pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PlainAnswers {
    /// None that has a body.
    #[default]
    None,
    /// Answers with a status of 400 and more.
    Errors,
    /// All answers, with or without an error.
    All,
}

impl PlainAnswers {
    fn has(self, status: StatusCode) -> bool {
        match self {
            PlainAnswers::None => false,
            PlainAnswers::Errors => status.is_client_error() || status.is_server_error(),
            PlainAnswers::All => true,
        }
    }
}

/// The settings of a route for messages of a scheme.
#[derive(Clone, Debug)]
pub struct MlePolicy {
    pub(crate) direction: Direction,
    pub(crate) profile: Profile,
    /// True if plain requests are rejected; on an outbound route requests are always plain.
    pub(crate) is_required: bool,
    pub(crate) caller: Caller,
    /// Names of keys that open.
    pub(crate) open: Vec<String>,
    /// Names of keys that seal, by the subject of the caller's certificate; `None` is every caller.
    pub(crate) seal: Vec<(Option<String>, Vec<String>)>,
    /// Places of tokens in requests and in answers; without any the whole body is one token.
    pub(crate) request: Vec<FieldRule>,
    pub(crate) answer: Vec<FieldRule>,
    pub(crate) scalars: Scalars,
    pub(crate) plain_answers: PlainAnswers,
    /// True if a token that came before is rejected.
    pub(crate) refuses_replays: bool,
    /// The signature of messages that are sealed.
    pub(crate) sign: Option<SignPolicy>,
    /// The signers of messages that are opened; none in a profile without signatures.
    pub(crate) verify: Vec<VerifyPolicy>,
}

/// A route for messages of a scheme.
#[derive(Debug)]
pub struct Mle {
    policy: MlePolicy,
    open: Opening,
    /// Those of the keys that open which brokers hold.
    brokers: BrokerKeys,
    seal: Vec<Recipient>,
    sign: Option<Signer>,
    verify: Vec<Verifier>,
}

impl Mle {
    /// Creates the route with its keys, the servers of its upstream, the window of times, and the longest token in bytes.
    ///
    /// # Errors
    /// The setting at fault below `mle`, and what is wrong with it: two keys that open have one kid, or a secret cannot be read.
    pub(crate) fn new(
        mut policy: MlePolicy,
        ring: &KeyRing,
        servers: &[WebOrigin],
        replay: &ReplayPolicy,
        token_len_max: usize,
    ) -> Result<Mle, (String, String)> {
        policy.profile = policy.profile.with_replay(*replay).with_token_len_max(token_len_max);
        let open = ring.opening(&policy.open).map_err(|why| ("open".to_owned(), why))?;
        let answer_kid = policy.open.first().and_then(|name| ring.opening_kid(name)).map(str::to_owned);
        let sign = policy.sign.as_ref().map(|sign| Signer::new(sign, ring, servers, answer_kid)).transpose()?;
        let verify = policy.verify.iter().enumerate();
        let verify = verify
            .map(|(index, signer)| Verifier::new(signer, ring).map_err(|why| (format!("verify[{index}].keys"), why)));
        let verify = verify.collect::<Result<Vec<_>, _>>()?;
        let (opened, sealed) = match policy.direction {
            Direction::Inbound => (Message::Request, Message::Answer),
            Direction::Outbound => (Message::Answer, Message::Request),
        };
        if sign.as_ref().is_some_and(Signer::is_nested) {
            policy.profile = policy.profile.with_nested(sealed);
        }
        if verify.iter().any(Verifier::is_nested) {
            policy.profile = policy.profile.with_nested(opened);
        }
        let brokers = ring.brokers(&policy.open);
        let seal = policy.seal.iter().map(|(caller, names)| ring.recipient(caller.clone(), names)).collect();
        Ok(Mle { policy, open, brokers, seal, sign, verify })
    }

    /// Returns whether a request in clear would be wrong on the other side of the route.
    pub(crate) fn bars_clear(&self) -> bool {
        self.policy.is_required || self.policy.direction == Direction::Outbound
    }

    fn rules(&self, message: Message) -> &[FieldRule] {
        match message {
            Message::Request => &self.policy.request,
            Message::Answer => &self.policy.answer,
        }
    }

    /// Returns the keys of the caller: those of its subject before those of every caller.
    fn recipient(&self, origin: Option<&Origin>) -> Option<&Recipient> {
        let subject = origin.and_then(|origin| origin.certificate.as_deref()).map(|certificate| &certificate.subject);
        let own = self.seal.iter().find(|recipient| recipient.caller.is_some() && recipient.caller.as_ref() == subject);
        own.or_else(|| self.seal.iter().find(|recipient| recipient.caller.is_none()))
    }

    /// Returns the signer of the caller's messages, as [`Mle::recipient`] does; `None` in a profile without signatures.
    ///
    /// # Errors
    /// [`Fault::Caller`] if messages are signed, and this caller has no keys for that.
    fn verifier(&self, origin: Option<&Origin>) -> Result<Option<&Verifier>, Fault> {
        if self.verify.is_empty() {
            return Ok(None);
        }
        let subject = origin.and_then(|origin| origin.certificate.as_deref()).map(|certificate| &certificate.subject);
        let own = self.verify.iter().find(|verifier| verifier.caller.is_some() && verifier.caller.as_ref() == subject);
        let found = own.or_else(|| self.verify.iter().find(|verifier| verifier.caller.is_none()));
        found.map(Some).ok_or(Fault::Caller)
    }
}

/// A route with its keys and its service, for one exchange.
struct Exchange<'a> {
    mle: &'a Mle,
    authority: &'a Authority,
    forward: &'a Forward,
    route: &'a str,
    /// The listener and the client, without the certificate of a trusted proxy.
    origin: Option<&'a Origin>,
}

/// Answers a request of a route with MLE. `body` is held in memory whole, as long as `sealed_body_max` allows.
pub(crate) async fn call(
    mle: &Mle,
    authority: &Authority,
    (forward, route): (&Forward, &str),
    limits: RequestLimits,
    parts: Parts,
    (body, room): (RequestBody, Arc<Mutex<Share>>),
    is_trusted: bool,
    timing: &mut ServerTiming,
) -> Response<Body> {
    let mut origin = parts.extensions.get::<Origin>().cloned();
    if let Some(origin) = origin.as_mut().filter(|_| is_trusted) {
        // A trusted proxy shows its own certificate, and not that of its client.
        origin.certificate = None;
    }
    if mle.policy.direction == Direction::Inbound
        && mle.policy.caller == Caller::ClientCertificate
        && origin.as_ref().is_none_or(|origin| origin.certificate.is_none())
    {
        sealway_runtime::http::discard(body).await;
        return plain_error(StatusCode::FORBIDDEN, "SESSION_FORBIDDEN");
    }
    if is_compressed(&parts.headers) {
        sealway_runtime::http::discard(body).await;
        return plain_error(StatusCode::UNSUPPORTED_MEDIA_TYPE, "CRYPTO_ERROR");
    }
    let time = limits.body_time;
    let body = match read_body(body, forward.policy.sealed_body_max, time).await {
        Ok(body) => body,
        Err(refusal) => return UpstreamError::RequestBody(refusal).answer(Form::Plain),
    };
    timing.lap("body");
    let exchange = Exchange { mle, authority, forward, route, origin: origin.as_ref() };
    let answer = match mle.policy.direction {
        Direction::Inbound => exchange.inbound(parts, body.into(), is_trusted, timing).await,
        Direction::Outbound => exchange.outbound(parts, body.into(), is_trusted, timing).await,
    };
    match answer {
        Ok(answer) => answer.map(|body| keeping(full(body), room)),
        Err(fault) => {
            // The names of steps would tell how far the message came.
            timing.forget_steps();
            exchange.reject(fault)
        }
    }
}

impl Exchange<'_> {
    async fn inbound(
        &self,
        mut parts: Parts,
        body: Bytes,
        is_trusted: bool,
        timing: &mut ServerTiming,
    ) -> Result<Response<Bytes>, Fault> {
        // A key is chosen before the service acts: an answer that cannot be sealed would be lost after it.
        let recipient = self.mle.recipient(self.origin);
        if self.mle.policy.plain_answers != PlainAnswers::All {
            let recipient = recipient.ok_or(Fault::Caller)?;
            if recipient.key(self.authority.now_ms()).is_none() {
                return Err(Fault::Unsealable(SealFault::NoKey.to_string()));
            }
        }
        let method = parts.method.clone();
        let is_safe = [Method::GET, Method::HEAD].contains(&method);
        let is_bodiless = body.is_empty() && (is_safe || method == Method::DELETE);
        // Of a signature over the bytes that came, first: a stranger costs no private operation.
        let claim = self.check_signature((&parts.headers, &body), is_bodiless && is_safe).await?;
        let plaintext = if is_bodiless {
            if !is_safe {
                self.check_no_token()?;
            }
            None
        } else if !self.mle.policy.is_required && !self.is_token(Message::Request, &parts.headers, &body) {
            // A token has a claim of its own.
            if let Some(claim) = claim {
                self.reserve(&claim).await?;
            }
            let answer = self.ask(parts, Some(body), false, is_trusted).await?;
            return self.signed(&method, answer).await;
        } else {
            Some(self.open(Message::Request, &body, &parts.headers).await?)
        };
        timing.lap("open");
        of_plaintext(&mut parts.headers, plaintext.is_some().then_some(&self.forward.policy.content_type));
        let was_opened = plaintext.is_some();
        if was_opened {
            self.forget(&mut parts.headers);
        }
        let answer = self.ask(parts, plaintext.map(Bytes::from_owner), was_opened, is_trusted).await?;
        let (mut parts, body) = answer.into_parts();
        timing.lap("upstream");
        let is_plain = body.is_empty() || self.mle.policy.plain_answers.has(parts.status);
        if !is_plain && is_compressed(&parts.headers) {
            return Err(Fault::Unsealable("its answer is compressed, though nothing asked for that".into()));
        }
        let Some(recipient) = recipient.filter(|_| !is_plain) else {
            return self.signed(&method, Response::from_parts(parts, body)).await;
        };
        let sealed = self.seal(Message::Answer, &body, recipient).await.map_err(|fault| match fault {
            // The service's body, and not the client's, has the wrong form.
            SealFault::Body(_) => Fault::Unsealable(fault.to_string()),
            fault => fault.into(),
        })?;
        self.of_token(&mut parts.headers, &sealed);
        let answer = self.signed(&method, Response::from_parts(parts, sealed.body.into())).await?;
        timing.lap("seal");
        Ok(answer)
    }

    /// Removes the headers of a message that was opened: they do not describe its plaintext.
    fn forget(&self, headers: &mut HeaderMap) {
        fields::forget(headers, &self.mle.policy.profile);
        if !self.mle.verify.is_empty() {
            headers.remove(X_JWS_SIGNATURE);
        }
    }

    async fn outbound(
        &self,
        mut parts: Parts,
        body: Bytes,
        is_trusted: bool,
        timing: &mut ServerTiming,
    ) -> Result<Response<Bytes>, Fault> {
        let recipient = self.mle.seal.first().ok_or(Fault::Caller)?;
        let method = parts.method.clone();
        self.name_key(&mut parts.headers, recipient);
        self.accept_tokens(&mut parts.headers);
        let sent = if body.is_empty() {
            None
        } else {
            let sealed = self.seal(Message::Request, &body, recipient).await?;
            self.of_token(&mut parts.headers, &sealed);
            Some(sealed.body.into())
        };
        timing.lap("seal");
        let (mut parts, body) = self.ask(parts, sent, false, is_trusted).await?.into_parts();
        timing.lap("upstream");
        let is_bodiless = method == Method::HEAD || body.is_empty() && verify::has_no_body(parts.status);
        let allows_plain = self.mle.policy.plain_answers.has(parts.status);
        let is_clear =
            is_bodiless || body.is_empty() || allows_plain && !self.is_token(Message::Answer, &parts.headers, &body);
        // A proxy before the scheme has no key to sign its errors with.
        let may_be_unsigned = is_bodiless || is_clear && allows_plain && PlainAnswers::Errors.has(parts.status);
        let claim = self.check_signature((&parts.headers, &body), may_be_unsigned).await.map_err(Fault::of_answer)?;
        // The answer to another request would do as well: only its body is signed. One to a GET may come from a cache.
        if let Some(claim) = claim.filter(|_| !may_be_unsigned && !body.is_empty() && method != Method::GET) {
            self.reserve(&claim).await.map_err(Fault::of_answer)?;
        }
        if is_clear {
            if !is_bodiless && !allows_plain && parts.status.is_success() {
                self.check_no_token().map_err(Fault::of_answer)?;
            }
            return Ok(Response::from_parts(parts, body));
        }
        let opened = self.open(Message::Answer, &body, &parts.headers).await.map_err(Fault::of_answer)?;
        of_plaintext(&mut parts.headers, Some(&self.forward.policy.content_type));
        self.forget(&mut parts.headers);
        timing.lap("open");
        Ok(Response::from_parts(parts, Bytes::from_owner(opened)))
    }

    /// Calls the service and reads its answer whole.
    async fn ask(
        &self,
        mut parts: Parts,
        body: Option<Bytes>,
        was_opened: bool,
        is_trusted: bool,
    ) -> Result<Response<Bytes>, Fault> {
        let policy = &self.forward.policy;
        policy.headers.to_upstream(&mut parts, is_trusted);
        policy.retarget(&mut parts.uri);
        // An interim answer, and a tunnel, would pass in clear.
        parts.extensions.remove::<Interim>();
        parts.extensions.remove::<ExtendedConnect>();
        if was_opened {
            let wire = format!("mle:{}", self.mle.policy.profile.name());
            if let Ok(wire) = HeaderValue::try_from(wire) {
                parts.headers.insert(WIRE, wire);
            }
        }
        // A compressed answer can be neither sealed nor opened, and without the header any coding would be allowed.
        parts.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        // The body is here whole, and a part of an answer cannot be sealed.
        parts.headers.remove(EXPECT);
        parts.headers.remove(RANGE);
        let body = body.unwrap_or_default();
        // Last, so that nothing changes what the signature covers; `Host` is the upstream's.
        let is_outbound = self.mle.policy.direction == Direction::Outbound;
        if let Some(signer) = self.mle.sign.as_ref().filter(|signer| is_outbound && !signer.is_nested()) {
            let kid = signer.sign(&mut parts, &body, self.authority.now_ms()).await?;
            self.count_signature(kid);
            self.count_sign_use(signer);
        }
        let request = Request::from_parts(parts, full(body));
        let answer = self.forward.upstream.call(request).await.map_err(Fault::Upstream)?;
        let mut answer = break_off_unframed(answer);
        policy.headers.to_client(answer.headers_mut());
        let (parts, body) = answer.into_parts();
        let time = self.forward.upstream.response_time();
        let body = read_body(body, policy.sealed_body_max, time).await.map_err(|refusal| match refusal {
            BodyRefusal::TooSlow => Fault::Upstream(UpstreamError::TooSlow),
            other => Fault::Upstream(UpstreamError::Unreachable(format!("its body: {other}"))),
        })?;
        Ok(Response::from_parts(parts, body.into()))
    }

    /// Makes headers those of a token.
    fn of_token(&self, headers: &mut HeaderMap, sealed: &TokenBody) {
        of_body(headers);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(sealed.content_type));
        fields::forget(headers, &self.mle.policy.profile);
        headers.extend(sealed.headers.iter().cloned());
    }

    /// Answers a rejected message. Whatever was wrong with a token, the answer is the same.
    fn reject(&self, fault: Fault) -> Response<Body> {
        match fault {
            Fault::Refused(refusal) => {
                message::report(self.route, &self.mle.policy.profile, &refusal);
                plain_error(StatusCode::BAD_REQUEST, "CRYPTO_ERROR")
            }
            Fault::Answer(refusal) => {
                message::report(self.route, &self.mle.policy.profile, &refusal);
                let why = format!("its answer is not one of the profile: {refusal}");
                UpstreamError::Unreachable(why).answer(Form::Plain)
            }
            Fault::Unsealable(why) => UpstreamError::Unreachable(why).answer(Form::Plain),
            Fault::Store(refusal) => {
                sealway_sessions::answer::report(&refusal, "mle");
                rejected(refusal, Form::Plain)
            }
            Fault::Caller => plain_error(StatusCode::FORBIDDEN, "SESSION_FORBIDDEN"),
            Fault::Overload | Fault::Broker => busy(),
            Fault::Upstream(err) => err.answer(Form::Plain),
        }
    }
}

/// Returns whether a body has a content coding.
pub(crate) fn is_compressed(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_ENCODING).is_some_and(|coding| coding != "identity")
}

/// Makes headers those of a plaintext of this media type, or of a message without one.
fn of_plaintext(headers: &mut HeaderMap, content_type: Option<&HeaderValue>) {
    of_body(headers);
    if let Some(content_type) = content_type {
        headers.insert(CONTENT_TYPE, content_type.clone());
    }
}

/// Removes the headers that describe another body.
pub(crate) fn of_body(headers: &mut HeaderMap) {
    // A digest of a plaintext would let it be guessed.
    const OF_BODY: [HeaderName; 11] = [
        ACCEPT_RANGES,
        CONTENT_ENCODING,
        CONTENT_LENGTH,
        CONTENT_RANGE,
        ETAG,
        LAST_MODIFIED,
        TRAILER,
        HeaderName::from_static("content-digest"),
        HeaderName::from_static("repr-digest"),
        HeaderName::from_static("digest"),
        HeaderName::from_static("content-md5"),
    ];
    remove_where(headers, |name| OF_BODY.contains(name));
}

//! A route with `sealed: ehbp`: requests by the Encrypted HTTP Body Protocol in front of an unchanged service. `proto::ehbp` has the
//! bytes; this module has the exchange around them.

mod body;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_TYPE, EXPECT, HeaderMap, HeaderName, HeaderValue, IF_RANGE, RANGE, UPGRADE,
};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Body as HttpBody;
use metrics::{counter, histogram};
use parking_lot::Mutex;
use sealway_exchange::Sessions;
use sealway_exchange::headers::remove_where;
use sealway_exchange::timing::ServerTiming;
use sealway_proto::Error;
use sealway_proto::ehbp::{
    AnswerSealer, ENCAPSULATED_KEY, EhbpError, OpenedRequest, RESPONSE_NONCE, RequestKey, open, parse_encapsulated_key,
};
use sealway_proto::hpke::{Aead, Kem, Suite};
use sealway_proto::session::{Fresh, NonceGuard};
use sealway_runtime::http::notices::Gate;
use sealway_runtime::http::share::Share;
use sealway_runtime::http::{Body, BodyRefusal, ExtendedConnect, Interim, Origin, RequestBody, discard, full};
use sealway_sessions::Authority;
use sealway_sessions::answer::{Form, Refusal, plain_error, rejected};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use self::body::{Ciphertexts, Fault, SealedAnswer, StreamedRequest};
use super::{Key, LiveKeys, Openings, Purpose};
use crate::body::{StreamLimits, keeping};
use crate::config::RequestLimits;
use crate::cors;
use crate::forward;
use crate::mle::{WIRE, is_compressed, of_body};
use crate::route::Forward;
use crate::sealed::SealedBody;
use crate::uploads::{Upload, begin};
use crate::upstream::{UpstreamError, break_off_unframed};
use crate::used::count_hpke;

/// The header of a request that is sealed on another wire.
const SEAL: &str = "x-seal";
/// The body of a 422 (section 5.4.2): the client's key is not live.
const KEY_MISMATCH: &str = r#"{"type":"urn:ietf:params:ehbp:error:key-config","title":"The key is not accepted; fetch the key configuration again"}"#;

/// The requests without a seal that a route passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ClearRequests {
    /// None: each request must be sealed.
    #[default]
    Refuse,
    /// Those without a body, which the protocol never seals.
    Bodyless,
    /// All, with or without a body.
    Pass,
}

/// The settings of a route for requests by the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EhbpPolicy {
    /// The requests without a seal that pass.
    pub unsealed: ClearRequests,
    /// True if a request's body is sent to the service as it opens.
    pub streams: bool,
    /// True if a request that came before is rejected.
    pub refuses_replays: bool,
}

impl Default for EhbpPolicy {
    fn default() -> Self {
        EhbpPolicy { unsealed: ClearRequests::Refuse, streams: false, refuses_replays: true }
    }
}

/// A route with its keys and its service, for one exchange.
struct Exchange<'a> {
    keys: &'a LiveKeys,
    authority: &'a Authority,
    forward: &'a Forward,
    route: &'a str,
    limits: RequestLimits,
    is_trusted: bool,
}

/// Answers a request of a route with `sealed: ehbp`.
pub(crate) async fn call(
    (keys, openings): (&LiveKeys, &Openings),
    authority: &Authority,
    (forward, route): (&Forward, &str),
    limits: RequestLimits,
    mut parts: Parts,
    (body, room): (RequestBody, Share),
    is_trusted: bool,
    timing: &mut ServerTiming,
) -> Response<Body> {
    let enc = encapsulated_key(&parts.headers);
    remove_ehbp(&mut parts.headers);
    let exchange = Exchange { keys, authority, forward, route, limits, is_trusted };
    let answer = match enc {
        Ok(None) => return exchange.unsealed(parts, (body, room), timing).await,
        Ok(Some(_)) if parts.headers.contains_key(SEAL) => {
            discard(body).await;
            Err(EhbpError::Header.into())
        }
        Ok(Some(enc)) => {
            let client = parts.extensions.get::<Origin>().and_then(|origin| origin.client);
            if let Err(refusal) = openings.take(client) {
                discard(body).await;
                sealway_sessions::answer::report(&refusal, "ehbp");
                return rejected(refusal, Form::Plain);
            }
            exchange.sealed(&enc, parts, (body, room), timing).await
        }
        Err(err) => {
            discard(body).await;
            Err(err.into())
        }
    };
    answer.unwrap_or_else(|fault| {
        // The names of steps would tell how far the request came.
        timing.forget_steps();
        exchange.reject(&fault)
    })
}

/// Returns the encapsulated secret of a request; `None` if it has no such header.
fn encapsulated_key(headers: &HeaderMap) -> Result<Option<[u8; 32]>, EhbpError> {
    let mut values = headers.get_all(ENCAPSULATED_KEY).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => parse_encapsulated_key(value.as_bytes()).map(Some),
        (Some(_), Some(_)) => Err(EhbpError::Header),
    }
}

/// Removes the headers of the protocol, which have a meaning between client and gateway alone.
fn remove_ehbp(headers: &mut HeaderMap) {
    remove_where(headers, |name| name == ENCAPSULATED_KEY || name == RESPONSE_NONCE);
}

impl Exchange<'_> {
    /// Passes a request in clear, if the route does.
    async fn unsealed(
        &self,
        mut parts: Parts,
        (body, room): (RequestBody, Share),
        timing: &mut ServerTiming,
    ) -> Response<Body> {
        let is_bodyless = body.is_end_stream() || body.size_hint().exact() == Some(0);
        let is_extended = parts.extensions.get::<ExtendedConnect>().is_some();
        let passes = match self.forward.policy.ehbp.unsealed {
            ClearRequests::Refuse => false,
            ClearRequests::Bodyless => is_bodyless && !is_extended,
            ClearRequests::Pass => true,
        };
        if self.forward.policy.ehbp.unsealed != ClearRequests::Pass {
            // A tunnel behind a request without a body would carry any body in clear.
            remove_where(&mut parts.headers, |name| *name == UPGRADE);
        }
        if !passes {
            discard(body).await;
            return self.reject(&Fault::Unsealed);
        }
        let answer = forward::pass_through(self.forward, self.limits, parts, (body, room), self.is_trusted, timing);
        let mut answer = answer.await;
        remove_ehbp(answer.headers_mut());
        answer
    }

    async fn sealed(
        &self,
        enc: &[u8; 32],
        parts: Parts,
        (body, room): (RequestBody, Share),
        timing: &mut ServerTiming,
    ) -> Result<Response<Body>, Fault> {
        let policy = &self.forward.policy;
        let is_answered = Arc::<AtomicBool>::default();
        let (ahead, bounds) = (room.another(), self.limits.of_body(policy, &is_answered));
        // The bound of the plaintext limits a body that is collected.
        let len_max = if policy.ehbp.streams { bounds.len_max } else { u64::MAX };
        let body = SealedBody::new(body, StreamLimits { len_max, ..bounds }, room);
        let mut frames = Ciphertexts::new(body, policy.sealed_body_max);
        let opened = self.open(enc, &mut frames).await;
        let (key, mut opened) = match opened {
            Ok(opened) => opened,
            Err(fault) => {
                frames.discard(&fault).await;
                return Err(fault);
            }
        };
        timing.lap("open");
        // From here on only the client with the secret reads the answer.
        let sealer = self.sealer(&mut opened)?;
        let origin = parts.extensions.get::<Origin>().cloned();
        let fresh = if policy.ehbp.refuses_replays {
            let peer = origin.as_ref().and_then(|origin| origin.client);
            match self.authority.reserve_from(peer, opened.claim()).await {
                Ok(fresh) => fresh,
                Err(refusal) => {
                    sealway_sessions::answer::report(&refusal, "ehbp");
                    let rejection = match refusal {
                        Refusal::Wire(Error::Replayed) => plain_error(StatusCode::CONFLICT, "REPLAYED"),
                        refusal => rejected(refusal, Form::Plain),
                    };
                    return Ok(seal(rejection, sealer));
                }
            }
        } else {
            Fresh::reserved(opened.claim())
        };
        timing.lap("replay-protection");
        self.count(&key);
        let (plaintext, opener) = opened.release(fresh).map_err(|_| Fault::Refused(EhbpError::Provider))?.into_parts();
        let body = if policy.ehbp.streams {
            let upload = Upload {
                forward: self.forward,
                origin: origin.as_ref(),
                ahead_max: self.limits.body_ahead_max,
                waits_for_100: false,
            };
            begin(StreamedRequest::new(plaintext, opener, frames).boxed_unsync(), ahead, &upload).await
        } else {
            // The room is free when the service has all of it.
            Ok(keeping(full(owned(plaintext)), Arc::new(Mutex::new(frames.into_room()))))
        };
        let answer = match body {
            Ok(body) => self.ask(parts, body).await,
            Err(err) => Err(err),
        };
        is_answered.store(true, Ordering::Relaxed);
        timing.lap("upstream");
        Ok(seal(answer.unwrap_or_else(|err| err.answer(Form::Plain)), sealer))
    }

    /// Reads and opens the first frame; the rest too, unless the route streams.
    async fn open(
        &self,
        enc: &[u8; 32],
        frames: &mut Ciphertexts,
    ) -> Result<(Arc<Key>, NonceGuard<OpenedRequest>), Fault> {
        let policy = &self.forward.policy;
        let first = tokio::time::timeout(self.authority.body_deadline(), frames.next()).await;
        let first = first.map_err(|_| Fault::Body(BodyRefusal::TooSlow))??.ok_or(EhbpError::Empty)?;
        let (now_ms, began) = (self.authority.now_ms(), Instant::now());
        let keys = self.keys.accepted(Purpose::Ehbp, now_ms);
        let tried = keys.iter().map(|key| RequestKey {
            private: key.private(),
            hash: key.hash(),
            accepted_ms: (key.times().published_ms, key.times().accepted_until_ms),
        });
        let opened = open(self.authority.provider(), tried, enc, &first, now_ms);
        histogram!("sealway_one_shot_open_seconds", "kem" => "x25519").record(began.elapsed().as_secs_f64());
        let in_vain = match &opened {
            Ok((index, _)) => *index,
            Err(EhbpError::KeyMismatch) => keys.len(),
            Err(_) => 0,
        };
        counter!("sealway_one_shot_trial_opens_total").increment(in_vain as u64);
        let (index, mut opened) = opened?;
        let key = keys.into_iter().nth(index).ok_or(EhbpError::KeyMismatch)?;
        if !policy.ehbp.streams {
            let mut len = first.len();
            while len <= policy.sealed_body_max.saturating_add(16) {
                let Some(mut ciphertext) = frames.next().await? else { return Ok((key, opened)) };
                len = opened.open_next(&mut ciphertext)?.saturating_add(16);
            }
            return Err(Fault::Body(BodyRefusal::TooLarge));
        }
        Ok((key, opened))
    }

    /// Derives the key of the answer, of a fresh nonce.
    fn sealer(&self, opened: &mut NonceGuard<OpenedRequest>) -> Result<AnswerSealer, Fault> {
        let provider = self.authority.provider();
        let mut nonce = [0; 32];
        provider.fill_random(&mut nonce).map_err(|_| EhbpError::Provider)?;
        Ok(opened.answer(provider, nonce)?)
    }

    /// Calls the service with the plaintext.
    async fn ask(&self, mut parts: Parts, body: Body) -> Result<Response<Body>, UpstreamError> {
        let policy = &self.forward.policy;
        policy.headers.to_upstream(&mut parts, self.is_trusted);
        policy.retarget(&mut parts.uri);
        // An interim answer, and a tunnel, would pass in clear.
        parts.extensions.remove::<Interim>();
        parts.extensions.remove::<ExtendedConnect>();
        of_plaintext(&mut parts.headers);
        parts.headers.insert(WIRE, HeaderValue::from_static("ehbp"));
        let mut answer = self.forward.upstream.call(Request::from_parts(parts, body)).await?;
        policy.headers.to_client(answer.headers_mut());
        cors::remove(answer.headers_mut());
        if !answer.body().is_end_stream() && is_compressed(answer.headers()) {
            // In the clear over ciphertext the header would make every client's HTTP library decompress ciphertext, and without it the
            // client would not know.
            return Err(UpstreamError::Unreachable("its answer is compressed, though nothing asked for that".into()));
        }
        Ok(break_off_unframed(answer))
    }

    fn count(&self, key: &Key) {
        counter!("sealway_sealed_calls_total", "wire" => "ehbp").increment(1);
        counter!("sealway_one_shot_key_used_total", "use" => "ehbp", "key_id" => key.name().to_owned()).increment(1);
        count_hpke(self.route, "ehbp", key.name(), Suite { kem: Kem::X25519, aead: Aead::Aes256Gcm });
        opens("ok");
    }

    /// Answers a rejected request in the clear. Whatever was wrong with its frames, the answer is the same.
    fn reject(&self, fault: &Fault) -> Response<Body> {
        let class = match fault {
            Fault::Body(refusal) => return UpstreamError::RequestBody(*refusal).answer(Form::Plain),
            Fault::Unsealed => "unsealed",
            Fault::Refused(err) => err.class(),
        };
        report(self.route, class, fault);
        opens("rejected");
        match fault {
            Fault::Refused(EhbpError::KeyMismatch | EhbpError::Claim(_)) => {
                let mut answer = Response::new(full(KEY_MISMATCH));
                *answer.status_mut() = StatusCode::UNPROCESSABLE_ENTITY;
                answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
                answer
            }
            Fault::Refused(EhbpError::FrameTooLong(_)) => {
                plain_error(StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE")
            }
            Fault::Refused(EhbpError::Provider) => {
                plain_error(StatusCode::INTERNAL_SERVER_ERROR, "SERVICE_UNAVAILABLE")
            }
            _ => plain_error(StatusCode::BAD_REQUEST, "CRYPTO_ERROR"),
        }
    }
}

fn opens(result: &'static str) {
    counter!("sealway_one_shot_opens_total", "mode" => "ehbp", "kem" => "x25519", "result" => result).increment(1);
}

/// Counts a rejected request and logs its class, in a limited number of lines: the peer decides how often it sends one.
fn report(route: &str, class: &'static str, fault: &Fault) {
    static NOTICES: LazyLock<Mutex<HashMap<&'static str, Gate>>> = LazyLock::new(Mutex::default);
    counter!("sealway_refusals_total", "on" => "ehbp", "class" => class).increment(1);
    let kept_back = NOTICES.lock().entry(class).or_default().pass(Instant::now());
    if let Some(kept_back) = kept_back {
        tracing::info!(on = "ehbp", class, route, kept_back, "refused: {fault}");
    }
}

/// Makes headers those of a plaintext whose answer will be sealed.
fn of_plaintext(headers: &mut HeaderMap) {
    // The body's own coding is the client's, and inside the seal.
    let coding = headers.get(http::header::CONTENT_ENCODING).cloned();
    of_body(headers);
    if let Some(coding) = coding {
        headers.insert(http::header::CONTENT_ENCODING, coding);
    }
    // A part of an answer can be sealed, but its range is in the clear, and the headers that a client checks it by are dropped.
    const OF_ANSWER: [HeaderName; 3] = [EXPECT, RANGE, IF_RANGE];
    remove_where(headers, |name| OF_ANSWER.contains(name));
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
}

/// Seals an answer as it comes. One without a body has the nonce all the same: clients take a success without it for an error.
fn seal(answer: Response<Body>, sealer: AnswerSealer) -> Response<Body> {
    let (mut parts, body) = answer.into_parts();
    of_body(&mut parts.headers);
    remove_ehbp(&mut parts.headers);
    parts.headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store, no-transform"));
    if let Ok(nonce) = HeaderValue::try_from(sealer.nonce()) {
        parts.headers.insert(RESPONSE_NONCE, nonce);
    }
    let body = if body.is_end_stream() { full("") } else { SealedAnswer::new(body, sealer).boxed_unsync() };
    Response::from_parts(parts, body)
}

/// Returns bytes that are wiped when the service has them.
fn owned(plaintext: Zeroizing<Vec<u8>>) -> bytes::Bytes {
    bytes::Bytes::from_owner(plaintext)
}

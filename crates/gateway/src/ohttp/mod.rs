//! Oblivious HTTP (RFC 9458): a route that is a gateway, which opens encapsulated requests, forwards them to its targets and seals the
//! answers; and a route that is a relay, which passes messages on to one gateway and names nobody.
//!
//! `sealway_proto::ohttp` and `sealway_proto::bhttp` have the messages; this module has the exchange around them. It may not know a
//! client's address beyond the share of the store that the peer has.

mod inner;
mod rejection;
mod relay;
mod seal;
mod stream;
mod target;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use metrics::counter;
use parking_lot::Mutex;
use sealway_exchange::Sessions;
use sealway_proto::bhttp::Head;
use sealway_proto::error::Error;
use sealway_proto::exchange::Refusal;
use sealway_proto::ohttp::{Form, Header, KEYS_TYPE, OhttpError, Request as Encapsulated};
use sealway_proto::routes::Pattern;
use sealway_proto::session::Claim;
use sealway_runtime::http::share::{Share, Taker};
use sealway_runtime::http::{Body, BodyRefusal, Origin, RequestBody, discard, full, read_body};
use sealway_sessions::Authority;

use self::inner::Inner;
use self::rejection::Rejection;
pub(crate) use self::relay::{Relay, RelayPolicy};
use self::seal::{AnswerStream, Sealer, whole_message};
use self::stream::{Content, Piece, Stream, rejection, rejection_behind};
pub(crate) use self::target::{Authority as Target, Targets};
use crate::body::{barred, held_in, keeping};
use crate::config::RequestLimits;
use crate::one_shot::{Document, Key, LiveKeys, Openings, kem_name};
use crate::route::{Action, Forward, ForwardPolicy, Matcher, Route};
use crate::uploads::{Upload, begin as begin_upload};
use crate::upstream::{UpstreamError, break_off_unframed};
use crate::used::count_hpke;

/// The path at which clients look for a gateway (RFC 9540 section 4).
const WELL_KNOWN_PATH: &str = "/.well-known/ohttp-gateway";
/// Room for the header, an encapsulated secret and a tag, in bytes; the longest secret has 1,665.
const OVERHEAD: usize = 2048;

/// Rule of a gateway for the inner `Date`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DateRule {
    /// A request without one is claimed for the whole life of its key.
    #[default]
    Optional,
    /// A request without one is rejected.
    Required,
}

/// The settings of a route with the role of a gateway.
#[derive(Clone, Debug)]
pub(crate) struct GatewayPolicy {
    /// Targets, each with the name of its upstream.
    pub(crate) targets: Vec<(Target, String)>,
    pub(crate) takes_chunks: bool,
    pub(crate) date: DateRule,
    /// Longest request within, in bytes.
    pub(crate) request_max: usize,
    /// Longest answer of a service that is sealed whole, in bytes.
    pub(crate) answer_max: usize,
    /// Length to whose multiples answers are filled up, in bytes; 0 fills nothing up.
    pub(crate) padding: usize,
    /// Openings a minute and network of its peers; 0 means no limit.
    pub(crate) opens_per_minute: u32,
    /// Index of the route in the configuration.
    pub(crate) route: usize,
}

/// A route with the role of a gateway.
#[derive(Debug)]
pub struct Gateway {
    pub(crate) policy: GatewayPolicy,
    pub(crate) targets: Targets,
    pub(crate) keys: Arc<LiveKeys>,
    pub(crate) openings: Openings,
}

impl Gateway {
    /// Returns the most bytes that the route holds in memory for one exchange: a whole request and its answer.
    pub(crate) fn held_max(&self) -> usize {
        self.policy.request_max + OVERHEAD + self.policy.answer_max
    }
}

/// Returns the routes at which clients look for the gateways among these, on the same listeners and hosts.
pub(crate) fn well_known(routes: &[Route]) -> Vec<Route> {
    let mut found: Vec<Route> = Vec::new();
    for route in routes {
        let Action::Ohttp(gateway) = &route.action else { continue };
        let Ok(path) = Pattern::exact(WELL_KNOWN_PATH.to_owned()) else { continue };
        let matcher = Matcher { patterns: vec![path], ..route.matcher.clone() };
        if found.iter().all(|other| other.matcher != matcher) {
            let (name, action) = (route.name.clone(), Action::Ohttp(gateway.clone()));
            found.push(Route { name, matcher, delay: route.delay, action });
        }
    }
    found
}

/// One exchange of a gateway.
struct Exchange<'a> {
    gateway: &'a Gateway,
    authority: &'a Authority,
    limits: RequestLimits,
    route: &'a str,
    origin: Option<&'a Origin>,
}

/// Answers a request of a route with the role of a gateway.
pub(crate) async fn call(
    gateway: &Gateway,
    authority: &Authority,
    limits: RequestLimits,
    route: &str,
    parts: Parts,
    (body, room): (RequestBody, Share),
) -> Response<Body> {
    if [Method::GET, Method::HEAD].contains(&parts.method) && accepts_keys(&parts.headers) {
        discard(body).await;
        return Document::OhttpList.answer(&gateway.keys, &parts.method, authority.now_ms());
    }
    let exchange = Exchange { gateway, authority, limits, route, origin: parts.extensions.get::<Origin>() };
    let client = exchange.origin.and_then(|origin| origin.client);
    let form = form_of(&parts, gateway.policy.takes_chunks);
    let answer = match form.and_then(|form| gateway.openings.take(client).map(|()| form).map_err(Rejection::from)) {
        Ok(Form::Whole) => {
            let room = Arc::new(Mutex::new(room));
            let answer = exchange.whole(body.held_in(room.clone()), &room).await;
            answer.map(|answer| answer.map(|body| keeping(body, room)))
        }
        Ok(Form::Chunked) => exchange.chunked(body, room).await,
        Err(rejection) => {
            discard(body).await;
            Err(rejection)
        }
    };
    answer.unwrap_or_else(|rejection| {
        rejection.report(route);
        rejection.outside(authority.now_ms())
    })
}

/// Returns whether a request asks for key configurations (RFC 9540 section 5).
fn accepts_keys(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|range| {
        let essence = range.split(';').next().unwrap_or_default().trim();
        essence.eq_ignore_ascii_case(KEYS_TYPE)
    })
}

/// Returns the form of an encapsulated request by its method and media type.
fn form_of(parts: &Parts, takes_chunks: bool) -> Result<Form, Rejection> {
    if parts.method != Method::POST {
        return Err(Rejection::OUTER_METHOD);
    }
    let mut types = parts.headers.get_all(CONTENT_TYPE).iter();
    let form = types.next().and_then(|value| value.to_str().ok()).and_then(Form::of_type);
    match form {
        Some(form) if types.next().is_none() && (takes_chunks || form == Form::Whole) => Ok(form),
        _ => Err(Rejection::TYPE),
    }
}

impl Exchange<'_> {
    /// Answers a request that is opened whole before any of it is used.
    async fn whole(&self, body: RequestBody, room: &Arc<Mutex<Share>>) -> Result<Response<Body>, Rejection> {
        let read = read_body(body, self.gateway.policy.request_max + OVERHEAD, self.limits.body_time).await;
        let mut bytes = read.map_err(|refusal| Rejection::of_status(UpstreamError::RequestBody(refusal).status()))?;
        let mut rest = &*bytes;
        let (header, key) = self.key(&mut rest)?;
        let (enc, sealed) = rest.split_at_checked(header.enc_len().map_err(rejection)?).ok_or(Rejection::CUT)?;
        let request = self.begin(Form::Whole, &header, &key, enc)?;
        let at = bytes.len() - sealed.len();
        bytes.drain(..at);
        let stream = Stream::whole(request, bytes, self.gateway.policy.request_max as u64);
        let mut stream = stream.inspect_err(|_| self.count_open(&key, "rejected"))?;
        self.count_open(&key, "ok");
        self.count_use(&header, &key);
        let sealer = self.sealer(&stream)?;
        let answer = match self.read_whole(&mut stream).await {
            Ok(message) => self.ask_whole(message, stream.request(), &key, room).await,
            Err(rejection) => Err(rejection),
        };
        sealer.whole(self.or_problem(answer.and_then(whole_message))?)
    }

    /// Answers a request whose chunks are opened as they arrive. A failure before the head is known is answered outside.
    async fn chunked(&self, body: RequestBody, room: Share) -> Result<Response<Body>, Rejection> {
        let is_answered = Arc::<AtomicBool>::default();
        let policy = ForwardPolicy::default();
        let mut body = barred(body, self.limits.of_body(&policy, &is_answered), Vec::new());
        let mut begun = Vec::new();
        let (header, key, enc_len) = loop {
            let mut rest = &*begun;
            match Header::take(&mut rest) {
                Ok(header) => {
                    let enc_len = header.enc_len().map_err(rejection)?;
                    if rest.len() >= enc_len {
                        let (header, key) = self.key(&mut &*begun)?;
                        break (header, key, enc_len);
                    }
                }
                Err(OhttpError::Truncated) => {}
                Err(err) => return Err(rejection(err)),
            }
            match body.frame().await {
                Some(Ok(frame)) => begun.extend_from_slice(&frame.into_data().unwrap_or_default()),
                Some(Err(err)) => return Err(rejection_behind(&*err)),
                None => return Err(Rejection::CUT),
            }
        };
        let begun = Bytes::from(begun);
        let at = sealway_proto::ohttp::HEADER_LEN;
        let request = self.begin(Form::Chunked, &header, &key, begun.get(at..at + enc_len).unwrap_or_default())?;
        let input = begun.slice(at + enc_len..);
        let mut stream = Stream::chunked(request, input, body, u64::MAX);
        let head = match stream.next().await {
            Some(Ok(Piece::Head(head))) => head,
            Some(Err(err)) => {
                let rejection = rejection_behind(&*err);
                self.count_open(&key, "rejected");
                // The answer to a malformed message is for its sender alone.
                if rejection.is_of_message() {
                    rejection.report(self.route);
                    return self.sealer(&stream)?.whole(whole_message(rejection.problem(self.authority.now_ms()))?);
                }
                return Err(rejection);
            }
            _ => return Err(Rejection::CUT),
        };
        self.count_open(&key, "ok");
        self.count_use(&header, &key);
        let sealer = self.sealer(&stream)?;
        match self.ask_stream(head, stream, room, &key).await.and_then(AnswerStream::begin) {
            Ok(answer) => {
                is_answered.store(true, Ordering::Relaxed);
                sealer.stream(answer)
            }
            Err(rejection) => sealer.whole(self.or_problem(Err(rejection))?),
        }
    }

    /// Finds the key that a header names.
    fn key(&self, rest: &mut &[u8]) -> Result<(Header, Arc<Key>), Rejection> {
        let header = Header::take(rest).map_err(rejection)?;
        let key = self.gateway.keys.by_key_id(header.key_id(), self.authority.now_ms()).ok_or(Rejection::KEY)?;
        Ok((header, key))
    }

    fn begin(&self, form: Form, header: &Header, key: &Key, enc: &[u8]) -> Result<Encapsulated, Rejection> {
        let suite = header.suite_of(key.config()).map_err(rejection)?;
        let begun = Encapsulated::begin(self.authority.provider(), form, (header, suite), key.private(), enc);
        begun.map_err(rejection).inspect_err(|_| self.count_open(key, "rejected"))
    }

    fn count_open(&self, key: &Key, result: &'static str) {
        let kem = kem_name(key.config().public_key().kem());
        counter!("sealway_one_shot_opens_total", "mode" => "ohttp", "kem" => kem, "result" => result).increment(1);
        if result == "ok" {
            let name = key.name().to_owned();
            counter!("sealway_one_shot_key_used_total", "use" => "ohttp", "key_id" => name).increment(1);
        }
    }

    /// Counts the algorithms of a request that was opened, for the inventory.
    fn count_use(&self, header: &Header, key: &Key) {
        if let Ok(suite) = header.suite_of(key.config()) {
            count_hpke(self.route, "ohttp", key.name(), suite);
        }
    }

    fn sealer(&self, stream: &Stream) -> Result<Sealer, Rejection> {
        let (request, provider) = (stream.request(), self.authority.provider());
        let mut nonce = vec![0; request.nonce_len()];
        provider.fill_random(&mut nonce).map_err(|_| Rejection::STORE)?;
        let answer = request.answer(provider, &nonce).map_err(rejection)?;
        Ok(Sealer { form: request.form(), answer, padding: self.gateway.policy.padding })
    }

    /// Reads a message that is here whole.
    async fn read_whole(&self, stream: &mut Stream) -> Result<(Head, Bytes), Rejection> {
        let (mut head, mut first, mut rest) = (None, Bytes::new(), Vec::new());
        while let Some(piece) = stream.next().await {
            match piece.map_err(|err| rejection_behind(&*err))? {
                Piece::Head(read) => head = Some(read),
                // All of most messages: it is not copied.
                Piece::Content(read) if first.is_empty() => first = read,
                Piece::Content(read) => rest.extend_from_slice(&read),
                // Upstreams get trailers from streams alone.
                Piece::Trailers(_) => {}
            }
        }
        let content = if rest.is_empty() { first } else { [&*first, &rest].concat().into() };
        head.map(|head| (head, content)).ok_or(Rejection::CUT)
    }

    async fn ask_whole(
        &self,
        (head, content): (Head, Bytes),
        request: &Encapsulated,
        key: &Key,
        room: &Arc<Mutex<Share>>,
    ) -> Result<Response<Bytes>, Rejection> {
        let inner = self.admit(head, request, key).await?;
        let answer = ask(inner.forward, Request::from_parts(inner.parts, full(content))).await?;
        let (parts, body) = answer.into_parts();
        let time = inner.forward.upstream.response_time();
        let body = read_body(held_in(body, room.clone()), self.gateway.policy.answer_max, time).await;
        let body = body.map_err(|refusal| match refusal {
            BodyRefusal::NoRoom => Rejection::of_status(StatusCode::SERVICE_UNAVAILABLE),
            _ => Rejection::ANSWER,
        })?;
        Ok(Response::from_parts(parts, body.into()))
    }

    async fn ask_stream(
        &self,
        head: Head,
        stream: Stream,
        room: Share,
        key: &Key,
    ) -> Result<Response<Body>, Rejection> {
        let inner = self.admit(head, stream.request(), key).await?;
        let body = Content::begin(stream).await.map_err(|err| rejection_behind(&*err))?;
        let forward = inner.forward;
        let upload =
            Upload { forward, origin: self.origin, ahead_max: self.limits.body_ahead_max, waits_for_100: false };
        let body = begin_upload(body, room, &upload).await.map_err(|err| unanswered(&err))?;
        ask(forward, Request::from_parts(inner.parts, body)).await
    }

    /// Checks the head of a request that has opened, and claims the request: from then on it cannot come a second time.
    async fn admit(&self, head: Head, request: &Encapsulated, key: &Key) -> Result<Inner<'_>, Rejection> {
        let mut inner = Inner::of(head, &self.gateway.targets)?;
        // A relay sends for all of its clients: shares of an address are those of the relay, here and in the store.
        if let Some(network) = Taker::network(self.origin) {
            inner.parts.extensions.insert(network);
        }
        if self.gateway.policy.date == DateRule::Required && inner.date_ms.is_none() {
            return Err(Rejection::DATE);
        }
        let (now_ms, provider) = (self.authority.now_ms(), self.authority.provider());
        let enc = request.enc();
        let claim = match inner.date_ms {
            Some(date_ms) => {
                Claim::of_key_stamped(provider, key.key_hash(), enc, date_ms, now_ms, self.authority.replay())
            }
            None => {
                let times = key.times();
                let life = (times.published_ms, times.accepted_until_ms);
                Claim::of_key(provider, key.key_hash(), enc, life, now_ms)
            }
        };
        let claim = claim.map_err(|_| if inner.date_ms.is_some() { Rejection::DATE } else { Rejection::KEY })?;
        let peer = self.origin.and_then(|origin| origin.client);
        match self.authority.reserve_from(peer, &claim).await {
            Ok(_) => {}
            Err(Refusal::Wire(Error::Replayed)) => return Err(Rejection::REPLAYED),
            Err(Refusal::Wire(Error::TimestampOutsideWindow)) => return Err(Rejection::DATE),
            Err(refusal) => {
                sealway_sessions::answer::report(&refusal, "ohttp");
                return Err(Rejection::STORE);
            }
        }
        let wire = match request.form() {
            Form::Whole => "ohttp",
            Form::Chunked => "ohttp-chunked",
        };
        counter!("sealway_sealed_calls_total", "wire" => wire).increment(1);
        Ok(inner)
    }

    /// Returns a message for the inside: that of the service, or the problem.
    fn or_problem(&self, message: Result<Vec<u8>, Rejection>) -> Result<Vec<u8>, Rejection> {
        message.or_else(|rejection| {
            rejection.report(self.route);
            whole_message(rejection.problem(self.authority.now_ms()))
        })
    }
}

/// Asks the service of a target.
async fn ask(forward: &Forward, request: Request<Body>) -> Result<Response<Body>, Rejection> {
    let answer = forward.upstream.call(request).await.map_err(|err| unanswered(&err))?;
    // Nothing of the request switches a connection.
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Err(Rejection::ANSWER);
    }
    Ok(break_off_unframed(answer))
}

fn unanswered(err: &UpstreamError) -> Rejection {
    let status = err.status();
    counter!("sealway_upstream_failures_total", "status" => status.as_str().to_owned()).increment(1);
    Rejection::of_status(status)
}

//! A client of wire 3 on the product's session client, with the product's rule for retries.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, StatusCode};
use sealway_exchange::headers::HttpHeaders;
use sealway_proto::crypto::Provider;
use sealway_proto::crypto::identity::default_identity_library;
use sealway_proto::session::native::{
    ClientInit, ClientOffer, ClientSession, FrameOpener, InnerHeaders, KeySet, PendingAnswer, Problem, Read,
    RejectedRequest, RequestLine, SealedCall, ShareKey, Suite, sends_again,
};
use sealway_proto::wire::{SessionId, base64};
use tokio::time::{Instant, sleep};

use crate::attacker::{Attacker, Delivery};
use crate::gateway::{WINDOW_MS, WireRequest};
use crate::provider::SeedProvider;
use crate::world::{Attempt, Defect, World};

const OCTETS: &str = "application/octet-stream";
/// Most milliseconds by which a client's stamps are ahead: two thirds of the window.
const AHEAD_MAX_MS: u64 = WINDOW_MS / 3 * 2;

struct Agreement {
    session: ClientSession,
    root: SessionId,
    /// The server's last known time, and its receipt.
    clock: (u64, Instant),
    /// The end by this client's clock, counted from when the init was sent.
    ends: Instant,
}

impl Agreement {
    fn stamp_ms(&self) -> u64 {
        let (ms, at) = self.clock;
        ms + u64::try_from(at.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// The outcome of one attempt.
enum Outcome {
    Answered,
    /// It may be sent again by the rule, in a new session if that is over.
    Again,
    Failed,
}

pub(crate) struct Client {
    index: usize,
    world: Arc<World>,
    wire: Arc<Attacker>,
    trusted: KeySet,
    /// Time by which its stamps are ahead of the server's clock, in milliseconds.
    ahead_ms: u64,
    held: Option<Agreement>,
    calls: u64,
}

impl Client {
    pub(crate) fn new(index: usize, world: &Arc<World>, wire: &Arc<Attacker>, trusted: KeySet) -> Self {
        let ahead_ms = {
            let mut rng = world.rng.lock();
            if rng.chance(300) { rng.range(0, AHEAD_MAX_MS) } else { 0 }
        };
        Client { index, world: world.clone(), wire: wire.clone(), trusted, ahead_ms, held: None, calls: 0 }
    }

    fn range(&self, low: u64, high: u64) -> u64 {
        self.world.rng.lock().range(low, high)
    }

    fn chance(&self, per_mille: u64) -> bool {
        self.world.rng.lock().chance(per_mille)
    }

    /// Calls the service until a time.
    pub(crate) async fn run(mut self, until: Instant) {
        while Instant::now() < until {
            sleep(Duration::from_millis(self.range(20, 350))).await;
            if self.held.as_ref().is_some_and(|held| held.ends <= Instant::now()) {
                self.held = None;
            }
            if self.held.is_none() && !self.agree(false).await {
                continue;
            }
            match self.range(0, 99) {
                0..20 => drop(self.agree(true).await),
                20..23 => self.end().await,
                _ => self.call().await,
            }
        }
    }

    async fn call(&mut self) {
        self.calls += 1;
        let method = if self.chance(300) { "GET" } else { "POST" };
        for is_retry in [false, true] {
            match self.attempt(method).await {
                // The rule allows one retry.
                Outcome::Again if !is_retry => {}
                _ => return,
            }
            if self.held.is_none() && !self.agree(false).await {
                return;
            }
        }
    }

    async fn attempt(&mut self, method: &'static str) -> Outcome {
        let Some(held) = &self.held else { return Outcome::Failed };
        let number = self.world.number();
        let text = format!("client {} call {} attempt {number}", self.index, self.calls);
        let target = format!("/shop/{}", self.range(0, 3));
        let session = *held.session.id();
        self.world.attempt(Attempt { client: self.index, call: self.calls, method, session, text: text.clone() });
        let (stamp_ms, sent) = (held.stamp_ms() + self.ahead_ms, Instant::now());
        let (mut request, pending) = seal(&held.session, method, &target, text.as_bytes(), stamp_ms);
        let mut patience = Duration::from_millis(3500);
        if self.chance(100) {
            // A body that dribbles, across revocations and the end of its stamp.
            request.pauses = (0..self.range(1, 2)).map(|_| Duration::from_millis(self.range(300, 5000))).collect();
            patience += Duration::from_secs(11);
        }
        let delivery = self.wire.send(self.index, &request, patience).await;
        let elapsed_ms = u64::try_from(sent.elapsed().as_millis()).unwrap_or(u64::MAX) + 1;
        let Some(Delivery { answer, is_genuine, .. }) = delivery else {
            // Without an answer only a safe method is sent again.
            return if method == "GET" { Outcome::Again } else { Outcome::Failed };
        };
        if let Some(plain) = open(&pending, &answer.headers, answer.status, &answer.body) {
            self.world.answered(&text, &plain);
            return Outcome::Answered;
        }
        let Some(problem) = Problem::parse(answer.status.as_u16(), &answer.body) else { return Outcome::Failed };
        self.world.event(&format!("{text}: {}", problem.code));
        let (stamp, nonce) = pending.stamp_and_nonce();
        let proven = proven_time(&held.session, &problem, stamp, nonce);
        let refused = RejectedRequest { method, stamp_ms, elapsed_ms };
        let again = sends_again(&problem, proven.is_some(), &refused)
            || self.world.defect == Some(Defect::BuysTwice) && problem.code == "session_expired";
        match problem.code.as_str() {
            "session_expired" => {
                if is_genuine {
                    self.world.told_over(self.index, &session);
                }
                self.held = None;
            }
            "replayed" => self.world.count(|counts| counts.rejected += 1),
            _ => {}
        }
        if let (Some(ms), Some(held)) = (proven, &mut self.held) {
            held.clock = (ms, Instant::now());
        }
        if again { Outcome::Again } else { Outcome::Failed }
    }

    /// Agrees a session, or renews the one at hand; returns true on success.
    async fn agree(&mut self, is_renewal: bool) -> bool {
        let old = if is_renewal { self.held.as_ref() } else { None };
        let begun = Instant::now();
        let offer = ClientOffer {
            suites: vec![Suite::P256],
            client_id: format!("client-{}", self.index),
            ttl_sec: Some(u32::try_from(self.range(3, 14)).unwrap_or(3)),
            pinned_key_ids: Vec::new(),
            signature_algorithms: Vec::new(),
            credential: None,
        };
        let Ok(share) = ShareKey::generate(&SeedProvider, Suite::P256) else { return false };
        let Ok(init) = ClientInit::new(offer, share, old.map(|held| &held.session)) else { return false };
        let patience = Duration::from_millis(3500);
        let (body, delivery) = match old {
            None => {
                let mut headers = HeaderMap::new();
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                let (target, body) = ("/v3/sessions".to_owned(), Bytes::from(init.body()));
                let request = WireRequest { method: "POST", target, headers, body, pauses: Vec::new() };
                let Some(delivery) = self.wire.send(self.index, &request, patience).await else { return false };
                if delivery.answer.status != StatusCode::CREATED {
                    return false;
                }
                (delivery.answer.body.to_vec(), delivery)
            }
            Some(held) => {
                let target = format!("/v3/sessions/{}/renew", held.session.id());
                let (request, pending) = seal(&held.session, "POST", &target, init.body().as_bytes(), held.stamp_ms());
                let Some(delivery) = self.wire.send(self.index, &request, patience).await else { return false };
                let answer = &delivery.answer;
                let Some(body) = open(&pending, &answer.headers, answer.status, &answer.body) else { return false };
                (body, delivery)
            }
        };
        let Ok(claimed) = init.claimed(&body) else { return false };
        let key = self.trusted.get(&claimed.key_id);
        let key = key.and_then(|key| default_identity_library().public(&key.public_key).ok());
        let Ok(session) = init.finish(&SeedProvider, key.as_ref(), &body) else { return false };
        let agreed = session.agreed();
        let life = Duration::from_secs(agreed.expires_in_sec.into());
        let expires_ms = agreed.server_time_ms + u64::from(agreed.expires_in_sec) * 1000;
        let (id, clock) = (*session.id(), (agreed.server_time_ms, Instant::now()));
        let root = old.map_or(id, |held| held.root);
        self.world.event(&format!("client {} has a session{}", self.index, if is_renewal { ", renewed" } else { "" }));
        self.world.agreed(self.index, id, root, expires_ms, delivery.is_of_service);
        self.wire.learn(id);
        self.held = Some(Agreement { session, root, clock, ends: begun + life });
        true
    }

    /// Ends the session by a sealed request.
    async fn end(&mut self) {
        let Some(held) = self.held.take() else { return };
        let target = format!("/v3/sessions/{}", held.session.id());
        let (request, pending) = seal(&held.session, "DELETE", &target, b"", held.stamp_ms());
        self.world.maybe_revoked(held.session.id());
        let delivery = self.wire.send(self.index, &request, Duration::from_millis(3500)).await;
        let Some(Delivery { answer, .. }) = delivery else { return };
        if open(&pending, &answer.headers, answer.status, &answer.body).is_some() {
            self.world.event(&format!("client {} has ended its session", self.index));
            self.world.revoked(held.session.id());
        }
    }
}

/// Seals a request, in one frame or two.
fn seal<'a>(
    session: &'a ClientSession,
    method: &'static str,
    target: &str,
    body: &[u8],
    stamp_ms: u64,
) -> (WireRequest, PendingAnswer<'a>) {
    let mut nonce = [0; 16];
    let _ = SeedProvider.fill_random(&mut nonce);
    let line = RequestLine { method, target };
    let sealed = session.seal(&SeedProvider, line, OCTETS, stamp_ms, &nonce);
    let SealedCall { headers: seal, mut sealer, pending } = sealed.unwrap_or_else(|err| panic!("sealing: {err}"));
    let mut stream = Vec::new();
    let len = if body.len().is_multiple_of(2) { body.len() } else { body.len().div_ceil(2) };
    let parts: Vec<&[u8]> = if body.is_empty() { vec![body] } else { body.chunks(len).collect() };
    for (index, part) in parts.iter().enumerate() {
        let begun = sealer.begin(&mut stream);
        if index == 0 {
            InnerHeaders::new().encode(&mut stream);
        }
        stream.extend_from_slice(part);
        if let Err(err) = sealer.seal(&mut stream, begun, index + 1 == parts.len()) {
            panic!("sealing: {err}");
        }
    }
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(OCTETS));
    for (name, value) in seal {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    let request = WireRequest { method, target: target.to_owned(), headers, body: stream.into(), pauses: Vec::new() };
    (request, pending)
}

/// Opens an answer; `None` if it is not sealed for this request.
fn open(pending: &PendingAnswer<'_>, headers: &HeaderMap, status: StatusCode, body: &[u8]) -> Option<Vec<u8>> {
    let (sealed, opener) = pending.open(&SeedProvider, &HttpHeaders(headers), status.as_u16()).ok()?;
    let stream = sealed.unwrap_or_else(|| body.to_vec());
    let plain = read(opener, &stream)?;
    let (_, at) = InnerHeaders::parse(&plain).ok()?;
    plain.get(at..).map(<[u8]>::to_vec)
}

fn read(mut opener: FrameOpener, mut stream: &[u8]) -> Option<Vec<u8>> {
    let (mut all, mut frame) = (Vec::new(), Vec::new());
    while !stream.is_empty() {
        if opener.read(&mut stream, &mut frame).ok()? != Read::More {
            all.append(&mut frame);
        }
    }
    opener.end().ok()?;
    Some(all)
}

/// Returns the server's time of a problem if the server proves it.
fn proven_time(session: &ClientSession, problem: &Problem, stamp: &str, nonce: &str) -> Option<u64> {
    let ms = problem.more.get("server_time_ms")?.as_u64()?;
    let mac = base64::decode_array(problem.more.get("mac")?.as_str()?).ok()?;
    session.verifies_clock(&SeedProvider, stamp, nonce, ms, &mac).then_some(ms)
}

//! A service of wire 3 on a socket, built from the server side of `sealway_proto`: it agrees, opens and seals
//! correctly, or misbehaves on purpose. Its clock differs from this machine's.
#![allow(clippy::type_complexity, clippy::result_large_err, reason = "a service of tests may take its time")]

mod calls;
mod http_parts;

use std::collections::{HashMap, HashSet, VecDeque};
use std::convert::Infallible;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
pub(crate) use calls::{call, client, code, fixed, pinned, post, trusted};
use http::{HeaderMap, Request, Response, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
pub(crate) use http_parts::{Flowing, RequestHeaders};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use sealway_client::native::PublicKey;
use sealway_client::{Pin as KeyPin, Suite};
use sealway_proto::crypto::agreement::default_agreement_provider;
use sealway_proto::crypto::default_provider;
use sealway_proto::crypto::identity::{IdentityPair, SignatureAlgorithm, default_identity_library};
use sealway_proto::session::native::{
    FrameSealer, IdentityKey, InitRequest, InnerHeaders, KeyId, KeySet, Problem, Read, Reply, RequestLine,
    SealedRequest, ServerRandoms, Terms, agree, problem,
};
use sealway_proto::session::{Auth, Fresh, Session};
use sealway_proto::wire::{ReplayPolicy, base64};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// Start of the service's clock, far from any wall clock.
const BORN_MS: u64 = 2_500_000_000_000;
/// Latest time that a key set may name.
pub(crate) const LATEST_MS: u64 = 999_999_999_999_999;

/// Behaviour of the service for a request other than for its key set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Act {
    Serve,
    /// Rejects with a code, without a proof.
    Problem(&'static str),
    /// Answers that it does not know the session.
    Forget,
    /// Answers that the request's time is wrong; authenticated by the session's key, or not.
    Skew(Proof),
    /// Serves correctly, except for one flipped bit of the answer's body.
    Altered,
    /// Repeats the answer before this one.
    Swapped,
    /// Ends the answer's stream, cleanly, before its last frame.
    Cut,
    /// Adds bytes after the answer's last frame.
    Longer,
    /// Sends the answer's stream in its body, and in `X-Sealed` too.
    Doubled,
    /// Agrees with a key that it does not publish.
    OtherKey,
    /// Agrees with a signature by another key.
    OtherSignature,
    /// Changes a field of the agreement after the signature.
    Changed,
    /// Answers that no pinned key is live.
    Retired,
    /// Agrees on another suite than that of the client's share.
    Suite,
    Stall,
    /// Serves correctly, but delays the answer to a sealed request by this many milliseconds.
    Held(u64),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Proof {
    Right,
    Wrong,
    None,
}

pub(crate) type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

pub(crate) struct Service {
    pub(crate) keys: Mutex<Vec<Arc<IdentityPair>>>,
    pub(crate) root: Mutex<Option<IdentityPair>>,
    pub(crate) set_issued_ms: Mutex<u64>,
    /// Start and end of the keys' lifetime, and the end of the key set.
    pub(crate) set_times_ms: Mutex<[u64; 3]>,
    pub(crate) suites: Mutex<Vec<Suite>>,
    pub(crate) acts: Mutex<VecDeque<Act>>,
    pub(crate) sessions: Mutex<HashMap<String, Arc<Session>>>,
    /// Method, path and outer headers of each request.
    pub(crate) seen: Mutex<Vec<(String, HeaderMap)>>,
    /// Served requests, by method, target and body.
    pub(crate) served: Mutex<Vec<String>>,
    pub(crate) inner: Mutex<Vec<InnerHeaders>>,
    pub(crate) inits: Mutex<Vec<InitRequest>>,
    pub(crate) ttl_sec: Mutex<u32>,
    pub(crate) ahead_ms: AtomicI64,
    nonces: Mutex<HashSet<String>>,
    last: Mutex<Option<(Vec<(&'static str, String)>, Vec<u8>)>>,
    born: Instant,
}

pub(crate) fn new_key() -> Arc<IdentityPair> {
    key_of(SignatureAlgorithm::Es256)
}

pub(crate) fn key_of(algorithm: SignatureAlgorithm) -> Arc<IdentityPair> {
    default_identity_library().generate(algorithm).unwrap().1.into()
}

pub(crate) fn key_id(key: &IdentityPair) -> KeyId {
    KeyId::of(default_provider(), key.public())
}

fn plain(status: u16, body: String) -> Answer {
    Response::builder().status(status).body(Full::new(body.into()).boxed_unsync()).unwrap()
}

fn refuse(problem: Problem) -> Answer {
    plain(problem.status, problem.encode())
}

/// Answers after the whole request was read, so that its connection can serve the next one.
async fn drained(mut body: Incoming, answer: Answer) -> Answer {
    while let Some(Ok(_)) = body.frame().await {}
    answer
}

impl Service {
    pub(crate) fn new() -> Arc<Service> {
        Arc::new(Service {
            keys: Mutex::new(vec![new_key()]),
            root: Mutex::default(),
            set_issued_ms: Mutex::new(5),
            set_times_ms: Mutex::new([0, LATEST_MS, LATEST_MS]),
            suites: Mutex::new(Suite::ALL.to_vec()),
            acts: Mutex::default(),
            sessions: Mutex::default(),
            seen: Mutex::default(),
            served: Mutex::default(),
            inner: Mutex::default(),
            inits: Mutex::default(),
            ttl_sec: Mutex::new(600),
            ahead_ms: 0.into(),
            nonces: Mutex::default(),
            last: Mutex::default(),
            born: Instant::now(),
        })
    }

    pub(crate) fn with(acts: &[Act]) -> Arc<Service> {
        let service = Service::new();
        service.acts.lock().unwrap().extend(acts);
        service
    }

    pub(crate) fn public(&self) -> PublicKey {
        self.keys.lock().unwrap()[0].public().into()
    }

    pub(crate) fn pin(&self) -> KeyPin {
        KeyPin::Key(self.public())
    }

    pub(crate) fn key_id(&self) -> KeyId {
        self.pin().key_id()
    }

    pub(crate) fn now_ms(&self) -> u64 {
        let now = BORN_MS + self.born.elapsed().as_millis() as u64;
        now.saturating_add_signed(self.ahead_ms.load(Ordering::Relaxed))
    }

    pub(crate) fn key_set(&self) -> KeySet {
        let keys = self.keys.lock().unwrap();
        let [begin, end, expires_ms] = *self.set_times_ms.lock().unwrap();
        let keys = keys.iter().map(|key| IdentityKey::new(default_provider(), key.public(), begin, end).unwrap());
        let issued_ms = *self.set_issued_ms.lock().unwrap();
        let mut set = KeySet { issued_ms, expires_ms, keys: keys.collect(), root: None };
        if let Some(root) = self.root.lock().unwrap().as_ref() {
            set.sign(default_provider(), root).unwrap();
        }
        set
    }

    /// Listens on a free port, and returns the service's URL.
    pub(crate) async fn listen(self: &Arc<Service>) -> Uri {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = self.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let service = service.clone();
                let answer = service_fn(move |request| {
                    let service = service.clone();
                    async move { Ok::<_, Infallible>(service.answer(request).await) }
                });
                let serve = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
                tokio::spawn(async move { drop(serve.await) });
            }
        });
        format!("http://{address}/").parse().unwrap()
    }

    pub(crate) fn paths(&self) -> Vec<String> {
        self.seen.lock().unwrap().iter().map(|(path, _)| path.clone()).collect()
    }

    pub(crate) fn count(&self, path: &str) -> usize {
        self.paths().iter().filter(|seen| *seen == path).count()
    }

    async fn answer(self: Arc<Service>, request: Request<Incoming>) -> Answer {
        let (head, body) = request.into_parts();
        let (method, target) = (head.method.to_string(), head.uri.path_and_query().unwrap().to_string());
        self.seen.lock().unwrap().push((format!("{method} {target}"), head.headers.clone()));
        if target == "/.well-known/sealway-keys" {
            return plain(200, self.key_set().encode());
        }
        let act = self.acts.lock().unwrap().pop_front().unwrap_or(Act::Serve);
        match act {
            Act::Stall => return std::future::pending().await,
            Act::Problem(code) => return refuse(Problem::new(code)),
            Act::Retired => {
                let set = serde_json::from_str::<serde_json::Value>(&self.key_set().encode()).unwrap();
                return refuse(Problem::new("key_retired").with("key_set", set));
            }
            Act::Suite => {
                return refuse(Problem::new("suite_required").with("suites", vec!["SecP256r1MLKEM768", "P256"]));
            }
            _ => {}
        }
        let headers = RequestHeaders(head.headers);
        if target == "/v3/sessions" {
            let body = body.collect().await.unwrap().to_bytes();
            return match self.init(&headers, &body, None, act) {
                Ok(body) => plain(201, body),
                Err(answer) => answer,
            };
        }
        let answer = self.sealed(&headers, RequestLine { method: &method, target: &target }, body, act).await;
        if let Act::Held(ms) = act {
            tokio::time::sleep(Duration::from_millis(ms)).await;
        }
        answer
    }

    fn init(&self, headers: &RequestHeaders, body: &[u8], old: Option<&Session>, act: Act) -> Result<String, Answer> {
        let provider = default_agreement_provider();
        let request = InitRequest::parse(body).unwrap();
        self.inits.lock().unwrap().push(request.clone());
        let keys = self.keys.lock().unwrap().clone();
        let other = new_key();
        let fit = keys
            .iter()
            .find(|key| request.is_served_by(&IdentityKey::new(default_provider(), key.public(), 0, 1).unwrap()));
        let key = if act == Act::OtherKey { &other } else { fit.unwrap_or(&keys[0]) };
        let credential = headers.0.get("authorization").map(|value| provider.sha256(&[value.as_bytes()]));
        let suites = self.suites.lock().unwrap().clone();
        let terms = Terms {
            suites: suites.clone(),
            expires_in_sec: *self.ttl_sec.lock().unwrap(),
            key_id: key_id(key.as_ref()),
            key_ids: keys.iter().map(|key| key_id(key.as_ref())).collect(),
            auth: if credential.is_some() { Auth::Bearer } else { Auth::None },
            subject: credential.map(|_| "alice".into()),
            tenant: None,
            credential: credential.as_ref(),
        };
        let mut id = [0; 16];
        sealway_proto::crypto::Provider::fill_random(provider, &mut id).unwrap();
        let agreed = agree(provider, &request, terms, old, &id, ServerRandoms::Draw, self.now_ms(), &mut |_| ());
        let Ok(agreed) = agreed else {
            let names: Vec<_> = suites.iter().map(|suite| suite.name()).collect();
            return Err(refuse(Problem::new("suite_required").with("suites", names)));
        };
        let signer = if act == Act::OtherSignature { &other } else { key };
        let signature = signer.sign(&agreed.message()).unwrap();
        let (mut body, session) = agreed.signed(provider, signature).unwrap();
        if act == Act::Changed {
            body = body.replace("\"expires_in_sec\":600", "\"expires_in_sec\":601");
        }
        self.sessions.lock().unwrap().insert(session.id().to_string(), Arc::new(session));
        Ok(body)
    }

    async fn sealed(&self, headers: &RequestHeaders, line: RequestLine<'_>, mut body: Incoming, act: Act) -> Answer {
        let mut request = SealedRequest::parse(headers, line).unwrap();
        let taken = request.take_sealed();
        let (stamp, nonce) = request.stamp_and_nonce();
        if act == Act::Forget {
            self.sessions.lock().unwrap().clear();
        }
        let session = self.sessions.lock().unwrap().get(&request.session_id().unwrap().to_string()).cloned();
        let Some(session) = session else { return drained(body, refuse(Problem::new("session_expired"))).await };
        let policy = ReplayPolicy::default();
        let skew = |proof: Proof| {
            // One reading of the clock for both uses: a millisecond may pass between two readings.
            let now_ms = self.now_ms();
            let mut mac = problem::prove_clock(default_provider(), &session, stamp, nonce, now_ms).unwrap();
            mac[0] ^= u8::from(proof == Proof::Wrong);
            let said = Problem::new("clock_skew").with("server_time_ms", now_ms);
            refuse(if proof == Proof::None { said } else { said.with("mac", base64::encode(&mac)) })
        };
        if let Act::Skew(proof) = act {
            return drained(body, skew(proof)).await;
        }
        let opened = request.open(default_provider(), session.clone(), self.now_ms(), &policy);
        let (mut opener, opening) = match opened {
            Ok(opened) => opened,
            Err(sealway_proto::Error::TimestampOutsideWindow) => return drained(body, skew(Proof::Right)).await,
            Err(err) => panic!("{err}"),
        };
        let (mut frames, mut frame, mut buffer, mut is_last) =
            (Vec::new(), Vec::new(), taken.unwrap_or_default(), false);
        // The first frame, or the whole body of an answer that does not stream.
        let flows = line.target.starts_with("/flow");
        loop {
            let mut input = &buffer[..];
            while !input.is_empty() && (!flows || frames.is_empty()) {
                let read = opener.read(&mut input, &mut frame).unwrap();
                is_last |= read == Read::Last;
                if read != Read::More {
                    frames.push(std::mem::take(&mut frame));
                }
            }
            buffer = input.to_vec();
            if is_last || (flows && !frames.is_empty()) {
                break;
            }
            buffer.extend_from_slice(&body.frame().await.unwrap().unwrap().into_data().unwrap());
        }
        let first = opening.first(frames.remove(0)).unwrap();
        if !self.nonces.lock().unwrap().insert(nonce.to_owned()) {
            return refuse(Problem::new("replayed"));
        }
        let fresh = Fresh::reserved(first.claim());
        let first = first.release(fresh).unwrap();
        let begin = first.first.0[first.first.1..].to_vec();
        self.inner.lock().unwrap().push(first.headers);
        if flows {
            return self.flow(&first.reply, begin, opener, buffer, body, is_last);
        }
        let plaintext = [begin, frames.concat()].concat();
        self.whole(&first.reply, headers, line, &plaintext, &session, act)
    }

    fn whole(
        &self,
        reply: &Reply,
        headers: &RequestHeaders,
        line: RequestLine<'_>,
        plaintext: &[u8],
        session: &Session,
        act: Act,
    ) -> Answer {
        let said = format!("{} {} {}", line.method, line.target, String::from_utf8_lossy(plaintext));
        self.served.lock().unwrap().push(said.clone());
        let (mut status, mut text) = (200, said.into_bytes());
        if line.target.ends_with("/renew") {
            match self.init(headers, plaintext, Some(session), act) {
                Ok(body) => (status, text) = (201, body.into()),
                Err(answer) => return answer,
            }
        } else if line.method == "DELETE" && line.target.starts_with("/v3/") {
            self.sessions.lock().unwrap().remove(&session.id().to_string());
            (status, text) = (204, Vec::new());
        } else if line.target == "/large" {
            text = vec![b'x'; 200_000];
        }
        let is_bodyless = line.method == "HEAD" || status == 204;
        if is_bodyless {
            text.clear();
        }
        let content_type = if is_bodyless { "" } else { "application/octet-stream" };
        let mut nonce = [0; 16];
        default_provider().fill_random(&mut nonce).unwrap();
        let (mut list, mut sealer) =
            reply.seal(default_provider(), status, content_type, self.now_ms(), &nonce).unwrap();
        let mut body = Vec::new();
        let mut parts = text.chunks(65_000).peekable();
        let mut is_first = true;
        loop {
            let begun = sealer.begin(&mut body);
            if std::mem::take(&mut is_first) {
                let mut inner = InnerHeaders::new();
                inner.push("x-from", b"the service").unwrap();
                inner.encode(&mut body);
            }
            body.extend_from_slice(parts.next().unwrap_or_default());
            let is_last = parts.peek().is_none() && act != Act::Cut;
            sealer.seal(&mut body, begun, is_last).unwrap();
            if parts.peek().is_none() {
                break;
            }
        }
        match act {
            Act::Altered => *body.last_mut().unwrap() ^= 1,
            Act::Longer => body.push(0),
            _ => {}
        }
        if is_bodyless || act == Act::Doubled {
            list.push(("x-sealed", base64::encode(&body)));
        }
        if is_bodyless {
            body.clear();
        } else {
            list.push(("content-type", content_type.into()));
        }
        let before = self.last.lock().unwrap().replace((list.clone(), body.clone()));
        if act == Act::Swapped {
            (list, body) = before.unwrap();
        }
        let mut response = Response::builder().status(status).header("x-from", "somebody in between");
        for (name, value) in list {
            response = response.header(name, value);
        }
        response.body(Full::new(body.into()).boxed_unsync()).unwrap()
    }

    /// Answers each frame with a frame of its own, as it arrives.
    fn flow(
        &self,
        reply: &Reply,
        begin: Vec<u8>,
        mut opener: sealway_proto::session::native::FrameOpener,
        mut buffer: Vec<u8>,
        mut body: Incoming,
        mut is_last: bool,
    ) -> Answer {
        let (list, mut sealer) =
            reply.seal(default_provider(), 200, "application/octet-stream", self.now_ms(), &[7; 16]).unwrap();
        let (to, from) = mpsc::channel(4);
        let mut response = Response::builder().status(200).header("content-type", "application/octet-stream");
        for (name, value) in list {
            response = response.header(name, value);
        }
        tokio::spawn(async move {
            let mut head = Vec::new();
            InnerHeaders::new().encode(&mut head);
            to.send(one(&mut sealer, &[&head[..], &begin].concat(), false)).await.unwrap();
            let mut frame = Vec::new();
            while !is_last {
                let mut input = &buffer[..];
                while !input.is_empty() {
                    match opener.read(&mut input, &mut frame).unwrap() {
                        Read::More => {}
                        read => {
                            is_last = read == Read::Last;
                            if to.send(one(&mut sealer, &std::mem::take(&mut frame), is_last)).await.is_err() {
                                return;
                            }
                        }
                    }
                }
                buffer.clear();
                if is_last {
                    return;
                }
                let Some(Ok(next)) = body.frame().await else { return };
                buffer.extend_from_slice(&next.into_data().unwrap());
            }
            drop(to.send(one(&mut sealer, b"", true)).await);
        });
        response.body(Flowing(from).boxed_unsync()).unwrap()
    }
}

fn one(sealer: &mut FrameSealer, part: &[u8], is_last: bool) -> Bytes {
    let mut out = Vec::new();
    let begun = sealer.begin(&mut out);
    out.extend_from_slice(part);
    sealer.seal(&mut out, begun, is_last).unwrap();
    out.into()
}

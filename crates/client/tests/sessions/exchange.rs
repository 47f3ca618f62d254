//! Sealed sessions as an application has them: a client over real connections, against a service that agrees, opens and seals as
//! it must, or does on purpose what a client must not put up with.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use sealway_client::exchange::{Agreement, Wire};
use sealway_client::{Answer, Client, Error, Options};
use sealway_proto::crypto::default_provider;
use sealway_proto::session::{
    Family, Fresh, InitCall, InitRandoms, SealBuffer, SealRandoms, SealedCall, Session, Step, TtlPolicy,
};
use sealway_proto::wire::{Field, Headers, ReplayPolicy};
use tokio::net::{TcpListener, TcpStream};

/// What the service does with a request.
#[derive(Clone, Copy, PartialEq)]
enum Act {
    Serve,
    /// An answer in plain.
    Plain(u16),
    /// Knows no session any more, and says so in plain.
    Forget,
    /// As it must, but for one bit of the body.
    Altered,
    /// As it must, but that every header stands twice.
    Twice,
    /// Nothing.
    Stall,
    /// The connection ends.
    Break,
}

#[derive(Default)]
struct Service {
    acts: Mutex<VecDeque<Act>>,
    sessions: Mutex<Vec<Arc<Session>>>,
    /// Path and headers of each request.
    seen: Mutex<Vec<(String, HeaderMap)>>,
    ttl_sec: Option<u32>,
}

struct Received(HeaderMap);

impl Headers for Received {
    fn field(&self, name: &'static str) -> Field<'_> {
        self.0.get(name).map_or(Field::Absent, |value| Field::Value(value.to_str().unwrap()))
    }
}

fn no_laps(_: Step) {}

/// The time that the client says: both ends are of one machine.
fn now_ms(headers: &HeaderMap) -> u64 {
    let stamp = headers.get("x-timestamp").or_else(|| headers.get("x-idempotency-key")).unwrap();
    stamp.to_str().unwrap().split('.').next().unwrap().parse().unwrap()
}

/// Status, headers and body.
type Said = (u16, Vec<(&'static str, String)>, Vec<u8>);

impl Service {
    fn with(acts: &[Act]) -> Arc<Service> {
        Arc::new(Service { acts: Mutex::new(acts.iter().copied().collect()), ..Service::default() })
    }

    fn init(&self, path: &str, headers: &Received, body: &[u8]) -> Said {
        let family = match path {
            "/session/init/anon" => Family::Anonymous,
            "/v1/session/init" => Family::V1,
            _ => Family::Session,
        };
        let (provider, now, ttl) = (default_provider(), now_ms(&headers.0), TtlPolicy::default());
        let call = InitCall::parse(provider, family, headers, body, now, &ReplayPolicy::default()).unwrap();
        let fresh = Fresh::reserved(call.claim());
        let ttl = match self.ttl_sec {
            Some(sec) => TtlPolicy { min_sec: sec, max_sec: sec, default_sec: sec, ..ttl },
            None => ttl,
        };
        let draw = |laps: &mut dyn FnMut(Step)| InitRandoms::draw(provider, laps);
        let accepted = call.release(fresh).unwrap().accept(provider, &ttl, false, None, draw, now, &mut no_laps);
        let (answer, session) = accepted.unwrap();
        self.sessions.lock().unwrap().push(Arc::new(session));
        let timing = "ecdh;dur=0.25, total;desc=x;dur=1.5, broken, later;dur=soon";
        (200, vec![("server-timing", timing.to_owned())], answer.encode().into())
    }

    fn call(&self, path: &str, headers: &Received, body: Vec<u8>) -> Said {
        let now = now_ms(&headers.0);
        let call = SealedCall::parse(headers, path, now, &ReplayPolicy::default()).unwrap();
        let id = *call.session_id().unwrap();
        let session = self.sessions.lock().unwrap().iter().find(|session| *session.id() == id).cloned();
        let Some(session) = session else { return (401, Vec::new(), b"who are you?".to_vec()) };
        let opened = call.open(default_provider(), session, body, &mut no_laps).unwrap();
        let fresh = Fresh::reserved(opened.claim());
        let opened = opened.release(fresh).unwrap();
        let text = [b"you said: ", opened.plaintext.as_slice()].concat();
        let randoms = SealRandoms::draw(default_provider()).unwrap();
        let sealed = opened.reply.seal(200, SealBuffer::from(text.as_slice()), now, &randoms, &mut no_laps).unwrap();
        (200, sealed.headers, sealed.body)
    }

    async fn answer(self: Arc<Service>, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path().to_owned();
        self.seen.lock().unwrap().push((path.clone(), request.headers().clone()));
        let act = self.acts.lock().unwrap().pop_front().unwrap_or(Act::Serve);
        let headers = Received(request.headers().clone());
        let body = request.into_body().collect().await.unwrap().to_bytes();
        if act == Act::Forget {
            self.sessions.lock().unwrap().clear();
        }
        let (status, fields, mut body) = match act {
            Act::Stall => std::future::pending().await,
            Act::Plain(status) => (status, Vec::new(), [b"no\x07 ", &[b'x'; 400][..]].concat()),
            _ if path.contains("/init") => self.init(&path, &headers, &body),
            _ => self.call(&path, &headers, body.to_vec()),
        };
        if act == Act::Altered {
            let middle = body.len() / 2;
            body[middle] ^= 1;
        }
        let mut response = Response::builder().status(status);
        for (name, value) in fields {
            response = response.header(name, &value);
            if act == Act::Twice {
                response = response.header(name, value);
            }
        }
        response.body(Full::new(body.into())).unwrap()
    }

    /// Where it listens.
    async fn listen(self: &Arc<Service>) -> Uri {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = self.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(service.clone(), stream));
            }
        });
        format!("http://{address}/a/path/that/is/not/used").parse().unwrap()
    }

    fn paths(&self) -> Vec<String> {
        self.seen.lock().unwrap().iter().map(|(path, _)| path.clone()).collect()
    }
}

async fn serve(service: Arc<Service>, stream: TcpStream) {
    let breaks = service.acts.lock().unwrap().pop_front_if(|act| *act == Act::Break).is_some();
    if breaks {
        return;
    }
    let answer = |request| {
        let service = service.clone();
        async move { Ok::<_, Infallible>(service.answer(request).await) }
    };
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)).await;
}

fn old() -> Options {
    Options { wire: Wire::Two, ..Options::default() }
}

async fn client(service: &Arc<Service>, options: Options) -> Client {
    Client::new(service.listen().await, options).unwrap()
}

fn said(answer: &Answer) -> String {
    String::from_utf8(answer.body.to_vec()).unwrap()
}

#[tokio::test]
async fn a_session_is_agreed_once_and_calls_are_sealed_on_every_family_and_wire() {
    for (wire, init_path) in [
        (Wire::Two, "/session/init"),
        (Wire::One, "/session/init"),
        (Wire::One, "/session/init/anon"),
        (Wire::Two, "/v1/session/init"),
    ] {
        let service = Service::with(&[]);
        let options = Options { wire, init_path: init_path.into(), token: Some("the token".into()), ..old() };
        let client = client(&service, options).await;
        let (id, expires_in_sec, timings) = client.connect().await.unwrap();
        assert!(expires_in_sec > 60, "{expires_in_sec}");
        assert_eq!(timings.server, [("ecdh".to_owned(), 0.25), ("total".to_owned(), 1.5)]);
        assert!(timings.crypto.iter().any(|(step, _)| *step == "ecdh-compute") && timings.round_trip >= timings.http);
        let answer = client.post("/shop/order?page=1", b"a secret order").await.unwrap();
        assert_eq!((answer.status, said(&answer).as_str()), (StatusCode::OK, "you said: a secret order"));
        assert_eq!(said(&client.post("/shop/order", b"").await.unwrap()), "you said: ");
        assert_eq!(client.clone().connect().await.unwrap().0, id, "clones share the session");
        assert_eq!(service.paths(), [init_path, "/shop/order", "/shop/order"]);

        let seen = &answer.seen;
        assert!(seen.request_len > 0 && seen.answer_len > 0 && !seen.request_aad.is_empty());
        assert!(!format!("{seen:?}").contains("a secret order"), "what went over the wire is sealed");
        let headers = service.seen.lock().unwrap()[0].1.clone();
        assert_eq!(headers["authorization"], "Bearer the token");
        client.forget().await;
        assert_ne!(client.connect().await.unwrap().0, id);
    }
}

#[tokio::test]
async fn a_session_that_the_service_forgot_is_agreed_anew_once_and_one_about_to_end_before_it_does() {
    let service = Service::with(&[Act::Serve, Act::Forget]);
    let client = client(&service, old()).await;
    assert_eq!(said(&client.post("/a", b"x").await.unwrap()), "you said: x");
    assert_eq!(service.paths(), ["/session/init", "/a", "/session/init", "/a"]);
    // Once: a service that refuses what was agreed a moment ago is asked no third time.
    service.acts.lock().unwrap().extend([Act::Plain(401), Act::Serve, Act::Plain(401)]);
    let err = client.post("/a", b"x").await.unwrap_err();
    assert!(matches!(err, Error::Refused { status: StatusCode::UNAUTHORIZED, .. }), "{err}");
    assert_eq!(service.paths().len(), 7);

    let short = Arc::new(Service { ttl_sec: Some(4), ..Service::default() });
    let client = self::client(&short, old()).await;
    for _ in 0..2 {
        client.post("/a", b"x").await.unwrap();
    }
    assert_eq!(short.paths(), ["/session/init", "/a", "/session/init", "/a"]);
}

#[tokio::test]
async fn many_callers_wait_for_one_init() {
    let service = Service::with(&[]);
    let client = client(&service, old()).await;
    let call = |client: Client| async move { client.post("/a", b"x").await.map(|answer| answer.body) };
    let calls: Vec<_> = (0..8).map(|_| tokio::spawn(call(client.clone()))).collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap(), "you said: x");
    }
    assert_eq!(service.paths().iter().filter(|path| *path == "/session/init").count(), 1);
}

#[tokio::test]
async fn what_is_refused_in_plain_is_told_with_its_status_and_a_part_of_its_text() {
    let service = Service::with(&[Act::Plain(403), Act::Serve, Act::Plain(503)]);
    let client = client(&service, old()).await;
    let err = client.connect().await.unwrap_err();
    let Error::InitRefused { status, body } = &err else { panic!("{err}") };
    // No control character reaches a terminal, and no page of an intermediary fills it.
    assert!(*status == StatusCode::FORBIDDEN && body.starts_with("no x") && body.len() == 300, "{err}");
    let err = client.post("/a", b"x").await.unwrap_err();
    assert!(matches!(&err, Error::Refused { status, .. } if *status == StatusCode::SERVICE_UNAVAILABLE), "{err}");
    assert!(err.to_string().starts_with("call refused: 503 Service Unavailable no x"), "{err}");
}

#[tokio::test]
async fn an_answer_that_was_changed_or_has_a_header_twice_is_not_trusted() {
    for wire in [Wire::One, Wire::Two] {
        let options = || Options { wire, ..old() };
        for act in [Act::Altered, Act::Twice] {
            let service = Service::with(&[Act::Serve, act]);
            let err = client(&service, options()).await.post("/a", b"hello").await.unwrap_err();
            assert!(matches!(err, Error::Untrusted(_)), "{err}");
            assert!(err.to_string().starts_with("the answer cannot be trusted: "), "{err}");
        }
        for body in [&b""[..], b"{}", b"<html>"] {
            let agreement = Agreement::begin(&options()).unwrap().0;
            assert!(matches!(agreement.finish(StatusCode::OK, body).unwrap_err(), Error::Untrusted(_)));
        }
        let agreement = Agreement::begin(&options()).unwrap().0;
        let err = agreement.finish(StatusCode::NOT_FOUND, b"nothing").unwrap_err();
        assert_eq!(err.to_string(), "session refused: 404 Not Found nothing");
    }
}

#[tokio::test]
async fn what_was_captured_is_sent_again_as_it_is() {
    let service = Service::with(&[]);
    let client = client(&service, old()).await;
    let captured = client.seal_only("/a", b"x").await.unwrap();
    for _ in 0..2 {
        let (status, body) = client.send_captured("/a?b", &captured).await.unwrap();
        assert!(status == StatusCode::OK && !body.is_empty());
    }
    assert_eq!(service.paths(), ["/session/init", "/a", "/a"]);
}

#[tokio::test]
async fn no_answer_is_told_with_the_url_and_in_time() {
    let service = Service::with(&[Act::Stall]);
    let client = client(&service, Options { timeout: Duration::from_millis(200), ..old() }).await;
    let err = client.connect().await.unwrap_err();
    assert!(matches!(&err, Error::Timeout { url, .. } if url.ends_with("/session/init")), "{err}");
    assert!(err.to_string().ends_with("within 200 ms"), "{err}");

    let service = Service::with(&[Act::Break]);
    let client = self::client(&service, old()).await;
    let err = client.connect().await.unwrap_err();
    assert!(matches!(err, Error::Transport { .. }), "{err}");
    // Nobody listens there any more.
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let nobody = Client::new(format!("http://{gone}").parse().unwrap(), old()).unwrap();
    let err = nobody.connect().await.unwrap_err().to_string();
    assert!(err.contains(&gone.to_string()) && err.contains("refused") && !err.contains('\n'), "{err}");
}

#[tokio::test]
async fn what_cannot_be_used_is_said_before_anything_is_sent() {
    for url in ["/path/alone", "ftp://h/", "h:80"] {
        let err = Client::new(url.parse().unwrap(), old()).unwrap_err();
        assert!(matches!(err, Error::Usage(_)), "{err}");
    }
    Client::new("https://localhost".parse().unwrap(), old()).unwrap();
    let service = Service::with(&[]);
    let client = client(&service, Options { token: Some("a\nb".into()), ..old() }).await;
    let err = client.connect().await.unwrap_err();
    assert!(err.to_string().contains("authorization") && !err.to_string().contains("a\nb"), "{err}");
    let client = self::client(&service, Options { client_id: "no id\n".into(), ..old() }).await;
    assert!(matches!(client.connect().await.unwrap_err(), Error::Seal(_)));
    assert_eq!(service.paths(), [""; 0]);
    let client = self::client(&service, old()).await;
    let err = client.post("not a path", b"").await.unwrap_err();
    assert!(matches!(err, Error::Usage(_) | Error::Seal(_)), "{err}");
}

#[tokio::test]
async fn nothing_that_is_shown_has_a_key_or_a_token() {
    let service = Service::with(&[]);
    let options = Options { token: Some("the token".into()), ..old() };
    let shown = format!("{options:?}");
    assert!(shown.contains("redacted") && !shown.contains("the token"), "{shown}");
    let (agreement, outgoing) = Agreement::begin(&options).unwrap();
    let shown = format!("{agreement:?} {outgoing:?}");
    assert!(shown.starts_with("Agreement { .. } Outgoing { len: ") && !shown.contains("the token"), "{shown}");
    assert!(!format!("{:?}", outgoing.headers).contains("the token"), "it is marked as sensitive");
    let (status, _, body) = service.init("/session/init", &Received(outgoing.headers), &outgoing.body);
    let session = agreement.finish(StatusCode::from_u16(status).unwrap(), &body).unwrap();
    assert_eq!(format!("{session:?}"), format!("Session({:?})", session.id()));
    let (_, pending) = session.seal("/a", b"x").unwrap();
    assert_eq!(format!("{pending:?}"), "Pending { .. }");
    let client = client(&service, options).await;
    assert!(!format!("{client:?}").contains("the token"));
}

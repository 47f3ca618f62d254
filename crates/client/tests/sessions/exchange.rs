//! Sealed sessions from an application's view: a client over real connections, against a service that agrees, opens and
//! seals correctly, or misbehaves on purpose.

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
use sealway_client::compat::Agreement;
use sealway_client::{Body, Builder, Client, ErrorKind, Offer, Trace, Wire};
use sealway_proto::crypto::default_provider;
use sealway_proto::session::{
    Family, Fresh, InitCall, InitRandoms, SealBuffer, SealRandoms, SealedCall, Session, Step, TtlPolicy,
};
use sealway_proto::wire::{Field, Headers, ReplayPolicy};
use tokio::net::{TcpListener, TcpStream};

use crate::ground::{fixed, post};

/// Behaviour of the service for one request.
#[derive(Clone, Copy, PartialEq)]
enum Act {
    Serve,
    /// Answers unsealed, with this status.
    Plain(u16),
    /// Forgets the session, and says so in plain.
    Forget,
    /// Serves correctly, except for one flipped bit of the body.
    Altered,
    /// Serves correctly, but sends every header twice.
    Twice,
    /// Sends no answer at all.
    Stall,
    /// Ends the connection without an answer.
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

struct RequestHeaders(HeaderMap);

impl Headers for RequestHeaders {
    fn field(&self, name: &'static str) -> Field<'_> {
        self.0.get(name).map_or(Field::Absent, |value| Field::Value(value.to_str().unwrap()))
    }
}

fn no_laps(_: Step) {}

/// The time that the client sends: both ends run on one machine.
fn now_ms(headers: &HeaderMap) -> u64 {
    let stamp = headers.get("x-timestamp").or_else(|| headers.get("x-idempotency-key")).unwrap();
    stamp.to_str().unwrap().split('.').next().unwrap().parse().unwrap()
}

/// An answer: status, headers and body.
type Answer = (u16, Vec<(&'static str, String)>, Vec<u8>);

impl Service {
    fn with(acts: &[Act]) -> Arc<Service> {
        Arc::new(Service { acts: Mutex::new(acts.iter().copied().collect()), ..Service::default() })
    }

    fn init(&self, path: &str, headers: &RequestHeaders, body: &[u8]) -> Answer {
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

    fn call(&self, path: &str, headers: &RequestHeaders, body: Vec<u8>) -> Answer {
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
        let headers = RequestHeaders(request.headers().clone());
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

    /// Listens on a free port, and returns the service's URL.
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

async fn settings(service: &Arc<Service>) -> Builder {
    Client::builder(service.listen().await).wire(Wire::V2)
}

async fn client(service: &Arc<Service>) -> Client {
    settings(service).await.build().unwrap()
}

fn agreement(wire: Wire) -> Agreement {
    Agreement::begin(wire, "/session/init", &Offer::default(), &mut no_laps).unwrap().0
}

#[tokio::test]
async fn the_life_of_a_session_counts_from_when_its_init_was_sent() {
    let service = Service::with(&[]);
    for wire in [Wire::V1, Wire::V2] {
        let begun = Agreement::begin(wire, "/session/init", &Offer::default(), &mut no_laps).unwrap();
        let (agreement, message) = begun;
        let (_, _, answer) = service.init("/session/init", &RequestHeaders(message.headers), &message.body);
        tokio::time::sleep(Duration::from_millis(1100)).await;
        let session = agreement.finish(StatusCode::OK, &answer, &mut no_laps).unwrap();
        assert!(session.expires_in_sec() < u64::from(TtlPolicy::default().default_sec), "{}", session.expires_in_sec());
    }
}

fn said(answer: &Response<Bytes>) -> String {
    String::from_utf8(answer.body().to_vec()).unwrap()
}

#[tokio::test]
async fn a_session_is_agreed_once_and_calls_are_sealed_on_every_family_and_wire() {
    for (wire, init_path) in [
        (Wire::V2, "/session/init"),
        (Wire::V1, "/session/init"),
        (Wire::V1, "/session/init/anon"),
        (Wire::V2, "/v1/session/init"),
    ] {
        let service = Service::with(&[]);
        let settings =
            settings(&service).await.wire(wire).init_path(init_path).authorization(fixed("Bearer the token"));
        let client = settings.connect().await.unwrap();
        let session = client.session().await.unwrap();
        assert!(session.expires_in_sec > 60 && session.agreed.is_none(), "{session:?}");
        let (id, timings) = (session.id, session.timings);
        assert_eq!(timings.server, [("ecdh".to_owned(), 0.25), ("total".to_owned(), 1.5)]);
        assert!(timings.crypto.iter().any(|(step, _)| *step == "ecdh-compute") && timings.round_trip >= timings.http);
        let answer = post(&client, "/shop/order?page=1", b"a secret order").await.unwrap();
        assert_eq!((answer.status(), said(&answer).as_str()), (StatusCode::OK, "you said: a secret order"));
        assert_eq!(said(&post(&client, "/shop/order", b"").await.unwrap()), "you said: ");
        assert_eq!(client.clone().session().await.unwrap().id, id, "clones share the session");
        assert_eq!(service.paths(), [init_path, "/shop/order", "/shop/order"]);

        let seen = answer.extensions().get::<Trace>().unwrap();
        assert!(seen.sent() > 0 && seen.received() > 0 && !seen.request_aad.is_empty());
        let steps: Vec<_> = seen.timings().crypto.iter().map(|(step, _)| *step).collect();
        assert!(steps.contains(&"aes-gcm-encrypt") && steps.contains(&"aes-gcm-decrypt"), "{steps:?}");
        assert!(!format!("{seen:?}").contains("a secret order"), "what went over the wire is sealed");
        let headers = service.seen.lock().unwrap()[0].1.clone();
        assert_eq!(headers["authorization"], "Bearer the token");
        client.forget().await;
        assert_ne!(client.session().await.unwrap().id, id);
    }
}

#[tokio::test]
async fn a_session_that_the_service_forgot_is_agreed_anew_once_and_one_about_to_end_before_it_does() {
    let service = Service::with(&[Act::Serve, Act::Forget]);
    let client = client(&service).await;
    assert_eq!(said(&post(&client, "/a", b"x").await.unwrap()), "you said: x");
    assert_eq!(service.paths(), ["/session/init", "/a", "/session/init", "/a"]);
    // The client retries once: it does not ask a third time.
    service.acts.lock().unwrap().extend([Act::Plain(401), Act::Serve, Act::Plain(401)]);
    let err = post(&client, "/a", b"x").await.unwrap_err();
    assert!(matches!(err.kind(), ErrorKind::Refused { status: StatusCode::UNAUTHORIZED, .. }), "{err}");
    assert_eq!(service.paths().len(), 7);

    let short = Arc::new(Service { ttl_sec: Some(4), ..Service::default() });
    let client = self::client(&short).await;
    for _ in 0..2 {
        post(&client, "/a", b"x").await.unwrap();
    }
    assert_eq!(short.paths(), ["/session/init", "/a", "/session/init", "/a"]);
}

#[tokio::test]
async fn many_callers_wait_for_one_init() {
    let service = Service::with(&[]);
    let client = client(&service).await;
    let call = |client: Client| async move { post(&client, "/a", b"x").await.map(Response::into_body) };
    let calls: Vec<_> = (0..8).map(|_| tokio::spawn(call(client.clone()))).collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap(), "you said: x");
    }
    assert_eq!(service.paths().iter().filter(|path| *path == "/session/init").count(), 1);
}

#[tokio::test]
async fn an_unsealed_rejection_is_reported_with_status_and_excerpt() {
    let service = Service::with(&[Act::Plain(403), Act::Serve, Act::Plain(503)]);
    let client = client(&service).await;
    let err = client.session().await.unwrap_err();
    let ErrorKind::Refused { status, body } = err.kind() else { panic!("{err}") };
    // An error shows no control characters, and at most 300 characters of an intermediary's page.
    assert!(*status == StatusCode::FORBIDDEN && body.starts_with("no x") && body.len() == 300, "{err}");
    let err = post(&client, "/a", b"x").await.unwrap_err();
    assert!(
        matches!(err.kind(), ErrorKind::Refused { status, .. } if *status == StatusCode::SERVICE_UNAVAILABLE),
        "{err}"
    );
    assert!(err.to_string().starts_with("refused: 503 Service Unavailable no x"), "{err}");
}

#[tokio::test]
async fn an_answer_that_was_changed_or_has_a_header_twice_is_not_trusted() {
    for wire in [Wire::V1, Wire::V2] {
        for act in [Act::Altered, Act::Twice] {
            let service = Service::with(&[Act::Serve, act]);
            let client = settings(&service).await.wire(wire).build().unwrap();
            let err = post(&client, "/a", b"hello").await.unwrap_err();
            assert!(matches!(err.kind(), ErrorKind::Untrusted(_)), "{err}");
            assert!(err.to_string().starts_with("the answer cannot be trusted: "), "{err}");
        }
        for body in [&b""[..], b"{}", b"<html>"] {
            let err = agreement(wire).finish(StatusCode::OK, body, &mut no_laps).unwrap_err();
            assert!(matches!(err.kind(), ErrorKind::Untrusted(_)));
        }
        let err = agreement(wire).finish(StatusCode::NOT_FOUND, b"nothing", &mut no_laps).unwrap_err();
        assert_eq!(err.to_string(), "refused: 404 Not Found nothing");
    }
}

#[tokio::test]
async fn a_sealed_request_can_be_sent_twice_unchanged() {
    let service = Service::with(&[]);
    let client = client(&service).await;
    let captured = client.seal(Request::post("/a?b").body("x".to_owned()).unwrap()).await.unwrap();
    for _ in 0..2 {
        let answer = client.send_sealed(captured.clone()).await.unwrap();
        assert!(answer.status() == StatusCode::OK && !answer.body().is_empty());
    }
    assert_eq!(service.paths(), ["/session/init", "/a", "/a"]);
}

#[tokio::test]
async fn a_missing_answer_is_reported_with_the_url_in_time() {
    let service = Service::with(&[Act::Stall]);
    let client = settings(&service).await.head_timeout(Duration::from_millis(200)).build().unwrap();
    let err = client.session().await.unwrap_err();
    assert!(matches!(err.kind(), ErrorKind::Timeout { url, .. } if url.ends_with("/session/init")), "{err}");
    assert!(err.to_string().ends_with("within 200 ms (head_timeout)"), "{err}");

    let service = Service::with(&[Act::Break]);
    let client = self::client(&service).await;
    let err = client.session().await.unwrap_err();
    assert!(matches!(err.kind(), ErrorKind::Network { .. }), "{err}");
    // The port of a listener that was closed.
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let nobody = Client::builder(format!("http://{gone}")).wire(Wire::V2).build().unwrap();
    let err = nobody.session().await.unwrap_err().to_string();
    assert!(err.contains(&gone.to_string()) && err.contains("refused") && !err.contains('\n'), "{err}");
}

#[tokio::test]
async fn invalid_settings_are_reported_before_anything_is_sent() {
    for url in ["/path/alone", "ftp://h/", "h:80", "no url"] {
        let err = Client::builder(url).wire(Wire::V2).build().unwrap_err();
        assert!(matches!(err.kind(), ErrorKind::Usage(_)), "{err}");
    }
    let good = Client::builder("https://localhost");
    good.clone().wire(Wire::V2).build().unwrap();
    for bad in [
        good.clone().connect_timeout(Duration::ZERO),
        good.clone().head_timeout(Duration::ZERO),
        good.clone().total_timeout(Duration::MAX),
        good.clone().idle_timeout(Duration::MAX),
        good.clone().answer_max_bytes(usize::MAX),
        good.clone().request_max_bytes(usize::MAX),
        good.suites([]),
    ] {
        assert!(matches!(bad.build().unwrap_err().kind(), ErrorKind::Usage(_)));
    }
    let service = Service::with(&[]);
    let client = settings(&service).await.authorization(fixed("Bearer a\nb")).build().unwrap();
    let err = client.session().await.unwrap_err();
    assert!(err.to_string().contains("authorization") && !err.to_string().contains("a\nb"), "{err}");
    let client = settings(&service).await.client_id("no id\n").build().unwrap();
    assert!(matches!(client.session().await.unwrap_err().kind(), ErrorKind::Seal(_)));
    assert_eq!(service.paths(), [""; 0]);
    let client = self::client(&service).await;
    for request in [Request::post("not-a-path"), Request::put("/a"), Request::post("/a").header("x-a", "1")] {
        let err = client.send(request.body(String::new()).unwrap()).await.unwrap_err();
        assert!(matches!(err.kind(), ErrorKind::Usage(_)), "{err}");
    }
}

#[tokio::test]
async fn no_debug_output_shows_a_key_or_a_token() {
    let service = Service::with(&[]);
    let offer = Offer { authorization: Some("Bearer the token".into()), ..Offer::default() };
    let shown = format!("{offer:?}");
    assert!(shown.contains("sealway-client") && !shown.contains("the token"), "{shown}");
    let (agreement, outgoing) = Agreement::begin(Wire::V2, "/session/init", &offer, &mut no_laps).unwrap();
    let shown = format!("{agreement:?} {outgoing:?}");
    assert!(
        shown.starts_with("Agreement(ClientInit { wire: V2, .. }, ")
            && shown.contains("Message { len: ")
            && !shown.contains("the token"),
        "{shown}"
    );
    assert!(!format!("{:?}", outgoing.headers).contains("the token"), "it is marked as sensitive");
    let (status, _, body) = service.init("/session/init", &RequestHeaders(outgoing.headers), &outgoing.body);
    let session = agreement.finish(StatusCode::from_u16(status).unwrap(), &body, &mut no_laps).unwrap();
    let id = session.id();
    assert_eq!(format!("{session:?}"), format!("Session(ClientSession {{ wire: V2, id: {id:?}, .. }})"));
    let (_, pending) = session.seal("/a", b"x", &mut no_laps).unwrap();
    assert_eq!(format!("{pending:?}"), "Pending { .. }");
    let settings = settings(&service).await.authorization(fixed("Bearer the token"));
    let client = settings.clone().build().unwrap();
    assert!(!format!("{settings:?} {client:?}").contains("the token"));
    let body = Body::from("the token");
    assert!(!format!("{body:?}").contains("the token"));
}

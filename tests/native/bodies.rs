//! Wire 3 through the gateway with the Rust SDK: any method and status, bodies that flow in both directions, the headers that
//! reach each side, and answers that break off.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use sealway_client::{Body, Client, Error, Trace, Trust, TrustStore};
use sealway_proto::session::native::Suite;
use sealway_testkit::native_client::{Link, NativeSession, code, key_set};
use sealway_testkit::process::{Launch, Server};
use sealway_testkit::raw_http;
use sealway_testkit::upstream::{RequestHead, Upstream, answer};
use sealway_testkit::usage;

use crate::BINARY;

struct Ground {
    server: Server,
    upstream: Upstream,
}

impl Ground {
    fn new(upstream: Upstream) -> Self {
        let config = format!(
            "
listeners: [{{ name: plain, address: '127.0.0.1:0' }}]
sessions: {{ store: 'memory:', identity: {{ allow_generated: true }} }}
routes:
  - {{ match: {{ path_prefix: /v3/, path: /.well-known/sealway-keys }}, sessions: {{}} }}
  - {{ match: {{ path_prefix: /kept/ }}, sealed: required, upstream: service, keep_answers_sec: 60 }}
  - {{ match: {{ path_prefix: /listed/ }}, sealed: required, upstream: service, unsealed_headers: [x-outside] }}
  - {{ match: {{ path_prefix: /short/ }}, sealed: required, upstream: service, body_max: 1000 }}
  - {{ match: {{}}, sealed: required, upstream: service }}
upstreams: {{ service: {{ servers: ['http://{}'] }} }}
",
            upstream.address
        );
        let server = Launch::new(BINARY, &config).start().unwrap();
        Ground { server, upstream }
    }

    fn client(&self) -> Client {
        Client::builder(format!("http://{}", self.server.address()))
            .trust(Trust::FirstUse(TrustStore::Memory))
            .build()
            .unwrap()
    }
}

/// Makes one call and reads its whole answer.
async fn whole(client: &Client, request: Request<Body>) -> Result<Response<Bytes>, Error> {
    let (head, body) = client.send(request).await?.into_parts();
    Ok(Response::from_parts(head, body.bytes().await?))
}

/// Returns the outer headers of an answer.
fn wire(answer: &Response<Bytes>) -> &[(String, String)] {
    &answer.extensions().get::<Trace>().unwrap().response_headers
}

/// Returns the request that the service received, as JSON.
fn mirror(received: &RequestHead, body: &[u8]) -> Vec<u8> {
    let headers: Vec<_> = received.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
    let told = serde_json::json!({"line": received.line, "headers": headers, "body": String::from_utf8_lossy(body)});
    answer("200 OK", &[("Content-Type", "application/json"), ("X-Inside", "1")], told.to_string().as_bytes())
}

#[tokio::test]
async fn any_method_target_and_status_crosses_with_its_headers_within_the_seal() {
    let statuses = |received: &RequestHead, body: &[u8]| match received.method_and_target() {
        ("HEAD", _) => answer("200 OK", &[("ETag", "\"1\"")], b""),
        (_, "/gone?x=1") => answer("404 Not Found", &[("Set-Cookie", "a=b"), ("X-Why", "gone")], b"no"),
        (_, "/none") => answer("204 No Content", &[("X-Why", "none")], b""),
        (_, "/same") => answer("304 Not Modified", &[("ETag", "\"2\"")], b""),
        _ => mirror(received, body),
    };
    let ground = Ground::new(Upstream::answering(statuses).unwrap());
    let client = ground.client();
    let call = async |method: Method, target: &str, body: &'static [u8]| {
        let request = Request::builder().method(method).uri(target).header("authorization", "Bearer inner");
        whole(&client, request.body(Body::from(body)).unwrap()).await.unwrap()
    };
    for method in [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
        let answer = call(method.clone(), "/a%20b?q=%2F", b"{}").await;
        let told: serde_json::Value = serde_json::from_slice(answer.body()).unwrap();
        assert_eq!((answer.status(), &told["body"]), (StatusCode::OK, &"{}".into()), "{method}");
        assert_eq!(told["line"], format!("{method} /a%20b?q=%2F HTTP/1.1"));
        assert!(told["headers"].to_string().contains("Bearer inner"), "{told}");
        assert!(!told["headers"].to_string().contains("x-kid"), "{told}");
        assert_eq!(
            (&answer.headers()["x-inside"], &answer.headers()["content-type"]),
            (&"1".parse().unwrap(), &"application/json".parse().unwrap())
        );
        let on_the_wire: Vec<_> = wire(&answer).iter().map(|(name, _)| name.as_str()).collect();
        assert!(!on_the_wire.contains(&"x-inside"), "{on_the_wire:?}");
    }
    let gone = call(Method::GET, "/gone?x=1", b"").await;
    assert_eq!(
        (gone.status(), &gone.body()[..], &gone.headers()["x-why"]),
        (StatusCode::NOT_FOUND, &b"no"[..], &"gone".parse().unwrap())
    );
    assert!(wire(&gone).iter().any(|(name, value)| name == "set-cookie" && value == "a=b"));
    let head = call(Method::HEAD, "/x", b"").await;
    assert_eq!(
        (head.status(), head.body().len(), &head.headers()["etag"]),
        (StatusCode::OK, 0, &"\"1\"".parse().unwrap())
    );
    assert_eq!(call(Method::DELETE, "/none", b"").await.headers()["x-why"], "none");
    assert_eq!(call(Method::GET, "/same", b"").await.status(), StatusCode::NOT_MODIFIED);
}

#[test]
fn a_session_is_ended_only_by_a_request_that_is_whole() {
    let ground = Ground::new(Upstream::answering(mirror).unwrap());
    let to = ground.server.address();
    let (mut link, trusted) = (Link::new(to), key_set(to).unwrap());
    let agreed = NativeSession::open(&mut link, &trusted, Suite::P256).unwrap();
    let target = format!("/v3/sessions/{}", agreed.session.id());
    let sealed = || agreed.seal("DELETE", &target, &[b"one", b"two"]).0;
    let changes: [fn(&mut Vec<u8>); 3] =
        [|body| *body.last_mut().unwrap() ^= 1, |body| body.truncate(body.len() - 1), |body| body.push(0)];
    for change in changes {
        let request = sealed();
        let mut body = request.body_bytes().to_vec();
        change(&mut body);
        let answer = link.send(&request.body(body)).unwrap();
        assert_eq!((answer.status, code(&answer).as_str()), (400, "unsealable"));
        assert_eq!(agreed.call(&mut link, "/still-there", &[b"x"]).unwrap().0.status, 200);
    }
    assert_eq!(link.send(&sealed()).unwrap().status, 204);
    assert!(agreed.call(&mut link, "/still-there", &[b"x"]).is_err());
}

#[tokio::test]
async fn an_event_crosses_before_the_service_makes_the_next_one() {
    let (go, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let upstream = Upstream::serve(move |received, connection| {
        let body = connection.read_body(&received.headers, false)?;
        connection
            .write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        for _ in 0..3 {
            wait.lock().unwrap().recv()?;
            connection.write(b"8\r\ndata: x\n\r\n")?;
        }
        connection.write(b"0\r\n\r\n")?;
        Ok(body)
    });
    let ground = Ground::new(upstream.unwrap());
    let client = ground.client();
    // The head arrives before the first event.
    let answer = client.send(Request::get("/events").body(Full::<Bytes>::default()).unwrap()).await.unwrap();
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    let mut body = answer.into_body();
    for _ in 0..3 {
        go.send(()).unwrap();
        let frame = tokio::time::timeout(Duration::from_secs(20), body.frame()).await.unwrap().unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), "data: x\n");
    }
    assert!(body.frame().await.is_none());
}

#[tokio::test]
async fn a_part_of_a_request_reaches_the_service_before_the_next_one_is_made() {
    let (seen, parts) = mpsc::channel();
    let upstream = Upstream::serve(move |received, connection| {
        assert_eq!(received.header("transfer-encoding"), Some("chunked"));
        let mut all = Vec::new();
        loop {
            let chunk = connection.read_chunk()?;
            if chunk.is_empty() {
                break;
            }
            seen.send(chunk.clone())?;
            all.extend(chunk);
        }
        connection.write(&answer("201 Created", &[], b"taken"))?;
        Ok(all)
    });
    let ground = Ground::new(upstream.unwrap());
    let (sender, receiver) = tokio::sync::mpsc::channel::<Result<Frame<Bytes>, std::convert::Infallible>>(1);
    let stream = futures_util::stream::unfold(receiver, async |mut receiver| Some((receiver.recv().await?, receiver)));
    let client = ground.client();
    let request = Request::put("/upload").body(StreamBody::new(Box::pin(stream))).unwrap();
    let call = tokio::spawn(async move { client.send(request).await });
    let parts = Arc::new(Mutex::new(parts));
    for part in ["one", "two", "three"] {
        sender.send(Ok(Frame::data(Bytes::from(part)))).await.unwrap();
        let parts = parts.clone();
        let next = move || parts.lock().unwrap().recv_timeout(Duration::from_secs(20));
        assert_eq!(tokio::task::spawn_blocking(next).await.unwrap().unwrap(), part.as_bytes());
    }
    drop(sender);
    let answer = call.await.unwrap().unwrap();
    assert_eq!(answer.status(), StatusCode::CREATED);
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "taken");
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_an_error_and_never_a_short_one() {
    let upstream = Upstream::serve(|received, connection| {
        let body = connection.read_body(&received.headers, false)?;
        connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nonly this")?;
        Ok(body)
    });
    let ground = Ground::new(upstream.unwrap());
    let client = ground.client();
    let begun = client.send(Request::get("/download").body(Full::<Bytes>::default()).unwrap()).await;
    // If the connection ends before the head, there is no answer at all.
    if let Ok(answer) = begun {
        assert!(answer.into_body().collect().await.is_err());
    }
    let whole = whole(&client, Request::get("/download").body(Body::empty()).unwrap()).await;
    assert!(whole.is_err(), "{whole:?}");
}

#[tokio::test]
async fn a_megabyte_crosses_both_ways_in_frames() {
    let ground = Ground::new(Upstream::answering(|_, body| answer("200 OK", &[], body)).unwrap());
    let body: Vec<u8> = (0..1_500_000_u32).map(|n| (n % 251) as u8).collect();
    let client = ground.client();
    let answer = whole(&client, Request::post("/echo").body(Body::from(body.clone())).unwrap()).await.unwrap();
    assert!(answer.body() == &body, "{} bytes came back", answer.body().len());
    assert!(ground.upstream.next().unwrap().1 == body);
    let refused = whole(&client, Request::post("/short/x").body(Body::from(body)).unwrap()).await;
    assert!(matches!(&refused, Err(err) if err.code() == "too_large"), "{refused:?}");
}

/// Returns a captured request as bytes.
async fn captured(client: &Client, path: &str) -> (Vec<(String, String)>, Bytes) {
    let sealed = client.seal(Request::post(path).body(Body::from("{\"a\":1}")).unwrap()).await.unwrap();
    let text = |value: &HeaderValue| value.to_str().unwrap().to_owned();
    (sealed.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect(), sealed.into_body())
}

#[tokio::test]
async fn headers_outside_the_seal_neither_reach_the_service_nor_remove_sealed_ones() {
    let ground = Ground::new(Upstream::answering(mirror).unwrap());
    let client = ground.client();
    for (path, is_listed) in [("/plain/x", false), ("/listed/x", true)] {
        let (mut headers, body) = captured(&client, path).await;
        for (name, value) in [
            ("x-outside", "1"),
            ("x-role", "admin"),
            ("x-sealway-subject", "eve"),
            ("connection", "content-type, x-kept"),
            ("authorization", "Bearer outer"),
        ] {
            headers.push((name.into(), value.into()));
        }
        let mut request = raw_http::Request::new("POST", path);
        for (name, value) in &headers {
            request = request.header(name, value);
        }
        let answer = request.body(body.to_vec()).send(ground.server.address()).unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        let (received, body) = ground.upstream.next().unwrap();
        assert_eq!(body, b"{\"a\":1}");
        let has = |name| received.header(name).is_some();
        assert_eq!(has("x-outside"), is_listed, "{received:?}");
        assert!(!has("x-role") && !has("authorization") && !has("x-sealway-subject"), "{received:?}");
        assert_eq!(received.header("x-sealway-auth"), Some("none"));
    }
}

#[tokio::test]
async fn the_same_bytes_get_the_answer_that_there_was_where_a_route_says_so() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let ground = Ground::new(
        Upstream::answering(move |_, _| {
            answer("200 OK", &[], counted.fetch_add(1, Ordering::SeqCst).to_string().as_bytes())
        })
        .unwrap(),
    );
    let client = ground.client();
    for (path, second) in [("/kept/x", 200), ("/plain/x", 409)] {
        let before = count.load(Ordering::SeqCst);
        let (headers, body) = captured(&client, path).await;
        let send = || {
            let mut request = raw_http::Request::new("POST", path);
            for (name, value) in &headers {
                request = request.header(name, value);
            }
            request.body(body.to_vec()).send(ground.server.address()).unwrap()
        };
        let (one, two) = (send(), send());
        assert_eq!((one.status, two.status), (200, second), "{path}");
        assert_eq!(one.body == two.body, second == 200);
        assert_eq!(count.load(Ordering::SeqCst), before + 1, "the service saw it once");
    }
}

#[tokio::test]
async fn long_streams_both_ways_take_less_than_a_mebibyte_each() {
    const STREAMS: u64 = 8;
    const LEN: usize = 24 << 20;
    let upstream = Upstream::serve(|_, connection| {
        let mut len = 0;
        loop {
            match connection.read_chunk()?.len() {
                0 => break,
                chunk => len += chunk,
            }
        }
        connection.write(format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n").as_bytes())?;
        let part = vec![7; 1 << 20];
        for _ in 0..len / part.len() {
            connection.write(&part)?;
        }
        Ok(Vec::new())
    });
    let ground = Ground::new(upstream.unwrap());
    let client = ground.client();
    let run = async |count: u64| {
        let calls = (0..count).map(|_| {
            let parts =
                (0..LEN >> 20).map(|_| Ok::<_, std::convert::Infallible>(Frame::data(Bytes::from(vec![7; 1 << 20]))));
            let request = Request::put("/both").body(StreamBody::new(futures_util::stream::iter(parts))).unwrap();
            let client = client.clone();
            tokio::spawn(async move {
                let mut body = client.send(request).await.unwrap().into_body();
                let mut len = 0;
                while let Some(frame) = body.frame().await {
                    len += frame.unwrap().into_data().map_or(0, |data| data.len());
                }
                len
            })
        });
        for call in calls.collect::<Vec<_>>() {
            assert_eq!(call.await.unwrap(), LEN);
        }
    };
    run(1).await;
    let before = usage::status(ground.server.id(), "VmRSS:").unwrap();
    run(STREAMS).await;
    let grown = usage::status(ground.server.id(), "VmHWM:").unwrap().saturating_sub(before);
    println!("{STREAMS} streams of {LEN} bytes each way: {grown} KiB more at the most");
    // One in each direction.
    assert!(grown < 2 * STREAMS * 1024, "{grown} KiB for {STREAMS} streams each way");
}

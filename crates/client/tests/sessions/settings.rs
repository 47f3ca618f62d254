//! Settings of a client: the bound or the effect of each of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::{Method, Request, header};
use http_body_util::BodyExt;
use sealway_client::{Body, Client, Error, ErrorKind, Trace, Wire};
use tokio::sync::mpsc;

use crate::ground::{Act, Flowing, Service, code, pinned, post, trusted};

#[tokio::test]
async fn a_token_is_asked_for_at_each_init_and_nothing_is_sent_without_it() {
    let (service, count) = (Service::new(), Arc::new(AtomicUsize::new(0)));
    let counted = count.clone();
    let settings = pinned(&service).await.authorization(move || {
        let number = counted.fetch_add(1, Ordering::Relaxed);
        async move { if number < 2 { Ok(format!("Bearer token {number}")) } else { Err("the token server is away") } }
    });
    let client = settings.connect().await.unwrap();
    post(&client, "/a", b"x").await.unwrap();
    client.forget().await;
    post(&client, "/a", b"x").await.unwrap();
    let tokens: Vec<_> =
        service.seen.lock().unwrap().iter().filter_map(|(_, h)| h.get(header::AUTHORIZATION).cloned()).collect();
    assert_eq!(tokens, ["Bearer token 0", "Bearer token 1"]);
    client.forget().await;
    let (before, err) = (service.paths().len(), client.session().await.unwrap_err());
    assert!(matches!(err.kind(), ErrorKind::Authorization(reason) if reason == "the token server is away"), "{err}");
    assert_eq!(service.paths().len(), before);

    let never = pinned(&service).await.total_timeout(Duration::from_millis(200));
    let never = never.authorization(std::future::pending::<Result<String, Error>>);
    assert!(matches!(never.connect().await.unwrap_err().kind(), ErrorKind::Timeout { .. }));
}

#[test]
fn an_init_path_that_the_wire_does_not_have_is_named_with_those_that_it_may_be() {
    for (wire, path) in [
        (Wire::V1, "/x"),
        (Wire::V1, "/v1/session/init"),
        (Wire::V2, "/session/init/"),
        (Wire::V2, "/session/init/anon"),
        (Wire::Native, "/v3/sessions"),
    ] {
        let err = Client::builder("http://service.test").wire(wire).init_path(path).build().unwrap_err();
        let allowed = "/session/init, /session/init/anon (wire 1) or /v1/session/init (wire 2)";
        assert_eq!((err.code(), err.to_string()), ("usage", format!("init_path: {path} is not {allowed}")));
    }
}

#[tokio::test]
async fn an_answer_is_read_whole_within_its_bounds_alone_and_flows_beyond_them() {
    let service = Service::new();
    let client = pinned(&service).await.answer_max_bytes(100_000);
    let client = client.total_timeout(Duration::from_millis(500)).build().unwrap();
    let large = async || client.send(Request::post("/large").body(Body::empty()).unwrap()).await.unwrap().into_body();
    let err = large().await.bytes().await.unwrap_err();
    assert_eq!((err.code(), err.to_string().contains("longer than 100000 bytes")), ("body_too_large", true), "{err}");
    assert_eq!(large().await.collect().await.unwrap().to_bytes().len(), 200_000);
    // The bound is for answers of calls: sessions are agreed with the smallest one.
    pinned(&service).await.answer_max_bytes(0).connect().await.unwrap();

    // A dripping answer never pauses for long, and has no end.
    let (to, from) = mpsc::channel(1);
    let drip = tokio::spawn(async move {
        while to.send("drip".into()).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    let began = Instant::now();
    let flowing = client.send(Request::post("/flow").body(Flowing(from)).unwrap()).await.unwrap();
    let err = flowing.into_body().bytes().await.unwrap_err();
    assert!(matches!(err.kind(), ErrorKind::Timeout { .. }) && began.elapsed() < Duration::from_secs(5), "{err}");
    drip.await.unwrap();
}

#[tokio::test]
async fn a_body_over_the_bound_of_retries_flows_and_is_sent_once() {
    for (request_max_bytes, sent, is_served) in [(0, 1, false), (1, 2, true)] {
        let service = Service::with(&[Act::Serve, Act::Forget]);
        let client = pinned(&service).await.request_max_bytes(request_max_bytes).connect().await.unwrap();
        let request = || Request::get("/a").body(Body::from("x")).unwrap();
        let answer = client.send(request()).await;
        assert_eq!((service.count("GET /a"), answer.is_ok()), (sent, is_served));
        if let Err(err) = answer {
            assert_eq!(code(&err), "session_expired");
        }
        let answer = client.send(request()).await.unwrap();
        let trace = answer.extensions().get::<Trace>().unwrap().clone();
        assert_eq!(answer.into_body().bytes().await.unwrap(), "GET /a x");
        let timings = trace.timings();
        assert!(trace.sent() > 1 && trace.received() > 8 && timings.round_trip >= timings.http, "{timings:?}");
        assert_eq!(
            timings.crypto.iter().map(|(step, _)| *step).collect::<Vec<_>>(),
            ["aes-gcm-encrypt", "aes-gcm-decrypt"]
        );
        assert_eq!(trace.timings().round_trip, timings.round_trip, "the exchange is over");
    }
}

#[tokio::test]
async fn values_cross_as_json_and_what_is_none_is_an_error() {
    let service = Service::new();
    let client = Client::builder(service.listen().await).trust(trusted(&service)).build().unwrap();
    let request = Request::post("/a").body(Body::from_json(&serde_json::json!({"amount": 5000})).unwrap()).unwrap();
    client.send(request).await.unwrap();
    assert_eq!(service.served.lock().unwrap()[0], r#"POST /a {"amount":5000}"#);
    assert!(matches!(
        Body::from_json(&std::collections::HashMap::from([((1, 2), 3)])).unwrap_err().kind(),
        ErrorKind::Usage(_)
    ));
    let value: Vec<u32> = Body::from("[1,2]").json().await.unwrap();
    assert_eq!(value, [1, 2]);
    let request = Request::builder().method(Method::PUT).uri("/a").body(Body::empty()).unwrap();
    let err = client.send(request).await.unwrap().into_body().json::<Vec<u32>>().await.unwrap_err();
    assert!(matches!(err.kind(), ErrorKind::Json(_)), "{err}");
}

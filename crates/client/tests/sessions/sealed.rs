//! Wire 3 from an application's view: a client over real connections, against a service that is correct, or misbehaves
//! on purpose. The service's clock is decades from this machine's wall clock: stamps from the wall clock would be
//! rejected in every test.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use sealway_client::{DpopKey, ErrorKind, Pin, Suite};
use sealway_proto::crypto::identity::default_identity_library;
use sealway_proto::wire::base64;
use tokio::sync::mpsc;

use crate::ground::{Act, Flowing, Proof, Service, call, client, code, fixed, pinned, post};

#[tokio::test]
async fn any_method_is_sealed_with_its_headers_within_on_every_suite() {
    for suite in Suite::ALL {
        let service = Service::new();
        let client = pinned(&service).await.suites([suite]).authorization(fixed("Bearer the token")).build().unwrap();
        let mut headers = HeaderMap::new();
        headers.insert("authorization", "Basic of the application".parse().unwrap());
        headers.insert("content-type", "text/x-order".parse().unwrap());
        headers.insert("content-length", "999".parse().unwrap());
        for (method, body) in [("POST", "an order"), ("PUT", ""), ("GET", ""), ("DELETE", ""), ("GET", "with a body")] {
            let method: Method = method.parse().unwrap();
            let answer = call(&client, method.clone(), "/a?b=c", headers.clone(), body).await.unwrap();
            assert_eq!(
                (answer.status(), &answer.body()[..]),
                (StatusCode::OK, format!("{method} /a?b=c {body}").as_bytes())
            );
            // The header that the service sealed, and not the one that an intermediary added.
            assert_eq!(answer.headers()["x-from"], "the service");
        }
        let answer = call(&client, Method::HEAD, "/a", HeaderMap::new(), Bytes::new()).await.unwrap();
        assert!(answer.headers()["x-from"] == "the service" && answer.body().is_empty());
        let large = post(&client, "/large", &[b'y'; 200_000]).await.unwrap();
        assert!(large.body().len() == 200_000 && large.body().iter().all(|byte| *byte == b'x'));

        assert!(service.served.lock().unwrap()[6].len() == "POST /large ".len() + 200_000);
        for inner in &service.inner.lock().unwrap()[..5] {
            assert_eq!(inner.get("authorization"), Some(&b"Basic of the application"[..]));
            assert_eq!((inner.get("content-type"), inner.get("content-length")), (Some(&b"text/x-order"[..]), None));
        }
        let seen = service.seen.lock().unwrap().clone();
        assert_eq!(seen[0].1["authorization"], "Bearer the token");
        for (path, headers) in &seen[1..] {
            assert!(!headers.contains_key("authorization"), "{path}: {headers:?}");
            let is_bodyless = headers.contains_key("x-sealed");
            assert_eq!(headers.get("content-type").is_none(), is_bodyless, "{path}");
        }
        assert_eq!(seen[1..].iter().filter(|(_, headers)| headers.contains_key("x-sealed")).count(), 3);
        let said = client.session().await.unwrap().agreed.unwrap();
        assert_eq!((said.suite, said.key_id, said.subject.as_deref()), (suite, service.key_id(), Some("alice")));
    }
}

#[tokio::test]
async fn a_clock_that_is_wrong_heals_once_if_the_service_itself_says_so() {
    let service = Service::new();
    *service.ttl_sec.lock().unwrap() = 1_000_000;
    let client = client(&service).await;
    post(&client, "/a", b"1").await.unwrap();
    // A stamp from the future becomes valid later, and an intermediary may keep the request: only safe requests are
    // retried.
    for (method, ahead_ms, requests, is_served) in [
        (Method::POST, 86_400_000, 2, true),
        (Method::POST, 86_400_000, 1, true),
        (Method::POST, -86_400_000, 1, false),
        (Method::POST, -86_400_000, 1, true),
        (Method::GET, 86_400_000, 2, true),
        (Method::GET, -86_400_000, 2, true),
    ] {
        service.ahead_ms.store(ahead_ms, Ordering::Relaxed);
        let (path, before) = (format!("{method} /a"), service.paths().len());
        let answer = call(&client, method, "/a", HeaderMap::new(), Bytes::new()).await;
        assert_eq!(
            (service.paths().len() - before, answer.is_ok()),
            (requests, is_served),
            "{path} {ahead_ms} {:?}",
            answer.as_ref().err()
        );
        if let Err(err) = answer {
            assert_eq!(code(&err), "clock_skew");
        }
    }
    for (acts, sent) in [
        (&[Act::Skew(Proof::Wrong)][..], 1),
        (&[Act::Skew(Proof::None)], 1),
        (&[Act::Skew(Proof::Right), Act::Skew(Proof::Right)], 2),
    ] {
        let before = service.paths().len();
        service.acts.lock().unwrap().extend(acts);
        let err = call(&client, Method::GET, "/b", HeaderMap::new(), Bytes::new()).await.unwrap_err();
        assert_eq!((code(&err), service.paths().len() - before), ("clock_skew", sent), "{acts:?}");
    }
    assert_eq!(service.count("POST /v3/sessions"), 1);
}

/// Calls twice, with a buffered or a streamed body; returns the number of requests and the success of each call.
async fn held_back(method: Method, held_ms: u64, is_stream: bool) -> [(usize, bool); 2] {
    let service = Service::new();
    *service.ttl_sec.lock().unwrap() = 1_000_000;
    let client = client(&service).await;
    client.session().await.unwrap();
    service.ahead_ms.store(601_500, Ordering::Relaxed);
    service.acts.lock().unwrap().push_back(Act::Held(held_ms));
    let mut seen = [(0, false); 2];
    for seen in &mut seen {
        let answer = if is_stream {
            let (to, from) = mpsc::channel(1);
            to.send("x".into()).await.unwrap();
            let request = Request::builder().method(method.clone()).uri("/a").body(Flowing(from));
            drop(to);
            client.send(request.unwrap()).await.map(drop)
        } else {
            call(&client, method.clone(), "/a", HeaderMap::new(), Bytes::new()).await.map(drop)
        };
        *seen = (service.count(&format!("{method} /a")), answer.is_ok());
        if let Err(err) = answer {
            assert_eq!(code(&err), "clock_skew");
        }
    }
    assert_eq!(service.count("POST /v3/sessions"), 1);
    seen
}

#[tokio::test]
async fn a_purchase_whose_genuine_refusal_was_held_back_may_have_been_served_and_is_not_sent_again() {
    let mut calls = tokio::task::JoinSet::new();
    for (method, held_ms, want) in [
        // The stamp was past the window by less than the answer took: an intermediary could have delivered it in time.
        // The proven time serves the next call.
        (Method::POST, 2000, [(1, false), (2, true)]),
        (Method::PUT, 2000, [(1, false), (2, true)]),
        (Method::GET, 2000, [(2, true), (3, true)]),
        // No server can have accepted the request at any time since it was sent.
        (Method::POST, 0, [(2, true), (3, true)]),
    ] {
        for is_stream in [false, true] {
            let method = method.clone();
            // A streamed body is gone after its first transmission, and is never sent again.
            let want = if is_stream { [(1, false), (2, true)] } else { want };
            calls.spawn(async move {
                assert_eq!(held_back(method.clone(), held_ms, is_stream).await, want, "{method} {held_ms} {is_stream}");
            });
        }
    }
    calls.join_all().await;
}

#[tokio::test]
async fn after_a_session_ended_error_the_next_call_agrees_a_new_session() {
    for body in ["", "a purchase"] {
        let service = Service::new();
        let client = client(&service).await;
        client.session().await.unwrap();
        service.acts.lock().unwrap().push_back(Act::Forget);
        let call = async || client.send(Request::post("/a").body(Full::new(Bytes::from(body))).unwrap()).await;
        let err = call().await.unwrap_err();
        assert_eq!(code(&err), "session_expired");
        assert!(err.to_string().contains("It is unknown whether the service has executed this request"), "{err}");
        assert_eq!(service.count("POST /v3/sessions"), 1);
        call().await.unwrap();
        assert_eq!((service.count("POST /a"), service.count("POST /v3/sessions")), (2, 2));
        service.acts.lock().unwrap().push_back(Act::Forget);
        post(&client, "/a", body.as_bytes()).await.unwrap_err();
        post(&client, "/a", body.as_bytes()).await.unwrap();
        assert_eq!((service.count("POST /a"), service.count("POST /v3/sessions")), (4, 3));
    }
}

#[tokio::test]
async fn concurrent_callers_share_one_new_session_and_a_late_answer_does_not_drop_it() {
    let service = Service::new();
    let client = client(&service).await;
    client.session().await.unwrap();
    service.sessions.lock().unwrap().clear();
    service.acts.lock().unwrap().push_back(Act::Held(500));
    let get = || {
        let client = client.clone();
        tokio::spawn(async move { call(&client, Method::GET, "/a", HeaderMap::new(), Bytes::new()).await.map(drop) })
    };
    let late = get();
    while service.count("GET /a") == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for call in [get(), get(), get(), get()] {
        call.await.unwrap().unwrap();
    }
    assert_eq!(service.count("POST /v3/sessions"), 2);
    late.await.unwrap().unwrap();
    post(&client, "/a", b"x").await.unwrap();
    assert_eq!(service.count("POST /v3/sessions"), 2);
}

#[tokio::test]
async fn in_a_session_that_is_over_a_safe_method_alone_is_sent_again_and_once() {
    for (method, is_healed) in [
        (Method::POST, false),
        (Method::PUT, false),
        (Method::DELETE, false),
        (Method::GET, true),
        (Method::HEAD, true),
    ] {
        let service = Service::new();
        let client = client(&service).await;
        client.session().await.unwrap();
        service.acts.lock().unwrap().push_back(Act::Forget);
        let answer = call(&client, method.clone(), "/a", HeaderMap::new(), Bytes::new()).await;
        assert_eq!(answer.is_ok(), is_healed, "{method}");
        let (sent, inits) = if is_healed { (2, 2) } else { (1, 1) };
        assert_eq!(service.count(&format!("{method} /a")), sent, "{method}");
        assert_eq!(service.count("POST /v3/sessions"), inits);
        if let Err(err) = answer {
            assert_eq!(code(&err), "session_expired");
        }
    }
    let service = Service::with(&[Act::Serve, Act::Forget, Act::Serve, Act::Forget]);
    let client = client(&service).await;
    let err = call(&client, Method::GET, "/a", HeaderMap::new(), Bytes::new()).await.unwrap_err();
    assert_eq!((code(&err), service.count("GET /a")), ("session_expired", 2));
}

#[tokio::test]
async fn other_rejections_are_reported_by_code_without_a_retry() {
    for what in
        ["replayed", "unsealable", "policy", "too_large", "store_unavailable", "upstream_timeout", "wire_disabled"]
    {
        let service = Service::with(&[Act::Serve, Act::Problem(what)]);
        let err = call(&client(&service).await, Method::GET, "/a", HeaderMap::new(), Bytes::new()).await;
        let err = err.unwrap_err();
        assert_eq!((code(&err), service.count("GET /a")), (what, 1));
        assert!(err.to_string().contains(what), "{err}");
    }
}

#[tokio::test]
async fn an_answer_that_was_changed_swapped_cut_or_made_longer_is_not_trusted() {
    use sealway_proto::Error as Wire;
    for (act, what) in [
        (Act::Altered, Wire::Unsealable),
        (Act::Swapped, Wire::Unsealable),
        (Act::Cut, Wire::StreamTruncated),
        (Act::Longer, Wire::FrameInvalid),
        (Act::Doubled, Wire::HeaderInvalid("x-sealed")),
    ] {
        let service = Service::with(&[Act::Serve, Act::Serve, act, Act::Serve, act]);
        let client = client(&service).await;
        post(&client, "/a", b"1").await.unwrap();
        let err = post(&client, "/a", b"2").await.unwrap_err();
        assert!(matches!(err.kind(), ErrorKind::Untrusted(told) if *told == what), "{act:?}: {err}");
        post(&client, "/a", b"3").await.unwrap();
        let request = Request::post("/a").body(Full::new(Bytes::from("4"))).unwrap();
        let streamed = match client.send(request).await {
            Ok(response) => response.into_body().collect().await.map(|_| ()),
            Err(err) => Err(err),
        };
        let err = streamed.unwrap_err();
        assert!(matches!(err.kind(), ErrorKind::Untrusted(told) if *told == what), "{act:?}: {err}");
        assert_eq!(service.count("POST /a"), 4, "nothing is sent again");
    }
}

#[tokio::test]
async fn bodies_flow_both_ways_frame_by_frame() {
    let service = Service::new();
    let client = client(&service).await;
    let (to, from) = mpsc::channel(1);
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.send(Request::post("/flow?x").header("x-own", "1").body(Flowing(from)).unwrap()).await }
    });
    // The answer begins before any byte of the body was sent.
    let mut response = call.await.unwrap().unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    for part in ["one", "two", "three"] {
        to.send(part.into()).await.unwrap();
        let frame = response.body_mut().frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), part);
    }
    // Larger than a frame: the answer has several.
    to.send(vec![b'z'; 150_000].into()).await.unwrap();
    let mut len = 0;
    while len < 150_000 {
        let data = response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(data.len() <= 65_536 && data.iter().all(|byte| *byte == b'z'));
        len += data.len();
    }
    drop(to);
    assert!(response.body_mut().frame().await.is_none());
    assert_eq!(service.inner.lock().unwrap()[0].get("x-own"), Some(&b"1"[..]));
}

#[tokio::test]
async fn a_stream_whose_source_fails_is_no_request_and_one_that_began_is_not_sent_again() {
    struct Failing(u32);
    impl hyper::body::Body for Failing {
        type Data = Bytes;
        type Error = std::io::Error;

        fn poll_frame(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, std::io::Error>>> {
            self.0 += 1;
            std::task::Poll::Ready(Some(match self.0 {
                1 => Ok(hyper::body::Frame::data(Bytes::from(vec![1; 70_000]))),
                _ => Err(std::io::Error::other("the disk is gone")),
            }))
        }
    }
    let service = Service::new();
    let client = client(&service).await;
    let err = client.send(Request::post("/a").body(Failing(0)).unwrap()).await.unwrap_err();
    assert!(matches!(err.kind(), ErrorKind::Network { .. }) && err.to_string().contains("the disk is gone"), "{err}");
    assert!(service.served.lock().unwrap().is_empty());

    service.acts.lock().unwrap().extend([Act::Forget]);
    let request = || Request::post("/a").body(Full::new(Bytes::from("x"))).unwrap();
    let before = service.count("POST /a");
    assert_eq!(code(&client.send(request()).await.unwrap_err()), "session_expired");
    assert_eq!(service.count("POST /a") - before, 1);
    // The corrected clock serves the next call.
    client.send(request()).await.unwrap().into_body().collect().await.unwrap();
    assert_eq!(service.count("POST /v3/sessions"), 2);
    // A request without a body can be retried.
    service.acts.lock().unwrap().extend([Act::Forget]);
    let request = Request::get("/a").body(Full::new(Bytes::new())).unwrap();
    assert_eq!(client.send(request).await.unwrap().into_body().collect().await.unwrap().to_bytes(), "GET /a ");
}

#[tokio::test]
async fn many_callers_wait_for_one_init_and_one_that_goes_away_harms_nobody() {
    let service = Service::with(&[Act::Stall]);
    let client = client(&service).await;
    let gone = tokio::spawn({
        let client = client.clone();
        async move { post(&client, "/a", b"x").await.map(|_| ()) }
    });
    while service.paths().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { post(&client, "/a", b"x").await.map(Response::into_body) })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap(), "POST /a x");
    }
    assert_eq!(service.count("POST /v3/sessions"), 2);
}

#[tokio::test]
async fn ending_a_session_notifies_the_service() {
    let service = Service::new();
    let client = client(&service).await;
    client.end().await.unwrap();
    let id = client.session().await.unwrap().id;
    client.end().await.unwrap();
    assert_eq!(service.paths(), ["POST /v3/sessions".to_owned(), format!("DELETE /v3/sessions/{id}")]);
    assert!(service.sessions.lock().unwrap().is_empty());
    assert_ne!(client.session().await.unwrap().id, id);
    service.acts.lock().unwrap().push_back(Act::Forget);
    client.end().await.unwrap();
}

#[tokio::test]
async fn a_missing_answer_is_reported_in_time_and_a_slow_source_is_the_callers_error() {
    let service = Service::with(&[Act::Serve, Act::Stall, Act::Stall]);
    let timeout = Duration::from_millis(300);
    let client = pinned(&service).await.head_timeout(timeout).idle_timeout(timeout).build().unwrap();
    let err = post(&client, "/a", b"x").await.unwrap_err();
    assert!(matches!(err.kind(), ErrorKind::Timeout { .. }), "{err}");
    let err = client.send(Request::post("/a").body(Full::new(Bytes::from("x"))).unwrap()).await.unwrap_err();
    assert!(matches!(err.kind(), ErrorKind::Timeout { .. }), "{err}");
    // The service answers after the whole body, which takes a while.
    let (to, from) = mpsc::channel(1);
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.send(Request::post("/slow").body(Flowing(from)).unwrap()).await }
    });
    tokio::time::sleep(3 * timeout).await;
    to.send("late".into()).await.unwrap();
    drop(to);
    let body = call.await.unwrap().unwrap().into_body().collect().await.unwrap();
    assert_eq!(body.to_bytes(), "POST /slow late");
    // An answer that begins and then stalls.
    let (to, from) = mpsc::channel(1);
    let mut flowing = client.send(Request::post("/flow").body(Flowing(from)).unwrap()).await.unwrap();
    let err = flowing.body_mut().frame().await.unwrap().unwrap_err();
    assert!(matches!(err.kind(), ErrorKind::Timeout { .. }), "{err}");
    drop(to);
}

#[tokio::test]
async fn a_token_bound_to_a_key_goes_with_a_proof_that_is_good_for_this_init_alone() {
    let service = Service::new();
    let (key, document) = DpopKey::generate().unwrap();
    let client = pinned(&service).await.authorization(fixed("DPoP bound")).dpop(key).build().unwrap();
    client.session().await.unwrap();
    assert_eq!(service.seen.lock().unwrap()[0].1["authorization"], "DPoP bound");
    let init = service.inits.lock().unwrap()[0].clone();
    let parts: Vec<&str> = init.proof.as_deref().unwrap().split('.').collect();
    let decode = |part: &str| {
        let text = part.replace('-', "+").replace('_', "/");
        base64::decode(format!("{text}{}", &"==="[..(4 - text.len() % 4) % 4])).unwrap()
    };
    let claims: serde_json::Value = serde_json::from_slice(&decode(parts[1])).unwrap();
    let provider = sealway_proto::crypto::default_provider();
    let hash = claims["init_hash"].as_str().unwrap();
    assert_eq!(decode(hash), init.init_hash(provider));
    assert!(claims["htm"] == "POST" && claims["htu"].as_str().unwrap().ends_with("/v3/sessions"));
    assert_eq!(decode(claims["ath"].as_str().unwrap()), provider.sha256(&[b"bound"]));
    let public = default_identity_library().from_pkcs8(&document).unwrap();
    let public = default_identity_library().public(public.public()).unwrap();
    let signed = format!("{}.{}", parts[0], parts[1]);
    assert!(public.verify(signed.as_bytes(), &decode(parts[2])));
}

#[tokio::test]
async fn what_is_captured_and_sent_again_is_refused_as_a_replay() {
    let service = Service::new();
    let client = client(&service).await;
    let captured = client.seal(Request::post("/a").body("x".to_owned()).unwrap()).await.unwrap();
    assert_eq!(client.send_sealed(captured.clone()).await.unwrap().status(), StatusCode::OK);
    assert_eq!(client.send_sealed(captured).await.unwrap().status(), StatusCode::CONFLICT);
    assert_eq!(service.served.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn invalid_requests_are_reported_before_sending_and_no_output_shows_a_secret() {
    let service = Service::new();
    let settings = pinned(&service).await.authorization(fixed("Bearer the token"));
    assert!(!format!("{settings:?}").contains("the token"));
    let client = settings.clone().build().unwrap();
    client.session().await.unwrap();
    for (method, name) in [(Method::OPTIONS, "x-a"), (Method::POST, "x-kid"), (Method::POST, "x-sealway-subject")] {
        let mut headers = HeaderMap::new();
        headers.insert(name, "1".parse().unwrap());
        let err = call(&client, method, "/a", headers, Bytes::new()).await.unwrap_err();
        assert!(matches!(err.kind(), ErrorKind::Usage(_)), "{err}");
    }
    assert_eq!(service.paths().len(), 1);
    // A key log requires the option and the environment variable.
    let log = tempfile::tempdir().unwrap();
    let err = settings.key_log(log.path().join("keys")).build().unwrap_err().to_string();
    assert!(err.contains("SEALWAY_KEY_LOG_ALLOWED"), "{err}");
    for pin in ["", "abc", "ABCDEF00112233445566778899aabbcc", &base64::encode(&[4; 65])] {
        assert!(Pin::parse(pin).is_err(), "{pin}");
    }
}

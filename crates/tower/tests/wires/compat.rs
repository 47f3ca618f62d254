//! Sealed calls of wires 1 and 2.

use crate::ground::{Ground, NOW_MS, ORIGIN, StoreFault, compat_request, open_compat};
use sealway_proto::session::Family;
use sealway_proto::wire::Wire;
use sealway_testkit::raw_http::{Connection, Request as Raw};
use sealway_tower::{Routes, SealMode, Settings};

const WIRES: [(Family, Wire); 3] = [(Family::Session, Wire::V1), (Family::Session, Wire::V2), (Family::V1, Wire::V2)];

#[test]
fn a_handler_sees_the_plain_request_and_who_sends_it_and_its_answer_goes_back_sealed() {
    let ground = Ground::new(Settings::default());
    for (family, wire) in WIRES {
        let session = ground.old(family, wire);
        let (request, pending) = compat_request(&session, "/echo", b"an order");
        let answer = ground.send(&request.header("X-Sealway-Subject", "root").header("X-Other", "1"));
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(open_compat(&pending, &answer).unwrap(), b"an order");
        assert_eq!((answer.header("x-from"), answer.header("etag")), (Some("the application"), None));
        assert!(answer.header("server-timing").unwrap().contains("aes-gcm-decrypt;dur="));
        let seen = ground.seen.lock().unwrap().pop().unwrap();
        let header = |name: &str| seen.headers.get(name).map(|value| value.to_str().unwrap());
        assert_eq!((seen.method.as_str(), seen.body.as_deref()), ("POST", Ok(&b"an order"[..])));
        assert_eq!((header("content-type"), header("content-length")), (Some("application/json"), Some("8")));
        assert_eq!(
            (header("x-other"), header("x-sealway-auth"), header("x-sealway-subject")),
            (Some("1"), Some("none"), None)
        );
        assert_eq!(header("x-sealway-client-id"), (wire == Wire::V2).then_some("demo-client"));
        assert!(
            ["x-kid", "x-idempotency-key", "x-clientid", "x-nonce", "x-aad"].iter().all(|name| header(name).is_none())
        );
    }
}

#[test]
fn the_status_of_the_service_is_mapped_as_specified() {
    let ground = Ground::new(Settings::default());
    for (family, wire) in WIRES {
        let session = ground.old(family, wire);
        for (status, told) in [(201, 200), (404, 404), (500, 500)] {
            let (request, pending) = compat_request(&session, &format!("/status/{status}"), b"");
            let answer = ground.send(&request);
            assert_eq!((answer.status, open_compat(&pending, &answer)), (told, Ok(b"told".to_vec())));
        }
        for (status, told, code) in
            [(400, 400, "CRYPTO_ERROR"), (422, 400, "CRYPTO_ERROR"), (304, 502, "SERVICE_UNAVAILABLE")]
        {
            let answer = ground.send(&compat_request(&session, &format!("/status/{status}"), b"").0);
            answer.assert_error("in plain", told, code);
        }
    }
}

#[test]
fn a_call_that_reached_its_handler_gets_no_retryable_error_when_its_session_ends() {
    for (family, wire) in WIRES {
        let ground = Ground::new(Settings::default());
        let session = ground.old(family, wire);
        let mut connection = Connection::open(ground.address).unwrap();
        connection.write(&compat_request(&session, "/never", b"an order").0.bytes()).unwrap();
        let began = std::time::Instant::now();
        while ground.served() == 0 {
            assert!(began.elapsed() < std::time::Duration::from_secs(30), "the handler did not begin");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(ground.store.delete(session.id()));
        connection.read_answer("POST").unwrap().assert_error("after its session", 502, "SERVICE_UNAVAILABLE");
    }
}

#[test]
fn a_request_that_does_not_open_gets_a_uniform_error_and_no_handler_runs() {
    let ground = Ground::new(Settings::default());
    for (family, wire) in WIRES {
        let session = ground.old(family, wire);
        let fresh = || compat_request(&session, "/echo", b"an order").0;
        let mut bent = fresh().body_bytes().to_vec();
        bent[3] ^= 1;
        let header = if wire == Wire::V1 { "x-tag" } else { "x-clientid" };
        let missing = fresh().without(header);
        let twice = fresh().header(header, fresh().value(header).unwrap().to_owned());
        let cut = fresh().body(fresh().body_bytes()[..10].to_vec());
        for (what, request) in [("bent", fresh().body(bent)), ("missing", missing), ("twice", twice), ("cut", cut)] {
            let answer = ground.send(&request);
            answer.assert_error(what, 400, "CRYPTO_ERROR");
            assert!(!answer.header("server-timing").unwrap().contains("session-get"));
        }
        ground.send(&fresh().method("PUT")).assert_error("PUT", 405, "METHOD_NOT_ALLOWED");
        ground.send(&fresh().set("X-Kid", "session:S-00000000000000000000000000000000")).assert_error(
            "kid",
            401,
            "SESSION_EXPIRED",
        );
        ground.send(&fresh().set("X-Kid", "other:S")).assert_error("prefix", 400, "CRYPTO_ERROR");
        ground.send(&fresh().body(vec![b'A'; 1_100_000])).assert_error("large", 413, "PAYLOAD_TOO_LARGE");
        ground.send(&Raw::post("/echo", "{}")).assert_error("plain", 400, "CRYPTO_ERROR");
        assert_eq!(ground.served(), 0);
        ground.set_clock(NOW_MS + 300_001);
        ground.send(&fresh()).assert_error("late", 400, "CRYPTO_ERROR");
        ground.set_clock(NOW_MS);
    }
}

#[test]
fn a_request_is_served_once_however_many_send_it() {
    let ground = Ground::new(Settings::default());
    for (family, wire) in WIRES {
        let session = ground.old(family, wire);
        let (request, _) = compat_request(&session, "/echo", b"an order");
        let before = ground.served();
        let answers: Vec<u16> = std::thread::scope(|scope| {
            let sending: Vec<_> = (0..8).map(|_| scope.spawn(|| ground.send(&request).status)).collect();
            sending.into_iter().map(|sent| sent.join().unwrap()).collect()
        });
        assert_eq!(answers.iter().filter(|status| **status == 200).count(), 1, "{answers:?}");
        assert_eq!(answers.iter().filter(|status| **status == 400).count(), 7, "{answers:?}");
        assert_eq!(ground.served(), before + 1);
    }
}

#[test]
fn forwarding_headers_count_only_from_trusted_proxies() {
    for trusts_origin in [false, true] {
        let ground = Ground::new(Settings { trusts_origin, ..Settings::default() });
        for (family, wire) in WIRES {
            let session = ground.old(family, wire);
            let request = ORIGIN
                .iter()
                .fold(compat_request(&session, "/echo", b"1").0, |request, name| request.header(name, "6.6.6.6"));
            assert_eq!(ground.send(&request).status, 200);
            let seen = ground.seen.lock().unwrap().pop().unwrap();
            for name in ORIGIN {
                // A trusted peer writes hyphens; a similar name with underscores comes from the client.
                assert_eq!(seen.headers.contains_key(name), trusts_origin && !name.contains('_'), "{name}");
            }
        }
    }
}

#[test]
fn a_path_without_a_rule_is_sealed() {
    let ground = Ground::new(Settings::default());
    for (method, path) in [("GET", "/"), ("POST", "/echo"), ("GET", "/anything?a"), ("HEAD", "/x"), ("DELETE", "/x")] {
        let answer = ground.send(&Raw::new(method, path));
        assert!([400, 405].contains(&answer.status), "{method} {path} {}", answer.status);
    }
    assert_eq!(ground.served(), 0);
}

#[test]
fn without_its_store_nothing_is_served_and_the_client_may_try_later() {
    for broken in [StoreFault::Away, StoreFault::Silent, StoreFault::Claims] {
        let ground =
            Ground::new(Settings { store_deadline: std::time::Duration::from_millis(200), ..Settings::default() });
        for (family, wire) in WIRES {
            let session = ground.old(family, wire);
            let (request, pending) = compat_request(&session, "/echo", b"an order");
            ground.breaks(broken);
            let answer = ground.send(&request);
            answer.assert_error("broken", 503, "SERVICE_UNAVAILABLE");
            assert_eq!(answer.header("retry-after"), Some("1"));
            ground.breaks(StoreFault::Not);
            assert_eq!(ground.served(), 0);
            // A request rejected like this was not served, and its nonce is still free.
            assert_eq!(open_compat(&pending, &ground.send(&request)).unwrap(), b"an order");
            ground.seen.lock().unwrap().clear();
        }
    }
}

#[test]
fn an_answer_sent_back_is_no_request() {
    let ground = Ground::new(Settings::default());
    let session = ground.old(Family::Session, Wire::V2);
    let answer = ground.send(&compat_request(&session, "/echo", b"an order").0);
    let mut reflected = Raw::post("/echo", answer.body.clone()).header("X-ClientId", "demo-client");
    for name in ["x-kid", "x-idempotency-key"] {
        reflected = reflected.header(name, answer.header(name).unwrap());
    }
    ground.send(&reflected).assert_error("reflected", 400, "CRYPTO_ERROR");
    assert_eq!(ground.served(), 1);
}

#[test]
fn anonymous_sessions_have_their_paths_and_their_bound() {
    let ground = Ground::new(Settings { anonymous_paths: vec!["/open".into()], ..Settings::default() });
    let session = ground.old(Family::Anonymous, Wire::V1);
    assert_eq!(ground.send(&compat_request(&session, "/open", b"1").0).status, 200);
    ground.send(&compat_request(&session, "/open/below", b"1").0).assert_error("below", 403, "SESSION_FORBIDDEN");
    ground.send(&compat_request(&session, "/open", &[b'a'; 4096]).0).assert_error("long", 413, "PAYLOAD_TOO_LARGE");
}

#[test]
fn routes_say_what_is_sealed_and_a_wire_that_is_off_is_refused() {
    let routes = Routes::all(SealMode::Off).exact("/pay", SealMode::Required).unwrap();
    let routes = routes.prefix("/mixed/", SealMode::Optional).unwrap();
    let ground = Ground::new(Settings { routes, wires: vec![Wire::V2, Wire::Native], ..Settings::default() });
    let plain = ground.send(&Raw::post("/other", "plain").header("X-Sealway-Subject", "root"));
    assert_eq!((plain.status, plain.text().as_str()), (200, "plain"));
    assert!(ground.seen.lock().unwrap()[0].headers.get("x-sealway-subject").is_none());
    assert_eq!(ground.send(&Raw::post("/mixed/a", "plain")).text(), "plain");
    let session = ground.old(Family::Session, Wire::V2);
    let (request, pending) = compat_request(&session, "/mixed/a", b"sealed");
    assert_eq!(open_compat(&pending, &ground.send(&request)).unwrap(), b"sealed");
    ground.send(&Raw::post("/pay", "plain")).assert_error("plain", 400, "CRYPTO_ERROR");
    ground.send(&Raw::post("//pay", "plain")).assert_error("disguised", 400, "CRYPTO_ERROR");
    let before = ground.served();
    for path in ["/pay", "/mixed/a"] {
        let answer = ground.send(&Raw::new("OPTIONS", path).header("Access-Control-Request-Method", "POST"));
        assert_eq!((answer.status, answer.header("allow")), (204, Some("POST, OPTIONS")));
    }
    assert_eq!(ground.served(), before, "the browser's question reaches no handler");
    let off = ground.old(Family::Session, Wire::V1);
    ground.send(&compat_request(&off, "/pay", b"1").0).assert_error("off", 403, "WIRE_DISABLED");
}

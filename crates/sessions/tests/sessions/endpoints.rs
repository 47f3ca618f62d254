//! `POST /session/init` and `/session/init/anon`, wires 1 and 2: every row of the tables, in process.

use crate::desk::{ANON, CRYPTO_ERROR, Call, Desk, SESSION, V1, WINDOW_MS, nonce, open, public_key};
use sealway_proto::session::{ClientInit, SealBuffer};
use sealway_proto::wire::Wire;
use sealway_sessions::{Policy, Refusal};
use sealway_testkit::store_contract::claims::{PATH, START_MS, provider, random};
use serde_json::json;

fn desk() -> Desk {
    Desk::new(Policy::default())
}

#[tokio::test]
async fn an_init_is_answered_with_four_members_and_its_session_opens_calls() {
    let desk = Desk::new(Policy { anonymous_paths: vec![PATH.into()], ..Policy::default() });
    for (path, wire, ttl_sec, id, alg) in [
        (SESSION, Wire::V2, 1800, "S-", "A256GCM"),
        (V1, Wire::V2, 1800, "S-", "aes-256-gcm"),
        (SESSION, Wire::V1, 1800, "S-", "A256GCM"),
        (ANON, Wire::V1, 120, "A-", "A256GCM"),
    ] {
        let ephemeral = provider().p256_generate().unwrap();
        let (client, request) =
            ClientInit::new(wire, path == ANON, "web", None, ephemeral, &random(), START_MS).unwrap();
        let mut call = Call::new("POST", path).with("content-type", "application/json").body(request.body);
        call.headers.extend(request.headers);
        let answer = desk.send(call).await;
        let (session_id, expires_in_sec) = answer.agreed();
        assert_eq!((expires_in_sec, &session_id[..2]), (ttl_sec, id), "{path} {wire:?}");
        assert_eq!(answer.json()["encAlg"], alg);
        assert_eq!(answer.header("x-kid"), (path == V1).then_some(session_id.as_str()), "X-Kid is /v1's alone");
        for step in ["replay-protection", "validate-pubkey", "ecdh-keygen", "ecdh-compute", "hkdf", "session-store"] {
            assert!(answer.timing.contains(&format!("{step};dur=")), "{}", answer.timing);
        }

        let client = client.finish(provider(), answer.body.as_bytes(), START_MS, &mut |_| ()).unwrap();
        let plaintext = SealBuffer::from(b"hello".as_slice());
        let stamp = START_MS.to_string();
        let (message, _) = client.seal_as(PATH, plaintext, &stamp, &nonce(), &[7; 12], &mut |_| ()).unwrap();
        let call = async |path: &str| open(&desk.authority, path, &message.headers, message.body.clone()).await;
        // A call is accepted once only.
        assert_eq!(call(PATH).await.unwrap(), "hello");
        assert_eq!(call(PATH).await, Err(Refusal::Wire(sealway_proto::Error::Replayed)));
        if wire == Wire::V1 {
            // The allow-list has whole paths.
            for other in ["/orders/1", "/order", "/ordersx"] {
                assert_eq!(call(other).await == Err(Refusal::Forbidden), path == ANON, "{other}");
            }
        }
    }
}

#[tokio::test]
async fn wire_2s_ttl_is_any_whole_number_clamped_and_anything_else_is_refused() {
    let desk = desk();
    for (ttl, want) in [
        ("null", 1800),
        ("0", 300),
        ("299", 300),
        ("300", 300),
        ("301", 301),
        ("1800.0", 1800),
        ("1e3", 1000),
        ("3600", 3600),
        ("3601", 3600),
        ("1e300", 3600),
        ("18446744073709551616", 3600),
    ] {
        let answer = desk.send(Call::init(SESSION).member("ttlSec", ttl)).await;
        assert_eq!(answer.agreed().1, want, "{ttl}");
    }
    for ttl in ["-1", "1.5", "\"1800\"", "true", "false", "[]", "{}", "\"\"", "-0.5", "NaN"] {
        desk.send(Call::init(SESSION).member("ttlSec", ttl)).await.is(ttl, 400, CRYPTO_ERROR);
    }
}

#[tokio::test]
async fn wire_1s_ttl_is_clamped_without_type_checks() {
    let desk = desk();
    for (ttl, want) in [
        ("null", 1800),
        ("0", 300),
        ("-1", 300),
        ("1.5", 300),
        ("900.9", 900),
        ("\"1800\"", 1800),
        ("\"900\"", 900),
        ("99999", 3600),
        ("\"soon\"", 1800),
        ("[]", 1800),
    ] {
        let answer = desk.send(Call::wire1(SESSION).member("ttlSec", ttl)).await;
        assert_eq!(answer.agreed().1, want, "{ttl}");
        assert_eq!(desk.send(Call::wire1(ANON).member("ttlSec", ttl)).await.agreed().1, 120, "{ttl}");
    }
}

#[tokio::test]
async fn every_fault_of_an_init_is_one_and_the_same_400() {
    let desk = desk();
    let far = |ms: u64| format!("{ms}.{}", nonce());
    let spki = {
        let mut der = vec![0x30, 0x59];
        der.resize(91, 0);
        sealway_proto::wire::base64::encode(&der)
    };
    let off_curve = sealway_proto::wire::base64::encode(&[4; 65]);
    let compressed = sealway_proto::wire::base64::encode(&[2; 33]);
    let url_safe = public_key().replace(['+', '/'], "-");
    let key = |text: &str| json!({"clientPublicKey": text});
    let good = || Call::init(SESSION);
    for (what, call) in [
        ("no X-Idempotency-Key", good().without("x-idempotency-key")),
        ("an empty one", good().with("x-idempotency-key", "")),
        ("two", good().and("x-idempotency-key", &far(START_MS))),
        ("no dot", good().with("x-idempotency-key", "1800000000000")),
        ("two dots", good().with("x-idempotency-key", "1800000000000.a.b")),
        ("no stamp", good().with("x-idempotency-key", ".abcdef")),
        ("no nonce", good().with("x-idempotency-key", "1800000000000.")),
        ("stamp with a sign", good().with("x-idempotency-key", &format!("+{}", far(START_MS)))),
        ("stamp in hex", good().with("x-idempotency-key", "1a2b.abcdef")),
        ("a stamp too old", good().with("x-idempotency-key", &far(START_MS - WINDOW_MS - 1))),
        ("a stamp too new", good().with("x-idempotency-key", &far(START_MS + WINDOW_MS + 1))),
        ("a nonce with a space", good().with("x-idempotency-key", &format!("{START_MS}.a b"))),
        ("a nonce too long", good().with("x-idempotency-key", &format!("{START_MS}.{}", "n".repeat(129)))),
        ("an answer's nonce", good().with("x-idempotency-key", &format!("{START_MS}.r-{}", nonce()))),
        ("no X-ClientId", good().without("x-clientid")),
        ("an empty one", good().with("x-clientid", "")),
        ("one with a bar", good().with("x-clientid", "a|b")),
        ("two", good().and("x-clientid", "web")),
        ("no body", good().body("")),
        ("no JSON", good().body("{")),
        ("JSON and more", good().body(format!("{} x", key(&public_key())))),
        ("an array", good().json(json!([]))),
        ("no key", good().json(json!({}))),
        ("an empty key", good().json(key(""))),
        ("a key that is no string", good().json(json!({"clientPublicKey": 7}))),
        ("SPKI", good().json(key(&spki))),
        ("compressed", good().json(key(&compressed))),
        ("off the curve", good().json(key(&off_curve))),
        ("no padding", good().json(key(&public_key().replace('=', "")))),
        ("a line end", good().json(key(&format!("{}\n", public_key())))),
        ("the other alphabet", good().json(key(&format!("{}-", &url_safe[..87])))),
        ("wire 1, no nonce", Call::wire1(SESSION).without("x-nonce")),
        ("wire 1, no stamp", Call::wire1(SESSION).without("x-timestamp")),
        ("wire 1, old", Call::wire1(SESSION).with("x-timestamp", &(START_MS - WINDOW_MS - 1).to_string())),
        ("wire 1, no agreement", Call::wire1(SESSION).json(key(&public_key()))),
        (
            "wire 1, another agreement",
            Call::wire1(SESSION).json(json!({"clientPublicKey": public_key(), "keyAgreement": "X25519"})),
        ),
        ("anonymous, wire 2", at(ANON, Call::init(SESSION))),
    ] {
        desk.send(call).await.is(what, 400, CRYPTO_ERROR);
    }
    assert_eq!(desk.authority.store().status().sessions, 0);
}

fn at(path: &str, mut call: Call) -> Call {
    call.path = path.into();
    call
}

#[tokio::test]
async fn any_content_type_and_unknown_members_and_short_nonces_are_taken() {
    let desk = desk();
    desk.send(Call::init(SESSION).without("content-type")).await.agreed();
    desk.send(Call::init(SESSION).with("content-type", "text/plain")).await.agreed();
    desk.send(Call::init(SESSION).member("more", r#"{"a":[1]}"#)).await.agreed();
    desk.send(Call::init(SESSION).with("x-idempotency-key", &format!("{START_MS}.1"))).await.agreed();
    desk.send(Call::wire1(SESSION).with("x-nonce", "1")).await.agreed();
    // X-Nonce beside X-Idempotency-Key is wire 2.
    desk.send(Call::init(SESSION).with("x-nonce", "1")).await.agreed();
}

#[tokio::test]
async fn the_window_is_inclusive_at_both_edges() {
    let desk = desk();
    for now_ms in [START_MS - WINDOW_MS, START_MS + WINDOW_MS] {
        desk.clock.set(now_ms);
        desk.send(Call::init(SESSION)).await.agreed();
        desk.send(Call::wire1(SESSION)).await.agreed();
        desk.send(Call::init(V1)).await.agreed();
    }
    for now_ms in [START_MS - WINDOW_MS - 1, START_MS + WINDOW_MS + 1] {
        desk.clock.set(now_ms);
        desk.send(Call::init(SESSION)).await.is("wire 2", 400, CRYPTO_ERROR);
        desk.send(Call::wire1(SESSION)).await.is("wire 1", 400, CRYPTO_ERROR);
        assert_eq!(desk.send(Call::init(V1)).await.status, 400);
    }
}

#[tokio::test]
async fn a_nonce_is_good_once_in_its_scope() {
    let desk = desk();
    let call = Call::init(SESSION);
    desk.send(call.clone()).await.agreed();
    desk.send(call.clone()).await.is("again", 400, CRYPTO_ERROR);
    // Another stamp does not make the nonce fresh; another client id does.
    let key = call.headers.iter().find(|(name, _)| *name == "x-idempotency-key").unwrap().1.clone();
    let moved = key.replace(&START_MS.to_string(), &(START_MS + 1).to_string());
    desk.send(call.clone().with("x-idempotency-key", &moved)).await.is("another stamp", 400, CRYPTO_ERROR);
    desk.send(call.clone().with("x-clientid", "app")).await.agreed();
    // At the last moment at which the stamp is valid.
    desk.clock.set(START_MS + WINDOW_MS);
    desk.send(call).await.is("at the edge", 400, CRYPTO_ERROR);
    desk.clock.set(START_MS);

    // Wire 1 has one scope, which includes anonymous inits.
    let call = Call::wire1(SESSION);
    desk.send(call.clone()).await.agreed();
    desk.send(call.clone()).await.is("again", 400, CRYPTO_ERROR);
    desk.send(at(ANON, call)).await.is("anonymous", 400, CRYPTO_ERROR);
}

#[tokio::test]
async fn nothing_that_is_malformed_burns_a_nonce() {
    let desk = desk();
    let call = Call::init(SESSION);
    let key = call.clone().json(json!({"clientPublicKey": "AAAA"}));
    for fault in [key, call.clone().body("{"), call.clone().without("x-clientid"), call.clone().member("ttlSec", "1.5")]
    {
        desk.send(fault).await.is("a fault", 400, CRYPTO_ERROR);
    }
    desk.send(call).await.agreed();
}

#[tokio::test]
async fn bodies_are_bounded() {
    let desk = desk();
    let padded = |call: Call, len: usize| {
        let text = String::from_utf8(call.body.clone()).unwrap();
        let pad = " ".repeat(len - text.len());
        call.body(text + &pad)
    };
    let too_large = r#"{"error":"PAYLOAD_TOO_LARGE"}"#;
    desk.send(padded(Call::init(SESSION), 65_536)).await.agreed();
    desk.send(padded(Call::init(SESSION), 65_537)).await.is("one more", 413, too_large);
    desk.send(padded(Call::wire1(ANON), 4096)).await.agreed();
    desk.send(padded(Call::wire1(ANON), 4097)).await.is("one more", 413, too_large);
}

#[tokio::test]
async fn anonymous_inits_are_ten_a_minute_and_address() {
    let desk = desk();
    let from = |peer: &str| Call::wire1(ANON).at_peer(peer);
    for _ in 0..10 {
        desk.send(from("192.0.2.7")).await.agreed();
    }
    let answer = desk.send(from("192.0.2.7")).await;
    answer.is("the eleventh", 429, r#"{"error":"RATE_LIMITED"}"#);
    let wait: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    // The same address mapped to IPv6 counts as the same; another one does not.
    assert_eq!(desk.send(from("::ffff:192.0.2.7")).await.status, 429);
    desk.send(from("192.0.2.8")).await.agreed();
    // An IPv6 client has a /64.
    for n in 0..10 {
        desk.send(from(&format!("2001:db8:1:2:{n}::1"))).await.agreed();
    }
    assert_eq!(desk.send(from("2001:db8:1:2:ffff::9")).await.status, 429);
    desk.send(from("2001:db8:1:3::1")).await.agreed();
    // Only anonymous inits count.
    desk.send(Call::wire1(SESSION).at_peer("192.0.2.7")).await.agreed();
}

#[tokio::test]
async fn wire_1_inits_are_thirty_a_minute_and_token() {
    let desk = desk();
    let with = |token: &str| Call::wire1(SESSION).with("authorization", token);
    for _ in 0..30 {
        desk.send(with("Bearer one")).await.agreed();
    }
    desk.send(with("Bearer one")).await.is("the 31st", 429, r#"{"error":"RATE_LIMITED"}"#);
    desk.send(with("Bearer two")).await.agreed();
    desk.send(Call::wire1(SESSION)).await.agreed();
    desk.send(Call::init(SESSION).with("authorization", "Bearer one")).await.agreed();
    // 0 means no limit.
    let desk =
        Desk::new(Policy { authenticated_inits_per_minute: 0, anonymous_inits_per_minute: 0, ..Policy::default() });
    for _ in 0..40 {
        desk.send(with("Bearer one")).await.agreed();
        desk.send(Call::wire1(ANON)).await.agreed();
    }
}

#[tokio::test]
async fn other_methods_are_refused_with_those_that_are_not() {
    let desk = desk();
    for path in [SESSION, ANON, V1] {
        let answer = desk.send(Call::get(path)).await;
        answer.is(path, 405, r#"{"error":"METHOD_NOT_ALLOWED"}"#);
        assert_eq!(answer.header("allow"), Some("POST, OPTIONS"));
    }
    desk.send(Call::new("POST", "/session/other")).await.is("unknown", 404, r#"{"error":"NOT_FOUND"}"#);
}

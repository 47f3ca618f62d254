//! An attacker between client and gateway on wire 3: every change, swap, replay or reflection of a sealed request or its answer
//! is rejected, and nothing of it reaches the service or the caller. `spec/session-3.md#sealed-requests`.

use sealway_client::{Body, Client, Error, Trust, TrustStore};
use sealway_proto::session::native::{PendingAnswer, Suite};
use sealway_proto::wire::base64;
use sealway_testkit::native_client::{NativeSession, open};
use sealway_testkit::raw_http::{Answer, Request};

use crate::BINARY;
use crate::ground::held::{HoldingAttacker, Loss};
use crate::ground::{Ground, Lane};

const ORDER: &[u8] = br#"{"schemeCode":"AEF","amount":5000}"#;
const TARGET: &str = "/transaction/purchase?x=1";

/// Attacks on whole requests: replayed, sent to another target or session, reflected, with each header changed or removed.
fn whole_requests(lane: &mut Lane<'_>) {
    let (agreed, other) = (lane.agree(Suite::X25519MlKem768), lane.agree(Suite::X25519MlKem768));
    let unsealable: &[&str] = &["unsealable"];
    let attack =
        |lane: &mut Lane<'_>, what: &'static str, change: Box<dyn FnOnce(Request) -> Request + Send>, how: &[&str]| {
            let request = lane.seal(&agreed, "POST", TARGET, &[ORDER], 0).0;
            lane.attack(("a request changed", &what), &request, change, how);
        };
    let twice = lane.seal(&agreed, "POST", TARGET, &[ORDER], 1).0;
    assert_eq!(lane.link.send(&twice).unwrap().status, 200);
    for _ in 0..3 {
        lane.attack(("a request sent again", &""), &twice, |request| request, &["replayed"]);
    }
    let kid = other.seal("GET", "/", &[]).0.value("x-kid").unwrap().to_owned();
    attack(lane, "in another session", Box::new(move |r| r.set("x-kid", kid)), unsealable);
    for target in
        ["/transaction/purchase", "/transaction/purchase?x=2", "/transaction/refund?x=1", "/transaction/purchase?x=%31"]
    {
        attack(lane, "to another target", Box::new(move |r| r.target(target)), unsealable);
    }
    for method in ["PUT", "PATCH", "DELETE", "get"] {
        attack(lane, "with another method", Box::new(move |r| r.method(method)), unsealable);
    }
    attack(lane, "with another content type", Box::new(|r| r.set("content-type", "text/plain")), unsealable);
    attack(lane, "without a content type", Box::new(|r| r.without("content-type")), unsealable);
    attack(lane, "with an empty body", Box::new(|r| r.body("")), unsealable);
    attack(
        lane,
        "with a body and X-Sealed",
        Box::new(|r| {
            let sealed = base64::encode(r.body_bytes());
            r.header("X-Sealed", sealed)
        }),
        unsealable,
    );
    for name in ["x-kid", "x-idempotency-key", "x-seal"] {
        attack(
            lane,
            "with a header twice",
            Box::new(move |r| {
                let value = r.value(name).unwrap().to_owned();
                r.header(name, value)
            }),
            unsealable,
        );
        // Without X-Seal it is a request of the older wires, to which the session does not belong: their answer is a JSON error.
        attack(lane, "without a header", Box::new(move |r| r.without(name)), &["unsealable", "400"]);
    }
    let (first, second) =
        (lane.seal(&agreed, "POST", TARGET, &[ORDER], 0).0, lane.seal(&agreed, "POST", TARGET, &[ORDER], 0).0);
    let body = second.body_bytes().to_vec();
    lane.attack(("bodies of two requests swapped", &""), &first, move |r| r.body(body), unsealable);
    let (key, first) = (first.value("x-idempotency-key").unwrap().to_owned(), second);
    lane.attack(("nonces of two requests swapped", &""), &first, move |r| r.set("x-idempotency-key", key), unsealable);
}

/// Attacks on answers: swapped between requests, reflected, with each part changed.
fn whole_answers(lane: &mut Lane<'_>) {
    let agreed = lane.agree(Suite::X25519MlKem768);
    let other = lane.agree(Suite::X25519MlKem768);
    let mut exchange = |agreed| -> (Request, PendingAnswer<'_>, Answer) {
        let (request, pending) = lane.seal(agreed, "POST", TARGET, &[ORDER], 1);
        let answer = lane.link.send(&request).unwrap();
        assert_eq!(open(&pending, &answer).unwrap().body, ORDER);
        (request, pending, answer)
    };
    let (one, two, elsewhere) = (exchange(&agreed), exchange(&agreed), exchange(&other));
    let refused = |lane: &Lane<'_>, what: &'static str, answer: Answer, how: &str| {
        let ended = format!("{:?}", open(&one.1, &answer).err());
        lane.ground.refused("an answer changed", what, &ended, &[&format!("Some({how})")]);
    };
    let with = |name: &str, value: String| {
        let mut answer = one.2.clone();
        let header = answer.headers.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(name)).unwrap();
        header.1 = value;
        answer
    };
    refused(lane, "that of another request", two.2.clone(), "Unsealable");
    refused(lane, "that of another session", elsewhere.2.clone(), "AnswerMismatch");
    refused(lane, "body of another", Answer { body: two.2.body.clone(), ..one.2.clone() }, "Unsealable");
    refused(lane, "another status", Answer { status: 201, ..one.2.clone() }, "Unsealable");
    refused(lane, "content type", with("content-type", "text/plain".into()), "Unsealable");
    refused(lane, "kid", with("x-kid", elsewhere.2.header("x-kid").unwrap().into()), "AnswerMismatch");
    refused(lane, "nonce", with("x-idempotency-key", two.2.header("x-idempotency-key").unwrap().into()), "Unsealable");
    let reflected = |key: String| {
        let mut answer = with("x-idempotency-key", key);
        answer.body = one.0.body_bytes().to_vec();
        answer
    };
    let key = one.0.value("x-idempotency-key").unwrap().to_owned();
    refused(lane, "its own request", reflected(key.clone()), "AnswerMismatch");
    refused(lane, "its own request, marked as an answer", reflected(key.replace('.', ".r-")), "Unsealable");
    let mut bare = one.2.clone();
    bare.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("x-seal"));
    refused(lane, "without X-Seal", bare, "Unsealed");
    refused(
        lane,
        "nothing sealed at all",
        Answer { status: 200, headers: Vec::new(), body: ORDER.to_vec() },
        "Unsealed",
    );
    // An answer sent as a request, unchanged and under a request's nonce.
    let key = one.2.header("x-idempotency-key").unwrap().to_owned();
    for key in [key.clone(), key.replace("r-", "")] {
        let body = one.2.body.clone();
        let (kid, request) = (one.0.value("x-kid").unwrap().to_owned(), Request::post(TARGET, body));
        let request = request.header("X-Seal", "3").header("X-Kid", kid).header("X-Idempotency-Key", key);
        lane.attack(
            ("an answer as a request", &""),
            &request.header("Content-Type", "application/octet-stream"),
            |r| r,
            &["unsealable"],
        );
    }
    bits_of_an_answer(lane, &one.1, &one.2);
}

/// Flips every bit of the first 200 bytes of a sealed answer, and of its sealed outer values.
fn bits_of_an_answer(lane: &Lane<'_>, pending: &PendingAnswer<'_>, answer: &Answer) {
    for bit in 0..answer.body.len().min(200) * 8 {
        let mut changed = answer.clone();
        changed.body[bit / 8] ^= 1 << (bit % 8);
        let ended = format!("{:?}", open(pending, &changed).unwrap_err());
        let how: &[&str] = match bit / 8 {
            16..20 => &["FrameInvalid", "StreamTruncated", "Unsealable"],
            _ => &["Unsealable"],
        };
        lane.ground.refused("a bit of an answer", bit, &ended, how);
    }
    for name in ["x-seal", "x-kid", "x-idempotency-key", "content-type"] {
        let at = answer.headers.iter().position(|(known, _)| known.eq_ignore_ascii_case(name)).unwrap();
        for bit in 0..answer.headers[at].1.len() * 8 {
            let mut changed = answer.clone();
            changed.headers[at].1 = flipped(&changed.headers[at].1, bit);
            let ended = format!("{:?}", open(pending, &changed).unwrap_err());
            let ended = ended.split('(').next().unwrap();
            let how = [
                "Unsealable",
                "AnswerMismatch",
                "HeaderInvalid",
                "KidPrefix",
                "NonceInvalid",
                "TimestampInvalid",
                "IdempotencyKeyShape",
            ];
            lane.ground.refused("a bit of an answer's headers", (name, bit), ended, &how);
        }
    }
}

/// Returns a text with one bit flipped; bytes over 127 are sent unchanged.
fn flipped(text: &str, bit: usize) -> String {
    let mut bytes: Vec<u8> = text.bytes().collect();
    bytes[bit / 8] ^= 1 << (bit % 8);
    bytes.into_iter().map(char::from).collect()
}

/// Flips every bit of the first 200 bytes of a sealed request, and of its headers.
fn bits_of_requests(lane: &mut Lane<'_>, half: usize) {
    let agreed = lane.agree(Suite::P256);
    let plaintext = [b'x'; 200];
    for bit in (half..1600).step_by(2) {
        let request = lane.seal(&agreed, "POST", TARGET, &[&plaintext], 0).0;
        lane.attack(
            ("a bit of a request", &bit),
            &request,
            move |request| {
                let mut body = request.body_bytes().to_vec();
                body[bit / 8] ^= 1 << (bit % 8);
                request.body(body)
            },
            &["unsealable"],
        );
    }
    for name in ["x-seal", "x-kid", "x-idempotency-key", "content-type"] {
        let len = agreed.seal("POST", TARGET, &[]).0.value(name).unwrap().len();
        for bit in (half..len * 8).step_by(2) {
            // Bytes that are no HTTP any more never reach the gateway's routes: 400 without a body.
            let how: &[&str] = match name {
                "x-kid" => &["unsealable", "session_expired", "400"],
                "x-idempotency-key" => &["unsealable", "clock_skew", "400"],
                _ => &["unsealable", "400"],
            };
            let request = lane.seal(&agreed, "POST", TARGET, &[&plaintext], 0).0;
            let value = flipped(request.value(name).unwrap(), bit);
            lane.attack(("a bit of a request's headers", &(name, bit)), &request, move |r| r.set(name, value), how);
        }
    }
}

#[test]
fn a_changed_call_is_rejected_and_reaches_neither_service_nor_caller() {
    let ground = Ground::start(BINARY);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let lane = &mut ground.lane();
            whole_requests(lane);
            whole_answers(lane);
        });
        for half in [0, 1] {
            let ground = &ground;
            scope.spawn(move || bits_of_requests(&mut ground.lane(), half));
        }
    });
    assert!(ground.end().attacks > 4000);
}

#[test]
fn the_requests_nonce_in_an_answers_key_binds_each_answer_to_its_one_request() {
    let ground = Ground::start(BINARY);
    let mut lane = ground.lane();
    let agreed: NativeSession = lane.agree(Suite::P256);
    let sealed: Vec<_> = (0..8).map(|_| lane.seal(&agreed, "POST", TARGET, &[ORDER], 1)).collect();
    let answers: Vec<_> = sealed.iter().map(|(request, _)| lane.link.send(request).unwrap()).collect();
    for (index, (_, pending)) in sealed.iter().enumerate() {
        for (other, answer) in answers.iter().enumerate() {
            match open(pending, answer) {
                Ok(opened) => assert_eq!((index, opened.body.as_slice()), (other, ORDER)),
                Err(err) => {
                    ground.refused("another request's answer", (index, other), &format!("{err:?}"), &["Unsealable"])
                }
            }
        }
    }
    drop((lane, sealed));
    assert_eq!(ground.end().attacks, 56);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purchase_that_was_served_before_its_session_was_lost_is_not_bought_again() {
    let held = HoldingAttacker::start(BINARY);
    for loss in [Loss::Restart, Loss::OtherProcess, Loss::Revocation] {
        let url = format!("http://{}/", held.middle.address);
        let client = Client::builder(url).trust(Trust::FirstUse(TrustStore::Memory)).connect().await.unwrap();
        let call = async |request: http::request::Builder, body: &'static [u8]| {
            client.send(request.body(Body::from(body)).unwrap()).await?.into_body().bytes().await
        };
        let buy = async || -> Result<_, Error> { call(http::Request::post("/transaction/purchase"), ORDER).await };
        let before = held.served();
        held.lose(loss);
        let bought = buy().await;
        assert_eq!(held.served() - before, 1, "{loss:?}: one call bought more than once");
        let err = bought.unwrap_err().to_string();
        assert!(
            err.contains("session_expired") && err.contains("unknown whether") && err.contains("next call"),
            "{err}"
        );
        // A safe request is retried, and the next call works.
        let before = held.served();
        assert_eq!(buy().await.unwrap(), "bought");
        assert_eq!(held.served() - before, 1);
        held.lose(loss);
        let asked = call(http::Request::get("/rates"), b"").await.unwrap();
        assert_eq!((asked, held.served() - before), ("bought".into(), 3), "{loss:?}");
    }
}

//! An attacker between client and gateway during an agreement of wire 3: every change, swap, replay or reflection is rejected by
//! the right end and for the right reason, and so is an attacker that plays the service. `spec/session-3.md#init`.

use sealway_proto::crypto::agreement::default_agreement_provider;
use sealway_proto::crypto::identity::{IdentityPair, SignatureAlgorithm, default_identity_library};
use sealway_proto::session::Auth;
use sealway_proto::session::native::{InitRequest, KeyId, ServerRandoms, ShareKey, Suite, Terms, agree};
use sealway_proto::wire::base64;
use sealway_testkit::native_client::{code, finish, init, offer};
use sealway_testkit::raw_http::{Answer, Request};
use sealway_testkit::wire_client::random;
use serde_json::{Value, json};

use crate::BINARY;
use crate::ground::{Ground, Lane};

/// Permitted errors of the gateway for a changed init, and of a client for a changed answer.
const ANY_INIT: &[&str] = &["malformed", "suite_required", "key_retired", "SignatureInvalid", "AnswerMismatch"];
const ANY_ANSWER: &[&str] = &["AnswerMismatch", "SuiteDowngraded", "KeyUntrusted", "SignatureInvalid", "Unconfirmed"];

type Change = Box<dyn FnOnce(&mut Value) + Send>;

fn edit(body: &[u8], change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut value = serde_json::from_slice(body).unwrap();
    change(&mut value);
    value.to_string().into_bytes()
}

fn set(name: &'static str, value: impl Into<Value>) -> Change {
    let value = value.into();
    Box::new(move |object| object[name] = value)
}

fn share_of(suite: Suite) -> String {
    base64::encode(&ShareKey::generate(default_agreement_provider(), suite).unwrap().public())
}

/// Runs an init of which either message is changed in transit. Returns the gateway's error or the client's reason.
fn tampered(
    lane: &mut Lane<'_>,
    suite: Suite,
    request: impl FnOnce(Request) -> Request + Send + 'static,
    answer: impl FnOnce(Answer) -> Answer + Send + 'static,
) -> String {
    let (init, sent) = init(offer(suite, &[]));
    lane.middle.change_request(request);
    lane.middle.change_answer(answer);
    let answer = lane.link.send(&sent).unwrap();
    if answer.status >= 400 {
        return code(&answer);
    }
    finish(init, &lane.ground.trusted, &answer).map_or_else(|err| format!("{err:?}"), |_| "a session".into())
}

fn with_request(change: Change) -> impl FnOnce(Request) -> Request + Send {
    move |request| {
        let body = edit(request.body_bytes(), change);
        request.body(body)
    }
}

fn with_answer(change: Change) -> impl FnOnce(Answer) -> Answer + Send {
    move |mut answer| {
        answer.body = edit(&answer.body, change);
        answer
    }
}

fn members_of_inits(lane: &mut Lane<'_>) {
    let p256 = || json!([Suite::P256.name()]);
    for suite in Suite::DEFAULT {
        let unlike = if suite == Suite::P256 { Suite::X25519MlKem768 } else { Suite::P256 };
        let in_request: Vec<(&str, Change, &str)> = vec![
            ("share", set("share", share_of(suite)), "SignatureInvalid"),
            ("share of another suite", set("share", share_of(unlike)), "malformed"),
            ("suite", set("suite", unlike.name()), "suite_required"),
            ("unknown suite", set("suite", "X448"), "suite_required"),
            ("no suites", set("suites", json!([])), "malformed"),
            ("one more suite", set("suites", json!([suite.name(), "X448"])), "SignatureInvalid"),
            ("one suite alone", set("suites", json!([suite.name()])), "SignatureInvalid"),
            ("client id", set("client_id", "mallory"), "SignatureInvalid"),
            ("ttl", set("ttl_sec", 599), "SignatureInvalid"),
            ("no ttl", set("ttl_sec", Value::Null), "SignatureInvalid"),
            ("proof", set("proof", "e30.e30.e30"), "SignatureInvalid"),
            ("pinned keys", set("pinned_key_ids", json!(["00112233445566778899aabbccddeeff"])), "key_retired"),
        ];
        for (what, change, how) in in_request {
            let ended = tampered(lane, suite, with_request(change), |answer| answer);
            lane.ground.refused("a member of an init", what, &ended, &[how]);
        }
        let key_id = lane.ground.trusted.keys[0].key_id.as_str().to_owned();
        let in_answer: Vec<(&str, Change, &str)> = vec![
            ("session id", set("session_id", "S-00112233445566778899aabbccddeeff"), "SignatureInvalid"),
            ("suite", set("suite", unlike.name()), "AnswerMismatch"),
            ("stripped suites", set("suites", json!([unlike.name()])), "SuiteDowngraded"),
            ("suites in another order", set("suites", json!([suite.name(), unlike.name()])), "SignatureInvalid"),
            ("life", set("expires_in_sec", 601), "SignatureInvalid"),
            (
                "time",
                Box::new(|answer| answer["server_time_ms"] = json!(answer["server_time_ms"].as_u64().unwrap() + 1)),
                "SignatureInvalid",
            ),
            ("key id", set("key_id", "00112233445566778899aabbccddeeff"), "KeyUntrusted"),
            ("key ids", set("key_ids", json!([key_id, "00112233445566778899aabbccddeeff"])), "SignatureInvalid"),
            ("no key ids", set("key_ids", Value::Null), "AnswerMismatch"),
            ("auth", set("auth", "bearer"), "SignatureInvalid"),
            ("subject", set("subject", "root"), "SignatureInvalid"),
            ("tenant", set("tenant", "other"), "SignatureInvalid"),
            ("signature", set("signature", base64::encode(&random::<64>())), "SignatureInvalid"),
            ("confirm", set("confirm", base64::encode(&random::<32>())), "Unconfirmed"),
            (
                "share",
                Box::new(|answer| {
                    let mut share = base64::decode(answer["share"].as_str().unwrap()).unwrap();
                    share[5] ^= 1;
                    answer["share"] = base64::encode(&share).into();
                }),
                "SignatureInvalid",
            ),
        ];
        for (what, change, how) in in_answer {
            let ended = tampered(lane, suite, |request| request, with_answer(change));
            lane.ground.refused("a member of an init's answer", what, &ended, &[how]);
        }
        for member in [
            "session_id",
            "suite",
            "suites",
            "share",
            "expires_in_sec",
            "server_time_ms",
            "key_id",
            "auth",
            "signature",
            "confirm",
        ] {
            let ended = tampered(lane, suite, |request| request, with_answer(set(member, Value::Null)));
            lane.ground.refused("a member of an init's answer left out", member, &ended, &["AnswerMismatch"]);
        }
        let ended = tampered(lane, suite, |request| request.header("Authorization", "Bearer mallory"), |answer| answer);
        lane.ground.refused("a token added to an init", "", &ended, &["SignatureInvalid"]);
    }
    // The weakest suite, forced: with a share of its own, and with matching lists.
    for strip_answer in [false, true] {
        let request = move |request: Request| {
            let body = edit(request.body_bytes(), |object| {
                (object["suite"], object["suites"]) = (json!(Suite::P256.name()), p256());
                object["share"] = share_of(Suite::P256).into();
            });
            request.body(body)
        };
        let answer = with_answer(Box::new(move |object| {
            if strip_answer {
                object["suites"] = p256();
            }
        }));
        let ended = tampered(lane, Suite::X25519MlKem768, request, answer);
        lane.ground.refused("a weaker suite forced", strip_answer, &ended, &["AnswerMismatch"]);
    }
    lists_forged_for_a_client_that_falls_back(lane);
}

/// A forged `suite_required` makes the client retry with P-256. Unless its list is stripped too, the server rejects it.
fn lists_forged_for_a_client_that_falls_back(lane: &mut Lane<'_>) {
    for (in_answer, how) in [(false, "SuiteDowngraded"), (true, "SignatureInvalid")] {
        let mut fallen = offer(Suite::X25519MlKem768, &[]);
        let share = ShareKey::generate(default_agreement_provider(), Suite::P256).unwrap();
        fallen.suites = Suite::ALL.to_vec();
        let init = sealway_proto::session::native::ClientInit::new(fallen, share, None).unwrap();
        let plain = lane.send_changed(&Request::post("/v3/sessions", init.body()), |request| request);
        lane.ground.refused("a forged suite_required, its list left", "", &code(&plain), &["suite_required"]);
        lane.middle.change_request(with_request(set("suites", json!([Suite::P256.name()]))));
        if in_answer {
            lane.middle.change_answer(with_answer(set("suites", json!([Suite::P256.name()]))));
        }
        let answer = lane.link.send(&Request::post("/v3/sessions", init.body())).unwrap();
        let ended = finish(init, &lane.ground.trusted, &answer).err();
        lane.ground.refused(
            "a forged suite_required, its list stripped",
            in_answer,
            &format!("{:?}", ended.unwrap()),
            &[how],
        );
    }
}

/// Swaps, replays and reflects whole messages of inits.
fn whole_inits(lane: &mut Lane<'_>) {
    for suite in Suite::DEFAULT {
        let kept = {
            let (_, request) = init(offer(suite, &[]));
            lane.link.send(&request).unwrap()
        };
        let ended = tampered(lane, suite, |request| request, move |_| kept);
        lane.ground.refused("the answer to another init", suite, &ended, &["SignatureInvalid"]);
        let ((first, one), (second, two)) = (init(offer(suite, &[])), init(offer(suite, &[])));
        let (one, two) = (lane.link.send(&one).unwrap(), lane.link.send(&two).unwrap());
        for (init, answer) in [(first, two), (second, one)] {
            let ended = finish(init, &lane.ground.trusted, &answer).err();
            lane.ground.refused(
                "answers of two inits swapped",
                suite,
                &format!("{:?}", ended.unwrap()),
                &["SignatureInvalid"],
            );
        }
        let (init, request) = init(offer(suite, &[]));
        let reflected = Answer { status: 201, headers: Vec::new(), body: request.body_bytes().to_vec() };
        let ended = finish(init, &lane.ground.trusted, &reflected).err();
        lane.ground.refused("an init as its own answer", suite, &format!("{:?}", ended.unwrap()), &["AnswerMismatch"]);
        let ended = tampered(lane, suite, |request| request, |answer| Answer { status: 200, ..answer });
        lane.ground.refused("another status", suite, &ended, &["Unsealed"]);
    }
}

/// Flips every bit of the first 200 bytes of either message of an init.
fn bits_of_inits(lane: &mut Lane<'_>, half: usize) {
    for bit in (half..1600).step_by(2) {
        let suite = if bit % 8 == half { Suite::X25519MlKem768 } else { Suite::P256 };
        let flip = move |body: &[u8]| {
            let mut body = body.to_vec();
            body[bit / 8] ^= 1 << (bit % 8);
            body
        };
        let ended = tampered(
            lane,
            suite,
            move |request| {
                let body = flip(request.body_bytes());
                request.body(body)
            },
            |answer| answer,
        );
        lane.ground.refused("a bit of an init", bit, &ended, ANY_INIT);
        let ended =
            tampered(lane, suite, |request| request, move |answer| Answer { body: flip(&answer.body), ..answer });
        lane.ground.refused("a bit of an init's answer", bit, &ended, ANY_ANSWER);
    }
}

#[test]
fn a_changed_agreement_is_rejected_by_the_right_end_for_the_right_reason() {
    let ground = Ground::start(BINARY);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let lane = &mut ground.lane();
            members_of_inits(lane);
            whole_inits(lane);
        });
        for half in [0, 1] {
            let ground = &ground;
            scope.spawn(move || bits_of_inits(&mut ground.lane(), half));
        }
    });
    assert!(ground.end().attacks > 3200);
}

/// An attacker that plays the service to the client, with a key of its own.
fn plays_the_service(request: &Request, claimed: KeyId, key: &IdentityPair, signature: Option<Vec<u8>>) -> Answer {
    let request = InitRequest::parse(request.body_bytes()).unwrap();
    let terms = Terms {
        suites: Suite::ALL.to_vec(),
        expires_in_sec: 600,
        key_id: claimed,
        key_ids: vec![claimed],
        auth: Auth::None,
        subject: None,
        tenant: None,
        credential: None,
    };
    let (provider, id) = (default_agreement_provider(), random());
    let agreed =
        agree(provider, &request, terms, None, &id, ServerRandoms::Draw, 1_800_000_000_000, &mut |_| ()).unwrap();
    let signature = signature.unwrap_or_else(|| key.sign(&agreed.message()).unwrap());
    let (body, _) = agreed.signed(provider, signature).unwrap();
    Answer { status: 201, headers: Vec::new(), body: body.into_bytes() }
}

#[test]
fn the_signature_keeps_out_one_in_the_middle_with_a_key_of_its_own() {
    let ground = Ground::start(BINARY);
    let mut lane = ground.lane();
    let own = default_identity_library().generate(SignatureAlgorithm::Es256).unwrap().1;
    let own_id = KeyId::of(default_agreement_provider(), own.public());
    let service_id = ground.trusted.keys[0].key_id;
    for suite in Suite::DEFAULT {
        // The service's signature for the attacker, which connected as a client of its own.
        let real = lane.link.send(&init(offer(suite, &[])).1).unwrap().json();
        let signature = base64::decode(real["signature"].as_str().unwrap().as_bytes()).unwrap();
        for (claimed, signature, how) in [
            (own_id, None, "KeyUntrusted"),
            (service_id, None, "SignatureInvalid"),
            (service_id, Some(signature), "SignatureInvalid"),
        ] {
            let (init, request) = init(offer(suite, &[]));
            let played = plays_the_service(&request, claimed, &own, signature);
            let ended = finish(init, &ground.trusted, &played).err().unwrap();
            ground.refused("one in the middle", suite, &format!("{ended:?}"), &[how]);
        }
        // A client that trusts the attacker's key completes the session: the signature keeps the attacker out, not a mistake of
        // the test.
        let (init, request) = init(offer(suite, &[]));
        let played = plays_the_service(&request, own_id, &own, None);
        assert!(
            init.finish(
                default_agreement_provider(),
                Some(&default_identity_library().public(own.public()).unwrap()),
                &played.body
            )
            .is_ok()
        );
    }
    drop(lane);
    assert_eq!(ground.end().attacks, 9);
}

#[test]
fn the_transcript_reveals_a_stripped_suite() {
    let ground = Ground::start(BINARY);
    lists_forged_for_a_client_that_falls_back(&mut ground.lane());
    assert_eq!(ground.end().attacks, 4);
}

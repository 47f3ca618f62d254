//! Wires 1 and 2, whose bodies are one sealed message, and what tells the wires apart.

use super::*;
use crate::session::{
    ClientInit, ClientSession as CompatClient, Family, InitCall, InitRandoms, SealBuffer, SealedMessage, TtlPolicy,
};

const BOUNDS: BodyBounds = BodyBounds { whole: 1_000_000, stream: 7_000_000 };

fn compat(wire: Wire, family: Family) -> (CompatClient, Arc<Session>) {
    let (anonymous, share) = (family == Family::Anonymous, provider().p256_generate().unwrap());
    let (init, request) = ClientInit::new(wire, anonymous, "web", None, share, &[1; 16], NOW_MS).unwrap();
    let (body, policy) = (request.body.as_bytes(), ReplayPolicy::default());
    let call = InitCall::parse(provider(), family, &request.headers, body, NOW_MS, &policy).unwrap();
    let fresh = Fresh::reserved(call.claim());
    let (call, ttl) = (call.release(fresh).unwrap(), TtlPolicy::default());
    let draw = |laps: Laps<'_>| InitRandoms::draw(provider(), laps);
    let (answer, session) = call.accept(provider(), &ttl, false, None, draw, NOW_MS, &mut |_| ()).unwrap();
    let client = init.finish(provider(), answer.encode().as_bytes(), NOW_MS, &mut |_| ()).unwrap();
    (client, Arc::new(session))
}

fn randoms() -> SealRandoms {
    SealRandoms::draw(provider()).unwrap()
}

#[test]
fn a_call_opens_as_a_whole_and_its_path_ends_before_the_query() {
    let policy = ReplayPolicy::default();
    for (wire, family, body_max) in [
        (Wire::V1, Family::Session, 1_000_000),
        (Wire::V1, Family::Anonymous, ANON_BODY_MAX as u64),
        (Wire::V2, Family::Session, 1_000_000),
    ] {
        let (client, server) = compat(wire, family);
        for (target, path) in [("/pay?a=1", "/pay"), ("/pay", "/pay"), ("?a=1", "/"), ("", "/")] {
            let plaintext = SealBuffer::from(&b"hello"[..]);
            let (message, pending) = client.seal(path, plaintext, NOW_MS, &randoms(), &mut |_| ()).unwrap();
            let SealedMessage { headers, body, .. } = message;
            let line = RequestLine { method: "POST", target };
            let exchange = Exchange::begin(&headers, line, NOW_MS, &policy, |served| {
                assert_eq!(served, wire);
                Ok(())
            });
            let (opening, mut stream) = exchange.unwrap().session(provider(), server.clone()).unwrap();
            assert!(opening.is_whole());
            assert_eq!(opening.body_max(BOUNDS), body_max);
            let (mut pieces, err) = read(&mut stream, &body, 3);
            assert_eq!((pieces.len(), err, stream.end(), stream.is_done()), (1, None, Ok(None), true));
            let first = pieces.pop().unwrap();
            assert_eq!(opening.fingerprint(provider(), &first), None);
            let shut = opening.open(provider(), first, &mut |_| ()).unwrap();
            let fresh = Fresh::reserved(shut.claim());
            let plain = shut.release(fresh).unwrap();
            assert_eq!((plain.first.as_slice(), plain.inner), (&b"hello"[..], None));
            #[cfg(feature = "one-shot")]
            assert!(plain.reply.problem_seal().is_none());
            assert_eq!(plain.reply.session_ended(Error::SessionExpired), Refusal::Unanswered(502));

            for (status, sent) in [(200, 200), (204, 200), (299, 200), (404, 404), (500, 500)] {
                let Ok(AnswerSeal::Whole(seal)) = plain.reply.answer(status, false) else { panic!("{status}") };
                assert_eq!(seal.status(), sent);
                let answer = seal.seal(SealBuffer::from(&b"done"[..]), NOW_MS, &randoms(), &mut |_| ()).unwrap();
                let open = |status| {
                    let body = answer.body.clone();
                    let opened = pending.open(&answer.headers, status, body, NOW_MS, &policy, &mut |_| ());
                    opened.map(|plaintext| plaintext.as_slice().to_vec())
                };
                assert_eq!(open(sent), Ok(b"done".to_vec()));
                // Wire 1 binds the status.
                assert_eq!(open(sent + 1).is_ok(), wire == Wire::V2);
            }
            for status in [400, 422] {
                let Ok(AnswerSeal::Plain(answer)) = plain.reply.answer(status, false) else { panic!("{status}") };
                assert_eq!(answer, ErrorAnswer::plain(400, "CRYPTO_ERROR"));
            }
            assert!(plain.reply.answer(304, false).is_err(), "there is nothing to seal");
        }
    }
}

#[test]
fn a_request_is_of_the_wire_that_its_headers_name() {
    let none: Vec<(&str, &str)> = Vec::new();
    let other = ("content-type", "x/y");
    assert!(!looks_sealed(&none) && !looks_sealed(&alloc::vec![other]));
    for name in [X_KID, X_IDEMPOTENCY_KEY, X_SEAL] {
        assert!(looks_sealed(&alloc::vec![other, (name, "")]), "{name}");
        assert!(looks_sealed(&alloc::vec![(name, "a"), (name, "b")]), "{name}, and twice");
    }
    assert_eq!(wire_of(&none), Wire::of(&none));
    for seal in ["3", "", "5", "04"] {
        assert_eq!(wire_of(&alloc::vec![(X_SEAL, seal)]), Wire::Native, "{seal}");
    }
    assert_eq!(wire_of(&alloc::vec![(X_SEAL, "4"), (X_SEAL, "4")]), Wire::Native, "a repeated header is invalid");
    #[cfg(feature = "one-shot")]
    assert_eq!(wire_of(&alloc::vec![(X_SEAL, "4")]), Wire::OneShot);
}

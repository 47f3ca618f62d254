//! Wire 3 by the value; wires 1 and 2, and all forms of errors, are played over HTTP by the crates around.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use alloc::string::String;
use alloc::vec::Vec;

use super::*;
use crate::limits::X_SEALED_LEN_MAX;
use crate::session::native::tests::{LINE, NOW_MS, agreed, headers, provider, stream};
use crate::session::native::{ClientSession, SealedCall as NativeSealed, Suite};
use crate::session::{Fresh, SealRandoms};
use crate::wire::header::X_SEALED;

mod compat;
mod forms;

type Message = (Vec<(String, String)>, Vec<u8>);

fn sent(client: &ClientSession, parts: &[&[u8]], stamp_ms: u64) -> Message {
    let NativeSealed { headers: list, sealer, .. } = client.seal(provider(), LINE, "x/y", stamp_ms, &[1; 16]).unwrap();
    (headers(&list, "x/y"), stream(sealer, &InnerHeaders::new(), parts))
}

fn begin(headers: &Vec<(String, String)>, now_ms: u64) -> Exchange<'_> {
    Exchange::begin(headers, LINE, now_ms, &ReplayPolicy::default(), |_| Ok(())).unwrap()
}

/// Reads a body in chunks of this length. Returns the pieces and the error that ended it.
fn read(stream: &mut Stream, body: &[u8], chunk: usize) -> (Vec<Piece>, Option<Error>) {
    let mut pieces = Vec::new();
    for mut input in body.chunks(chunk) {
        while !input.is_empty() {
            match stream.read(&mut input) {
                Ok(piece) => pieces.extend(piece),
                Err(err) => return (pieces, Some(err)),
            }
        }
    }
    match stream.end() {
        Ok(piece) => {
            pieces.extend(piece);
            (pieces, None)
        }
        Err(err) => (pieces, Some(err)),
    }
}

#[test]
fn the_last_piece_is_returned_only_at_the_end_of_the_body() {
    let (_, client, server) = agreed(Suite::P256);
    let (headers, body) = sent(&client, &[b"one", b"two"], NOW_MS);
    let open = || begin(&headers, NOW_MS).session(provider(), server.clone()).unwrap().1;
    for chunk in [1, 7, body.len()] {
        let mut stream = open();
        let (pieces, err) = read(&mut stream, &body, chunk);
        // The end may be reported again, and an empty chunk may come at any time.
        assert_eq!((stream.end(), stream.read(&mut &[][..]), stream.is_done()), (Ok(None), Ok(None), true));
        let lasts: Vec<_> = pieces.iter().map(|piece| piece.is_last).collect();
        assert_eq!((lasts, err), (alloc::vec![false, true], None));
        // One byte behind it, in the same chunk or in the next.
        let longer = [&body[..], b"x"].concat();
        let (pieces, err) = read(&mut open(), &longer, chunk);
        assert_eq!((pieces.len(), err), (1, Some(Error::FrameInvalid)), "{chunk}");
        let (pieces, err) = read(&mut open(), &body[..body.len() - 1], chunk);
        assert_eq!((pieces.len(), err), (1, Some(Error::StreamTruncated)), "{chunk}");
    }
}

#[test]
fn a_request_is_opened_and_answered_and_its_fingerprint_is_its_own() {
    let (_, client, server) = agreed(Suite::P256);
    let (headers, body) = sent(&client, &[b"hello"], NOW_MS);
    let (opening, mut stream) = begin(&headers, NOW_MS).session(provider(), server.clone()).unwrap();
    let bounds = BodyBounds { whole: 1, stream: 70_000 };
    assert_eq!((opening.is_whole(), opening.body_max(bounds)), (false, 70_000));
    let mut pieces = read(&mut stream, &body, 9).0;
    let first = pieces.pop().unwrap();
    let print = opening.fingerprint(provider(), &first);
    let other = Piece { bytes: b"\0\0hellp".to_vec(), is_last: true };
    assert!(print.is_some() && print != opening.fingerprint(provider(), &other));
    let part = Piece { bytes: first.bytes.clone(), is_last: false };
    assert_eq!(opening.fingerprint(provider(), &part), None, "a part is not all of the request");
    let shut = opening.open(provider(), first, &mut |_| ()).unwrap();
    let fresh = Fresh::reserved(shut.claim());
    let plain = shut.release(fresh).unwrap();
    assert_eq!((plain.first.as_slice(), plain.inner), (&b"hello"[..], Some(InnerHeaders::new())));
    #[cfg(feature = "one-shot")]
    assert!(plain.reply.problem_seal().is_none(), "wire 3 seals no problems");
    assert_eq!(plain.reply.session_ended(Error::SessionExpired), Error::SessionExpired.into());
    for (status, is_head, is_bodyless) in
        [(200, false, false), (200, true, true), (204, false, true), (205, false, true), (304, false, true)]
    {
        let Ok(AnswerSeal::Frames(seal)) = plain.reply.answer(status, is_head) else { panic!("wire 3 seals frames") };
        assert_eq!(seal.is_bodyless(), is_bodyless, "{status}");
    }
}

#[test]
fn an_answer_without_a_body_is_a_stream_in_a_header_of_up_to_8_kib() {
    let (_, client, server) = agreed(Suite::P256);
    let call = client.seal(provider(), LINE, "x/y", NOW_MS, &[1; 16]).unwrap();
    let (headers, body) = (headers(&call.headers, "x/y"), stream(call.sealer, &InnerHeaders::new(), &[b"hello"]));
    let (opening, mut stream) = begin(&headers, NOW_MS).session(provider(), server).unwrap();
    let first = read(&mut stream, &body, 9).0.pop().unwrap();
    let shut = opening.open(provider(), first, &mut |_| ()).unwrap();
    let fresh = Fresh::reserved(shut.claim());
    let plain = shut.release(fresh).unwrap();
    let Ok(AnswerSeal::Frames(seal)) = plain.reply.answer(204, false) else { panic!("wire 3 seals frames") };
    let answer = |value_len: usize| {
        let mut inner = InnerHeaders::new();
        inner.push("x-inner", &alloc::vec![b'x'; value_len]).unwrap();
        let (mut headers, sealer) = seal.begin(provider(), NOW_MS, &SealRandoms::draw(provider()).unwrap()).unwrap();
        headers.push((X_SEALED, FrameSeal::in_header(sealer, &inner)?));
        Ok::<_, Error>((headers, inner))
    };
    let inner_len = |value_len: usize| {
        let mut encoded = Vec::new();
        answer(value_len).unwrap().1.encode(&mut encoded);
        encoded.len()
    };
    // 6144 bytes are 8192 characters: the commitment, the head of a frame, the headers, the tag.
    let longest = 6144 - 16 - 4 - 16 - inner_len(0);
    for value_len in [0, 10, longest] {
        let (headers, inner) = answer(value_len).unwrap();
        let (sealed, mut opener) = call.pending.open(provider(), &headers, 204).unwrap();
        let (sealed, mut frame) = (sealed.unwrap(), Vec::new());
        assert_eq!(opener.read(&mut &sealed[..], &mut frame), Ok(native::Read::Last));
        assert_eq!(InnerHeaders::parse(&frame), Ok((inner, frame.len())));
    }
    assert_eq!(answer(longest).map(|(headers, _)| headers[3].1.len()), Ok(X_SEALED_LEN_MAX));
    assert_eq!(answer(longest + 1).map(drop), Err(Error::InnerHeadersInvalid));
}

#[test]
fn only_a_stale_stamp_of_wire_3_is_answered_with_a_proof_of_the_time_when_it_is_not_admitted() {
    let (_, client, server) = agreed(Suite::P256);
    let (headers, _) = sent(&client, &[b"x"], NOW_MS);
    let rejection = |headers: &Vec<(String, String)>, refusal: &Refusal| {
        unadmitted(provider(), &server, headers, LINE, NOW_MS, refusal.clone())
    };
    let members = |headers: &_, refusal: &_| {
        let answer = rejection(headers, refusal).answer(Form::Problem);
        let problem = native::Problem::parse(answer.status, answer.body.as_bytes()).unwrap();
        problem.more.keys().cloned().collect::<Vec<_>>()
    };
    let stale = Refusal::Wire(Error::TimestampOutsideWindow);
    assert_eq!(members(&headers, &stale), ["mac", "server_time_ms"]);
    for refusal in [Refusal::Wire(Error::Replayed), Refusal::Forbidden, Refusal::NoncesFull] {
        assert_eq!(rejection(&headers, &refusal), refusal.into());
    }
    let of_wire_2: Vec<_> = headers.into_iter().filter(|(name, _)| name != X_SEAL).collect();
    assert_eq!(rejection(&of_wire_2, &stale), stale.into());
}

#[test]
fn checks_before_the_body_are_repeated_at_the_claim() {
    let (_, client, server) = agreed(Suite::P256);
    let wide = ReplayPolicy::new(86_400_000, 0);
    let (headers, body) = sent(&client, &[b"x"], NOW_MS);
    let exchange = Exchange::begin(&headers, LINE, NOW_MS, &wide, |_| Ok(())).unwrap();
    let (opening, mut stream) = exchange.session(provider(), server.clone()).unwrap();
    let first = read(&mut stream, &body, 99).0.pop().unwrap();
    let shut = opening.open(provider(), first, &mut |_| ()).unwrap();
    let admit = |found: Option<&Session>, now_ms| readmit(found, shut.claim(), now_ms, &wide).map(drop);
    assert_eq!(admit(None, NOW_MS), Err(Error::SessionUnknown));
    assert_eq!(admit(Some(&server), server.record().expires_ms), Err(Error::SessionExpired));
    assert_eq!(admit(Some(&server), NOW_MS), Ok(()));
    let mut record = server.record().clone();
    record.expires_ms = u64::MAX;
    let endless = Session::new(provider(), record).unwrap();
    // The window of wire 3 is five minutes at most, whatever the policy says.
    assert_eq!(admit(Some(&endless), NOW_MS + WINDOW3_MS_MAX), Ok(()));
    assert_eq!(admit(Some(&endless), NOW_MS + WINDOW3_MS_MAX + 1), Err(Error::TimestampOutsideWindow));
}

#[test]
fn a_stamp_that_is_off_is_refused_with_a_proof_of_the_time() {
    let (_, client, server) = agreed(Suite::P256);
    let (headers, _) = sent(&client, &[b"x"], NOW_MS - WINDOW3_MS_MAX - 1);
    let rejection = begin(&headers, NOW_MS).session(provider(), server).map(drop).unwrap_err();
    let answer = rejection.answer(Form::Problem);
    assert_eq!(answer.status, 400);
    assert!(
        answer.body.contains("clock_skew") && answer.body.contains("mac") && answer.body.contains("server_time_ms")
    );
    assert!(!rejection.answer(Form::Plain).body.contains("mac"), "the other forms have no members");
}

#[test]
fn a_wire_that_is_not_served_and_a_method_that_may_not_be_are_refused_first() {
    let headers: Vec<(String, String)> = Vec::new();
    let begin = |method, served| {
        let line = RequestLine { method, target: "/" };
        let served = |wire| if served { Ok(()) } else { Err(Refusal::WireOff(wire)) };
        Exchange::begin(&headers, line, NOW_MS, &ReplayPolicy::default(), served).map(drop)
    };
    assert_eq!(begin("GET", false), Err(Refusal::WireOff(Wire::V2)));
    assert_eq!(begin("POST", false), Err(Refusal::WireOff(Wire::V2)));
    assert_eq!(begin("GET", true), Err(Refusal::Method("POST, OPTIONS")));
    assert_eq!(begin("POST", true), Err(Error::HeaderMissing(X_KID).into()));
    let allow = Rejection::from(Refusal::Method("POST")).answer(Form::Plain).headers;
    assert!(allow.contains(&("allow", "POST".into())));
    let wait = Rejection::from(Refusal::RateLimited(7)).answer(Form::Problem).headers;
    assert!(wait.contains(&("retry-after", "7".into())));
}

//! Bounds of messages and frames, each at its last value that is accepted and its first that is not.

use super::*;
use crate::limits::{FRAME_LEN_MAX, INIT_V3_BODY_MAX, PATH_LEN_MAX, X_SEALED_LEN_MAX};
use crate::wire::header::{X_SEAL, X_SEALED};

/// Appends spaces to a JSON text, up to this length.
fn padded(text: &str, len: usize) -> Vec<u8> {
    let mut text = text.as_bytes().to_vec();
    text.resize(len, b' ');
    text
}

fn sealer(client: &ClientSession) -> FrameSealer {
    client.seal(provider(), LINE, "", NOW_MS, &[1; 16]).unwrap().sealer
}

/// Seals a frame of this length. Returns the result, and the length of what is written.
fn frame(sealer: &mut FrameSealer, len: usize, is_last: bool) -> (Result<(), Error>, usize) {
    let mut out = Vec::new();
    let begun = sealer.begin(&mut out);
    out.resize(out.len() + len, b'x');
    (sealer.seal(&mut out, begun, is_last), out.len())
}

#[test]
fn a_body_is_read_up_to_its_longest_length() {
    let service = Service::new(&Suite::ALL);
    let init = init(Suite::P256, &[Suite::P256], None);
    let request = |len| InitRequest::parse(&padded(&init.body(), len)).map(drop);
    assert_eq!((request(INIT_V3_BODY_MAX), request(INIT_V3_BODY_MAX + 1)), (Ok(()), Err(Error::BodyTooLarge)));
    let (body, _) = service.answer(&init.body(), None).unwrap();
    let answer = |len| InitAnswer::parse(&padded(&body, len)).map(drop);
    assert_eq!((answer(INIT_V3_BODY_MAX), answer(INIT_V3_BODY_MAX + 1)), (Ok(()), Err(Error::AnswerMismatch)));
    let problem = |len| Problem::parse(409, &padded(&Problem::new("replayed").encode(), len));
    assert_eq!(problem(problem::PROBLEM_LEN_MAX), Some(Problem::new("replayed")));
    assert_eq!(problem(problem::PROBLEM_LEN_MAX + 1), None);
}

#[test]
fn a_problem_has_the_title_of_its_code() {
    for (code, status, title) in problem::PROBLEMS {
        let object: serde_json::Value = serde_json::from_str(&Problem::new(code).encode()).unwrap();
        let urn = alloc::format!("urn:sealway:problem:{code}");
        assert_eq!(object, serde_json::json!({ "type": urn, "title": title, "status": status, "code": code }));
    }
}

#[test]
fn headers_of_a_request_are_read_up_to_their_longest_length() {
    let (_, client, _) = agreed(Suite::P256);
    let sealed = client.seal(provider(), LINE, "", NOW_MS, &[1; 16]).unwrap();
    let target = |len| {
        let target = "/".repeat(len);
        let line = RequestLine { method: "PUT", target: &target };
        SealedRequest::parse(&sealed.headers, line).map(drop)
    };
    assert_eq!((target(PATH_LEN_MAX), target(PATH_LEN_MAX + 1)), (Ok(()), Err(Error::HeaderInvalid(":path"))));
    let in_header = |len| {
        let mut headers = sealed.headers.clone();
        headers.push((X_SEALED, "A".repeat(len)));
        SealedRequest::parse(&headers, LINE).map(|mut request| request.take_sealed().map(|stream| stream.len()))
    };
    assert_eq!(in_header(X_SEALED_LEN_MAX), Ok(Some(X_SEALED_LEN_MAX / 4 * 3)));
    assert_eq!(in_header(X_SEALED_LEN_MAX + 4), Err(Error::HeaderInvalid(X_SEALED)));
}

#[test]
fn a_frame_that_is_empty_too_long_or_behind_the_last_is_not_sealed() {
    let (_, client, _) = agreed(Suite::P256);
    let refused = (Err(Error::FrameInvalid), 0);
    let mut first = sealer(&client);
    assert_eq!(frame(&mut first, 0, false), refused);
    assert_eq!(frame(&mut first, FRAME_LEN_MAX + 1, false), refused);
    assert_eq!(frame(&mut first, FRAME_LEN_MAX + 1, true), refused);
    // What was not sealed takes no number: the stream begins with its commitment.
    assert_eq!(frame(&mut first, FRAME_LEN_MAX, false), (Ok(()), 16 + 4 + FRAME_LEN_MAX + 16));
    assert_eq!(frame(&mut first, 1, false), (Ok(()), 4 + 1 + 16));
    assert_eq!(frame(&mut first, 0, true), (Ok(()), 4 + 16));
    for is_last in [false, true] {
        assert_eq!(frame(&mut first, 1, is_last), refused, "the stream has ended");
    }
}

#[test]
fn the_length_of_a_stream_is_known_before_it_is_sealed() {
    let (_, client, _) = agreed(Suite::P256);
    for len in [0, 1, FRAME_LEN_MAX - 1, FRAME_LEN_MAX, FRAME_LEN_MAX + 1, 2 * FRAME_LEN_MAX, 2 * FRAME_LEN_MAX + 1] {
        let (mut sealer, mut sum, mut rest) = (sealer(&client), 0, len);
        loop {
            let part = rest.min(FRAME_LEN_MAX);
            rest -= part;
            let (sealed, written) = frame(&mut sealer, part, rest == 0);
            assert_eq!(sealed, Ok(()));
            sum += written as u64;
            if rest == 0 {
                break;
            }
        }
        assert_eq!(FrameSealer::stream_len(len as u64), sum, "{len}");
    }
}

#[test]
fn the_buffer_of_a_first_frame_grows_in_steps_and_only_when_it_is_full() {
    let (_, client, server) = agreed(Suite::P256);
    let sealed = client.seal(provider(), LINE, "x/y", NOW_MS, &[1; 16]).unwrap();
    let body = stream(sealed.sealer, &InnerHeaders::new(), &[&[b'x'; 60_000]]);
    let sent = headers(&sealed.headers, "x/y");
    let request = SealedRequest::parse(&sent, LINE).unwrap();
    let open = || request.open(provider(), server.clone(), NOW_MS, &ReplayPolicy::default()).unwrap().0;
    let (mut opener, mut frame, mut growths) = (open(), Vec::new(), 0);
    for mut piece in body.chunks(100) {
        let before = frame.capacity();
        opener.read(&mut piece, &mut frame).unwrap();
        growths += usize::from(frame.capacity() != before);
    }
    assert!(frame.len() == 60_002 && growths <= 15, "{growths}");
    // A piece that just fits leaves the buffer as it is.
    let (mut opener, mut frame) = (open(), Vec::new());
    let (mut first, mut second) = body[..16 + 4 + 100 + 4096].split_at(16 + 4 + 100);
    opener.read(&mut first, &mut frame).unwrap();
    assert_eq!((frame.len(), frame.capacity()), (100, 100 + 4096));
    opener.read(&mut second, &mut frame).unwrap();
    assert_eq!((frame.len(), frame.capacity()), (100 + 4096, 100 + 4096));
}

#[test]
fn a_client_knows_the_id_that_it_claims_and_the_hash_that_its_proof_binds() {
    let mut init = init(Suite::P256, &[Suite::P256], None);
    let hash = init.init_hash(provider());
    let sent = |init: &ClientInit| InitRequest::parse(init.body().as_bytes()).unwrap().init_hash(provider());
    assert_eq!(hash, sent(&init), "a server computes the same from what it receives");
    init.set_proof("a.b.c");
    assert_eq!((init.init_hash(provider()), sent(&init)), (hash, hash), "the proof is no part of it");
    let (_, client, _) = agreed(Suite::P256);
    assert_eq!(client.client_id(), "web");
}

#[cfg(feature = "one-shot")]
#[test]
fn a_one_shot_request_opens_under_keys_of_its_own_id_and_wire_alone() {
    let (_, client, server) = agreed(Suite::P256);
    let mut record = server.record().clone();
    record.id = SessionId::from_random(&[3; 16], false);
    let other = Arc::new(Session::new(provider(), record).unwrap());
    let mut sealed = client.seal(provider(), LINE, "", NOW_MS, &[1; 16]).unwrap().headers;
    let open = |headers: &SealHeaders, session: &Arc<Session>| {
        let request = SealedRequest::parse(headers, LINE).unwrap();
        let id = request.session_id().map(|id| id == session.id());
        let opened = request.open_one_shot(provider(), session.clone(), |_| panic!("there is nothing to claim"));
        (id, opened.map(drop))
    };
    assert_eq!(open(&sealed, &other), (Ok(false), Err(Error::WireMismatch)), "another id, the same wire");
    sealed.iter_mut().filter(|(name, _)| *name == X_SEAL).for_each(|(_, value)| *value = "4".into());
    let kid = sealed.iter_mut().find(|(name, _)| *name == "x-kid").unwrap();
    kid.1 = alloc::format!("hpke:{}", "0".repeat(32));
    assert_eq!(open(&sealed, &server), (Ok(false), Err(Error::WireMismatch)));
}

//! Both ends together; other tests compare the bytes of each with `vectors/native`.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::*;
use crate::Error;
use crate::crypto::agreement::{AgreementProvider, default_agreement_provider};
use crate::crypto::identity::{IdentityPair, SignatureAlgorithm, default_identity_library};
use crate::session::{Auth, Fresh, Session, SessionKey};
use crate::wire::{ReplayPolicy, SessionId};

mod algorithms;
mod bounds;

pub(crate) const NOW_MS: u64 = 1_800_000_000_000;

pub(crate) fn provider() -> &'static dyn AgreementProvider {
    default_agreement_provider()
}

pub(crate) struct Service {
    key: IdentityPair,
    suites: Vec<Suite>,
}

impl Service {
    fn new(suites: &[Suite]) -> Self {
        Service {
            key: default_identity_library().generate(SignatureAlgorithm::Es256).unwrap().1,
            suites: suites.to_vec(),
        }
    }

    fn key_id(&self) -> KeyId {
        KeyId::of(provider(), self.key.public())
    }

    fn answer(&self, body: &str, old: Option<&Session>) -> Result<(String, Session), Error> {
        let request = InitRequest::parse(body.as_bytes())?;
        let terms = Terms {
            suites: self.suites.clone(),
            expires_in_sec: 60,
            key_id: self.key_id(),
            key_ids: alloc::vec![self.key_id()],
            auth: Auth::Bearer,
            subject: Some("alice".into()),
            tenant: None,
            credential: Some(&[7; 32]),
        };
        let agreed = agree(provider(), &request, terms, old, &[9; 16], ServerRandoms::Draw, NOW_MS, &mut |_| ())?;
        let signature = self.key.sign(&agreed.message())?;
        agreed.signed(provider(), signature)
    }
}

fn init(suite: Suite, suites: &[Suite], old: Option<&ClientSession>) -> ClientInit {
    let offer = ClientOffer {
        suites: suites.to_vec(),
        client_id: "web".into(),
        ttl_sec: Some(60),
        pinned_key_ids: Vec::new(),
        signature_algorithms: Vec::new(),
        credential: Some([7; 32]),
    };
    ClientInit::new(offer, ShareKey::generate(provider(), suite).unwrap(), old).unwrap()
}

pub(crate) fn agreed(suite: Suite) -> (Service, ClientSession, Arc<Session>) {
    let service = Service::new(&Suite::ALL);
    let init = init(suite, &[suite], None);
    let (body, session) = service.answer(&init.body(), None).unwrap();
    let key = default_identity_library().public(service.key.public()).unwrap();
    let client = init.finish(provider(), Some(&key), body.as_bytes()).unwrap();
    (service, client, Arc::new(session))
}

/// Seals the frames of a message, inner headers first.
pub(crate) fn stream(mut sealer: FrameSealer, headers: &InnerHeaders, parts: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let begun = sealer.begin(&mut out);
        if index == 0 {
            headers.encode(&mut out);
        }
        out.extend_from_slice(part);
        sealer.seal(&mut out, begun, index + 1 == parts.len()).unwrap();
    }
    out
}

/// Opens a stream that arrives in pieces of this length, and returns its plaintext.
fn opened(mut opener: FrameOpener, stream: &[u8], piece: usize) -> Result<Vec<Vec<u8>>, Error> {
    let (mut frames, mut frame) = (Vec::new(), Vec::new());
    for mut input in stream.chunks(piece) {
        while !input.is_empty() {
            if opener.read(&mut input, &mut frame)? != Read::More {
                frames.push(core::mem::take(&mut frame));
            }
        }
    }
    opener.end().map(|()| frames)
}

pub(crate) const LINE: RequestLine<'_> = RequestLine { method: "PUT", target: "/a?b=c" };

pub(crate) fn headers(list: &[(&'static str, String)], content_type: &str) -> Vec<(String, String)> {
    let content_type = ("Content-Type".to_string(), content_type.to_string());
    list.iter().map(|(name, value)| (name.to_string(), value.clone())).chain([content_type]).collect()
}

#[test]
fn every_suite_agrees_a_session_whose_requests_and_answers_open_at_the_other_end_alone() {
    for suite in Suite::ALL {
        let (_, client, server) = agreed(suite);
        assert_eq!(client.recognised(), (Auth::Bearer, Some("alice"), None));
        let SealedCall { headers: list, sealer, pending } =
            client.seal(provider(), LINE, "application/octet-stream", NOW_MS, &[1; 16]).unwrap();
        let mut inner = InnerHeaders::new();
        inner.push("content-type", b"text/plain").unwrap();
        let body = stream(sealer, &inner, &[b"one", &[b'x'; 65536], b""]);
        let sent = headers(&list, "application/octet-stream");
        let request = SealedRequest::parse(&sent, LINE).unwrap();
        let policy = ReplayPolicy::default();
        for piece in [1, 7, 70_000, 1_000_000] {
            let (opener, opening) = request.open(provider(), server.clone(), NOW_MS, &policy).unwrap();
            let mut frames = opened(opener, &body, piece).unwrap();
            assert_eq!((frames.len(), frames[1].len(), frames[2].len()), (3, 65536, 0));
            let first = opening.first(frames.swap_remove(0)).unwrap();
            let fresh = Fresh::reserved(first.claim());
            let first = first.release(fresh).unwrap();
            assert_eq!(first.headers, inner);
            assert_eq!(&first.first.0[first.first.1..], b"one");
            let (list, sealer) = first.reply.seal(provider(), 201, "x/y", NOW_MS, &[2; 16]).unwrap();
            let answer = stream(sealer, &InnerHeaders::new(), &[b"done"]);
            let received = headers(&list, "x/y");
            let (none, opener) = pending.open(provider(), &received, 201).unwrap();
            assert_eq!((none, opened(opener, &answer, piece).unwrap()), (None, alloc::vec![b"\0\0done".to_vec()]));
            let (_, other_status) = pending.open(provider(), &received, 200).unwrap();
            assert_eq!(opened(other_status, &answer, piece), Err(Error::Unsealable));
        }
        let elsewhere = SealedRequest::parse(&sent, RequestLine { method: "PUT", target: "/a" }).unwrap();
        let (opener, _) = elsewhere.open(provider(), server, NOW_MS, &policy).unwrap();
        assert_eq!(opened(opener, &body, 7), Err(Error::Unsealable));
    }
}

#[test]
fn the_head_of_a_first_frame_takes_little_memory() {
    let (_, client, server) = agreed(Suite::P256);
    let sealed = client.seal(provider(), LINE, "x/y", NOW_MS, &[1; 16]).unwrap();
    let body = stream(sealed.sealer, &InnerHeaders::new(), &[&[b'x'; 60_000], &[b'y'; 60_000]]);
    let sent = headers(&sealed.headers, "x/y");
    let request = SealedRequest::parse(&sent, LINE).unwrap();
    let (mut opener, _) = request.open(provider(), server, NOW_MS, &ReplayPolicy::default()).unwrap();
    let (mut frame, mut arrived) = (Vec::new(), 0);
    for mut piece in body.chunks(100) {
        arrived += piece.len();
        if opener.read(&mut piece, &mut frame).unwrap() != Read::More {
            break;
        }
        assert!(frame.capacity() <= arrived + 4096, "{arrived}: {}", frame.capacity());
    }
    assert_eq!(frame.len(), 60_002);
}

#[test]
fn an_opened_request_does_not_print_what_it_holds() {
    let (_, client, server) = agreed(Suite::P256);
    let sealed = client.seal(provider(), LINE, "x/y", NOW_MS, &[1; 16]).unwrap();
    let body = stream(sealed.sealer, &InnerHeaders::new(), &[b"secret"]);
    let sent = headers(&sealed.headers, "x/y");
    let request = SealedRequest::parse(&sent, LINE).unwrap();
    let (opener, opening) = request.open(provider(), server, NOW_MS, &ReplayPolicy::default()).unwrap();
    let guarded = opening.first(opened(opener, &body, 9).unwrap().swap_remove(0)).unwrap();
    let fresh = Fresh::reserved(guarded.claim());
    let printed = alloc::format!("{:?}", guarded.release(fresh).unwrap());
    assert!(printed.starts_with("OpenedRequest(8 bytes of a first frame, 2 of them headers"), "{printed}");
}

#[test]
fn a_renewed_session_needs_the_old_one_and_is_bound_to_it() {
    let (service, client, server) = agreed(Suite::P256);
    let renewal = || init(Suite::X25519MlKem768, &Suite::ALL, Some(&client));
    let key = default_identity_library().public(service.key.public()).unwrap();
    let (first, second) = (renewal(), renewal());
    let (body, _) = service.answer(&first.body(), Some(&server)).unwrap();
    assert!(first.finish(provider(), Some(&key), body.as_bytes()).is_ok());
    // A server that does not hold the old session signs another transcript.
    let (body, _) = service.answer(&second.body(), None).unwrap();
    assert_eq!(second.finish(provider(), Some(&key), body.as_bytes()).err(), Some(Error::SignatureInvalid));
}

#[test]
fn a_share_of_another_suite_than_both_lists_give_is_refused_at_either_end() {
    let service = Service::new(&Suite::ALL);
    let weak = init(Suite::P256, &Suite::ALL, None);
    assert_eq!(service.answer(&weak.body(), None).err(), Some(Error::SuiteRequired));
    // An attacker strips the lists so that they give the weak suite.
    let stripped = weak.body().replace("\"X25519MLKEM768\",\"SecP256r1MLKEM768\",", "");
    let key = default_identity_library().public(service.key.public()).unwrap();
    let (body, _) = service.answer(&stripped, None).unwrap();
    assert_eq!(weak.finish(provider(), Some(&key), body.as_bytes()).err(), Some(Error::SuiteDowngraded));
    let weak = init(Suite::P256, &Suite::ALL, None);
    let narrow = Service { suites: alloc::vec![Suite::P256], key: service.key };
    let (body, _) = narrow.answer(&stripped, None).unwrap();
    assert_eq!(weak.finish(provider(), Some(&key), body.as_bytes()).err(), Some(Error::SignatureInvalid));
}

#[test]
fn a_stream_cut_at_any_place_or_with_any_frame_left_out_is_refused() {
    let (_, client, server) = agreed(Suite::P256);
    let SealedCall { headers: list, sealer, .. } = client.seal(provider(), LINE, "", NOW_MS, &[1; 16]).unwrap();
    let body = stream(sealer, &InnerHeaders::new(), &[b"one", b"two", b"three"]);
    let sent: Vec<(&str, String)> = list.iter().map(|(name, value)| (*name, value.clone())).collect();
    let request = SealedRequest::parse(&sent, LINE).unwrap();
    let open = |stream: &[u8]| {
        let (opener, _) = request.open(provider(), server.clone(), NOW_MS, &ReplayPolicy::default()).unwrap();
        opened(opener, stream, 5)
    };
    assert!(open(&body).is_ok());
    for len in 0..body.len() {
        assert_eq!(open(&body[..len]), Err(Error::StreamTruncated), "{len} bytes");
    }
    assert_eq!(open(&[&body[..], &[0]].concat()), Err(Error::FrameInvalid));
    let ends = [16, 16 + 4 + 5 + 16, 16 + 2 * 20 + 5 + 3, body.len()];
    let frame = |n: usize| &body[ends[n]..ends[n + 1]];
    assert_eq!(open(&[&body[..16], frame(1), frame(2)].concat()), Err(Error::Unsealable));
    assert_eq!(open(&[&body[..16], frame(0), frame(2)].concat()), Err(Error::Unsealable));
    assert_eq!(open(&[&body[..16], frame(0), frame(0), frame(2)].concat()), Err(Error::Unsealable));
    for bit in 0..body.len() * 8 {
        let mut changed = body.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(open(&changed).is_err(), "bit {bit}");
    }
}

#[test]
fn an_inspector_opens_with_the_secret_what_both_ends_send_and_with_another_nothing() {
    let (_, client, server) = agreed(Suite::P256);
    let SealedCall { headers: list, sealer, .. } = client.seal(provider(), LINE, "", NOW_MS, &[1; 16]).unwrap();
    let body = stream(sealer, &InnerHeaders::new(), &[b"one", b"two"]);
    let sent = headers(&list, "");
    let request = SealedRequest::parse(&sent, LINE).unwrap();
    let nonce = request.stamp_and_nonce().1;
    let (opener, opening) = request.open(provider(), server, NOW_MS, &ReplayPolicy::default()).unwrap();
    let first = opening.first(opened(opener, &body, 9).unwrap().swap_remove(0)).unwrap();
    let fresh = Fresh::reserved(first.claim());
    let (list, sealer) = first.release(fresh).unwrap().reply.seal(provider(), 200, "", NOW_MS, &[2; 16]).unwrap();
    let answer = stream(sealer, &InnerHeaders::new(), &[b"done"]);
    let received = headers(&list, "");

    let look = |inspector: &Inspector| {
        let opener = inspector.request(provider(), &request)?;
        let answered = inspector.answer(provider(), (LINE, nonce), &received, 200)?.1;
        Ok((opened(opener, &body, 9), opened(answered, &answer, 9)))
    };
    let right = Inspector::new(provider(), client.id(), client.expose_secret());
    let frames = (Ok(alloc::vec![b"\0\0one".to_vec(), b"two".to_vec()]), Ok(alloc::vec![b"\0\0done".to_vec()]));
    assert_eq!(look(&right), Ok(frames));
    let wrong = Inspector::new(provider(), client.id(), &SessionKey::from_bytes([5; 32]));
    assert_eq!(look(&wrong), Ok((Err(Error::Unsealable), Err(Error::Unsealable))));
    let (_, other, _) = agreed(Suite::P256);
    let another = SessionId::from_random(&[3; 16], false);
    assert_eq!(look(&Inspector::new(provider(), &another, other.expose_secret())), Err(Error::SessionUnknown));
}

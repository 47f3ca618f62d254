//! Wire 4 between both sides of this crate: every KEM and mode, every cut, every flipped byte, every changed header.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

#[path = "../providers/mod.rs"]
mod providers;
mod vectors;

use std::sync::Arc;

use providers::{provider, with_each};
use sealway_proto::Error;
use sealway_proto::exchange::{
    AnswerSeal, BodyBounds, ErrorAnswer, Exchange, Piece, PlainRequest, Refusal, Rejection, Stream, unadmitted,
};
use sealway_proto::hpke::{Aead, Kem, PrivateKey};
use sealway_proto::limits::X_SEALED_LEN_MAX;
use sealway_proto::one_shot::{ClientPsk, KeyConfig, OneShotCall, Prefix, RecipientKey, seal};
use sealway_proto::session::native::{FrameOpener, FrameSealer, InnerHeaders, Read, RequestLine};
use sealway_proto::session::{Auth, Fresh, NonceGuard, SealRandoms};
use sealway_proto::wire::ReplayPolicy;

const NOW_MS: u64 = 1_790_000_000_123;
const LINE: RequestLine<'static> = RequestLine { method: "POST", target: "/pay?a=1" };
const TYPE: &str = "application/octet-stream";
const NONCE: &str = "0123456789abcdef";
const PSK: [u8; 32] = [9; 32];
const KEMS: [Kem; 4] = [Kem::P256, Kem::X25519, Kem::MlKem768P256, Kem::XWing];

type Headers = Vec<(String, String)>;
type Opening = (NonceGuard<PlainRequest>, Vec<u8>, Option<Error>);

struct Key {
    private: PrivateKey,
    config: KeyConfig,
    hash: [u8; 32],
    not_after_ms: u64,
}

impl RecipientKey for Key {
    fn private(&self) -> &PrivateKey {
        &self.private
    }

    fn hash(&self) -> &[u8; 32] {
        &self.hash
    }

    fn not_after_ms(&self) -> u64 {
        self.not_after_ms
    }
}

fn key(kem: Kem, seed: u8) -> Arc<Key> {
    let private = PrivateKey::derive(provider(), kem, &[seed; 32]).unwrap().1;
    let config = KeyConfig::new(1, private.public_key().clone(), &[Aead::Aes256Gcm]).unwrap();
    let hash = config.hash(provider());
    Arc::new(Key { private, config, hash, not_after_ms: NOW_MS + 1000 })
}

#[test]
fn other_suites_of_a_key_leave_the_scope_of_its_claims_in_oblivious_http() {
    let key = key(Kem::X25519, 1);
    let scope = key.config.key_hash(provider());
    let with = |key_id, aeads: &[Aead]| KeyConfig::new(key_id, key.config.public_key().clone(), aeads).unwrap();
    let edited = with(1, &[Aead::Aes128Gcm, Aead::Aes256Gcm]);
    assert_ne!(edited.hash(provider()), key.hash);
    assert_eq!(edited.key_hash(provider()), scope);
    assert_ne!(with(2, &[Aead::Aes256Gcm]).key_hash(provider()), scope);
}

fn sealed_at(
    key: &Key,
    psk: Option<ClientPsk<'_>>,
    frames: &[&[u8]],
    stamp_ms: u64,
) -> (Headers, Vec<u8>, OneShotCall) {
    let stamp = stamp_ms.to_string();
    let mut call = seal(provider(), &key.config, psk, LINE, TYPE, (&stamp, NONCE), None).unwrap();
    let mut headers: Headers = call.headers.iter().map(|(name, value)| ((*name).into(), value.clone())).collect();
    headers.push(("content-type".into(), TYPE.into()));
    let mut inner = InnerHeaders::new();
    inner.push("x-inner", b"1").unwrap();
    let mut body = call.prefix.clone();
    write(&mut call.sealer, &inner, frames, &mut body);
    (headers, body, call)
}

fn sealed(key: &Key, psk: Option<ClientPsk<'_>>, frames: &[&[u8]]) -> (Headers, Vec<u8>, OneShotCall) {
    sealed_at(key, psk, frames, NOW_MS)
}

fn write(sealer: &mut FrameSealer, inner: &InnerHeaders, frames: &[&[u8]], out: &mut Vec<u8>) {
    for (at, frame) in frames.iter().enumerate() {
        let begun = sealer.begin(out);
        if at == 0 {
            inner.encode(out);
        }
        out.extend_from_slice(frame);
        sealer.seal(out, begun, at + 1 == frames.len()).unwrap();
    }
}

/// Opens a request as a server does, in chunks of this length. Returns the opened request and the plaintext behind the first frame,
/// with the error that ended it.
fn open(
    key: &Arc<Key>,
    psk: [u8; 32],
    line: RequestLine<'_>,
    (headers, body): (&Headers, &[u8]),
    chunk: usize,
) -> Result<Opening, Rejection> {
    let exchange = Exchange::begin(headers, line, NOW_MS, &ReplayPolicy::default(), |_| Ok(()))?;
    if exchange.key_name() != Some(key.config.name(provider()).as_str()) {
        return Err(Error::KeyRetired.into());
    }
    let (opening, mut stream) = exchange.key(key.clone())?;
    let sealed = stream.take_header();
    let mut input = Input { bytes: sealed.as_deref().unwrap_or(body), chunk };
    let prefix = loop {
        match stream.take_prefix() {
            Some(prefix) => break prefix,
            None if input.bytes.is_empty() => return Err(Error::StreamTruncated.into()),
            None => assert!(input.read(&mut stream)?.is_none()),
        }
    };
    let psk = prefix.psk_id.as_ref().map(|_| psk);
    let opening = opening.open(provider(), &prefix, psk.as_ref(), &mut stream, NOW_MS)?;
    let first = loop {
        if let Some(piece) = if input.bytes.is_empty() { stream.end()? } else { input.read(&mut stream)? } {
            break piece;
        }
    };
    let opened = opening.open(provider(), first, &mut |_| ())?;
    let mut rest = Vec::new();
    while !stream.is_done() {
        let piece = if input.bytes.is_empty() { stream.end() } else { input.read(&mut stream) };
        match piece {
            Ok(piece) => rest.extend(piece.into_iter().flat_map(|piece| piece.bytes)),
            Err(err) => return Ok((opened, rest, Some(err))),
        }
    }
    Ok((opened, rest, None))
}

struct Input<'a> {
    bytes: &'a [u8],
    chunk: usize,
}

impl Input<'_> {
    fn read(&mut self, stream: &mut Stream) -> Result<Option<Piece>, Error> {
        let mut input = &self.bytes[..self.chunk.min(self.bytes.len())];
        let len = input.len();
        let read = stream.read(&mut input);
        self.bytes = &self.bytes[len - input.len()..];
        read
    }
}

fn release(opened: NonceGuard<PlainRequest>) -> PlainRequest {
    let fresh = Fresh::reserved(opened.claim());
    opened.release(fresh).unwrap()
}

fn preshared() -> Option<ClientPsk<'static>> {
    Some(ClientPsk { id: "partner-7", key: &PSK })
}

#[test]
fn every_kem_and_mode_opens_and_its_answer_too() {
    with_each(|name| {
        for kem in KEMS {
            for psk in [None, preshared()] {
                let key = key(kem, 1);
                let (headers, body, call) = sealed(&key, psk, &[b"one", b"two", b""]);
                assert_eq!(headers[1], ("x-kid".into(), key.config.kid(provider())));
                for chunk in [1, 100, body.len()] {
                    let (opened, rest, err) = open(&key, PSK, LINE, (&headers, &body), chunk).unwrap();
                    assert_eq!((rest.as_slice(), err), (&b"two"[..], None), "{name} {kem:?}");
                    assert_eq!(opened.claim().is_sealed(), psk.is_some());
                    let plain = release(opened);
                    assert_eq!(plain.first.as_slice(), b"one");
                    assert_eq!(plain.inner.as_ref().unwrap().get("x-inner"), Some(&b"1"[..]));
                    let record = plain.reply.session().record();
                    let who = (record.auth, record.subject.as_deref());
                    assert_eq!(who, psk.map_or((Auth::None, None), |psk| (Auth::Psk, Some(psk.id))));
                    let (status, headers, answer) = answered(&plain, &[b"fi", b"ne"]);
                    assert_eq!(opened_answer(&call, status, &headers, &answer), Ok(b"fine".to_vec()));
                    // Neither for another status nor for another request.
                    assert!(opened_answer(&call, 201, &headers, &answer).is_err());
                    let (_, _, other) = sealed(&key, psk, &[b"one", b"two", b""]);
                    assert!(opened_answer(&other, status, &headers, &answer).is_err());
                }
            }
        }
    });
}

fn answered(plain: &PlainRequest, frames: &[&[u8]]) -> (u16, Headers, Vec<u8>) {
    let AnswerSeal::Frames(seal) = plain.reply.answer(200, false).unwrap() else { panic!("it is not framed") };
    let randoms = SealRandoms::draw(provider()).unwrap();
    let (headers, mut sealer) = seal.begin(provider(), NOW_MS, &randoms).unwrap();
    let mut body = Vec::new();
    write(&mut sealer, &InnerHeaders::new(), frames, &mut body);
    let mut headers: Headers = headers.into_iter().map(|(name, value)| (name.into(), value)).collect();
    headers.push(("content-type".into(), TYPE.into()));
    (200, headers, body)
}

fn opened_answer(call: &OneShotCall, status: u16, headers: &Headers, body: &[u8]) -> Result<Vec<u8>, Error> {
    let (sealed, opener) = call.pending.open(provider(), headers, status)?;
    let (inner, all) = read_all(opener, sealed.as_deref().unwrap_or(body))?;
    Ok(all[inner..].to_vec())
}

fn read_all(mut opener: FrameOpener, mut input: &[u8]) -> Result<(usize, Vec<u8>), Error> {
    let (mut frame, mut all, mut from) = (Vec::new(), Vec::new(), None);
    while !input.is_empty() {
        if opener.read(&mut input, &mut frame)? != Read::More {
            if from.is_none() {
                from = Some(InnerHeaders::parse(&frame)?.1);
            }
            all.append(&mut frame);
        }
    }
    opener.end()?;
    Ok((from.ok_or(Error::StreamTruncated)?, all))
}

#[test]
fn a_problem_under_the_seal_is_the_servers_own() {
    let key = key(Kem::X25519, 1);
    for is_head in [false, true] {
        let (headers, body, call) = sealed(&key, None, &[b""]);
        let (opened, ..) = open(&key, PSK, LINE, (&headers, &body), 64).unwrap();
        let rejection = Rejection::from(Error::TimestampOutsideWindow).with("server_time_ms", NOW_MS);
        assert!(rejection.is_sealed());
        let answer = rejection.answer(sealway_proto::exchange::Form::Problem);
        let seal = opened.problem_seal().unwrap();
        let sealed = seal.seal(provider(), &answer, is_head, NOW_MS, &[3; 16]).unwrap();
        assert_eq!(sealed.body.is_empty(), is_head);
        let headers: Headers = sealed.headers.into_iter().map(|(name, value)| (name.into(), value)).collect();
        let plain = opened_answer(&call, answer.status, &headers, &sealed.body).unwrap();
        assert_eq!(plain, answer.body.as_bytes());
        // A service's answer does not pass for it, nor it for a service's.
        let key = headers.iter().position(|(name, _)| name == "x-idempotency-key").unwrap();
        assert!(headers[key].1.contains(".p-"));
        let mut other = headers.clone();
        other[key].1 = other[key].1.replace(".p-", ".r-");
        assert!(opened_answer(&call, answer.status, &other, &sealed.body).is_err());
    }
}

#[test]
fn a_problem_without_a_body_is_a_stream_in_a_header_of_up_to_8_kib() {
    let key = key(Kem::X25519, 1);
    let (headers, body, call) = sealed(&key, None, &[b""]);
    let (opened, ..) = open(&key, PSK, LINE, (&headers, &body), 64).unwrap();
    let seal = opened.problem_seal().unwrap();
    let sealed = |len: usize| {
        let problem = ErrorAnswer { status: 400, headers: Vec::new(), body: "x".repeat(len) };
        seal.seal(provider(), &problem, true, NOW_MS, &[3; 16]).map(|sealed| sealed.headers)
    };
    // 6144 bytes are 8192 characters: the commitment, the head of a frame, two bytes of inner headers, the problem, the tag.
    let longest = 6144 - 16 - 4 - 2 - 16;
    for len in [0, 1, longest] {
        let headers: Headers = sealed(len).unwrap().into_iter().map(|(name, value)| (name.into(), value)).collect();
        assert_eq!(opened_answer(&call, 400, &headers, &[]), Ok(vec![b'x'; len]));
    }
    assert_eq!(sealed(longest).unwrap().pop().map(|(_, value)| value.len()), Some(X_SEALED_LEN_MAX));
    assert_eq!(sealed(longest + 1), Err(Error::InnerHeadersInvalid));
}

/// Reads the body of a request up to the end of its prefix.
fn prefix_of(stream: &mut Stream, input: &mut &[u8]) -> Prefix {
    loop {
        assert!(stream.read(input).unwrap().is_none());
        if let Some(prefix) = stream.take_prefix() {
            return prefix;
        }
    }
}

#[test]
fn a_request_opens_with_the_key_that_it_names_alone_and_its_stamp_is_answered_under_the_seal() {
    let (key, other) = (key(Kem::X25519, 1), key(Kem::X25519, 2));
    let (headers, body, _) = sealed(&key, None, &[b"one"]);
    let exchange = || Exchange::begin(&headers, LINE, NOW_MS, &ReplayPolicy::default(), |_| Ok(())).unwrap();
    assert_eq!(exchange().key(other).map(|_| ()), Err(Error::KeyRetired));
    let (opening, mut stream) = exchange().key(key.clone()).unwrap();
    let bounds = BodyBounds { whole: 1, stream: 70_000 };
    assert_eq!(opening.body_max(bounds), 70_000);
    let mut input = body.as_slice();
    let prefix = prefix_of(&mut stream, &mut input);
    let opening = opening.open(provider(), &prefix, None, &mut stream, NOW_MS).unwrap();
    assert_eq!((opening.is_whole(), opening.body_max(bounds)), (false, 70_000));
    let stale = Refusal::from(Error::TimestampOutsideWindow);
    let rejection = unadmitted(provider(), opening.session(), &headers, LINE, NOW_MS, stale.clone());
    assert_eq!(rejection, stale.into(), "the seal proves the time, not a member of the problem");
}

#[test]
fn no_cut_and_no_flipped_byte_of_a_request_opens_whole() {
    for (kem, psk) in [(Kem::X25519, None), (Kem::P256, preshared()), (Kem::XWing, None)] {
        let key = key(kem, 1);
        for frames in [&[b"".as_slice()][..], &[b"a", b"bb", b"ccc"]] {
            let (headers, body, _) = sealed(&key, psk, frames);
            let whole = |body: &[u8]| matches!(open(&key, PSK, LINE, (&headers, body), 50), Ok((.., None)));
            assert!(whole(&body));
            for cut in (0..body.len()).filter(|cut| *cut < 120 || cut % 61 == 0 || body.len() - cut < 80) {
                assert!(!whole(&body[..cut]), "{kem:?} {cut}");
            }
            for at in (0..body.len()).filter(|at| *at < 120 || at % 61 == 0 || body.len() - at < 80) {
                for bit in [0, 7] {
                    let mut bad = body.clone();
                    bad[at] ^= 1 << bit;
                    assert!(!whole(&bad), "{kem:?} {at} {bit}");
                }
            }
            assert!(!whole(&[&body[..], b"x"].concat()));
        }
    }
}

#[test]
fn no_cut_of_a_request_or_of_an_answer_passes_for_the_whole_whatever_the_number_of_frames() {
    let key = key(Kem::X25519, 1);
    for (psk, count) in [None, preshared()].into_iter().flat_map(|psk| [0, 1, 3, 20].map(|count| (psk, count))) {
        let parts = vec![&b"part"[..]; count];
        let frames = if count == 0 { &[&b""[..]][..] } else { &parts };
        let (headers, body, call) = sealed(&key, psk, frames);
        let is_whole = |len: &usize| matches!(open(&key, PSK, LINE, (&headers, &body[..*len]), 50), Ok((.., None)));
        assert_eq!((0..=body.len()).filter(is_whole).collect::<Vec<_>>(), [body.len()], "request of {count} frames");
        let (opened, ..) = open(&key, PSK, LINE, (&headers, &body), 50).unwrap();
        let (status, headers, answer) = answered(&release(opened), frames);
        let is_whole = |len: &usize| opened_answer(&call, status, &headers, &answer[..*len]).is_ok();
        assert_eq!((0..=answer.len()).filter(is_whole).collect::<Vec<_>>(), [answer.len()], "answer of {count} frames");
        for at in 0..answer.len() {
            let mut flipped = answer.clone();
            flipped[at] ^= 1 << (at % 8);
            assert!(
                opened_answer(&call, status, &headers, &flipped).is_err(),
                "byte {at} of an answer of {count} frames"
            );
        }
    }
}

#[test]
fn everything_that_is_bound_is_bound() {
    let key = key(Kem::X25519, 1);
    let (headers, body, _) = sealed(&key, preshared(), &[b"one"]);
    let code =
        |line: RequestLine<'_>, psk: [u8; 32], headers: &Headers| match open(&key, psk, line, (headers, &body), 99) {
            Ok(_) => "open",
            Err(rejection) => rejection.refusal.class(),
        };
    assert_eq!(code(LINE, PSK, &headers), "open");
    assert_eq!(code(RequestLine { method: "PUT", ..LINE }, PSK, &headers), "unsealable");
    for target in ["/pay", "/pay?a=2", "/pay?a=1&", "/Pay?a=1"] {
        assert_eq!(code(RequestLine { target, ..LINE }, PSK, &headers), "unsealable");
    }
    assert_eq!(code(LINE, [8; 32], &headers), "unsealable");
    let with = |name: &str, value: String| -> Headers {
        let others = headers.iter().filter(|(known, _)| known != name).cloned();
        others.chain([(name.to_owned(), value)]).collect()
    };
    assert_eq!(code(LINE, PSK, &with("content-type", "application/json".into())), "unsealable");
    for stamp in [NOW_MS - 1, NOW_MS + 1] {
        assert_eq!(code(LINE, PSK, &with("x-idempotency-key", format!("{stamp}.{NONCE}"))), "unsealable");
    }
    assert_eq!(code(LINE, PSK, &with("x-idempotency-key", format!("{NOW_MS}.{NONCE}0"))), "unsealable");
    assert_eq!(code(LINE, PSK, &with("x-idempotency-key", format!("0{NOW_MS}.{NONCE}"))), "unsealable");
    for (kid, class) in [
        (format!("hpke:{}", "0".repeat(32)), "key_retired"),
        ("hpke:".into(), "kid_prefix"),
        (headers[1].1.to_uppercase(), "kid_prefix"),
        (headers[1].1.replace("hpke:", "hpke:S-"), "kid_prefix"),
        (headers[1].1.replace("hpke:", "session:S-"), "kid_prefix"),
    ] {
        assert_eq!(code(LINE, PSK, &with("x-kid", kid)), class);
    }
    assert_eq!(code(LINE, PSK, &with("x-seal", "3".into())), "kid_prefix");
    for seal in ["5", "04", "4.0"] {
        assert_eq!(code(LINE, PSK, &with("x-seal", seal.into())), "header_invalid");
    }
    // Another key, and the parts of two requests.
    let (_, other, _) = sealed(&key, preshared(), &[b"one"]);
    let enc = 2 + "partner-7".len() + 32;
    let mixed = [&other[..enc], &body[enc..]].concat();
    assert!(open(&key, PSK, LINE, (&headers, &mixed), 99).is_err());
}

/// The fingerprint of a request in mode base, which is in the body.
fn fingerprint(key: &Arc<Key>, (headers, body, _): &(Headers, Vec<u8>, OneShotCall)) -> [u8; 32] {
    let exchange = Exchange::begin(headers, LINE, NOW_MS, &ReplayPolicy::default(), |_| Ok(())).unwrap();
    let (opening, mut stream) = exchange.key(key.clone()).unwrap();
    let mut input = body.as_slice();
    let prefix = prefix_of(&mut stream, &mut input);
    let opening = opening.open(provider(), &prefix, None, &mut stream, NOW_MS).unwrap();
    while !input.is_empty() {
        assert!(stream.read(&mut input).unwrap().is_none());
    }
    opening.fingerprint(provider(), &stream.end().unwrap().unwrap()).unwrap()
}

#[test]
fn requests_of_one_nonce_stamp_and_plaintext_have_a_fingerprint_each() {
    let key = key(Kem::X25519, 1);
    let (one, two) = (sealed(&key, None, &[b"one"]), sealed(&key, None, &[b"one"]));
    assert_eq!(fingerprint(&key, &one), fingerprint(&key, &one));
    assert_ne!(fingerprint(&key, &one), fingerprint(&key, &two));
}

#[test]
fn equal_requests_make_equal_claims_and_every_seal_another() {
    let (key, other) = (key(Kem::XWing, 1), key(Kem::XWing, 2));
    let claim = |key: &Arc<Key>, (headers, body, _): &(Headers, Vec<u8>, OneShotCall)| {
        open(key, PSK, LINE, (headers, body), 999).unwrap().0.claim().key()
    };
    let (one, two, three) = (sealed(&key, None, &[b""]), sealed(&key, None, &[b""]), sealed(&other, None, &[b""]));
    assert_eq!(claim(&key, &one), claim(&key, &one));
    let claims = [claim(&key, &one), claim(&key, &two), claim(&other, &three)];
    assert!(claims[0] != claims[1] && claims[0] != claims[2] && claims[1] != claims[2]);
    // Stamps are checked when the request is admitted, not before.
    let (headers, body, _) = sealed_at(&key, None, &[b""], 1);
    let opened = open(&key, PSK, LINE, (&headers, &body), 999).unwrap().0;
    let plain_session = release(opened).reply.session().clone();
    assert_eq!(plain_session.ended(), Error::KeyRetired);
    assert_eq!(plain_session.key_name(), Some(key.config.name(provider()).as_str()));
}

#[test]
fn a_client_seals_to_configurations_of_wire_4_alone() {
    let of = |kem: Kem, aeads: &[Aead]| {
        let private = PrivateKey::derive(provider(), kem, &[1; 64]).unwrap().1;
        let config = KeyConfig::new(1, private.public_key().clone(), aeads).unwrap();
        seal(provider(), &config, None, LINE, TYPE, ("1", NONCE), None).map(|_| ())
    };
    assert_eq!(of(Kem::X25519, &[Aead::Aes256Gcm]), Ok(()));
    let invalid = Err(Error::FieldInvalid("config"));
    assert_eq!(of(Kem::X25519, &[Aead::Aes128Gcm]), invalid);
    assert_eq!(of(Kem::X25519, &[Aead::Aes256Gcm, Aead::Aes128Gcm]), invalid);
    assert_eq!(of(Kem::MlKem768, &[Aead::Aes256Gcm]), invalid);
    for id in ["", " ", "a b", "\u{e9}", &*"a".repeat(65)] {
        let psk = Some(ClientPsk { id, key: &PSK });
        let sealed = seal(provider(), &key(Kem::X25519, 1).config, psk, LINE, TYPE, ("1", NONCE), None);
        assert_eq!(sealed.map(|_| ()), Err(Error::FieldInvalid("psk_id")), "{id:?}");
    }
    let retired = Refusal::from(Error::KeyRetired);
    assert!(!Rejection::from(retired).is_sealed());
}

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use alloc::borrow::ToOwned;
use alloc::vec;

use super::*;
use crate::crypto::default_provider;
use crate::error::Error;
use crate::hpke::PublicKey;
use crate::session::Fresh;

const HASH: [u8; 32] = [7; 32];
const NOW_MS: u64 = 1_000_000;

fn key(byte: u8) -> PrivateKey {
    PrivateKey::from_bytes(default_provider(), Kem::X25519, &[byte; 32]).unwrap()
}

fn request_key(private: &PrivateKey) -> RequestKey<'_> {
    RequestKey { private, hash: &HASH, accepted_ms: (0, NOW_MS + 1) }
}

fn frame(ciphertext: &[u8]) -> Vec<u8> {
    [&(ciphertext.len() as u32).to_be_bytes(), ciphertext].concat()
}

/// A client's request: the encapsulated secret, the client, and a frame for each part.
fn request(public: &PublicKey, parts: &[&[u8]]) -> ([u8; ENC_LEN], ClientRequest, Vec<Vec<u8>>) {
    let mut client = ClientRequest::begin(default_provider(), public).unwrap();
    let enc = parse_encapsulated_key(client.encapsulated_key().as_bytes()).unwrap();
    let empty = |client: &mut ClientRequest| frame(&client.context.seal(&[], b"").unwrap());
    let seal = |part: &&[u8]| if part.is_empty() { empty(&mut client) } else { client.seal(part).unwrap() };
    let frames = parts.iter().map(seal).collect();
    (enc, client, frames)
}

/// Opens a whole body as a server does, and releases it.
fn open_all(private: &PrivateKey, enc: &[u8; ENC_LEN], body: &[u8]) -> Result<Vec<u8>, EhbpError> {
    let mut frames = Frames::new(1000);
    frames.push(body);
    let first = frames.next_ciphertext()?;
    let Some(first) = first else { return Err(frames.finish().err().unwrap_or(EhbpError::Empty)) };
    let (_, mut opened) = open(default_provider(), [request_key(private)], enc, &first, NOW_MS)?;
    while let Some(mut ciphertext) = frames.next_ciphertext()? {
        opened.open_next(&mut ciphertext)?;
    }
    frames.finish()?;
    let fresh = Fresh::reserved(opened.claim());
    Ok(opened.release(fresh).unwrap().into_parts().0.to_vec())
}

fn ascending(from: u8) -> [u8; 32] {
    core::array::from_fn(|index| from + index as u8)
}

#[test]
fn an_answer_is_that_of_the_published_vector() {
    // test-vectors/derive.json and response-decryption.json of the protocol's repository, tag v0.3.1.
    const SEALED: &str = "0000002647e74d9a561b60ff42ac7ffbb4caf6b6d5ad0bb7621e41840d2ab7de7208ff7a59d0a2a482cc";
    let key = || AnswerKey::derive(default_provider(), SUITE.aead, &ascending(0), &ascending(0x20), &ascending(0x40));
    let mut sealer = AnswerSealer { key: key().unwrap(), nonce: ascending(0x40) };
    assert_eq!(sealer.nonce(), hex(&ascending(0x40)));
    let sealed = sealer.seal(b"hello from test vector").unwrap();
    assert_eq!(sealed.iter().map(|byte| alloc::format!("{byte:02x}")).collect::<String>(), SEALED);
    assert_eq!(ClientAnswer(key().unwrap()).open(&sealed).unwrap(), b"hello from test vector");
    assert_eq!(sealer.seal(b"").unwrap(), b"");
    let long = vec![1; FRAME_MAX + 1];
    let sealed = sealer.seal(&long).unwrap();
    assert_eq!(sealed.len(), long.len() + 2 * (4 + TAG_LEN));
    assert_eq!(sealer.key.sequence(), 3);
}

#[test]
fn an_answer_opens_for_its_request_alone_and_unchanged() {
    let private = key(1);
    let (enc, client, frames) = request(private.public_key(), &[b"a"]);
    let (_, mut opened) = open(default_provider(), [request_key(&private)], &enc, &frames[0][4..], NOW_MS).unwrap();
    let mut sealer = opened.answer(default_provider(), [9; 32]).unwrap();
    let sealed = [sealer.seal(b"one ").unwrap(), frame(b""), sealer.seal(b"two").unwrap()].concat();
    let answer = |client: &ClientRequest, nonce: &str, body: &[u8]| {
        client.answer(default_provider(), nonce.as_bytes())?.open(body)
    };
    let nonce = sealer.nonce();
    assert_eq!(answer(&client, &nonce, &sealed).unwrap(), b"one two");
    assert_eq!(answer(&client, &nonce.to_uppercase().replace('0', "A"), &sealed), Err(EhbpError::ResponseNonce));
    assert_eq!(answer(&client, &hex(&[8; 32]), &sealed), Err(EhbpError::Answer));
    assert_eq!(answer(&request(private.public_key(), &[]).1, &nonce, &sealed), Err(EhbpError::Answer));
    for at in 0..sealed.len() {
        let mut changed = sealed.clone();
        changed[at] ^= 1;
        assert!(answer(&client, &nonce, &changed).is_err(), "byte {at}");
    }
    let first_len = 4 + 4 + TAG_LEN;
    let whole = (0..sealed.len()).filter(|len| answer(&client, &nonce, &sealed[..*len]).is_ok());
    // The protocol has no mark of the last frame.
    assert_eq!(whole.collect::<Vec<_>>(), [0, first_len, first_len + 4]);
    let p256 = PrivateKey::from_bytes(default_provider(), Kem::P256, &[1; 32]).unwrap();
    assert_eq!(ClientRequest::begin(default_provider(), p256.public_key()).unwrap_err(), EhbpError::Key);
}

#[test]
fn a_request_opens_however_its_bytes_arrive_and_with_the_key_that_fits() {
    let (one, two) = (key(1), key(2));
    let (enc, _, mut frames) = request(two.public_key(), &[b"first", b"", b"second"]);
    frames.insert(1, frame(b""));
    let body = frames.concat();
    assert_eq!(open_all(&two, &enc, &body).unwrap(), b"firstsecond");
    assert_eq!(open_all(&one, &enc, &body).unwrap_err(), EhbpError::KeyMismatch);
    let tried = [request_key(&one), request_key(&two)];
    assert_eq!(open(default_provider(), tried, &enc, &frames[0][4..], NOW_MS).unwrap().0, 1);
    assert_eq!(open(default_provider(), [], &enc, &frames[0][4..], NOW_MS).unwrap_err(), EhbpError::KeyMismatch);
    let mut reader = Frames::new(1000);
    let mut lens = Vec::new();
    for byte in &body {
        reader.push(&[*byte]);
        while let Some(ciphertext) = reader.next_ciphertext().unwrap() {
            lens.push(ciphertext.len() - TAG_LEN);
        }
    }
    assert_eq!(lens, [5, 0, 6]);
    // A key that is over by now gives no claim.
    let over = RequestKey { accepted_ms: (0, NOW_MS), ..request_key(&two) };
    let claimed = open(default_provider(), [over], &enc, &frames[0][4..], NOW_MS);
    assert_eq!(claimed.unwrap_err(), EhbpError::Claim(Error::TimestampOutsideWindow));
}

#[test]
fn the_claim_is_of_the_key_and_the_encapsulated_secret_and_lives_as_long_as_the_key() {
    let private = key(1);
    let (enc, _, frames) = request(private.public_key(), &[b"a", b"b"]);
    let claim =
        |key: RequestKey<'_>, first: &[u8]| *open(default_provider(), [key], &enc, first, NOW_MS).unwrap().1.claim();
    let one = claim(request_key(&private), &frames[0][4..]);
    assert_eq!((one.stamp_ms(), one.expires_ms(), one.earliest_ms()), (NOW_MS + 1, NOW_MS + 2, 0));
    assert!(one.is_stamped_ahead() && !one.is_sealed());
    assert_eq!(claim(request_key(&private), &frames[0][4..]).key(), one.key());
    let other = RequestKey { hash: &[8; 32], ..request_key(&private) };
    assert_ne!(claim(other, &frames[0][4..]).key(), one.key());
    // As of a later time it is the same claim, until the key is over.
    let policy = crate::wire::ReplayPolicy::default();
    assert_eq!(one.at(NOW_MS, &policy).unwrap(), one);
    assert!(one.at(NOW_MS + 1, &policy).is_err());
}

#[test]
fn frames_that_are_swapped_repeated_left_out_or_changed_do_not_open() {
    let private = key(1);
    let (enc, _, frames) = request(private.public_key(), &[b"1", b"22", b"333", b"4444"]);
    let [a, b, c, d] = [0, 1, 2, 3].map(|index| frames[index].as_slice());
    for body in [[a, c, b, d].concat(), [a, b, b, c].concat(), [a, b, d].concat(), [a, a].concat()] {
        assert_eq!(open_all(&private, &enc, &body).unwrap_err(), EhbpError::Unsealable);
    }
    for body in [[b, a].concat(), [b, c, d].concat()] {
        assert_eq!(open_all(&private, &enc, &body).unwrap_err(), EhbpError::KeyMismatch);
    }
    let whole = frames.concat();
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        assert!(open_all(&private, &enc, &flipped).is_err(), "byte {at}");
    }
    for at in 0..ENC_LEN {
        let mut flipped = enc;
        flipped[at] ^= 1;
        assert_eq!(open_all(&private, &flipped, &whole).unwrap_err(), EhbpError::KeyMismatch, "byte {at} of enc");
    }
}

#[test]
fn a_cut_is_found_anywhere_but_between_two_frames() {
    let private = key(1);
    for count in [1, 3, 20] {
        let parts = vec![&b"part"[..]; count];
        let (enc, _, frames) = request(private.public_key(), &parts);
        let whole = frames.concat();
        let unnoticed = (0..whole.len()).filter(|len| open_all(&private, &enc, &whole[..*len]).is_ok()).count();
        // The protocol has no mark of the last frame; HTTP's own framing shows such a cut.
        assert_eq!(unnoticed, count - 1);
        assert_eq!(open_all(&private, &enc, b"").unwrap_err(), EhbpError::Empty);
    }
}

#[test]
fn lengths_are_judged_before_their_bytes_arrive() {
    for (len, expected) in [
        (1, EhbpError::FrameTooShort(1)),
        (15, EhbpError::FrameTooShort(15)),
        (1017, EhbpError::FrameTooLong(1017)),
        (u32::MAX, EhbpError::FrameTooLong(u32::MAX)),
    ] {
        let mut frames = Frames::new(1000);
        frames.push(&len.to_be_bytes());
        assert_eq!(frames.next_ciphertext().unwrap_err(), expected);
    }
    let mut frames = Frames::new(1000);
    frames.push(&1016_u32.to_be_bytes());
    assert_eq!(frames.next_ciphertext(), Ok(None));
    assert!(frames.buffer.capacity() < 64, "a claimed length takes no memory");
    assert_eq!(frames.finish(), Err(EhbpError::Truncated));
}

#[test]
fn empty_frames_are_skipped_within_a_bound() {
    let private = key(1);
    let (enc, _, frames) = request(private.public_key(), &[b"data"]);
    let zeros = |count: usize| vec![0; 4 * count];
    assert_eq!(open_all(&private, &enc, &[zeros(10_000), frames[0].clone()].concat()).unwrap(), b"data");
    assert_eq!(open_all(&private, &enc, &zeros(3)).unwrap_err(), EhbpError::Empty);
    let endless = zeros(EMPTY_FRAMES_MAX as usize + 1);
    assert_eq!(open_all(&private, &enc, &endless).unwrap_err(), EhbpError::TooManyEmptyFrames);
}

#[test]
fn a_header_has_one_spelling_and_no_point_of_small_order_agrees() {
    let text = "0123456789abcdef".repeat(4);
    assert!(parse_encapsulated_key(text.as_bytes()).is_ok());
    let bad = [
        alloc::string::String::new(),
        text[1..].to_owned(),
        text.clone() + "0",
        text.to_uppercase(),
        text.replacen("01", "0x", 1),
        text.replacen("01", "0 ", 1),
        alloc::format!("{text},{text}"),
        alloc::format!("{text}, {text}"),
    ];
    for text in bad {
        assert_eq!(parse_encapsulated_key(text.as_bytes()), Err(EhbpError::Header), "{text}");
    }
    let private = key(1);
    let mut one = [0; 32];
    one[0] = 1;
    let mut minus_one = [0xff; 32];
    (minus_one[0], minus_one[31]) = (0xec, 0x7f);
    for enc in [[0; 32], one, minus_one] {
        let opened = open(default_provider(), [request_key(&private)], &enc, &[0; 20], NOW_MS);
        assert_eq!(opened.unwrap_err(), EhbpError::EncapsulatedKey);
    }
}

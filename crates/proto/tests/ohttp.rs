//! Oblivious HTTP: the values of RFC 9458 appendix A and of draft-ietf-ohai-chunked-ohttp-08 appendix A, cuts, and what an attacker
//! can do with chunks.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use sealway_proto::crypto::agreement::AgreementProvider;
use sealway_proto::crypto::default_provider;
use sealway_proto::hpke::{Aead, Kem, PrivateKey, setup_sender};
use sealway_proto::limits::TAG_LEN;
use sealway_proto::ohttp::{CHUNK_LEN_MAX, ClientRequest, Form, Header, OhttpError, Request};
use sealway_proto::one_shot::KeyConfig;

/// The message in both documents.
const BHTTP: &str = "00034745540568747470730b6578616d706c652e636f6d012f";

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

fn provider() -> &'static dyn AgreementProvider {
    default_provider()
}

fn key(private: &str) -> (PrivateKey, KeyConfig) {
    let key = PrivateKey::from_bytes(provider(), Kem::X25519, &hex(private)).unwrap();
    let config = KeyConfig::new(1, key.public_key().clone(), &[Aead::Aes128Gcm, Aead::ChaCha20Poly1305]).unwrap();
    (key, config)
}

/// Begins to open a request, and returns what follows `enc`.
fn begin<'a>(
    form: Form,
    (key, config): &(PrivateKey, KeyConfig),
    mut bytes: &'a [u8],
) -> Result<(Request, &'a [u8]), OhttpError> {
    let header = Header::take(&mut bytes)?;
    let suite = header.suite_of(config)?;
    let (enc, rest) = bytes.split_at_checked(header.enc_len()?).ok_or(OhttpError::Truncated)?;
    Ok((Request::begin(provider(), form, (&header, suite), key, enc)?, rest))
}

fn open(key: &(PrivateKey, KeyConfig), bytes: &[u8]) -> Result<(Request, Vec<u8>), OhttpError> {
    let (mut request, sealed) = begin(Form::Whole, key, bytes)?;
    let mut message = sealed.to_vec();
    request.open(&mut message)?;
    Ok((request, message))
}

/// Opens a stream that arrives in pieces of this length, and returns its chunks.
fn open_chunks(
    key: &(PrivateKey, KeyConfig),
    bytes: &[u8],
    piece_len: usize,
) -> Result<(Request, Vec<Vec<u8>>), OhttpError> {
    let (mut request, sealed) = begin(Form::Chunked, key, bytes)?;
    let (mut chunks, mut chunk) = (Vec::new(), Vec::new());
    for mut piece in sealed.chunks(piece_len) {
        while request.read(&mut piece, &mut chunk)? {
            chunks.push(std::mem::take(&mut chunk));
        }
        assert!(piece.is_empty(), "bytes were left");
    }
    request.end(&mut chunk)?;
    chunks.push(chunk);
    Ok((request, chunks))
}

const RFC_PRIVATE: &str = "3c168975674b2fa8e465970b79c8dcf09f1c741626480bd4c6162fc5b6a98e1a";
const RFC_CONFIG: &str = "01002031e1f05a740102115220e9af918f738674aec95f54db6e04eb705aae8e79815500080001000100010003";
const RFC_REQUEST: &str = "
    010020000100014b28f881333e7c164ffc499ad9796f877f4e1051ee6d31bad19dec96c208b4726374e469135906992e1268c594d2a10c695d858c40a0
    26e7965e7d86b83dd440b2c0185204b4d63525";
const RFC_NONCE: &str = "c789e7151fcba46158ca84b04464910d";
const RFC_ANSWER: &str = "c789e7151fcba46158ca84b04464910d86f9013e404feea014e7be4a441f234f857fbd";

const DRAFT_PRIVATE: &str = "1c190d72acdbe4dbc69e680503bb781a932c70a12c8f3754434c67d8640d8698";
const DRAFT_CONFIG: &str = "010020668eb21aace159803974a4c67f08b4152d29bed10735fd08f98ccdd6fe09570800080001000100010003";
const DRAFT_REQUEST: &str = "
    01002000010001 8811eb457e100811c40a0aa71340a1b81d804bb986f736f2f566a7199761a032
    1c2ad24942d4d692563012f2980c8fef437a336b9b2fc938ef77a5834f
    1d2e33d8fd25577afe31bd1c79d094f76b6250ae6549b473ecd950501311
    001c6c1395d0ef7c1022297966307b8a7f";
const DRAFT_NONCE: &str = "bcce7f4cb921309ba5d62edf1769ef09";
const DRAFT_ANSWER: &str = "
    bcce7f4cb921309ba5d62edf1769ef09 1179bf1cc87fa0e2c02de4546945aa3d1e48 12b348b5bd4c594c16b6170b07b475845d1f32
    00ed9d8a796617a5b27265f4d73247f639";

#[test]
fn the_values_of_rfc_9458_are_met_byte_by_byte() {
    let key = key(RFC_PRIVATE);
    assert_eq!(key.1.encode(), hex(RFC_CONFIG));
    let (request, message) = open(&key, &hex(RFC_REQUEST)).unwrap();
    assert_eq!(message, hex(BHTTP));
    let mut answer = request.answer(provider(), &hex(RFC_NONCE)).unwrap();
    let mut sealed = Vec::new();
    assert_eq!(answer.seal(&mut sealed, &hex("0140"), false), Err(OhttpError::Order), "a whole answer has one part");
    answer.seal(&mut sealed, &hex("0140c8"), true).unwrap();
    assert_eq!(sealed, hex(RFC_ANSWER));
    assert_eq!(answer.seal(&mut sealed, b"", true), Err(OhttpError::Order), "nothing follows the last part");
}

#[test]
fn the_values_of_the_draft_on_chunks_are_met_byte_by_byte() {
    let key = key(DRAFT_PRIVATE);
    assert_eq!(key.1.encode(), hex(DRAFT_CONFIG));
    let bytes = hex(DRAFT_REQUEST);
    for piece_len in 1..=bytes.len() {
        let (request, chunks) = open_chunks(&key, &bytes, piece_len).unwrap();
        assert_eq!(chunks.iter().map(Vec::len).collect::<Vec<_>>(), [12, 13, 0]);
        assert_eq!(chunks.concat(), hex(BHTTP));
        let mut answer = request.answer(provider(), &hex(DRAFT_NONCE)).unwrap();
        let mut sealed = Vec::new();
        answer.seal(&mut sealed, &hex("01"), false).unwrap();
        answer.seal(&mut sealed, b"", false).unwrap();
        answer.seal(&mut sealed, &hex("40c8"), false).unwrap();
        answer.seal(&mut sealed, b"", true).unwrap();
        assert_eq!(sealed, hex(DRAFT_ANSWER));
    }
}

#[test]
fn a_request_that_is_cut_or_changed_anywhere_does_not_open() {
    let (whole, chunked) = (hex(RFC_REQUEST), hex(DRAFT_REQUEST));
    let (rfc, draft) = (key(RFC_PRIVATE), key(DRAFT_PRIVATE));
    for len in 0..whole.len() {
        let expected = if len < 39 + TAG_LEN { OhttpError::Truncated } else { OhttpError::Key };
        assert_eq!(open(&rfc, &whole[..len]).unwrap_err(), expected, "{len}");
    }
    for len in 0..chunked.len() {
        assert!(open_chunks(&draft, &chunked[..len], usize::MAX).is_err(), "{len}");
    }
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut changed = whole.clone();
            changed[at] ^= 1 << bit;
            assert_eq!(open(&rfc, &changed).unwrap_err(), OhttpError::Key, "byte {at}");
        }
    }
    for at in 0..chunked.len() {
        let mut changed = chunked.clone();
        changed[at] ^= 1;
        assert!(open_chunks(&draft, &changed, usize::MAX).is_err(), "byte {at}");
    }
    // The labels of the two forms differ.
    assert!(open_chunks(&rfc, &whole, usize::MAX).is_err());
    assert_eq!(open(&draft, &chunked).unwrap_err(), OhttpError::Key);
}

#[test]
fn a_suite_that_is_not_published_is_a_key_problem() {
    let (private, _) = key(RFC_PRIVATE);
    let config = KeyConfig::new(1, private.public_key().clone(), &[Aead::Aes128Gcm]).unwrap();
    for header in
        ["01002000010003", "01002000010002", "0100200001ffff", "01001000010001", "02002000010001", "01002000020001"]
    {
        let header = Header::take(&mut &*hex(header)).unwrap();
        assert_eq!(header.suite_of(&config), Err(OhttpError::Key));
    }
    assert_eq!(Header::take(&mut &*hex("0100ff00010001")).unwrap().enc_len(), Err(OhttpError::Key));
    assert!(Header::take(&mut &*hex("01002000010001")).unwrap().suite_of(&config).is_ok());
}

/// A chunk of a sender that may lie: plaintext, and whether it is sealed and written as the last one.
type Chunk<'a> = (&'a [u8], bool, bool);

/// Seals chunks to the draft's key.
fn sealed(key: &(PrivateKey, KeyConfig), chunks: &[Chunk<'_>]) -> Vec<Vec<u8>> {
    let suite = key.1.suites().next().unwrap();
    let header = hex("01002000010001");
    let info = [b"message/bhttp chunked request", &[0][..], &header].concat();
    let (enc, mut context) = setup_sender(provider(), suite, key.1.public_key(), &info, None).unwrap();
    let mut parts = vec![[header, enc].concat()];
    for (plaintext, is_sealed_last, is_written_last) in chunks {
        let ciphertext = context.seal(if *is_sealed_last { b"final" } else { b"" }, plaintext).unwrap();
        let len = if *is_written_last { 0 } else { ciphertext.len() as u32 };
        // The longest form of a length says the same as the shortest.
        parts.push([&(0x8000_0000 | len).to_be_bytes()[..], &ciphertext].concat());
    }
    parts
}

#[test]
fn chunks_open_in_their_order_up_to_the_last_and_no_further() {
    let key = key(DRAFT_PRIVATE);
    let open = |parts: &[Vec<u8>]| open_chunks(&key, &parts.concat(), usize::MAX).map(|(_, chunks)| chunks.concat());
    let full = vec![7; CHUNK_LEN_MAX];
    let good = sealed(&key, &[(b"one", false, false), (&full, false, false), (b"end", true, true)]);
    assert_eq!(open(&good).unwrap(), [b"one", &full[..], b"end"].concat());
    let full_end = sealed(&key, &[(b"one", false, false), (&full, true, true)]);
    assert_eq!(open(&full_end).unwrap().len(), 3 + CHUNK_LEN_MAX);
    let part = |order: &[usize]| order.iter().map(|at| good[*at].clone()).collect::<Vec<_>>();
    for order in [&[0, 1, 2][..], &[0, 1, 3], &[0, 2, 1, 3], &[0, 1, 1, 2, 3], &[0, 3]] {
        assert!(open(&part(order)).is_err(), "{order:?}");
    }
    let behind = [part(&[0, 1, 2, 3]), vec![b"more".to_vec()]].concat();
    assert_eq!(open(&behind), Err(OhttpError::Chunk));
    let cases: [(&[Chunk<'_>], OhttpError); 6] = [
        (&[(b"one", false, false), (b"end", false, true)], OhttpError::Chunk),
        (&[(b"one", false, false), (b"two", true, false), (b"", true, true)], OhttpError::Chunk),
        (&[(b"one", false, false), (b"", false, false), (b"", true, true)], OhttpError::Chunk),
        (&[(b"one", false, false)], OhttpError::Truncated),
        (&[(b"one", true, false), (b"", true, true)], OhttpError::Key),
        (&[(&[7; CHUNK_LEN_MAX + 1], false, false)], OhttpError::ChunkTooLong),
    ];
    for (chunks, error) in cases {
        assert_eq!(open(&sealed(&key, chunks)), Err(error));
    }
    let too_long = sealed(&key, &[(b"one", false, false), (&[7; CHUNK_LEN_MAX + 1], true, true)]);
    assert_eq!(open(&too_long), Err(OhttpError::ChunkTooLong));
    // A length alone takes no memory.
    let claim = [hex("01002000010001"), vec![9; 32], vec![0xff; 8]].concat();
    assert_eq!(open_chunks(&key, &claim, usize::MAX).unwrap_err(), OhttpError::ChunkTooLong);
}

#[test]
fn no_cut_and_no_flipped_byte_passes_for_the_whole_whatever_the_number_of_chunks() {
    let key = key(DRAFT_PRIVATE);
    for count in [1, 3, 20] {
        // Of one chunk, the last one: an empty message as well as one of four bytes.
        for last in [&b""[..], b"last"] {
            let mut chunks: Vec<Chunk<'_>> = vec![(b"part", false, false); count - 1];
            chunks.push((last, true, true));
            let whole = sealed(&key, &chunks).concat();
            let opens = |bytes: &[u8]| open_chunks(&key, bytes, usize::MAX).is_ok();
            let uncut: Vec<usize> = (0..=whole.len()).filter(|len| opens(&whole[..*len])).collect();
            assert_eq!(uncut, [whole.len()], "{count} chunks");
            for at in 0..whole.len() {
                let mut flipped = whole.clone();
                flipped[at] ^= 1 << (at % 8);
                assert!(!opens(&flipped), "byte {at} of {count} chunks");
            }
        }
    }
}

#[test]
fn a_long_answer_is_in_chunks_that_every_receiver_takes() {
    let key = key(DRAFT_PRIVATE);
    let (request, _) = open_chunks(&key, &hex(DRAFT_REQUEST), usize::MAX).unwrap();
    for (len, is_last) in
        [(0, true), (1, true), (CHUNK_LEN_MAX, true), (CHUNK_LEN_MAX + 1, true), (2 * CHUNK_LEN_MAX, false)]
    {
        let mut answer = request.answer(provider(), &[3; 16]).unwrap();
        let mut out = Vec::new();
        answer.seal(&mut out, &vec![1; len], is_last).unwrap();
        let mut rest = &out[16..];
        let mut chunks = Vec::new();
        while let [first, tail @ ..] = rest {
            let (len, tail) = match first >> 6 {
                0 => (usize::from(*first), tail),
                1 => (usize::from(first & 0x3f) << 8 | usize::from(tail[0]), &tail[1..]),
                _ => (
                    (usize::from(first & 0x3f) << 24)
                        | usize::from(tail[0]) << 16
                        | usize::from(tail[1]) << 8
                        | usize::from(tail[2]),
                    &tail[3..],
                ),
            };
            let is_final = len == 0;
            let len = if is_final { tail.len() } else { len };
            assert!(len <= CHUNK_LEN_MAX + TAG_LEN);
            chunks.push((is_final, len - TAG_LEN));
            rest = &tail[len..];
        }
        assert_eq!(chunks.iter().map(|(_, len)| len).sum::<usize>(), len);
        assert_eq!(chunks.iter().filter(|(is_final, _)| *is_final).count(), usize::from(is_last));
    }
    assert_eq!(request.answer(provider(), &[3; 12]).unwrap_err(), OhttpError::Provider, "a nonce of another length");
}

/// A request by the client, in parts.
fn encapsulated(form: Form, config: &KeyConfig, aead: Aead, parts: &[&[u8]]) -> (ClientRequest, Vec<u8>) {
    let suite = config.suites().find(|suite| suite.aead == aead).unwrap();
    let mut client = ClientRequest::begin(provider(), form, config, suite).unwrap();
    let mut sealed = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        client.seal(&mut sealed, part, at + 1 == parts.len()).unwrap();
    }
    (client, sealed)
}

/// Opens an answer that has arrived whole.
fn open_answer(form: Form, client: &ClientRequest, mut sealed: &[u8]) -> Result<Vec<u8>, OhttpError> {
    let mut answer = client.answer(provider(), &mut sealed)?;
    let (mut message, mut chunk) = (Vec::new(), Vec::new());
    if form == Form::Whole {
        message = sealed.to_vec();
        answer.open(&mut message)?;
        return Ok(message);
    }
    while answer.read(&mut sealed, &mut chunk)? {
        message.append(&mut chunk);
    }
    answer.end(&mut chunk)?;
    Ok([message, chunk].concat())
}

#[test]
fn the_client_seals_what_the_gateway_opens_and_opens_its_own_answer_alone() {
    let long = vec![5; 2 * CHUNK_LEN_MAX];
    for kem in [Kem::X25519, Kem::P256, Kem::MlKem768P256, Kem::XWing] {
        let (_, private) = PrivateKey::derive(provider(), kem, &[7; 32]).unwrap();
        let aeads = [Aead::Aes128Gcm, Aead::Aes256Gcm, Aead::ChaCha20Poly1305];
        let config = KeyConfig::new(9, private.public_key().clone(), &aeads).unwrap();
        let key = (private, config);
        for aead in aeads {
            let (client, sealed) = encapsulated(Form::Whole, &key.1, aead, &[b"message"]);
            let (request, message) = open(&key, &sealed).unwrap();
            assert_eq!(message, b"message");
            check_answer(Form::Whole, &request, &client, b"answer");
            let (client, sealed) = encapsulated(Form::Chunked, &key.1, aead, &[b"one", b"", &long, b""]);
            let (request, chunks) = open_chunks(&key, &sealed, 1000).unwrap();
            assert_eq!(chunks.concat(), [b"one", &long[..]].concat());
            check_answer(Form::Chunked, &request, &client, &long);
        }
        let other = KeyConfig::new(9, key.1.public_key().clone(), &[Aead::Aes128Gcm]).unwrap();
        let suite = key.1.suites().last().unwrap();
        let begun = ClientRequest::begin(provider(), Form::Whole, &other, suite);
        assert_eq!(begun.unwrap_err(), OhttpError::Config, "a suite that is not published");
    }
}

fn check_answer(form: Form, request: &Request, client: &ClientRequest, message: &[u8]) {
    let mut sealed = Vec::new();
    let nonce = vec![3; request.nonce_len()];
    request.answer(provider(), &nonce).unwrap().seal(&mut sealed, message, true).unwrap();
    assert_eq!(open_answer(form, client, &sealed).unwrap(), message);
    let last = sealed.len() - 1;
    for at in [0, nonce.len(), nonce.len() + 1, nonce.len() + 5, last] {
        let mut changed = sealed.clone();
        changed[at] ^= 1;
        assert!(open_answer(form, client, &changed).is_err(), "byte {at}");
        assert!(open_answer(form, client, &sealed[..at]).is_err(), "cut at {at}");
    }
    let longer = [&sealed[..], b"x"].concat();
    assert!(open_answer(form, client, &longer).is_err(), "a byte too many");
}

#[test]
fn the_form_is_that_of_the_media_type_without_its_parameters() {
    for (text, form) in [
        ("message/ohttp-req", Some(Form::Whole)),
        ("Message/OHTTP-Req; a=b", Some(Form::Whole)),
        ("message/ohttp-chunked-req ;x", Some(Form::Chunked)),
        ("message/ohttp-res", None),
        ("message/ohttp-reqs", None),
        ("", None),
    ] {
        assert_eq!(Form::of_type(text), form, "{text}");
    }
}

//! `ohttp`: any bytes as what follows the header and the encapsulated secret of a request, whole or in chunks. How a stream arrives does
//! not matter, and an honest one opens to what was sealed.
//!
//! Input: a byte that chooses the length of pieces, a byte with flags (1: in chunks, 2: sealed honestly), then the bytes.

use sealway_proto::crypto::agreement::AgreementProvider;
use sealway_proto::crypto::no_security::NoSecurity;
use sealway_proto::hpke::{Aead, Kem, PrivateKey, setup_sender_with};
use sealway_proto::ohttp::{CHUNK_LEN_MAX, Form, Header, OhttpError, Request};
use sealway_proto::one_shot::KeyConfig;

const HEADER: [u8; 7] = [1, 0, 0x20, 0, 1, 0, 2];

/// The fuzz target for encapsulated requests and chunks.
pub fn ohttp(data: &[u8]) {
    let [piece_len, flags, bytes @ ..] = data else { return };
    let provider: &dyn AgreementProvider = &NoSecurity;
    let key = PrivateKey::from_bytes(provider, Kem::X25519, &[7; 32]).expect("any 32 bytes are a key");
    let config = KeyConfig::new(1, key.public_key().clone(), &[Aead::Aes256Gcm]).expect("one suite");
    let header = Header::take(&mut &HEADER[..]).expect("seven bytes");
    let suite = header.suite_of(&config).expect("the suite is published");
    let form = if flags & 1 == 0 { Form::Whole } else { Form::Chunked };
    let label: &[u8] = if form == Form::Whole { b"message/bhttp request" } else { b"message/bhttp chunked request" };
    let info = [label, &[0], &HEADER].concat();
    let sender = setup_sender_with(provider, suite, key.public_key(), &info, None, &[3; 32]);
    let (enc, mut context) = sender.expect("the key is of the suite");
    let begin = || Request::begin(provider, form, (&header, suite), &key, &enc).expect("the secret is of the key");
    let is_honest = flags & 2 != 0;
    if form == Form::Whole {
        let mut sealed = if is_honest { context.seal(b"", bytes).expect("a first message") } else { bytes.to_vec() };
        let opened = begin().open(&mut sealed);
        assert!(!is_honest || (opened.is_ok() && sealed == bytes), "an honest request does not open");
        return;
    }
    let stream = if is_honest {
        let mut stream = Vec::new();
        for chunk in bytes.chunks(CHUNK_LEN_MAX) {
            let sealed = context.seal(b"", chunk).expect("a chunk");
            stream.extend_from_slice(&(0x8000_0000 | sealed.len() as u32).to_be_bytes());
            stream.extend_from_slice(&sealed);
        }
        stream.push(0);
        stream.extend_from_slice(&context.seal(b"final", b"").expect("the last chunk"));
        stream
    } else {
        bytes.to_vec()
    };
    let whole = read(&mut begin(), &stream, usize::MAX);
    let pieces = read(&mut begin(), &stream, usize::from(*piece_len).max(1));
    assert_eq!(whole, pieces, "pieces open to something else");
    assert!(!is_honest || whole.as_deref() == Ok(bytes), "an honest stream does not open");
}

fn read(request: &mut Request, stream: &[u8], piece_len: usize) -> Result<Vec<u8>, OhttpError> {
    let (mut opened, mut chunk) = (Vec::new(), Vec::new());
    for mut piece in stream.chunks(piece_len) {
        while request.read(&mut piece, &mut chunk)? {
            assert!(!chunk.is_empty() && chunk.len() <= CHUNK_LEN_MAX, "a chunk of {} bytes", chunk.len());
            opened.append(&mut chunk);
        }
        assert!(piece.is_empty(), "bytes were left");
    }
    request.end(&mut chunk)?;
    opened.append(&mut chunk);
    Ok(opened)
}

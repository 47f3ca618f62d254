//! `wire4-open`: the client seals a request of wire 4, an input changes its stream in transit and cuts it into pieces, and the server
//! opens it. `key-configs`: any bytes as a key configuration, a list of them, and a key document.
//!
//! Input of the first: a byte that is the length of pieces, a byte with flags (1: under a pre-shared key; 2: the other bits of the flags
//! flip a bit; 4: the stream is cut; 6: the plaintext is the stream), two bytes that say where, then the plaintext.

use std::sync::{Arc, OnceLock};

use sealway_proto::crypto::agreement::AgreementProvider;
use sealway_proto::crypto::no_security::NoSecurity;
use sealway_proto::exchange::{Exchange, Stream};
use sealway_proto::hpke::{Aead, Kem, PrivateKey};
use sealway_proto::one_shot::{ClientPsk, KeyConfig, KeyDocument, RecipientKey, seal};
use sealway_proto::session::Fresh;
use sealway_proto::session::native::{InnerHeaders, RequestLine};
use sealway_proto::wire::ReplayPolicy;

use crate::party::NOW_MS;

const LINE: RequestLine<'static> = RequestLine { method: "POST", target: "/pay?a=1" };
const PSK: [u8; 32] = [9; 32];

type Headers = Vec<(String, String)>;

struct Key {
    private: PrivateKey,
    config: KeyConfig,
    hash: [u8; 32],
}

impl RecipientKey for Key {
    fn private(&self) -> &PrivateKey {
        &self.private
    }

    fn hash(&self) -> &[u8; 32] {
        &self.hash
    }

    fn not_after_ms(&self) -> u64 {
        u64::MAX
    }
}

fn key() -> Arc<Key> {
    static KEY: OnceLock<Arc<Key>> = OnceLock::new();
    let made = KEY.get_or_init(|| {
        let private = PrivateKey::from_bytes(&NoSecurity, Kem::X25519, &[7; 32]).expect("any 32 bytes are a key");
        let config = KeyConfig::new(1, private.public_key().clone(), &[Aead::Aes256Gcm]).expect("one suite");
        let hash = config.hash(&NoSecurity);
        Arc::new(Key { private, config, hash })
    });
    Arc::clone(made)
}

/// Seals a plaintext in two frames. Returns the headers and the stream.
fn sealed(psk: Option<ClientPsk<'_>>, plaintext: &[u8]) -> (Headers, Vec<u8>) {
    let stamp = NOW_MS.to_string();
    let call = seal(&NoSecurity, &key().config, psk, LINE, "", (&stamp, "0123456789abcdef"), None);
    let mut call = call.expect("an honest call");
    let headers = call.headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let mut stream = call.prefix.clone();
    let (first, second) = plaintext.split_at(plaintext.len() / 2);
    let begun = call.sealer.begin(&mut stream);
    InnerHeaders::new().encode(&mut stream);
    stream.extend_from_slice(first);
    call.sealer.seal(&mut stream, begun, false).expect("a short frame");
    let begun = call.sealer.begin(&mut stream);
    stream.extend_from_slice(second);
    call.sealer.seal(&mut stream, begun, true).expect("a short frame");
    (headers, stream)
}

/// Opens a stream that arrives in pieces of this length. Returns the plaintext that was passed on, and whether it was whole; `None`
/// if nothing was.
fn opened(headers: &Headers, stream: &[u8], piece_len: usize) -> Option<(Vec<u8>, bool)> {
    let provider: &dyn AgreementProvider = &NoSecurity;
    let exchange = Exchange::begin(headers, LINE, NOW_MS, &ReplayPolicy::default(), |_| Ok(())).ok()?;
    let (opening, mut input) = exchange.key(key()).ok()?;
    let mut pieces = stream.chunks(piece_len);
    let mut piece: &[u8] = &[];
    let prefix = loop {
        if let Some(prefix) = input.take_prefix() {
            break prefix;
        }
        if piece.is_empty() {
            piece = pieces.next()?;
        }
        assert!(input.read(&mut piece).ok()?.is_none(), "a frame in front of the prefix");
    };
    let psk = prefix.psk_id.as_ref().map(|_| PSK);
    let opening = opening.open(provider, &prefix, psk.as_ref(), &mut input, NOW_MS).ok()?;
    let mut next = |input: &mut Stream| loop {
        if piece.is_empty() {
            match pieces.next() {
                None => return input.end(),
                Some(more) => piece = more,
            }
        }
        if let Some(found) = input.read(&mut piece)? {
            return Ok(Some(found));
        }
    };
    let first = next(&mut input).ok()??;
    let opened = opening.open(provider, first, &mut |_| ()).ok()?;
    let fresh = Fresh::reserved(opened.claim());
    let mut plaintext = opened.release(fresh).expect("its own reservation").first.as_slice().to_vec();
    while !input.is_done() {
        match next(&mut input) {
            Ok(Some(piece)) => plaintext.extend_from_slice(&piece.bytes),
            Ok(None) => {}
            Err(_) => return Some((plaintext, false)),
        }
    }
    Some((plaintext, piece.is_empty() && pieces.next().is_none()))
}

/// The fuzz target for requests of wire 4.
pub fn wire4_open(data: &[u8]) {
    let [piece_len, flags, high, low, plaintext @ ..] = data else { return };
    let psk = (flags & 1 != 0).then_some(ClientPsk { id: "partner-7", key: &PSK });
    let (headers, honest) = sealed(psk, plaintext);
    let at = usize::from(u16::from_be_bytes([*high, *low])) % honest.len();
    let mut stream = honest.clone();
    match flags & 6 {
        2 => stream[at] ^= 1 << (flags >> 5),
        4 => stream.truncate(at),
        6 => stream = plaintext.to_vec(),
        _ => {}
    }
    let whole = opened(&headers, &stream, stream.len().max(1));
    assert_eq!(
        whole,
        opened(&headers, &stream, usize::from(*piece_len).max(1)),
        "the cut of a stream makes a difference"
    );
    if stream == honest {
        assert_eq!(whole, Some((plaintext.to_vec(), true)), "an honest request is refused");
    } else if let Some((found, is_whole)) = whole {
        assert!(!is_whole, "a changed stream is whole");
        assert!(flags & 6 == 6 || plaintext.starts_with(&found), "a changed stream opens to something else");
    }
}

/// The fuzz target for key configurations and key documents.
pub fn key_configs(data: &[u8]) {
    let provider: &dyn AgreementProvider = &NoSecurity;
    if let Ok(config) = KeyConfig::decode(provider, data) {
        assert_eq!(config.encode(), data, "a configuration has one encoding");
    }
    if let Ok(list) = KeyConfig::decode_list(provider, data) {
        let again = KeyConfig::encode_list(&list).expect("what was read can be written");
        assert_eq!(KeyConfig::decode_list(provider, &again), Ok(list), "a list is read as another one");
    }
    if let Ok(document) = KeyDocument::parse(provider, data) {
        let again = KeyDocument::parse(provider, document.encode().as_bytes());
        assert_eq!(again.as_ref(), Ok(&document), "what was written is read");
    }
}

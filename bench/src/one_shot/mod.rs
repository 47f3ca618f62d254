//! Requests without a session in this process: a request of 1 KiB opened and answered beside the bare decapsulation of its KEM and
//! bare AES-GCM.
//!
//! The steps are those of the gateway between the request that it received and the answer that it sends, without HTTP, threads and the
//! store.

mod bare;
pub(crate) mod rejections;

use std::hint::black_box;
use std::sync::Arc;

use sealway_proto::bhttp::{Control, Event, Field, Head, Reader, Writer};
use sealway_proto::crypto::RandomPool;
use sealway_proto::crypto::agreement::{AgreementProvider, default_agreement_provider};
use sealway_proto::ehbp::{self, Frames, RequestKey, parse_encapsulated_key};
use sealway_proto::exchange::{AnswerSeal, Exchange, FrameSeal};
use sealway_proto::hpke::{Aead, Kem, PrivateKey, Suite};
use sealway_proto::ohttp::{self, Form, Header};
use sealway_proto::one_shot::{ClientPsk, KeyConfig, RecipientKey, seal};
use sealway_proto::session::native::{InnerHeaders, RequestLine};
use sealway_proto::session::{Claim, Fresh, SealRandoms};
use sealway_proto::wire::ReplayPolicy;

use self::bare::Bare;
use crate::crypto::compare;
use crate::table::{us, verdict};

const NOW: u64 = 1_800_000_000_000;
const LEN: usize = 1024;
const LINE: RequestLine<'static> = RequestLine { method: "POST", target: "/pay" };
const PSK_ID: &str = "partner-7";
/// The secret of which the server derives the pre-shared key of each name.
const MASTER: [u8; 32] = [9; 32];
/// Most time of a request: the bare operations this many times, and the microseconds.
const GOAL: (f64, f64) = (1.2, 15.0);

/// A key of the server and its configuration.
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
        NOW + 1
    }
}

impl Key {
    fn new(suite: Suite) -> anyhow::Result<Arc<Key>> {
        let (_, private) = PrivateKey::derive(provider(), suite.kem, &[3; 32])?;
        let config = KeyConfig::new(1, private.public_key().clone(), &[suite.aead])?;
        let hash = config.hash(provider());
        Ok(Arc::new(Key { private, config, hash }))
    }
}

fn provider() -> &'static dyn AgreementProvider {
    default_agreement_provider()
}

pub(crate) fn run() -> anyhow::Result<()> {
    println!(
        "## Requests without a session: 1 KiB opened and answered (CPU, median of rounds that take turns; goal: bare × {} + {} µs)\n",
        GOAL.0, GOAL.1
    );
    println!("| request | bare µs | ours µs | more µs | goal µs | |");
    println!("| --- | ---: | ---: | ---: | ---: | --- |");
    let mut missed = Vec::new();
    let mut row = |name: String, suite: Suite, mut ours: Box<dyn FnMut()>| {
        let mut bare = Bare::new(suite, &[0x61; LEN]);
        let (floor, ours) = compare(50, || bare.run(), &mut ours);
        let goal = floor * GOAL.0 + GOAL.1 * 1000.0;
        let more = ours - floor;
        println!("| {name} | {} | {} | {} | {} | {} |", us(floor), us(ours), us(more), us(goal), verdict(ours, goal));
        if ours > goal {
            missed.push(name);
        }
    };
    for (kem, name) in
        [(Kem::X25519, "X25519"), (Kem::P256, "P-256"), (Kem::XWing, "X-Wing"), (Kem::MlKem768P256, "MLKEM768-P256")]
    {
        let suite = Suite { kem, aead: Aead::Aes256Gcm };
        for (mode, is_psk) in [("base", false), ("psk", true)] {
            row(format!("wire 4, {name}, {mode}"), suite, Box::new(wire4(suite, is_psk)?));
        }
    }
    row("EHBP, X25519".into(), ehbp::SUITE, Box::new(ehbp()?));
    let suite = Suite { kem: Kem::X25519, aead: Aead::Aes128Gcm };
    for (name, form) in [("whole", Form::Whole), ("in chunks", Form::Chunked)] {
        row(format!("Oblivious HTTP, X25519, {name}"), suite, Box::new(ohttp(suite, form)?));
    }
    let missed = if missed.is_empty() { "nothing".into() } else { missed.join("; ") };
    println!("\nOver the goal: {missed}.\n");
    Ok(())
}

/// The key that a server derives of its master for a name.
fn psk() -> [u8; 32] {
    *provider().hkdf_sha256(PSK_ID.as_bytes(), &MASTER, &[b"sealway/4 psk"]).unwrap()
}

fn wire4(suite: Suite, is_psk: bool) -> anyhow::Result<impl FnMut()> {
    let (key, plaintext) = (Key::new(suite)?, [0x61; LEN]);
    let shared = psk();
    let client = is_psk.then_some(ClientPsk { id: PSK_ID, key: &shared });
    let (stamp, content_type) = (NOW.to_string(), FrameSeal::CONTENT_TYPE);
    let call = seal(provider(), &key.config, client, LINE, content_type, (&stamp, "0123456789abcdef"), None)?;
    let mut headers: Vec<(String, String)> =
        call.headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    headers.push(("content-type".into(), content_type.into()));
    let mut inner = InnerHeaders::new();
    inner.push("content-type", b"application/json")?;
    let body = [call.prefix, FrameSeal::one_frame(call.sealer, &inner, &plaintext)?].concat();
    let (policy, mut pool) = (ReplayPolicy::default(), RandomPool::new());
    Ok(move || {
        let exchange = Exchange::begin(&headers, LINE, NOW, &policy, |_| Ok(())).unwrap();
        let (opening, mut stream) = exchange.key(key.clone()).unwrap();
        let mut input = body.as_slice();
        assert!(stream.read(&mut input).unwrap().is_none());
        let prefix = stream.take_prefix().unwrap();
        let shared = prefix.psk_id.is_some().then(psk);
        let opening = opening.open(provider(), &prefix, shared.as_ref(), &mut stream, NOW).unwrap();
        assert!(stream.read(&mut input).unwrap().is_none());
        let first = stream.end().unwrap().unwrap();
        let opened = opening.open(provider(), first, &mut |_| ()).unwrap();
        let fresh = Fresh::reserved(opened.claim());
        let plain = opened.release(fresh).unwrap();
        assert_eq!(plain.first.as_slice(), plaintext);
        let Ok(AnswerSeal::Frames(seal)) = plain.reply.answer(200, false) else { unreachable!("wire 4 has frames") };
        let randoms = SealRandoms::from_pool(provider(), &mut pool).unwrap();
        let (headers, sealer) = seal.begin(provider(), NOW, &randoms).unwrap();
        black_box((headers, FrameSeal::one_frame(sealer, &inner, &plaintext).unwrap()));
    })
}

fn ehbp() -> anyhow::Result<impl FnMut()> {
    let (key, plaintext) = (Key::new(ehbp::SUITE)?, [0x61; LEN]);
    let mut client = ehbp::ClientRequest::begin(provider(), key.private.public_key())?;
    let (header, body) = (client.encapsulated_key(), client.seal(&plaintext)?);
    Ok(move || {
        let enc = parse_encapsulated_key(header.as_bytes()).unwrap();
        let mut frames = Frames::new(LEN);
        frames.push(&body);
        let first = frames.next_ciphertext().unwrap().unwrap();
        let tried = RequestKey { private: &key.private, hash: &key.hash, accepted_ms: (0, key.not_after_ms()) };
        let (_, opened) = ehbp::open(provider(), [tried], &enc, &first, NOW).unwrap();
        assert!(frames.next_ciphertext().unwrap().is_none());
        frames.finish().unwrap();
        let fresh = Fresh::reserved(opened.claim());
        let (opened, opener) = opened.release(fresh).unwrap().into_parts();
        assert_eq!(*opened, plaintext);
        let mut nonce = [0; 32];
        provider().fill_random(&mut nonce).unwrap();
        let mut sealer = opener.answer(provider(), nonce).unwrap();
        black_box((sealer.nonce(), sealer.seal(&plaintext).unwrap()));
    })
}

/// Writes a message of the plaintext.
fn message(control: Control, plaintext: &[u8]) -> Vec<u8> {
    let (mut out, mut writer) = (Vec::with_capacity(plaintext.len() + 256), Writer::known(plaintext.len() as u64));
    let head = Head { control, fields: vec![Field::new("content-type", "application/json")] };
    writer.head(&mut out, &head).unwrap();
    writer.content(&mut out, plaintext).unwrap();
    writer.end(&mut out, &[]).unwrap();
    out
}

fn ohttp(suite: Suite, form: Form) -> anyhow::Result<impl FnMut()> {
    let (key, plaintext) = (Key::new(suite)?, [0x61; LEN]);
    let (method, scheme) = ("POST".into(), "https".into());
    let control = Control::Request { method, scheme, authority: "service.example".into(), path: "/pay".into() };
    let mut client = ohttp::ClientRequest::begin(provider(), form, &key.config, suite)?;
    let mut body = Vec::new();
    client.seal(&mut body, &message(control, &plaintext), true)?;
    let scope = key.config.key_hash(provider());
    Ok(move || {
        let mut rest = body.as_slice();
        let header = Header::take(&mut rest).unwrap();
        let suite = header.suite_of(&key.config).unwrap();
        let (enc, mut rest) = rest.split_at(header.enc_len().unwrap());
        let mut request = ohttp::Request::begin(provider(), form, (&header, suite), &key.private, enc).unwrap();
        let mut opened = Vec::new();
        if form == Form::Whole {
            opened.extend_from_slice(rest);
            request.open(&mut opened).unwrap();
        } else {
            assert!(!request.read(&mut rest, &mut opened).unwrap(), "one chunk, the last");
            request.end(&mut opened).unwrap();
        }
        let (mut reader, mut input, mut content) = (Reader::request(LEN as u64), opened.as_slice(), Vec::new());
        while let Some(event) = reader.read(&mut input).unwrap() {
            if let Event::Content(piece) = event {
                content.extend_from_slice(piece);
            }
        }
        assert!(reader.end().unwrap().is_none());
        assert_eq!(content, plaintext);
        black_box(Claim::of_key(provider(), &scope, request.enc(), (0, key.not_after_ms()), NOW).unwrap());
        let mut nonce = vec![0; request.nonce_len()];
        provider().fill_random(&mut nonce).unwrap();
        let (mut answer, mut sealed) = (request.answer(provider(), &nonce).unwrap(), Vec::new());
        answer.seal(&mut sealed, &message(Control::Answer(200), &content), true).unwrap();
        black_box(sealed);
    })
}

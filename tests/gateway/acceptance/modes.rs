//! Requests of each one-shot mode, sealed once and kept as bytes, and the state that opens their answers.

use std::io::Cursor;
use std::net::SocketAddr;

use sealway_proto::crypto::agreement::AgreementProvider;
use sealway_proto::crypto::default_provider;
use sealway_proto::ehbp::SUITE;
use sealway_proto::hpke::{Context, Sender, setup_sender};
use sealway_proto::ohttp::Form;
use sealway_proto::one_shot::{ClientPsk, KeyConfig, KeyDocument, seal};
use sealway_proto::session::native::{InnerHeaders, PendingAnswer, Read, RequestLine};
use sealway_runtime::clock::http_date;
use sealway_testkit::raw_http::{Answer, Request};
use sealway_testkit::wire_client::nonce;

use crate::ohttp::message;

/// The master of pre-shared keys.
pub(super) const MASTER: [u8; 32] = [7; 32];
const PSK_ID: &str = "partner-7";
const TYPE: &str = "application/octet-stream";
const TAG_LEN: usize = 16;

/// A one-shot mode, and the variant of it that a request has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Wire 4 without a pre-shared key.
    Base,
    /// Wire 4 with a pre-shared key.
    Psk,
    Ehbp,
    /// Oblivious HTTP in one piece, without a `Date`.
    Whole,
    WholeDated,
    /// Oblivious HTTP in chunks, without a `Date`.
    Chunks,
    ChunksDated,
}

impl Mode {
    pub(super) const ALL: [Mode; 7] =
        [Mode::Base, Mode::Psk, Mode::Ehbp, Mode::Whole, Mode::WholeDated, Mode::Chunks, Mode::ChunksDated];

    pub(super) fn is_oblivious(self) -> bool {
        !matches!(self, Mode::Base | Mode::Psk | Mode::Ehbp)
    }

    /// Returns whether a stamp under the seal bounds the time in which a request is served.
    pub(super) fn is_stamped(self) -> bool {
        !matches!(self, Mode::Ehbp | Mode::Whole | Mode::Chunks)
    }
}

/// The keys that a gateway publishes, as a client caches them.
pub(super) struct PublishedKeys {
    hpke: KeyDocument,
    ohttp: Vec<KeyConfig>,
    ehbp: KeyConfig,
}

impl PublishedKeys {
    pub(super) fn fetch(from: SocketAddr) -> PublishedKeys {
        let get = |path: &str| {
            let answer = Request::get(path).send(from).unwrap();
            assert_eq!(answer.status, 200, "{path}: {}", answer.text());
            answer.body
        };
        PublishedKeys {
            hpke: KeyDocument::parse(default_provider(), &get("/.well-known/sealway-hpke-keys")).unwrap(),
            ohttp: KeyConfig::decode_list(default_provider(), &get("/ohttp-keys")).unwrap(),
            ehbp: KeyConfig::decode(default_provider(), &get("/.well-known/hpke-keys")).unwrap(),
        }
    }

    /// Returns the keys that a client seals to at this time. Clients differ in the KEMs that they have, and so in the keys that they pick.
    pub(super) fn choose(&self, now_ms: u64, pick: usize) -> Keys {
        let in_use: Vec<_> = self.hpke.keys.iter().filter(|key| key.is_in_use(now_ms)).collect();
        Keys {
            hpke: KeyConfig::decode(default_provider(), &in_use[pick % in_use.len()].config).unwrap(),
            ohttp: self.ohttp[pick % self.ohttp.len()].clone(),
            ehbp: self.ehbp.clone(),
        }
    }
}

/// The key of each use that a client has chosen.
pub(super) struct Keys {
    pub(super) hpke: KeyConfig,
    pub(super) ohttp: KeyConfig,
    pub(super) ehbp: KeyConfig,
}

/// A sealed request, which a test may change.
pub(super) struct Message {
    pub(super) mode: Mode,
    pub(super) path: &'static str,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    opener: Opener,
}

/// The state that opens an answer.
enum Opener {
    Stream(PendingAnswer<'static>),
    Context(Context<Sender>, Vec<u8>),
}

/// An answer that has opened whole.
#[derive(Debug)]
pub(super) struct OpenedAnswer {
    pub(super) status: u16,
    /// Number of frames or chunks.
    pub(super) frames: usize,
    pub(super) content: Vec<u8>,
}

impl Keys {
    /// Returns the key configuration for a mode.
    pub(super) fn of(&self, mode: Mode) -> &KeyConfig {
        match mode {
            Mode::Base | Mode::Psk => &self.hpke,
            Mode::Ehbp => &self.ehbp,
            _ => &self.ohttp,
        }
    }

    /// Seals a request whose content comes in these parts, a frame or chunk each. The service answers with the content.
    pub(super) fn seal(&self, mode: Mode, parts: &[&[u8]], now_ms: u64) -> Message {
        match mode {
            Mode::Base | Mode::Psk => self.wire_4(mode, parts, now_ms),
            Mode::Ehbp => self.ehbp(parts),
            _ => self.oblivious(mode, parts, now_ms),
        }
    }

    fn wire_4(&self, mode: Mode, parts: &[&[u8]], now_ms: u64) -> Message {
        let path = "/pay";
        let key = default_provider().hkdf_sha256(PSK_ID.as_bytes(), &MASTER, &[b"sealway/4 psk"]).unwrap();
        let psk = (mode == Mode::Psk).then_some(ClientPsk { id: PSK_ID, key: &key });
        let (line, stamp) = (RequestLine { method: "POST", target: path }, now_ms.to_string());
        let mut call = seal(default_provider(), &self.hpke, psk, line, TYPE, (&stamp, &nonce()), None).unwrap();
        let mut body = call.prefix.clone();
        let parts = if parts.is_empty() { &[&b""[..]] } else { parts };
        for (index, part) in parts.iter().enumerate() {
            let begun = call.sealer.begin(&mut body);
            if index == 0 {
                InnerHeaders::new().encode(&mut body);
            }
            body.extend_from_slice(part);
            call.sealer.seal(&mut body, begun, index + 1 == parts.len()).unwrap();
        }
        let mut headers: Vec<_> = call.headers.iter().map(|(name, value)| ((*name).into(), value.clone())).collect();
        headers.push(("content-type".into(), TYPE.into()));
        Message { mode, path, headers, body, opener: Opener::Stream(call.pending) }
    }

    fn ehbp(&self, parts: &[&[u8]]) -> Message {
        let public = self.ehbp.public_key();
        let (enc, mut context) = setup_sender(default_provider(), SUITE, public, b"ehbp request", None).unwrap();
        let frames = parts.iter().flat_map(|part| {
            let sealed = context.seal(&[], part).unwrap();
            [&u32::try_from(sealed.len()).unwrap().to_be_bytes()[..], &sealed].concat()
        });
        let body = frames.collect();
        let headers = vec![("Ehbp-Encapsulated-Key".into(), hex(&enc))];
        Message { mode: Mode::Ehbp, path: "/v1/echo", headers, body, opener: Opener::Context(context, enc) }
    }

    fn oblivious(&self, mode: Mode, parts: &[&[u8]], now_ms: u64) -> Message {
        let form = form_of(mode);
        let date = http_date(now_ms);
        let headers = mode.is_stamped().then_some(("date", date.as_bytes()));
        let control = ["POST", "https", "api.example", "/echo"];
        let plaintext = message(control, headers.as_slice(), &parts.concat());
        let suite = self.ohttp.suites().next().unwrap();
        let ids = [suite.kem.id(), 1, suite.aead.id()].map(u16::to_be_bytes).concat();
        let header = [&[self.ohttp.key_id()][..], &ids].concat();
        let info = [label(form, "request"), &[0], &header].concat();
        let (enc, mut context) = setup_sender(default_provider(), suite, self.ohttp.public_key(), &info, None).unwrap();
        let mut body = [&header[..], &enc].concat();
        if form == Form::Whole {
            body.extend(context.seal(&[], &plaintext).unwrap());
        } else {
            // The head goes with the first part, and the empty trailers with the last.
            let (mut rest, mut len) = (&plaintext[..], plaintext.len() - parts.concat().len() - 1);
            for part in parts.get(..parts.len().saturating_sub(1)).unwrap_or_default() {
                let (chunk, behind) = rest.split_at(len + part.len());
                let sealed = context.seal(&[], chunk).unwrap();
                body.extend((0x8000_0000 | u32::try_from(sealed.len()).unwrap()).to_be_bytes());
                body.extend(sealed);
                (rest, len) = (behind, 0);
            }
            body.push(0);
            body.extend(context.seal(b"final", rest).unwrap());
        }
        let headers = vec![("Content-Type".into(), form.request_type().into())];
        Message { mode, path: "/gateway", headers, body, opener: Opener::Context(context, enc) }
    }
}

fn form_of(mode: Mode) -> Form {
    if matches!(mode, Mode::Chunks | Mode::ChunksDated) { Form::Chunked } else { Form::Whole }
}

fn label(form: Form, of: &str) -> &'static [u8] {
    match (form, of) {
        (Form::Whole, "request") => b"message/bhttp request",
        (Form::Whole, _) => b"message/bhttp response",
        (Form::Chunked, "request") => b"message/bhttp chunked request",
        (Form::Chunked, _) => b"message/bhttp chunked response",
    }
}

impl Message {
    pub(super) fn request(&self) -> Request {
        let request = Request::post(self.path, self.body.clone()).header("Connection", "keep-alive");
        self.headers.iter().fold(request, |request, (name, value)| request.header(name, value))
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.request().bytes()
    }

    /// Returns the status of an answer: of Oblivious HTTP the one inside, if there is one.
    pub(super) fn status(&self, answer: &Answer) -> u16 {
        let is_inside = answer.header("content-type") == Some(form_of(self.mode).answer_type());
        if !self.mode.is_oblivious() || !is_inside {
            return answer.status;
        }
        let opened = self.open(answer).unwrap_or_else(|| panic!("an answer in mode {:?} does not open", self.mode));
        opened.status
    }

    /// Opens an answer; `None` unless it opens whole.
    pub(super) fn open(&self, answer: &Answer) -> Option<OpenedAnswer> {
        match &self.opener {
            Opener::Stream(pending) => open_stream(pending, answer),
            Opener::Context(context, enc) if self.mode == Mode::Ehbp => open_ehbp(context, enc, answer),
            Opener::Context(context, enc) => open_oblivious(form_of(self.mode), context, enc, &answer.body),
        }
    }
}

fn open_stream(pending: &PendingAnswer<'static>, answer: &Answer) -> Option<OpenedAnswer> {
    let lower = |(name, value): &(String, String)| (name.to_ascii_lowercase(), value.clone());
    let headers: Vec<(String, String)> = answer.headers.iter().map(lower).collect();
    let (sealed, mut opener) = pending.open(default_provider(), &headers, answer.status).ok()?;
    let sealed = sealed.unwrap_or_else(|| answer.body.clone());
    let (mut input, mut frame, mut all, mut frames) = (sealed.as_slice(), Vec::new(), Vec::new(), 0);
    while !input.is_empty() {
        if opener.read(&mut input, &mut frame).ok()? != Read::More {
            frames += 1;
            all.append(&mut frame);
        }
    }
    opener.end().ok()?;
    let (_, from) = InnerHeaders::parse(&all).ok()?;
    Some(OpenedAnswer { status: answer.status, frames, content: all.split_off(from) })
}

fn open_ehbp(context: &Context<Sender>, enc: &[u8], answer: &Answer) -> Option<OpenedAnswer> {
    let nonce = unhex(answer.header("ehbp-response-nonce")?)?;
    let provider = default_provider();
    let mut secret = [0; 32];
    context.export(provider, b"ehbp response", &mut secret).unwrap();
    let salt = [enc, &nonce].concat();
    let key = provider.aes256_gcm(&provider.hkdf_sha256(&secret, &salt, &[b"key"]).unwrap()).unwrap();
    let base: [u8; 12] = *provider.hkdf_sha256(&secret, &salt, &[b"nonce"]).unwrap().first_chunk().unwrap();
    let (mut rest, mut frames, mut content) = (&answer.body[..], 0, Vec::new());
    while !rest.is_empty() {
        let (len, behind) = rest.split_first_chunk::<4>()?;
        let (sealed, behind) = behind.split_at_checked(u32::from_be_bytes(*len) as usize)?;
        let mut frame = sealed.to_vec();
        key.open_in_place(&iv_of(base, frames), &[], &mut frame).ok()?;
        content.extend_from_slice(&frame[..frame.len() - TAG_LEN]);
        (rest, frames) = (behind, frames + 1);
    }
    Some(OpenedAnswer { status: answer.status, frames, content })
}

fn open_oblivious(form: Form, context: &Context<Sender>, enc: &[u8], sealed: &[u8]) -> Option<OpenedAnswer> {
    let (nonce, mut rest) = sealed.split_at_checked(TAG_LEN)?;
    let provider: &dyn AgreementProvider = default_provider();
    let mut secret = [0; 16];
    context.export(provider, label(form, "response"), &mut secret).unwrap();
    let prk = provider.mac_key(provider.hmac_sha256(&[enc, nonce].concat(), &[&secret]).as_slice());
    let key = provider.aes128_gcm(prk.mac(&[b"key", &[1]]).first_chunk().unwrap()).unwrap();
    let base: [u8; 12] = *prk.mac(&[b"nonce", &[1]]).first_chunk().unwrap();
    let (mut plaintext, mut frames) = (Vec::new(), 0);
    loop {
        let len = if form == Form::Whole { 0 } else { take_varint(&mut rest)? };
        let is_last = len == 0;
        let (chunk, behind) = rest.split_at_checked(if is_last { rest.len() } else { len })?;
        let (mut chunk, aad) = (chunk.to_vec(), if is_last && form == Form::Chunked { &b"final"[..] } else { b"" });
        key.open_in_place(&iv_of(base, frames), aad, &mut chunk).ok()?;
        plaintext.extend_from_slice(&chunk[..chunk.len() - TAG_LEN]);
        (rest, frames) = (behind, frames + 1);
        if is_last {
            break;
        }
    }
    let inner = bhttp::Message::read_bhttp(&mut Cursor::new(plaintext)).unwrap();
    let status = inner.control().status().unwrap().code();
    Some(OpenedAnswer { status, frames, content: inner.content().to_vec() })
}

fn take_varint(rest: &mut &[u8]) -> Option<usize> {
    let len = 1 << (rest.first()? >> 6);
    let (bytes, behind) = rest.split_at_checked(len)?;
    *rest = behind;
    Some(bytes.iter().fold(0, |value, byte| value << 8 | usize::from(*byte)) & ((1 << (8 * len - 2)) - 1))
}

fn iv_of(mut base: [u8; 12], number: usize) -> [u8; 12] {
    base.iter_mut().skip(4).zip((number as u64).to_be_bytes()).for_each(|(to, from)| *to ^= from);
    base
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect()
}

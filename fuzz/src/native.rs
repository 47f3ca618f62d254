//! `wire3-open`: the client seals a request of wire 3, an input edits it in transit and cuts it into pieces, and the server opens
//! it. `wire3-json`: any text as each JSON message of wire 3.
//!
//! Input of the first: method, target, stamp, nonce, a line each; a line of numbers, the lengths of frames; a line of numbers,
//! the lengths of pieces; lines of edits; an empty line; the plaintext.

use std::sync::{Arc, OnceLock};

use sealway_proto::crypto::agreement::AgreementProvider;
use sealway_proto::crypto::identity::{IdentityPublic, SchemePublic, SignatureAlgorithm};
use sealway_proto::crypto::no_security::NoSecurity;
use sealway_proto::session::native::{
    ClientInit, ClientOffer, ClientSession, InitAnswer, InitProofs, InitRequest, InnerHeaders, KeyId, KeySet, Opening,
    Problem, Read, RequestLine, SealedRequest, ServerRandoms, ShareKey, Suite, Terms, agree,
};
use sealway_proto::session::{Auth, Fresh, Session};
use sealway_proto::wire::header::X_IDEMPOTENCY_KEY;
use sealway_proto::wire::{Field, Headers, ReplayPolicy};

use crate::input::{Message, owned, script};
use crate::json;
use crate::party::{CLIENT_ID, NOW_MS, no_laps};

/// The longest stream that is tried, in frames: longer streams cover no more code.
const FRAMES_MAX: usize = 8;

struct AnySignature;

impl SchemePublic for AnySignature {
    fn verify(&self, _: &[u8], _: &[u8]) -> bool {
        true
    }
}

/// Returns both ends of a session, which is the same in every run.
pub(crate) fn party() -> &'static (ClientSession, Arc<Session>) {
    static PARTY: OnceLock<(ClientSession, Arc<Session>)> = OnceLock::new();
    PARTY.get_or_init(|| {
        let provider: &dyn AgreementProvider = &NoSecurity;
        let offer = ClientOffer {
            suites: vec![Suite::P256],
            client_id: CLIENT_ID.into(),
            ttl_sec: None,
            pinned_key_ids: Vec::new(),
            signature_algorithms: Vec::new(),
            credential: None,
        };
        let share = ShareKey::generate(provider, Suite::P256).expect("a share");
        let init = ClientInit::new(offer, share, None).expect("an honest offer");
        let request = InitRequest::parse(init.body().as_bytes()).expect("an honest init is read");
        let key_id = KeyId::parse("00112233445566778899aabbccddeeff").expect("a key id");
        let terms = Terms {
            suites: vec![Suite::P256],
            expires_in_sec: 1800,
            key_id,
            key_ids: vec![key_id],
            auth: Auth::None,
            subject: None,
            tenant: None,
            credential: None,
        };
        let agreed = agree(provider, &request, terms, None, &[3; 16], ServerRandoms::Draw, NOW_MS, &mut no_laps);
        let (answer, session) = agreed.expect("agreed").signed(provider, vec![0; 64]).expect("signed");
        let key = IdentityPublic::from_parts(SignatureAlgorithm::Es256, vec![Box::new(AnySignature)]);
        let client = init.finish(provider, Some(&key), answer.as_bytes());
        (client.expect("an honest answer is taken"), Arc::new(session))
    })
}

/// A stream that a server opened: its inner headers and the plaintext of each frame.
struct OpenStream {
    headers: InnerHeaders,
    /// Plaintexts of the frames; the first one without the inner headers.
    frames: Vec<Vec<u8>>,
}

/// The fuzz target for requests of wire 3.
pub fn wire3_open(data: &[u8]) {
    let Some(input) = script(data) else { return };
    let mut lines = input.lines.into_iter();
    let mut next = || lines.next().unwrap_or_default();
    let (method, target, stamp, nonce) = (next(), next(), next(), next());
    let numbers = |line: &str| -> Vec<usize> { line.split(' ').filter_map(|word| word.parse().ok()).collect() };
    let (cuts, pieces) = (numbers(next()), numbers(next()));
    let mut inner = InnerHeaders::new();
    inner.push("content-type", b"application/json").expect("a header that may be there");

    let mut frames = Vec::new();
    let mut rest = input.body;
    for cut in cuts.into_iter().take(FRAMES_MAX) {
        let (frame, behind) = rest.split_at_checked(cut).unwrap_or((rest, &[]));
        if !frame.is_empty() && !behind.is_empty() && frame.len() <= 60_000 {
            frames.push(frame.to_vec());
            rest = behind;
        }
    }
    if rest.len() > 60_000 {
        return;
    }
    frames.push(rest.to_vec());
    let line = RequestLine { method, target };
    let honest_opened = OpenStream { headers: inner, frames };
    let honest = seal(line, "application/octet-stream", stamp, nonce, &honest_opened);
    let mut sent = honest.clone();
    lines.for_each(|line| sent.edit(line));

    let opened = open(method, &sent, &pieces);
    if sent == honest {
        // Digits alone: `parse` would take a sign.
        let is_stamped_now = stamp == NOW_MS.to_string();
        assert!(
            opened.is_some() || !is_stamped_now || !is_nonce(nonce) || target.len() > 8192,
            "an honest request is refused"
        );
    }
    let Some(opened) = opened else { return };
    // An opened stream is byte for byte what the client seals under these header values, frame by frame.
    let (stamp, nonce) = sent.header(X_IDEMPOTENCY_KEY).split_once('.').expect("the key was split");
    assert!(!nonce.to_ascii_lowercase().starts_with("r-"), "a nonce of an answer opened as a request");
    let content_type = match sent.headers.field("content-type") {
        Field::Value(value) => value,
        _ => "",
    };
    let again = seal(RequestLine { method, target: &sent.path }, content_type, stamp, nonce, &opened);
    assert_eq!(again.body, sent.body, "the stream is not what was sealed");
}

fn is_nonce(nonce: &str) -> bool {
    (16..=128).contains(&nonce.len())
        && nonce.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        && !nonce.to_ascii_lowercase().starts_with("r-")
}

fn seal(line: RequestLine<'_>, content_type: &str, stamp: &str, nonce: &str, what: &OpenStream) -> Message {
    let call = party().0.seal_as(&NoSecurity, line, content_type, stamp, nonce).expect("sealing does not fail");
    let (mut sealer, mut body) = (call.sealer, Vec::new());
    for (number, frame) in what.frames.iter().enumerate() {
        let begun = sealer.begin(&mut body);
        if number == 0 {
            what.headers.encode(&mut body);
        }
        body.extend_from_slice(frame);
        sealer.seal(&mut body, begun, number + 1 == what.frames.len()).expect("a frame that may be");
    }
    let mut headers = owned(&call.headers);
    headers.push(("content-type".into(), content_type.into()));
    Message { headers, path: line.target.into(), status: 0, now_ms: NOW_MS, body }
}

/// Opens a request whose body is cut into pieces in several ways, and checks that the outcome is the same.
fn open(method: &str, sent: &Message, pieces: &[usize]) -> Option<OpenStream> {
    let line = RequestLine { method, target: &sent.path };
    let request = SealedRequest::parse(&sent.headers, line).ok()?;
    let whole = read(&request, sent, &[]);
    let cut = read(&request, sent, pieces);
    assert_eq!(whole.is_some(), cut.is_some(), "the cut of a body makes a difference");
    whole
}

fn read(request: &SealedRequest<'_>, sent: &Message, pieces: &[usize]) -> Option<OpenStream> {
    let opened = request.open(&NoSecurity, Arc::clone(&party().1), sent.now_ms, &ReplayPolicy::default());
    let (mut opener, opening) = opened.ok()?;
    let mut frames: Vec<Vec<u8>> = Vec::new();
    let (mut frame, mut rest) = (Vec::new(), sent.body.as_slice());
    let mut sizes = pieces.iter().copied().chain(std::iter::repeat(usize::MAX));
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at_checked(sizes.next()?).unwrap_or((rest, &[]));
        rest = behind;
        let mut piece = piece;
        while !piece.is_empty() {
            match opener.read(&mut piece, &mut frame).ok()? {
                Read::More => {}
                Read::Frame | Read::Last => frames.push(std::mem::take(&mut frame)),
            }
        }
    }
    opener.end().ok()?;
    let first = std::mem::take(frames.first_mut()?);
    let (headers, first) = release(opening, first)?;
    *frames.first_mut()? = first;
    Some(OpenStream { headers, frames })
}

/// Releases the first frame with its own reservation, and returns its inner headers and plaintext.
fn release(opening: Opening, first: Vec<u8>) -> Option<(InnerHeaders, Vec<u8>)> {
    let unreplayed = opening.first(first).ok()?;
    assert!(unreplayed.claim().is_sealed());
    let fresh = Fresh::reserved(unreplayed.claim());
    let opened = unreplayed.release(fresh).expect("its own reservation");
    let (frame, at) = opened.first;
    Some((opened.headers, frame.get(at..)?.to_vec()))
}

/// Parses any text as an init, an init answer, a key set and a problem. An accepted message encodes to text that parses to the
/// same message.
pub fn wire3_json(data: &[u8]) {
    if let Ok(request) = InitRequest::parse(data) {
        let again = InitRequest::parse(request.encode().as_bytes());
        assert_eq!(again.map(|again| again.encode()), Ok(request.encode()));
    }
    if let Ok((answer, proofs)) = InitAnswer::parse(data) {
        let InitProofs { signature, confirm } = proofs;
        let text = answer.encode(&InitProofs { signature, confirm });
        let (again, proofs) = InitAnswer::parse(text.as_bytes()).expect("what was written is read");
        assert_eq!(again.encode(&proofs), text);
    }
    if let Ok(set) = KeySet::parse(&NoSecurity, data) {
        let again = KeySet::parse(&NoSecurity, set.encode().as_bytes()).expect("what was written is read");
        assert_eq!(again.encode(), set.encode());
        assert!(
            set.keys.iter().all(|key| KeyId::of(&NoSecurity, &key.public_key) == key.key_id),
            "a key under another's id"
        );
    }
    if let Some(problem) = Problem::parse(400, data) {
        let text = problem.encode();
        let again = Problem::parse(400, text.as_bytes()).expect("what was written is read").encode();
        let [first, second] = [&text, &again].map(|text| json::read(text.as_bytes()).expect("numbers in range"));
        let floatless = json::without_floats(first.clone());
        assert!(again == text || floatless != first && floatless == json::without_floats(second), "{text}");
    }
}

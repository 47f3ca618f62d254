//! Sealed requests and answers, both sides.

use std::sync::Arc;

use sealway_proto::Error;
use sealway_proto::crypto::Provider;
use sealway_proto::session::native::{
    FrameOpener, FrameSealer, InnerHeaders, OpenedRequest, Read, RequestLine, SealedCall, SealedRequest,
};
use sealway_proto::session::{Fresh, NonceGuard, Session};
use sealway_proto::wire::{ReplayPolicy, Wire, base64};
use sealway_testkit::native_vectors::{
    Answer3Refused, HashedBytes, LongBytes, NativeAnswer, NativeRequest, NativeSealed, NativeSession, Request3Refused,
};
use sealway_testkit::vectors::HeaderList;

use super::inits::{client_session, server_session};
use super::provider;

/// Lengths of a stream's pieces: byte by byte, in between, and all at once.
const PIECES: [usize; 3] = [1, 97, 1 << 20];

pub(crate) fn session(of: &NativeSession) -> Arc<Session> {
    let wire = match of.wire {
        1 => Wire::V1,
        2 => Wire::V2,
        3 => Wire::Native,
        other => panic!("wire {other}"),
    };
    Arc::new(server_session(&of.id, wire, &of.prk_hex, of.created_ms, of.expires_ms))
}

/// Returns the policy of the vectors: the nonce lifetime is the least that the window allows.
fn policy(window_ms: u64) -> ReplayPolicy {
    ReplayPolicy::new(window_ms, 0)
}

fn inner_headers(of: &[(String, LongBytes)]) -> InnerHeaders {
    let mut headers = InnerHeaders::new();
    for (name, value) in of {
        headers.push(name, &value.to_vec()).unwrap();
    }
    headers
}

fn sealed(mut sealer: FrameSealer, headers: &InnerHeaders, frames: &[LongBytes]) -> Vec<u8> {
    let mut out = Vec::new();
    for (index, frame) in frames.iter().enumerate() {
        let begun = sealer.begin(&mut out);
        if index == 0 {
            headers.encode(&mut out);
        }
        out.extend_from_slice(&frame.to_vec());
        sealer.seal(&mut out, begun, index + 1 == frames.len()).unwrap();
    }
    out
}

/// Returns the stream of a message: from `X-Sealed` or from its body. A message with both is rejected by its caller.
fn place<'a>(header: &'a Option<Vec<u8>>, body: &'a [u8]) -> Result<&'a [u8], Error> {
    match header {
        Some(_) if !body.is_empty() => Err(Error::HeaderInvalid("x-sealed")),
        Some(stream) => Ok(stream),
        None => Ok(body),
    }
}

/// Opens all frames of a stream that arrives in pieces; `first` is called as soon as there is a frame.
fn opened(
    mut opener: FrameOpener,
    stream: &[u8],
    piece: usize,
    first: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
) -> Result<Vec<Vec<u8>>, Error> {
    let (mut frames, mut frame) = (Vec::new(), Vec::new());
    for mut input in stream.chunks(piece) {
        while !input.is_empty() {
            if opener.read(&mut input, &mut frame)? == Read::More {
                continue;
            }
            if frames.is_empty() {
                first(&frame)?;
            }
            frames.push(std::mem::take(&mut frame));
        }
    }
    opener.end().map(|()| frames)
}

/// Returns the plaintexts of a scenario's message.
fn plaintexts(inner: &InnerHeaders, frames: &[LongBytes]) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = frames.iter().map(LongBytes::to_vec).collect();
    let mut first = Vec::new();
    inner.encode(&mut first);
    first.append(&mut all[0]);
    all[0] = first;
    all
}

/// Checks that the produced stream is the scenario's, if that has it, and that the headers are.
fn assert_sealed(made: &[(&'static str, String)], stream: &[u8], content_type: Option<&str>, want: &NativeSealed) {
    let mut made: Vec<(String, String)> =
        made.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    made.extend(content_type.map(|value| ("content-type".to_owned(), value.to_owned())));
    let in_header = want.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("x-sealed"));
    if in_header {
        made.push(("x-sealed".to_owned(), base64::encode(stream)));
    }
    let mut wanted: Vec<(String, String)> =
        want.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone())).collect();
    made.sort();
    wanted.sort();
    assert_eq!(made, wanted);
    let body = if in_header { &[][..] } else { stream };
    match &want.body {
        HashedBytes::Hashed { sha256_hex, count } => {
            assert_eq!(body.len(), *count);
            assert_eq!(Provider::sha256(provider(), &[body]), sha256_hex.array());
        }
        HashedBytes::Bytes(bytes) => assert!(body == bytes.as_slice(), "another stream"),
    }
}

/// Opens a request's first frame as a server, and then the rest.
fn open_request(
    session: &Arc<Session>,
    line: RequestLine<'_>,
    headers: &HeaderList,
    body: &[u8],
    (now_ms, window_ms): (u64, u64),
    piece: usize,
) -> Result<(NonceGuard<OpenedRequest>, Vec<Vec<u8>>), Error> {
    let mut request = SealedRequest::parse(headers, line)?;
    request.session_id()?;
    request.check(session, now_ms, &policy(window_ms))?;
    let header = request.take_sealed();
    let stream = place(&header, body)?;
    let (opener, opening) = request.open(provider(), session.clone(), now_ms, &policy(window_ms))?;
    let (mut opening, mut unreplayed) = (Some(opening), None);
    let frames = opened(opener, stream, piece, &mut |frame| {
        unreplayed = Some(opening.take().unwrap().first(frame.to_vec())?);
        Ok(())
    })?;
    Ok((unreplayed.unwrap(), frames))
}

pub(crate) fn request(v: &NativeRequest) {
    let (client, server) = (client_session(&v.client), session(&v.session));
    let line = RequestLine { method: &v.method, target: &v.path };
    let inner = inner_headers(&v.inner);
    let content_type = v.content_type.as_deref();
    let SealedCall { headers, sealer, pending } =
        client.seal_as(provider(), line, content_type.unwrap_or_default(), &v.stamp, &v.nonce).unwrap();
    assert_eq!(pending.stamp_and_nonce(), (v.stamp.as_str(), v.nonce.as_str()));
    let stream = sealed(sealer, &inner, &v.frames);
    assert_sealed(&headers, &stream, content_type, &v.sealed);

    let in_header = v.sealed.headers.iter().any(|(name, _)| name == "X-Sealed");
    let body = if in_header { &[][..] } else { &stream };
    let now = (v.now_ms, v.window_ms);
    for piece in PIECES {
        let (unreplayed, frames) = open_request(&server, line, &v.sealed.headers, body, now, piece).unwrap();
        assert_eq!(frames, plaintexts(&inner, &v.frames));
        let claim = unreplayed.claim();
        assert_eq!(claim.key().0, v.claim.key_hex.array());
        assert_eq!((claim.is_sealed(), claim.stamp_ms()), (v.claim.sealed, v.claim.stamp_ms));
        assert_eq!(claim.expires_ms(), v.claim.expires_ms);
        let fresh = Fresh::reserved(claim);
        let released = unreplayed.release(fresh).unwrap();
        assert_eq!(released.headers, inner);
        assert_eq!(released.first.0[released.first.1..], v.frames[0].to_vec());
    }
}

pub(crate) fn request_refused(v: &Request3Refused) -> Result<(), Error> {
    let line = RequestLine { method: &v.method, target: &v.path };
    let now = (v.now_ms, v.window_ms);
    let attempts =
        PIECES.map(|piece| open_request(&session(&v.session), line, &v.headers, v.body.as_slice(), now, piece));
    let [first, second, third] = attempts.map(|attempt| attempt.map(drop));
    assert_eq!((first, second), (third, third), "the pieces that a stream comes in make a difference");
    third
}

fn random_of(nonce: &str) -> Option<[u8; 16]> {
    let hex = nonce.strip_prefix("r-").filter(|hex| hex.len() == 32)?;
    let byte = |at| hex.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    (0..32).step_by(2).map(byte).collect::<Option<Vec<u8>>>()?.try_into().ok()
}

pub(crate) fn answer(v: &NativeAnswer) {
    let (client, server) = (client_session(&v.client), session(&v.session));
    let line = RequestLine { method: &v.request.method, target: &v.request.path };
    let (inner, content_type) = (inner_headers(&v.inner), v.content_type.as_deref());
    let stamp = v.session.created_ms.to_string();
    let SealedCall { headers, sealer, pending } =
        client.seal_as(provider(), line, "", &stamp, &v.request.nonce).unwrap();
    let asked = sealed(
        sealer,
        &InnerHeaders::new(),
        &[LongBytes::Repeat { repeat: sealway_testkit::vectors::Hex(vec![0]), count: 0 }],
    );
    let headers: HeaderList = headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let now = (v.session.created_ms, 300_000);
    let (unreplayed, _) = open_request(&server, line, &headers, &asked, now, 1 << 20).unwrap();
    let fresh = Fresh::reserved(unreplayed.claim());
    let reply = unreplayed.release(fresh).unwrap().reply;

    // A server draws its nonces in one form; a scenario with another is only opened.
    let mut stream = None;
    if let Some(random) = random_of(&v.nonce) {
        let now_ms = v.stamp.parse().unwrap();
        let (headers, sealer) =
            reply.seal(provider(), v.status, content_type.unwrap_or_default(), now_ms, &random).unwrap();
        let made = sealed(sealer, &inner, &v.frames);
        assert_sealed(&headers, &made, content_type, &v.sealed);
        stream = Some(made);
    }
    let body = match (&v.sealed.body, stream) {
        (HashedBytes::Bytes(bytes), _) => bytes.to_vec(),
        (HashedBytes::Hashed { .. }, stream) => stream.unwrap(),
    };
    for piece in PIECES {
        let (header, opener) = pending.open(provider(), &v.sealed.headers, v.status).unwrap();
        let frames = opened(opener, place(&header, &body).unwrap(), piece, &mut |_| Ok(())).unwrap();
        assert_eq!(frames, plaintexts(&inner, &v.frames));
        assert_eq!(InnerHeaders::parse(&frames[0]).unwrap().0, inner);
    }
}

pub(crate) fn answer_refused(v: &Answer3Refused) -> Result<(), Error> {
    let client = client_session(&v.client);
    let line = RequestLine { method: &v.request.method, target: &v.request.path };
    let call = client.seal_as(provider(), line, "", "1", &v.request.nonce).unwrap();
    let attempt = |piece| {
        let (header, opener) = call.pending.open(provider(), &v.headers, v.status)?;
        let stream = place(&header, v.body.as_slice())?;
        opened(opener, stream, piece, &mut |frame| InnerHeaders::parse(frame).map(drop)).map(drop)
    };
    let [first, second, third] = PIECES.map(attempt);
    assert_eq!((first, second), (third, third), "the pieces that a stream comes in make a difference");
    third
}

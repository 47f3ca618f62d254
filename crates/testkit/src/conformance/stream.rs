//! Whole streams of wires 3 and 4: sealed at once, opened at once, in a body or in `X-Sealed`.

use sealway_proto::Error;
use sealway_proto::limits::FRAME_LEN_MAX;
use sealway_proto::session::native::{FrameOpener, FrameSealer, InnerHeaders, Read, SealHeaders};
use sealway_proto::wire::base64;
use sealway_proto::wire::header::X_SEALED;
use serde_json::{Value, json};

use super::member::hex;

/// The media type of a sealed body.
pub(super) const OCTETS: &str = "application/octet-stream";

/// A message whose stream is not made yet.
pub(super) struct Envelope {
    /// Bytes before the frames: none on wire 3.
    pub(super) prefix: Vec<u8>,
    pub(super) headers: SealHeaders,
    pub(super) sealer: FrameSealer,
}

/// Seals a stream behind its prefix, in frames as full as possible.
fn seal(mut out: Vec<u8>, mut sealer: FrameSealer, inner: &InnerHeaders, body: &[u8]) -> Result<Vec<u8>, Error> {
    let mut plaintext = Vec::new();
    inner.encode(&mut plaintext);
    plaintext.extend_from_slice(body);
    let count = plaintext.len().div_ceil(FRAME_LEN_MAX);
    for (index, part) in plaintext.chunks(FRAME_LEN_MAX).enumerate() {
        let begun = sealer.begin(&mut out);
        out.extend_from_slice(part);
        sealer.seal(&mut out, begun, index + 1 == count)?;
    }
    Ok(out)
}

/// Returns the wire form of a sealed message: its headers, and its body or the header that contains it.
pub(super) fn message(
    sealed: Envelope,
    inner: &InnerHeaders,
    body: &[u8],
    is_bodyless: bool,
) -> Result<(Vec<Value>, String), Error> {
    let Envelope { prefix, headers, sealer } = sealed;
    let stream = seal(prefix, sealer, inner, body)?;
    let mut headers: Vec<Value> = headers.into_iter().map(|(name, value)| json!([name, value])).collect();
    if is_bodyless {
        headers.push(json!([X_SEALED, base64::encode(&stream)]));
        return Ok((headers, String::new()));
    }
    headers.push(json!(["content-type", OCTETS]));
    Ok((headers, hex(&stream)))
}

/// Returns the stream of a message: from the header or the body, never both.
pub(super) fn place(header: Option<Vec<u8>>, body: Vec<u8>) -> Result<Vec<u8>, Error> {
    match header {
        Some(_) if !body.is_empty() => Err(Error::HeaderInvalid(X_SEALED)),
        Some(stream) => Ok(stream),
        None => Ok(body),
    }
}

/// Opens a whole stream: its first frame, and the rest.
pub(super) fn open(mut opener: FrameOpener, stream: &[u8]) -> Result<(Vec<u8>, Vec<u8>), Error> {
    let (mut input, mut first, mut rest, mut frame) = (stream, None, Vec::new(), Vec::new());
    while !input.is_empty() {
        if opener.read(&mut input, &mut frame)? == Read::More {
            continue;
        }
        match first {
            None => first = Some(std::mem::take(&mut frame)),
            Some(_) => rest.append(&mut frame),
        }
    }
    opener.end()?;
    first.map(|first| (first, rest)).ok_or(Error::StreamTruncated)
}

//! Sealed streams of the native protocol: `crates/proto/src/session/native/frame.rs`.
//!
//! The provider is the one without security, so that a stream is the same in each run and every branch behind a tag is reached.

use std::sync::Arc;

use sealway_proto::crypto::agreement::AgreementProvider;
use sealway_proto::crypto::identity::{IdentityPublic, SchemePublic, SignatureAlgorithm};
use sealway_proto::crypto::no_security::NoSecurity;
use sealway_proto::error::Error;
use sealway_proto::limits::FRAME_LEN_MAX;
use sealway_proto::session::native::{
    ClientInit, ClientOffer, ClientSession, FrameOpener, InitRequest, KeyId, Read, RequestLine, SealedRequest,
    ServerRandoms, ShareKey, Suite, Terms, agree,
};
use sealway_proto::session::{Auth, Session, Step};
use sealway_proto::wire::ReplayPolicy;

use crate::{Counterexample, Outcome, ensure};

/// The name of the harness.
pub(crate) const NAME: &str = "native-frames";
/// The property that it checks.
pub(crate) const PROPERTY: &str = "A sealed stream opens to its frames however it is cut, and sealing them again gives the same bytes. A \
     stream that is truncated, extended, reordered or changed in a byte does not open to its end. A frame's head is accepted if and \
     only if its length is within the bounds, and no more memory is taken than has arrived and one frame.";

const NOW_MS: u64 = 1_700_000_000_000;
const LINE: RequestLine<'static> = RequestLine { method: "POST", target: "/" };
const STAMP: &str = "1700000000000";
const NONCE: &str = "0123456789abcdef";
const TAG_LEN: usize = 16;
const COMMIT_LEN: usize = 16;

struct AnySignature;

impl SchemePublic for AnySignature {
    fn verify(&self, _: &[u8], _: &[u8]) -> bool {
        true
    }
}

fn no_laps(_: Step) {}

/// Both ends of one session.
pub(crate) struct Party {
    client: ClientSession,
    server: Arc<Session>,
}

/// The frames that a stream opened to, and the defect that ended it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OpenStream {
    pub(crate) frames: Vec<Vec<u8>>,
    /// The outcome at the end of the stream.
    pub(crate) end: Result<(), Error>,
}

/// A reader under test: opens a stream that arrives in parts.
pub(crate) type Open<'a> = &'a dyn Fn(&Party, &[&[u8]]) -> OpenStream;

impl Party {
    pub(crate) fn new() -> Result<Self, Error> {
        let provider: &dyn AgreementProvider = &NoSecurity;
        let offer = ClientOffer {
            suites: vec![Suite::P256],
            client_id: "web".into(),
            ttl_sec: None,
            pinned_key_ids: Vec::new(),
            signature_algorithms: Vec::new(),
            credential: None,
        };
        let share = ShareKey::generate(provider, Suite::P256)?;
        let init = ClientInit::new(offer, share, None)?;
        let request = InitRequest::parse(init.body().as_bytes())?;
        let key_id = KeyId::parse("00112233445566778899aabbccddeeff")?;
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
        let agreed = agree(provider, &request, terms, None, &[3; 16], ServerRandoms::Draw, NOW_MS, &mut no_laps)?;
        let (answer, session) = agreed.signed(provider, vec![0; 64])?;
        let key = IdentityPublic::from_parts(SignatureAlgorithm::Es256, vec![Box::new(AnySignature)]);
        let client = init.finish(provider, Some(&key), answer.as_bytes())?;
        Ok(Party { client, server: Arc::new(session) })
    }

    /// Seals frames, each with the mark of the last one, and returns the stream with the outcome of each frame.
    pub(crate) fn seal(&self, frames: &[(&[u8], bool)]) -> Result<(Vec<u8>, Vec<bool>), Error> {
        let mut sealer = self.client.seal_as(&NoSecurity, LINE, "", STAMP, NONCE)?.sealer;
        let (mut stream, mut outcomes) = (Vec::new(), Vec::new());
        for (plaintext, is_last) in frames {
            let begun = sealer.begin(&mut stream);
            stream.extend_from_slice(plaintext);
            outcomes.push(sealer.seal(&mut stream, begun, *is_last).is_ok());
        }
        Ok((stream, outcomes))
    }

    fn opener(&self) -> Result<FrameOpener, Error> {
        let call = self.client.seal_as(&NoSecurity, LINE, "", STAMP, NONCE)?;
        let request = SealedRequest::parse(&call.headers, LINE)?;
        Ok(request.open(&NoSecurity, Arc::clone(&self.server), NOW_MS, &ReplayPolicy::default())?.0)
    }
}

/// Opens a stream that arrives in parts.
pub(crate) fn open(party: &Party, parts: &[&[u8]]) -> OpenStream {
    let mut frames = Vec::new();
    let mut read = || -> Result<(), Error> {
        let (mut opener, mut frame) = (party.opener()?, Vec::new());
        for part in parts {
            let mut part = *part;
            while !part.is_empty() {
                match opener.read(&mut part, &mut frame)? {
                    Read::More => {}
                    Read::Frame | Read::Last => frames.push(std::mem::take(&mut frame)),
                }
            }
        }
        opener.end()
    };
    let end = read();
    OpenStream { frames, end }
}

/// Checks one sequence of frames.
pub(crate) fn check(party: &Party, open: Open<'_>, frames: &[(&[u8], bool)]) -> Outcome {
    let (stream, outcomes) = party.seal(frames).map_err(|err| Counterexample(format!("sealing: {err}")))?;
    let mut is_over = false;
    let mut sealed: Vec<(&[u8], bool)> = Vec::new();
    for ((plaintext, is_last), outcome) in frames.iter().zip(outcomes) {
        let may_be = !is_over && (*is_last || !plaintext.is_empty());
        ensure!(outcome == may_be, "frames {frames:?}: sealed {outcome}, expected {may_be}");
        if outcome {
            is_over = *is_last;
            sealed.push((plaintext, *is_last));
        }
    }
    let whole = open(party, &[&stream]);
    let plain: Vec<Vec<u8>> = sealed.iter().map(|(plaintext, _)| plaintext.to_vec()).collect();
    ensure!(whole.frames == plain && whole.end.is_ok() == is_over, "frames {frames:?}: opened to {whole:?}");
    let again = party.seal(&sealed).map_err(|err| Counterexample(format!("sealing again: {err}")))?;
    ensure!(again.0 == stream, "frames {frames:?}: what was opened seals to other bytes");
    for cut in 0..=stream.len() {
        let (early, late) = stream.split_at(cut);
        let parts = open(party, &[early, late]);
        ensure!(parts == whole, "frames {frames:?}: {whole:?}, but {parts:?} if the stream is cut at {cut}");
        if cut < stream.len() {
            let short = open(party, &[early]);
            let is_beginning = plain.starts_with(&short.frames);
            ensure!(short.end.is_err() && is_beginning, "frames {frames:?}: {short:?} of the first {cut} bytes");
        }
    }
    let bytes: Vec<&[u8]> = stream.chunks(1).collect();
    ensure!(open(party, &bytes) == whole, "frames {frames:?}: something else byte by byte");
    if is_over {
        let long = open(party, &[&stream, b"\0"]);
        ensure!(long.end.is_err(), "frames {frames:?}: a byte after the end is accepted");
        changed(party, open, &stream, frames)?;
    }
    Ok(stream.len() as u64 + 1)
}

/// Checks that no change of a byte, and no other order of frames, opens to the end.
fn changed(party: &Party, open: Open<'_>, stream: &[u8], frames: &[(&[u8], bool)]) -> Result<(), Counterexample> {
    let mut other = stream.to_vec();
    for at in 0..stream.len() {
        for mask in [1, 0x80, 0xff] {
            if let Some(byte) = other.get_mut(at) {
                *byte ^= mask;
            }
            let opened = open(party, &[&other]);
            ensure!(opened.end.is_err(), "frames {frames:?}: byte {at} with {mask:#x} changed opens to {opened:?}");
            if let (Some(byte), Some(was)) = (other.get_mut(at), stream.get(at)) {
                *byte = *was;
            }
        }
    }
    let (commit, rest) = stream.split_at_checked(COMMIT_LEN).unwrap_or_default();
    let mut pieces = Vec::new();
    let mut left = rest;
    while let Some(head) = left.first_chunk::<4>() {
        let len = (u32::from_be_bytes(*head) & 0x7fff_ffff) as usize + 4;
        let (piece, after) = left.split_at_checked(len).unwrap_or((left, &[]));
        pieces.push(piece);
        left = after;
    }
    for (one, first) in pieces.iter().enumerate() {
        let without = pieces.iter().enumerate().filter(|(at, _)| *at != one).flat_map(|(_, piece)| piece.iter());
        let dropped: Vec<u8> = commit.iter().chain(without).copied().collect();
        let opened = open(party, &[&dropped]);
        ensure!(opened.end.is_err(), "frames {frames:?}: without frame {one} it opens to {opened:?}");
        for other in one + 1..pieces.len() {
            let mut swapped = pieces.clone();
            swapped.swap(one, other);
            let mixed = [commit, &swapped.concat()].concat();
            let opened = open(party, &[&mixed]);
            ensure!(opened.end.is_err(), "frames {frames:?}: frames {one} and {other} swapped open to {opened:?}");
        }
        let twice = [commit, *first, &pieces.concat()].concat();
        ensure!(open(party, &[&twice]).end.is_err(), "frames {frames:?}: frame {one} twice opens");
    }
    Ok(())
}

/// Checks the head of a first frame by its number alone: no frame follows.
pub(crate) fn check_head(party: &Party, open: Open<'_>, head: u32) -> Outcome {
    let stream = [&[0; COMMIT_LEN][..], &head.to_be_bytes()].concat();
    let (len, is_last) = ((head & 0x7fff_ffff) as usize, head >> 31 == 1);
    let least = if is_last { TAG_LEN } else { TAG_LEN + 1 };
    let expected =
        if (least..=FRAME_LEN_MAX + TAG_LEN).contains(&len) { Error::StreamTruncated } else { Error::FrameInvalid };
    let opened = open(party, &[&stream]);
    ensure!(opened.end == Err(expected), "head {head:#010x}: {:?}, expected {expected:?}", opened.end);
    let mut opener = party.opener().map_err(|err| Counterexample(format!("opener: {err}")))?;
    let mut frame = Vec::new();
    let mut input = &[&stream[..], &[0; 3]].concat()[..];
    // A wrong head was checked above; a right one takes no memory that its sender did not send, but for one page.
    let _ = opener.read(&mut input, &mut frame);
    ensure!(frame.capacity() <= 3 + 4096, "head {head:#010x}: {} bytes of memory for three", frame.capacity());
    Ok(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound;
    use crate::cases::sequences;
    use crate::report::{finds, holds};

    fn all(open: Open<'_>) -> Outcome {
        let party = Party::new().unwrap();
        let texts: [&[u8]; 3] = [b"", b"a", b"bc"];
        let symbols: Vec<(&[u8], bool)> = texts.iter().flat_map(|text| [(*text, false), (*text, true)]).collect();
        let mut cases = sequences(&symbols, bound(3, 4), |frames| {
            let frames: Vec<(&[u8], bool)> = frames.iter().map(|frame| **frame).collect();
            check(&party, open, &frames)
        })?;
        let lens =
            (0..=64).chain(FRAME_LEN_MAX as u32 - 64..=FRAME_LEN_MAX as u32 + 64).chain((17..31).map(|bit| 1 << bit));
        for len in lens.chain([0x7fff_ffff]) {
            cases += check_head(&party, open, len)? + check_head(&party, open, len | 1 << 31)?;
        }
        Ok(cases)
    }

    #[test]
    fn native_frames_hold_their_property() {
        let bounds = format!(
            "streams of up to {} frames of 0, 1 or 2 bytes, last or not; every cut, byte by byte, three changes of each byte, every \
             frame dropped, doubled or swapped; heads around all bounds",
            bound(3, 4)
        );
        holds(NAME, PROPERTY, &bounds, || all(&open));
    }

    #[test]
    fn a_reader_that_takes_an_unfinished_stream_for_whole_is_found() {
        let lenient = |party: &Party, parts: &[&[u8]]| {
            let mut opened = open(party, parts);
            if opened.end == Err(Error::StreamTruncated) && !opened.frames.is_empty() {
                opened.end = Ok(());
            }
            opened
        };
        finds(NAME, "a stream without its last frame is whole", || all(&lenient));
    }

    #[test]
    fn a_bound_that_is_off_by_one_is_found() {
        let lenient = |party: &Party, parts: &[&[u8]]| {
            let mut stream = parts.concat();
            if let Some(head) = stream.get_mut(COMMIT_LEN..COMMIT_LEN + 4)
                && *head == (FRAME_LEN_MAX as u32 + TAG_LEN as u32 + 1).to_be_bytes()
            {
                head.copy_from_slice(&(FRAME_LEN_MAX as u32 + TAG_LEN as u32).to_be_bytes());
                return open(party, &[&stream]);
            }
            open(party, parts)
        };
        finds(NAME, "a frame one byte over its bound is accepted", || all(&lenient));
    }
}

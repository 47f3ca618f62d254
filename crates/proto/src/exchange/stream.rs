//! The body of a sealed request, piece by piece.

use alloc::vec::Vec;
use core::fmt;

use crate::error::Error;
#[cfg(feature = "one-shot")]
use crate::one_shot::prefix::{Prefix, PrefixReader};
use crate::session::native::{FrameOpener, Read};

/// Reads the body of a sealed request from chunks of any length. It returns the last piece only after the end of the body.
pub struct Stream {
    kind: Kind,
    state: State,
}

enum Kind {
    /// One sealed message, which [`super::Opening::open`] opens.
    Whole(Vec<u8>),
    /// Frames, each of which the stream opens itself.
    Frames { opener: FrameOpener, frame: Vec<u8>, in_header: Option<Vec<u8>> },
    /// The prefix of wire 4, which gives the keys of the frames behind it.
    #[cfg(feature = "one-shot")]
    Prefix { reader: PrefixReader, prefix: Option<Prefix>, in_header: Option<Vec<u8>> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Reading,
    /// The last frame is open. The end of the body must follow.
    Last,
    Done,
}

/// A part of a body.
#[derive(PartialEq, Eq)]
pub struct Piece {
    /// The plaintext of a frame; in a protocol without frames the whole sealed message.
    pub bytes: Vec<u8>,
    /// True if the body ends after this piece.
    pub is_last: bool,
}

impl Stream {
    pub(super) fn whole() -> Self {
        Stream { kind: Kind::Whole(Vec::new()), state: State::Reading }
    }

    pub(super) fn frames(opener: FrameOpener, in_header: Option<Vec<u8>>) -> Self {
        Stream { kind: Kind::Frames { opener, frame: Vec::new(), in_header }, state: State::Reading }
    }

    #[cfg(feature = "one-shot")]
    pub(super) fn prefix(reader: PrefixReader, in_header: Option<Vec<u8>>) -> Self {
        Stream { kind: Kind::Prefix { reader, prefix: None, in_header }, state: State::Reading }
    }

    /// Takes the prefix of a request on wire 4, once it has been read. [`super::HpkeOpening::open`] needs it to read on.
    #[cfg(feature = "one-shot")]
    pub fn take_prefix(&mut self) -> Option<Prefix> {
        match &mut self.kind {
            Kind::Prefix { prefix, .. } => prefix.take(),
            _ => None,
        }
    }

    /// Goes on to the frames behind a prefix.
    #[cfg(feature = "one-shot")]
    pub(super) fn keyed(&mut self, opener: FrameOpener) {
        self.kind = Kind::Frames { opener, frame: Vec::new(), in_header: None };
    }

    /// Takes the stream that was sent in a header. The request then has no body. `None` at any further call.
    pub fn take_header(&mut self) -> Option<Vec<u8>> {
        match &mut self.kind {
            Kind::Whole(_) => None,
            Kind::Frames { in_header, .. } => in_header.take(),
            #[cfg(feature = "one-shot")]
            Kind::Prefix { in_header, .. } => in_header.take(),
        }
    }

    /// Returns true if the last piece was returned.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Reads the next bytes of the body, and returns a piece once it is complete. Call it again until `input` is empty.
    ///
    /// # Errors
    /// Those of [`FrameOpener::read`]. Nothing can be read after one.
    pub fn read(&mut self, input: &mut &[u8]) -> Result<Option<Piece>, Error> {
        match (self.state, &mut self.kind) {
            _ if input.is_empty() => Ok(None),
            (State::Reading, Kind::Whole(bytes)) => {
                bytes.extend_from_slice(input);
                *input = &[];
                Ok(None)
            }
            (State::Reading, Kind::Frames { opener, frame, .. }) => match opener.read(input, frame) {
                Ok(Read::More) => Ok(None),
                Ok(Read::Frame) => Ok(Some(Piece { bytes: core::mem::take(frame), is_last: false })),
                Ok(Read::Last) => {
                    self.state = State::Last;
                    Ok(None)
                }
                Err(err) => Err(self.broken(err)),
            },
            // Until the frames' keys are there the bytes behind the prefix stay in the input.
            #[cfg(feature = "one-shot")]
            (State::Reading, Kind::Prefix { prefix: Some(_), .. }) => Ok(None),
            #[cfg(feature = "one-shot")]
            (State::Reading, Kind::Prefix { reader, prefix, .. }) => match reader.read(input) {
                Ok(read) => {
                    *prefix = read;
                    Ok(None)
                }
                Err(err) => Err(self.broken(err)),
            },
            (State::Last | State::Done, _) => Err(self.broken(Error::FrameInvalid)),
        }
    }

    /// Ends the body, and returns the last piece. `None` if it was returned before.
    ///
    /// # Errors
    /// [`Error::StreamTruncated`].
    pub fn end(&mut self) -> Result<Option<Piece>, Error> {
        let state = core::mem::replace(&mut self.state, State::Done);
        let bytes = match (state, &mut self.kind) {
            (State::Done, _) => return Ok(None),
            (State::Reading, Kind::Whole(bytes)) => core::mem::take(bytes),
            (State::Last, Kind::Frames { frame, .. }) => core::mem::take(frame),
            _ => return Err(Error::StreamTruncated),
        };
        Ok(Some(Piece { bytes, is_last: true }))
    }

    fn broken(&mut self, err: Error) -> Error {
        self.state = State::Done;
        err
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("state", &self.state).finish_non_exhaustive()
    }
}

impl fmt::Debug for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Piece({} bytes, is_last: {})", self.bytes.len(), self.is_last)
    }
}

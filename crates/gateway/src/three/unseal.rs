//! The body of a sealed request as its service reads it: frames are opened as they come, and the last one is held back until
//! it is sure that nothing stands behind it.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use sealway_proto::Error;
use sealway_proto::session::three::{FrameOpener, Read};
use sealway_runtime::http::share::Share;
use sealway_runtime::http::{Body, BodyError, BodyRefusal};

/// Why a stream broke off, for who sent the request on and must answer it.
pub(super) type Fault = Arc<OnceLock<Error>>;

/// A stream that is being opened.
pub(super) struct Unsealing {
    body: Body,
    opener: FrameOpener,
    /// What came and is not read yet.
    input: Bytes,
    frame: Vec<u8>,
    /// For what came and is not handed on.
    room: Share,
    state: State,
    fault: Fault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Reading,
    /// The last frame is open, and waits for the end of the body.
    Last,
    Done,
}

/// A frame's plaintext.
pub(super) struct Opened {
    pub(super) plaintext: Vec<u8>,
    pub(super) is_last: bool,
}

impl Unsealing {
    /// Reads `body`, behind what is there of it already. What is held of it takes `room`.
    pub(super) fn new(body: Body, input: Vec<u8>, opener: FrameOpener, room: Share) -> Self {
        let input = Bytes::from(input);
        Unsealing { body, opener, input, frame: Vec::new(), room, state: State::Reading, fault: Fault::default() }
    }

    /// Where it is noted why the stream broke off, if it does.
    pub(super) fn fault(&self) -> Fault {
        self.fault.clone()
    }

    /// The next frame.
    ///
    /// # Errors
    /// A wire's error behind [`Unsealing::fault`], or what ended the body.
    pub(super) fn poll_opened(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Opened>, BodyError>> {
        loop {
            match self.state {
                State::Done => return Poll::Ready(Ok(None)),
                State::Last if !self.input.is_empty() => return Poll::Ready(Err(self.broken(Error::FrameInvalid))),
                State::Last | State::Reading => {}
            }
            if !self.input.is_empty() {
                let mut input: &[u8] = &self.input;
                let read = self.opener.read(&mut input, &mut self.frame);
                let used = self.input.len() - input.len();
                self.input.advance(used);
                match read {
                    Ok(Read::More) => {}
                    Ok(Read::Frame) => return Poll::Ready(Ok(Some(self.take(false)))),
                    Ok(Read::Last) => self.state = State::Last,
                    Err(err) => return Poll::Ready(Err(self.broken(err))),
                }
                continue;
            }
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    // Trailers are outside the seal.
                    if let Ok(data) = frame.into_data() {
                        if !self.room.grow(data.len() as u64) {
                            self.state = State::Done;
                            return Poll::Ready(Err(BodyRefusal::NoRoom.into()));
                        }
                        self.input = data;
                    }
                }
                Some(Err(err)) => return Poll::Ready(Err(err)),
                None if self.state == State::Last => {
                    self.state = State::Done;
                    return Poll::Ready(Ok(Some(self.take(true))));
                }
                None => return Poll::Ready(Err(self.broken(Error::StreamTruncated))),
            }
        }
    }

    fn take(&mut self, is_last: bool) -> Opened {
        self.room.shrink(self.room.held().saturating_sub(self.input.len() as u64));
        Opened { plaintext: std::mem::take(&mut self.frame), is_last }
    }

    fn broken(&mut self, err: Error) -> BodyError {
        self.state = State::Done;
        // One fault is noted, and it is the first.
        let _ = self.fault.set(err);
        BodyRefusal::Broken.into()
    }
}

/// What a service reads of a request whose first frame is not its last: the rest of that frame, then the others.
pub(super) struct Plain {
    first: Bytes,
    rest: Unsealing,
}

impl Plain {
    pub(super) fn new(first: Bytes, rest: Unsealing) -> Self {
        Plain { first, rest }
    }
}

impl HttpBody for Plain {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if !self.first.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.first)))));
        }
        loop {
            match ready!(self.rest.poll_opened(cx)) {
                Ok(Some(opened)) if opened.plaintext.is_empty() => {}
                Ok(Some(opened)) => return Poll::Ready(Some(Ok(Frame::data(opened.plaintext.into())))),
                Ok(None) => return Poll::Ready(None),
                Err(err) => return Poll::Ready(Some(Err(err))),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_empty() && self.rest.state == State::Done
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

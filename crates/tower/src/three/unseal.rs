//! The body of a sealed request as its service reads it: frames are opened as they come, and the last one is held back until it
//! is sure that nothing stands behind it.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http_body::{Body as HttpBody, Frame, SizeHint};
use sealway_proto::Error;
use sealway_proto::session::three::{FrameOpener, Read};

use crate::body::{Body, Bounded, BoxError};
use crate::refusal::Refusal;

/// Why a stream broke off, for who must answer it.
pub(super) type Fault = Arc<OnceLock<Refusal>>;

/// A stream that is being opened.
pub(super) struct Unsealing {
    body: Bounded,
    opener: FrameOpener,
    /// What came and is not read yet.
    input: Bytes,
    frame: Vec<u8>,
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
    /// Reads `input`, then `body`.
    pub(super) fn new(body: Bounded, input: Vec<u8>, opener: FrameOpener) -> Self {
        let (input, fault) = (Bytes::from(input), Fault::default());
        Unsealing { body, opener, input, frame: Vec::new(), state: State::Reading, fault }
    }

    /// Where it is noted why the stream broke off, if it does.
    pub(super) fn fault(&self) -> Fault {
        self.fault.clone()
    }

    /// What is left of the sealed body, to be thrown away.
    pub(super) fn into_body(self) -> Body {
        Body::new(self.body)
    }

    /// The next frame; none behind the last.
    pub(super) fn poll_opened(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Opened>, Refusal>> {
        loop {
            if self.state == State::Done {
                return Poll::Ready(Ok(None));
            }
            if !self.input.is_empty() {
                if self.state == State::Last {
                    return Poll::Ready(Err(self.broken(Error::FrameInvalid)));
                }
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
                // Trailers are outside the seal.
                Some(Ok(frame)) => self.input = frame.into_data().unwrap_or_default(),
                Some(Err(refusal)) => return Poll::Ready(Err(self.broken(refusal))),
                None if self.state == State::Last => {
                    self.state = State::Done;
                    return Poll::Ready(Ok(Some(self.take(true))));
                }
                None => return Poll::Ready(Err(self.broken(Error::StreamTruncated))),
            }
        }
    }

    fn take(&mut self, is_last: bool) -> Opened {
        Opened { plaintext: std::mem::take(&mut self.frame), is_last }
    }

    fn broken(&mut self, refusal: impl Into<Refusal>) -> Refusal {
        let refusal = refusal.into();
        self.state = State::Done;
        // The first fault counts, and there is no second: nothing is read behind it.
        let _ = self.fault.set(refusal.clone());
        refusal
    }
}

/// What a service reads of a request whose first frame is not its last: the rest of that frame, then the others.
pub(super) struct Plain {
    first: Bytes,
    rest: Unsealing,
    is_broken: bool,
}

impl Plain {
    pub(super) fn new(first: Bytes, rest: Unsealing) -> Self {
        Plain { first, rest, is_broken: false }
    }
}

impl HttpBody for Plain {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if !self.first.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.first)))));
        }
        // Whoever reads on after an error must not take what follows for the end.
        if self.is_broken {
            return Poll::Ready(Some(Err("the sealed stream broke off".into())));
        }
        loop {
            match ready!(self.rest.poll_opened(cx)) {
                Ok(Some(opened)) if opened.plaintext.is_empty() => {}
                Ok(Some(opened)) => return Poll::Ready(Some(Ok(Frame::data(opened.plaintext.into())))),
                Ok(None) => return Poll::Ready(None),
                Err(refusal) => {
                    self.is_broken = true;
                    return Poll::Ready(Some(Err(refusal.into())));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_empty() && self.rest.state == State::Done && !self.is_broken
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

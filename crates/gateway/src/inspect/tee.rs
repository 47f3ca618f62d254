//! A body that passes unchanged, with a copy of it that is opened.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use sealway_proto::session::native::{FrameOpener, InnerHeaders, Read};

use super::output::MessageOutput;

/// Opens a copy of a stream and shows it. A frame that does not open is not shown.
pub(super) struct Watch {
    opener: FrameOpener,
    frame: Vec<u8>,
    frames: u64,
    shown: MessageOutput,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Reading,
    /// The last frame was opened.
    Whole,
    /// Nothing more can be opened, and the output says so.
    Over,
}

impl Watch {
    pub(super) fn new(opener: FrameOpener, shown: MessageOutput) -> Self {
        Watch { opener, frame: Vec::new(), frames: 0, shown, state: State::Reading }
    }

    /// Opens a stream that came whole in a header; without one, returns itself for the body.
    pub(super) fn fed(mut self, whole: Option<Vec<u8>>) -> Option<Self> {
        let Some(whole) = whole else { return Some(self) };
        self.take(&whole);
        None
    }

    fn take(&mut self, mut input: &[u8]) {
        while !input.is_empty() && self.state != State::Over {
            match self.opener.read(&mut input, &mut self.frame) {
                Ok(Read::More) => {}
                Ok(read) => self.opened(read == Read::Last),
                Err(err) => self.fault(&err.to_string()),
            }
        }
    }

    fn opened(&mut self, is_last: bool) {
        let frame = std::mem::take(&mut self.frame);
        self.frames += 1;
        let mut body = frame.as_slice();
        if self.frames == 1 {
            match InnerHeaders::parse(&frame) {
                Ok((headers, len)) => {
                    self.shown.headers(&headers);
                    body = frame.get(len..).unwrap_or_default();
                }
                Err(err) => return self.fault(&err.to_string()),
            }
        }
        self.shown.body(body, is_last);
        if is_last {
            self.state = State::Whole;
            self.shown.end(self.frames);
        }
    }

    fn fault(&mut self, what: &str) {
        self.state = State::Over;
        self.shown.line(&format!("cannot be opened from frame {} on: {what}", self.frames));
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.state == State::Reading {
            self.fault("it broke off");
        }
    }
}

/// A body whose bytes are also passed to a watch.
pub(super) struct TeeBody<B> {
    body: B,
    watch: Option<Watch>,
}

impl<B> TeeBody<B> {
    pub(super) fn new(body: B, watch: Option<Watch>) -> Self {
        TeeBody { body, watch }
    }
}

impl<B> HttpBody for TeeBody<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<sealway_runtime::http::BodyError>,
{
    type Data = Bytes;
    type Error = sealway_runtime::http::BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let polled = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let (Some(Ok(frame)), Some(watch)) = (&polled, &mut self.watch)
            && let Some(data) = frame.data_ref()
        {
            watch.take(data);
        }
        Poll::Ready(polled.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

//! Encapsulated requests as they arrive: opened, and read as Binary HTTP.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use sealway_proto::bhttp::{Event, Field, Head, Reader};
use sealway_proto::ohttp::{OhttpError, Request};
use sealway_runtime::http::{Body, BodyError, BodyRefusal};

use super::inner::trailers_of;
use super::rejection::Rejection;
use crate::body::refusal_behind;
use crate::upstream::UpstreamError;

/// A part of the message within.
pub(super) enum Piece {
    Head(Head),
    Content(Bytes),
    Trailers(Vec<Field>),
}

/// The reason for which a stream ends early: the service's request breaks off by it.
#[derive(Debug, thiserror::Error)]
#[error("encapsulated request: {0:?}")]
pub(super) struct StreamFault(pub(super) Rejection);

/// The message within a request, from its first byte on.
pub(super) struct Stream {
    body: Body,
    request: Request,
    reader: Reader,
    /// Bytes of the body that are not opened yet.
    input: Bytes,
    /// The chunk that is gathered.
    chunk: Vec<u8>,
    /// Bytes of the message that are not read yet.
    plain: Bytes,
    /// True once the last chunk has opened: the message ends with `plain`.
    is_last: bool,
    is_over: bool,
}

impl Stream {
    /// Returns the stream of a request in chunks, of which `input` has arrived.
    pub(super) fn chunked(request: Request, input: Bytes, body: Body, content_max: u64) -> Self {
        let reader = Reader::request(content_max);
        let (chunk, plain) = (Vec::new(), Bytes::new());
        Stream { body, request, reader, input, chunk, plain, is_last: false, is_over: false }
    }

    /// Opens the ciphertext of a whole request.
    pub(super) fn whole(mut request: Request, mut sealed: Vec<u8>, content_max: u64) -> Result<Self, Rejection> {
        request.open(&mut sealed).map_err(rejection)?;
        let body = sealway_runtime::http::full(Bytes::new());
        let stream = Stream::chunked(request, Bytes::new(), body, content_max);
        Ok(Stream { plain: sealed.into(), is_last: true, ..stream })
    }

    /// The request that is opened, which gives the key of the answer.
    pub(super) fn request(&self) -> &Request {
        &self.request
    }

    /// Returns the next part; `None` at the end of a message that is whole.
    pub(super) async fn next(&mut self) -> Option<Result<Piece, BodyError>> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, BodyError>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let polled = self.poll_piece(cx);
        if !matches!(polled, Poll::Pending | Poll::Ready(Some(Ok(_)))) {
            self.is_over = true;
        }
        polled
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, BodyError>>> {
        let broken = |rejection| Poll::Ready(Some(Err(BodyError::from(StreamFault(rejection)))));
        loop {
            let mut rest = &*self.plain;
            match self.reader.read(&mut rest) {
                Err(err) => return broken(Rejection::of_message(err)),
                Ok(event) => {
                    let piece = match event {
                        Some(Event::Head(head)) => Some(Piece::Head(head)),
                        Some(Event::Content(content)) => Some(Piece::Content(self.plain.slice_ref(content))),
                        Some(Event::Trailers(trailers)) => Some(Piece::Trailers(trailers)),
                        // Requests have no informational heads.
                        Some(Event::Interim(_)) | None => None,
                    };
                    self.plain = self.plain.slice_ref(rest);
                    if let Some(piece) = piece {
                        return Poll::Ready(Some(Ok(piece)));
                    }
                }
            }
            if self.is_last {
                self.is_over = true;
                return match self.reader.end() {
                    Ok(head) => Poll::Ready(head.map(|head| Ok(Piece::Head(head)))),
                    Err(err) => broken(Rejection::of_message(err)),
                };
            }
            let mut input = &*self.input;
            match self.request.read(&mut input, &mut self.chunk) {
                Err(err) => return broken(rejection(err)),
                Ok(is_open) => {
                    self.input = self.input.slice_ref(input);
                    if is_open {
                        self.plain = std::mem::take(&mut self.chunk).into();
                        continue;
                    }
                }
            }
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => self.input = frame.into_data().unwrap_or_default(),
                Some(Err(err)) => return Poll::Ready(Some(Err(err))),
                None => match self.request.end(&mut self.chunk) {
                    Ok(()) => (self.plain, self.is_last) = (std::mem::take(&mut self.chunk).into(), true),
                    Err(err) => return broken(rejection(err)),
                },
            }
        }
    }
}

/// Returns the rejection of a request that does not open.
pub(super) fn rejection(err: OhttpError) -> Rejection {
    match err {
        OhttpError::Truncated => Rejection::CUT,
        OhttpError::Provider => Rejection::STORE,
        OhttpError::ChunkTooLong | OhttpError::ChunksTooMany => {
            Rejection::of_status(http::StatusCode::PAYLOAD_TOO_LARGE)
        }
        _ => Rejection::KEY,
    }
}

/// Returns the rejection behind an error of a stream.
pub(super) fn rejection_behind(err: &(dyn std::error::Error + 'static)) -> Rejection {
    let mut cause = Some(err);
    while let Some(err) = cause {
        if let Some(StreamFault(rejection)) = err.downcast_ref() {
            return *rejection;
        }
        cause = err.source();
    }
    let refusal = refusal_behind(err).unwrap_or(BodyRefusal::Broken);
    Rejection::of_status(UpstreamError::RequestBody(refusal).status())
}

/// The content of a request on its way to the service. It has no known length: a service must not take a message for whole before
/// the last chunk has opened.
pub(super) struct Content {
    stream: Stream,
    /// A part that was read before the service was asked.
    first: Option<Piece>,
    /// Trailers that wait for the end of the stream: for the service they are the end of a request that is whole.
    trailers: Option<HeaderMap>,
}

impl Content {
    /// Returns the content that follows a head. One that is empty and whole is empty also for the service.
    pub(super) async fn begin(mut stream: Stream) -> Result<Body, BodyError> {
        match stream.next().await.transpose()? {
            Some(first) => Ok(Content { stream, first: Some(first), trailers: None }.boxed_unsync()),
            None => Ok(sealway_runtime::http::full(Bytes::new())),
        }
    }
}

impl HttpBody for Content {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            let piece = match self.first.take() {
                Some(first) => Some(Ok(first)),
                None => ready!(self.stream.poll_next(cx)),
            };
            return Poll::Ready(match piece {
                Some(Ok(Piece::Content(content))) => Some(Ok(Frame::data(content))),
                Some(Ok(Piece::Trailers(fields))) => match trailers_of(&fields) {
                    Ok(trailers) => {
                        self.trailers = Some(trailers);
                        continue;
                    }
                    Err(rejection) => Some(Err(StreamFault(rejection).into())),
                },
                // A reader reports one head.
                Some(Ok(Piece::Head(_))) | None => self.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))),
                Some(Err(err)) => Some(Err(err)),
            });
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

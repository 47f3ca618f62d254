//! Answers: written as Binary HTTP and sealed, whole or as they arrive.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::response::Parts;
use http::{Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use sealway_exchange::headers::remove_hop_by_hop;
use sealway_proto::bhttp::{Control, Head, Writer};
use sealway_proto::ohttp::{Answer, Form};
use sealway_runtime::http::{Body, BodyError, full};

use super::inner::fields_of;
use super::rejection::Rejection;

/// Says that no intermediary should wait for more of a message before it passes a part on.
pub(super) const INCREMENTAL: HeaderName = HeaderName::from_static("incremental");

/// Seals the answer to one request.
pub(super) struct Sealer {
    pub(super) form: Form,
    pub(super) answer: Answer,
    /// Length to whose multiples the messages within are filled up with zeros; 0 fills nothing up.
    pub(super) padding: usize,
}

/// Writes an answer that is here whole as a message.
///
/// # Errors
/// [`Rejection::ANSWER`] for a head that a message cannot have, such as a status over 599.
pub(super) fn whole_message(answer: Response<Bytes>) -> Result<Vec<u8>, Rejection> {
    let (parts, content) = answer.into_parts();
    let (mut writer, mut message) = (Writer::known(content.len() as u64), Vec::new());
    let written = writer.head(&mut message, &head_of(&parts)?);
    let written = written.and_then(|()| writer.content(&mut message, &content));
    written.and_then(|()| writer.end(&mut message, &[])).map_err(|_| Rejection::ANSWER)?;
    Ok(message)
}

/// A message that has begun with the head of an answer; its body follows as it arrives.
pub(super) struct AnswerStream {
    writer: Writer,
    message: Vec<u8>,
    body: Body,
}

impl AnswerStream {
    /// Writes the head of an answer.
    ///
    /// # Errors
    /// [`Rejection::ANSWER`] for a head that a message cannot have.
    pub(super) fn begin(answer: Response<Body>) -> Result<AnswerStream, Rejection> {
        let (parts, body) = answer.into_parts();
        let (mut writer, mut message) = (Writer::indeterminate(), Vec::new());
        writer.head(&mut message, &head_of(&parts)?).map_err(|_| Rejection::ANSWER)?;
        Ok(AnswerStream { writer, message, body })
    }
}

impl Sealer {
    /// Seals a message that is here whole, in either form.
    pub(super) fn whole(mut self, mut message: Vec<u8>) -> Result<Response<Body>, Rejection> {
        let len = padded_len(message.len(), self.padding);
        message.resize(len, 0);
        let mut sealed = Vec::with_capacity(len + 64);
        self.answer.seal(&mut sealed, &message, true).map_err(|_| Rejection::ANSWER)?;
        Ok(outer(self.form, full(sealed)))
    }

    /// Seals an answer as it arrives.
    pub(super) fn stream(mut self, answer: AnswerStream) -> Result<Response<Body>, Rejection> {
        let (AnswerStream { writer, message, body }, mut sealed) = (answer, Vec::new());
        self.answer.seal(&mut sealed, &message, false).map_err(|_| Rejection::ANSWER)?;
        let (form, padding) = (self.form, self.padding);
        let first = Some(sealed.into());
        let body = SealedBody { body, answer: self.answer, writer, first, len: message.len(), padding, is_over: false };
        let mut answer = outer(form, body.boxed_unsync());
        answer.headers_mut().insert(INCREMENTAL, HeaderValue::from_static("?1"));
        Ok(answer)
    }
}

fn padded_len(len: usize, padding: usize) -> usize {
    if padding == 0 { len } else { len.next_multiple_of(padding) }
}

fn head_of(parts: &Parts) -> Result<Head, Rejection> {
    // A status below 200 begins no answer.
    if !(200..600).contains(&parts.status.as_u16()) {
        return Err(Rejection::ANSWER);
    }
    let mut headers = parts.headers.clone();
    remove_hop_by_hop(&mut headers);
    Ok(Head { control: Control::Answer(parts.status.as_u16()), fields: fields_of(&headers) })
}

/// Returns the answer outside. It says nothing about the answer within but its length.
fn outer(form: Form, body: Body) -> Response<Body> {
    let mut answer = Response::new(body);
    *answer.status_mut() = StatusCode::OK;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(form.answer_type()));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

/// The body of an answer that is sealed as it arrives. If the service breaks off, no last chunk is sent.
struct SealedBody {
    body: Body,
    answer: Answer,
    writer: Writer,
    first: Option<Bytes>,
    /// Length of the message so far.
    len: usize,
    padding: usize,
    is_over: bool,
}

impl SealedBody {
    /// Ends the message with these trailers, and pads it.
    fn end(&mut self, trailers: &HeaderMap) -> Result<Bytes, BodyError> {
        let (mut message, mut sealed) = (Vec::new(), Vec::new());
        self.writer.end(&mut message, &fields_of(trailers))?;
        let len = self.len + message.len();
        message.resize(message.len() + padded_len(len, self.padding) - len, 0);
        self.answer.seal(&mut sealed, &message, true)?;
        Ok(sealed.into())
    }

    fn content(&mut self, content: &[u8]) -> Result<Bytes, BodyError> {
        let (mut message, mut sealed) = (Vec::new(), Vec::new());
        self.writer.content(&mut message, content)?;
        self.len = self.len.saturating_add(message.len());
        self.answer.seal(&mut sealed, &message, false)?;
        Ok(sealed.into())
    }
}

impl HttpBody for SealedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        if self.is_over {
            return Poll::Ready(None);
        }
        let sealed = loop {
            let frame = match ready!(Pin::new(&mut self.body).poll_frame(cx)).transpose() {
                Ok(Some(frame)) => frame,
                Ok(None) => break self.end(&HeaderMap::new()).map(|sealed| (sealed, true)),
                Err(err) => break Err(err),
            };
            match frame.into_data() {
                // An empty chunk is none.
                Ok(data) if data.is_empty() => {}
                Ok(data) => break self.content(&data).map(|sealed| (sealed, false)),
                Err(frame) => {
                    let mut trailers = frame.into_trailers().unwrap_or_default();
                    remove_hop_by_hop(&mut trailers);
                    break self.end(&trailers).map(|sealed| (sealed, true));
                }
            }
        };
        self.is_over = sealed.as_ref().map_or(true, |(_, is_last)| *is_last);
        Poll::Ready(Some(sealed.map(|(sealed, _)| Frame::data(sealed))))
    }

    fn is_end_stream(&self) -> bool {
        self.is_over
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

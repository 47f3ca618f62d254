//! Answers of one message, as most are.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{BufMut, Bytes, BytesMut};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::body::{Body as HttpBody, Frame};
use prost::Message;
use tonic::Status;
use tonic::body::Body;
use tonic::metadata::GRPC_CONTENT_TYPE;

use super::bounds::{ANSWER_MAX, PREFIX_LEN};

/// The body of an answer of one message: its bytes, then the status of success.
#[derive(Debug)]
struct SingleMessage {
    data: Option<Bytes>,
    has_ended: bool,
}

impl HttpBody for SingleMessage {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Some(data) = self.data.take() {
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        let status = (Status::GRPC_STATUS, HeaderValue::from_static("0"));
        let trailers = (!std::mem::replace(&mut self.has_ended, true)).then(|| HeaderMap::from_iter([status]));
        Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.has_ended
    }
}

/// Creates the answer of one message.
pub(super) fn answer_of(message: &impl Message) -> http::Response<Body> {
    let len = message.encoded_len();
    let Some(prefix) = u32::try_from(len).ok().filter(|_| len <= ANSWER_MAX) else {
        return Status::out_of_range(format!("the answer has {len} bytes, more than {ANSWER_MAX}")).into_http();
    };
    let mut bytes = BytesMut::with_capacity(PREFIX_LEN + len);
    bytes.put_u8(0);
    bytes.put_u32(prefix);
    // It fails only for a buffer that cannot grow.
    let _ = message.encode(&mut bytes);
    let mut answer = http::Response::new(Body::new(SingleMessage { data: Some(bytes.freeze()), has_ended: false }));
    answer.headers_mut().insert(CONTENT_TYPE, GRPC_CONTENT_TYPE);
    answer
}

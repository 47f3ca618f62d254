//! Answers whose end is only that of a connection without TLS (RFC 9112 section 6.3): a service that breaks off, and an attacker who cuts
//! the connection, end them alike. Over TLS the closure alert proves the end (RFC 9112 section 9.8), and without it the read fails.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame};
use sealway_runtime::http::{Body, BodyError};

/// Mark of an answer that ends with its connection, and without proof, as an extension of the answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndsWithConnection;

/// Makes an answer whose end is unproved end with an error, for a seal that would vouch for its end. Others stay as they are.
pub(crate) fn break_off_unframed(answer: Response<Body>) -> Response<Body> {
    match answer.extensions().get::<EndsWithConnection>() {
        Some(_) => answer.map(|body| UnframedBody(body).boxed_unsync()),
        None => answer,
    }
}

/// A body that ends with an error where its connection ends.
struct UnframedBody(Body);

impl HttpBody for UnframedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = ready!(Pin::new(&mut self.0).poll_frame(cx));
        Poll::Ready(Some(frame.unwrap_or_else(|| {
            Err("the service's answer has no length, no chunks and no TLS, so its end may be a cut".into())
        })))
    }
}

//! Header access for the server side of `sealway_proto`, and a body that is written while it is sent.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use hyper::body::{Body, Frame};
use sealway_proto::wire::{Field, Headers};
use tokio::sync::mpsc;

pub(crate) struct RequestHeaders(pub(crate) HeaderMap);

impl Headers for RequestHeaders {
    fn field(&self, name: &'static str) -> Field<'_> {
        self.0.get(name).map_or(Field::Absent, |value| Field::Value(value.to_str().unwrap()))
    }
}

/// A body whose frames come through a channel.
pub(crate) struct Flowing(pub(crate) mpsc::Receiver<Bytes>);

impl Body for Flowing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|data| data.map(|data| Ok(Frame::data(data))))
    }
}

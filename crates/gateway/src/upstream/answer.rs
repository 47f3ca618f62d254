//! Body of an HTTP/1.1 answer. It owns the connection, continues to send the request's body while it is read, and
//! returns the connection to the pool when both are over. If dropped early, it closes the connection.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use sealway_runtime::http::h1::{ChunkStep, Decoder};
use sealway_runtime::http::{BodyError, BodyRefusal};
use tokio::time::{Instant, Sleep, sleep};

use super::h1::Exchange;

pub(super) struct AnswerBody {
    /// The exchange; `None` once it is over.
    exchange: Option<Exchange>,
    decoder: Decoder,
    keep_alive: bool,
    idle: Duration,
    /// Created at the first wait.
    deadline: Option<Pin<Box<Sleep>>>,
    /// Time of the last progress in either direction, or of the last request for data.
    moved: Instant,
    /// True while requested data is absent. The server is not late with data that the client did not request.
    is_waiting: bool,
}

impl AnswerBody {
    pub(super) fn new(exchange: Exchange, decoder: Decoder, keep_alive: bool, idle: Duration) -> Self {
        let moved = Instant::now();
        AnswerBody { exchange: Some(exchange), decoder, keep_alive, idle, deadline: None, moved, is_waiting: false }
    }

    /// Polls the next frame of the answer; ends the exchange at the end of the answer.
    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Frame<Bytes>>, BodyError>> {
        let Some(exchange) = &mut self.exchange else { return Poll::Ready(Ok(None)) };
        exchange.send(cx)?;
        loop {
            match self.decoder.decode(&mut exchange.connection.read)? {
                ChunkStep::Data(data) => {
                    if self.decoder.is_done() {
                        self.end();
                    }
                    return Poll::Ready(Ok(Some(Frame::data(data))));
                }
                ChunkStep::End(trailers) => {
                    self.end();
                    return Poll::Ready(Ok(trailers.map(Frame::trailers)));
                }
                ChunkStep::More => {}
            }
            if ready!(exchange.connection.poll_fill(cx))? == 0 {
                if !self.decoder.may_end_here() {
                    return Poll::Ready(Err("the server closed the connection within its answer".into()));
                }
                self.exchange = None;
                return Poll::Ready(Ok(None));
            }
        }
    }

    fn end(&mut self) {
        if let Some(exchange) = self.exchange.take() {
            exchange.end(self.keep_alive);
        }
    }

    /// Ready if there was no progress for too long.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let sent = self.exchange.as_ref().map_or(self.moved, |exchange| exchange.sending.moved());
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(self.idle)));
        while deadline.as_mut().poll(cx).is_ready() {
            let until = self.moved.max(sent) + self.idle;
            if until <= Instant::now() {
                return Poll::Ready(());
            }
            deadline.as_mut().reset(until);
        }
        Poll::Pending
    }
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let polled = match this.poll_answer(cx) {
            Poll::Ready(polled) => polled,
            Poll::Pending => {
                if !std::mem::replace(&mut this.is_waiting, true) {
                    this.moved = Instant::now();
                }
                ready!(this.poll_idle(cx));
                Err(BodyRefusal::TooSlow.into())
            }
        };
        this.is_waiting = false;
        if polled.is_err() {
            this.exchange = None;
        }
        Poll::Ready(polled.transpose())
    }

    fn is_end_stream(&self) -> bool {
        self.exchange.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match (&self.exchange, self.decoder.left()) {
            (None, _) => SizeHint::with_exact(0),
            (Some(_), Some(left)) => SizeHint::with_exact(left),
            (Some(_), None) => SizeHint::default(),
        }
    }
}

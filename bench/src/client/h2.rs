//! HTTP/2 with hyper: one connection, any number of senders.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::task::JoinHandle;

use super::stream::Stream;
use super::tally::Fault;

/// The longest time for closing a connection.
const FINISH: Duration = Duration::from_secs(2);

/// An HTTP/2 connection to the target.
pub(crate) struct H2 {
    sender: SendRequest<Empty<Bytes>>,
    driver: JoinHandle<()>,
}

impl H2 {
    pub(crate) async fn open(stream: Stream) -> Result<Self, Fault> {
        let handshake = Builder::new(TokioExecutor::new()).handshake(TokioIo::new(stream));
        let (sender, connection) = handshake.await.map_err(|error| Fault::of("preface", &error))?;
        let driver = tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(H2 { sender, driver })
    }

    /// Returns a sender for another stream on the same connection.
    pub(crate) fn sender(&self) -> Sender {
        Sender(self.sender.clone())
    }

    /// Closes the connection and waits until it is gone.
    pub(crate) async fn finish(self) {
        drop(self.sender);
        let _ = tokio::time::timeout(FINISH, self.driver).await;
    }
}

/// A sender on one connection, with one request in flight.
pub(crate) struct Sender(SendRequest<Empty<Bytes>>);

impl Sender {
    /// Sends a request and reads the answer to its end.
    pub(crate) async fn exchange(&mut self, request: Request<Empty<Bytes>>) -> Result<(), Fault> {
        self.0.ready().await.map_err(|error| Fault::of("closed", &error))?;
        let answer = self.0.send_request(request).await.map_err(|error| Fault::of("read", &error))?;
        if answer.status() != StatusCode::OK {
            let kind = if answer.status().is_server_error() { "status 5xx" } else { "status" };
            return Err(Fault::of(kind, &answer.status()));
        }
        let mut body = answer.into_body();
        while let Some(frame) = body.frame().await {
            frame.map_err(|error| Fault::of("read", &error))?;
        }
        Ok(())
    }
}

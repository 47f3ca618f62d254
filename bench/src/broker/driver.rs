//! The client for all gRPC servers: HTTP/2 over a Unix socket, with requests encoded in advance and answers of which it checks
//! only the status. Its cost is the same for all servers, and no server's CPU time includes it.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bytes::{BufMut, Bytes, BytesMut};
use hdrhistogram::Histogram;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::UnixStream;

/// A call that is repeated for the whole measurement.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) path: String,
    frame: Bytes,
}

impl Call {
    /// Returns a call of this method with this message.
    pub(super) fn new(path: impl Into<String>, message: &impl Message) -> Self {
        let len = message.encoded_len();
        let mut frame = BytesMut::with_capacity(len + 5);
        frame.put_u8(0);
        frame.put_u32(u32::try_from(len).unwrap());
        message.encode(&mut frame).unwrap();
        Call { path: path.into(), frame: frame.freeze() }
    }
}

/// The figures of one server in one case.
#[derive(Debug)]
pub(super) struct CaseFigures {
    pub(super) calls: u64,
    pub(super) elapsed: Duration,
    /// Times of round trips, in nanoseconds.
    pub(super) times: Histogram<u64>,
}

/// A connection to a gRPC server.
#[derive(Clone)]
pub(super) struct Driver(SendRequest<Full<Bytes>>);

impl Driver {
    /// Connects to the socket. It must run in a Tokio runtime.
    pub(super) async fn connect(socket: &Path) -> anyhow::Result<Self> {
        let stream = UnixStream::connect(socket).await.with_context(|| format!("nobody at {}", socket.display()))?;
        let (sender, connection) = Builder::new(TokioExecutor::new())
            .initial_stream_window_size(4 * 1024 * 1024)
            .initial_connection_window_size(16 * 1024 * 1024)
            .handshake(TokioIo::new(stream))
            .await?;
        tokio::spawn(async move { drop(connection.await) });
        Ok(Driver(sender))
    }

    /// Makes a call and returns the message of the answer.
    pub(super) async fn call(&mut self, call: &Call) -> anyhow::Result<Bytes> {
        let request = Request::post(format!("http://localhost{}", call.path))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(Full::new(call.frame.clone()))?;
        self.0.ready().await?;
        let (head, body) = self.0.send_request(request).await?.into_parts();
        let collected = body.collect().await?;
        let trailers = collected.trailers().unwrap_or(&head.headers);
        let status = trailers.get("grpc-status").context("an answer without a status")?;
        if status != "0" {
            bail!("{}: {status:?} {}", call.path, message(trailers));
        }
        let mut bytes = collected.to_bytes();
        if bytes.len() < 5 {
            bail!("{}: an answer without a message", call.path);
        }
        Ok(bytes.split_off(5))
    }

    /// Repeats the call for this time, with this many calls in flight.
    pub(super) async fn drive(&self, call: &Call, in_flight: usize, time: Duration) -> anyhow::Result<CaseFigures> {
        let start = Instant::now();
        let tasks: Vec<_> = (0..in_flight)
            .map(|_| {
                let (mut driver, call) = (self.clone(), call.clone());
                tokio::spawn(async move {
                    let mut times = Histogram::<u64>::new(3)?;
                    while start.elapsed() < time {
                        let before = Instant::now();
                        driver.call(&call).await?;
                        times.record(u64::try_from(before.elapsed().as_nanos())?)?;
                    }
                    anyhow::Ok(times)
                })
            })
            .collect();
        let mut times = Histogram::<u64>::new(3)?;
        for task in tasks {
            times.add(task.await??)?;
        }
        Ok(CaseFigures { calls: times.len(), elapsed: start.elapsed(), times })
    }
}

fn message(trailers: &HeaderMap) -> &str {
    trailers.get("grpc-message").and_then(|text| text.to_str().ok()).unwrap_or_default()
}

//! One connection from its first byte: which protocol it speaks, then that protocol until it ends.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;

use bytes::BytesMut;
use hyper::service::Service;
use hyper::{Request, Response};
use tokio::time::timeout;

use super::connections::Protocol;
use super::h1::Setup;
use super::stream::Transport;
use super::{Body, BodyError, IDLE_GRACE, RequestBody, h1, h2};

/// How a client begins HTTP/2 without being asked to (RFC 9113 section 3.3).
///
/// All of it is waited for under the header timeout: hyper itself has no bound on a preface that stops half-way.
const H2_PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Serves a connection that speaks one of the protocols, without TLS.
///
/// # Errors
/// When it ends early.
pub(super) async fn serve_either<IO, S>(mut io: IO, setup: &Setup, service: S) -> Result<(), BodyError>
where
    IO: Transport,
    S: Service<Request<RequestBody>, Response = Response<Body>, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send,
{
    let sniffed = tokio::select! {
        sniffed = sniff(&mut io, setup) => sniffed?,
        // Nothing was sent yet: there is nothing to answer.
        () = idle_grace(setup) => return Ok(()),
    };
    let Some((is_h2, read)) = sniffed else { return Ok(()) };
    if is_h2 {
        setup.entry.set_protocol(Protocol::Http2);
        // Larger than the other by far: not to be a part of every connection.
        Box::pin(h2::serve(io, read.freeze(), setup, service)).await
    } else {
        setup.entry.set_protocol(Protocol::Http1);
        Ok(h1::serve(io, read, setup, service).await?)
    }
}

/// Resolves some time after the connection is told to end.
async fn idle_grace(setup: &Setup) {
    setup.entry.stop.cancelled().await;
    tokio::time::sleep(IDLE_GRACE).await;
}

/// Whether the connection begins with HTTP/2's preface, and what was read. None when nothing was sent in time.
async fn sniff<IO: Transport>(io: &mut IO, setup: &Setup) -> io::Result<Option<(bool, BytesMut)>> {
    let mut read = BytesMut::new();
    let Ok(first) = timeout(setup.limits.idle_timeout, poll_fn(|cx| h1::poll_read(io, cx, &mut read))).await else {
        return Ok(None);
    };
    if first? == 0 {
        return Ok(None);
    }
    let rest = async {
        loop {
            let len = read.len().min(H2_PREFACE.len());
            if read[..len] != H2_PREFACE[..len] {
                return Ok(Some(false));
            }
            if len == H2_PREFACE.len() {
                return Ok(Some(true));
            }
            if poll_fn(|cx| h1::poll_read(io, cx, &mut read)).await? == 0 {
                return Ok(None);
            }
        }
    };
    match timeout(setup.limits.header_timeout, rest).await {
        Ok(Ok(Some(is_h2))) => Ok(Some((is_h2, read))),
        Ok(Ok(None)) | Err(_) => Ok(None),
        Ok(Err(err)) => Err(err),
    }
}

//! Metrics for Prometheus, told over plain HTTP at an address that is asked for. Not the runtime's HTTP, which brings TLS with
//! it: the FIPS build holds one library.
//!
//! It may not know what is counted.

use std::convert::Infallible;
use std::future::Ready;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use sealway_runtime::listener::{self, BindError};
use sealway_runtime::shutdown::Shutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Connections at a time; more wait to be accepted.
const CONNECTIONS_MAX: usize = 16;
/// The head of a request, in bytes.
const HEAD_MAX: usize = 16 * 1024;
/// How long a request's head may take, and how long a connection may be there.
const HEAD_TIME: Duration = Duration::from_secs(5);
const CONNECTION_TIME: Duration = Duration::from_secs(300);
/// How long to wait when the process is out of descriptors.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

/// Tells what `render` gives at `/metrics` of this address, until the process stops. Returns where it listens.
///
/// # Errors
/// [`BindError`], naming `--metrics`.
pub fn serve(
    address: SocketAddr,
    render: impl Fn() -> String + Send + Sync + 'static,
    shutdown: &Shutdown,
) -> Result<SocketAddr, BindError> {
    let render: Arc<dyn Fn() -> String + Send + Sync> = Arc::new(render);
    let mut at = address;
    for listener in listener::bind(&[address], "--metrics")? {
        at = listener.local_addr().unwrap_or(at);
        shutdown.spawn(accept(listener, render.clone(), shutdown.clone()));
    }
    Ok(at)
}

async fn accept(listener: TcpListener, render: Arc<dyn Fn() -> String + Send + Sync>, shutdown: Shutdown) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = tokio::select! {
            accepted = async { (room.clone().acquire_owned().await, listener.accept().await) } => accepted,
            () = shutdown.begun() => return,
        };
        match accepted {
            (Ok(permit), Ok((stream, _))) => {
                let (render, stopping) = (render.clone(), shutdown.clone());
                shutdown.spawn(async move {
                    tokio::select! {
                        () = connection(stream, render) => {}
                        () = stopping.begun() => {}
                    }
                    drop(permit);
                });
            }
            (_, Err(err)) => {
                tracing::warn!(%err, "a connection to the metrics could not be accepted");
                tokio::time::sleep(EXHAUSTED_PAUSE).await;
            }
            (Err(_), _) => return,
        }
    }
}

async fn connection(stream: TcpStream, render: Arc<dyn Fn() -> String + Send + Sync>) {
    let service = service_fn(move |request: Request<Incoming>| answer(&request, render.as_ref()));
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_MAX)
        .serve_connection(TokioIo::new(stream), service);
    // What ends early, or never, is the other side's.
    let _ = timeout(CONNECTION_TIME, serving).await;
}

fn answer(
    request: &Request<Incoming>,
    render: &dyn Fn() -> String,
) -> Ready<Result<Response<Full<Bytes>>, Infallible>> {
    let mut answer = Response::new(Full::default());
    match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") => *answer.body_mut() = Full::from(render()),
        (_, "/metrics") => *answer.status_mut() = StatusCode::METHOD_NOT_ALLOWED,
        _ => *answer.status_mut() = StatusCode::NOT_FOUND,
    }
    std::future::ready(Ok(answer))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn ask(at: SocketAddr, head: &str) -> String {
        let mut stream = TcpStream::connect(at).await.unwrap();
        stream.write_all(format!("{head} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }

    #[tokio::test]
    async fn metrics_are_told_at_their_path_alone_and_end_with_the_process() {
        let shutdown = Shutdown::new();
        let at = serve("127.0.0.1:0".parse().unwrap(), || "one 1\n".to_owned(), &shutdown).unwrap();
        let told = ask(at, "GET /metrics").await;
        assert!(told.starts_with("HTTP/1.1 200 ") && told.ends_with("\r\n\r\none 1\n"), "{told}");
        assert!(ask(at, "GET /").await.starts_with("HTTP/1.1 404 "));
        assert!(ask(at, "POST /metrics").await.starts_with("HTTP/1.1 405 "));
        // One that says nothing does not hold up the end.
        let _silent = TcpStream::connect(at).await.unwrap();
        assert_eq!(shutdown.drain(Duration::from_secs(5)).await, 0);
        assert!(TcpStream::connect(at).await.is_err());
    }
}

//! HTTP/1 as hyper reads it, on a connection in memory.

use std::error::Error as _;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::hyper::body::Incoming;
use ::hyper::service::service_fn;
use ::hyper::{Request, Response};
use bytes::Bytes;
use http::Method;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

use crate::http1::{End, Message, Reading, Start, fields, of_map};

/// More than an input and what it is answered.
const BUFFER: usize = 1 << 20;

fn end(result: ::hyper::Result<()>) -> End {
    match result {
        Ok(()) => End::Clean,
        Err(err) => {
            let cause = err.source().and_then(|source| source.downcast_ref::<io::Error>());
            let is_short = cause.is_some_and(|cause| cause.kind() == io::ErrorKind::UnexpectedEof);
            if is_short || err.is_incomplete_message() || err.is_canceled() {
                End::Incomplete
            } else {
                End::Error(err.to_string())
            }
        }
    }
}

/// Reads the requests of a connection.
pub(crate) async fn requests(input: &[u8]) -> Reading {
    let (near, mut far) = duplex(BUFFER);
    far.write_all(input).await.unwrap();
    far.shutdown().await.unwrap();
    let messages = Arc::new(Mutex::new(Vec::new()));
    let fault = Arc::new(Mutex::new(None));
    let service = service_fn(|request: Request<Incoming>| {
        let (messages, fault) = (messages.clone(), fault.clone());
        async move {
            let (head, body) = request.into_parts();
            let start = Start::Request(head.method.to_string(), head.uri);
            let fields = fields(&start, of_map(&head.headers));
            let body = if head.method == Method::CONNECT {
                Ok(Bytes::new())
            } else {
                body.collect().await.map(|body| body.to_bytes())
            };
            match body {
                Ok(body) => messages.lock().unwrap().push(Message { start, fields, body: body.to_vec() }),
                Err(err) => *fault.lock().unwrap() = Some(end(Err(err))),
            }
            Ok::<_, std::convert::Infallible>(Response::new(Empty::<Bytes>::new()))
        }
    });
    let mut server = ::hyper::server::conn::http1::Builder::new();
    let result = server
        .half_close(true)
        .header_read_timeout(Option::<Duration>::None)
        .serve_connection(TokioIo::new(near), service)
        .await;
    let messages = std::mem::take(&mut *messages.lock().unwrap());
    let fault = fault.lock().unwrap().take();
    Reading { messages, end: fault.unwrap_or_else(|| end(result)) }
}

/// Reads the answer on a connection.
pub(crate) async fn answer(input: &[u8], method: &Method) -> Reading {
    let (near, mut far) = duplex(BUFFER);
    let (mut sender, connection) = ::hyper::client::conn::http1::handshake(TokioIo::new(near)).await.unwrap();
    let request = Request::builder().method(method).uri("/").body(Empty::<Bytes>::new()).unwrap();
    let read = async {
        let answer = sender.send_request(request).await?;
        let (head, body) = answer.into_parts();
        let start = Start::Answer(head.status.as_u16());
        let fields = fields(&start, of_map(&head.headers));
        let body = body.collect().await?.to_bytes().to_vec();
        Ok(Message { start, fields, body })
    };
    let serve = async {
        // The request comes first: bytes before it would not be its answer.
        let mut request = [0; 4096];
        let _ = far.read(&mut request).await.unwrap();
        let _ = far.write_all(input).await;
        let _ = far.shutdown().await;
    };
    let (read, result, ()) = tokio::join!(read, connection, serve);
    match read {
        Ok(message) => Reading { messages: vec![message], end: End::Clean },
        Err(err) => Reading { messages: Vec::new(), end: end(result.and(Err(err))) },
    }
}

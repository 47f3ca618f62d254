//! Connections to one service, and exchanges over them with bounds on time and answers.

use std::error::Error as StdError;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::HeaderMap;
use http::{Method, Request, Response, Uri};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tonic::codegen::Service;

use super::builder::Settings;
use super::trace::Meter;
use crate::error::{Error, ErrorKind, chain};
use crate::native::origin;
use crate::trust;

/// Read and write buffer of a connection, in bytes; also the longest headers of an answer.
const BUFFER_MAX: usize = 128 * 1024;

/// Maximum number of idle connections that are kept for the next call.
const IDLE_CONNECTIONS_MAX: usize = 32;
/// Maximum length of an answer that agrees or renews a session, or of a key set, in bytes.
pub(crate) const AGREEMENT_LEN_MAX: usize = 96 * 1024;
/// Length of the pieces in which a body is given to a connection, in bytes.
const PIECE_LEN: usize = 64 * 1024;

/// An error of a body.
pub(crate) type BoxError = Box<dyn StdError + Send + Sync>;
/// Body of an outgoing request.
pub(crate) type Outgoing = UnsyncBoxBody<Bytes, BoxError>;

/// Pool of connections to one service.
#[derive(Clone)]
pub(crate) struct Transport {
    http: HttpClient<Connector, Outgoing>,
    pub(crate) base: Uri,
    head_timeout: Duration,
    idle_timeout: Duration,
}

/// Opens a connection, with TLS if the URL has it, within one bound of time.
#[derive(Clone)]
struct Connector {
    tls: HttpsConnector<HttpConnector>,
    timeout: Duration,
}

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<TokioIo<TcpStream>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tls.poll_ready(cx)
    }

    fn call(&mut self, url: Uri) -> Self::Future {
        let (connection, after) = (self.tls.call(url), self.timeout);
        Box::pin(async move {
            let late = |_| format!("no connection within {} ms (connect_timeout)", after.as_millis());
            tokio::time::timeout(after, connection).await.map_err(late)?
        })
    }
}

impl Transport {
    /// Connects to the service at `base`.
    pub(crate) fn new(base: Uri, settings: &Settings) -> Result<Self, Error> {
        if base.authority().is_none() || !matches!(base.scheme_str(), Some("http" | "https")) {
            return Err(ErrorKind::Usage(format!("\"{base}\" is no http:// or https:// URL")).into());
        }
        let tls = if base.scheme_str() == Some("https") { trust::system() } else { trust::nobody() };
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls.map_err(ErrorKind::Usage)?);
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        let tls = builder.https_or_http().enable_http1().wrap_connector(connector);
        let http = HttpClient::builder(TokioExecutor::new())
            .http1_max_buf_size(BUFFER_MAX)
            // Without a timer the idle ones close only when the pool is asked for one.
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .build(Connector { tls, timeout: settings.connect_timeout });
        Ok(Transport { http, base, head_timeout: settings.head_timeout, idle_timeout: settings.idle_timeout })
    }

    /// Rejects a request to another service: its URI has to name no origin, or this one.
    pub(crate) fn check_origin(&self, uri: &Uri) -> Result<(), Error> {
        let names_origin = uri.scheme().is_some() || uri.authority().is_some();
        if names_origin && origin(uri) != origin(&self.base) {
            return Err(ErrorKind::Usage(format!(
                "the request is for {}, and not for {}",
                origin(uri),
                origin(&self.base)
            ))
            .into());
        }
        Ok(())
    }

    /// URL of the service with this path and query.
    pub(crate) fn uri(&self, path_and_query: &str) -> Result<Uri, Error> {
        let mut parts = self.base.clone().into_parts();
        let path = Some(path_and_query).filter(|path| path.starts_with('/')).and_then(|path| path.parse().ok());
        let path = path.ok_or_else(|| ErrorKind::Usage(format!("\"{path_and_query}\" is no path")))?;
        parts.path_and_query = Some(path);
        Ok(Uri::from_parts(parts).map_err(|err| ErrorKind::Usage(err.to_string()))?)
    }

    pub(crate) fn request(
        &self,
        method: &Method,
        path_and_query: &str,
        headers: HeaderMap,
        body: Outgoing,
    ) -> Result<Request<Outgoing>, Error> {
        let mut request = Request::new(body);
        *request.method_mut() = method.clone();
        *request.uri_mut() = self.uri(path_and_query)?;
        *request.headers_mut() = headers;
        Ok(request)
    }

    /// Sends a request and returns the answer's head; the caller bounds the wait.
    pub(crate) async fn head(&self, request: Request<Outgoing>) -> Result<Response<Incoming>, Error> {
        let url = request.uri().to_string();
        let failed = |err: hyper_util::client::legacy::Error| match chain(&err) {
            reason if err.is_connect() => ErrorKind::Unreachable { url, reason },
            reason => ErrorKind::Network { url, reason },
        };
        Ok(self.http.request(request).await.map_err(failed)?)
    }

    /// Sends a whole request and reads its whole answer, of at most `len_max` bytes.
    pub(crate) async fn whole(
        &self,
        method: Method,
        path_and_query: &str,
        headers: HeaderMap,
        body: Bytes,
        len_max: usize,
    ) -> Result<Response<Bytes>, Error> {
        let meter = Meter::new();
        let body = Pieces::new(body, meter.clone()).boxed_unsync();
        let request = self.request(&method, path_and_query, headers, body)?;
        let url = request.uri().clone();
        let head = tokio::select! {
            head = self.head(request) => head?,
            () = meter.stalled(self.head_timeout) => return Err(self.late(&url)),
        };
        let (head, body) = head.into_parts();
        let body = self.beginning(&url, body, len_max).await?;
        if body.len() > len_max {
            return Err(ErrorKind::TooLarge { url: url.to_string(), len_max }.into());
        }
        Ok(Response::from_parts(head, body))
    }

    /// Reads the first `len_max` bytes of an answer, and at most one frame more.
    pub(crate) async fn beginning(&self, url: &Uri, mut body: Incoming, len_max: usize) -> Result<Bytes, Error> {
        let (after, mut read) = (self.idle_timeout, Vec::new());
        let late = |_| ErrorKind::Timeout { url: url.to_string(), after, option: "idle_timeout" };
        let failed = |err| ErrorKind::Network { url: url.to_string(), reason: chain(&err) };
        while let Some(frame) = tokio::time::timeout(after, body.frame()).await.map_err(late)? {
            read.extend_from_slice(&frame.map_err(failed)?.into_data().unwrap_or_default());
            if read.len() > len_max {
                break;
            }
        }
        Ok(read.into())
    }

    /// Error of an answer whose head did not come in time.
    pub(crate) fn late(&self, url: &Uri) -> Error {
        ErrorKind::Timeout { url: url.to_string(), after: self.head_timeout, option: "head_timeout" }.into()
    }
}

/// A body that is there already, given to the connection in pieces: each moves the deadline of an upload.
pub(crate) struct Pieces {
    left: Bytes,
    meter: Arc<Meter>,
}

impl Pieces {
    pub(crate) fn new(body: Bytes, meter: Arc<Meter>) -> Self {
        Pieces { left: body, meter }
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.left.is_empty() {
            return Poll::Ready(None);
        }
        let len = self.left.len().min(PIECE_LEN);
        let piece = self.left.split_to(len);
        self.meter.taken(false);
        self.meter.sent(len);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_body_in_pieces_keeps_its_length_and_moves_the_deadline_with_each_piece() {
        let meter = Meter::new();
        let mut body = Pieces::new(Bytes::from(vec![7; 2 * PIECE_LEN + 10]), meter.clone());
        assert_eq!(body.size_hint().exact(), Some(2 * PIECE_LEN as u64 + 10));
        let mut lens = Vec::new();
        while let Some(frame) = body.frame().await {
            lens.push(frame.unwrap().into_data().unwrap().len());
            let before = meter.last_taken();
            tokio::time::sleep(Duration::from_millis(5)).await;
            assert_eq!(meter.last_taken(), before, "only a piece moves it");
        }
        assert_eq!(lens, [PIECE_LEN, PIECE_LEN, 10]);
        assert!(meter.last_taken() >= Duration::from_millis(10), "{:?}", meter.last_taken());
        assert!(body.is_end_stream() && Pieces::new(Bytes::new(), meter).is_end_stream());
    }
}

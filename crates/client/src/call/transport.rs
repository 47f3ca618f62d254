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
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::trace::Meter;
use crate::error::{Error, chain};
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
pub(crate) type Sent = UnsyncBoxBody<Bytes, BoxError>;

/// Pool of connections to one service.
#[derive(Clone)]
pub(crate) struct Transport {
    http: HttpClient<HttpsConnector<HttpConnector>, Sent>,
    pub(crate) base: Uri,
    timeout: Duration,
}

/// A body that is there already.
fn whole(body: impl Into<Bytes>) -> Sent {
    Full::new(body.into()).map_err(BoxError::from).boxed_unsync()
}

impl Transport {
    /// Connects to the service at `base`. Whole exchanges are bounded by `timeout`.
    pub(crate) fn new(base: Uri, timeout: Duration) -> Result<Self, Error> {
        if base.authority().is_none() || !matches!(base.scheme_str(), Some("http" | "https")) {
            return Err(Error::Usage(format!("\"{base}\" is no http:// or https:// URL")));
        }
        let tls = if base.scheme_str() == Some("https") { trust::system() } else { trust::nobody() };
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls.map_err(Error::Usage)?);
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(timeout));
        let connector = builder.https_or_http().enable_http1().wrap_connector(connector);
        let http = HttpClient::builder(TokioExecutor::new())
            .http1_max_buf_size(BUFFER_MAX)
            // Without a timer the idle ones close only when the pool is asked for one.
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .build(connector);
        Ok(Transport { http, base, timeout })
    }

    /// Rejects a request to another service: its URI has to name no origin, or this one.
    pub(crate) fn check_origin(&self, uri: &Uri) -> Result<(), Error> {
        let names_origin = uri.scheme().is_some() || uri.authority().is_some();
        if names_origin && origin(uri) != origin(&self.base) {
            return Err(Error::Usage(format!(
                "the request is for {}, and not for {}",
                origin(uri),
                origin(&self.base)
            )));
        }
        Ok(())
    }

    /// URL of the service with this path and query.
    pub(crate) fn uri(&self, path_and_query: &str) -> Result<Uri, Error> {
        let mut parts = self.base.clone().into_parts();
        let path = Some(path_and_query).filter(|path| path.starts_with('/')).and_then(|path| path.parse().ok());
        let path = path.ok_or_else(|| Error::Usage(format!("\"{path_and_query}\" is no path")))?;
        parts.path_and_query = Some(path);
        Uri::from_parts(parts).map_err(|err| Error::Usage(err.to_string()))
    }

    pub(crate) fn request(
        &self,
        method: &Method,
        path_and_query: &str,
        headers: HeaderMap,
        body: Sent,
    ) -> Result<Request<Sent>, Error> {
        let mut request = Request::new(body);
        *request.method_mut() = method.clone();
        *request.uri_mut() = self.uri(path_and_query)?;
        *request.headers_mut() = headers;
        Ok(request)
    }

    /// Sends a request and returns the answer's head; the caller bounds the wait.
    pub(crate) async fn head(&self, request: Request<Sent>) -> Result<Response<Incoming>, Error> {
        let url = request.uri().to_string();
        self.http.request(request).await.map_err(|err| Error::Transport { url, reason: chain(&err) })
    }

    /// Sends a whole request and reads its whole answer, of at most `len_max` bytes, in the time of one exchange.
    pub(crate) async fn whole(
        &self,
        method: Method,
        path_and_query: &str,
        headers: HeaderMap,
        body: Bytes,
        len_max: usize,
    ) -> Result<Response<Bytes>, Error> {
        let request = self.request(&method, path_and_query, headers, whole(body))?;
        let url = request.uri().to_string();
        let exchange = async {
            let (head, body) = self.head(request).await?.into_parts();
            let body = Limited::new(body, len_max).collect().await;
            let failed = |err: BoxError| Error::Transport { url: url.clone(), reason: chain(err.as_ref()) };
            Ok(Response::from_parts(head, body.map_err(failed)?.to_bytes()))
        };
        self.bounded(&url, exchange).await
    }

    /// Runs a future within the timeout of one exchange.
    pub(crate) async fn bounded<T>(
        &self,
        url: &str,
        exchange: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let after = self.timeout;
        let late = |_| Err(Error::Timeout { url: url.to_owned(), after });
        tokio::time::timeout(after, exchange).await.unwrap_or_else(late)
    }
}

/// Reads the first `len_max` bytes of an answer, and at most one frame more.
pub(crate) async fn beginning(url: &str, mut body: Incoming, len_max: usize) -> Result<Bytes, Error> {
    let mut read = Vec::new();
    while let Some(frame) = body.frame().await {
        let failed = |err| Error::Transport { url: url.to_owned(), reason: chain(&err) };
        read.extend_from_slice(&frame.map_err(failed)?.into_data().unwrap_or_default());
        if read.len() > len_max {
            break;
        }
    }
    Ok(read.into())
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

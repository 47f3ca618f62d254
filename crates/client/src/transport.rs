//! Connections to one service, and exchanges over them with a bound on how long they take.

use std::error::Error as StdError;
use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use http::header::HeaderMap;
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use crate::error::{Error, chain};
use crate::sealed::trust::origin;
use crate::trust;

/// Largest answer that is read whole.
pub(crate) const ANSWER_LEN_MAX: usize = 64 * 1024 * 1024;
/// What a connection keeps of a message in each direction, in bytes; also the most that an answer's headers may have.
const BUFFER_MAX: usize = 128 * 1024;

/// What went wrong in a body.
pub(crate) type BoxError = Box<dyn StdError + Send + Sync>;
/// A body that is sent.
pub(crate) type Sent = UnsyncBoxBody<Bytes, BoxError>;

/// Connections to a service.
#[derive(Clone)]
pub(crate) struct Transport {
    http: HttpClient<HttpsConnector<HttpConnector>, Sent>,
    base: Uri,
    timeout: Duration,
}

/// A body that is there already.
pub(crate) fn whole(body: impl Into<Bytes>) -> Sent {
    Full::new(body.into()).map_err(BoxError::from).boxed_unsync()
}

fn check(base: &Uri) -> Result<(), Error> {
    let is_http = base.authority().is_some() && matches!(base.scheme_str(), Some("http" | "https"));
    if is_http { Ok(()) } else { Err(Error::Usage(format!("\"{base}\" is no http:// or https:// URL"))) }
}

impl Transport {
    /// To the service at `base`, each exchange bounded by `timeout`.
    pub(crate) fn new(base: Uri, timeout: Duration) -> Result<Self, Error> {
        check(&base)?;
        let tls = if base.scheme_str() == Some("https") { trust::system() } else { trust::nobody() };
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls.map_err(Error::Usage)?);
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        let connector = builder.https_or_http().enable_http1().wrap_connector(connector);
        let http = HttpClient::builder(TokioExecutor::new()).http1_max_buf_size(BUFFER_MAX).build(connector);
        Ok(Transport { http, base, timeout })
    }

    /// To another service; the same one where none is named.
    pub(crate) fn at(&self, base: Option<&Uri>) -> Result<Self, Error> {
        match base {
            Some(base) if *base != self.base => Transport::new(base.clone(), self.timeout),
            _ => Ok(self.clone()),
        }
    }

    pub(crate) fn base(&self) -> &Uri {
        &self.base
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// That a request is for this service: its URI names no origin, or this one.
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

    /// A URL of the service.
    pub(crate) fn uri(&self, path_and_query: &str) -> Result<Uri, Error> {
        let mut parts = self.base.clone().into_parts();
        let path = Some(path_and_query).filter(|path| path.starts_with('/')).and_then(|path| path.parse().ok());
        let path = path.ok_or_else(|| Error::Usage(format!("\"{path_and_query}\" is no path")))?;
        parts.path_and_query = Some(path);
        Uri::from_parts(parts).map_err(|err| Error::Usage(err.to_string()))
    }

    pub(crate) fn request(
        &self,
        method: Method,
        path_and_query: &str,
        headers: HeaderMap,
        body: Sent,
    ) -> Result<Request<Sent>, Error> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = self.uri(path_and_query)?;
        *request.headers_mut() = headers;
        Ok(request)
    }

    /// An answer's head; what bounds the wait is the caller's.
    pub(crate) async fn head(&self, request: Request<Sent>) -> Result<Response<Incoming>, Error> {
        let url = request.uri().to_string();
        self.http.request(request).await.map_err(|err| Error::Transport { url, reason: chain(&err) })
    }

    /// A whole answer, in the time of one exchange.
    pub(crate) async fn send(&self, request: Request<Sent>) -> Result<(StatusCode, HeaderMap, Bytes), Error> {
        let url = request.uri().to_string();
        self.bounded(&url, async {
            let (head, body) = self.head(request).await?.into_parts();
            Ok((head.status, head.headers, self.rest(&url, body, ANSWER_LEN_MAX).await?))
        })
        .await
    }

    /// What is left of an answer.
    pub(crate) async fn rest(&self, url: &str, body: Incoming, len_max: usize) -> Result<Bytes, Error> {
        let collected = Limited::new(body, len_max).collect().await;
        let told = |err: BoxError| Error::Transport { url: url.to_owned(), reason: chain(err.as_ref()) };
        Ok(collected.map_err(told)?.to_bytes())
    }

    /// Anything, in the time of one exchange.
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

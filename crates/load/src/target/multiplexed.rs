//! Parts that HTTP/2 and HTTP/3 have in common: the form of a request, the head of its answer, and the failure of an exchange.

use http::uri::{Authority, Scheme};
use http::{HeaderMap, Request, StatusCode, Uri, Version};

use super::connect::Opener;
use super::{Sample, server_timing};
use crate::record::{Class, Failure};
use crate::request::CurrentRequest;

/// Reason why there is no answer.
pub(super) enum ExchangeError {
    /// The server did not process the request.
    Unseen(Failure),
    Failed(Failure),
}

impl ExchangeError {
    pub(super) fn into_failure(self) -> Failure {
        let (ExchangeError::Unseen(failure) | ExchangeError::Failed(failure)) = self;
        failure
    }
}

impl From<Failure> for ExchangeError {
    fn from(failure: Failure) -> Self {
        ExchangeError::Failed(failure)
    }
}

/// Makes the request with this body. The host goes into `:authority` only.
pub(super) fn request<B>(
    current: &CurrentRequest,
    (version, scheme): (Version, Scheme),
    opener: &Opener,
    body: B,
) -> Result<Request<B>, Failure> {
    let mut request = Request::new(body);
    *request.method_mut() = current.method().clone();
    *request.headers_mut() = current.headers()?;
    *request.version_mut() = version;
    let host = request.headers_mut().remove(http::header::HOST);
    request.headers_mut().remove(http::header::CONNECTION);
    let authority = host.and_then(|host| Authority::from_maybe_shared(host).ok());
    let mut uri = http::uri::Parts::default();
    uri.scheme = Some(scheme);
    uri.authority = authority.or_else(|| opener.authority().cloned());
    uri.path_and_query = Some(current.path()?);
    *request.uri_mut() = Uri::from_parts(uri).map_err(|err| Failure::new(Class::Internal, err))?;
    Ok(request)
}

/// Records the status and the processing time of an answer, and keeps its headers if the request needs them.
pub(super) fn take_head(status: StatusCode, headers: HeaderMap, current: &mut CurrentRequest, sample: &mut Sample) {
    sample.status = status.as_u16();
    for value in headers.get_all("server-timing") {
        sample.server = server_timing::add(sample.server, value.as_bytes());
    }
    if let Some(kept) = current.answer_headers() {
        *kept = headers;
    }
}

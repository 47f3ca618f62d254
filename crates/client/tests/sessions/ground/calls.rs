//! Clients of a service, and their calls as a whole.

use std::future::{Ready, ready};
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use sealway_client::{Body, Builder, Client, Error, ErrorKind, Trust};

use super::Service;

pub(crate) fn trusted(service: &Service) -> Trust {
    Trust::Pins(vec![service.pin()])
}

/// A client that pins the service's key.
pub(crate) async fn pinned(service: &Arc<Service>) -> Builder {
    Client::builder(service.listen().await).trust(trusted(service))
}

pub(crate) async fn client(service: &Arc<Service>) -> Client {
    pinned(service).await.build().unwrap()
}

/// Makes one call, and reads its whole answer.
pub(crate) async fn call(
    client: &Client,
    method: Method,
    path: &str,
    headers: HeaderMap,
    body: impl Into<Body>,
) -> Result<Response<Bytes>, Error> {
    let mut request = Request::builder().method(method).uri(path).body(body.into()).unwrap();
    *request.headers_mut() = headers;
    let (head, body) = client.send(request).await?.into_parts();
    Ok(Response::from_parts(head, body.bytes().await?))
}

pub(crate) async fn post(client: &Client, path: &str, body: &[u8]) -> Result<Response<Bytes>, Error> {
    call(client, Method::POST, path, HeaderMap::new(), body.to_vec()).await
}

/// The code of a problem, which an error of another kind is not.
pub(crate) fn code(err: &Error) -> &str {
    assert!(matches!(err.kind(), ErrorKind::Problem { .. }), "{err}");
    err.code()
}

/// A function for [`Builder::authorization`] that always returns this value.
pub(crate) fn fixed(value: &'static str) -> impl Fn() -> Ready<Result<String, Error>> {
    move || ready(Ok(value.to_owned()))
}

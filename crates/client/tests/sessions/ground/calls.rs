//! Clients of a service, and their calls as a whole.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use sealway_client::{Body, Builder, Client, Error, Trust};

use super::Service;

pub(crate) fn trusted(service: &Service) -> Trust {
    Trust::Keys(vec![service.pin()])
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

pub(crate) fn code(err: &Error) -> &str {
    match err {
        Error::Problem { code, .. } => code,
        other => panic!("{other}"),
    }
}

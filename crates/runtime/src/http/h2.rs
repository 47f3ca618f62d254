//! HTTP/2 on a listener: hyper's, with our bounds.
//!
//! Interim answers cannot be sent: hyper has no way to, so no [`Interim`](super::Interim) goes with these requests.

use std::convert::Infallible;
use std::pin::pin;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::server::conn::http2::Builder;
use hyper::service::{Service, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};

use super::h1::Setup;
use super::stream::{Prefixed, Transport};
use super::{Body, BodyError, RequestBody};

/// Serves until the connection ends. `prefix` was read from it already.
///
/// # Errors
/// When it ends early.
pub(super) async fn serve<IO, S>(io: IO, prefix: Bytes, setup: &Setup, service: S) -> Result<(), BodyError>
where
    IO: Transport,
    S: Service<Request<RequestBody>, Response = Response<Body>, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send,
{
    let limits = &setup.limits;
    let (origin, entry) = (setup.origin.clone(), setup.entry.clone());
    let service = service_fn(move |request: Request<Incoming>| {
        entry.count_request();
        let mut request = request.map(RequestBody::from);
        request.extensions_mut().insert(origin.clone());
        service.call(request)
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(limits.header_timeout))
        .keep_alive_timeout(limits.header_timeout)
        .max_concurrent_streams(limits.streams_max)
        .max_header_list_size(u32::try_from(limits.header_bytes_max).unwrap_or(u32::MAX));
    let mut connection = pin!(builder.serve_connection(TokioIo::new(Prefixed::new(prefix, io)), service));
    tokio::select! {
        served = connection.as_mut() => served?,
        () = setup.entry.stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await?;
        }
    }
    Ok(())
}

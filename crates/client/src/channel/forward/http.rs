//! Requests of HTTP/1.1 on a stream, forwarded to a server under its own name.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE,
    TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};

use super::{CONNECT_TIME, Error, Stage, Stream};

/// Longest head of a request or an answer, in bytes.
const HEAD_LEN_MAX: usize = 64 * 1024;

type Body = BoxBody<Bytes, hyper::Error>;

/// Answers the requests on a stream until the stream ends.
pub(super) async fn serve(stream: Stream, place: &str) -> Result<(), Error> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_TIME));
    // Requests on one stream are sequential, so one idle connection is enough.
    let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(1).build::<_, Incoming>(connector);
    let service = service_fn(|request| forward(&client, place, request));
    hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .max_buf_size(HEAD_LEN_MAX)
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service)
        .await
        .map_err(|err| Error::new(Stage::Stream, "broken_off", format!("a connection broke off: {err}")))
}

async fn forward(
    client: &Client<HttpConnector, Incoming>,
    place: &str,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    if request.headers().contains_key(UPGRADE) {
        let text = "this hop carries no upgrades; forward tcp:// instead of http://";
        return Ok(refusal(StatusCode::NOT_IMPLEMENTED, text.into()));
    }
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let (Ok(uri), Ok(host)) = (format!("http://{place}{path}").parse::<Uri>(), HeaderValue::from_str(place)) else {
        return Ok(refusal(StatusCode::BAD_REQUEST, "the target of the request is none".into()));
    };
    *request.uri_mut() = uri;
    drop_hop_headers(request.headers_mut());
    request.headers_mut().insert(HOST, host);
    Ok(match client.request(request).await {
        Ok(mut answer) => {
            drop_hop_headers(answer.headers_mut());
            answer.map(BodyExt::boxed)
        }
        Err(err) => refusal(StatusCode::BAD_GATEWAY, format!("{place} does not answer: {err}")),
    })
}

fn refusal(status: StatusCode, text: String) -> Response<Body> {
    let mut response = Response::new(Full::from(text + "\n").map_err(|never| match never {}).boxed());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// Removes hop-by-hop headers (RFC 9110 section 7.6.1), with those that `Connection` names.
fn drop_hop_headers(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok())
        .collect();
    let of_this_hop = [CONNECTION, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];
    for name in named.iter().chain(&of_this_hop) {
        headers.remove(name);
    }
    headers.remove("keep-alive");
    headers.remove("proxy-connection");
}

//! TLS to a collector: the given authorities, or the system's, verify its certificate.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use opentelemetry_http::HttpClient;
use opentelemetry_http::hyper::HyperClient;
use tonic::transport::{Channel, Endpoint};

use crate::clock::SystemClock;
use crate::tls::{Client, ClientFiles};

/// Creates a client for OTLP over HTTP.
pub(super) fn http(ca: Option<&Path>, timeout: Duration) -> Result<Arc<dyn HttpClient>, String> {
    Ok(Arc::new(HyperClient::new(connector(ca, false)?, timeout, None)))
}

/// Creates a channel for OTLP over gRPC, which connects on its first use.
pub(super) fn grpc(url: &str, ca: Option<&Path>, timeout: Duration) -> Result<Channel, String> {
    let endpoint = Endpoint::from_shared(url.to_owned()).map_err(|err| format!("telemetry: the endpoint: {err}"))?;
    let endpoint = endpoint.timeout(timeout).connect_timeout(timeout);
    Ok(endpoint.connect_with_connector_lazy(connector(ca, true)?))
}

fn connector(ca: Option<&Path>, is_http2: bool) -> Result<HttpsConnector<HttpConnector>, String> {
    let files = ClientFiles { ca: ca.map(Path::to_owned), ..ClientFiles::default() };
    let client = Client::load(files, Arc::new(SystemClock));
    let client = client.map_err(|err| format!("telemetry: the authorities of a collector: {err}"))?;
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    Ok(HttpsConnector::from((tcp, client.config(is_http2))))
}

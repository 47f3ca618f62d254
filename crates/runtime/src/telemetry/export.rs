//! Where spans go: a collector by OTLP over HTTP or gRPC, or this process's own output.

use std::io::Write;
use std::time::{Duration, UNIX_EPOCH};

use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::tonic_types::metadata::MetadataMap;
use opentelemetry_otlp::{Protocol, WithExportConfig, WithHttpConfig, WithTonicConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider, SpanData, SpanExporter};

/// One place that spans go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Traces {
    /// Standard output, an object a line.
    Console,
    /// OTLP over HTTP, to a URL such as `http://127.0.0.1:4318/v1/traces`.
    Http(String),
    /// OTLP over gRPC, to a URL such as `http://127.0.0.1:4317`.
    Grpc(String),
}

/// Which spans are recorded. A share is from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Sampling {
    /// Every one.
    #[default]
    Always,
    /// None.
    Never,
    /// A share of traces.
    Share(f64),
    /// As the parent was, and every one that has none.
    ParentOrAlways,
    /// As the parent was, and none that has none.
    ParentOrNever,
    /// As the parent was, and a share of those that have none.
    ParentOrShare(f64),
}

impl Sampling {
    fn sampler(self) -> Sampler {
        match self {
            Sampling::Always => Sampler::AlwaysOn,
            Sampling::Never => Sampler::AlwaysOff,
            Sampling::Share(share) => Sampler::TraceIdRatioBased(share),
            Sampling::ParentOrAlways => Sampler::ParentBased(Box::new(Sampler::AlwaysOn)),
            Sampling::ParentOrNever => Sampler::ParentBased(Box::new(Sampler::AlwaysOff)),
            Sampling::ParentOrShare(share) => Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(share))),
        }
    }
}

/// What signs the spans, and how they are sent.
#[derive(Clone, Default)]
pub struct Tracing {
    /// Where to; nowhere when empty.
    pub to: Vec<Traces>,
    /// Which.
    pub sampling: Sampling,
    /// `service.version`.
    pub version: Option<String>,
    /// The `Authorization` header for collectors; a secret.
    pub authorization: Option<String>,
}

impl std::fmt::Debug for Tracing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tracing").field("to", &self.to).field("sampling", &self.sampling).finish_non_exhaustive()
    }
}

impl Tracing {
    /// None when spans go nowhere. Must run inside a tokio runtime.
    pub(super) fn provider(&self, service: &str) -> Result<Option<SdkTracerProvider>, String> {
        if self.to.is_empty() {
            return Ok(None);
        }
        let mut resource = Resource::builder().with_service_name(service.to_owned());
        if let Some(version) = &self.version {
            resource = resource.with_attribute(opentelemetry::KeyValue::new("service.version", version.clone()));
        }
        let mut provider =
            SdkTracerProvider::builder().with_resource(resource.build()).with_sampler(self.sampling.sampler());
        for to in &self.to {
            provider = match to {
                Traces::Console => provider.with_simple_exporter(Console),
                Traces::Http(endpoint) => provider.with_batch_exporter(self.http(endpoint)?),
                Traces::Grpc(endpoint) => provider.with_batch_exporter(self.grpc(endpoint)?),
            };
        }
        Ok(Some(provider.build()))
    }

    fn http(&self, endpoint: &str) -> Result<opentelemetry_otlp::SpanExporter, String> {
        let headers = self.authorization.iter().map(|value| ("authorization".to_owned(), value.clone()));
        opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(endpoint)
            .with_timeout(Duration::from_secs(5))
            .with_headers(headers.collect())
            .with_http_client(OnRuntime::new())
            .build()
            .map_err(|err| format!("traces: {err}"))
    }

    fn grpc(&self, endpoint: &str) -> Result<opentelemetry_otlp::SpanExporter, String> {
        let mut metadata = MetadataMap::new();
        if let Some(value) = &self.authorization {
            let value = value.parse().map_err(|_| "traces: the authorization is no value of a header".to_owned())?;
            metadata.insert("authorization", value);
        }
        opentelemetry_otlp::SpanExporter::builder()
            .with_tonic()
            .with_endpoint(endpoint)
            .with_timeout(Duration::from_secs(5))
            .with_metadata(metadata)
            .build()
            .map_err(|err| format!("traces: {err}"))
    }
}

/// The exporter works on a thread of its own, which has no tokio runtime: this takes its requests to ours.
#[derive(Debug)]
struct OnRuntime {
    runtime: tokio::runtime::Handle,
    client: std::sync::Arc<opentelemetry_http::hyper::HyperClient>,
}

impl OnRuntime {
    fn new() -> Self {
        let client = opentelemetry_http::hyper::HyperClient::with_default_connector(Duration::from_secs(5), None);
        OnRuntime { runtime: tokio::runtime::Handle::current(), client: client.into() }
    }
}

#[async_trait::async_trait]
impl HttpClient for OnRuntime {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        self.runtime.spawn(async move { client.send_bytes(request).await }).await?
    }
}

/// Writes each span to standard output.
#[derive(Debug)]
struct Console;

impl SpanExporter for Console {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let mut text = String::new();
        for span in batch {
            text.push_str(&object(&span).to_string());
            text.push('\n');
        }
        // Nobody may be left to read it.
        let _ = std::io::stdout().lock().write_all(text.as_bytes());
        Ok(())
    }
}

fn object(span: &SpanData) -> serde_json::Value {
    let nanoseconds = |time: std::time::SystemTime| {
        time.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    };
    let attributes: serde_json::Map<String, serde_json::Value> =
        span.attributes.iter().map(|pair| (pair.key.to_string(), pair.value.as_str().into())).collect();
    serde_json::json!({
        "span": span.name,
        "trace_id": span.span_context.trace_id().to_string(),
        "span_id": span.span_context.span_id().to_string(),
        "parent_span_id": span.parent_span_id.to_string(),
        "start_ns": nanoseconds(span.start_time),
        "end_ns": nanoseconds(span.end_time),
        "status": format!("{:?}", span.status),
        "attributes": attributes,
    })
}

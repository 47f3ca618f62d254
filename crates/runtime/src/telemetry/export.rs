//! Destinations of spans, metrics and log records: a collector by OTLP over HTTP or gRPC, or this process's own output. An
//! unavailable collector costs a warning and the items that do not fit its queue; no call waits for it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry_http::hyper::HyperClient;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::tonic_types::metadata::MetadataMap;
use opentelemetry_otlp::{
    LogExporter, MetricExporter, Protocol, SpanExporter, WithExportConfig, WithHttpConfig, WithTonicConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::logs::{BatchConfigBuilder, BatchLogProcessor, SdkLoggerProvider};
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};

use super::console::Console;
use super::delivery::Delivery;

/// Longest time for a collector's answer to a request.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Most log records that wait for a collector; further ones are dropped.
const RECORDS_MAX: usize = 2048;
/// Default interval between two exports of metrics.
const INTERVAL: Duration = Duration::from_secs(30);

/// A destination of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Standard output, an object a line. Log records go there anyway: among their places it has no effect.
    Console,
    /// OTLP over HTTP, to a URL with its path, such as `http://127.0.0.1:4318/v1/traces`; with TLS if it is `https`.
    Http(String),
    /// OTLP over gRPC, to a URL such as `http://127.0.0.1:4317`; with TLS if it is `https`.
    Grpc(String),
}

/// The spans that are recorded. A share is from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Sampling {
    /// Every span is recorded, whatever its parent.
    #[default]
    Always,
    /// No span is recorded, whatever its parent.
    Never,
    /// A share of traces is recorded.
    Share(f64),
    /// As the parent was; every span without a parent.
    ParentOrAlways,
    /// As the parent was; no span without a parent.
    ParentOrNever,
    /// As the parent was; a share of those without a parent.
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

/// The exports of a process, with its version and the authentication of and towards collectors.
#[derive(Clone)]
pub struct Exports {
    /// The destinations of spans; empty for none.
    pub traces: Vec<Place>,
    /// The spans that are recorded.
    pub sampling: Sampling,
    /// The destinations of metrics; empty for none.
    pub metrics: Vec<Place>,
    /// The interval between two exports of metrics.
    pub interval: Duration,
    /// The destinations of log records besides the output; empty for none.
    pub logs: Vec<Place>,
    /// The value of `service.version`, if any.
    pub version: Option<String>,
    /// The `Authorization` header for collectors; a secret.
    pub authorization: Option<String>,
    /// Authorities, in PEM, that verify a collector's certificate; `None` for the system's.
    pub ca: Option<PathBuf>,
}

impl Default for Exports {
    fn default() -> Self {
        Exports {
            traces: Vec::new(),
            sampling: Sampling::default(),
            metrics: Vec::new(),
            interval: INTERVAL,
            logs: Vec::new(),
            version: None,
            authorization: None,
            ca: None,
        }
    }
}

impl std::fmt::Debug for Exports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = f.debug_struct("Exports");
        text.field("traces", &self.traces).field("sampling", &self.sampling).field("metrics", &self.metrics);
        text.field("logs", &self.logs).finish_non_exhaustive()
    }
}

#[cfg(not(feature = "http"))]
const NO_TLS: &str = "telemetry: this build has no TLS: name a collector on this machine, with http://";

fn is_secure(url: &str) -> bool {
    url.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:"))
}

/// Builds the exporter of one kind to a collector; `None` for a place that is not a collector.
macro_rules! exporter {
    ($exports:expr, $kind:ident, $place:expr) => {
        match $place {
            Place::Console => None,
            Place::Http(url) => Some($exports.over_http($kind::builder().with_http(), url)?.build()),
            Place::Grpc(url) => Some($exports.over_grpc($kind::builder().with_tonic(), url)?.build()),
        }
        .transpose()
        .map_err(|err| format!("telemetry: {err}"))?
    };
}

impl Exports {
    /// Builds the provider of spans; `None` if there is no destination. Must run inside a tokio runtime, as the others must.
    pub(super) fn tracers(&self, service: &str) -> Result<Option<SdkTracerProvider>, String> {
        if self.traces.is_empty() {
            return Ok(None);
        }
        let sampler = self.sampling.sampler();
        let mut provider = SdkTracerProvider::builder().with_resource(self.resource(service)).with_sampler(sampler);
        for place in &self.traces {
            provider = match exporter!(self, SpanExporter, place) {
                None => provider.with_simple_exporter(Console),
                Some(exporter) => provider.with_batch_exporter(Delivery::new("spans", exporter)),
            };
        }
        Ok(Some(provider.build()))
    }

    /// Builds the provider of metrics; `None` if there is no destination.
    pub(super) fn meters(&self, service: &str) -> Result<Option<SdkMeterProvider>, String> {
        if self.metrics.is_empty() {
            return Ok(None);
        }
        let mut provider = SdkMeterProvider::builder().with_resource(self.resource(service));
        for place in &self.metrics {
            provider = match exporter!(self, MetricExporter, place) {
                None => provider.with_reader(PeriodicReader::builder(Console).with_interval(self.interval).build()),
                Some(exporter) => {
                    let reader = PeriodicReader::builder(Delivery::new("metrics", exporter));
                    provider.with_reader(reader.with_interval(self.interval).build())
                }
            };
        }
        Ok(Some(provider.build()))
    }

    /// Builds the provider of log records; `None` if there is no destination but the output.
    pub(super) fn loggers(&self, service: &str) -> Result<Option<SdkLoggerProvider>, String> {
        let mut provider = SdkLoggerProvider::builder().with_resource(self.resource(service));
        let mut is_any = false;
        for place in &self.logs {
            let Some(exporter) = exporter!(self, LogExporter, place) else { continue };
            let bounds = BatchConfigBuilder::default().with_max_queue_size(RECORDS_MAX).build();
            let batches = BatchLogProcessor::builder(Delivery::new("log records", exporter)).with_batch_config(bounds);
            provider = provider.with_log_processor(batches.build());
            is_any = true;
        }
        Ok(is_any.then(|| provider.build()))
    }

    fn resource(&self, service: &str) -> Resource {
        let mut resource = Resource::builder().with_service_name(service.to_owned());
        if let Some(version) = &self.version {
            resource = resource.with_attribute(opentelemetry::KeyValue::new("service.version", version.clone()));
        }
        resource.build()
    }

    fn over_http<B: WithExportConfig + WithHttpConfig>(&self, builder: B, url: &str) -> Result<B, String> {
        let headers = self.authorization.iter().map(|value| ("authorization".to_owned(), value.clone()));
        Ok(builder
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(url)
            .with_timeout(ANSWER_MAX)
            .with_headers(headers.collect())
            .with_http_client(OnRuntime { runtime: tokio::runtime::Handle::current(), client: self.client(url)? }))
    }

    fn client(&self, url: &str) -> Result<Arc<dyn HttpClient>, String> {
        if !is_secure(url) {
            return Ok(Arc::new(HyperClient::with_default_connector(ANSWER_MAX, None)));
        }
        #[cfg(feature = "http")]
        return super::secure::http(self.ca.as_deref(), ANSWER_MAX);
        #[cfg(not(feature = "http"))]
        Err(NO_TLS.into())
    }

    fn over_grpc<B: WithExportConfig + WithTonicConfig>(&self, builder: B, url: &str) -> Result<B, String> {
        let mut metadata = MetadataMap::new();
        if let Some(value) = &self.authorization {
            let value = value.parse().map_err(|_| "telemetry: the authorization is no value of a header".to_owned())?;
            metadata.insert("authorization", value);
        }
        let builder = builder.with_endpoint(url).with_timeout(ANSWER_MAX).with_metadata(metadata);
        if !is_secure(url) {
            return Ok(builder);
        }
        #[cfg(feature = "http")]
        return Ok(builder.with_channel(super::secure::grpc(url, self.ca.as_deref(), ANSWER_MAX)?));
        #[cfg(not(feature = "http"))]
        Err(NO_TLS.into())
    }
}

/// Runs the requests of an exporter on the tokio runtime: the exporter works on a thread of its own, which has none.
#[derive(Debug)]
struct OnRuntime {
    runtime: tokio::runtime::Handle,
    client: Arc<dyn HttpClient>,
}

#[async_trait::async_trait]
impl HttpClient for OnRuntime {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        self.runtime.spawn(async move { client.send_bytes(request).await }).await?
    }
}

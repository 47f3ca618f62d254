//! Logs on standard error (text or JSON), metrics for Prometheus, traces by OTLP. Traces are off unless an endpoint is
//! configured.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use opentelemetry::trace::{TraceContextExt, TracerProvider};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use serde::{Deserialize, Serialize};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::config::Problems;
use crate::log_tail::Tee;

/// Upper bounds of duration histograms, in seconds.
const DURATION_BUCKETS: &[f64] =
    &[0.000_05, 0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// How logs look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For a person.
    #[default]
    Text,
    /// One object a line.
    Json,
}

/// `telemetry:` as written.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawTelemetry {
    log_format: Option<LogFormat>,
    log_level: Option<String>,
    otlp_endpoint: Option<String>,
}

/// Checked.
#[derive(Clone, Debug, Default)]
pub struct Telemetry {
    /// Text or JSON.
    pub log_format: LogFormat,
    /// A filter: `info`, or `warn,sealway_gateway=debug`.
    pub log_level: String,
    /// Where traces go by OTLP over HTTP, such as `http://127.0.0.1:4318/v1/traces`.
    pub otlp_endpoint: Option<String>,
}

impl RawTelemetry {
    /// Checks it.
    pub fn resolve(&self, problems: &mut Problems) -> Telemetry {
        let log_level = self.log_level.clone().unwrap_or_else(|| "info".into());
        if let Err(err) = filter(&log_level) {
            problems.add("telemetry.log_level", err);
        }
        if let Some(endpoint) = &self.otlp_endpoint {
            let parsed = endpoint.parse::<http::Uri>();
            let is_fit = |uri: http::Uri| {
                uri.scheme_str() == Some("http") && uri.authority().is_some_and(|host| !host.as_str().contains('@'))
            };
            if !parsed.is_ok_and(is_fit) {
                problems.add(
                    "telemetry.otlp_endpoint",
                    "expected an http:// URL of a collector, without a user (TLS: use a local one)",
                );
            }
        }
        Telemetry {
            log_format: self.log_format.unwrap_or_default(),
            log_level,
            otlp_endpoint: self.otlp_endpoint.clone(),
        }
    }
}

/// Reads a filter. The library's parser panics on a blank before a character of several bytes, so ASCII alone goes in.
fn filter(text: &str) -> Result<EnvFilter, String> {
    if !text.is_ascii() {
        return Err("expected a filter in ASCII, such as info or warn,sealway_gateway=debug".into());
    }
    EnvFilter::try_new(text).map_err(|err| err.to_string())
}

/// Flushes traces when dropped.
#[derive(Debug, Default)]
pub struct TelemetryGuard(Option<SdkTracerProvider>);

impl Drop for TelemetryGuard {
    fn drop(&mut self) {
        if let Some(provider) = self.0.take() {
            // On a thread of its own: the exporter needs this one's runtime to go on.
            let _ = std::thread::spawn(move || provider.shutdown_with_timeout(Duration::from_secs(3))).join();
        }
    }
}

/// Starts logs and, with an endpoint, traces. Once a process; must run inside a multi-threaded tokio runtime.
///
/// # Errors
/// A sentence.
pub fn init(config: &Telemetry, service: &'static str) -> Result<TelemetryGuard, String> {
    let filter = filter(&config.log_level)?;
    let log = tracing_subscriber::fmt::layer().with_writer(|| Tee);
    let log = match config.log_format {
        LogFormat::Text => log.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).boxed(),
        LogFormat::Json => log.json().flatten_event(true).boxed(),
    };
    let provider = config.otlp_endpoint.as_deref().map(|endpoint| tracer(endpoint, service)).transpose()?;
    let traces = provider.as_ref().map(|provider| {
        tracing_opentelemetry::layer()
            .with_tracer(provider.tracer(service))
            .with_filter(tracing_subscriber::filter::filter_fn(is_ours))
    });
    tracing_subscriber::registry()
        .with(log.with_filter(filter))
        .with(traces)
        .try_init()
        .map_err(|err| format!("logs are already set up: {err}"))?;
    Ok(TelemetryGuard(provider))
}

/// Spans of libraries below are theirs to look at, and many.
fn is_ours(meta: &tracing::Metadata<'_>) -> bool {
    meta.is_span() && meta.target().starts_with("sealway")
}

fn tracer(endpoint: &str, service: &'static str) -> Result<SdkTracerProvider, String> {
    let exporter = SpanExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(endpoint)
        .with_timeout(Duration::from_secs(5))
        .with_http_client(OnRuntime::new())
        .build()
        .map_err(|err| format!("traces: {err}"))?;
    Ok(SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(Resource::builder().with_service_name(service).build())
        .build())
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

/// A `traceparent` (W3C Trace Context) for a request that is sent on now: of the span that is recorded, or a new one that
/// says that nothing is.
pub fn traceparent() -> String {
    let context = tracing::Span::current().context();
    let span = context.span().span_context().clone();
    if span.is_valid() {
        let flags = span.trace_flags().to_u8();
        return format!("00-{}-{}-{flags:02x}", span.trace_id(), span.span_id());
    }
    // Ids have to differ, not to be secret. Zero is no id.
    let random = || RandomState::new().hash_one(0_u8) | 1;
    format!("00-{:016x}{:016x}-{:016x}-00", random(), random(), random())
}

/// The process's metrics, in Prometheus' text format when rendered.
///
/// # Errors
/// A sentence, when another recorder was installed.
pub fn metrics() -> Result<PrometheusHandle, String> {
    static HANDLE: OnceLock<Result<PrometheusHandle, String>> = OnceLock::new();
    HANDLE
        .get_or_init(|| {
            PrometheusBuilder::new()
                .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), DURATION_BUCKETS)
                .and_then(PrometheusBuilder::install_recorder)
                .map_err(|err| format!("metrics: {err}"))
        })
        .clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_the_library_cannot_read_is_a_problem_and_no_panic() {
        assert!(filter("warn,sealway_gateway=debug").is_ok());
        for text in [" \u{e9}=debug", "\u{e9}", "a=nolevel"] {
            assert!(filter(text).is_err(), "{text}");
        }
    }
}

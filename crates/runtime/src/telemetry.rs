//! Logs on standard error (text or JSON), metrics for Prometheus; traces, metrics and logs by OTLP, which is off without a
//! configured endpoint.

mod console;
mod delivery;
mod export;
mod lines;
mod measures;
mod records;
#[cfg(feature = "http")]
mod secure;

use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::time::Duration;

use opentelemetry::metrics::MeterProvider;
use opentelemetry::trace::{SpanContext, TraceContextExt, TraceFlags, TraceState, TracerProvider};
use opentelemetry::{SpanId, TraceId};
use opentelemetry_sdk::logs::SdkLoggerProvider;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use serde::{Deserialize, Serialize};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::filter::{FilterExt, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry};

use crate::config::{FilePath, Problems};
use crate::log_tail::Tee;
use crate::process;

pub use metrics_exporter_prometheus::PrometheusHandle;

pub use export::{Exports, Place, Sampling};

/// Set if this build can reach a collector over TLS.
pub const HAS_TLS: bool = cfg!(feature = "http");

/// Longest time for sending the rest at shutdown.
const FLUSH_MAX: Duration = Duration::from_secs(3);

/// The format of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Lines of text for a person.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// `telemetry:` as written.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawTelemetry {
    /// Format of the log, which goes to standard error.
    log_format: Option<LogFormat>,
    /// `off`, `error`, `warn`, `info`, `debug` or `trace`, or a filter with levels of single parts, such as
    /// `warn,sealway_gateway=debug`. An unknown word is an error.
    /// - default: `info`
    log_level: Option<String>,
    /// Collector that receives traces by OTLP over HTTP, such as `http://127.0.0.1:4318/v1/traces`; with TLS if it is
    /// `https://`.
    /// - type: URL
    /// - default: none: no traces
    otlp_endpoint: Option<String>,
    /// Authorities, in PEM, that verify the certificate of an `https://` collector.
    /// - default: the system's authorities
    otlp_ca_file: Option<FilePath>,
    /// Folder that keeps the inventory of used cryptography over restarts, for `sealway inventory`; made if it is missing.
    /// - default: none: counts are in memory alone
    inventory_folder: Option<FilePath>,
}

/// The checked settings of telemetry.
#[derive(Clone, Debug, Default)]
pub struct Telemetry {
    /// The format, text or JSON.
    pub log_format: LogFormat,
    /// The filter of levels: `info`, or `warn,sealway_gateway=debug`.
    pub log_level: String,
    /// The collector of traces by OTLP over HTTP, such as `http://127.0.0.1:4318/v1/traces`; with TLS if it is `https`.
    pub otlp_endpoint: Option<String>,
    /// Authorities, in PEM, that verify the collector's certificate; `None` for the system's.
    pub otlp_ca: Option<PathBuf>,
    /// Folder of the inventory of cryptography; `None` for counts in memory alone.
    pub inventory: Option<PathBuf>,
}

impl RawTelemetry {
    /// Checks the settings. Paths are relative to the folder of the configuration in `file`.
    pub fn resolve(&self, file: Option<&Path>, problems: &mut Problems) -> Telemetry {
        let log_level = self.log_level.clone().unwrap_or_else(|| "info".into());
        if let Err(err) = filter(&log_level) {
            problems.add("telemetry.log_level", err);
        }
        if let Some(endpoint) = &self.otlp_endpoint {
            let parsed = endpoint.parse::<http::Uri>();
            let is_fit = |uri: http::Uri| {
                let is_known = uri.scheme_str() == Some("http") || (HAS_TLS && uri.scheme_str() == Some("https"));
                is_known && uri.authority().is_some_and(|host| !host.as_str().contains('@'))
            };
            if !parsed.is_ok_and(is_fit) {
                problems.add(
                    "telemetry.otlp_endpoint",
                    "expected an http:// or https:// URL of a collector, without a user, such as \
                     http://127.0.0.1:4318/v1/traces",
                );
            }
        }
        let is_secure = self.otlp_endpoint.as_ref().is_some_and(|endpoint| endpoint.starts_with("https:"));
        if self.otlp_ca_file.is_some() && !is_secure {
            problems
                .add("telemetry.otlp_ca_file", "telemetry.otlp_endpoint is no https:// URL; take one of the two out");
        }
        Telemetry {
            log_format: self.log_format.unwrap_or_default(),
            log_level,
            otlp_endpoint: self.otlp_endpoint.clone(),
            otlp_ca: self.otlp_ca_file.as_ref().map(|ca| problems.file("telemetry.otlp_ca_file", file, ca)),
            inventory: self
                .inventory_folder
                .as_ref()
                .map(|folder| problems.file("telemetry.inventory_folder", file, folder)),
        }
    }
}

impl Telemetry {
    fn exports(&self) -> Exports {
        let traces = self.otlp_endpoint.iter().cloned().map(Place::Http).collect();
        Exports { traces, ca: self.otlp_ca.clone(), ..Exports::default() }
    }

    /// Checks that the authorities of a collector can be read, as [`init`] does.
    pub fn check_files(&self, problems: &mut Problems) {
        #[cfg(feature = "http")]
        if let Some(Err(err)) = self.otlp_ca.as_deref().map(|ca| secure::http(Some(ca), FLUSH_MAX)) {
            problems.add("telemetry.otlp_ca_file", err);
        }
        #[cfg(not(feature = "http"))]
        let _ = problems;
    }
}

/// Levels of the log, from nothing to everything.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Returns whether a part of a filter is a level, as the library reads it: in any case, or as a number from 0 to 5.
fn is_level(text: &str) -> bool {
    LEVELS.iter().any(|level| level.eq_ignore_ascii_case(text)) || matches!(text.as_bytes(), [b'0'..=b'5'])
}

/// Parses a filter. The library's parser panics on a blank before a character of several bytes, so only ASCII is passed.
fn filter(text: &str) -> Result<EnvFilter, String> {
    if !text.is_ascii() {
        return Err("expected a filter in ASCII, such as info or warn,sealway_gateway=debug".into());
    }
    // An unknown level would count as the name of a part, and silently turn everything else off.
    if let Some(word) = text.split(',').map(str::trim).find(|part| !part.contains(['=', '[', ']']) && !is_level(part)) {
        return Err(format!(
            "\"{word}\" is no level; expected {}, or PART=LEVEL for a part, such as warn,sealway_gateway=debug",
            LEVELS.join(", ")
        ));
    }
    EnvFilter::try_new(text).map_err(|err| err.to_string())
}

/// Sends the rest of spans, metrics and log records when dropped.
#[derive(Debug, Default)]
pub struct TelemetryGuard {
    tracers: Option<SdkTracerProvider>,
    meters: Option<SdkMeterProvider>,
    loggers: Option<SdkLoggerProvider>,
}

impl TelemetryGuard {
    /// Sends a span, so that the log says whether export works; the process does not wait for it.
    pub fn probe(&self) {
        let Some(provider) = self.tracers.clone() else { return };
        tracing::info_span!("start").in_scope(|| {});
        // On a thread of its own: the exporter needs this one's runtime to continue.
        std::thread::spawn(move || provider.force_flush());
    }

    /// Installs the metrics, as [`metrics()`], and exports them if that is configured. The first call of either counts.
    ///
    /// # Errors
    /// Those of [`metrics()`].
    pub fn metrics(&self) -> Result<PrometheusHandle, String> {
        measures::install(self.meters.as_ref().map(|provider| provider.meter("sealway")))
    }
}

impl Drop for TelemetryGuard {
    fn drop(&mut self) {
        let (tracers, meters, loggers) = (self.tracers.take(), self.meters.take(), self.loggers.take());
        // On threads of their own: the exporters need this one's runtime to continue. In parallel, since an unavailable
        // collector lets each wait.
        std::thread::scope(|scope| {
            scope.spawn(|| tracers.map(|provider| provider.shutdown_with_timeout(FLUSH_MAX)));
            scope.spawn(|| meters.map(|provider| provider.shutdown_with_timeout(FLUSH_MAX)));
            scope.spawn(|| loggers.map(|provider| provider.shutdown_with_timeout(FLUSH_MAX)));
        });
    }
}

/// Starts logs and, with an endpoint, traces. Once a process; must run inside a multi-threaded tokio runtime.
///
/// # Errors
/// A sentence that names the cause.
pub fn init(config: &Telemetry, service: &'static str) -> Result<TelemetryGuard, String> {
    let log = tracing_subscriber::fmt::layer().with_writer(|| Tee);
    let log = match config.log_format {
        LogFormat::Text => log.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).boxed(),
        LogFormat::Json => log.json().flatten_event(true).boxed(),
    };
    start(log, &config.log_level, service, &config.exports())
}

/// The form and the output of a broker's log: that of Go's structured logger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slog {
    /// The filter of levels, as in [`Telemetry`].
    pub level: String,
    /// One JSON object a line; otherwise `key=value`.
    pub is_json: bool,
    /// Standard error; otherwise standard output.
    pub is_on_stderr: bool,
}

/// Starts, as [`init`], with such a log. Spans are not part of it.
///
/// # Errors
/// A sentence that names the cause.
pub fn init_slog(log: &Slog, service: &str, exports: &Exports) -> Result<TelemetryGuard, String> {
    let format = lines::Slog { service: service.to_owned(), is_json: log.is_json };
    let layer = tracing_subscriber::fmt::layer().event_format(format);
    let layer = if log.is_on_stderr {
        layer.with_writer(std::io::stderr).boxed()
    } else {
        layer.with_writer(std::io::stdout).boxed()
    };
    let layer = layer.with_filter(filter_fn(|meta| meta.is_event())).boxed();
    start(layer, &log.level, service, exports)
}

fn start(
    log: Box<dyn Layer<Registry> + Send + Sync>,
    level: &str,
    service: &str,
    exports: &Exports,
) -> Result<TelemetryGuard, String> {
    let guard = TelemetryGuard {
        tracers: exports.tracers(service)?,
        meters: exports.meters(service)?,
        loggers: exports.loggers(service)?,
    };
    let traces = guard.tracers.as_ref().map(|provider| {
        tracing_opentelemetry::layer().with_tracer(provider.tracer(service.to_owned())).with_filter(filter_fn(is_ours))
    });
    let records = match &guard.loggers {
        Some(provider) => {
            let wanted = filter(level)?.and(filter_fn(records::is_wanted));
            Some(records::Records::new(provider).with_filter(wanted))
        }
        None => None,
    };
    tracing_subscriber::registry()
        .with(log.with_filter(filter(level)?))
        .with(traces)
        .with(records)
        .try_init()
        .map_err(|err| format!("logs are already set up: {err}"))?;
    Ok(guard)
}

/// Returns whether a span is of this workspace: those of libraries are many, and of use only to their developers.
fn is_ours(meta: &tracing::Metadata<'_>) -> bool {
    meta.is_span() && meta.target().starts_with("sealway")
}

/// Returns a `traceparent` (W3C Trace Context) for a request to be sent: that of the recorded span, or a new one that is marked
/// as not sampled.
pub fn traceparent() -> String {
    let current = tracing::Span::current();
    if !current.is_none() {
        let context = current.context();
        let span = context.span().span_context().clone();
        if span.is_valid() {
            let flags = span.trace_flags().to_u8();
            return format!("00-{}-{}-{flags:02x}", span.trace_id(), span.span_id());
        }
    }
    // Ids must differ, not be secret. Zero is not an id.
    let state = RandomState::new();
    let random = |part: u8| state.hash_one(part) | 1;
    let mut header = String::with_capacity(55);
    header.push_str("00-");
    push_hex(&mut header, random(0));
    push_hex(&mut header, random(1));
    header.push('-');
    push_hex(&mut header, random(2));
    header.push_str("-00");
    header
}

/// Appends 16 hexadecimal digits, without the machinery of `format!`.
fn push_hex(text: &mut String, number: u64) {
    let digits: [u8; 16] = std::array::from_fn(|at| b"0123456789abcdef"[(number >> (60 - 4 * at)) as usize & 0xf]);
    text.push_str(std::str::from_utf8(&digits).unwrap_or_default());
}

/// Makes a span the child of one of another process, named by the 32 and 16 hexadecimal digits of its ids (W3C Trace Context);
/// it counts as sampled. Malformed ids are ignored. Call it before the span is entered.
pub fn set_parent(span: &tracing::Span, trace_id: &str, span_id: &str) {
    let is_hex = |text: &str, len| text.len() == len && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if span.is_disabled() || !is_hex(trace_id, 32) || !is_hex(span_id, 16) {
        return;
    }
    let (Ok(trace_id), Ok(span_id)) = (TraceId::from_hex(trace_id), SpanId::from_hex(span_id)) else { return };
    let parent = SpanContext::new(trace_id, span_id, TraceFlags::SAMPLED, true, TraceState::NONE);
    if parent.is_valid() {
        // It fails if no traces are recorded.
        let _ = span.set_parent(opentelemetry::Context::new().with_remote_span_context(parent));
    }
}

/// Installs the process's metrics, which are rendered in Prometheus' text format.
///
/// # Errors
/// A sentence, if another recorder is installed.
pub fn metrics() -> Result<PrometheusHandle, String> {
    measures::install(None)
}

/// Sets the help texts of metrics, by name; `HELP` in Prometheus' text format.
pub fn describe(metrics: &[(&'static str, &'static str)]) {
    for (name, help) in metrics {
        if name.ends_with("_total") {
            metrics::describe_counter!(*name, *help);
        } else {
            metrics::describe_gauge!(*name, *help);
        }
    }
}

/// Sets `sealway_build_info`: 1, with the program's version and its crypto library as labels.
pub fn set_build_info(version: &'static str, crypto: String) {
    describe(&[("sealway_build_info", "1, with the version and the crypto library as labels")]);
    metrics::gauge!("sealway_build_info", "version" => version, "crypto" => crypto).set(1.0);
}

/// Sets the metrics of the process itself, under the names of Prometheus' client libraries. Call it before each rendering;
/// values that the kernel does not report are left out.
pub fn set_process_metrics() {
    static DESCRIBED: std::sync::Once = std::sync::Once::new();
    DESCRIBED.call_once(|| {
        describe(&[
            ("process_cpu_seconds_total", "User and system processor time, in seconds"),
            ("process_resident_memory_bytes", "Resident memory, in bytes"),
            ("process_open_fds", "Open file descriptors"),
            ("process_max_fds", "Most file descriptors that may be open"),
            ("process_start_time_seconds", "Start of the process, in seconds since 1970"),
        ]);
        if let Some(start) = process::start_time() {
            metrics::gauge!("process_start_time_seconds").set(start.as_secs_f64());
        }
    });
    if let Some(time) = process::processor_time() {
        // A counter of this library counts whole numbers.
        metrics::gauge!("process_cpu_seconds_total").set(time.as_secs_f64());
    }
    if let Some(bytes) = process::resident_bytes() {
        metrics::gauge!("process_resident_memory_bytes").set(bytes as f64);
    }
    if let Some(open) = process::descriptors() {
        metrics::gauge!("process_open_fds").set(open as f64);
    }
    if let Some(max) = process::descriptors_max() {
        metrics::gauge!("process_max_fds").set(max as f64);
    }
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

    #[test]
    fn a_word_that_is_no_level_does_not_turn_the_log_off() {
        for text in ["verbose", "info,sealway_gateway", "warning"] {
            let err = filter(text).unwrap_err();
            assert!(err.contains("is no level; expected off, error, warn, info, debug, trace"), "{text}: {err}");
        }
        for text in ["INFO", "off", "3", "warn,sealway_gateway=debug", "info,sealway_sessions=trace"] {
            assert!(filter(text).is_ok(), "{text}");
        }
    }
}

//! Exporters of spans, metrics and log records, by OpenTelemetry's names. The default is none, unlike in the broker
//! that this one replaces: a span of every call on standard output suits only a demonstration.

use std::time::Duration;

use sealway_runtime::telemetry::{Exports, HAS_TLS, Place, Sampling};

use super::Environment;
use crate::profile::duration;

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const GRPC_ENDPOINT: &str = "127.0.0.1:4317";
const HTTP_ENDPOINT: &str = "http://127.0.0.1:4318";
/// Allowed intervals of metrics exports.
const INTERVALS: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);

/// Kind of exported data: traces, metrics or logs.
struct Signal {
    /// Variable that lists its exporters.
    name: &'static str,
    /// Path at a collector, such as `/v1/traces`.
    path: &'static str,
    /// True if an unknown exporter is a warning, as in the broker that this one replaces; else it is an error.
    is_lenient: bool,
}

const TRACES: Signal = Signal { name: "OTEL_TRACES_EXPORTER", path: "/v1/traces", is_lenient: true };
const METRICS: Signal = Signal { name: "OTEL_METRICS_EXPORTER", path: "/v1/metrics", is_lenient: false };
const LOGS: Signal = Signal { name: "OTEL_LOGS_EXPORTER", path: "/v1/logs", is_lenient: false };

pub(super) fn read(read: &mut Environment) -> Exports {
    Exports {
        traces: places(read, &TRACES),
        sampling: sampling(read),
        metrics: places(read, &METRICS),
        interval: interval(read),
        // The log is on the console anyway.
        logs: places(read, &LOGS).into_iter().filter(|place| *place != Place::Console).collect(),
        version: read.exact("OTEL_SERVICE_VERSION"),
        authorization: read.exact("OTEL_EXPORTER_OTLP_HEADERS_AUTHORIZATION"),
        ca: read.exact("OTEL_EXPORTER_OTLP_CERTIFICATE").map(Into::into),
    }
}

fn places(read: &mut Environment, signal: &Signal) -> Vec<Place> {
    let endpoint = read.exact(ENDPOINT);
    let mut places = Vec::new();
    for word in read.exact(signal.name).unwrap_or_default().split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let place = match word.to_ascii_lowercase().as_str() {
            "console" => Place::Console,
            "otlpgrpc" => Place::Grpc(grpc_url(endpoint.as_deref().unwrap_or(GRPC_ENDPOINT))),
            "otlp" | "otlphttp" | "auto" => {
                Place::Http(http_url(endpoint.as_deref().unwrap_or(HTTP_ENDPOINT), signal.path))
            }
            "none" => continue,
            other if signal.is_lenient => {
                read.warn(signal.name, &format!("\"{}\" is no exporter: it is off", other.escape_debug()));
                continue;
            }
            _ => {
                read.problem(signal.name, "expected a list of none, console, otlpgrpc, otlphttp");
                continue;
            }
        };
        if !is_url(&place) {
            read.problem(ENDPOINT, "expected host:port for gRPC, or a URL of http or https without a user");
        } else if !HAS_TLS && matches!(&place, Place::Http(url) | Place::Grpc(url) if url.starts_with("https:")) {
            read.problem(ENDPOINT, "this build has no TLS: name a collector on this machine, with http://");
        } else if !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

fn interval(read: &mut Environment) -> Duration {
    const NAME: &str = "OTEL_METRICS_INTERVAL";
    let Some(text) = read.exact(NAME) else { return Exports::default().interval };
    let parsed = duration::parse(&text).ok().and_then(|offset| u64::try_from(offset.ns).ok());
    match parsed.map(Duration::from_nanos).filter(|interval| INTERVALS.contains(interval)) {
        Some(interval) => interval,
        None => {
            read.problem(NAME, "expected a duration from 100ms to 1h, such as 30s");
            Exports::default().interval
        }
    }
}

fn is_url(place: &Place) -> bool {
    let (Place::Http(url) | Place::Grpc(url)) = place else { return true };
    // A URL with a user would show its password.
    let is_fit = |uri: http::Uri| {
        let host = uri.authority().filter(|authority| !authority.as_str().contains('@')).map(|some| some.host());
        matches!(uri.scheme_str(), Some("http" | "https")) && host.is_some_and(|host| !host.is_empty())
    };
    url.parse().is_ok_and(is_fit)
}

fn grpc_url(endpoint: &str) -> String {
    if endpoint.contains("://") { endpoint.to_owned() } else { format!("http://{endpoint}") }
}

/// Appends the signal's path to the collector's base URL. A path of any signal at its end is replaced.
fn http_url(endpoint: &str, path: &str) -> String {
    let url = grpc_url(endpoint);
    let base = url.trim_end_matches('/');
    let base = [&TRACES, &METRICS, &LOGS].iter().find_map(|signal| base.strip_suffix(signal.path)).unwrap_or(base);
    format!("{base}{path}")
}

fn sampling(read: &mut Environment) -> Sampling {
    const NAME: &str = "OTEL_TRACES_SAMPLER";
    let share = read.parsed::<f64>("OTEL_TRACES_SAMPLER_ARG", "a number from 0 to 1").unwrap_or(1.0);
    if !(0.0..=1.0).contains(&share) {
        read.problem("OTEL_TRACES_SAMPLER_ARG", "expected a number from 0 to 1");
    }
    let words = [
        ("always_on", Sampling::Always),
        ("always", Sampling::Always),
        ("always_off", Sampling::Never),
        ("never", Sampling::Never),
        ("traceidratio", Sampling::Share(share)),
        ("ratio", Sampling::Share(share)),
        ("parentbased_always_on", Sampling::ParentOrAlways),
        ("parentbased_always_off", Sampling::ParentOrNever),
        ("parentbased_traceidratio", Sampling::ParentOrShare(share)),
    ];
    read.choice(NAME, &words, Sampling::Always)
}

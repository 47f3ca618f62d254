//! Where spans go, and which, by OpenTelemetry's names. Unlike with the broker that this replaces, nowhere is the default:
//! a span of every call on standard output is for a demonstration.

use sealway_runtime::telemetry::{Sampling, Traces, Tracing};

use super::Environment;

const GRPC_ENDPOINT: &str = "127.0.0.1:4317";
const HTTP_ENDPOINT: &str = "http://127.0.0.1:4318";

pub(super) fn read(read: &mut Environment) -> Tracing {
    Tracing {
        to: exporters(read),
        sampling: sampling(read),
        version: read.exact("OTEL_SERVICE_VERSION"),
        authorization: read.exact("OTEL_EXPORTER_OTLP_HEADERS_AUTHORIZATION"),
    }
}

fn exporters(read: &mut Environment) -> Vec<Traces> {
    const NAME: &str = "OTEL_TRACES_EXPORTER";
    let endpoint = read.exact("OTEL_EXPORTER_OTLP_ENDPOINT");
    let mut exporters = Vec::new();
    for word in read.exact(NAME).unwrap_or_default().split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let exporter = match word.to_ascii_lowercase().as_str() {
            "console" => Traces::Console,
            "otlpgrpc" => Traces::Grpc(grpc_url(endpoint.as_deref().unwrap_or(GRPC_ENDPOINT))),
            "otlp" | "otlphttp" => Traces::Http(http_url(endpoint.as_deref().unwrap_or(HTTP_ENDPOINT))),
            "none" => continue,
            other => {
                read.warn(NAME, &format!("\"{}\" is no exporter: it is off", other.escape_debug()));
                continue;
            }
        };
        if !is_url(&exporter) {
            read.problem("OTEL_EXPORTER_OTLP_ENDPOINT", "expected host:port for gRPC, an http:// URL for HTTP");
        } else if !exporters.contains(&exporter) {
            exporters.push(exporter);
        }
    }
    exporters
}

fn is_url(exporter: &Traces) -> bool {
    let (Traces::Http(url) | Traces::Grpc(url)) = exporter else { return true };
    let is_fit = |uri: http::Uri| uri.scheme_str() == Some("http") && uri.host().is_some_and(|host| !host.is_empty());
    url.parse().is_ok_and(is_fit)
}

fn grpc_url(endpoint: &str) -> String {
    if endpoint.contains("://") { endpoint.to_owned() } else { format!("http://{endpoint}") }
}

/// The path of traces is added where the URL has none.
fn http_url(endpoint: &str) -> String {
    let base = grpc_url(endpoint);
    let has_path = base.split_once("://").is_some_and(|(_, rest)| rest.trim_end_matches('/').contains('/'));
    if has_path { base } else { format!("{}/v1/traces", base.trim_end_matches('/')) }
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

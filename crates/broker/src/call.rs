//! Context of one call, from its arrival to its answer: caller, deadline, share of memory, and telemetry (two log
//! lines, a span, metrics). The names are those of the broker that this one replaces. Telemetry never contains an
//! input, output or key.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderValue};
use sealway_runtime::clock::iso8601;
use sealway_runtime::telemetry::set_parent;
use tracing::Span;

use crate::callers::{Peer, Share};
use crate::wire::Method;
use crate::{Code, Refusal, Result};

/// Logs a line about a call: shared fields, and those of the line.
macro_rules! tell {
    ($call:expr, $level:ident, $text:literal $(, $name:literal = $value:expr)*) => {
        tracing::$level!(
            protocol = $call.method.protocol(),
            "grpc.component" = "server",
            "grpc.service" = $call.method.service,
            "grpc.method" = $call.method.name,
            "grpc.method_type" = $call.method.kind(),
            "peer.address" = "@",
            "peer.uid" = $call.peer.uid,
            "peer.token" = $call.peer.token.as_deref(),
            "grpc.start_time" = iso8601($call.arrived_ms),
            $($name = $value,)*
            correlationId = $call.correlation(),
            $text
        )
    };
}

/// Parent span and correlation id that a caller sends with its call.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trace<'a> {
    /// Trace id of 32 hexadecimal digits; other texts are ignored.
    pub trace_id: &'a str,
    /// Span id of 16 hexadecimal digits; other texts are ignored.
    pub span_id: &'a str,
    /// Correlation id: printable, up to 128 bytes; empty for none.
    pub correlation: &'a str,
}

/// A running call. Its request body and its answer body hold it, so that its share of memory is released last.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) method: &'static Method,
    pub(crate) peer: Peer,
    /// Time after which the caller no longer waits.
    pub(crate) deadline: Option<Instant>,
    /// Share of memory; `None` if there was no room, and the call is rejected.
    share: Option<Share>,
    traceparent: Option<HeaderValue>,
    arrived: Instant,
    arrived_ms: u64,
    span: OnceLock<Span>,
    correlation: OnceLock<String>,
    profile: OnceLock<String>,
    bytes_in: OnceLock<u64>,
}

impl Call {
    /// Creates the context of a call that has just arrived with these headers.
    pub(crate) fn new(
        method: &'static Method,
        peer: Peer,
        headers: &HeaderMap,
        share: Option<Share>,
        now_ms: u64,
    ) -> Call {
        let arrived = Instant::now();
        Call {
            method,
            peer,
            deadline: timeout(headers).and_then(|timeout| arrived.checked_add(timeout)),
            share,
            traceparent: headers.get("traceparent").cloned(),
            arrived,
            arrived_ms: now_ms,
            span: OnceLock::new(),
            correlation: OnceLock::new(),
            profile: OnceLock::new(),
            bytes_in: OnceLock::new(),
        }
    }

    /// Time of the arrival, in milliseconds since 1970.
    pub(crate) fn arrived_ms(&self) -> u64 {
        self.arrived_ms
    }

    /// True if a share of memory was available.
    pub(crate) fn has_room(&self) -> bool {
        self.share.is_some()
    }

    /// Reserves further bytes of the memory of all calls, until the call is dropped; false if there is no room.
    pub(crate) fn holds(&self, len: usize) -> bool {
        self.share.as_ref().is_some_and(|share| share.grow(len))
    }

    /// # Errors
    /// 4: the deadline has passed.
    pub(crate) fn check_deadline(&self) -> Result<()> {
        match self.deadline {
            Some(deadline) if deadline <= Instant::now() => {
                Err(Refusal::new(Code::DeadlineExceeded, "the deadline has passed before anything was done"))
            }
            _ => Ok(()),
        }
    }

    /// Parent span from the header `traceparent` (W3C Trace Context).
    pub(crate) fn trace(&self) -> Trace<'_> {
        let parent = self.traceparent.as_ref().and_then(|value| value.to_str().ok()).unwrap_or_default();
        let mut parts = parent.split('-').skip(1);
        let mut part = || parts.next().unwrap_or_default();
        Trace { trace_id: part(), span_id: part(), correlation: "" }
    }

    /// Starts the span and logs the first line, once the message was read or rejected.
    pub(crate) fn begin(&self, trace: Trace<'_>) -> Span {
        self.correlation.get_or_init(|| trace.correlation.to_owned());
        let span = tracing::info_span!(
            "call",
            otel.name = self.method.path,
            otel.kind = "internal",
            otel.status_code = tracing::field::Empty,
            otel.status_description = tracing::field::Empty,
            rpc.method = self.method.name,
            rpc.grpc.status_code = tracing::field::Empty,
            correlationId = self.correlation(),
            crypto.module = module().0,
            crypto.module_certificate = module().1,
            crypto.profile = tracing::field::Empty,
            crypto.key = tracing::field::Empty,
            crypto.input_size = tracing::field::Empty,
            crypto.hash_algorithm = tracing::field::Empty,
            crypto.hash_output_size = tracing::field::Empty,
            crypto.csr_size = tracing::field::Empty,
            crypto.ca_cert_size = tracing::field::Empty,
            crypto.ca_key_size = tracing::field::Empty,
            crypto.signed_cert_size = tracing::field::Empty,
            crypto.output_size = tracing::field::Empty,
            crypto.benchmark_results_size = tracing::field::Empty,
        );
        set_parent(&span, trace.trace_id, trace.span_id);
        // Logged inside the span, so that an exported record names the trace.
        span.in_scope(|| tell!(self, info, "started call"));
        self.span.get_or_init(|| span).clone()
    }

    /// True once the call's message was read.
    pub(crate) fn has_begun(&self) -> bool {
        self.span.get().is_some()
    }

    /// Sets the profile for metrics: one that exists, and that the caller may use.
    pub(crate) fn count_profile(&self, name: &str) {
        let _ = self.profile.set(name.to_owned());
    }

    /// Sets the length of all inputs for metrics, in bytes.
    pub(crate) fn count_bytes_in(&self, bytes: usize) {
        let _ = self.bytes_in.set(bytes as u64);
    }

    /// Logs the second line and records metrics, once the call is answered.
    pub(crate) fn end(&self, code: tonic::Code, text: &str) {
        let span = match self.span.get() {
            Some(span) => span.clone(),
            None => {
                let span = self.begin(Trace::default());
                finish_span(&span, code, text);
                span
            }
        };
        let took = self.arrived.elapsed();
        self.count(code, took.as_secs_f64());
        macro_rules! finished {
            ($level:ident) => {
                tell!(
                    self,
                    $level,
                    "finished call",
                    "grpc.code" = code_name(code),
                    "grpc.error" = Some(text).filter(|text| !text.is_empty()),
                    "grpc.time_ms" = took.as_secs_f64() * 1000.0
                )
            };
        }
        span.in_scope(|| match code {
            tonic::Code::Ok => finished!(info),
            _ => finished!(error),
        });
    }

    fn count(&self, code: tonic::Code, seconds: f64) {
        let method = self.method.name;
        let profile = self.profile.get().cloned().unwrap_or_default();
        let status = code_name(code);
        metrics::counter!("crypto_requests_total", "rpc_method" => method, "profile" => profile.clone(), "status" => status)
            .increment(1);
        metrics::histogram!("crypto_request_duration_seconds", "rpc_method" => method, "status" => status)
            .record(seconds);
        if let Some(bytes) = self.bytes_in.get() {
            metrics::counter!("crypto_operation_bytes_processed_total", "rpc_method" => method).increment(*bytes);
        }
        if code != tonic::Code::Ok {
            metrics::counter!("crypto_operations_errors_total", "rpc_method" => method, "error_type" => status)
                .increment(1);
        } else if matches!(method, "SignCertificate") || (method == "Sign" && !self.method.is_ours()) {
            metrics::counter!("crypto_sign_certificate_operations_total", "profile" => profile).increment(1);
        }
    }

    fn correlation(&self) -> Option<&str> {
        self.correlation.get().map(String::as_str).filter(|text| !text.is_empty())
    }
}

/// Reads the header `grpc-timeout`: at most eight digits and a unit. `None` without it.
fn timeout(headers: &HeaderMap) -> Option<Duration> {
    parse_timeout(headers.get("grpc-timeout")?.to_str().ok()?)
}

fn parse_timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

/// Records the status of a call in its span.
pub(crate) fn finish_span(span: &Span, code: tonic::Code, text: &str) {
    if span.is_disabled() {
        return;
    }
    span.record("rpc.grpc.status_code", i32::from(code));
    if code == tonic::Code::Ok {
        span.record("otel.status_code", "OK");
    } else {
        span.record("otel.status_code", "ERROR");
        span.record("otel.status_description", text);
    }
}

/// Name and version of the crypto library, and its validation certificate or "none".
fn module() -> (&'static str, &'static str) {
    static MODULE: OnceLock<(String, &str)> = OnceLock::new();
    let (version, certificate) = MODULE.get_or_init(|| {
        let module = crate::module::module();
        (module.version, module.certificate.unwrap_or("none"))
    });
    (version, certificate)
}

/// Name of a code, as Go's gRPC prints it.
fn code_name(code: tonic::Code) -> &'static str {
    match code {
        tonic::Code::Ok => "OK",
        tonic::Code::Cancelled => "Canceled",
        tonic::Code::Unknown => "Unknown",
        tonic::Code::InvalidArgument => "InvalidArgument",
        tonic::Code::DeadlineExceeded => "DeadlineExceeded",
        tonic::Code::NotFound => "NotFound",
        tonic::Code::AlreadyExists => "AlreadyExists",
        tonic::Code::PermissionDenied => "PermissionDenied",
        tonic::Code::ResourceExhausted => "ResourceExhausted",
        tonic::Code::FailedPrecondition => "FailedPrecondition",
        tonic::Code::Aborted => "Aborted",
        tonic::Code::OutOfRange => "OutOfRange",
        tonic::Code::Unimplemented => "Unimplemented",
        tonic::Code::Internal => "Internal",
        tonic::Code::Unavailable => "Unavailable",
        tonic::Code::DataLoss => "DataLoss",
        tonic::Code::Unauthenticated => "Unauthenticated",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_has_up_to_eight_digits_and_a_unit() {
        for (text, length) in [
            ("99999999H", Duration::from_secs(99_999_999 * 3600)),
            ("2M", Duration::from_secs(120)),
            ("0S", Duration::ZERO),
            ("250m", Duration::from_millis(250)),
            ("7u", Duration::from_micros(7)),
            ("1n", Duration::from_nanos(1)),
        ] {
            assert_eq!(parse_timeout(text), Some(length), "{text}");
        }
        for text in ["", "S", "1", "123456789S", "1s", "-1S", "+1S", "1.5S", " 1S", "1S ", "1\u{e9}", "\u{e9}"] {
            assert_eq!(parse_timeout(text), None, "{text}");
        }
    }
}

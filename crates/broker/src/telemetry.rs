//! What is told of every call: two lines of the log, a span, metrics. Names are those of the broker that this replaces. Never an
//! input, an output or a key.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use sealway_runtime::clock::iso8601;
use sealway_runtime::telemetry::set_parent;
use tracing::Span;

use crate::callers::Peer;
use crate::wire::Method;

/// A line of the log about a call, with what each of the two says of it.
macro_rules! tell {
    ($told:expr, $level:ident, $correlation:expr, $text:literal $(, $name:literal = $value:expr)*) => {
        tracing::$level!(
            protocol = "grpc",
            "grpc.component" = "server",
            "grpc.service" = $told.method.service,
            "grpc.method" = $told.method.name,
            "grpc.method_type" = $told.method.kind(),
            "peer.address" = "@",
            "peer.uid" = $told.peer.uid,
            "grpc.start_time" = iso8601($told.arrived_ms),
            $($name = $value,)*
            correlationId = $correlation,
            $text
        )
    };
}

/// The parent that a caller names for its call, and what it calls it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trace<'a> {
    /// 32 hexadecimal digits, or nothing that counts.
    pub trace_id: &'a str,
    /// 16 hexadecimal digits, or nothing that counts.
    pub span_id: &'a str,
    /// Printable, up to 128 bytes; empty for none.
    pub correlation: &'a str,
}

/// Sizes of what goes in and comes out, by the attribute that a span has for them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sizes {
    /// `crypto.csr_size`
    pub csr: usize,
    /// `crypto.ca_cert_size`
    pub ca_certificate: usize,
    /// `crypto.ca_key_size`
    pub ca_key: usize,
}

/// A call, from its arrival to its answer.
#[derive(Debug)]
pub struct Told {
    method: &'static Method,
    peer: Peer,
    arrived: Instant,
    arrived_ms: u64,
    has_begun: AtomicBool,
    correlation: OnceLock<String>,
    profile: OnceLock<String>,
    bytes: OnceLock<u64>,
    span: OnceLock<Span>,
}

impl Told {
    /// It has arrived.
    pub fn arrived(method: &'static Method, peer: Peer, now_ms: u64) -> Told {
        Told {
            method,
            peer,
            arrived: Instant::now(),
            arrived_ms: now_ms,
            has_begun: AtomicBool::new(false),
            correlation: OnceLock::new(),
            profile: OnceLock::new(),
            bytes: OnceLock::new(),
            span: OnceLock::new(),
        }
    }

    /// Who asks.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Its message was read, or never will be: the first line of the log, and its span.
    pub fn begin(&self, trace: Trace<'_>) -> Span {
        self.has_begun.store(true, Ordering::Relaxed);
        let correlation = self.correlation.get_or_init(|| trace.correlation.to_owned());
        let correlation = Some(correlation.as_str()).filter(|text| !text.is_empty());
        let span = tracing::info_span!(
            "call",
            otel.name = self.method.path,
            otel.kind = "internal",
            otel.status_code = tracing::field::Empty,
            otel.status_description = tracing::field::Empty,
            rpc.method = self.method.name,
            rpc.grpc.status_code = tracing::field::Empty,
            correlationId = correlation,
            crypto.module = crate::telemetry::module(),
            crypto.module_certificate = certificate(),
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
        // In the span, so that a record of it names the trace.
        span.in_scope(|| {
            tell!(self, info, correlation, "started call");
        });
        self.span.get_or_init(|| span).clone()
    }

    /// Whether its message was read.
    pub fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    /// It names a profile that there is.
    pub fn of_profile(&self, name: &str) {
        let _ = self.profile.set(name.to_owned());
    }

    /// So many bytes went in.
    pub fn of_bytes(&self, bytes: usize) {
        let _ = self.bytes.set(bytes as u64);
    }

    /// It is answered: the second line, and the metrics.
    pub fn end(&self, code: tonic::Code, text: &str) {
        if !self.has_begun() {
            let span = self.begin(Trace::default());
            finish_span(&span, code, text);
        }
        let took = self.arrived.elapsed();
        self.count(code, took.as_secs_f64());
        let correlation = self.correlation.get().map(String::as_str).filter(|text| !text.is_empty());
        macro_rules! finished {
            ($level:ident) => {
                tell!(
                    self,
                    $level,
                    correlation,
                    "finished call",
                    "grpc.code" = code_name(code),
                    "grpc.error" = Some(text).filter(|text| !text.is_empty()),
                    "grpc.time_ms" = took.as_secs_f64() * 1000.0
                )
            };
        }
        let span = self.span.get().cloned().unwrap_or_else(Span::none);
        span.in_scope(|| {
            if code == tonic::Code::Ok {
                finished!(info);
            } else {
                finished!(error);
            }
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
        if let Some(bytes) = self.bytes.get() {
            metrics::counter!("crypto_operation_bytes_processed_total", "rpc_method" => method).increment(*bytes);
        }
        if code != tonic::Code::Ok {
            metrics::counter!("crypto_operations_errors_total", "rpc_method" => method, "error_type" => status)
                .increment(1);
        } else if matches!(method, "SignCertificate") || (method == "Sign" && !self.method.is_ours()) {
            metrics::counter!("crypto_sign_certificate_operations_total", "profile" => profile).increment(1);
        }
    }
}

/// Digests were made.
pub fn hashed(algorithm: &'static str, count: usize) {
    metrics::counter!("crypto_hash_data_operations_total", "algorithm" => algorithm).increment(count as u64);
}

/// How a span ends.
pub fn finish_span(span: &Span, code: tonic::Code, text: &str) {
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

/// Of the validation of the library below, or "none".
fn certificate() -> &'static str {
    static CERTIFICATE: OnceLock<&'static str> = OnceLock::new();
    CERTIFICATE.get_or_init(|| crate::module::module().certificate.unwrap_or("none"))
}

/// The library below, by its own name and version.
pub fn module() -> &'static str {
    static MODULE: OnceLock<String> = OnceLock::new();
    MODULE.get_or_init(sealway_awslc::version)
}

/// What this process holds, for who asks for metrics.
pub fn gauge_memory() {
    if let Some(bytes) = sealway_runtime::process::resident_bytes() {
        #[expect(clippy::cast_precision_loss, reason = "bytes of memory are far below 2^53")]
        metrics::gauge!("crypto_memory_usage_bytes").set(bytes as f64);
    }
}

/// A code as Go's gRPC prints it.
pub fn code_name(code: tonic::Code) -> &'static str {
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

//! Events of this workspace as log records of OpenTelemetry, with their span.

use std::time::{Duration, UNIX_EPOCH};

use opentelemetry::logs::{AnyValue, LogRecord, Logger, LoggerProvider, Severity};
use opentelemetry_sdk::logs::{SdkLogRecord, SdkLogger, SdkLoggerProvider};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use crate::clock::{Clock, SystemClock};

/// A layer that emits them.
pub(super) struct Records(SdkLogger);

impl Records {
    /// Creates the layer for this provider.
    pub(super) fn new(provider: &SdkLoggerProvider) -> Self {
        Records(provider.logger("sealway"))
    }
}

/// Returns whether an event becomes a record. Libraries are left out: those that send the records would create records about
/// sending, without an end.
pub(super) fn is_wanted(meta: &tracing::Metadata<'_>) -> bool {
    meta.is_event() && meta.target().starts_with("sealway")
}

impl<S: Subscriber> Layer<S> for Records {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let meta = event.metadata();
        let mut record = self.0.create_log_record();
        record.set_target(meta.target());
        record.set_timestamp(UNIX_EPOCH + Duration::from_millis(SystemClock.now_ms()));
        record.set_severity_text(meta.level().as_str());
        record.set_severity_number(match *meta.level() {
            Level::ERROR => Severity::Error,
            Level::WARN => Severity::Warn,
            Level::INFO => Severity::Info,
            Level::DEBUG => Severity::Debug,
            Level::TRACE => Severity::Trace,
        });
        event.record(&mut Fields(&mut record));
        self.0.emit(record);
    }
}

struct Fields<'a>(&'a mut SdkLogRecord);

impl Fields<'_> {
    fn put(&mut self, field: &Field, value: AnyValue) {
        if field.name() == "message" {
            self.0.set_body(value);
        } else {
            self.0.add_attribute(field.name(), value);
        }
    }
}

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.put(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.to_owned().into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        // A value that does not fit its type becomes text.
        let value = i64::try_from(value).map_or_else(|_| value.to_string().into(), AnyValue::Int);
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, AnyValue::Int(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, AnyValue::Boolean(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, AnyValue::Double(value));
    }
}

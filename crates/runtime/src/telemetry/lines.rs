//! Lines of a log in the form of Go's structured logger: the time, the level, the message, the service, then the fields.

use std::fmt::{self, Write as _};

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::clock::{Clock, SystemClock, iso8601};

/// A layer that writes them, one object a line or as `key=value`.
#[derive(Clone, Debug)]
pub(super) struct Slog {
    pub(super) service: String,
    pub(super) is_json: bool,
}

impl<S, N> FormatEvent<S, N> for Slog
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut line = Line { is_json: self.is_json, text: String::with_capacity(256), message: String::new() };
        event.record(&mut line);
        let fields = std::mem::take(&mut line.text);
        let message = std::mem::take(&mut line.message);
        line.string("time", &iso8601(SystemClock.now_ms()));
        line.string("level", event.metadata().level().as_str());
        line.string("msg", &message);
        line.string("service", &self.service);
        if self.is_json {
            writeln!(writer, "{{{}{fields}}}", line.text.trim_start_matches(','))
        } else {
            writeln!(writer, "{}{fields}", line.text.trim_start_matches(' '))
        }
    }
}

/// A line under construction, each field with the separator before it.
struct Line {
    is_json: bool,
    text: String,
    message: String,
}

impl Line {
    fn string(&mut self, name: &str, value: &str) {
        let is_plain =
            !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'=');
        if self.is_json || !is_plain {
            self.raw(name, &serde_json::Value::from(value));
        } else {
            self.raw(name, &value);
        }
    }

    fn raw(&mut self, name: &str, value: &dyn fmt::Display) {
        // Writing to a String cannot fail.
        let _ =
            if self.is_json { write!(self.text, ",\"{name}\":{value}") } else { write!(self.text, " {name}={value}") };
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let value = format!("{value:?}");
        if field.name() == "message" {
            self.message = value;
        } else {
            self.string(field.name(), &value);
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.string(field.name(), value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.raw(field.name(), &value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.raw(field.name(), &value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.raw(field.name(), &value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON has no infinity.
        self.raw(field.name(), &if value.is_finite() { value } else { 0.0 });
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[derive(Clone, Default)]
    struct Output(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Output {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(is_json: bool) -> String {
        let (kept, slog) = (Output::default(), Slog { service: "a broker".into(), is_json });
        let writer = kept.clone();
        let layer = tracing_subscriber::fmt::layer().event_format(slog).with_writer(move || writer.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::info!("grpc.time_ms" = 1.5, "grpc.code" = "OK", uid = 7_u32, why = "a \"b\"\n", "finished call");
        });
        String::from_utf8(kept.0.lock().clone()).unwrap()
    }

    #[test]
    fn a_line_is_one_object_with_its_fields_in_order() {
        let line = logged(true);
        let object: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&object["msg"], &object["level"]), (&"finished call".into(), &"INFO".into()));
        assert_eq!((&object["service"], &object["uid"]), (&"a broker".into(), &7.into()));
        assert_eq!((&object["grpc.time_ms"], &object["why"]), (&1.5.into(), &"a \"b\"\n".into()));
        assert!(line.starts_with("{\"time\":\"20") && line.ends_with("}\n") && line.lines().count() == 1, "{line}");
    }

    #[test]
    fn a_line_of_text_quotes_what_is_not_plain() {
        let line = logged(false);
        assert!(line.starts_with("time=20"), "{line}");
        let rest = " level=INFO msg=\"finished call\" service=\"a broker\" grpc.time_ms=1.5 grpc.code=OK uid=7 why=\"a \\\"b\\\"\\n\"\n";
        assert!(line.ends_with(rest), "{line}");
    }
}

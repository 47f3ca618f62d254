//! Spans and metrics on this process's standard output, an object a line.

use std::io::Write;
use std::time::{Duration, UNIX_EPOCH};

use opentelemetry::KeyValue;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData, ResourceMetrics};
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use serde_json::{Map, Value, json};

/// Exporters that write to standard output.
#[derive(Debug)]
pub(super) struct Console;

impl SpanExporter for Console {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        write(batch.iter().map(span));
        Ok(())
    }
}

impl PushMetricExporter for Console {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        write(metrics.scope_metrics().flat_map(|scope| scope.metrics()).flat_map(|metric| match metric.data() {
            AggregatedMetrics::F64(data) => points(metric.name(), data),
            AggregatedMetrics::U64(data) => points(metric.name(), data),
            AggregatedMetrics::I64(data) => points(metric.name(), data),
        }));
        Ok(())
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }

    fn temporality(&self) -> Temporality {
        Temporality::Cumulative
    }
}

fn write(objects: impl Iterator<Item = Value>) {
    let mut text = String::new();
    for object in objects {
        text.push_str(&object.to_string());
        text.push('\n');
    }
    // The reader may be gone.
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}

fn attributes<'a>(pairs: impl Iterator<Item = &'a KeyValue>) -> Map<String, Value> {
    pairs.map(|pair| (pair.key.to_string(), pair.value.as_str().into())).collect()
}

fn span(span: &SpanData) -> Value {
    let nanoseconds = |time: std::time::SystemTime| {
        time.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    };
    json!({
        "span": span.name,
        "trace_id": span.span_context.trace_id().to_string(),
        "span_id": span.span_context.span_id().to_string(),
        "parent_span_id": span.parent_span_id.to_string(),
        "start_ns": nanoseconds(span.start_time),
        "end_ns": nanoseconds(span.end_time),
        "status": format!("{:?}", span.status),
        "attributes": attributes(span.attributes.iter()),
    })
}

fn points<T: Copy + Into<Value>>(name: &str, data: &MetricData<T>) -> Vec<Value> {
    match data {
        MetricData::Sum(sum) => sum
            .data_points()
            .map(|point| json!({"metric": name, "attributes": attributes(point.attributes()), "value": point.value().into()}))
            .collect(),
        MetricData::Gauge(gauge) => gauge
            .data_points()
            .map(|point| json!({"metric": name, "attributes": attributes(point.attributes()), "value": point.value().into()}))
            .collect(),
        MetricData::Histogram(histogram) => histogram
            .data_points()
            .map(|point| {
                let (count, sum) = (point.count(), point.sum().into());
                json!({"metric": name, "attributes": attributes(point.attributes()), "count": count, "sum": sum})
            })
            .collect(),
        // None of ours.
        MetricData::ExponentialHistogram(_) => Vec::new(),
    }
}

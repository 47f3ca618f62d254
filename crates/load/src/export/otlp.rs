//! OTLP metrics as JSON (opentelemetry-proto, `ExportMetricsServiceRequest`): 64-bit integers are strings.

use serde_json::{Value, json};

use super::metrics::{Data, Labels, Metric, Snapshot, bounds};

/// Aggregation temporality: sums and histograms count since their start.
const CUMULATIVE: u8 = 2;

/// Builds the request with all figures. Times are nanoseconds since 1970.
pub(super) fn request(snapshot: &Snapshot, started_ns: u64, now_ns: u64) -> String {
    let metrics: Vec<_> = snapshot.metrics().iter().filter_map(|metric| one(metric, started_ns, now_ns)).collect();
    let resource = vec![
        ("service.name", "sealway-load".to_owned()),
        ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
        ("sealway.load.run", snapshot.label.to_string()),
    ];
    json!({"resourceMetrics": [{
        "resource": {"attributes": attributes(&resource)},
        "scopeMetrics": [{"scope": {"name": "sealway-load"}, "metrics": metrics}],
    }]})
    .to_string()
}

fn one(metric: &Metric, started_ns: u64, now_ns: u64) -> Option<Value> {
    let time = |mut point: Value| {
        point["startTimeUnixNano"] = json!(started_ns.to_string());
        point["timeUnixNano"] = json!(now_ns.to_string());
        point
    };
    let numbers = |points: &[(Labels, f64)]| -> Vec<Value> {
        points
            .iter()
            .map(|(labels, value)| time(json!({"attributes": attributes(labels), "asDouble": value})))
            .collect()
    };
    let mut out = json!({"name": metric.name, "description": metric.help, "unit": metric.unit});
    match &metric.data {
        Data::Counter(points) if !points.is_empty() => {
            out["sum"] =
                json!({"aggregationTemporality": CUMULATIVE, "isMonotonic": true, "dataPoints": numbers(points)});
        }
        Data::Gauge(points) if !points.is_empty() => out["gauge"] = json!({"dataPoints": numbers(points)}),
        Data::Histogram(points) if !points.is_empty() => {
            let points = points.iter().map(|(labels, buckets)| {
                let counts: Vec<_> = buckets.counts.iter().map(u64::to_string).collect();
                time(json!({
                    "attributes": attributes(labels),
                    "count": buckets.count().to_string(),
                    "sum": buckets.sum_s,
                    "bucketCounts": counts,
                    "explicitBounds": bounds(),
                }))
            });
            let points: Vec<_> = points.collect();
            out["histogram"] = json!({"aggregationTemporality": CUMULATIVE, "dataPoints": points});
        }
        Data::Counter(_) | Data::Gauge(_) | Data::Histogram(_) => return None,
    }
    Some(out)
}

fn attributes(labels: &[(&'static str, String)]) -> Vec<Value> {
    labels.iter().map(|(name, value)| json!({"key": name, "value": {"stringValue": value}})).collect()
}

//! Named metrics of a run, which each format writes in its own way.

use std::sync::Arc;

use crate::engine::Tick;
use crate::record::{Class, Counts, Phase, Times};

/// Upper bounds of the histogram buckets, in seconds.
const BOUNDS: [f64; 18] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// Compact figures of a run at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    pub(super) label: Arc<str>,
    pub(super) running: bool,
    counts: Counts,
    statuses: Vec<(u16, u64)>,
    faults: Vec<(Class, u64)>,
    times: Vec<(Phase, Buckets)>,
    /// Quantiles of the last second's response times, in seconds.
    second: Vec<(&'static str, f64)>,
    in_flight: u64,
    connections: u64,
    cpu_cores: f64,
    lag_s: f64,
}

/// Histogram with one count for each bucket (not cumulative); the last bucket has no upper bound.
#[derive(Clone, Debug)]
pub(super) struct Buckets {
    pub(super) counts: [u64; BOUNDS.len() + 1],
    pub(super) sum_s: f64,
}

/// Metric with all its points.
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) unit: &'static str,
    pub(super) data: Data,
}

/// Kind of a metric, with its points.
pub(super) enum Data {
    Counter(Vec<(Labels, f64)>),
    Gauge(Vec<(Labels, f64)>),
    Histogram(Vec<(Labels, Buckets)>),
}

/// Names and values of labels.
pub(super) type Labels = Vec<(&'static str, String)>;

/// Returns the bucket bounds of all histograms, in seconds.
pub(super) fn bounds() -> &'static [f64] {
    &BOUNDS
}

impl Buckets {
    fn of(times: &Times) -> Self {
        let mut counts = [0; BOUNDS.len() + 1];
        for step in times.histogram().iter_recorded() {
            let seconds = step.value_iterated_to() as f64 / 1e9;
            let bucket = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
            counts[bucket] += step.count_at_value();
        }
        let mean = if times.is_empty() { 0.0 } else { times.histogram().mean() };
        Buckets { counts, sum_s: mean * times.len() as f64 / 1e9 }
    }

    pub(super) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

impl Snapshot {
    /// Creates the empty snapshot of a run that begins.
    pub(super) fn new(label: Arc<str>) -> Self {
        Snapshot { label, running: true, ..Snapshot::default() }
    }

    /// Creates the snapshot of a run after this second.
    pub(super) fn of(label: Arc<str>, tick: &Tick) -> Self {
        let (sum, second) = (&tick.totals.sum, &tick.second);
        let phases = Phase::ALL.into_iter().filter(|phase| !sum.times(*phase).is_empty());
        let response = &second.response;
        let quantiles = [
            ("0.5", response.p50_ns),
            ("0.9", response.p90_ns),
            ("0.95", response.p95_ns),
            ("0.99", response.p99_ns),
            ("1", response.max_ns),
        ];
        let quantiles = quantiles.into_iter().filter(|_| response.count > 0);
        Snapshot {
            counts: sum.counts,
            statuses: sum.statuses(),
            faults: sum.faults().into_iter().map(|failure| (failure.class, failure.count)).collect(),
            times: phases.map(|phase| (phase, Buckets::of(sum.times(phase)))).collect(),
            second: quantiles.map(|(name, ns)| (name, ns as f64 / 1e9)).collect(),
            in_flight: second.in_flight,
            connections: second.connections,
            cpu_cores: if second.cpu.is_finite() { second.cpu } else { 0.0 },
            lag_s: second.lag_max.as_secs_f64(),
            ..Snapshot::new(label)
        }
    }

    /// Returns all metrics of the snapshot.
    pub(super) fn metrics(&self) -> Vec<Metric> {
        let mut all = self.counters();
        let one = |value: f64| Data::Gauge(vec![(Vec::new(), value)]);
        let mut gauge = |name, unit, help, data| all.push(Metric { name, help, unit, data });
        gauge("sealway_load_running", "1", "1 during the run, then 0", one(f64::from(u8::from(self.running))));
        gauge("sealway_load_in_flight", "1", "Requests in flight", one(self.in_flight as f64));
        gauge("sealway_load_connections", "1", "Open connections", one(self.connections as f64));
        gauge(
            "sealway_load_generator_cpu_cores",
            "1",
            "Cores used by the generator in the last second",
            one(self.cpu_cores),
        );
        gauge(
            "sealway_load_generator_lag_seconds",
            "s",
            "Largest timer delay of the generator in the last second",
            one(self.lag_s),
        );
        let quantiles =
            self.second.iter().map(|(quantile, seconds)| (vec![("quantile", (*quantile).to_owned())], *seconds));
        let help = "Response times of requests that ended in the last second";
        gauge("sealway_load_second_response_seconds", "s", help, Data::Gauge(quantiles.collect()));
        let times = self.times.iter().map(|(phase, times)| (vec![("phase", phase.name().to_owned())], times.clone()));
        let help = "Times by phase, warm-up excluded";
        gauge("sealway_load_seconds", "s", help, Data::Histogram(times.collect()));
        all
    }

    fn counters(&self) -> Vec<Metric> {
        let counts = &self.counts;
        let by = |label: &'static str, values: &[(&str, u64)]| -> Vec<(Labels, f64)> {
            values.iter().map(|(value, count)| (vec![(label, (*value).to_owned())], *count as f64)).collect()
        };
        let one = |count: u64| vec![(Vec::new(), count as f64)];
        let statuses =
            self.statuses.iter().map(|(status, count)| (vec![("status", status.to_string())], *count as f64));
        let faults = self.faults.iter().map(|(class, count)| (vec![("class", class.name().to_owned())], *count as f64));
        let results = by("result", &[("succeeded", counts.succeeded), ("failed", counts.failed)]);
        let kinds = by("kind", &[("full", counts.handshakes_full), ("resumed", counts.handshakes_resumed)]);
        let bytes = by("direction", &[("sent", counts.bytes_sent), ("received", counts.bytes_received)]);
        let tried = by("result", &[("tried", counts.connections_tried), ("opened", counts.connections_opened)]);
        [
            ("sealway_load_requests_total", "1", "Requests that ended", results),
            ("sealway_load_requests_due_total", "1", "Requests that were due", one(counts.due)),
            ("sealway_load_requests_started_total", "1", "Requests that started", one(counts.started)),
            ("sealway_load_answers_total", "1", "Responses by status", statuses.collect()),
            ("sealway_load_failures_total", "1", "Failures by class", faults.collect()),
            ("sealway_load_connections_total", "1", "Connections attempted and opened", tried),
            (
                "sealway_load_reconnections_total",
                "1",
                "Connections reopened after the server closed one",
                one(counts.reconnections),
            ),
            ("sealway_load_handshakes_total", "1", "TLS handshakes", kinds),
            ("sealway_load_sessions_total", "1", "Sessions agreed", one(counts.sessions_agreed)),
            ("sealway_load_bytes_total", "By", "Bytes sent and received, without TLS overhead", bytes),
        ]
        .map(|(name, unit, help, points)| Metric { name, help, unit, data: Data::Counter(points) })
        .into()
    }
}

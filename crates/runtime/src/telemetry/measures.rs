//! The process's metrics: always for Prometheus, and for exporters of OpenTelemetry if there are any.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;
use parking_lot::Mutex;

/// Upper bounds of duration histograms, in seconds.
const DURATION_BUCKETS: &[f64] =
    &[0.000_05, 0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// Suffix of the names of duration histograms.
const DURATION_SUFFIX: &str = "_seconds";
/// Most series of one metric that exporters get; only Prometheus has further ones.
const SERIES_MAX: usize = 2000;

/// Installs the recorder of the process, unless one is installed.
pub(super) fn install(meter: Option<Meter>) -> Result<PrometheusHandle, String> {
    static HANDLE: OnceLock<Result<PrometheusHandle, String>> = OnceLock::new();
    let install = || {
        let suffix = Matcher::Suffix(DURATION_SUFFIX.into());
        let builder = PrometheusBuilder::new().set_buckets_for_metric(suffix, DURATION_BUCKETS);
        let prometheus = builder.map_err(|err| format!("metrics: {err}"))?.build_recorder();
        let handle = prometheus.handle();
        match meter {
            None => metrics::set_global_recorder(prometheus).map_err(|err| format!("metrics: {err}"))?,
            Some(meter) => metrics::set_global_recorder(Both { prometheus, exported: Instruments::new(meter) })
                .map_err(|err| format!("metrics: {err}"))?,
        }
        Ok(handle)
    };
    HANDLE.get_or_init(install).clone()
}

/// A recorder for Prometheus and for exporters.
struct Both {
    prometheus: PrometheusRecorder,
    exported: Instruments,
}

/// A handle that updates two.
struct Twice<T>(T, T);

impl CounterFn for Twice<Counter> {
    fn increment(&self, value: u64) {
        self.0.increment(value);
        self.1.increment(value);
    }

    fn absolute(&self, value: u64) {
        self.0.absolute(value);
        self.1.absolute(value);
    }
}

impl GaugeFn for Twice<Gauge> {
    fn increment(&self, value: f64) {
        self.0.increment(value);
        self.1.increment(value);
    }

    fn decrement(&self, value: f64) {
        self.0.decrement(value);
        self.1.decrement(value);
    }

    fn set(&self, value: f64) {
        self.0.set(value);
        self.1.set(value);
    }
}

impl HistogramFn for Twice<Histogram> {
    fn record(&self, value: f64) {
        self.0.record(value);
        self.1.record(value);
    }
}

impl Recorder for Both {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.prometheus.describe_counter(key, unit, text);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.prometheus.describe_gauge(key, unit, text);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.prometheus.describe_histogram(key, unit, text);
    }

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        let exported = self.exported.counter(key);
        Counter::from_arc(Arc::new(Twice(self.prometheus.register_counter(key, metadata), exported)))
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        let exported = self.exported.gauge(key);
        Gauge::from_arc(Arc::new(Twice(self.prometheus.register_gauge(key, metadata), exported)))
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        let exported = self.exported.histogram(key);
        Histogram::from_arc(Arc::new(Twice(self.prometheus.register_histogram(key, metadata), exported)))
    }
}

/// The values of one metric by their labels.
type Series = Arc<Mutex<HashMap<Key, Arc<AtomicU64>>>>;

/// The metrics for exporters: sums and gauges from values that they read on export, histograms as they are recorded.
struct Instruments {
    meter: Meter,
    counters: Mutex<HashMap<String, Series>>,
    gauges: Mutex<HashMap<String, Series>>,
    histograms: Mutex<HashMap<String, opentelemetry::metrics::Histogram<f64>>>,
}

impl Instruments {
    fn new(meter: Meter) -> Self {
        Instruments { meter, counters: Mutex::default(), gauges: Mutex::default(), histograms: Mutex::default() }
    }

    fn counter(&self, key: &Key) -> Counter {
        let observe = |name: String, series: Series| {
            let counter = self.meter.u64_observable_counter(name).with_callback(move |observer| {
                for (key, value) in series.lock().iter() {
                    observer.observe(value.load(Ordering::Relaxed), &attributes(key));
                }
            });
            let _ = counter.build();
        };
        value(&self.counters, key, observe).map_or_else(Counter::noop, Counter::from_arc)
    }

    fn gauge(&self, key: &Key) -> Gauge {
        let observe = |name: String, series: Series| {
            let gauge = self.meter.f64_observable_gauge(name).with_callback(move |observer| {
                for (key, value) in series.lock().iter() {
                    observer.observe(f64::from_bits(value.load(Ordering::Relaxed)), &attributes(key));
                }
            });
            let _ = gauge.build();
        };
        value(&self.gauges, key, observe).map_or_else(Gauge::noop, Gauge::from_arc)
    }

    fn histogram(&self, key: &Key) -> Histogram {
        let mut histograms = self.histograms.lock();
        let histogram = histograms.entry(key.name().to_owned()).or_insert_with(|| {
            let builder = self.meter.f64_histogram(key.name().to_owned());
            let is_duration = key.name().ends_with(DURATION_SUFFIX);
            if is_duration { builder.with_unit("s").with_boundaries(DURATION_BUCKETS.to_vec()) } else { builder }
                .build()
        });
        Histogram::from_arc(Arc::new(SampleHistogram { histogram: histogram.clone(), attributes: attributes(key) }))
    }
}

/// Returns the value of a series, and calls `observe` for a new metric. `None` beyond the bound.
fn value(all: &Mutex<HashMap<String, Series>>, key: &Key, observe: impl Fn(String, Series)) -> Option<Arc<AtomicU64>> {
    let series = {
        let mut all = all.lock();
        match all.get(key.name()) {
            Some(series) => series.clone(),
            None => {
                let series = Series::default();
                all.insert(key.name().to_owned(), series.clone());
                observe(key.name().to_owned(), series.clone());
                series
            }
        }
    };
    let mut series = series.lock();
    if let Some(value) = series.get(key) {
        return Some(value.clone());
    }
    (series.len() < SERIES_MAX).then(|| series.entry(key.clone()).or_default().clone())
}

struct SampleHistogram {
    histogram: opentelemetry::metrics::Histogram<f64>,
    attributes: Vec<KeyValue>,
}

impl HistogramFn for SampleHistogram {
    fn record(&self, value: f64) {
        self.histogram.record(value, &self.attributes);
    }
}

fn attributes(key: &Key) -> Vec<KeyValue> {
    key.labels().map(|label| KeyValue::new(label.key().to_owned(), label.value().to_owned())).collect()
}

//! Exporters whose failures are logged: once when they begin, and once when they are over.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{LogBatch, LogExporter};
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};

const NEVER_TRIED: u8 = 0;
const ARRIVES: u8 = 1;
const AWAY: u8 = 2;

/// An exporter, and the result of its last export.
#[derive(Debug)]
pub(super) struct Delivery<E> {
    what: &'static str,
    exporter: E,
    state: AtomicU8,
    lost: AtomicU64,
}

impl<E> Delivery<E> {
    /// Wraps an exporter; `what` names its items, in the plural.
    pub(super) fn new(what: &'static str, exporter: E) -> Self {
        Delivery { what, exporter, state: AtomicU8::new(NEVER_TRIED), lost: AtomicU64::new(0) }
    }

    /// Logs a change. `len` items were sent, and are lost if the export failed.
    fn tell(&self, result: OTelSdkResult, len: usize) -> OTelSdkResult {
        let what = self.what;
        let before = self.state.swap(if result.is_ok() { ARRIVES } else { AWAY }, Ordering::Relaxed);
        match &result {
            Ok(()) => match before {
                ARRIVES => {}
                AWAY => {
                    let lost = self.lost.swap(0, Ordering::Relaxed);
                    tracing::info!(lost, "exporting {what} succeeds again");
                }
                _ => tracing::info!("exporting {what}"),
            },
            Err(err) => {
                self.lost.fetch_add(len as u64, Ordering::Relaxed);
                if before != AWAY {
                    tracing::warn!(%err, "exporting {what} failed: calls continue without them");
                }
            }
        }
        result
    }
}

impl<E: SpanExporter> SpanExporter for Delivery<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let len = batch.len();
        self.tell(self.exporter.export(batch).await, len)
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

impl<E: LogExporter> LogExporter for Delivery<E> {
    async fn export(&self, batch: LogBatch<'_>) -> OTelSdkResult {
        let len = batch.iter().count();
        self.tell(self.exporter.export(batch).await, len)
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

impl<E: PushMetricExporter> PushMetricExporter for Delivery<E> {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        // They count since the start: the next export makes up for a failed one.
        self.tell(self.exporter.export(metrics).await, 0)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn temporality(&self) -> Temporality {
        self.exporter.temporality()
    }
}

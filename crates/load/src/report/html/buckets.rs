//! The seconds of a run, merged so that there are no more of them than a chart can show.

use super::super::document::{Report, SecondRow};
use crate::record::HEAT_BUCKETS;

/// Columns of a chart at most.
const COLUMNS_MAX: usize = 180;

/// Some seconds, merged. Rates are means; percentiles and levels are those of the worst second, so that no stall is lost.
#[derive(Clone, Debug, Default)]
pub(super) struct Bucket {
    pub(super) from_s: f64,
    pub(super) to_s: f64,
    pub(super) warm_up: bool,
    pub(super) due_per_s: f64,
    pub(super) succeeded_per_s: f64,
    pub(super) failed_per_s: f64,
    /// `None` where no request succeeded.
    pub(super) times: Option<Worst>,
    pub(super) heat: Vec<u64>,
    pub(super) in_flight: u64,
    pub(super) connections: u64,
}

/// The longest of each figure, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Worst {
    pub(super) p50: u64,
    pub(super) p95: u64,
    pub(super) p99: u64,
    pub(super) max: u64,
    pub(super) service_p99: u64,
}

/// The buckets of this run, and how many seconds are in each.
pub(super) fn of(report: &Report) -> (Vec<Bucket>, usize) {
    let each = report.seconds.len().div_ceil(COLUMNS_MAX).max(1);
    (report.seconds.chunks(each).map(merge).collect(), each)
}

fn merge(rows: &[SecondRow]) -> Bucket {
    let mut bucket = Bucket { heat: vec![0; HEAT_BUCKETS], ..Bucket::default() };
    let (mut length, mut due, mut succeeded, mut failed) = (0.0, 0.0, 0.0, 0.0);
    for row in rows {
        length += row.length_s;
        due += row.counts.due as f64;
        succeeded += row.counts.succeeded as f64;
        failed += row.counts.failed as f64;
        bucket.in_flight = bucket.in_flight.max(row.in_flight);
        bucket.connections = bucket.connections.max(row.connections);
        for (column, count) in &row.heat {
            let column = usize::from(*column).min(HEAT_BUCKETS - 1);
            bucket.heat[column] = bucket.heat[column].saturating_add(*count);
        }
        if row.response.count > 0 {
            let worst = bucket.times.get_or_insert_default();
            worst.p50 = worst.p50.max(row.response.p50_ns);
            worst.p95 = worst.p95.max(row.response.p95_ns);
            worst.p99 = worst.p99.max(row.response.p99_ns);
            worst.max = worst.max.max(row.response.max_ns);
            worst.service_p99 = worst.service_p99.max(row.service.p99_ns);
        }
    }
    if let (Some(first), Some(last)) = (rows.first(), rows.last()) {
        (bucket.from_s, bucket.to_s) = ((first.at_s - first.length_s).max(0.0), last.at_s);
        bucket.warm_up = last.warm_up;
    }
    if length > 0.0 {
        (bucket.due_per_s, bucket.succeeded_per_s, bucket.failed_per_s) =
            (due / length, succeeded / length, failed / length);
    }
    bucket
}

//! Seconds of a run merged into buckets, so that a chart can show them all.

use super::super::document::Report;
use crate::record::Second;

/// Maximum number of columns in a chart.
const COLUMNS_MAX: usize = 180;

/// Merges a run's seconds into buckets, and returns them with the number of seconds in each. Percentiles and levels of a
/// bucket are those of its worst second, so that every stall shows.
pub(super) fn of(report: &Report) -> (Vec<Second>, usize) {
    let each = report.seconds.len().div_ceil(COLUMNS_MAX).max(1);
    (report.seconds.chunks(each).filter_map(merge).collect(), each)
}

fn merge(seconds: &[Second]) -> Option<Second> {
    let (first, rest) = seconds.split_first()?;
    let mut bucket = first.clone();
    for second in rest {
        let levels = (bucket.in_flight.max(second.in_flight), bucket.connections.max(second.connections));
        bucket.merge(second);
        (bucket.in_flight, bucket.connections) = levels;
        bucket.warm_up = second.warm_up;
    }
    Some(bucket)
}

/// Returns the start and end of a bucket, in seconds since the run's start.
pub(super) fn ends(bucket: &Second) -> (f64, f64) {
    (bucket.at.saturating_sub(bucket.length).as_secs_f64(), bucket.at.as_secs_f64())
}

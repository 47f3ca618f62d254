//! HdrHistogram interval log, version 1.3, for its log processors and plotters.
//!
//! A run keeps full histograms of its totals only, because one for each second would need unbounded memory. So there is one
//! line for each phase, tagged with its name, and its interval is the whole measured time.

use std::fmt::Write;

use super::document::{HistogramText, Report};
use super::escape;

pub(super) fn render(report: &Report) -> String {
    let start = report.started_ms as f64 / 1000.0 + report.asked.warm_up_s;
    let mut out = String::from("#[Histogram log format version 1.3]\n");
    let _ = writeln!(out, "#[sealway load {}: {}]", report.machine.sealway, escape::line(&report.label));
    out.push_str("#[One interval for each phase: the whole measured time. Values in ns, Interval_Max in ms.]\n");
    let _ = writeln!(out, "#[StartTime: {start:.3} (seconds since epoch), {}]", report.started_at);
    out.push_str("\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n");
    for HistogramText { phase, v2_deflate_base64 } in &report.histograms {
        let max_ms = report.phase(*phase).map_or(0.0, |times| times.max_ns as f64 / 1e6);
        let measured = report.measured_s;
        let _ = writeln!(out, "Tag={},0.000,{measured:.3},{max_ms:.3},{v2_deflate_base64}", phase.name());
    }
    out
}

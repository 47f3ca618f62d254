//! Formats a matrix as Lite Gateway's load client does.

use std::fmt::Write;

use crate::progress::{CellSummary, OfferedLoad};

/// Formats the cells as tab-separated lines below a header; `attempts` is the number of runs.
pub(crate) fn tabbed(cells: &[CellSummary]) -> String {
    let mut text =
        String::from("scenario\tstatus\tattempts\tbest_concurrency\tsuccess_rps\terror_pct\tavg_ms\tp95_ms\tnotes\n");
    for cell in cells {
        let status = match cell.missing.as_deref() {
            None => "ok",
            Some(missing) if missing.starts_with("skipped") => "skipped",
            Some(_) => "failed",
        };
        let load = match cell.knee {
            Some(OfferedLoad::Concurrency(workers)) => workers.to_string(),
            Some(OfferedLoad::Rate(rate)) => format!("{rate:.0}/s"),
            None => "-".to_owned(),
        };
        let mut notes = cell.missing.clone().unwrap_or_default();
        if let Some(crate::engine::Limit::Generator(reason)) = &cell.limit {
            let _ = write!(notes, "client-limited: {reason}");
        }
        // The reason may quote text of the server, which may hold any character.
        let notes: String = notes.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        let _ = writeln!(
            text,
            "{}\t{status}\t{}\t{load}\t{:.1}\t{:.2}\t{:.1}\t{:.1}\t{notes}",
            cell.name,
            cell.runs,
            cell.rate.mean,
            cell.failed_share * 100.0,
            cell.mean_ns / 1e6,
            cell.p95_ns as f64 / 1e6,
        );
    }
    text
}

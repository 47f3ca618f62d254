//! The inventory as lines for a person.

use std::fmt::Write;

use sealway_runtime::clock::iso8601;
use sealway_runtime::inventory::Document;

use super::{shown, size};

const HEAD: [&str; 9] =
    ["OPERATION", "ALGORITHM", "SIZE", "PARTY", "PROTOCOL", "KEY", "COUNT", "FIRST USE", "LAST USE"];

/// Formats the rows, then what the counts lack.
pub(super) fn text(document: &Document) -> String {
    let rows = document.rows.iter().map(|row| {
        [
            shown(&row.operation),
            shown(&row.algorithm),
            size(row.size),
            shown(&row.party),
            shown(&row.protocol),
            shown(&row.key),
            row.count.to_string(),
            iso8601(row.first_ms),
            iso8601(row.last_ms),
        ]
    });
    let rows: Vec<_> = [HEAD.map(str::to_owned)].into_iter().chain(rows).collect();
    let mut text = String::new();
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<_> = (0..HEAD.len()).map(|column| width(column).unwrap_or_default()).collect();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    text + &notes(document)
}

/// Formats what the counts lack: operations without a row, and ends of processes.
pub(super) fn notes(document: &Document) -> String {
    let mut text = String::new();
    if document.overflow.count > 0 {
        let _ = writeln!(
            text,
            "{} operations had no room for a row of their own, the last at {}: the inventory is incomplete",
            document.overflow.count,
            iso8601(document.overflow.last_ms)
        );
    }
    if document.gaps.count > 0 {
        let _ = writeln!(
            text,
            "{} processes ended without a last write, the latest after {}: each may lack the uses of its last {} ms",
            document.gaps.count,
            iso8601(document.gaps.after_ms),
            document.interval_ms
        );
    }
    text
}

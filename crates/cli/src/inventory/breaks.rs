//! The uses that a standard bans, by party.

use std::collections::BTreeMap;
use std::fmt::Write;

use sealway_runtime::clock::iso8601;
use sealway_runtime::inventory::{Ban, Document, Entry, Verdict};

use super::{shown, size, table};

/// The findings about one standard.
pub(super) struct Report {
    /// Lines for a person, by party.
    pub(super) text: String,
    /// True if every use is known and allowed, and every use has a row.
    pub(super) is_clean: bool,
}

/// Judges every row. An algorithm that the table does not know, and operations without a row, are findings too.
pub(super) fn report(document: &Document, ban: Ban) -> Report {
    let mut parties: BTreeMap<&str, Vec<(&Entry, Verdict)>> = BTreeMap::new();
    for row in &document.rows {
        let verdict = ban.verdict(&row.algorithm, row.size);
        if verdict != Verdict::Allowed {
            parties.entry(&row.party).or_default().push((row, verdict));
        }
    }
    let (mut text, is_clean) = (String::new(), parties.is_empty() && document.overflow.count == 0);
    for (party, rows) in &parties {
        let _ = writeln!(text, "{}", shown(party));
        for (row, verdict) in rows {
            let why = if *verdict == Verdict::Unknown { "not known, judge it yourself" } else { "breaks" };
            let size = if row.size == 0 { String::new() } else { format!(" ({})", size(row.size)) };
            let key = if row.key.is_empty() { String::new() } else { format!(", key {}", shown(&row.key)) };
            let _ = writeln!(
                text,
                "  {why}: {} {}{size} over {}{key}: {} uses, the last at {}",
                shown(&row.operation),
                shown(&row.algorithm),
                shown(&row.protocol),
                row.count,
                iso8601(row.last_ms)
            );
        }
    }
    let (kept, all) = (parties.values().map(Vec::len).sum::<usize>(), document.rows.len());
    let _ = writeln!(text, "{}: {kept} of {all} rows break, of {} parties", ban.name(), parties.len());
    Report { text: text + &table::notes(document), is_clean }
}

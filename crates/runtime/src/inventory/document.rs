//! The document of an inventory: the form of its file and of the admin listener's answer, and how several become one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Party, ROWS_MAX, Use};

/// Longest document that is read, in bytes: the most rows, with names whose every byte is escaped.
pub const DOCUMENT_LEN_MAX: u64 = 24 * 1024 * 1024;
/// The format's name and version, in each document.
const FORMAT: &str = "sealway-inventory-1";

/// A row of a document.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The operation, such as `SignData` or `tls-handshake`.
    pub operation: String,
    /// Name of the algorithm that did it.
    pub algorithm: String,
    /// Size of the key in bits or number of the parameter set; 0 for neither.
    #[serde(default)]
    pub size: u32,
    /// Id of the key; empty for none.
    #[serde(default)]
    pub key: String,
    /// The party's kind and name, such as `uid:1000` or `route:shop`.
    pub party: String,
    /// Version of the protocol that asked.
    pub protocol: String,
    /// Number of operations, each input of a batch.
    pub count: u64,
    /// Time of the first use, in milliseconds since 1970.
    pub first_ms: u64,
    /// Time of the last use, in milliseconds since 1970.
    pub last_ms: u64,
}

impl Entry {
    /// Returns the combination of the row.
    pub fn used(&self) -> Use<'_> {
        Use {
            operation: &self.operation,
            algorithm: &self.algorithm,
            size: self.size,
            key: &self.key,
            party: Party::parse(&self.party),
            protocol: &self.protocol,
        }
    }
}

/// Operations for which no row had room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Overflow {
    /// Number of operations without a row.
    pub count: u64,
    /// Time of the first one, in milliseconds since 1970; 0 for never.
    pub first_ms: u64,
    /// Time of the last one, in milliseconds since 1970; 0 for never.
    pub last_ms: u64,
}

/// Ends of processes that wrote no last document, as by SIGKILL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Gaps {
    /// Number of ends without a last document.
    pub count: u64,
    /// Time of the last document before the last of them, in milliseconds since 1970: uses after it may be missing.
    pub after_ms: u64,
}

/// The counts of a process, or of several that were merged.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    pub(super) format: String,
    /// Sources of the counts: names of files or processes, in order.
    pub sources: Vec<String>,
    /// Begin of the counts, in milliseconds since 1970.
    pub since_ms: u64,
    /// Time of the document, in milliseconds since 1970.
    pub until_ms: u64,
    /// True while the process runs: a document that is found so, without its process, was followed by a gap.
    pub is_open: bool,
    /// Longest time between a use and the next document, in milliseconds: what a killed process loses.
    pub interval_ms: u64,
    /// Ends without a last document.
    pub gaps: Gaps,
    /// Operations for which no row had room.
    pub overflow: Overflow,
    /// The rows, in the order of their names.
    pub rows: Vec<Entry>,
}

/// Reason why bytes are no document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DocumentError(String);

impl Document {
    /// Creates a document of rows.
    pub fn new(source: &str, since_ms: u64, until_ms: u64, mut rows: Vec<Entry>) -> Document {
        rows.sort();
        let since_ms = [since_ms].into_iter().chain(rows.iter().map(|row| row.first_ms)).filter(|ms| *ms > 0).min();
        Document {
            format: FORMAT.into(),
            sources: vec![source.into()],
            since_ms: since_ms.unwrap_or(until_ms),
            until_ms,
            is_open: true,
            interval_ms: 0,
            gaps: Gaps::default(),
            overflow: Overflow::default(),
            rows,
        }
    }

    pub(super) fn with(self, overflow: Overflow, gaps: Gaps) -> Document {
        Document { overflow, gaps, ..self }
    }

    /// Parses a document of this format.
    ///
    /// # Errors
    /// Bytes that are no document of this format, with the place of the fault.
    pub fn parse(bytes: &[u8]) -> Result<Document, DocumentError> {
        let document: Document = serde_json::from_slice(bytes).map_err(|err| DocumentError(err.to_string()))?;
        if document.format != FORMAT {
            return Err(DocumentError(format!("format: expected {FORMAT}")));
        }
        if document.rows.len() > ROWS_MAX {
            return Err(DocumentError(format!("rows: more than {ROWS_MAX}")));
        }
        Ok(document)
    }

    /// Merges documents: counts of equal combinations are added. `None` without a document.
    pub fn merge(documents: impl IntoIterator<Item = Document>) -> Option<Document> {
        let mut documents = documents.into_iter();
        let mut merged = documents.next()?;
        let mut rows: BTreeMap<_, Entry> = BTreeMap::new();
        let mut add = |row: Entry| {
            let name = (
                row.operation.clone(),
                row.algorithm.clone(),
                row.size,
                row.key.clone(),
                row.party.clone(),
                row.protocol.clone(),
            );
            match rows.entry(name) {
                std::collections::btree_map::Entry::Vacant(place) => {
                    place.insert(row);
                }
                std::collections::btree_map::Entry::Occupied(mut known) => {
                    let known = known.get_mut();
                    known.count = known.count.saturating_add(row.count);
                    known.first_ms = known.first_ms.min(row.first_ms);
                    known.last_ms = known.last_ms.max(row.last_ms);
                }
            }
        };
        std::mem::take(&mut merged.rows).into_iter().for_each(&mut add);
        for document in documents {
            document.rows.into_iter().for_each(&mut add);
            merged.sources.extend(document.sources);
            merged.since_ms = merged.since_ms.min(document.since_ms);
            merged.until_ms = merged.until_ms.max(document.until_ms);
            merged.is_open |= document.is_open;
            merged.interval_ms = merged.interval_ms.max(document.interval_ms);
            merged.gaps.count = merged.gaps.count.saturating_add(document.gaps.count);
            merged.gaps.after_ms = merged.gaps.after_ms.max(document.gaps.after_ms);
            let overflow = &mut merged.overflow;
            let firsts = [overflow.first_ms, document.overflow.first_ms];
            overflow.count = overflow.count.saturating_add(document.overflow.count);
            overflow.first_ms = firsts.into_iter().filter(|ms| *ms > 0).min().unwrap_or_default();
            overflow.last_ms = overflow.last_ms.max(document.overflow.last_ms);
        }
        merged.sources.sort();
        merged.rows = rows.into_values().collect();
        Some(merged)
    }
}

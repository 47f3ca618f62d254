//! Start of the embedded store: checks its file and restores the content into memory. Keys are unwrapped in batches,
//! and no transaction is open while the key wrap is awaited.

use std::collections::HashSet;
use std::ops::Bound;
use std::sync::Arc;

use redb::{Database, ReadableDatabase, ReadableTable, TableError};
use sealway_proto::crypto::Provider;
use sealway_proto::session::{ClaimKey, Session};
use sealway_proto::wire::SessionId;

use crate::kek::{KeyWrap, UnwrapError, WRAP_MAX, WrappedKey, mark, open_marks};
use crate::store::Store;
use crate::store::memory::Memory;
use crate::store::row::{Row, RowError, RowFault, open_all, parse as parse_row};
use crate::store::writer::{ENDED, KEKS, META, META_CEILING_MS, META_FORMAT, NONCES, SESSIONS};

const FORMAT: u64 = 1;

/// Result of a restore, beside the content of the memory store.
pub(super) struct Restoration {
    /// Stamps up to this one are rejected.
    pub(super) floor_ms: u64,
    /// Sessions whose rows are not wrapped under the active key.
    pub(super) others: HashSet<SessionId>,
}

/// Migrates the tables and fills `memory`.
pub(super) async fn restore(
    provider: &'static dyn Provider,
    database: &Database,
    keys: &dyn KeyWrap,
    memory: &Memory,
    now_ms: u64,
) -> Result<Restoration, String> {
    check_format(database)?;
    let mark = check_keks(database, keys).await?;
    let floor_ms = prepare(database, mark.as_ref(), now_ms)?;
    let mut restored = Restoration { floor_ms, others: HashSet::new() };
    let mut after = now_ms.saturating_add(1).to_be_bytes().to_vec();
    let mut is_first = true;
    loop {
        let rows = page(database, &after, is_first)?;
        let Some((last, _)) = rows.last() else { break };
        after.clone_from(last);
        is_first = false;
        restore_page(provider, keys, memory, &mut restored.others, &rows).await?;
    }
    restore_ended(database, memory, now_ms)?;
    restore_nonces(database, memory, now_ms)?;
    if floor_ms > 0 {
        let sessions = memory.status().sessions;
        tracing::info!(sessions, "sessions restored; requests stamped before this start are rejected");
    }
    Ok(restored)
}

fn text(err: &dyn std::fmt::Display) -> String {
    err.to_string()
}

/// Rejects a file of another format before its content is used.
fn check_format(database: &Database) -> Result<(), String> {
    let transaction = database.begin_read().map_err(|err| text(&err))?;
    let meta = match transaction.open_table(META) {
        // The file is new.
        Err(TableError::TableDoesNotExist(_)) => return Ok(()),
        meta => meta.map_err(|err| text(&err))?,
    };
    match meta.get(META_FORMAT).map_err(|err| text(&err))?.map(|value| value.value()) {
        None | Some(FORMAT) => Ok(()),
        Some(other) => Err(format!("its format is {other}, this program knows {FORMAT}")),
    }
}

/// Creates the tables, and returns the floor.
fn prepare(database: &Database, mark: Option<&WrappedKey>, now_ms: u64) -> Result<u64, String> {
    let transaction = database.begin_write().map_err(|err| text(&err))?;
    let floor_ms = {
        let mut meta = transaction.open_table(META).map_err(|err| text(&err))?;
        let format = meta.get(META_FORMAT).map_err(|err| text(&err))?.map(|value| value.value());
        let ceiling_ms = meta.get(META_CEILING_MS).map_err(|err| text(&err))?.map_or(0, |value| value.value());
        // A new file has no earlier life, so there is nothing to reject.
        let floor_ms = format.map_or(0, |_| now_ms.max(ceiling_ms));
        meta.insert(META_FORMAT, FORMAT).map_err(|err| text(&err))?;
        meta.insert(META_CEILING_MS, floor_ms).map_err(|err| text(&err))?;
        transaction.open_table(SESSIONS).map_err(|err| text(&err))?;
        transaction.open_table(NONCES).map_err(|err| text(&err))?;
        transaction.open_table(ENDED).map_err(|err| text(&err))?;
        let mut known = transaction.open_table(KEKS).map_err(|err| text(&err))?;
        if let Some(mark) = mark {
            known.insert(mark.kek_id.as_str(), mark.bytes.as_slice()).map_err(|err| text(&err))?;
        }
        floor_ms
    };
    transaction.commit().map_err(|err| text(&err))?;
    Ok(floor_ms)
}

/// Rejects a key that has the id of another one: otherwise every session would look damaged and be left out. For this
/// check, a constant is wrapped under each key that ever wraps; returns the mark that is to be written.
async fn check_keks(database: &Database, keys: &dyn KeyWrap) -> Result<Option<WrappedKey>, String> {
    let known = known_keks(database)?;
    for chunk in known.chunks(WRAP_MAX) {
        for (wrapped, unwrapped) in chunk.iter().zip(open_marks(keys, chunk).await) {
            match unwrapped {
                Err(UnwrapError::Damaged) => {
                    let (file, kek_id) = (keys.place(), &wrapped.kek_id);
                    return Err(format!("key \"{kek_id}\" in {file} is another one than the store was written with"));
                }
                Err(err @ UnwrapError::Unavailable(_)) => return Err(format!("a key {err}")),
                Ok(_) | Err(UnwrapError::UnknownKek(_)) => {}
            }
        }
    }
    if known.iter().any(|wrapped| wrapped.kek_id == keys.active_id()) {
        return Ok(None);
    }
    mark(keys).await.map(Some).map_err(|err| text(&err))
}

fn known_keks(database: &Database) -> Result<Vec<WrappedKey>, String> {
    let transaction = database.begin_read().map_err(|err| text(&err))?;
    let table = match transaction.open_table(KEKS) {
        Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
        table => table.map_err(|err| text(&err))?,
    };
    let mut known = Vec::new();
    for entry in table.iter().map_err(|err| text(&err))? {
        let (kek_id, bytes) = entry.map_err(|err| text(&err))?;
        let Ok(bytes) = bytes.value().try_into() else { continue };
        known.push(WrappedKey { kek_id: kek_id.value().to_owned(), bytes });
    }
    Ok(known)
}

/// A key in the table of sessions, and its row.
type Entry = (Vec<u8>, Vec<u8>);

/// Reads as many rows as are unwrapped at once, from the key `after` on, which is included on the first page only.
fn page(database: &Database, after: &[u8], is_first: bool) -> Result<Vec<Entry>, String> {
    let transaction = database.begin_read().map_err(|err| text(&err))?;
    let sessions = transaction.open_table(SESSIONS).map_err(|err| text(&err))?;
    let start = if is_first { Bound::Included(after) } else { Bound::Excluded(after) };
    let range = sessions.range::<&[u8]>((start, Bound::Unbounded)).map_err(|err| text(&err))?;
    let mut entries = Vec::new();
    for entry in range.take(WRAP_MAX) {
        let (key, row) = entry.map_err(|err| text(&err))?;
        entries.push((key.value().to_vec(), row.value().to_vec()));
    }
    Ok(entries)
}

/// Unwraps a page of sessions into memory.
async fn restore_page(
    provider: &'static dyn Provider,
    keys: &dyn KeyWrap,
    memory: &Memory,
    others: &mut HashSet<SessionId>,
    entries: &[Entry],
) -> Result<(), String> {
    let left_out = |err: &RowError| tracing::error!(%err, "a stored session is damaged and is skipped");
    let parse = |(key, row): &Entry| parse_row(key, row).inspect_err(left_out).ok();
    let rows: Vec<Row> = entries.iter().filter_map(parse).collect();
    let under: Vec<(SessionId, String)> = rows.iter().map(|row| (row.facts.id, row.wrapped.kek_id.clone())).collect();
    for ((id, kek_id), record) in under.into_iter().zip(open_all(keys, rows).await) {
        let record = match record {
            Ok(record) => record,
            Err(RowError::Key(err @ UnwrapError::UnknownKek(_))) => {
                let file = keys.place();
                return Err(format!(
                    "a session is {err}; put that key back into {file}, or remove the store to begin anew"
                ));
            }
            // The session's state is unknown: leaving it out would end it.
            Err(RowError::Key(err @ UnwrapError::Unavailable(_))) => return Err(format!("a session {err}")),
            // Counted and logged at the check of the row.
            Err(RowError::Row(RowFault::Unauthenticated(_))) => continue,
            Err(err) => {
                left_out(&err);
                continue;
            }
        };
        if kek_id != keys.active_id() {
            others.insert(id);
        }
        let session = Session::new(provider, record).map_err(|err| text(&err))?;
        memory.restore_session(Arc::new(session));
    }
    Ok(())
}

fn restore_ended(database: &Database, memory: &Memory, now_ms: u64) -> Result<(), String> {
    let transaction = database.begin_read().map_err(|err| text(&err))?;
    let start = now_ms.saturating_add(1).to_be_bytes();
    let ended = transaction.open_table(ENDED).map_err(|err| text(&err))?;
    for entry in ended.range(start.as_slice()..).map_err(|err| text(&err))? {
        let (key, _) = entry.map_err(|err| text(&err))?;
        let Some((until, root)) = key.value().split_first_chunk::<8>() else { continue };
        let Some(root) = std::str::from_utf8(root).ok().and_then(|id| SessionId::parse(id).ok()) else { continue };
        memory.end(root, u64::from_be_bytes(*until));
    }
    Ok(())
}

fn restore_nonces(database: &Database, memory: &Memory, now_ms: u64) -> Result<(), String> {
    let transaction = database.begin_read().map_err(|err| text(&err))?;
    let start = now_ms.saturating_add(1).to_be_bytes();
    let nonces = transaction.open_table(NONCES).map_err(|err| text(&err))?;
    for entry in nonces.range(start.as_slice()..).map_err(|err| text(&err))? {
        let (key, sealed) = entry.map_err(|err| text(&err))?;
        let Some((expires, claim)) = key.value().split_first_chunk::<8>() else { continue };
        let Ok(claim) = <[u8; 16]>::try_from(claim) else { continue };
        memory.restore_nonce(sealed.value() == 1, ClaimKey(claim), u64::from_be_bytes(*expires));
    }
    Ok(())
}

//! Rewrapping of stored keys from one key-encryption key to another, in small pages: it may stop anywhere and continue
//! later, and several processes may run it at once.

use sealway_proto::wire::SessionId;
use tokio_postgres::Row;

use super::fault::Fault;
use super::link::Lease;
use super::sessions::{self, COLUMNS, ms};
use crate::kek::{KeyWrap, WRAP_MAX, WrappedKey};
use crate::store::row::{self, RowError, RowFault};

/// Result of rewrapping the keys of one page of sessions.
pub(super) struct Page {
    /// Number of keys that are now under the active key.
    pub(super) moved: usize,
    /// The last id of the page; `None` at the end.
    pub(super) last: Option<String>,
}

/// Rewraps the keys of up to `batch` live sessions after the id `after` under the active key. Rows that another process
/// holds, or whose key does not unwrap, are left as they are.
pub(super) async fn page(
    mut lease: Lease,
    keys: &dyn KeyWrap,
    after: &str,
    now_ms: u64,
    batch: i64,
) -> Result<Page, Fault> {
    let transaction = lease.transaction().await?;
    let select = format!(
        "SELECT {COLUMNS} FROM sealway.sessions WHERE kek_id <> $1 AND revoked_ms IS NULL AND expires_ms > $2 AND id > $3
         ORDER BY id LIMIT $4 FOR UPDATE SKIP LOCKED"
    );
    let rows = transaction.query(&select, &[&keys.active_id(), &ms(now_ms), &after, &batch]).await?;
    let last = rows.last().map(|row| row.try_get(0)).transpose()?;
    let mut wrapped = Vec::with_capacity(rows.len());
    for row in &rows {
        match sessions::read(row)? {
            Ok(row) => wrapped.push(row),
            Err(err) => not_moved(row.try_get(0)?, &err),
        }
    }
    let moved = again(keys, wrapped).await?;
    let ids: Vec<&str> = moved.iter().map(|(id, _)| id.as_str()).collect();
    // Each with the id of its own key: the active key may have changed meanwhile.
    let kek_ids: Vec<&str> = moved.iter().map(|(_, wrapped)| wrapped.kek_id.as_str()).collect();
    let bytes: Vec<&[u8]> = moved.iter().map(|(_, wrapped)| wrapped.bytes.as_slice()).collect();
    let update = "UPDATE sealway.sessions AS s SET kek_id = n.kek_id, wrapped = n.wrapped, row_version = 3
                  FROM unnest($1::text[], $2::text[], $3::bytea[]) AS n(id, kek_id, wrapped) WHERE s.id = n.id";
    transaction.execute(update, &[&ids, &kek_ids, &bytes]).await?;
    transaction.commit().await?;
    let moved = moved.len();
    drop(rows);
    lease.done();
    Ok(Page { moved, last })
}

fn not_moved(id: &str, err: &RowError) {
    // For unauthenticated rows the row check logs the first and counts all.
    if !matches!(err, RowError::Row(RowFault::Unauthenticated(_))) {
        tracing::error!(session = id, %err, "rewrapping a session key failed");
    }
}

/// Rewraps the rows that unwrap, in the newest version.
async fn again(keys: &dyn KeyWrap, mut rows: Vec<row::Row>) -> Result<Vec<(SessionId, WrappedKey)>, Fault> {
    let mut again = Vec::with_capacity(rows.len());
    while !rows.is_empty() {
        let chunk = rows.split_off(rows.len().saturating_sub(WRAP_MAX));
        let ids: Vec<SessionId> = chunk.iter().map(|row| row.facts.id).collect();
        let mut opened = Vec::with_capacity(ids.len());
        for (id, record) in ids.into_iter().zip(row::open_all(keys, chunk).await) {
            match record {
                Ok(record) => opened.push(record),
                Err(err) => not_moved(id.as_str(), &err),
            }
        }
        let anew = row::seal_all(keys, &opened.iter().collect::<Vec<_>>()).await;
        let anew = anew.map_err(|err| Fault::Keys(err.to_string()))?;
        again.extend(opened.iter().map(|record| record.id).zip(anew));
    }
    Ok(again)
}

/// Counts the live sessions wrapped under each key.
pub(super) async fn census(lease: Lease, now_ms: u64) -> Result<Vec<(String, u64)>, Fault> {
    let sql = "SELECT kek_id, count(*) FROM sealway.sessions WHERE revoked_ms IS NULL AND expires_ms > $1
               GROUP BY kek_id ORDER BY kek_id";
    let rows = lease.query(sql, &[&ms(now_ms)]).await?;
    lease.done();
    let read = |row: &Row| {
        let count: i64 = row.try_get(1)?;
        Ok((row.try_get(0)?, count.unsigned_abs()))
    };
    rows.iter().map(read).collect()
}

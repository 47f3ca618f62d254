//! Moving stored keys from one key-encryption key to another, a few at a time: it may stop anywhere and go on later, and
//! several may do it at once.

use sealway_proto::session::SessionKey;
use sealway_proto::wire::SessionId;
use tokio_postgres::Row;

use super::fault::Fault;
use super::link::Lease;
use super::sessions::ms;
use crate::kek::{KeyWrap, UnwrapError, WRAP_MAX, Wrapped};

/// What one page came to.
pub(super) struct Page {
    /// Keys moved.
    pub(super) moved: usize,
    /// The last id looked at; none at the end.
    pub(super) last: Option<String>,
}

/// Wraps the keys of up to `batch` live sessions after the id `after` anew, under the active key. Rows that another
/// process holds, or whose key does not unwrap, are left as they are.
pub(super) async fn page(
    mut lease: Lease,
    keys: &dyn KeyWrap,
    after: &str,
    now_ms: u64,
    batch: i64,
) -> Result<Page, Fault> {
    let transaction = lease.transaction().await?;
    let select = "SELECT id, kek_id, wrapped FROM sealway.sessions
                  WHERE kek_id <> $1 AND revoked_ms IS NULL AND expires_ms > $2 AND id > $3
                  ORDER BY id LIMIT $4 FOR UPDATE SKIP LOCKED";
    let rows = transaction.query(select, &[&keys.active_id(), &ms(now_ms), &after, &batch]).await?;
    let last = rows.last().map(|row| row.try_get(0)).transpose()?;
    let mut wrapped = Vec::with_capacity(rows.len());
    for row in &rows {
        let (id, bytes): (&str, &[u8]) = (row.try_get(0)?, row.try_get(2)?);
        match (SessionId::parse(id), bytes.try_into()) {
            (Ok(id), Ok(bytes)) => wrapped.push((id, Wrapped { kek_id: row.try_get(1)?, bytes })),
            _ => tracing::error!(session = id, err = %UnwrapError::Damaged, "a session's key cannot be wrapped anew"),
        }
    }
    let moved = again(keys, &wrapped).await?;
    let ids: Vec<&str> = moved.iter().map(|(id, _)| id.as_str()).collect();
    // Each with the id of its own key: another may have become the active one meanwhile.
    let kek_ids: Vec<&str> = moved.iter().map(|(_, wrapped)| wrapped.kek_id.as_str()).collect();
    let bytes: Vec<&[u8]> = moved.iter().map(|(_, wrapped)| wrapped.bytes.as_slice()).collect();
    let update = "UPDATE sealway.sessions AS s SET kek_id = n.kek_id, wrapped = n.wrapped
                  FROM unnest($1::text[], $2::text[], $3::bytea[]) AS n(id, kek_id, wrapped) WHERE s.id = n.id";
    transaction.execute(update, &[&ids, &kek_ids, &bytes]).await?;
    transaction.commit().await?;
    let moved = moved.len();
    drop(rows);
    lease.done();
    Ok(Page { moved, last })
}

/// Those that unwrap, wrapped anew.
async fn again(keys: &dyn KeyWrap, wrapped: &[(SessionId, Wrapped)]) -> Result<Vec<(SessionId, Wrapped)>, Fault> {
    let mut again = Vec::with_capacity(wrapped.len());
    for chunk in wrapped.chunks(WRAP_MAX) {
        let mut opened = Vec::with_capacity(chunk.len());
        for ((id, _), key) in chunk.iter().zip(keys.unwrap_all(chunk).await) {
            match key {
                Ok(key) => opened.push((*id, key)),
                Err(err) => tracing::error!(session = %id, %err, "a session's key cannot be wrapped anew"),
            }
        }
        let pairs: Vec<(SessionId, &SessionKey)> = opened.iter().map(|(id, key)| (*id, key)).collect();
        let anew = keys.wrap_all(&pairs).await.map_err(|err| Fault::Keys(err.to_string()))?;
        again.extend(opened.iter().map(|(id, _)| *id).zip(anew));
    }
    Ok(again)
}

/// How many live sessions are wrapped under each key.
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

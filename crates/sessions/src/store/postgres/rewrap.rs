//! Moving stored keys from one key-encryption key to another, a few at a time: it may stop anywhere and go on later, and
//! several may do it at once.

use sealway_proto::wire::SessionId;
use tokio_postgres::Row;

use super::fault::Fault;
use super::link::Lease;
use super::sessions::ms;
use crate::kek::{KeyRing, UnwrapError, Wrapped};

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
    keys: &KeyRing,
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
    let mut ids = Vec::with_capacity(rows.len());
    // Each with the id of its own key: another may have become the active one meanwhile.
    let (mut kek_ids, mut wrapped) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
    for row in &rows {
        let id: &str = row.try_get(0)?;
        match again(row, id, keys)? {
            Ok(anew) => {
                ids.push(id);
                kek_ids.push(anew.kek_id);
                wrapped.push(anew.bytes.to_vec());
            }
            Err(err) => tracing::error!(session = id, %err, "a session's key cannot be wrapped anew"),
        }
    }
    let update = "UPDATE sealway.sessions AS s SET kek_id = n.kek_id, wrapped = n.wrapped
                  FROM unnest($1::text[], $2::text[], $3::bytea[]) AS n(id, kek_id, wrapped) WHERE s.id = n.id";
    transaction.execute(update, &[&ids, &kek_ids, &wrapped]).await?;
    transaction.commit().await?;
    let moved = ids.len();
    drop(rows);
    lease.done();
    Ok(Page { moved, last })
}

fn again(row: &Row, id: &str, keys: &KeyRing) -> Result<Result<Wrapped, UnwrapError>, Fault> {
    let bytes: &[u8] = row.try_get(2)?;
    let (Ok(id), Ok(bytes)) = (SessionId::parse(id), bytes.try_into()) else { return Ok(Err(UnwrapError::Damaged)) };
    let key = match keys.unwrap(&id, &Wrapped { kek_id: row.try_get(1)?, bytes }) {
        Ok(key) => key,
        Err(err) => return Ok(Err(err)),
    };
    keys.wrap(&id, &key).map(Ok).map_err(|err| Fault::Answer(err.to_string()))
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

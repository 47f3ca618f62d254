//! Rows of `sealway.sessions`.

use std::sync::Arc;

use sealway_proto::crypto::Provider;
use sealway_proto::session::{Auth, Session, SessionRecord};
use sealway_proto::wire::{SessionId, Wire};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};

use super::super::StoreError;
use super::batch::{Job, Work};
use super::fault::Fault;
use super::link::Lease;
use super::watch::CHANNEL;
use crate::kek::{KeyWrap, UnwrapError, Wrapped, unwrap_one};

/// A session on its way into the database.
pub(super) struct NewSession {
    pub(super) session: Arc<Session>,
    pub(super) wrapped: Wrapped,
}

/// Inserts sessions, many at once.
pub(super) struct Insert;

const INSERT: &str = "INSERT INTO sealway.sessions
    (id, wire, client_id, subject, created_ms, expires_ms, kek_id, wrapped, tenant, auth)
    SELECT * FROM unnest($1::text[], $2::smallint[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::text[],
    $8::bytea[], $9::text[], $10::text[]) ON CONFLICT DO NOTHING";

impl Work for Insert {
    type Item = NewSession;
    type Answer = Result<(), StoreError>;
    const OP: &'static str = "put";
    // By its id a session is inserted once, however often it is sent.
    const MAY_REPEAT: bool = true;

    async fn commit(&self, lease: Lease, jobs: &[Job<NewSession, Self::Answer>]) -> Result<Vec<Self::Answer>, Fault> {
        let records = || jobs.iter().map(|job| job.item.session.record());
        let ids: Vec<&str> = records().map(|record| record.id.as_str()).collect();
        let wires: Vec<i16> = records().map(|record| record.wire.number().into()).collect();
        let clients: Vec<Option<&str>> = records().map(|record| record.client_id.as_deref()).collect();
        let subjects: Vec<Option<&str>> = records().map(|record| record.subject.as_deref()).collect();
        let created: Vec<i64> = records().map(|record| ms(record.created_ms)).collect();
        let expires: Vec<i64> = records().map(|record| ms(record.expires_ms)).collect();
        let kek_ids: Vec<&str> = jobs.iter().map(|job| job.item.wrapped.kek_id.as_str()).collect();
        let wrapped: Vec<&[u8]> = jobs.iter().map(|job| job.item.wrapped.bytes.as_slice()).collect();
        let tenants: Vec<Option<&str>> = records().map(|record| record.tenant.as_deref()).collect();
        let auths: Vec<Option<&str>> = records().map(|record| auth_text(record.auth)).collect();
        let statement = lease.prepare_cached(INSERT).await?;
        let values: [&(dyn ToSql + Sync); 10] =
            [&ids, &wires, &clients, &subjects, &created, &expires, &kek_ids, &wrapped, &tenants, &auths];
        lease.execute(&statement, &values).await?;
        lease.done();
        Ok(jobs.iter().map(|_| Ok(())).collect())
    }

    fn failed(fault: &Fault) -> Self::Answer {
        Err(StoreError::Unavailable(fault.to_string()))
    }
}

/// Finds a session that is not revoked.
pub(super) async fn find(
    lease: Lease,
    id: SessionId,
    provider: &dyn Provider,
    keys: &dyn KeyWrap,
) -> Result<Option<Arc<Session>>, Fault> {
    let sql = "SELECT wire, client_id, subject, created_ms, expires_ms, kek_id, wrapped, tenant, auth
               FROM sealway.sessions WHERE id = $1 AND revoked_ms IS NULL";
    let statement = lease.prepare_cached(sql).await?;
    let row = lease.query_opt(&statement, &[&id.as_str()]).await?;
    lease.done();
    let Some(row) = row else { return Ok(None) };
    match read(&row, id, keys).await? {
        Ok(record) => {
            let session = Session::new(provider, record).map_err(|err| Fault::Answer(err.to_string()))?;
            Ok(Some(Arc::new(session)))
        }
        // Not "no such session": the key may come back, and the client must not start anew for our mistake.
        Err(err @ (UnwrapError::UnknownKek(_) | UnwrapError::Unavailable(_))) => {
            tracing::error!(session = %id, %err, keys = %keys.place(), "a session cannot be used");
            Err(Fault::Answer(format!("a session is {err}")))
        }
        Err(err) => {
            tracing::error!(session = %id, %err, "a stored session is damaged; it is treated as unknown");
            Ok(None)
        }
    }
}

async fn read(row: &Row, id: SessionId, keys: &dyn KeyWrap) -> Result<Result<SessionRecord, UnwrapError>, Fault> {
    let wrapped: &[u8] = row.try_get(6)?;
    let (wire, Ok(bytes)) = (row.try_get::<_, i16>(0)?, wrapped.try_into()) else {
        return Ok(Err(UnwrapError::Damaged));
    };
    // Absent in rows of the release before, and where there is nothing to say.
    let auth = row.try_get::<_, Option<&str>>(8)?.map_or(Some(Auth::None), Auth::from_name);
    let (Some(wire), Some(auth)) = (u8::try_from(wire).ok().and_then(Wire::from_number), auth) else {
        return Ok(Err(UnwrapError::Damaged));
    };
    let key = match unwrap_one(keys, &id, Wrapped { kek_id: row.try_get(5)?, bytes }).await {
        Ok(key) => key,
        Err(err) => return Ok(Err(err)),
    };
    Ok(Ok(SessionRecord {
        id,
        wire,
        client_id: row.try_get::<_, Option<String>>(1)?.map(Into::into),
        subject: row.try_get::<_, Option<String>>(2)?.map(Into::into),
        tenant: row.try_get::<_, Option<String>>(7)?.map(Into::into),
        auth,
        created_ms: from_ms(row.try_get(3)?),
        expires_ms: from_ms(row.try_get(4)?),
        key,
    }))
}

/// Revokes a session and tells every process, in one commit; its end, if it was there.
pub(super) async fn revoke(lease: Lease, id: SessionId, now_ms: u64) -> Result<Option<u64>, Fault> {
    let sql = format!(
        "UPDATE sealway.sessions SET revoked_ms = $2, wrapped = '' WHERE id = $1 AND revoked_ms IS NULL
         RETURNING expires_ms, pg_notify('{CHANNEL}', id)::text"
    );
    let statement = lease.prepare_cached(&sql).await?;
    let row = lease.query_opt(&statement, &[&id.as_str(), &ms(now_ms)]).await?;
    lease.done();
    Ok(match row {
        Some(row) => Some(from_ms(row.try_get(0)?)),
        None => None,
    })
}

/// The end of a session that is revoked.
pub(super) async fn revoked_end(lease: Lease, id: SessionId) -> Result<Option<u64>, Fault> {
    let sql = "SELECT expires_ms FROM sealway.sessions WHERE id = $1 AND revoked_ms IS NOT NULL";
    let row = lease.query_opt(sql, &[&id.as_str()]).await?;
    lease.done();
    Ok(row.map(|row| row.try_get(0)).transpose()?.map(from_ms))
}

/// A page of revoked sessions that end after `now_ms`, with their ends; in the order of these, from the one after `after`.
pub(super) async fn revoked_after(
    client: &Client,
    after: Option<&(SessionId, u64)>,
    now_ms: u64,
    page: i64,
) -> Result<Vec<(SessionId, u64)>, Fault> {
    // As the index of revoked sessions is ordered.
    let sql = "SELECT id, expires_ms FROM sealway.sessions
               WHERE revoked_ms IS NOT NULL AND expires_ms > $1 AND (expires_ms, id) > ($2, $3)
               ORDER BY expires_ms, id LIMIT $4";
    let (end, id) = after.map_or((0, ""), |(id, end_ms)| (ms(*end_ms), id.as_str()));
    let rows = client.query(sql, &[&ms(now_ms), &end, &id, &page]).await?;
    let read = |row: &Row| {
        let id = SessionId::parse(row.try_get(0)?).map_err(|_| Fault::Answer("a stored session id".into()))?;
        Ok((id, from_ms(row.try_get(1)?)))
    };
    rows.iter().map(read).collect()
}

/// As a row has it: nothing for not at all, as rows of the release before have it.
fn auth_text(auth: Auth) -> Option<&'static str> {
    (auth != Auth::None).then(|| auth.name())
}

/// A time as the database has it.
pub(super) fn ms(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

pub(super) fn from_ms(ms: i64) -> u64 {
    u64::try_from(ms).unwrap_or(0)
}

//! Rows of the table `sealway.sessions`.

use std::sync::Arc;

use sealway_proto::crypto::Provider;
use sealway_proto::session::{Auth, Session};
use sealway_proto::wire::{SessionId, Wire};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use super::super::StoreError;
use super::batch::{Job, Work};
use super::fault::Fault;
use super::link::{Lease, Parameter};
use super::watch::CHANNEL;
use crate::kek::{KeyWrap, UnwrapError, WrappedKey};
use crate::store::row::{self, RowError, RowFault};

/// A session with its wrapped key, to be inserted.
pub(super) struct NewSession {
    pub(super) session: Arc<Session>,
    pub(super) wrapped: WrappedKey,
}

/// Inserts many sessions at once.
pub(super) struct Insert;

const INSERT: &str = "INSERT INTO sealway.sessions
    (id, wire, client_id, subject, created_ms, expires_ms, kek_id, wrapped, tenant, auth, lineage, row_version)
    SELECT *, 3 FROM unnest($1::text[], $2::smallint[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::text[],
    $8::bytea[], $9::text[], $10::text[], $11::text[]) ON CONFLICT DO NOTHING";
const _: () = assert!(row::VERSION == 3, "INSERT names the version of its rows");

impl Work for Insert {
    type Item = NewSession;
    type Answer = Result<(), StoreError>;
    const OP: &'static str = "put";
    // A retry is harmless: the id makes the insert idempotent.
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
        let lineages: Vec<Option<&str>> =
            records().map(|record| record.lineage.as_ref().map(SessionId::as_str)).collect();
        let values: [Parameter<'_>; 11] = [
            (&ids, Type::TEXT_ARRAY),
            (&wires, Type::INT2_ARRAY),
            (&clients, Type::TEXT_ARRAY),
            (&subjects, Type::TEXT_ARRAY),
            (&created, Type::INT8_ARRAY),
            (&expires, Type::INT8_ARRAY),
            (&kek_ids, Type::TEXT_ARRAY),
            (&wrapped, Type::BYTEA_ARRAY),
            (&tenants, Type::TEXT_ARRAY),
            (&auths, Type::TEXT_ARRAY),
            (&lineages, Type::TEXT_ARRAY),
        ];
        lease.fetch(INSERT, &values).await?;
        lease.done();
        Ok(jobs.iter().map(|_| Ok(())).collect())
    }

    fn failed(fault: &Fault) -> Self::Answer {
        Err(StoreError::Unavailable(fault.to_string()))
    }
}

/// Columns that [`read`] expects, in order.
pub(super) const COLUMNS: &str =
    "id, wire, client_id, subject, created_ms, expires_ms, kek_id, wrapped, tenant, auth, lineage, row_version";

/// Finds a session that is not revoked and whose chain of renewals is not revoked.
pub(super) async fn find(
    lease: Lease,
    id: SessionId,
    provider: &dyn Provider,
    keys: &dyn KeyWrap,
) -> Result<Option<Arc<Session>>, Fault> {
    let sql = format!(
        "SELECT {COLUMNS} FROM sealway.sessions AS s WHERE id = $1 AND revoked_ms IS NULL AND NOT EXISTS
         (SELECT FROM sealway.sessions AS root WHERE root.id = s.lineage AND root.revoked_ms IS NOT NULL)"
    );
    let rows = lease.fetch(&sql, &[(&id.as_str(), Type::TEXT)]).await?;
    lease.done();
    let Some(row) = rows.first() else { return Ok(None) };
    let opened = match read(row)? {
        Ok(row) => row::open(keys, row).await,
        Err(err) => Err(err),
    };
    match opened {
        Ok(record) => {
            let session = Session::new(provider, record).map_err(|err| Fault::Answer(err.to_string()))?;
            Ok(Some(Arc::new(session)))
        }
        // Not "no such session": the key may come back, and the client must not start anew because of a missing key.
        Err(RowError::Key(err @ (UnwrapError::UnknownKek(_) | UnwrapError::Unavailable(_)))) => {
            tracing::error!(session = %id, %err, keys = %keys.place(), "a session cannot be used");
            Err(Fault::Answer(format!("a session is {err}")))
        }
        Err(RowError::Row(RowFault::Unauthenticated(_))) => Ok(None),
        Err(err) => {
            tracing::error!(session = %id, %err, "a stored session is damaged and is treated as unknown");
            Ok(None)
        }
    }
}

/// Reads a row with the columns of [`COLUMNS`].
pub(super) fn read(row: &Row) -> Result<Result<row::Row, RowError>, Fault> {
    let (id, wrapped): (&str, &[u8]) = (row.try_get(0)?, row.try_get(7)?);
    let wire = u8::try_from(row.try_get::<_, i16>(1)?).ok().and_then(Wire::from_number);
    // NULL in rows of the previous release, and for sessions without authentication.
    let auth = row.try_get::<_, Option<&str>>(9)?.map_or(Some(Auth::None), Auth::from_name);
    let lineage = row.try_get::<_, Option<&str>>(10)?.map(SessionId::parse).transpose();
    // Rows of the previous release have no version; version 2 covers its first version too.
    let version = row.try_get::<_, Option<i16>>(11)?.map_or(Ok(2), u8::try_from);
    let (Ok(id), Some(wire), Some(auth), Ok(lineage), Ok(version @ (2 | row::VERSION)), Ok(bytes)) =
        (SessionId::parse(id), wire, auth, lineage, version, wrapped.try_into())
    else {
        return Ok(Err(RowFault::Malformed.into()));
    };
    let text = |at: usize| row.try_get::<_, Option<String>>(at).map(|text| text.map(String::into_boxed_str));
    let facts = row::Facts {
        id,
        wire,
        client_id: text(2)?,
        subject: text(3)?,
        tenant: text(8)?,
        auth,
        lineage,
        created_ms: from_ms(row.try_get(4)?),
        expires_ms: from_ms(row.try_get(5)?),
    };
    Ok(Ok(row::Row { version, facts, wrapped: WrappedKey { kek_id: row.try_get(6)?, bytes } }))
}

/// Revokes a session and notifies every process, in one commit; returns its end if it was there.
pub(super) async fn revoke(lease: Lease, id: SessionId, now_ms: u64) -> Result<Option<u64>, Fault> {
    let sql = format!(
        "UPDATE sealway.sessions SET revoked_ms = $2, wrapped = '' WHERE id = $1 AND revoked_ms IS NULL
         RETURNING expires_ms, pg_notify('{CHANNEL}', id)::text"
    );
    let rows = lease.fetch(&sql, &[(&id.as_str(), Type::TEXT), (&ms(now_ms), Type::INT8)]).await?;
    lease.done();
    first_ms(&rows)
}

/// Ends a chain of renewals by a row of its first session that is revoked until then, and notifies every process;
/// returns true if the first session was there and not yet revoked.
pub(super) async fn end_chain(lease: Lease, root: SessionId, now_ms: u64, until_ms: u64) -> Result<bool, Fault> {
    let sql = format!(
        "WITH before AS (SELECT revoked_ms IS NULL AS is_live FROM sealway.sessions WHERE id = $1),
              ended AS (INSERT INTO sealway.sessions AS s (id, wire, created_ms, expires_ms, kek_id, wrapped, revoked_ms)
                        VALUES ($1, 3, $2, $3, '', '', $2) ON CONFLICT (id) DO UPDATE SET
                        revoked_ms = coalesce(s.revoked_ms, $2), wrapped = '', expires_ms = greatest(s.expires_ms, $3)
                        RETURNING pg_notify('{CHANNEL}', id)::text)
         SELECT coalesce((SELECT is_live FROM before), false), count(*) FROM ended"
    );
    let (now_ms, until_ms) = (ms(now_ms), ms(until_ms));
    let parameters: [Parameter<'_>; 3] = [(&root.as_str(), Type::TEXT), (&now_ms, Type::INT8), (&until_ms, Type::INT8)];
    let rows = lease.fetch(&sql, &parameters).await?;
    lease.done();
    Ok(rows.first().map(|row| row.try_get(0)).transpose()?.unwrap_or(false))
}

/// Returns the end of a session if it is revoked.
pub(super) async fn revoked_end(lease: Lease, id: SessionId) -> Result<Option<u64>, Fault> {
    let sql = "SELECT expires_ms FROM sealway.sessions WHERE id = $1 AND revoked_ms IS NOT NULL";
    let rows = lease.fetch(sql, &[(&id.as_str(), Type::TEXT)]).await?;
    lease.done();
    first_ms(&rows)
}

/// Reads a page of revoked sessions that end after `now_ms`, each with its end, sorted by end, from the one after
/// `after`.
pub(super) async fn revoked_after(
    client: &Client,
    after: Option<&(SessionId, u64)>,
    now_ms: u64,
    page: i64,
) -> Result<Vec<(SessionId, u64)>, Fault> {
    // In the order of the index of revoked sessions.
    let sql = "SELECT id, expires_ms FROM sealway.sessions
               WHERE revoked_ms IS NOT NULL AND expires_ms > $1 AND (expires_ms, id) > ($2, $3)
               ORDER BY expires_ms, id LIMIT $4";
    let (end, id) = after.map_or((0, ""), |(id, end_ms)| (ms(*end_ms), id.as_str()));
    // Without a name: a pooler may be between.
    let types = [Type::INT8, Type::INT8, Type::TEXT, Type::INT8];
    let values: [&(dyn ToSql + Sync); 4] = [&ms(now_ms), &end, &id, &page];
    let rows = client.query_typed(sql, &values.into_iter().zip(types).collect::<Vec<_>>()).await?;
    let read = |row: &Row| {
        let id = SessionId::parse(row.try_get(0)?).map_err(|_| Fault::Answer("a stored session id".into()))?;
        Ok((id, from_ms(row.try_get(1)?)))
    };
    rows.iter().map(read).collect()
}

/// Returns the column's value: `None` for no authentication, as in rows of the previous release.
fn auth_text(auth: Auth) -> Option<&'static str> {
    (auth != Auth::None).then(|| auth.name())
}

/// Returns the time in the first column of the only row, if there is one.
fn first_ms(rows: &[Row]) -> Result<Option<u64>, Fault> {
    Ok(rows.first().map(|row| row.try_get(0)).transpose()?.map(from_ms))
}

/// Converts a time to the database's type.
pub(super) fn ms(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

pub(super) fn from_ms(ms: i64) -> u64 {
    u64::try_from(ms).unwrap_or(0)
}

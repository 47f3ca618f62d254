//! Rows of `sealway.nonces`. A nonce is granted if this statement inserted its row, and if no equal nonce can have been
//! forgotten before.

use std::collections::HashSet;

use futures_util::future::try_join;
use sealway_proto::session::{Claim, ClaimKey};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

use super::super::{NonceRecord, ReserveError};
use super::batch::{Job, Work};
use super::fault::Fault;
use super::link::{Lease, Parameter};
use super::sessions::{from_ms, ms};

/// Distance of lost stamps beyond the window: for clocks that differ.
const LOST_MARGIN_MS: u64 = 1000;

/// Inserts many nonces at once. An answer is the stamp up to which nonces may have been lost.
pub(super) struct Reserve;

/// Timeline of the server, which changes when a standby is promoted or an archive of WAL is replayed.
const TIMELINE: &str = "('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint";
/// Time of the server, in milliseconds.
const NOW_MS: &str = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// Returns the SQL of the origin of the row `timeline`: the identifier of the cluster, the timeline, and the transaction
/// that wrote the row. A promotion changes the second. A dump that is restored changes the third, because another
/// transaction writes the rows, and in another cluster the first.
fn origin(transaction: &str) -> String {
    format!("((SELECT system_identifier FROM pg_control_system()) # ({TIMELINE} << 32 | {transaction}))")
}

/// Returns the query of the time up to which nonces may have been forgotten, the stamp up to which they may have been
/// lost, and the timeline if these marks are of this origin.
fn marks() -> String {
    let origin = origin("xmin::text::bigint");
    format!(
        "SELECT max(value) FILTER (WHERE name = 'forgotten_ms'), max(value) FILTER (WHERE name = 'lost_ms'),
         max({TIMELINE}) FILTER (WHERE name = 'timeline' AND value = {origin}) FROM sealway.meta"
    )
}

impl Work for Reserve {
    type Item = Claim;
    type Answer = Result<u64, ReserveError>;
    const OP: &'static str = "reserve";
    // A retry would find its own row and look like a replay.
    const MAY_REPEAT: bool = false;

    async fn commit(&self, lease: Lease, jobs: &[Job<Claim, Self::Answer>]) -> Result<Vec<Self::Answer>, Fault> {
        // Sorted by key: two batches with common keys must not deadlock.
        let mut rows: Vec<(ClaimKey, bool, i64, i64)> = jobs
            .iter()
            .map(|Job { item, .. }| (item.key(), item.is_sealed(), ms(item.stamp_ms()), ms(item.expires_ms())))
            .collect();
        rows.sort_by_key(|(key, ..)| *key);
        rows.dedup_by_key(|(key, ..)| *key);
        let keys: Vec<&[u8]> = rows.iter().map(|(key, ..)| key.0.as_slice()).collect();
        let sealed: Vec<bool> = rows.iter().map(|(_, sealed, ..)| *sealed).collect();
        let stamps: Vec<i64> = rows.iter().map(|(_, _, stamp_ms, _)| *stamp_ms).collect();
        let expires: Vec<i64> = rows.iter().map(|(.., expires_ms)| *expires_ms).collect();
        let insert = format!(
            "INSERT INTO sealway.nonces (key, sealed, stamp_ms, expires_ms)
             SELECT * FROM unnest($1::bytea[], $2::boolean[], $3::bigint[], $4::bigint[])
             ON CONFLICT DO NOTHING RETURNING key, {TIMELINE}"
        );
        // Both are sent at once, as two transactions: the second sees every removal that happened before the first
        // one's rows became free.
        let parameters: [Parameter<'_>; 4] = [
            (&keys, Type::BYTEA_ARRAY),
            (&sealed, Type::BOOL_ARRAY),
            (&stamps, Type::INT8_ARRAY),
            (&expires, Type::INT8_ARRAY),
        ];
        let marks = marks();
        let (inserted, marks) = try_join(lease.fetch(&insert, &parameters), lease.fetch(&marks, &[])).await?;
        lease.done();
        let marks = marks.first().ok_or(Fault::Answer("no marks of nonces".into()))?;
        let (forgotten_ms, lost_ms) = (from_ms(marks.try_get(0)?), from_ms(marks.try_get(1)?));
        let timeline: Option<i64> = marks.try_get(2)?;
        let mut free = HashSet::with_capacity(inserted.len());
        for row in &inserted {
            // Another server or a copy: nonces may be missing of which the marks do not tell yet.
            if Some(row.try_get::<_, i64>(1)?) != timeline {
                return Err(Fault::Promoted);
            }
            free.insert(key(row)?);
        }
        // Of equal claims in a batch the first gets the nonce.
        let mut answer = |claim: &Claim| {
            let is_free = free.remove(&claim.key()) && !may_have_forgotten(claim, forgotten_ms);
            if is_free { Ok(lost_ms) } else { Err(ReserveError::Replayed) }
        };
        Ok(jobs.iter().map(|job| answer(&job.item)).collect())
    }

    fn failed(fault: &Fault) -> Self::Answer {
        Err(ReserveError::Unavailable(fault.to_string()))
    }
}

/// True if a nonce with this stamp may have been taken and forgotten already. Not possible while clocks run evenly; but
/// one may step ahead and back, and a request whose stamp was checked in time may take its nonce late, after a slow
/// body.
fn may_have_forgotten(claim: &Claim, forgotten_ms: u64) -> bool {
    // Nonces are kept for at least twice the window, and taken no earlier than a window before their stamp.
    let kept_ms = claim.expires_ms().saturating_sub(claim.now_ms()).saturating_sub(1);
    let gone_ms = claim.stamp_ms().saturating_add(kept_ms / 2).saturating_add(1);
    gone_ms <= forgotten_ms
}

/// Checks if a nonce was taken, so that a full store still reports replays.
pub(super) async fn is_taken(lease: Lease, claim_key: ClaimKey) -> Result<bool, Fault> {
    let sql = "SELECT FROM sealway.nonces WHERE key = $1";
    let rows = lease.fetch(sql, &[(&claim_key.0.as_slice(), Type::BYTEA)]).await?;
    lease.done();
    Ok(!rows.is_empty())
}

/// Marks what may be lost if the row `timeline` has another origin: a standby that was promoted, or a backup, may lack
/// nonces with stamps of up to a window ahead of now. Returns the stamp up to which nonces may have been lost.
/// `is_lossless` is true if a standby that is promoted has all nonces; a backup never has.
pub(super) async fn mark_lost(client: &Client, window_ms: u64, is_lossless: bool) -> Result<u64, Fault> {
    let now = origin("(txid_current() & 4294967295)");
    let [written, before] = ["m", "old"].map(|row| origin(&format!("{row}.xmin::text::bigint")));
    // 0 is the origin of a database that no program with these marks has used. A promotion leaves the lower half alone.
    let sql = format!(
        "WITH changed AS (UPDATE sealway.meta AS m SET value = {now} FROM sealway.meta AS old
                          WHERE m.name = 'timeline' AND old.name = m.name AND m.value <> {written}
                          RETURNING old.value <> 0 AND (NOT $2 OR (old.value # {before}) & 4294967295 <> 0) AS lacks)
         UPDATE sealway.meta SET value = greatest(value, {NOW_MS} + $1)
         WHERE name = 'lost_ms' AND EXISTS (SELECT FROM changed WHERE lacks) RETURNING value"
    );
    let ahead_ms = ms(window_ms.saturating_add(LOST_MARGIN_MS));
    let raised = client.query_typed(&sql, &[(&ahead_ms, Type::INT8), (&is_lossless, Type::BOOL)]).await?;
    if let Some(row) = raised.first() {
        let lost_ms = from_ms(row.try_get(0)?);
        tracing::warn!(lost_ms, "PostgreSQL was promoted or restored: nonces stamped up to lost_ms may be missing");
        return Ok(lost_ms);
    }
    let row = client.query_typed_one(&marks(), &[]).await?;
    Ok(from_ms(row.try_get(1)?))
}

/// Reads a page of the nonces that must still be remembered at `now_ms` and are stamped after `stamp_ms`.
pub(super) async fn recorded_after(
    lease: Lease,
    after: &[u8],
    stamp_ms: u64,
    now_ms: u64,
    page: i64,
) -> Result<Vec<NonceRecord>, Fault> {
    let sql = "SELECT key, sealed, expires_ms FROM sealway.nonces
               WHERE stamp_ms > $1 AND expires_ms > $2 AND key > $3 ORDER BY key LIMIT $4";
    let (stamp_ms, now_ms) = (ms(stamp_ms), ms(now_ms));
    let parameters: [Parameter<'_>; 4] =
        [(&stamp_ms, Type::INT8), (&now_ms, Type::INT8), (&after, Type::BYTEA), (&page, Type::INT8)];
    let rows = lease.fetch(sql, &parameters).await?;
    lease.done();
    let read =
        |row: &Row| Ok(NonceRecord { key: key(row)?, sealed: row.try_get(1)?, expires_ms: from_ms(row.try_get(2)?) });
    rows.iter().map(read).collect()
}

fn key(row: &Row) -> Result<ClaimKey, Fault> {
    let key: &[u8] = row.try_get(0)?;
    key.try_into().map(ClaimKey).map_err(|_| Fault::Answer("a stored nonce is malformed".into()))
}

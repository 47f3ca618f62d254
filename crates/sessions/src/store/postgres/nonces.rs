//! Rows of `sealway.nonces`. A nonce is granted if this statement inserted its row, and if no equal nonce can have been
//! forgotten before.

use std::collections::HashSet;

use futures_util::future::try_join;
use sealway_proto::session::{Claim, ClaimKey};
use tokio_postgres::Row;

use super::super::{NonceRecord, ReserveError};
use super::batch::{Job, Work};
use super::fault::Fault;
use super::link::Lease;
use super::sessions::{from_ms, ms};

/// Inserts many nonces at once.
pub(super) struct Reserve;

const INSERT: &str = "INSERT INTO sealway.nonces (key, sealed, stamp_ms, expires_ms)
    SELECT * FROM unnest($1::bytea[], $2::boolean[], $3::bigint[], $4::bigint[])
    ON CONFLICT DO NOTHING RETURNING key";
/// Time up to which nonces may have been forgotten.
const FORGOTTEN: &str = "SELECT value FROM sealway.meta WHERE name = 'forgotten_ms'";

impl Work for Reserve {
    type Item = Claim;
    type Answer = Result<(), ReserveError>;
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
        let (insert, forgotten) = try_join(lease.prepare_cached(INSERT), lease.prepare_cached(FORGOTTEN)).await?;
        // Both are sent at once, as two transactions: the second sees every removal that happened before the first
        // one's rows became free.
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 4] = [&keys, &sealed, &stamps, &expires];
        let inserting = lease.query(&insert, &parameters);
        let (inserted, forgotten) = try_join(inserting, lease.query_one(&forgotten, &[])).await?;
        lease.done();
        let forgotten_ms = from_ms(forgotten.try_get(0)?);
        let mut free = HashSet::with_capacity(inserted.len());
        for row in &inserted {
            free.insert(key(row)?);
        }
        // Of equal claims in a batch the first gets the nonce.
        let mut answer = |claim: &Claim| {
            let is_free = free.remove(&claim.key()) && !may_have_forgotten(claim, forgotten_ms);
            if is_free { Ok(()) } else { Err(ReserveError::Replayed) }
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
    let statement = lease.prepare_cached("SELECT FROM sealway.nonces WHERE key = $1").await?;
    let row = lease.query_opt(&statement, &[&claim_key.0.as_slice()]).await?;
    lease.done();
    Ok(row.is_some())
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
    let statement = lease.prepare_cached(sql).await?;
    let rows = lease.query(&statement, &[&ms(stamp_ms), &ms(now_ms), &after, &page]).await?;
    lease.done();
    let read =
        |row: &Row| Ok(NonceRecord { key: key(row)?, sealed: row.try_get(1)?, expires_ms: from_ms(row.try_get(2)?) });
    rows.iter().map(read).collect()
}

fn key(row: &Row) -> Result<ClaimKey, Fault> {
    let key: &[u8] = row.try_get(0)?;
    key.try_into().map(ClaimKey).map_err(|_| Fault::Answer("a stored nonce is malformed".into()))
}

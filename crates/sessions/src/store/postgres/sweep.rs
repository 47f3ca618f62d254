//! Removal of expired rows: by one process at a time, in batches, never longer than an operation may take.

use std::time::Duration;

use tokio::time::Instant;

use super::fault::Fault;
use super::link::Lease;
use super::sessions::{from_ms, ms};

/// Advisory lock of the process that sweeps.
const LOCK: i64 = 0x7365_616c_7761_7902;
/// Maximum time of one statement of a sweep: a count reads much.
const STATEMENT_MAX: Duration = Duration::from_secs(30);
/// Rows removed by one statement.
const BATCH: i64 = 5000;
/// Extra time for which nonces are kept, because the clocks of several processes differ a little.
const SPARE_MS: u64 = 1000;
/// Minimum time between counts of a large database: a count reads an index from end to end.
const COUNT_EVERY_MS: i64 = 15_000;
/// Number of rows below which every sweep counts.
const COUNT_CHEAP: i64 = 20_000;

/// Sizes of the tables, as last counted by any process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Sequence number of the count.
    pub(super) number: i64,
    /// Time of the count, on the clock of the process that made it.
    at_ms: i64,
    pub(super) sessions: i64,
    pub(super) nonces_sealed: i64,
    pub(super) nonces_init: i64,
}

/// Rows that a sweep removed, and counts of the rest.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Swept {
    /// Number of removed sessions, without revoked ones.
    pub(super) sessions: usize,
    pub(super) counts: Counts,
}

/// Times and limits that a sweep keeps to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    /// The caller's time, in milliseconds since the epoch.
    pub(super) now_ms: u64,
    /// True if rows that are not over by the server's clock stay.
    pub(super) heed_server_clock: bool,
    /// Approximate time for removing rows.
    pub(super) time: Duration,
    /// Limits up to which sessions and nonces are counted.
    pub(super) count_max: (i64, i64),
}

/// Removes expired rows, unless another process is sweeping.
pub(super) async fn sweep(lease: Lease, order: Order) -> Result<Swept, Fault> {
    let until = Instant::now() + order.time;
    let locked = lease.query_one("SELECT pg_try_advisory_lock($1)", &[&LOCK]).await?;
    if !locked.try_get::<_, bool>(0)? {
        return Ok(Swept { sessions: 0, counts: last_counts(lease).await? });
    }
    // From here on an error, or cancellation by the caller, drops the connection, and the lock with it.
    let now_ms = match order.heed_server_clock {
        true => server_time(&lease).await?.min(order.now_ms),
        false => order.now_ms,
    };
    let statement_max = format!("SET statement_timeout = {}", STATEMENT_MAX.as_millis());
    lease.batch_execute(&statement_max).await?;
    forget_nonces(&lease, now_ms.saturating_sub(SPARE_MS), until).await?;
    let sessions = purge_sessions(&lease, now_ms, until).await?;
    let counts = count(&lease, ms(now_ms), order.count_max).await?;
    lease.batch_execute(&format!("SELECT pg_advisory_unlock({LOCK}); RESET statement_timeout")).await?;
    lease.done();
    Ok(Swept { sessions, counts })
}

async fn server_time(lease: &Lease) -> Result<u64, Fault> {
    let sql = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    Ok(from_ms(lease.query_one(sql, &[]).await?.try_get(0)?))
}

/// Two transactions: the mark that nonces may be forgotten is committed before the first removal. A transaction that
/// takes a nonce freed by a removal sees the mark. The mark is no higher than the latest removed expiry: a clock that
/// is a year ahead must not reject a year's requests.
async fn forget_nonces(lease: &Lease, cutoff_ms: u64, until: Instant) -> Result<(), Fault> {
    let mark = "UPDATE sealway.meta
                SET value = greatest(value, (SELECT max(expires_ms) FROM sealway.nonces WHERE expires_ms <= $1))
                WHERE name = 'forgotten_ms' AND EXISTS (SELECT FROM sealway.nonces WHERE expires_ms <= $1)
                RETURNING value";
    let statement = lease.prepare_cached(mark).await?;
    let Some(row) = lease.query_opt(&statement, &[&ms(cutoff_ms)]).await? else { return Ok(()) };
    let forgotten_ms: i64 = row.try_get(0)?;
    let delete = "DELETE FROM sealway.nonces WHERE key = ANY (ARRAY(
                  SELECT key FROM sealway.nonces WHERE expires_ms <= $1 ORDER BY expires_ms LIMIT $2))";
    let statement = lease.prepare_cached(delete).await?;
    let cutoff_ms = forgotten_ms.min(ms(cutoff_ms));
    while lease.execute(&statement, &[&cutoff_ms, &BATCH]).await? == BATCH.unsigned_abs() && Instant::now() < until {}
    Ok(())
}

async fn purge_sessions(lease: &Lease, now_ms: u64, until: Instant) -> Result<usize, Fault> {
    let delete = "WITH gone AS (DELETE FROM sealway.sessions WHERE id = ANY (ARRAY(
                      SELECT id FROM sealway.sessions WHERE expires_ms <= $1 ORDER BY expires_ms LIMIT $2))
                      RETURNING revoked_ms)
                  SELECT count(*), count(*) FILTER (WHERE revoked_ms IS NULL) FROM gone";
    let statement = lease.prepare_cached(delete).await?;
    let mut sessions = 0;
    loop {
        let row = lease.query_one(&statement, &[&ms(now_ms), &BATCH]).await?;
        let (gone, live): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        sessions += usize::try_from(live).unwrap_or(0);
        if gone < BATCH || Instant::now() >= until {
            return Ok(sessions);
        }
    }
}

/// Returns the last count of any process.
pub(super) async fn last_counts(lease: Lease) -> Result<Counts, Fault> {
    let counts = counted(&lease).await?;
    lease.done();
    Ok(counts)
}

async fn counted(lease: &Lease) -> Result<Counts, Fault> {
    let statement = lease.prepare_cached("SELECT name, value FROM sealway.meta").await?;
    let mut counts = Counts::default();
    for row in lease.query(&statement, &[]).await? {
        let (name, value): (&str, i64) = (row.try_get(0)?, row.try_get(1)?);
        match name {
            "counts" => counts.number = value,
            "counted_ms" => counts.at_ms = value,
            "sessions" => counts.sessions = value,
            "nonces_sealed" => counts.nonces_sealed = value,
            "nonces_init" => counts.nonces_init = value,
            _ => {}
        }
    }
    Ok(counts)
}

/// Counts the rows and stores the result for other processes.
async fn count(lease: &Lease, now_ms: i64, (sessions_max, nonces_max): (i64, i64)) -> Result<Counts, Fault> {
    let known = counted(lease).await?;
    let total = known.sessions + known.nonces_sealed + known.nonces_init;
    if total > COUNT_CHEAP && (0..COUNT_EVERY_MS).contains(&(now_ms - known.at_ms)) {
        return Ok(known);
    }
    let sql = "SELECT (SELECT count(*) FROM (SELECT FROM sealway.sessions WHERE revoked_ms IS NULL LIMIT $1) AS s),
                      (SELECT count(*) FROM (SELECT FROM sealway.nonces WHERE sealed LIMIT $2) AS n),
                      (SELECT count(*) FROM (SELECT FROM sealway.nonces WHERE NOT sealed LIMIT $2) AS n)";
    let statement = lease.prepare_cached(sql).await?;
    let row = lease.query_one(&statement, &[&sessions_max, &nonces_max]).await?;
    let counts = Counts {
        number: known.number + 1,
        at_ms: now_ms,
        sessions: row.try_get(0)?,
        nonces_sealed: row.try_get(1)?,
        nonces_init: row.try_get(2)?,
    };
    let keep = "UPDATE sealway.meta AS m SET value = n.value
                FROM unnest(ARRAY['counts', 'counted_ms', 'sessions', 'nonces_sealed', 'nonces_init'], $1::bigint[])
                AS n(name, value) WHERE m.name = n.name";
    let statement = lease.prepare_cached(keep).await?;
    let values = vec![counts.number, counts.at_ms, counts.sessions, counts.nonces_sealed, counts.nonces_init];
    lease.execute(&statement, &[&values]).await?;
    Ok(counts)
}

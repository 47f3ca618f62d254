//! Migrations: numbered, add-only, safe to run from many processes at once. Everything is in the schema `sealway`;
//! nothing else in the database is touched, such as a table `sessions` of another server.

use std::time::Duration;

use sealway_proto::crypto::Provider;
use tokio::time::timeout;
use tokio_postgres::Client;

use super::super::OpenError;
use super::config::PostgresConfig;
use super::fault::Fault;
use super::watch::connect;

/// Number, name and SQL text of each migration.
const MIGRATIONS: [(i32, &str, &str); 4] = [
    (1, "sessions_and_nonces", include_str!("../../../migrations/0001_sessions_and_nonces.sql")),
    (2, "tenant_and_auth", include_str!("../../../migrations/0002_tenant_and_auth.sql")),
    (3, "row_version_and_lineage", include_str!("../../../migrations/0003_row_version_and_lineage.sql")),
    (4, "timeline", include_str!("../../../migrations/0004_timeline.sql")),
];

/// Advisory lock of migrations: "sealway" in ASCII, and a number.
const LOCK: i64 = 0x7365_616c_7761_7901;
/// Maximum time that one process waits for another's migrations.
const LOCK_WAIT: Duration = Duration::from_secs(60);
/// Maximum time for reading the state of the schema.
const LOOK_MAX: Duration = Duration::from_secs(5);
/// Maximum time of one migration.
const RUN_MAX: Duration = Duration::from_secs(600);

/// State of the schema before and after a call of [`migrate`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MigrationReport {
    /// Migrations applied by this call, as `0001_name`.
    pub applied: Vec<String>,
    /// Number of migrations applied before, including ones that this program does not know.
    pub applied_before: usize,
    /// Numbers of migrations applied by a newer program. The database fits this program all the same: migrations only
    /// add.
    pub newer: Vec<i32>,
    /// True if the database has a table `public.sessions` of another server. It was left alone.
    pub has_foreign_sessions: bool,
}

/// Brings the database's schema up to date.
///
/// # Errors
/// [`OpenError`]: the server cannot be reached or reports an error, a schema `sealway` belongs to another program, or
/// the text of an applied migration has changed.
pub async fn migrate(provider: &dyn Provider, config: &PostgresConfig) -> Result<MigrationReport, OpenError> {
    let fail = |fault: Fault| OpenError(format!("{}: {fault}", config.place()));
    let mut session = connect(config).await.map_err(fail)?;
    run(provider, &mut session.client).await.map_err(fail)
}

/// State of the schema `sealway`.
enum SchemaState {
    Nothing,
    /// An empty schema, as an administrator creates it for a role without the right to.
    Empty,
    /// Numbers, names and hashes of applied migrations.
    Ours(Vec<(i32, String, Vec<u8>)>),
}

async fn look(client: &Client) -> Result<SchemaState, Fault> {
    let encoding: String = client.query_one("SELECT current_setting('server_encoding')", &[]).await?.try_get(0)?;
    // A token's subject that the database cannot encode would fail the whole batch of inserts.
    if !matches!(encoding.as_str(), "UTF8" | "SQL_ASCII") {
        return Err(Fault::Setup(format!("its encoding is {encoding}; make it with ENCODING 'UTF8'")));
    }
    let row = client
        .query_one(
            "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'sealway'),
                    EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                            WHERE n.nspname = 'sealway'),
                    (SELECT count(*) = 3 FROM pg_attribute
                     WHERE attrelid = to_regclass('sealway.migrations') AND attname IN ('number', 'name', 'sha256'))",
            &[],
        )
        .await?;
    let (has_schema, has_tables, has_ours) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    match (has_schema, has_tables, has_ours) {
        (false, ..) => Ok(SchemaState::Nothing),
        (true, false, _) => Ok(SchemaState::Empty),
        (true, true, true) => {
            let rows = client.query("SELECT number, name, sha256 FROM sealway.migrations ORDER BY number", &[]).await?;
            let rows = rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?)));
            Ok(SchemaState::Ours(rows.collect::<Result<_, tokio_postgres::Error>>()?))
        }
        (true, true, false) => Err(Fault::Setup(
            "its schema \"sealway\" is not Sealway's, and is left alone; give Sealway a database of its own".into(),
        )),
    }
}

/// Compares the applied migrations with the known ones; returns the numbers that only a newer program knows.
fn compare(provider: &dyn Provider, applied: &[(i32, String, Vec<u8>)]) -> Result<Vec<i32>, Fault> {
    let mut newer = Vec::new();
    for (number, name, hash) in applied {
        match MIGRATIONS.iter().find(|(known, ..)| known == number) {
            None => newer.push(*number),
            Some((_, _, text)) if provider.sha256(&[text.as_bytes()]).as_slice() == hash.as_slice() => {}
            Some(_) => {
                return Err(Fault::Setup(format!(
                    "migration {number:04}_{name} was applied with another text than this program has; the two were \
                     not built from the same releases"
                )));
            }
        }
    }
    Ok(newer)
}

/// Checks that the schema has all migrations of this program.
pub(super) async fn check(provider: &dyn Provider, client: &Client) -> Result<(), Fault> {
    let applied = match look(client).await? {
        SchemaState::Nothing | SchemaState::Empty => Vec::new(),
        SchemaState::Ours(applied) => applied,
    };
    let newer = compare(provider, &applied)?;
    if let Some((number, name, _)) = missing(&applied).next() {
        return Err(Fault::Setup(format!("migration {number:04}_{name} is not applied; run `sealway migrate`")));
    }
    if !newer.is_empty() {
        tracing::info!(?newer, "the database was migrated by a newer version; it is compatible");
    }
    Ok(())
}

fn missing<'a>(
    applied: &'a [(i32, String, Vec<u8>)],
) -> impl Iterator<Item = &'static (i32, &'static str, &'static str)> + 'a {
    MIGRATIONS.iter().filter(|(number, ..)| applied.iter().all(|(known, ..)| known != number))
}

/// Applies missing migrations. The time is bounded, both for a server that hangs and for a process that holds the lock.
pub(super) async fn run(provider: &dyn Provider, client: &mut Client) -> Result<MigrationReport, Fault> {
    // Checked without the lock first: most starts have nothing to do.
    if let SchemaState::Ours(applied) = timeout(LOOK_MAX, look(client)).await.unwrap_or(Err(Fault::Late))?
        && missing(&applied).next().is_none()
    {
        return timeout(LOOK_MAX, apply(provider, client)).await.unwrap_or(Err(Fault::Late));
    }
    timeout(LOCK_WAIT + RUN_MAX, run_locked(provider, client)).await.unwrap_or(Err(Fault::Late))
}

async fn run_locked(provider: &dyn Provider, client: &mut Client) -> Result<MigrationReport, Fault> {
    let timeouts = format!(
        "SET statement_timeout = {}; SET lock_timeout = {}; SET idle_in_transaction_session_timeout = 0",
        RUN_MAX.as_millis(),
        LOCK_WAIT.as_millis()
    );
    client.batch_execute(&timeouts).await?;
    client.execute("SELECT pg_advisory_lock($1)", &[&LOCK]).await?;
    let result = apply(provider, client).await;
    // A connection that broke has lost its lock too.
    let unlocked = client.execute("SELECT pg_advisory_unlock($1)", &[&LOCK]).await;
    let report = result?;
    unlocked?;
    Ok(report)
}

async fn apply(provider: &dyn Provider, client: &mut Client) -> Result<MigrationReport, Fault> {
    let found = look(client).await?;
    let applied = match &found {
        SchemaState::Ours(applied) => applied.as_slice(),
        SchemaState::Nothing | SchemaState::Empty => &[],
    };
    let newer = compare(provider, applied)?;
    let mut report = MigrationReport { applied_before: applied.len(), newer, ..MigrationReport::default() };
    for (number, name, text) in missing(applied) {
        let transaction = client.transaction().await?;
        if applied.is_empty() && report.applied.is_empty() {
            let schema = if matches!(found, SchemaState::Nothing) { "CREATE SCHEMA sealway;" } else { "" };
            let table = "CREATE TABLE sealway.migrations (number integer PRIMARY KEY, name text NOT NULL,
                         sha256 bytea NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())";
            transaction.batch_execute(&format!("{schema} {table}")).await?;
        }
        transaction.batch_execute(text).await?;
        let hash = provider.sha256(&[text.as_bytes()]);
        let insert = "INSERT INTO sealway.migrations (number, name, sha256) VALUES ($1, $2, $3)";
        transaction.execute(insert, &[number, name, &hash.as_slice()]).await?;
        transaction.commit().await?;
        report.applied.push(format!("{number:04}_{name}"));
    }
    let foreign = client.query_one("SELECT to_regclass('public.sessions') IS NOT NULL", &[]).await?;
    report.has_foreign_sessions = foreign.try_get(0)?;
    Ok(report)
}

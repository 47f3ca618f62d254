//! The watch: one connection that detects if the server is available, checks that the database is ours before it is
//! used, and listens for revocations.
//!
//! An unavailable server does not stop a start; a server whose answer needs an operator does.

use std::sync::Arc;
use std::time::Duration;

use sealway_proto::crypto::Provider;
use sealway_proto::wire::SessionId;
use tokio::task::AbortHandle;
use tokio_postgres::Client;

use super::super::SessionCache;
use super::config::PostgresConfig;
use super::fault::Fault;
use super::link::{Link, session_config};
use super::tls::MakeTls;
use super::{PAGE, dial, migrate, nonces, sessions};
use crate::kek::{KeyWrap, UnwrapError, WrappedKey, mark, open_marks};

/// Channel of revocations; the payload is the session's id.
pub(super) const CHANNEL: &str = "sealway_revoked";
/// Interval of pings, and of attempts to reach an unavailable server.
const EVERY: Duration = Duration::from_millis(500);
/// Uses a table of ours: a server without it counts as unavailable.
const PING: &str = "SELECT pg_backend_pid() FROM sealway.meta LIMIT 1";
/// Settings of a session that must be in force, and the process that serves it.
const SETTINGS: &str = "SELECT pg_backend_pid(), current_setting('search_path'), current_setting('synchronous_commit'),
    current_setting('synchronous_standby_names'), current_user::text";
/// Maximum time for the answer to a ping.
const PING_MAX: Duration = Duration::from_secs(1);

/// Pages of revocations read at most; more are not remembered anyway.
const REVOKED_PAGES_MAX: usize = 100;

/// A connection outside the pool.
pub(super) struct Session {
    pub(super) client: Client,
    driver: AbortHandle,
    /// Process of the server that serves it; 0 before it was asked for.
    served_by: i32,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Opens a connection without notifications.
pub(super) async fn connect(config: &PostgresConfig) -> Result<Session, Fault> {
    connect_listening(config, |_| ()).await
}

/// Opens a connection that passes the payload of each notification to `heard`.
async fn connect_listening(config: &PostgresConfig, heard: impl Fn(&str) + Send + 'static) -> Result<Session, Fault> {
    let server = session_config(&config.server, config);
    let connecting = dial::open(&server, MakeTls(config.tls.clone()), config.dialer.as_ref(), heard);
    let connected = tokio::time::timeout(config.connect_timeout, connecting).await.map_err(|_| Fault::Late)?;
    let (client, driver) = connected?;
    Ok(Session { client, driver: driver.abort_handle(), served_by: 0 })
}

/// Dependencies of the watch task.
pub(super) struct Watch {
    pub(super) provider: &'static dyn Provider,
    pub(super) config: PostgresConfig,
    pub(super) keys: Arc<dyn KeyWrap>,
    pub(super) cache: Arc<SessionCache>,
    pub(super) link: Arc<Link>,
}

impl Watch {
    /// Connects, checks the database and listens. The checks run on every connection: the same address may now lead to
    /// another server, or to the same one with an older copy.
    pub(super) async fn begin(&self) -> Result<Session, Fault> {
        let cache = self.cache.clone();
        let mut session = connect_listening(&self.config, move |payload| match SessionId::parse(payload) {
            Ok(id) => cache.revoke(&id),
            // The payload is unreadable, so all cached sessions are asked for again.
            Err(_) => cache.clear(),
        })
        .await?;
        session.served_by = self.check_settings(&session.client).await?;
        if self.config.migrate {
            let report = migrate::run(self.provider, &mut session.client).await?;
            if !report.applied.is_empty() {
                tracing::info!(applied = ?report.applied, "migrations applied");
            }
        }
        let checks = async {
            migrate::check(self.provider, &session.client).await?;
            self.check_pooler(&session).await?;
            self.mark_lost().await?;
            check_keks(self.keys.as_ref(), &mut session.client).await
        };
        tokio::time::timeout(2 * self.config.deadline, checks).await.unwrap_or(Err(Fault::Late))?;
        let listen = format!("LISTEN {CHANNEL}");
        let listening = tokio::time::timeout(PING_MAX, session.client.batch_execute(&listen)).await;
        listening.map_err(|_| Fault::Late)??;
        ping(&session).await?;
        // After LISTEN is in force, so that nothing fetched from now on can miss its revocation.
        self.learn_revoked(&session.client).await?;
        self.cache.clear();
        Ok(session)
    }

    /// Checks that the settings of a session are in force, which a pooler may drop; returns the server's process.
    async fn check_settings(&self, client: &Client) -> Result<i32, Fault> {
        let row = tokio::time::timeout(PING_MAX, client.query_typed_one(SETTINGS, &[])).await;
        let row = row.map_err(|_| Fault::Late)??;
        let (path, commit, standbys): (&str, &str, &str) = (row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
        let is_lossy = matches!(commit, "off" | "local");
        if path != "pg_catalog" || is_lossy {
            let found = format!("search_path is \"{path}\" and synchronous_commit \"{commit}\"");
            let role: &str = row.try_get(4)?;
            return Err(Fault::Setup(match self.config.pooler {
                Some(_) => format!(
                    "{found} in a session; run ALTER ROLE \"{role}\" SET search_path = pg_catalog, and the same with \
                     synchronous_commit = on, statement_timeout = '3s', lock_timeout = '3s' and \
                     idle_in_transaction_session_timeout = '3s'; then restart the pooler"
                ),
                None => format!(
                    "{found} in a session that asked for others; if this is a connection pooler, name the server in \
                     sessions.store, and the pooler in sessions.postgres.pooler_url"
                ),
            }));
        }
        if self.config.synchronous && standbys.is_empty() {
            tracing::warn!(
                "sessions.postgres.standby is synchronous, and synchronous_standby_names is empty: a promotion now would \
                 lose acknowledged sessions and nonces"
            );
        }
        Ok(row.try_get(0)?)
    }

    /// Checks that the pooler leads to the same server and passes the role's settings, and that no pooler in transaction
    /// mode is between this process and the server: it would deliver no notification.
    async fn check_pooler(&self, session: &Session) -> Result<(), Fault> {
        if self.config.pooler.is_none() {
            return Ok(());
        }
        // While it is in a transaction, a pooler cannot give its connection to the session.
        let other = self.link.lease_direct().await?;
        other.batch_execute("BEGIN").await?;
        ping(session).await?;
        other.batch_execute("ROLLBACK").await?;
        other.done();
        let pooled = self.link.lease().await?;
        self.check_settings(&pooled).await?;
        let same =
            "SELECT system_identifier::text || '/' || (SELECT oid FROM pg_database WHERE datname = current_database())
                    FROM pg_control_system()";
        let [ours, theirs] = [&session.client, &*pooled as &Client].map(|client| client.query_typed_one(same, &[]));
        let (ours, theirs) = futures_util::future::try_join(ours, theirs).await?;
        let is_same = ours.try_get::<_, &str>(0)? == theirs.try_get::<_, &str>(0)?;
        pooled.done();
        if !is_same {
            let text = "sessions.postgres.pooler_url leads to another database than sessions.store";
            return Err(Fault::Setup(text.into()));
        }
        Ok(())
    }

    /// Marks nonces that a promotion may have lost; see [`nonces::mark_lost`]. By a connection of the pool: it may reach a
    /// promoted server before the watch does.
    async fn mark_lost(&self) -> Result<(), Fault> {
        let lease = self.link.lease().await?;
        let marked = nonces::mark_lost(&lease, self.config.window_ms, self.config.synchronous);
        tokio::time::timeout(PING_MAX, marked).await.unwrap_or(Err(Fault::Late))?;
        lease.done();
        Ok(())
    }

    /// Reads the revocations of the time without a listener: Redis may still hold a copy of such a session, if the
    /// process that revoked it ended before it could tell Redis.
    async fn learn_revoked(&self, client: &Client) -> Result<(), Fault> {
        let mut last = None;
        for _ in 0..REVOKED_PAGES_MAX {
            let page = sessions::revoked_after(client, last.as_ref(), 0, PAGE);
            let page = tokio::time::timeout(2 * self.config.deadline, page).await.unwrap_or(Err(Fault::Late))?;
            page.iter().for_each(|(id, _)| self.cache.revoke(id));
            last = page.last().copied();
            if last.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Runs until the task is aborted.
    pub(super) async fn run(self, begun: Option<Session>) {
        let mut session = begun;
        let mut told = String::new();
        loop {
            match session.take() {
                Some(live) => {
                    self.link.found(true);
                    if !told.is_empty() {
                        tracing::info!("{} answers again", self.config.place());
                        told.clear();
                    }
                    let fault = self.stay(&live).await;
                    self.link.found(false);
                    self.link.forget_connections();
                    told = fault.to_string();
                    tracing::error!(err = told, "{} became unavailable", self.config.place());
                }
                None => match self.begin().await {
                    Ok(begun) => session = Some(begun),
                    Err(fault) => {
                        self.link.found(false);
                        let text = fault.to_string();
                        if text != told {
                            tracing::error!(err = text, "{} is unusable", self.config.place());
                            told = text;
                        }
                        tokio::time::sleep(EVERY / 2).await;
                    }
                },
            }
        }
    }

    /// Pings until there is no answer, and returns the failure.
    async fn stay(&self, session: &Session) -> Fault {
        loop {
            tokio::select! {
                biased;
                () = tokio::time::sleep(EVERY) => {}
                () = self.link.doubt.notified() => {}
            }
            let checked = async {
                ping(session).await?;
                self.mark_lost().await
            };
            match checked.await {
                // All connections of the pool are in use: it is there.
                Ok(()) | Err(Fault::Busy) => self.link.found(true),
                Err(fault) => return fault,
            }
        }
    }
}

/// Checks that the server answers, and by the same process as before.
async fn ping(session: &Session) -> Result<(), Fault> {
    let row = tokio::time::timeout(PING_MAX, session.client.query_typed_one(PING, &[])).await;
    if row.map_err(|_| Fault::Late)??.try_get::<_, i32>(0)? == session.served_by {
        return Ok(());
    }
    Err(Fault::Setup(
        "sessions.store leads to a connection pooler in transaction mode, by which no revocation is heard; name the server \
         there, and the pooler in sessions.postgres.pooler_url"
            .into(),
    ))
}

/// Rejects a key that has the id of another one: otherwise every session would look damaged. All or nothing: a rejected
/// ring leaves no mark of its other keys.
async fn check_keks(keys: &dyn KeyWrap, client: &mut Client) -> Result<(), Fault> {
    // The key wrap may be unavailable for now: no reason to fail a start.
    let mark = mark(keys).await.map_err(|err| Fault::Keys(err.to_string()))?;
    let transaction = client.transaction().await?;
    let insert = "INSERT INTO sealway.keks (kek_id, wrapped) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    transaction.execute(insert, &[&mark.kek_id, &mark.bytes.as_slice()]).await?;
    for row in transaction.query("SELECT kek_id, wrapped FROM sealway.keks", &[]).await? {
        let (kek_id, bytes): (String, &[u8]) = (row.try_get(0)?, row.try_get(1)?);
        let Ok(bytes) = bytes.try_into() else { continue };
        let file = keys.place();
        let opened = open_marks(keys, &[WrappedKey { kek_id: kek_id.clone(), bytes }]).await.pop();
        match opened {
            None => return Err(Fault::Keys("nothing was answered".into())),
            Some(Err(UnwrapError::Damaged)) => {
                let text = format!("key \"{kek_id}\" in {file} is another one than the database was written with");
                return Err(Fault::Setup(text));
            }
            Some(Err(err @ UnwrapError::Unavailable(_))) => return Err(Fault::Keys(err.to_string())),
            Some(Ok(()) | Err(UnwrapError::UnknownKek(_))) => {}
        }
    }
    transaction.commit().await?;
    Ok(())
}

//! Connections to the server: a pool for operations, single ones for the watch and for migrations. A connection whose
//! operation did not end in order is closed, so that no other operation meets a statement that is still in progress.
//!
//! Behind a connection pooler in transaction mode each statement may reach another connection of the server. So operations
//! on sessions and nonces are single statements without a name ([`Lease::fetch`]); sweeps, which need locks and settings
//! that outlive a statement, use a second pool of connections to the server itself.

use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_postgres::{Connect, Manager, ManagerConfig, Object, RecyclingMethod, Runtime, Timeouts};
use parking_lot::Mutex;
use sealway_runtime::dial::Dialer;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};
use tracing::Instrument;

use super::super::{OpenError, Pool};
use super::config::PostgresConfig;
use super::dial;
use super::fault::Fault;
use super::tls::MakeTls;

/// Time between two attempts of an operation that may be retried.
const PAUSE: Duration = Duration::from_millis(20);
/// Time after an error answer for which the store does not count as up.
const REFUSED_FOR: Duration = Duration::from_secs(2);
/// Minimum time between two log lines about failures.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// Connections to the server itself, beside a pooler.
const DIRECT_MAX: usize = 2;

/// The pool, and the known state of the server.
#[derive(Debug)]
pub(super) struct Link {
    pool: deadpool_postgres::Pool,
    /// To the server itself; the same pool without a pooler.
    direct: deadpool_postgres::Pool,
    has_pooler: bool,
    deadline: Duration,
    /// True if the last result of the server was good.
    up: AtomicBool,
    /// True if the watch has found the server unavailable or unusable. Operations then fail at once.
    away: AtomicBool,
    /// Time of the last answer that the server cannot do an operation: a full disk, a missing table.
    refused: Mutex<Option<Instant>>,
    /// Time of the last log line about a failure.
    told: Mutex<Option<Instant>>,
    /// Notified of each failure, so that the watch checks without delay.
    pub(super) doubt: Notify,
}

impl Link {
    pub(super) fn new(config: &PostgresConfig) -> Result<Self, OpenError> {
        let build = |server, tls: &Option<_>, max_size| {
            let manager_config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
            let server = session_config(server, config);
            let connector = Connector { tls: MakeTls(tls.clone()), dialer: config.dialer.clone() };
            let manager = Manager::from_connect(server, connector, manager_config);
            let timeouts =
                Timeouts { wait: Some(config.deadline * 3 / 4), create: Some(config.connect_timeout), recycle: None };
            let pool = deadpool_postgres::Pool::builder(manager).max_size(max_size).timeouts(timeouts);
            pool.runtime(Runtime::Tokio1).build().map_err(|err| OpenError(err.to_string()))
        };
        let pool_max = config.pool_max.max(2 * config.lanes + 2);
        let (pool, direct) = match &config.pooler {
            Some((server, tls)) => (build(server, tls, pool_max)?, build(&config.server, &config.tls, DIRECT_MAX)?),
            None => {
                let pool = build(&config.server, &config.tls, pool_max)?;
                (pool.clone(), pool)
            }
        };
        let has_pooler = config.pooler.is_some();
        let (up, away) = (AtomicBool::new(false), AtomicBool::new(true));
        let (refused, told) = (Mutex::new(None), Mutex::new(None));
        Ok(Link { pool, direct, has_pooler, deadline: config.deadline, up, away, refused, told, doubt: Notify::new() })
    }

    /// Returns the deadline of an operation that begins now.
    pub(super) fn until(&self) -> Instant {
        Instant::now() + self.deadline
    }

    /// True if the last result of the server was good, and no error answer came recently.
    pub(super) fn is_up(&self) -> bool {
        let has_refused = self.refused.lock().is_some_and(|at| at.elapsed() < REFUSED_FOR);
        self.up.load(Ordering::Relaxed) && !has_refused
    }

    /// True if operations fail at once.
    pub(super) fn is_away(&self) -> bool {
        self.away.load(Ordering::Relaxed)
    }

    /// Records a result of the watch: usable, or unavailable.
    pub(super) fn found(&self, in_order: bool) {
        self.up.store(in_order, Ordering::Relaxed);
        self.away.store(!in_order, Ordering::Relaxed);
    }

    /// Records a failed operation and wakes the watch.
    pub(super) fn failed(&self, op: &'static str, fault: &Fault) {
        if matches!(fault, Fault::Away) {
            return;
        }
        if fault.shows_it_away() {
            self.up.store(false, Ordering::Relaxed);
            self.doubt.notify_one();
        }
        let now = Instant::now();
        if matches!(fault, Fault::Client(_)) && !fault.is_passing() {
            *self.refused.lock() = Some(now);
        }
        let mut told = self.told.lock();
        // Under load one outage fails thousands of operations.
        if told.is_none_or(|told| now.duration_since(told) > TELL_EVERY) {
            *told = Some(now);
            tracing::warn!(op, err = %fault, "PostgreSQL failed an operation");
        }
    }

    /// Fails at once while the server is unavailable.
    pub(super) fn expect_there(&self, op: &'static str) -> Result<(), Fault> {
        if self.is_away() {
            count_failure(op);
            return Err(Fault::Away);
        }
        Ok(())
    }

    /// Gets a connection for one operation.
    pub(super) async fn lease(&self) -> Result<Lease, Fault> {
        self.lease_of(false).await
    }

    /// Gets a connection to the server itself, for an operation that keeps a state between statements.
    pub(super) async fn lease_direct(&self) -> Result<Lease, Fault> {
        self.lease_of(true).await
    }

    async fn lease_of(&self, direct: bool) -> Result<Lease, Fault> {
        let pool = if direct { &self.direct } else { &self.pool };
        Ok(Lease { object: Some(pool.get().await?), in_order: false, is_pooled: self.has_pooler && !direct })
    }

    /// Runs an operation within the deadline. It is retried if the connection broke, so it must be repeatable.
    pub(super) async fn run<T, F>(&self, op: &'static str, attempt: impl Fn(Lease) -> F) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        self.repeat(op, self.deadline, false, attempt).await
    }

    /// Runs an operation as [`Link::run`] does, within another time and on a connection to the server itself.
    pub(super) async fn run_direct<T, F>(
        &self,
        op: &'static str,
        time: Duration,
        attempt: impl Fn(Lease) -> F,
    ) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        self.repeat(op, time, true, attempt).await
    }

    async fn repeat<T, F>(
        &self,
        op: &'static str,
        time: Duration,
        direct: bool,
        attempt: impl Fn(Lease) -> F,
    ) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        self.expect_there(op)?;
        let begun = Instant::now();
        let tries = async {
            loop {
                let work = async { attempt(self.lease_of(direct).await?).await };
                let result = work.instrument(tracing::debug_span!("postgres", op)).await;
                match result {
                    Err(fault) if fault.shows_it_away() && !self.is_away() => {
                        self.failed(op, &fault);
                        tokio::time::sleep(PAUSE).await;
                    }
                    result => return result,
                }
            }
        };
        let result = tokio::time::timeout_at(begun + time, tries).await.unwrap_or(Err(Fault::Late));
        if let Err(fault) = &result {
            self.failed(op, fault);
            count_failure(op);
        }
        took(op, begun);
        result
    }

    pub(super) fn pool(&self) -> Pool {
        let status = self.pool.status();
        Pool { total: status.size, idle: status.available, waiting: status.waiting }
    }

    /// Closes all idle connections: the server has restarted since they were made.
    pub(super) fn forget_connections(&self) {
        self.pool.retain(|_, _| false);
        self.direct.retain(|_, _| false);
    }
}

/// Counts a failed operation in the metrics.
pub(super) fn count_failure(op: &'static str) {
    metrics::counter!("sealway_store_failures_total", "store" => "postgres", "op" => op).increment(1);
}

/// Records the duration of an operation in the metrics.
pub(super) fn took(op: &'static str, begun: Instant) {
    metrics::histogram!("sealway_store_seconds", "store" => "postgres", "op" => op).record(begun.elapsed());
}

/// A connection for one operation. It returns to the pool if the operation ended in order.
#[derive(Debug)]
pub(super) struct Lease {
    object: Option<Object>,
    in_order: bool,
    is_pooled: bool,
}

/// A parameter of a statement, with its type.
pub(super) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

impl Lease {
    /// Runs a statement: a prepared one, or behind a pooler one without a name, which needs one round trip as well.
    pub(super) async fn fetch(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, Fault> {
        let client: &deadpool_postgres::ClientWrapper = self;
        if self.is_pooled {
            return Ok(client.query_typed(sql, parameters).await?);
        }
        let types: Vec<Type> = parameters.iter().map(|(_, kind)| kind.clone()).collect();
        let statement = client.prepare_typed_cached(sql, &types).await?;
        let values: Vec<&(dyn ToSql + Sync)> = parameters.iter().map(|(value, _)| *value).collect();
        Ok(client.query(&statement, &values).await?)
    }

    /// Marks the operation as ended in order.
    pub(super) fn done(mut self) {
        self.in_order = true;
    }
}

impl Deref for Lease {
    type Target = deadpool_postgres::ClientWrapper;

    fn deref(&self) -> &Self::Target {
        self.object.as_ref().expect("a lease holds its connection until it is dropped")
    }
}

impl DerefMut for Lease {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.object.as_mut().expect("a lease holds its connection until it is dropped")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(object) = self.object.take()
            && !self.in_order
        {
            drop(Object::take(object));
        }
    }
}

/// Opens connections for a pool.
struct Connector {
    tls: MakeTls,
    dialer: Option<Dialer>,
}

impl Connect for Connector {
    fn connect(
        &self,
        server: &tokio_postgres::Config,
    ) -> Pin<Box<dyn Future<Output = Result<(Client, JoinHandle<()>), tokio_postgres::Error>> + Send + '_>> {
        let (server, tls) = (server.clone(), self.tls.clone());
        Box::pin(async move { dial::open(&server, tls, self.dialer.as_ref(), |_| ()).await })
    }
}

/// Returns a server's configuration with time limits on everything that a connection may wait for. A connection pooler
/// accepts no settings of a session: behind one they are the role's.
pub(super) fn session_config(server: &tokio_postgres::Config, config: &PostgresConfig) -> tokio_postgres::Config {
    let mut server = server.clone();
    let ms = (2 * config.deadline).as_millis();
    // Each host has its share: one that drops packets must leave time for the next.
    let hosts = server.get_hosts().len().max(server.get_hostaddrs().len()).max(1);
    let connect_each = config.connect_timeout / u32::try_from(hosts).unwrap_or(u32::MAX);
    if config.pooler.is_none() {
        // Statements of a client that is gone must not linger. The search path excludes functions of other users.
        let options = format!(
            "{} -c statement_timeout={ms} -c lock_timeout={ms} -c idle_in_transaction_session_timeout={ms} \
             -c search_path=pg_catalog -c synchronous_commit=on",
            server.get_options().unwrap_or_default()
        );
        server.options(options.trim());
    }
    server
        .connect_timeout(connect_each)
        .keepalives(true)
        .keepalives_idle(Duration::from_secs(5))
        .keepalives_interval(Duration::from_secs(1))
        .keepalives_retries(3)
        .tcp_user_timeout((2 * config.deadline).max(Duration::from_secs(2)));
    server
}

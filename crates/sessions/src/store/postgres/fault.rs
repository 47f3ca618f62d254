//! Failures of the server, sorted by their remedy.

use std::error::Error;
use std::fmt;

use deadpool_postgres::{PoolError, TimeoutType};
use tokio_postgres::error::SqlState;

use super::super::{ReserveError, StoreError};
use super::tls::TlsFault;

/// Failure of an operation on the server.
#[derive(Debug)]
pub(super) enum Fault {
    /// Error of the client library, or of the server through it.
    Client(tokio_postgres::Error),
    /// The server did not answer in time.
    Late,
    /// All connections are in use.
    Busy,
    /// The server is known to be unavailable.
    Away,
    /// A standby was promoted or a backup restored: nonces may be missing. The watch marks which.
    Promoted,
    /// The wrap of session keys is unavailable.
    Keys(String),
    /// An error that needs an operator: a password, a schema, a key.
    Setup(String),
    /// The server's answer is invalid, or a row cannot be used.
    Answer(String),
}

impl Fault {
    /// True if the connection or the server is the cause, so that a retry may succeed.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            Fault::Client(_) if self.is_of_a_pooler() => false,
            Fault::Client(err) => match err.code() {
                Some(code) => is_passing_code(code),
                None => is_passing_break(err),
            },
            Fault::Late | Fault::Busy | Fault::Away | Fault::Promoted | Fault::Keys(_) => true,
            Fault::Setup(_) | Fault::Answer(_) => false,
        }
    }

    /// True if a connection pooler does not accept the settings of a session.
    fn is_of_a_pooler(&self) -> bool {
        let Fault::Client(err) = self else { return false };
        err.as_db_error().is_some_and(|err| err.message().contains("unsupported startup parameter"))
    }

    /// True if the failure shows that the server is unavailable.
    pub(super) fn shows_it_away(&self) -> bool {
        self.is_passing() && !matches!(self, Fault::Busy | Fault::Keys(_))
    }

    /// True if the failure must stop a start because it will not pass by itself.
    pub(super) fn stops_a_start(&self) -> bool {
        !self.is_passing()
    }
}

fn is_passing_code(code: &SqlState) -> bool {
    // Connection failures, a standby that took no part yet, shutdowns and restarts, too many connections, conflicts.
    const PASSING: [SqlState; 8] = [
        SqlState::READ_ONLY_SQL_TRANSACTION,
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::TOO_MANY_CONNECTIONS,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::QUERY_CANCELED,
    ];
    code.code().starts_with("08") || PASSING.contains(code)
}

/// True for a connection that broke or could not be made; false if the server has no TLS or another protocol, or if a
/// certificate or a password is at fault. For errors that are not the server's own answer.
fn is_passing_break(err: &tokio_postgres::Error) -> bool {
    let Some(source) = err.source() else { return err.is_closed() };
    source.downcast_ref::<TlsFault>().map_or_else(|| source.is::<std::io::Error>(), |fault| !fault.is_lasting)
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Only code and message: the details may contain a row.
            Fault::Client(err) => match err.as_db_error() {
                Some(db) if self.is_of_a_pooler() => write!(
                    f,
                    "{}: it is a connection pooler; name the server in sessions.store, and the pooler in \
                     sessions.postgres.pooler_url",
                    db.message()
                ),
                Some(db) => write!(f, "{} ({})", db.message(), db.code().code()),
                None => {
                    write!(f, "{err}")?;
                    err.source().map_or(Ok(()), |source| write!(f, ": {source}"))
                }
            },
            Fault::Late => f.write_str("PostgreSQL did not answer in time"),
            Fault::Busy => f.write_str("all connections to PostgreSQL are in use"),
            Fault::Away => f.write_str("PostgreSQL is away"),
            Fault::Promoted => f.write_str("PostgreSQL was promoted or restored"),
            Fault::Keys(text) | Fault::Setup(text) | Fault::Answer(text) => f.write_str(text),
        }
    }
}

impl Error for Fault {}

impl From<tokio_postgres::Error> for Fault {
    fn from(err: tokio_postgres::Error) -> Self {
        Fault::Client(err)
    }
}

impl From<PoolError> for Fault {
    fn from(err: PoolError) -> Self {
        match err {
            PoolError::Backend(err) => Fault::Client(err),
            PoolError::Timeout(TimeoutType::Wait) => Fault::Busy,
            PoolError::Timeout(_) => Fault::Late,
            err => Fault::Answer(err.to_string()),
        }
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        StoreError::Unavailable(fault.to_string())
    }
}

impl From<Fault> for ReserveError {
    fn from(fault: Fault) -> Self {
        ReserveError::Unavailable(fault.to_string())
    }
}

//! Settings of the store in Redis, and of its loss.

use sealway_runtime::redis::{self, check_prefix};

use crate::store::OpenError;

/// Handling of calls while Redis is away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLoss {
    /// Rejects all calls that need a nonce.
    #[default]
    FailClosed,
    /// Decides by this process's own memory. Only where one process alone owns its sessions: two would each grant the
    /// same nonce.
    Local,
}

/// Settings of the Redis store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisConfig {
    /// Settings of the connection to the servers.
    pub server: redis::Settings,
    /// Prefix of every key and of the channel: 1 to 64 letters, digits, `-`, `_`, `.` or `:`.
    pub prefix: String,
    /// Handling of calls while Redis is away.
    pub on_loss: OnLoss,
    /// Number of replicas that must confirm a master for it to be used; `None` means half of the replicas that Sentinel
    /// knows, rounded up, and 0 without Sentinel.
    pub min_replicas: Option<usize>,
    /// Time window of stamps in milliseconds, [`sealway_proto::wire::ReplayPolicy::window_ms`].
    pub window_ms: u64,
    /// Maximum number of operations in flight; more wait, within the deadline.
    pub in_flight_max: usize,
    /// Maximum number of sessions queued for [`crate::store::redis::Redis::save_later`]; more are dropped.
    pub behind_max: usize,
}

impl Default for RedisConfig {
    fn default() -> Self {
        RedisConfig {
            server: redis::Settings::default(),
            prefix: "sealway".into(),
            on_loss: OnLoss::FailClosed,
            min_replicas: None,
            window_ms: sealway_proto::wire::ReplayPolicy::default().window_ms(),
            in_flight_max: 4096,
            behind_max: 16 * 1024,
        }
    }
}

impl RedisConfig {
    /// Parses a URL, as [`redis::Settings::parse_url`] does. Everything else has its default.
    ///
    /// # Errors
    /// [`OpenError`], naming the invalid part and never the password.
    pub fn parse_url(url: &str) -> Result<Self, OpenError> {
        Ok(RedisConfig { server: redis::Settings::parse_url(url)?, ..RedisConfig::default() })
    }

    /// Validates the values of the fields.
    pub(super) fn check(&self) -> Result<(), OpenError> {
        check_prefix(&self.prefix)?;
        let server = &self.server;
        if server.nodes.is_empty() || self.in_flight_max == 0 || self.behind_max == 0 || server.deadline.is_zero() {
            return Err(OpenError("Redis: hosts, deadline and bounds must not be empty".into()));
        }
        Ok(())
    }
}

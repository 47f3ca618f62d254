//! Wire 3 at the authority: agreements, renewals and ends of sessions. `spec/session-3.md`.
//!
//! It may not know the target of a sealed request, nor how its body streams there.

mod init;
mod manage;

use sealway_proto::session::native::Suite;

pub(crate) use init::handle as handle_init;
pub(crate) use manage::{handle as handle_managed, is_managed};

/// Limits of grants on wire 3.
#[derive(Clone, Debug)]
pub struct Wire3Policy {
    /// Enabled suites, in any order: the client's preference counts.
    pub suites: Vec<Suite>,
    /// Maximum duration of a chain of renewals, in seconds.
    pub renew_max_sec: u32,
    /// Inits a minute and address; 0 means no limit.
    pub inits_per_minute: u32,
}

impl Default for Wire3Policy {
    fn default() -> Self {
        Wire3Policy { suites: Suite::DEFAULT.to_vec(), renew_max_sec: 86_400, inits_per_minute: 0 }
    }
}

//! Wire 3 at the authority: agreements, renewals and ends of sessions. `spec/session-3.md`.
//!
//! It may not know: where a sealed request goes, nor how its body streams there.

mod init;
mod manage;

use sealway_proto::session::three::Suite;

pub(crate) use init::handle as handle_init;
pub(crate) use manage::{handle as handle_managed, is_managed};

/// What the authority grants on wire 3.
#[derive(Clone, Debug)]
pub struct Wire3Policy {
    /// Suites, in any order: the client's preference counts.
    pub suites: Vec<Suite>,
    /// How long a chain of renewals may last, in seconds.
    pub renew_max_sec: u32,
    /// Inits a minute and address; 0 is no limit.
    pub inits_per_minute: u32,
}

impl Default for Wire3Policy {
    fn default() -> Self {
        Wire3Policy { suites: Suite::ALL.to_vec(), renew_max_sec: 86_400, inits_per_minute: 0 }
    }
}

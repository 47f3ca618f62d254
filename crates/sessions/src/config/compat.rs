//! Section `compat:` of the configuration.

use sealway_runtime::config::Flag;
use serde::{Deserialize, Serialize};

/// Section `compat:` as written in the configuration file.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawCompat {
    /// Serves session keys to callers that know a session id and its client id. A warning is given at start and in `/health`.
    open_key_endpoint: Flag<false>,
    /// `memory`: while Redis is away each process takes nonces into its own memory, so a request can be replayed once at
    /// every other process. Full: 400, on `/v1` 503. Health says `disconnected`. The same as `sessions.redis.on_loss: local`.
    /// - default: `none` (`memory` when Redis comes from the old servers' environment)
    nonce_fallback: Option<RawFallback>,
}

/// Fallback for nonces while Redis is unavailable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum RawFallback {
    Memory,
    None,
}

/// Checked values of the section `compat:` that concern sessions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compat {
    pub(super) open_key_endpoint: bool,
    /// True if nonces fall back to the process's memory.
    pub(super) fall_back: bool,
}

pub(super) fn resolve(raw: &RawCompat) -> Compat {
    let fall_back = raw.nonce_fallback == Some(RawFallback::Memory);
    Compat { open_key_endpoint: raw.open_key_endpoint.get(), fall_back }
}

impl Compat {
    pub(super) fn warn(self, warnings: &mut Vec<String>) {
        if self.fall_back {
            warnings.push(
                "compat.nonce_fallback: memory: while Redis is away each process takes nonces into its own memory, so a \
                 request can be replayed once at every other process"
                    .into(),
            );
        }
        if self.open_key_endpoint {
            warnings.push(
                "compat.open_key_endpoint is on: anyone who knows a session id and its client id can read the session's key"
                    .into(),
            );
        }
    }
}

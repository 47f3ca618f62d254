//! Section `sessions.ttl` of the configuration.

use sealway_proto::limits::{
    TTL_AUTHENTICATED_SEC_DEFAULT, TTL_DEFAULT_SEC_DEFAULT, TTL_MAX_SEC_DEFAULT, TTL_MIN_SEC_DEFAULT,
    TTL_SEC_CONFIG_MAX, TTL_WIRE1_ANON_SEC_DEFAULT,
};
use sealway_proto::session::TtlPolicy;
use sealway_runtime::config::{Number, Problems};
use serde::{Deserialize, Serialize};

/// Longest lifetime of a session that may be configured, in seconds.
const MAX: u64 = TTL_SEC_CONFIG_MAX as u64;

/// Section `sessions.ttl` as written in the configuration file.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTtl {
    /// Shortest lifetime that `/session/init` grants.
    min_sec: Number<u32, { TTL_MIN_SEC_DEFAULT as u64 }, 1, MAX>,
    /// Longest lifetime that `/session/init` grants.
    max_sec: Number<u32, { TTL_MAX_SEC_DEFAULT as u64 }, 1, MAX>,
    /// Granted by `/session/init` when the client names none; from `min_sec` to `max_sec`.
    default_sec: Number<u32, { TTL_DEFAULT_SEC_DEFAULT as u64 }, 1, MAX>,
    /// Granted by `/v1/session/init` without `Authorization`.
    v1_anonymous_sec: Number<u32, { TTL_DEFAULT_SEC_DEFAULT as u64 }, 1, MAX>,
    /// Granted by `/v1/session/init` with an accepted `Authorization`.
    v1_authenticated_sec: Number<u32, { TTL_AUTHENTICATED_SEC_DEFAULT as u64 }, 1, MAX>,
    /// Lifetime that `/session/init/anon` grants, on wire 1.
    wire1_anonymous_sec: Number<u32, { TTL_WIRE1_ANON_SEC_DEFAULT as u64 }, 1, MAX>,
}

pub(super) fn resolve(raw: &RawTtl, problems: &mut Problems) -> TtlPolicy {
    let defaults = TtlPolicy::default();
    // Defaults of omitted bounds follow the bounds that are set.
    let max_sec = defaults.max_sec.max(raw.min_sec.given().unwrap_or(0));
    let max_sec = raw.max_sec.check_or("sessions.ttl.max_sec", max_sec, problems);
    let min_sec = raw.min_sec.check_or("sessions.ttl.min_sec", defaults.min_sec.min(max_sec), problems);
    let default_sec = defaults.default_sec.min(max_sec).max(min_sec.min(max_sec));
    let default_sec = raw.default_sec.check_or("sessions.ttl.default_sec", default_sec, problems);
    let ttl = TtlPolicy {
        min_sec,
        max_sec,
        default_sec,
        v1_anonymous_sec: raw.v1_anonymous_sec.check("sessions.ttl.v1_anonymous_sec", problems),
        v1_authenticated_sec: raw.v1_authenticated_sec.check("sessions.ttl.v1_authenticated_sec", problems),
        wire1_anonymous_sec: raw.wire1_anonymous_sec.check("sessions.ttl.wire1_anonymous_sec", problems),
    };
    if !(min_sec <= default_sec && default_sec <= max_sec) {
        problems.add(
            "sessions.ttl",
            format!("min_sec {min_sec}, default_sec {default_sec} and max_sec {max_sec} must be in this order"),
        );
        return defaults;
    }
    ttl
}

//! Section `replay:` of the configuration.

use sealway_proto::limits::{WINDOW_MS_DEFAULT, WINDOW_MS_MAX};
use sealway_runtime::config::{Number, Problems, Within};
use serde::{Deserialize, Serialize};

use crate::store::MemoryLimits;

/// Largest value of `nonces_max`, in nonces.
const NONCES_MAX: u64 = 1_000_000_000;
/// Smallest value of `nonces_cleanup_from`, in nonces.
const CLEANUP_FROM_MIN: u64 = 100;

/// Section `replay:` as written in the configuration file.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawReplay {
    /// Largest distance of a stamp from the clock, either way. Wire 3 uses at most 300000.
    window_ms: Number<u64, WINDOW_MS_DEFAULT, 1, WINDOW_MS_MAX>,
    /// Time that a nonce is remembered. Below twice the window it is raised to that, with a warning.
    /// - default: twice the window
    nonce_ttl_ms: Within<u64, 1, { 10 * WINDOW_MS_MAX }>,
    /// Nonces of sealed calls held by a process (in PostgreSQL by all together), and as many of inits. A full store rejects;
    /// from half full on a session, a pre-shared key, or an address with its inits and requests without a name, takes at most a
    /// twentieth. With Redis its memory is the bound, and this one is of the process's own memory while Redis is away. A start
    /// logs how many calls a second it is enough for.
    nonces_max: Number<usize, { MemoryLimits::DEFAULT.nonces_max as u64 }, 1000, NONCES_MAX>,
    /// Number of nonces from which expired ones are removed everywhere before a new one is taken; below `nonces_max`.
    /// - default: four fifths of `nonces_max`
    nonces_cleanup_from: Within<usize, CLEANUP_FROM_MIN, { NONCES_MAX - 1 }>,
}

/// Checked values of the section `replay:`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replay {
    pub(super) window_ms: u64,
    pub(super) nonce_ttl_ms: u64,
    pub(super) nonces_max: usize,
    pub(super) nonces_cleanup_from: usize,
}

pub(super) fn resolve(raw: &RawReplay, problems: &mut Problems, warnings: &mut Vec<String>) -> Replay {
    let window_ms = raw.window_ms.check("replay.window_ms", problems);
    let nonce_ttl_ms = raw.nonce_ttl_ms.check_or("replay.nonce_ttl_ms", 2 * window_ms, problems);
    if nonce_ttl_ms < 2 * window_ms {
        warnings.push(format!(
            "replay.nonce_ttl_ms: {nonce_ttl_ms} is raised to {}, twice the window: a request stamped at the future \
             edge must not outlive its own record",
            2 * window_ms
        ));
    }
    let nonces_max = raw.nonces_max.check("replay.nonces_max", problems);
    let nonces_cleanup_from = problems.bounded(
        "replay.nonces_cleanup_from",
        raw.nonces_cleanup_from.given(),
        nonces_max / 5 * 4,
        CLEANUP_FROM_MIN as usize..=nonces_max.saturating_sub(1),
    );
    Replay { window_ms, nonce_ttl_ms: nonce_ttl_ms.max(2 * window_ms), nonces_max, nonces_cleanup_from }
}

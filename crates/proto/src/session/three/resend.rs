//! Whether a client sends a refused request again. `spec/session-3.md#problems`.

use super::Problem;
use crate::limits::WINDOW3_MS_MAX;

/// How old the stamp of a request must have been when it left, in milliseconds, for no server to have served it: the widest
/// window, and as much again, by which the clocks of a service's servers may differ.
const STALE_MS: u64 = 2 * WINDOW3_MS_MAX;
/// The safe methods (RFC 9110 section 9.2.1) that are sealed.
const SAFE_METHODS: [&str; 2] = ["GET", "HEAD"];

/// A request that was refused, as far as it counts here. Times are milliseconds of the server's clock, but for `elapsed_ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused<'a> {
    /// Its method.
    pub method: &'a str,
    /// Its stamp.
    pub stamp_ms: u64,
    /// How long ago it was sent, rounded up: by the longer of a clock that never jumps and the clock of the day, as the former
    /// may stand still while a machine sleeps.
    pub elapsed_ms: u64,
}

/// Whether a request is to be sent again, with a new nonce, and in a new session at a `session_expired`. `is_proven` says that
/// the mac of a `clock_skew` verified. How often is the caller's to bound: once.
///
/// A refusal says nothing of what was before it: somebody in the middle can deliver a purchase, hold its answer back, and show
/// the same bytes to the service until it refuses them. That a session is gone proves nothing: a restart, a revocation or a
/// process with another store loses it right after it served. So a method that is not safe is sent again only where its stamp
/// was too old for every server before it left.
// SPEC session-3.md#problems
pub fn sends_again(problem: &Problem, is_proven: bool, refused: &Refused<'_>) -> bool {
    let is_safe = SAFE_METHODS.contains(&refused.method);
    match problem.code.as_str() {
        "session_expired" => is_safe,
        "clock_skew" if is_proven => {
            let server_time_ms = problem.more.get("server_time_ms").and_then(|ms| ms.as_u64()).unwrap_or_default();
            let sent_ms = server_time_ms.saturating_sub(refused.elapsed_ms);
            is_safe || refused.stamp_ms.saturating_add(STALE_MS) < sent_ms
        }
        _ => false,
    }
}

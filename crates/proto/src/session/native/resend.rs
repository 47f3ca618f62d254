//! The decision of a client to retry a rejected request. `spec/session-3.md#problems`.

use super::Problem;
use crate::limits::WINDOW3_MS_MAX;

/// The age at which a request's stamp was too old for every server when the request left, in milliseconds: the widest window,
/// and as much again, by which the clocks of a service's servers may differ.
const STALE_MS: u64 = 2 * WINDOW3_MS_MAX;
/// The safe methods (RFC 9110 section 9.2.1) that are sealed.
const SAFE_METHODS: [&str; 2] = ["GET", "HEAD"];

/// A rejected request, as far as it counts for a retry. Times are milliseconds of the server's clock, except `elapsed_ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RejectedRequest<'a> {
    /// The method of the request.
    pub method: &'a str,
    /// The stamp of the request.
    pub stamp_ms: u64,
    /// Time since it was sent, rounded up: by the longer of a monotonic clock and the wall clock, as the former may stand still
    /// while a machine sleeps.
    pub elapsed_ms: u64,
}

/// Returns whether a request is to be retried, with a new nonce, and in a new session after a `session_expired`. `is_proven`
/// states that the mac of a `clock_skew` verified. The caller bounds the number of retries to one.
///
/// A rejection does not prove that the request had no effect: an attacker on the path can deliver a purchase, withhold its
/// answer, and replay the same bytes to the service until it rejects them. A lost session proves nothing either: a restart, a
/// revocation or a process with another store loses it right after it served. So a method that is not safe is retried only if
/// its stamp was too old for every server before it left.
// SPEC session-3.md#problems
pub fn sends_again(problem: &Problem, is_proven: bool, refused: &RejectedRequest<'_>) -> bool {
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

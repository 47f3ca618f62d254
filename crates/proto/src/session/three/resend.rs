//! Whether a client sends once more what was refused. `spec/session-3.md#problems`.

use super::Problem;
use crate::limits::WINDOW3_MS_MAX;

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
    /// When its session ends.
    pub session_end_ms: u64,
}

/// Whether a request is to be sent again, with a new nonce, and in a new session at a `session_expired`. `is_proven` says that
/// the problem's mac or signature verified. How often is the caller's to bound: once.
///
/// A refusal says nothing of what was before it: somebody in the middle can deliver a purchase, hold its answer back, and show
/// the same bytes to the service until it refuses them. So what is not safe is sent again only if no server can have served
/// it, at any moment since it was sent, nor can later.
// SPEC session-3.md#problems
pub fn sends_again(problem: &Problem, is_proven: bool, refused: &Refused<'_>) -> bool {
    let is_safe = SAFE_METHODS.contains(&refused.method);
    let server_time_ms = problem.more.get("server_time_ms").and_then(|ms| ms.as_u64());
    match (problem.code.as_str(), server_time_ms.filter(|_| is_proven)) {
        ("session_expired", _) if is_safe => true,
        ("session_expired", Some(now_ms)) => {
            now_ms < refused.session_end_ms || refused.stamp_ms >= refused.session_end_ms
        }
        ("clock_skew", Some(now_ms)) => {
            let sent_ms = now_ms.saturating_sub(refused.elapsed_ms);
            is_safe || refused.stamp_ms.saturating_add(WINDOW3_MS_MAX) < sent_ms
        }
        _ => false,
    }
}

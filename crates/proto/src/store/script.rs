//! The script that reserves nonces in Redis, atomically. `spec/redis-store.md#the-script`.

use alloc::format;
use alloc::string::String;

/// Largest step back of the clock before nonces count as lost, in ms. After a smaller one they are merely kept longer.
const BACK_MAX_MS: u64 = 5000;
/// Lifetime of the canary, in ms.
const CANARY_MS: u64 = 10_000;
/// Time for which a nonce is kept beyond its lifetime, in ms: a step of the clock, ahead and back, that the canary outlives
/// removes no nonce that is still needed.
const KEEP_MORE_MS: u64 = CANARY_MS + 2000;
/// A stamp no further ahead of the server's clock than this is covered by the floor of the next epoch.
pub const AHEAD_MS: u64 = 500;

/// Returns the script, which reserves a nonce in the epoch `gen`, or with an empty token only reports the epoch's state.
///
/// The script's text contains the generation, and only the process that made that generation loads the text, by SCRIPT LOAD.
/// Redis keeps scripts in memory only, so a server without the text is not the server whose memory the epoch began in. The hash
/// may be gone (FLUSHALL), or belong to another epoch: then its generation differs.
///
/// KEYS: epoch, canary, nonce. ARGV: token, lifetime in ms, stamp, first ms at which the nonce may be forgotten.
/// Answers `{state, time, floor}`.
///
/// The canary detects a clock that stepped ahead and back between two calls: it has expired, although by the clock it should
/// not have.
pub fn reserve(generation: &str) -> String {
    format!(
        r"-- generation {generation}
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local e = redis.call('HMGET', KEYS[1], 'gen', 'floor', 'hw')
if e[1] ~= '{generation}' then return {{'EPOCH', now, 0}} end
local floor, hw = tonumber(e[2]), tonumber(e[3])
if now < hw - {BACK_MAX_MS} then return {{'CLOCK', now, floor}} end
if redis.call('EXISTS', KEYS[2]) == 0 and now < hw + {CANARY_MS} then return {{'CLOCK', now, floor}} end
if now > hw + 1000 then
  local noted = redis.pcall('SET', KEYS[2], '1', 'PX', {CANARY_MS} + 1000)
  if not noted.err then redis.call('HSET', KEYS[1], 'hw', string.format('%.0f', now)) end
end
if now > hw then hw = now end
if ARGV[1] == '' then return {{'OK', now, floor}} end
local stamp, gone = tonumber(ARGV[3]), tonumber(ARGV[4])
if stamp <= floor then return {{'FLOOR', now, floor}} end
if gone <= hw then return {{'FORGOTTEN', now, floor}} end
local keep = math.max(tonumber(ARGV[2]), gone - now) + {KEEP_MORE_MS}
if not redis.call('SET', KEYS[3], ARGV[1], 'NX', 'PX', string.format('%.0f', keep)) then
  if redis.call('GET', KEYS[3]) ~= ARGV[1] then return {{'REPLAYED', now, floor}} end
end
if stamp > now + {AHEAD_MS} then return {{'AHEAD', now, floor}} end
return {{'FRESH', now, floor}}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other processes call it by its hash.
    #[test]
    fn the_text_is_the_one_of_the_spec() {
        let spec = include_str!("../../../../spec/redis-store.md");
        assert!(spec.contains(&format!("```lua\n{}```\n", reserve("GENERATION"))));
        assert!(reserve("abc").contains("e[1] ~= 'abc'"));
    }
}

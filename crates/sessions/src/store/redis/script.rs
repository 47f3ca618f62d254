//! The texts that Redis runs, each in one piece: nothing comes between what a script reads and what it writes.
//!
//! It may not know a connection.

/// How far the clock may step back before nonces count as lost. Below it they are merely kept longer.
const BACK_MAX_MS: u64 = 5000;
/// How long the canary lives, in ms.
const CANARY_MS: u64 = 10_000;
/// How much longer than its time a nonce is kept: a step of the clock, ahead and back, that the canary outlives takes no
/// nonce that is still needed.
const KEEP_MORE_MS: u64 = CANARY_MS + 2000;
/// A stamp no further ahead of the server's clock than this is covered by the floor of the next epoch.
const AHEAD_MS: u64 = 500;

/// Reserves a nonce in the epoch `gen`, or with an empty token only says how the epoch is.
///
/// The generation stands in the text, and the text is loaded by SCRIPT LOAD alone, by whoever made that generation. Redis
/// keeps scripts in memory only, so a server without the text is not the one whose memory the epoch was begun in. The
/// hash may have gone (FLUSHALL), or be another one's: then its generation differs.
///
/// KEYS: epoch, canary, nonce. ARGV: token, lifetime in ms, stamp, first ms at which the nonce may be forgotten.
/// Answers `{state, time, floor}`.
///
/// The canary tells of a clock that stepped ahead and back between two calls: it expired, though by the clock it should
/// not have.
pub(super) fn reserve(generation: &str) -> String {
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

/// How an epoch is. KEYS: epoch. Answers `{time, gen, floor, hw, made, node}`, absent ones empty.
pub(super) const LOOK: &str = r"
local t = redis.call('TIME')
local e = redis.call('HMGET', KEYS[1], 'gen', 'floor', 'hw', 'made', 'node')
return {t[1] * 1000 + math.floor(t[2] / 1000), e[1] or '', e[2] or '0', e[3] or '0', e[4] or '0', e[5] or ''}
";

/// Puts an epoch out of force if it is still as it was looked at. KEYS: epoch. ARGV: gen seen, mark. Answers 1 if so.
pub(super) const CLOSE: &str = r"
if (redis.call('HGET', KEYS[1], 'gen') or '') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'gen', ARGV[2])
return 1
";

/// Puts a new epoch in force if the mark is still there. KEYS: epoch, canary. ARGV: mark, gen, how far the floor is ahead
/// of the time, least floor, node. What was the highest time so far is passed by the floor. Answers 1 if so.
pub(super) const OPEN: &str = r"
if redis.call('HGET', KEYS[1], 'gen') ~= ARGV[1] then return 0 end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local ahead = tonumber(ARGV[3])
local e = redis.call('HMGET', KEYS[1], 'floor', 'hw')
local floor = math.max(now + ahead, tonumber(ARGV[4]), tonumber(e[1] or '0'))
local hw = tonumber(e[2] or '0')
if hw > 0 then floor = math.max(floor, hw + math.max(ahead, 1500)) end
redis.call('SET', KEYS[2], '1', 'PX', 11000)
redis.call('HSET', KEYS[1], 'gen', ARGV[2], 'floor', string.format('%.0f', floor), 'hw', string.format('%.0f', now),
  'made', string.format('%.0f', now), 'node', ARGV[5])
return 1
";

/// Raises the floor of an epoch. KEYS: epoch. ARGV: gen, floor. Answers 1 if the epoch is the one named.
pub(super) const RAISE: &str = r"
local e = redis.call('HMGET', KEYS[1], 'gen', 'floor')
if e[1] ~= ARGV[1] then return 0 end
if tonumber(e[2]) < tonumber(ARGV[2]) then redis.call('HSET', KEYS[1], 'floor', ARGV[2]) end
return 1
";

/// Puts a tombstone in a session's place and tells everybody. KEYS: session. ARGV: tombstone, lifetime in ms or 0 for
/// what is left of the session, channel, id. A tombstone that lasts longer stays. Answers 1 if a session was there.
pub(super) const REVOKE: &str = r"
local held = redis.call('STRLEN', KEYS[1]) > 1
local keep, left = tonumber(ARGV[2]), redis.call('PTTL', KEYS[1])
if keep == 0 or (not held and left > keep) then keep = left end
if keep > 0 then redis.call('SET', KEYS[1], ARGV[1], 'PX', string.format('%.0f', keep)) end
redis.call('PUBLISH', ARGV[3], ARGV[4])
return held and 1 or 0
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_each_generation_is_another_one() {
        assert_ne!(redis::Script::new(&reserve("a")).get_hash(), redis::Script::new(&reserve("b")).get_hash());
        assert!(reserve("abc").contains("e[1] ~= 'abc'"));
    }

    /// Others call it by its hash.
    #[test]
    fn the_text_is_the_one_of_the_spec() {
        let spec = include_str!("../../../../../spec/redis-store.md");
        assert!(spec.contains(&format!("```lua\n{}```\n", reserve("GENERATION"))));
    }
}

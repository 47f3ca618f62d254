//! Lua scripts for Redis, each atomic: no other command runs between a script's reads and writes.
//!
//! It may not know the connection.

/// Reads the state of an epoch. KEYS: epoch. Answers `{time, gen, floor, hw, made, node, term}`, absent ones empty.
pub(super) const LOOK: &str = r"
local t = redis.call('TIME')
local e = redis.call('HMGET', KEYS[1], 'gen', 'floor', 'hw', 'made', 'node', 'term')
return {t[1] * 1000 + math.floor(t[2] / 1000), e[1] or '', e[2] or '0', e[3] or '0', e[4] or '0', e[5] or '',
  e[6] or '0'}
";

/// Puts an epoch out of force if it has not changed since it was read. KEYS: epoch. ARGV: gen seen, mark. Answers 1 on
/// success.
pub(super) const CLOSE: &str = r"
if (redis.call('HGET', KEYS[1], 'gen') or '') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'gen', ARGV[2])
return 1
";

/// Puts a new epoch in force if the mark is still there. KEYS: epoch, canary. ARGV: mark, gen, distance of the floor
/// ahead of the time, least floor, node, term. The floor is above the highest time so far. Answers 1 on success.
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
  'made', string.format('%.0f', now), 'node', ARGV[5], 'term', ARGV[6])
return 1
";

/// Raises the floor of an epoch. KEYS: epoch. ARGV: gen, floor. Answers 1 if the epoch is the named one.
pub(super) const RAISE: &str = r"
local e = redis.call('HMGET', KEYS[1], 'gen', 'floor')
if e[1] ~= ARGV[1] then return 0 end
if tonumber(e[2]) < tonumber(ARGV[2]) then redis.call('HSET', KEYS[1], 'floor', ARGV[2]) end
return 1
";

/// Replaces a session by a tombstone and publishes its id. KEYS: session. ARGV: tombstone, lifetime in ms or 0 for the
/// remaining lifetime of the session, channel, id. A tombstone that lasts longer stays. Answers 1 if a session was
/// there.
pub(super) const REVOKE: &str = r"
local held = redis.call('STRLEN', KEYS[1]) > 1
local keep, left = tonumber(ARGV[2]), redis.call('PTTL', KEYS[1])
if keep == 0 or (not held and left > keep) then keep = left end
if keep > 0 then redis.call('SET', KEYS[1], ARGV[1], 'PX', string.format('%.0f', keep)) end
redis.call('PUBLISH', ARGV[3], ARGV[4])
return held and 1 or 0
";

//! Scripts for Redis, each atomic. SPEC relay.md#several-nodes
//!
//! Each compares the server's replication id with the one under which the epoch began. The id changes when a server restarts and
//! when a replica becomes master, so an epoch ends with the memory that it stands for.

/// Announces a node, and returns the epoch in force `{id, server, floor}`; begins one if there is none on this server. KEYS:
/// epoch, node. ARGV: id of an epoch to begin, id of the epoch that the node knows (empty at its start), time and skew in
/// seconds, 1 if no bucket has an epoch, address of the node, its lease in ms, ids of epochs that the node has left.
///
/// A node that knows another epoch raises the floor of this one: its beginner may not have known of the loss.
pub(super) const ENTER: &str = r"
local server = string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)')
local e = redis.call('HMGET', KEYS[1], 'id', 'server', 'made', 'floor')
local id, made, floor = e[1] or '', tonumber(e[3] or '0'), tonumber(e[4] or '0')
local now, skew = tonumber(ARGV[3]), tonumber(ARGV[4])
local is_lost = id == '' or e[2] ~= server
for i = 8, #ARGV do is_lost = is_lost or ARGV[i] == id end
local before = floor
if is_lost then
  id, made = ARGV[1], now
  floor = math.max(floor, ARGV[5] == '1' and now or now + skew)
elseif ARGV[2] ~= '' and ARGV[2] ~= id then
  floor = math.max(floor, made + skew)
end
if is_lost or floor > before then
  redis.call('HSET', KEYS[1], 'id', id, 'server', server, 'made', string.format('%.0f', made),
    'floor', string.format('%.0f', floor))
end
redis.call('SET', KEYS[2], ARGV[6], 'PX', ARGV[7])
return {id, server, string.format('%.0f', floor)}
";

/// Uses up a token, then returns the node of its channel: the asking one from now on, if none has it. KEYS: epoch, token,
/// channel. ARGV: id of the epoch, `iat` of the token, mark of this attempt, life of the token in ms, id of the node, life of
/// the channel's entry in ms, prefix of the nodes' keys. Answers `{outcome, address, server, node}`.
pub(super) const ADMIT: &str = r"
local server = string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)')
local e = redis.call('HMGET', KEYS[1], 'id', 'server', 'floor')
if e[1] ~= ARGV[1] or e[2] ~= server then return {'lost', '', '', ''} end
if tonumber(ARGV[2]) <= tonumber(e[3]) then return {'floor', '', '', ''} end
if not redis.call('SET', KEYS[2], ARGV[3], 'NX', 'PX', ARGV[4]) and redis.call('GET', KEYS[2]) ~= ARGV[3] then
  return {'replay', '', '', ''}
end
local owner = redis.call('GET', KEYS[3])
if owner and owner ~= ARGV[5] then
  local address = redis.call('GET', ARGV[7] .. owner)
  if address then
    redis.call('PEXPIRE', KEYS[3], ARGV[6])
    return {'there', address, server, owner}
  end
end
redis.call('SET', KEYS[3], ARGV[5], 'PX', ARGV[6])
return {'here', '', server, ''}
";

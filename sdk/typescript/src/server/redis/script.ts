/** The script that reserves a nonce (`spec/redis-store.md`, The script). It is never sent: that Redis has it is the proof. */
import * as crypto from "node:crypto";

/** Its text, for one generation of an epoch. */
export function scriptOf(generation: string): string {
  return `-- generation ${generation}
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local e = redis.call('HMGET', KEYS[1], 'gen', 'floor', 'hw')
if e[1] ~= '${generation}' then return {'EPOCH', now, 0} end
local floor, hw = tonumber(e[2]), tonumber(e[3])
if now < hw - 5000 then return {'CLOCK', now, floor} end
if redis.call('EXISTS', KEYS[2]) == 0 and now < hw + 10000 then return {'CLOCK', now, floor} end
if now > hw + 1000 then
  local noted = redis.pcall('SET', KEYS[2], '1', 'PX', 10000 + 1000)
  if not noted.err then redis.call('HSET', KEYS[1], 'hw', string.format('%.0f', now)) end
end
if now > hw then hw = now end
if ARGV[1] == '' then return {'OK', now, floor} end
local stamp, gone = tonumber(ARGV[3]), tonumber(ARGV[4])
if stamp <= floor then return {'FLOOR', now, floor} end
if gone <= hw then return {'FORGOTTEN', now, floor} end
local keep = math.max(tonumber(ARGV[2]), gone - now) + 12000
if not redis.call('SET', KEYS[3], ARGV[1], 'NX', 'PX', string.format('%.0f', keep)) then
  if redis.call('GET', KEYS[3]) ~= ARGV[1] then return {'REPLAYED', now, floor} end
end
if stamp > now + 500 then return {'AHEAD', now, floor} end
return {'FRESH', now, floor}
`;
}

/** Returns the SHA-1 by which Redis knows the script. */
export function scriptHash(generation: string): string {
  return crypto.createHash("sha1").update(scriptOf(generation)).digest("hex");
}

"""Claims that a Redis keeps: the script, and what its answers mean. `spec/redis-store.md#nonces`."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any, Final

from ..errors import ProtocolError, StoreUnavailable
from .claim import Claim

#: Milliseconds that a stamp may be ahead of Redis's clock: what is further ahead a loss of memory could forget.
AHEAD_MS: Final = 500
#: Milliseconds that a request waits for its own stamp.
WAIT_MS_MAX: Final = 2_000

# Redis has this text from the gateway that began the epoch. Knowing its hash proves that Redis still has the memory of that
# time, so this client never loads it.
_SCRIPT = """\
-- generation GENERATION
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local e = redis.call('HMGET', KEYS[1], 'gen', 'floor', 'hw')
if e[1] ~= 'GENERATION' then return {'EPOCH', now, 0} end
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
"""
_GENERATION = re.compile(r"[0-9a-f]{32}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Epoch:
    """The memory that claims are written to.

    Attributes:
        generation: 32 hexadecimal digits.
        made_ms: when it began, by the clock of Redis.
    """

    generation: str
    made_ms: int

    def script_sha1(self) -> str:
        """Returns the SHA-1 of the epoch's script, its name in Redis."""
        text = _SCRIPT.replace("GENERATION", self.generation)
        return hashlib.sha1(text.encode("ascii"), usedforsecurity=False).hexdigest()


def _ascii(value: Any) -> str:
    return value.decode("ascii", "replace") if isinstance(value, bytes) else ""


def _number(value: Any) -> int:
    text = _ascii(value)
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 16 else 0


def epoch_of(members: Any, info: Any) -> Epoch:
    """The epoch that is in force: of `HMGET epoch gen floor made node` and of `INFO server replication`.

    Raises:
        StoreUnavailable: if none is, or this server is not the one that it was begun on.
    """
    if not isinstance(members, list) or len(members) != 4:
        raise StoreUnavailable("Redis: the epoch cannot be read")
    generation, node = _ascii(members[0]), _ascii(members[3])
    if _GENERATION.fullmatch(generation) is None:
        raise StoreUnavailable("Redis: no epoch is in force")
    told = dict(line.split(":", 1) for line in _ascii(info).splitlines() if ":" in line)
    if told.get("redis_mode") != "standalone":
        # A cluster's nonces are in other buckets.
        raise StoreUnavailable("Redis: it is a member of a cluster")
    # A replica, or one that became master, may not have what was written.
    if told.get("role") != "master" or not node or told.get("master_replid") != node:
        raise StoreUnavailable("Redis: the epoch was begun on another server")
    return Epoch(generation, _number(members[2]))


def claim_arguments(claim: Claim, token: bytes, lifetime_ms: int) -> tuple[bytes, int, int, int]:
    """The script's arguments for a claim: token, `kept_ms`, `stamp_ms`, `gone_ms`. `token` is 8 random bytes, made for
    this claim; a lifetime below twice the window is raised to it."""
    kept_ms = claim.expires_ms(0, lifetime_ms)
    return token, kept_ms, claim.stamp_ms, claim.stamp_ms + (kept_ms - 1) // 2 + 1


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of the script.

    Attributes:
        state: as the table of the specification has it.
        time_ms: the clock of Redis.
        floor_ms: stamps up to this one are not claimed any more.
    """

    state: str
    time_ms: int
    floor_ms: int

    @classmethod
    def of(cls, value: Any) -> Answer:
        """The answer in a reply.

        Raises:
            StoreUnavailable: for anything else.
        """
        if isinstance(value, list) and len(value) == 3 and isinstance(value[1], int) and isinstance(value[2], int):
            return cls(_ascii(value[0]), value[1], value[2])
        raise StoreUnavailable("Redis: the answer is not understood")

    def is_lost(self) -> bool:
        """Returns True if the memory is not that of the epoch."""
        return self.state in ("EPOCH", "CLOCK")

    def wait_ms(self, claim: Claim) -> int:
        """Returns the milliseconds that an admitted request has to wait; the epoch is read again then.

        Raises:
            ProtocolError: `replayed`.
            StoreUnavailable
        """
        if self.state == "FRESH":
            return 0
        if self.state == "AHEAD":
            wait_ms = claim.stamp_ms - AHEAD_MS - self.time_ms
            if wait_ms > WAIT_MS_MAX:
                raise StoreUnavailable("Redis: the stamp is too far ahead of its clock")
            return max(1, wait_ms)
        if self.state in ("REPLAYED", "FORGOTTEN") or (self.state == "FLOOR" and self.floor_ms < self.time_ms):
            raise ProtocolError("replayed")
        raise StoreUnavailable("Redis: it cannot say that the claim is new")

#!/usr/bin/env python3
"""Whether a request of an unsafe method is executed at most once a call: every state of a small system, one by one.

Verifpal's models have no memory and no clocks; this one has little else. It is a search through all interleavings within the
bounds below, not a proof for any number of sessions, servers or hours, and its cryptography is perfect: nobody but a server
makes the mac of a `clock_skew`. The attacker holds every message for as long as he likes, shows each to each server as often
as he likes, decides when the end of a first frame arrives, restarts a server over a store in memory, has a session revoked,
and writes any refusal that needs no proof. Two servers share an identity; either a store too, or nothing.

usage: resend.py [VARIANT]
"""

import sys
from typing import NamedTuple

from search import Result, Row, rows, search

WINDOW = 1         # The widest window, in ticks.
SKEW = 1           # How far the clocks of two servers may differ, and how far a fast client's stamps run ahead.
MARGIN = SKEW      # What the rule at clock_skew adds to the window.
SESSION_END = 4    # By the clock of server 0, which agreed the session at 0.
LAST_TICK = 6
SLEPT = -4         # Stamps of a client whose clock stood still while it slept.

QUERY = "executed at most once"

# What is taken out or put back in each variant, and the query that then fails.
VARIANTS = {
    "as designed": "",
    "early loss": QUERY,         # sent again where server_time_ms is before the session's end, signed: the rule until now
    "late stamp": QUERY,         # sent again where the stamp is at or after the session's end
    "without elapsed": QUERY,    # at clock_skew the answer's way counts for nothing
    "without margin": QUERY,     # at clock_skew servers are taken to have one clock
    "without mac": QUERY,        # anybody says what the time is
    "early stamp": QUERY,        # a stamp that was too early counts as never served
    "without second look": QUERY,  # session and stamp are not checked again with the claim
}


class Request(NamedTuple):
    """What the client sent, and everybody in between keeps."""
    session: int
    stamp: int
    sent: int


class State(NamedTuple):
    now: int = 0
    requests: tuple = ()                         # In the order that they were sent.
    known: tuple = (frozenset({0}), frozenset())  # Sessions that each server's store has.
    claims: tuple = (frozenset(), frozenset())   # Requests that each server's store remembers.
    opened: tuple | None = None                  # (request, server): checks 2 and 4 passed, the first frame has not ended.
    executed: int = 0
    healed: frozenset = frozenset()              # Kinds of refusal that the client has sent again for.
    done: bool = False                           # The client has told its caller.
    spent: frozenset = frozenset()               # Of restarts and revocations one each: more lose nothing more.


class World(NamedTuple):
    variant: str
    is_shared: bool     # One store for both servers, which outlives them; else each has its own in memory.
    skew: int           # Of server 1's clock.
    offset: int         # Of the client's first stamp.

    def clock(self, state: State, server: int) -> int:
        return state.now + (self.skew if server else 0)

    def store(self, server: int) -> int:
        return 0 if self.is_shared else server


def put(values: tuple, at: int, value) -> tuple:
    return values[:at] + (value,) + values[at + 1:]


def refusal(world: World, state: State, request: Request, server: int) -> str | None:
    """Checks 2 and 4."""
    clock = world.clock(state, server)
    if request.session not in state.known[world.store(server)] or (request.session == 0 and clock >= SESSION_END):
        return "session_expired"
    return "clock_skew" if abs(request.stamp - clock) > WINDOW else None


def sends_again(world: World, state: State, kind: str, request: Request, time: int) -> bool:
    """The client's rule for a method that is not safe."""
    variant = world.variant
    if kind == "session_expired":
        return (variant == "early loss" and time < SESSION_END) or (variant == "late stamp" and request.stamp >= SESSION_END)
    if variant == "early stamp" and request.stamp > time + WINDOW:
        return True
    elapsed = 0 if variant == "without elapsed" else state.now - request.sent
    margin = 0 if variant == "without margin" else MARGIN
    return request.stamp + WINDOW + margin < time - elapsed


def told(world: World, state: State, kind: str, time: int):
    """What the client makes of a refusal of its last request."""
    request = state.requests[-1]
    if kind in state.healed or not sends_again(world, state, kind, request, time):
        return [state._replace(done=True)]
    healed = state.healed | {kind}
    if kind == "clock_skew":
        again = Request(request.session, time, state.now)
        return [state._replace(requests=(*state.requests, again), healed=healed)]
    out = []
    for server in (0, 1):
        session, store = len(state.requests), world.store(server)
        again = Request(session, world.clock(state, server), state.now)
        known = put(state.known, store, state.known[store] | {session})
        out.append(state._replace(requests=(*state.requests, again), known=known, healed=healed))
    return out


def claimed(world: World, state: State, index: int, server: int):
    """Check 8, and what the service does then."""
    store = world.store(server)
    if index not in state.claims[store]:
        claims = put(state.claims, store, state.claims[store] | {index})
        yield state._replace(claims=claims, executed=state.executed + 1)


def after(world: World, state: State):
    """Every state that one step leads to."""
    if state.now < LAST_TICK:
        # A store forgets a claim when its stamp is outside the window by the clock that checks it; one that several servers
        # share waits for the slowest of them.
        behind = min(0, world.skew) if world.is_shared else 0
        claims = tuple(frozenset(claim for claim in kept if state.requests[claim].stamp + WINDOW >=
                                 state.now + 1 + (behind if world.is_shared else world.skew * store))
                       for store, kept in enumerate(state.claims))
        yield state._replace(now=state.now + 1, claims=claims)
    if not state.requests:
        yield state._replace(requests=(Request(0, state.now + world.offset, state.now),))
    for index, request in enumerate(state.requests):
        for server in (0, 1):
            refused = refusal(world, state, request, server)
            if refused is None:
                yield from claimed(world, state, index, server)
                if state.opened is None:
                    yield state._replace(opened=(index, server))
            elif index == len(state.requests) - 1 and not state.done:
                # A refusal that is held back says no more than one that is fetched then, of a request that was held back.
                yield from told(world, state, refused, world.clock(state, server))
    if state.opened is not None:
        index, server = state.opened
        state_after = state._replace(opened=None)
        yield state_after
        if world.variant == "without second look" or refusal(world, state, state.requests[index], server) is None:
            yield from claimed(world, state_after, index, server)
    if state.requests and not state.done and world.variant == "without mac":
        last = state.requests[-1]
        yield from told(world, state, "clock_skew", last.stamp + WINDOW + MARGIN + 1 + state.now - last.sent)
    for store in (0,) if world.is_shared else (0, 1):
        if not world.is_shared and ("restart", store) not in state.spent:
            yield state._replace(known=put(state.known, store, frozenset()), claims=put(state.claims, store, frozenset()),
                                 opened=None if state.opened and state.opened[1] == store else state.opened,
                                 spent=state.spent | {("restart", store)})
    if "revoke" not in state.spent:
        yield state._replace(known=tuple(known - {0} for known in state.known), spent=state.spent | {"revoke"})


def result(variant: str) -> Result:
    """Whether some call is executed more than once, and whether some call that was sent again is executed: a rule that never
    sends again would prove nothing about this one."""
    worlds = [World(variant, is_shared, skew, offset)
              for is_shared in (False, True) for skew in (-SKEW, 0, SKEW) for offset in (SLEPT, -WINDOW, 0, SKEW, -SLEPT)]
    systems = ((State(), lambda state, world=world: after(world, state)) for world in worlds)
    return search(systems, lambda state: QUERY if state.executed > 1 else "", lambda state: state.executed == 1 and len(state.requests) > 1)


def check(names=None) -> list[Row]:
    """Runs the variants."""
    return rows("resend", VARIANTS, result, names)


if __name__ == "__main__":
    if not all(row.is_as_expected for row in check(sys.argv[1:])):
        raise SystemExit("other than the model says")

#!/usr/bin/env python3
"""Whether a client that pins a root takes only keys that are live: every state of a small system, one by one.

An offline root signs key sets (spec/session-3.md#the-key-set). The operator publishes one set after the other, from a first with the
key `old` to a last from which it is gone; two servers with one identity take them over at different times and sign with a key of theirs.
The attacker steals `old` at any time, answers as the service with it and signs any time with it, and shows the client any set that was
ever published, or one that he signed himself. The client's clock is right, behind, or ahead; the client restarts.

The queries:

* **retired** – once the client has taken a set without a key, it never accepts an answer that this key signs;
* **over** – a client whose clock is right never accepts a key, or uses a set, after its end;
* **said** – no client accepts a key in an answer that says a time after the key's end, nor with a set that was issued after it;
* **listed** – no client accepts a key that the root never listed;
* **served** – a client whose clock is right, and whom nobody attacks, accepts each server at each time of a rotation.

usage: rotation.py [VARIANT]
"""

import sys
from typing import NamedTuple

from search import Result, Row, rows, search

LAST_TICK = 8
SKEW = 2


class Key(NamedTuple):
    name: str
    begins: int
    ends: int


class KeySet(NamedTuple):
    issued: int
    expires: int
    keys: tuple
    signer: str = "root"


OLD, NEW, FORGED = Key("old", 0, 6), Key("new", 3, 99), Key("forged", 0, 99)
# Two ways to rotate: `old` is retired early, or stays in each set until its end has passed.
EARLY = (KeySet(0, 5, (OLD,)), KeySet(2, 7, (OLD, NEW)), KeySet(4, 99, (NEW,)))
TO_THE_END = (KeySet(0, 5, (OLD,)), KeySet(2, 99, (OLD, NEW)), KeySet(7, 99, (OLD, NEW)))
NO_OVERLAP = (KeySet(0, 5, (OLD,)), KeySet(2, 99, (NEW,)), KeySet(4, 99, (NEW,)))
OWN = KeySet(1, 99, (FORGED,), "attacker")

# What is taken out in each variant, and the query that then fails first.
VARIANTS = {
    "as designed": "",
    "without floor": "retired",         # a set that was issued before the one taken last is taken
    "floor in memory": "retired",       # a restart forgets when the set taken last was issued
    "without root": "listed",          # nobody checks who signed a set
    "without expiry": "over",        # the end of a set counts for nothing
    "without ends": "said",          # the end of a key counts for nothing
    "without own clock": "over",     # the ends are held against the time alone that the answer says
    "without said time": "said",     # the ends are held against the client's clock alone
    "without issue time": "said",    # that a set was issued after a key's end counts for nothing
    "checked once": "said",          # a signer is checked when its set is taken, and not at each answer
    "without overlap": "served",       # the set that first has `new` no longer has `old`
    "without fetch": "served",         # a client that does not find a key does not fetch the set
    "without waiting": "served",       # servers sign with `new` before its time begins
}


class State(NamedTuple):
    now: int = 0
    servers: tuple = (0, 0)         # Of the set that each server has.
    is_stolen: bool = False
    taken: KeySet | None = None     # The client's.
    floor: int = 0                  # `issued` of the set taken last, as the client remembers it.
    live: frozenset = frozenset()   # Keys that were live when the set was taken, for `checked once`.
    gone: frozenset = frozenset()   # Keys that a set did not have that the client took.
    is_restarted: bool = False
    broken: str = ""                # The query that failed.
    has_rotated: bool = False       # The client has accepted `new`.


class World(NamedTuple):
    variant: str
    sets: tuple
    offset: int     # Of the client's clock.

    def clock(self, state: State) -> int:
        return state.now + self.offset


def takes(world: World, state: State, offered: KeySet) -> State | None:
    """The client's steps for a set."""
    variant, clock = world.variant, world.clock(state)
    if offered.signer != "root" and variant != "without root":
        return None
    if clock >= offered.expires and variant != "without expiry":
        return None
    if offered.issued < state.floor and variant != "without floor":
        return None
    names = frozenset(key.name for key in offered.keys)
    live = frozenset(key.name for key in offered.keys if key.begins <= clock < key.ends)
    gone = state.gone | (frozenset({"old"}) - names if offered.signer == "root" else frozenset())
    return state._replace(taken=offered, floor=max(state.floor, offered.issued), live=live, gone=gone)


def accepts(world: World, state: State, name: str, said: int) -> bool:
    """The client's rule for the signer of an answer."""
    variant, taken = world.variant, state.taken
    key = next((key for key in taken.keys if key.name == name), None) if taken else None
    if key is None:
        return False
    if variant == "checked once":
        return name in state.live
    times = {"said": said, "clock": world.clock(state), "issued": taken.issued}
    for left_out, time in (("without own clock", "clock"), ("without said time", "said"), ("without issue time", "issued")):
        if variant == left_out:
            del times[time]
    if variant == "without own clock":
        del times["issued"]
    latest = max(times.values())
    return (key.begins <= said and (latest < key.ends or variant == "without ends")
            and (latest < taken.expires or variant == "without expiry"))


def judged(world: World, state: State, name: str, said: int) -> State:
    """The state after the client has accepted an answer, with the query that this breaks."""
    key = next(key for key in state.taken.keys if key.name == name)
    broken = ""
    if name in state.gone:
        broken = "retired"
    elif world.offset == 0 and (state.now >= key.ends or state.now >= state.taken.expires):
        broken = "over"
    elif said >= key.ends or state.taken.issued >= key.ends:
        broken = "said"
    elif name == "forged":
        broken = "listed"
    return state._replace(broken=broken, has_rotated=state.has_rotated or name == "new")


def signer(world: World, state: State, server: int) -> str | None:
    """The key that a server signs with: of the live ones in its set, that which lives longest."""
    keys = world.sets[state.servers[server]].keys
    live = [key for key in keys if (key.begins <= state.now or world.variant == "without waiting") and state.now < key.ends]
    return max(live, key=lambda key: key.ends).name if live else None


def is_served(world: World, state: State, server: int) -> bool:
    """Whether a client accepts this server's answer when nobody attacks: with its set, or with that which it fetches."""
    name = signer(world, state, server)
    if name is None:
        return True
    if accepts(world, state, name, state.now):
        return True
    if world.variant == "without fetch":
        return False
    # It comes from either server: one that has a set older than that which the client took last is of no use to it.
    fetched = [takes(world, state, world.sets[at]) for at in state.servers]
    return any(after_fetch is not None and accepts(world, after_fetch, name, state.now) for after_fetch in fetched)


def after(world: World, state: State):
    """Every state that one step leads to."""
    if state.broken:
        return
    if state.now < LAST_TICK:
        # A server has each set before the one before it is over: what the operator has to see to.
        servers = tuple(max(at, max((number for number, kept in enumerate(world.sets) if kept.issued < state.now), default=0))
                        for at in state.servers)
        yield state._replace(now=state.now + 1, servers=servers)
    for server, at in enumerate(state.servers):
        if at + 1 < len(world.sets) and world.sets[at + 1].issued <= state.now:
            yield state._replace(servers=tuple(at + 1 if other == server else kept for other, kept in enumerate(state.servers)))
    if not state.is_stolen:
        yield state._replace(is_stolen=True)
    if not state.is_restarted:
        forgets = world.variant == "floor in memory"
        yield state._replace(taken=None, live=frozenset(), is_restarted=True, floor=0 if forgets else state.floor)
    for offered in (*world.sets[:max(state.servers) + 1], OWN):
        taken = takes(world, state, offered)
        if taken is not None:
            yield taken
    for server in (0, 1):
        name = signer(world, state, server)
        if name is not None and accepts(world, state, name, state.now):
            yield judged(world, state, name, state.now)
    for name, has in (("old", state.is_stolen), ("forged", True)):
        for said in range(LAST_TICK + 1) if has else ():
            if accepts(world, state, name, said):
                yield judged(world, state, name, said)


def broken(world: World, state: State) -> str:
    """The query that fails in a state, if one does."""
    if state.broken:
        return state.broken
    # A client at its first contact with one of the servers, or with a set from there, while nobody attacks.
    is_honest = world.offset == 0 and not state.is_stolen and (state.taken is None or state.taken.signer == "root")
    return "served" if is_honest and not all(is_served(world, state, server) for server in (0, 1)) else ""


def result(variant: str) -> Result:
    """Whether a query fails, and whether the client accepts the new key."""
    plans = (NO_OVERLAP,) if variant == "without overlap" else (EARLY, TO_THE_END)
    worlds = [World(variant, plan, offset) for plan in plans for offset in (-SKEW, 0, SKEW)]
    # A state carries its world, so that one search has all of them.
    systems = (((world, State()), lambda at: ((at[0], state) for state in after(*at))) for world in worlds)
    return search(systems, lambda at: broken(*at), lambda at: at[1].has_rotated)


def check(names=None) -> list[Row]:
    """Runs the variants."""
    return rows("rotation", VARIANTS, result, names)


if __name__ == "__main__":
    if not all(row.is_as_expected for row in check(sys.argv[1:])):
        raise SystemExit("other than the model says")

#!/usr/bin/env python3
"""Whether the end of a chain of renewals ends every session of it: every state of a small system, one by one.

A chain is a first session and all that were renewed from it (spec/session-3.md#renew-and-end). Its owner and a thief who has a
copy of each session renew and use what they like, at two servers that share a store and look a session up again after a
while. The owner ends the chain by one of its sessions. The attacker holds messages back, so that a renewal that was begun before the
end is put into the store behind it, repeats old ones, and restarts servers. The query: **a while after the end no server accepts a
session of the chain, and none is accepted after the chain's latest time.**

usage: lineage.py [VARIANT]
"""

import sys
from typing import NamedTuple

from search import Result, Row, rows, search

LIFE = 2            # Of a session, in ticks.
CHAIN = 4           # Of all sessions of a chain, from its first.
LOOK = 1            # After this time a server asks the store again for a session that it has in memory.
LAST_TICK = 6
SESSIONS_MAX = 3

QUERY = "ended with its chain"

# What is taken out in each variant, and the query that then fails.
VARIANTS = {
    "as designed": "",
    "one session": QUERY,          # the end is of one session, and of no other of its chain
    "without ancestors": QUERY,    # the end is of a session and of what was renewed from it
    "without descendants": QUERY,  # the end is of a session and of those that it was renewed from
    "rows alone": QUERY,           # the sessions in the store are removed, and the end of their chain is not remembered
    "early oblivion": QUERY,       # the end is remembered for as long as the session lives by which the chain was ended
    "without bound": QUERY,        # a renewed session lives as long as any, beyond the end of its chain
    "without look": QUERY,         # a server that has a session in memory does not ask the store again
    "store away": QUERY,           # the store may be away, and does not end a session then: a limit of the design
}


class Session(NamedTuple):
    parent: int | None
    expires: int


class State(NamedTuple):
    now: int = 0
    sessions: tuple = (Session(None, LIFE),)
    rows: frozenset = frozenset({0})             # Sessions that the store has.
    begun: frozenset = frozenset()               # Renewals that a server has accepted and not yet put: (parent, server).
    memory: tuple = (frozenset(), frozenset())   # Of each server: (session, time when the store was asked).
    end: tuple | None = None                     # (session that was ended, when).
    is_away: bool = False                        # The store.
    is_restarted: bool = False


def line(sessions: tuple, index: int):
    """A session and those that it was renewed from."""
    while index is not None:
        yield index
        index = sessions[index].parent


def is_ended(variant: str, state: State, index: int) -> bool:
    """Whether the store knows that this session's chain was ended."""
    if state.end is None or variant == "rows alone":
        return False
    ended, _ = state.end
    until = state.sessions[ended].expires if variant == "early oblivion" else CHAIN
    if state.now >= until:
        return False
    match variant:
        case "one session":
            return index == ended
        case "without ancestors":
            return ended in line(state.sessions, index)
        case "without descendants":
            return index in line(state.sessions, ended)
    return True


def lookup(variant: str, state: State, index: int, server: int) -> State | None:
    """The state after a server has found that a session is good, or nothing."""
    memory = state.memory[server]
    if state.now >= state.sessions[index].expires:
        return None
    asked = [when for session, when in memory if session == index]
    if asked and (variant == "without look" or state.is_away or state.now - asked[0] < LOOK):
        return state
    if state.is_away or index not in state.rows or is_ended(variant, state, index):
        return None
    memory = frozenset(entry for entry in memory if entry[0] != index) | {(index, state.now)}
    return state._replace(memory=(memory, state.memory[1]) if server == 0 else (state.memory[0], memory))


def after(variant: str, state: State):
    """Every state that one step leads to."""
    if state.now < LAST_TICK:
        later = state._replace(now=state.now + 1)
        # What is too old to be used without the store is as good as forgotten.
        is_kept = variant in ("without look", "store away")
        memory = tuple(frozenset(entry for entry in known if is_kept or later.now - entry[1] < LOOK) for known in state.memory)
        yield later._replace(memory=memory)
    for index, session in enumerate(state.sessions):
        for server in (0, 1):
            found = lookup(variant, state, index, server)
            if found is None:
                continue
            # A request of the session is accepted: a new one, or one that was held back until now.
            yield found
            if len(state.sessions) + len(state.begun) < SESSIONS_MAX:
                yield found._replace(begun=found.begun | {(index, server)})
            if state.end is None and not state.is_away:
                gone = frozenset(range(len(state.sessions))) if variant == "rows alone" else frozenset()
                yield found._replace(end=(index, state.now), rows=found.rows - gone)
    for parent, server in state.begun if not state.is_away else ():
        rest = state._replace(begun=state.begun - {(parent, server)})
        # Its time is counted from its row: a server that was slow gives it the most that it can have.
        expires = state.now + LIFE if variant == "without bound" else min(state.now + LIFE, CHAIN)
        if expires > state.now:
            yield rest._replace(sessions=(*state.sessions, Session(parent, expires)), rows=state.rows | {len(state.sessions)})
    if not state.is_restarted:
        for server in (0, 1):
            memory = (frozenset(), state.memory[1]) if server == 0 else (state.memory[0], frozenset())
            begun = frozenset(entry for entry in state.begun if entry[1] != server)
            yield state._replace(memory=memory, begun=begun, is_restarted=True)
    if variant == "store away":
        yield state._replace(is_away=not state.is_away)


def accepts(variant: str, state: State, index: int) -> bool:
    return any(lookup(variant, state, index, server) is not None for server in (0, 1))


def broken(variant: str, state: State) -> str:
    """The query, if a session would be accepted that must not be."""
    is_over = state.now >= CHAIN or (state.end is not None and state.now - state.end[1] >= LOOK)
    return QUERY if is_over and any(accepts(variant, state, index) for index in range(len(state.sessions))) else ""


def result(variant: str) -> Result:
    """Whether a session is accepted too late, and whether one is accepted that was renewed from a renewed one."""
    def is_alive(state):
        return len(state.sessions) == SESSIONS_MAX and state.sessions[2].parent == 1 and accepts(variant, state, 2)

    return search([(State(), lambda state: after(variant, state))], lambda state: broken(variant, state), is_alive)


def check(names=None) -> list[Row]:
    """Runs the variants."""
    return rows("lineage", VARIANTS, result, names)


if __name__ == "__main__":
    if not all(row.is_as_expected for row in check(sys.argv[1:])):
        raise SystemExit("other than the model says")

"""Visits every state of a small system and tells whether a state that must not be can be reached.

A model has variants: one rule is taken out of the design, or put back as it was, and the search must then find the state. A rule
whose absence nothing finds would prove nothing.
"""

from collections import deque
from typing import Callable, Iterable, NamedTuple


class Result(NamedTuple):
    broken: str         # The query that fails in a state that was reached, or nothing.
    is_alive: bool      # A state was reached that must be possible: a system that never does anything keeps every rule.
    states: int         # Up to the first broken state.


class Row(NamedTuple):
    """A variant's result, for the record."""
    model: str
    variant: str
    expected: str
    result: Result

    @property
    def is_as_expected(self) -> bool:
        return self.result.broken == self.expected and self.result.is_alive


def search(systems: Iterable[tuple[object, Callable]], broken: Callable, is_alive: Callable) -> Result:
    """Searches several systems, each an initial state and a function that gives the states after one, breadth first. `broken`
    gives the name of a query that fails in a state, or an empty text."""
    alive, count = False, 0
    for begin, after in systems:
        seen, todo = {begin}, deque([begin])
        while todo:
            state = todo.popleft()
            alive = alive or is_alive(state)
            if query := broken(state):
                return Result(query, True, count + len(seen))
            for following in after(state):
                if following not in seen:
                    seen.add(following)
                    todo.append(following)
        count += len(seen)
    return Result("", alive, count)


def rows(model: str, variants: dict[str, str], run: Callable[[str], Result], names=None) -> list[Row]:
    """Runs the variants and prints a line for each. A variant is mapped to the query that must fail in it, or to an empty text."""
    out = []
    for name in names or variants:
        if name not in variants:
            raise SystemExit(f"{model} has no variant {name}; it has: {', '.join(variants)}")
        row = Row(model, name, variants[name], run(name))
        note = "" if row.is_as_expected else ", which is not as expected"
        found = f"fails: {row.result.broken}" if row.result.broken else "holds"
        print(f"{model}, {name}: {found}, {row.result.states} states{note}", flush=True)
        out.append(row)
    return out

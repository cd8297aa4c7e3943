"""How every machine of this room runs: a table from (state, kind of record) to a transition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

S = TypeVar("S")

Effects = tuple[Any, ...]


class UnexpectedEvent(Exception):
    """A record that makes no sense in the present state: the table has no such entry."""

    def __init__(self, machine: str, state: str, record: object) -> None:
        super().__init__(f"{machine}: {type(record).__name__} cannot happen when {state}")


def step(
    table: Mapping[tuple[Any, type], Callable[[S, Any], tuple[S, Effects]]],
    phase: Any,
    machine: str,
    state: S,
    record: object,
) -> tuple[S, Effects]:
    """The next state and what to do; raises `UnexpectedEvent` when the table has no entry."""
    transition = table.get((phase, type(record)))
    if transition is None:
        raise UnexpectedEvent(machine, phase.value, record)
    return transition(state, record)

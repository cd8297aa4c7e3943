"""What every placement strategy is given, and what it answers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.plan import Rejection, Rejections
from counterpoise.load.rates import Indices
from counterpoise.load.view import ClusterView

M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class Placement(Generic[M]):
    """Which broker gets the bundle, who else could have, and why.

    ``broker`` is None when there is none to choose. ``admissible`` holds every broker that the
    strategy finds equally good: Pulsar picks one of them at random. ``rule`` is a short label,
    ``reason`` a sentence.
    """

    broker: str | None
    admissible: tuple[str, ...]
    rule: str
    reason: str
    memory: M
    rejections: Sequence[Rejection] = ()


class PlacementStrategy(Protocol[M]):
    """One way to choose a broker for a bundle.

    Write your own by offering these members; nothing needs to be inherited. A strategy holds no
    state: what it remembers is in the memory it returns.
    """

    @property
    def name(self) -> str:
        """The name the command line knows it by."""
        ...

    def initial_memory(self) -> M:
        """What a strategy knows that has never been asked."""
        ...

    def place(
        self,
        bundle: str,
        candidates: Sequence[str],
        view: ClusterView,
        memory: M,
        options: PlacementOptions,
        rng: Random | None = None,
    ) -> Placement[M]:
        """Choose a broker among ``candidates``, in the order given.

        Without ``rng`` equally good brokers are settled by value, then name.
        """
        ...

    def forget(self, memory: M, active: Collection[str]) -> M:
        """The memory without the brokers that are gone."""
        ...

    def memory_to_json(self, memory: M) -> Any:
        """The memory as JSON."""
        ...

    def memory_from_json(self, value: Mapping[str, Any]) -> M:
        """The memory from JSON."""
        ...


def nobody(memory: M, rejections: Sequence[Rejection] = ()) -> Placement[M]:
    """The answer when no candidate is left."""
    reason = (
        "none of the candidates has sent a load report"
        if len(rejections)
        else "there are no candidates to choose from"
    )
    return Placement(None, (), "no_candidates", reason, memory, rejections)


def known_candidates(
    candidates: Sequence[str], view: ClusterView
) -> tuple[list[str], Indices, Rejections]:
    """The candidates with load data, each once, their rows in the view, and why others are out.

    Pulsar 4.0.7 ends in a NullPointerException for a candidate without load data; here the
    candidate is left out and named.
    """
    rows_by_name = dict(zip(view.brokers, range(len(view.brokers)), strict=True))
    asked = dict.fromkeys(candidates)
    names = [name for name in asked if name in rows_by_name]
    rows = np.array([rows_by_name[name] for name in names], dtype=np.intp)

    def explain() -> Iterator[Rejection]:
        for name in asked:
            if name not in rows_by_name:
                sentence = "{subject} has no load report, so nothing is known about it"
                yield Rejection(name, "no_load_data", None, None, "", sentence)

    return names, rows, Rejections(explain)


def pick(admissible: Sequence[str], rng: Random | None) -> str:
    """One of the equally good brokers: any with ``rng``, else the first by name."""
    return rng.choice(admissible) if rng else min(admissible)

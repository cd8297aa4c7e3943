"""What every placement strategy is given, and what it answers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from random import Random
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.plan import Rejection
from counterpoise.load.rates import Floats, Indices
from counterpoise.load.view import ClusterView

M = TypeVar("M")

Rows = Indices | slice
"""Rows of a view: some, or all of them as they stand."""
EVERY_ROW: Final = slice(None)


class Placement(NamedTuple, Generic[M]):
    """Which broker gets the bundle, who else could have, and why.

    ``broker`` is None when there is none to choose. ``admissible`` holds every broker that the
    strategy finds equally good: Pulsar picks one of them at random. ``rule`` is a short label,
    ``reason`` a sentence. A named tuple, for the same reason as ``Decision``.
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
        """Choose a broker among ``candidates``, each named once, in the order given.

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


class Memoryless:
    """What a strategy that remembers nothing answers about its memory: inherit it."""

    def initial_memory(self) -> None:
        """Nothing to remember."""

    def forget(self, memory: None, active: Collection[str]) -> None:
        """Nothing to forget."""

    def memory_to_json(self, memory: None) -> Any:
        """Nothing to write."""

    def memory_from_json(self, value: Mapping[str, Any]) -> None:
        """Nothing to read."""


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
) -> tuple[tuple[str, ...], Rows, tuple[Rejection, ...]]:
    """The candidates with load data, their rows in the view, and why the others are out.

    Mostly everybody is a candidate, in the view's own order: then nobody is looked up.

    Pulsar 4.0.7 ends in a NullPointerException for a candidate without load data; here the
    candidate is left out and named.
    """
    names = tuple(candidates)
    if names == view.brokers:
        return names, EVERY_ROW, ()
    try:
        return names, view.broker_rows(names), ()
    except KeyError:
        known = tuple(name for name in names if name in view.row_of)
        unknown = tuple(_unknown(name) for name in names if name not in view.row_of)
        return known, view.broker_rows(known), unknown


def modular_usage(view: ClusterView, options: PlacementOptions) -> Floats:
    """Each broker's weighted usage as a share, worked out once per view and weights."""
    weights = options.weights
    return view.once("usage", (weights,), lambda: view.weighted_usage(weights.modular))


def _unknown(name: str) -> Rejection:
    sentence = "{subject} has no load report, so nothing is known about it"
    return Rejection(name, "no_load_data", None, None, "", sentence)


def pick(admissible: Sequence[str], rng: Random | None) -> str:
    """One of the equally good brokers: any with ``rng``, else the first by name."""
    return rng.choice(admissible) if rng else min(admissible)

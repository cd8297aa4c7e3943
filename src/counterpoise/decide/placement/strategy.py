"""The interface of placement strategies: what each is given, and what it returns."""

from collections.abc import Callable, Sequence
from operator import is_
from random import Random
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np

from counterpoise.decide.memory import Memory
from counterpoise.decide.plan import Rejection
from counterpoise.decide.registry import Registered
from counterpoise.load.rates import Indices
from counterpoise.load.view import BrokerColumns, ClusterView

M = TypeVar("M", bound=Memory)
C = TypeVar("C")
T = TypeVar("T")


class Placement(NamedTuple, Generic[M]):
    """The result of a placement strategy: the chosen broker, equally good ones, and why.

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


@runtime_checkable
class PlacementStrategy(Registered[M, C], Protocol[M, C]):
    """The interface of placement strategies, which choose a broker for a bundle.

    ``M`` is the class of its memory, ``C`` of its options. Write your own by offering these
    members; nothing needs to be inherited. A strategy holds no state: what it remembers is in the
    memory it returns.
    """

    def place(
        self,
        bundle: str,
        candidates: Sequence[str],
        view: ClusterView,
        memory: M,
        options: C,
        rng: Random | None = None,
    ) -> Placement[M]:
        """Choose a broker among ``candidates``, each named once, in the order given.

        Without ``rng`` equally good brokers are settled by value, then name.
        """


def no_candidate(memory: M, rejections: Sequence[Rejection] = ()) -> Placement[M]:
    """The result when there is no candidate: no broker, and why each was left out."""
    reason = (
        "none of the candidates has sent a load report"
        if len(rejections)
        else "there are no candidates to choose from"
    )
    return Placement(None, (), "no_candidates", reason, memory, rejections)


class Candidates(tuple[str, ...]):  # noqa: SLOT001 (a tuple's own slots must be empty)
    """Candidate brokers by name, with their rows in one view.

    A round that places thousands of bundles among the same brokers looks up the rows once;
    strategies accept a plain list of names as well.
    """

    _rows: Indices
    _brokers: tuple[str, ...]
    _found: tuple[BrokerColumns, Any, Any, Any] | None = None

    @staticmethod
    def among(names: Sequence[str], view: ClusterView) -> Sequence[str]:
        """Return these brokers as `Candidates`, their loads looked up once; ``names`` itself if the
        view lacks load data for one of them.
        """
        known, rows, unknown = known_candidates(names, view)
        if unknown:
            return names
        found = Candidates(known)
        found._rows, found._brokers = rows, view.brokers
        return found

    def rows_in(self, view: ClusterView) -> Indices | None:
        """The rows of the names in this view; None if they were looked up in another view."""
        return self._rows if view.brokers is self._brokers else None

    def once(
        self, work: Callable[[Indices, ClusterView, C], T], view: ClusterView, options: C
    ) -> T:
        """The result of ``work`` for these rows, cached until the brokers' figures in a view
        change.

        ``work`` may read nothing else of the view.
        """
        if self._found is None or not all(map(is_, self._found, (view.broker, options, work))):
            self._found = (view.broker, options, work, work(self._rows, view, options))
        found: T = self._found[-1]
        return found


def known_candidates(
    candidates: Sequence[str], view: ClusterView
) -> tuple[tuple[str, ...], Indices, tuple[Rejection, ...]]:
    """The candidates with load data, their rows in the view, and the reasons for leaving out the
    others.

    Pulsar 4.0.7 fails with a NullPointerException for a candidate without load data; here the
    candidate is left out and named.
    """
    if isinstance(candidates, Candidates):
        there = candidates.rows_in(view)
        if there is not None:
            return candidates, there, ()
    unknown = tuple(_unknown(name) for name in candidates if name not in view.row_of)
    known = tuple(name for name in candidates if name in view.row_of) if unknown else candidates
    rows = np.fromiter(map(view.row_of.__getitem__, known), np.intp, len(known))
    return tuple(known), rows, unknown


def _unknown(name: str) -> Rejection:
    sentence = "{subject} has no load report, so nothing is known about it"
    return Rejection(name, "no_load_data", None, None, "", sentence)


def pick(admissible: Sequence[str], rng: Random | None) -> str:
    """Choose one of equally good brokers: at random with ``rng``, else the first by name."""
    return rng.choice(admissible) if rng else min(admissible)

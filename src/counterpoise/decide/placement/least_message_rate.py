"""``LeastLongTermMessageRate``: the broker with the fewest messages, in the long run."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, NamedTuple

import numpy as np

from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.strategy import (
    Placement,
    known_candidates,
    modular_usage,
    nobody,
    pick,
)
from counterpoise.decide.plan import Rejection, Rejections
from counterpoise.load.rates import Floats
from counterpoise.load.view import ClusterView


class LeastLongTermMessageRate:
    """The default of Pulsar 4.0's modular manager; remembers nothing.

    A broker's score is its long-term messages/s, in and out, with the bundles it was just given;
    infinite above ``loadBalancerBrokerOverloadedThresholdPercentage``. The lowest score wins; when
    all are overloaded, all are equally good.

    Parity: ``LeastLongTermMessageRate`` of 4.0.7. Quirk kept: a score that is not a number neither
    wins nor ties.
    """

    name = "LeastLongTermMessageRate"

    def initial_memory(self) -> None:
        """Nothing to remember."""

    def place(
        self,
        bundle: str,
        candidates: Sequence[str],
        view: ClusterView,
        memory: None,
        options: PlacementOptions,
        rng: Random | None = None,
    ) -> Placement[None]:
        """Choose the candidate with the lowest score."""
        asked = tuple(candidates)
        found = view.once(self.name, (asked, options), lambda: _rank(asked, view, options))
        if not found.names:
            return nobody(None, found.unknown)
        return Placement(
            pick(found.admissible, rng),
            found.admissible,
            found.rule,
            found.reason,
            None,
            Rejections(partial(_explain, found, options.overloaded_threshold_percentage)),
        )

    def forget(self, memory: None, active: Collection[str]) -> None:
        """Nothing to forget."""

    def memory_to_json(self, memory: None) -> Any:
        """Nothing to write."""

    def memory_from_json(self, value: Mapping[str, Any]) -> None:
        """Nothing to read."""


class _Ranking(NamedTuple):
    """All of an answer but the pick: the same for every bundle."""

    names: tuple[str, ...]
    usage: Floats
    unknown: tuple[Rejection, ...]
    admissible: tuple[str, ...]
    rule: str
    reason: str


def _rank(candidates: tuple[str, ...], view: ClusterView, options: PlacementOptions) -> _Ranking:
    names, rows, unknown = known_candidates(candidates, view)
    usage = modular_usage(view, options)[rows]
    with np.errstate(all="ignore"):
        rate = view.broker.preallocated_rate[rows] + view.broker.long_average.rate(rows)
    score = np.where(usage > options.overloaded_threshold_percentage / 100.0, np.inf, rate)
    least = float(np.fmin.reduce(score, initial=np.inf))
    admissible = tuple(names[i] for i in np.flatnonzero(score == least).tolist()) or names
    if least == np.inf:
        rule = "all_overloaded"
        reason = f"all {len(names)} candidates are overloaded; any will do"
    else:
        rule, reason = "least_rate", f"{least:g} msg/s in the long run is the least"
    return _Ranking(names, usage, unknown, admissible, rule, reason)


def _explain(found: _Ranking, limit: int) -> Iterator[Rejection]:
    yield from found.unknown
    for i in np.flatnonzero(found.usage > limit / 100.0).tolist():
        yield Rejection(
            found.names[i],
            "overloaded",
            float(found.usage[i]) * 100,
            limit,
            "loadBalancerBrokerOverloadedThresholdPercentage",
            "{subject} uses {value:.4g} %, above {limit} % ({setting})",
        )

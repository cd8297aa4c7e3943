"""``LeastLongTermMessageRate``: the broker with the fewest messages, in the long run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from random import Random
from typing import NamedTuple

import numpy as np

from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.strategy import (
    Memoryless,
    Placement,
    Rows,
    known_candidates,
    modular_usage,
    nobody,
    pick,
)
from counterpoise.decide.plan import Rejection, Rejections
from counterpoise.load.lookup_many import lookup_many
from counterpoise.load.rates import Floats, Indices
from counterpoise.load.view import ClusterView


class LeastLongTermMessageRate(Memoryless):
    """The default of Pulsar 4.0's modular manager; remembers nothing.

    A broker's score is its long-term messages/s, in and out, with the bundles it was just given;
    infinite above ``loadBalancerBrokerOverloadedThresholdPercentage``. The lowest score wins; when
    all are overloaded, all are equally good.

    Parity: ``LeastLongTermMessageRate`` of 4.0.7. Quirk kept: a score that is not a number neither
    wins nor ties.
    """

    name = "LeastLongTermMessageRate"

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
        admissible, rule, reason, rejections = found
        if not admissible:
            return nobody(None, rejections)
        return Placement(pick(admissible, rng), admissible, rule, reason, None, rejections)


class _Ranking(NamedTuple):
    """All of an answer but the pick: the same for every bundle."""

    admissible: tuple[str, ...]
    rule: str
    reason: str
    rejections: Sequence[Rejection]


def _rank(candidates: tuple[str, ...], view: ClusterView, options: PlacementOptions) -> _Ranking:
    names, rows, unknown = known_candidates(candidates, view)
    if not names:
        return _Ranking((), "", "", unknown)
    least, best = _best(names, rows, view, options)
    if least == np.inf:
        rule = "all_overloaded"
        reason = f"all {len(names)} candidates are overloaded; any will do"
    else:
        rule, reason = "least_rate", f"{least:g} msg/s in the long run is the least"
    rejections = Rejections(partial(_explain, names, rows, unknown, view, options))
    admissible = lookup_many(names, best.tolist()) if 0 < len(best) < len(names) else names
    return _Ranking(admissible, rule, reason, rejections)


def _best(
    names: tuple[str, ...], rows: Rows, view: ClusterView, options: PlacementOptions
) -> tuple[float, Indices]:
    """The lowest score, and where among the candidates those stand who have it.

    Mostly one broker has the lowest rate and is not overloaded. Whether others are then matters
    only to those who read the rejections.
    """
    broker, average = view.broker, view.broker.long_average
    limit = options.overloaded_threshold_percentage / 100.0
    with np.errstate(all="ignore"):
        rate = broker.preallocated_rate[rows] + (average.rate_in[rows] + average.rate_out[rows])
    least, best = _lowest(rate)
    if len(best) == 1 and least < np.inf:
        row = view.row_of[names[best.item()]]
        if not view.exceeds(row, limit, options.weights.modular):
            return least, best
    overloaded = modular_usage(view, options)[rows] > limit
    return _lowest(np.where(overloaded, np.inf, rate))


def _lowest(score: Floats) -> tuple[float, Indices]:
    least = score.item(score.argmin())
    if least != least:  # the first that is not a number: look for the lowest that is
        least = float(np.fmin.reduce(score, initial=np.inf))
    return least, (score == least).nonzero()[0]


def _explain(
    names: tuple[str, ...],
    rows: Rows,
    unknown: tuple[Rejection, ...],
    view: ClusterView,
    options: PlacementOptions,
) -> Iterator[Rejection]:
    yield from unknown
    usage, limit = modular_usage(view, options)[rows], options.overloaded_threshold_percentage
    for i in np.flatnonzero(usage > limit / 100.0).tolist():
        yield Rejection(
            names[i],
            "overloaded",
            float(usage[i]) * 100,
            limit,
            "loadBalancerBrokerOverloadedThresholdPercentage",
            "{subject} uses {value:.4g} %, above {limit} % ({setting})",
        )

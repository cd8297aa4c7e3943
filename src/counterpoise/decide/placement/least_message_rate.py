"""``LeastLongTermMessageRate``: the broker with the fewest messages, in the long run."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from random import Random
from typing import Any

import numpy as np

from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.strategy import Placement, known_candidates, nobody, pick
from counterpoise.decide.plan import Rejection, Rejections
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
        names, rows, unknown = known_candidates(candidates, view)
        if not names:
            return nobody(None, unknown)
        limit = options.overloaded_threshold_percentage / 100.0
        usage = view.weighted_usage(options.weights.modular)[rows]
        with np.errstate(all="ignore"):
            rate = view.broker.preallocated_rate[rows] + view.broker.long_average.rate(rows)
        score = np.where(usage > limit, np.inf, rate)
        least = float(np.fmin.reduce(score, initial=np.inf))
        admissible = tuple(names[i] for i in np.flatnonzero(score == least).tolist()) or tuple(
            names
        )

        def explain() -> Iterator[Rejection]:
            yield from unknown
            for i in np.flatnonzero(usage > limit).tolist():
                yield Rejection(
                    names[i],
                    "overloaded",
                    float(usage[i]) * 100,
                    options.overloaded_threshold_percentage,
                    "loadBalancerBrokerOverloadedThresholdPercentage",
                    "{subject} uses {value:.4g} %, above {limit} % ({setting})",
                )

        if least == np.inf:
            rule = "all_overloaded"
            reason = f"all {len(names)} candidates are overloaded; any will do"
        else:
            rule, reason = "least_rate", f"{least:g} msg/s in the long run is the least"
        return Placement(pick(admissible, rng), admissible, rule, reason, None, Rejections(explain))

    def forget(self, memory: None, active: Collection[str]) -> None:
        """Nothing to forget."""

    def memory_to_json(self, memory: None) -> Any:
        """Nothing to write."""

    def memory_from_json(self, value: Mapping[str, Any]) -> None:
        """Nothing to read."""

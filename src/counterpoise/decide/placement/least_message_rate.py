"""``LeastLongTermMessageRate``: chooses the broker with the fewest messages/s over a long time."""

from collections.abc import Sequence
from random import Random

import numpy as np

from counterpoise.decide.memory import NO_MEMORY, Memoryless, NoMemory
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.strategy import Placement, known_candidates, no_candidate, pick
from counterpoise.decide.plan import Rule
from counterpoise.decide.sentence import sentence
from counterpoise.load.view import ClusterView

_LIMIT = "loadBalancerBrokerOverloadedThresholdPercentage"
_OVERLOADED = Rule(
    "overloaded", "{subject} uses {value:.4g} %, above {limit} % ({setting})", _LIMIT
)


class LeastLongTermMessageRate(Memoryless):
    """The broker with the lowest long-term messages/s: the default of Pulsar 4.0's modular manager.

    A broker's score is its long-term messages/s, in and out, with the bundles it was just given;
    infinite above ``loadBalancerBrokerOverloadedThresholdPercentage``. The lowest score wins; when
    all are overloaded, all are equally good.

    Parity: ``LeastLongTermMessageRate`` of 4.0.7. Quirk kept: a score that is not a number neither
    wins nor ties.
    """

    name = "LeastLongTermMessageRate"
    options = PlacementOptions

    def place(
        self,
        bundle: str,
        candidates: Sequence[str],
        view: ClusterView,
        memory: NoMemory,
        options: PlacementOptions,
        rng: Random | None = None,
    ) -> Placement[NoMemory]:
        """Choose the candidate with the lowest score."""
        names, rows, unknown = known_candidates(candidates, view)
        if not names:
            return no_candidate(NO_MEMORY, unknown)
        limit = options.overloaded_threshold_percentage
        average, broker = view.broker.long_average, view.broker
        with np.errstate(all="ignore"):
            rate = broker.preallocated_rate[rows] + (average.rate_in[rows] + average.rate_out[rows])
            usage = view.weighted_usage(options.weights.modular)[rows]
        overloaded = usage > limit / 100.0
        score = np.where(overloaded, np.inf, rate)
        least = float(np.fmin.reduce(score, initial=np.inf))
        best = tuple(names[i] for i in np.flatnonzero(score == least).tolist())
        if least < np.inf:
            rule = "least_rate"
            below = f"of those not above {limit} % ({_LIMIT})"
            template = "{least:g} msg/s in the long run is the least " + below
            reason = sentence(template, {"least": least})
        elif overloaded.all():
            rule = "all_overloaded"
            reason = f"all {len(names)} candidates are above {limit} % ({_LIMIT}); any will do"
        else:
            rule = "no_rate"
            reason = "no candidate below the limit has a message rate that is a number; any will do"
        rejections = [
            _OVERLOADED.refuses(names[i], float(usage[i]) * 100, limit)
            for i in np.flatnonzero(overloaded).tolist()
        ]
        admissible = best or names
        chosen = pick(admissible, rng)
        return Placement(chosen, admissible, rule, reason, NO_MEMORY, (*unknown, *rejections))

"""``LeastResourceUsageWithWeight``: chooses a broker whose usage is clearly below the average."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

import numpy as np

from counterpoise.decide.memory import NO_MEMORY, Memory, NoMemory, Remembering
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.strategy import Placement, known_candidates, no_candidate
from counterpoise.decide.plan import Rejection
from counterpoise.decide.sentence import sentence
from counterpoise.load.fields import JsonMapping
from counterpoise.load.rates import Floats, sum_in_order
from counterpoise.load.view import ClusterView

M = TypeVar("M", bound=Memory)

_MARGIN = "loadBalancerAverageResourceUsageDifferenceThresholdPercentage"


@dataclass(frozen=True, slots=True)
class UsageMemory(JsonMapping):
    """The smoothed usage of each broker, as a fraction (0.85, not 85)."""

    usage: Mapping[str, float] = field(default_factory=dict)


class LeastResourceUsageWithWeight(Remembering[UsageMemory]):
    """A random broker whose smoothed usage is clearly below the average, as under the modular
    manager.

    Clearly is ``loadBalancerAverageResourceUsageDifferenceThresholdPercentage``. In smoothing,
    ``loadBalancerHistoryResourcePercentage`` of what is remembered stays, unless the broker has no
    bundles or no messages. Every call smooths every candidate once more. When no broker is that far
    below the average, all candidates are equally good, overloaded ones too.

    Parity: ``LeastResourceUsageWithWeight`` of 4.0.7. The average is summed in the order of the
    candidates (Java: of its hash set), which can decide when usage lies exactly on the limit.
    """

    name = "LeastResourceUsageWithWeight"
    options = PlacementOptions
    remembers = UsageMemory

    def place(
        self,
        bundle: str,
        candidates: Sequence[str],
        view: ClusterView,
        memory: UsageMemory,
        options: PlacementOptions,
        rng: Random | None = None,
    ) -> Placement[UsageMemory]:
        """Choose a candidate clearly below the average, and smooth every candidate's usage."""
        names, rows, unknown = known_candidates(candidates, view)
        if not names:
            return no_candidate(memory, unknown)
        past, history = memory.usage, options.history_percentage
        with np.errstate(all="ignore"):
            latest = view.weighted_usage(options.weights.modular)[rows]
            traffic = view.broker.traffic
            sending = np.logical_or(traffic.rate_in[rows], traffic.rate_out[rows])
            busy = np.logical_and(sending, view.broker.bundle_count[rows])
            known = np.array([name in past for name in names], dtype=np.bool_)
            before = np.array([past.get(name, 0.0) for name in names])
            smoothed = before * history + (1 - history) * latest
            usage = np.where(busy & known, smoothed, latest)
            after = UsageMemory({**past, **dict(zip(names, usage.tolist(), strict=True))})
            return _below_average(names, names, usage, unknown, after, options, rng)

    def forget(self, memory: UsageMemory, active: Collection[str]) -> UsageMemory:
        """Keep the active brokers' usage (``onActiveBrokersChange``)."""
        kept = set(active)
        return UsageMemory({name: share for name, share in memory.usage.items() if name in kept})


def place_by_store_usage(
    candidates: Sequence[str],
    usage_ema: Mapping[str, float],
    options: PlacementOptions,
    rng: Random | None = None,
) -> Placement[NoMemory]:
    """A random broker clearly below the average of the usage that brokers publish, as under the
    extensible manager.

    ``candidates`` are named once each; ``usage_ema`` is each broker's ``weightedMaxEMA``. Brokers
    that have none count neither in the average nor among the preferred, but are admissible when no
    broker is preferred.

    Parity: ``extensions.strategy.LeastResourceUsageWithWeight`` of 4.0.7.
    """
    names = tuple(candidates)
    if not names:
        return no_candidate(NO_MEMORY)
    known = tuple(name for name in names if name in usage_ema)
    usage = np.array([usage_ema[name] for name in known], dtype=np.float64)
    with np.errstate(all="ignore"):
        return _below_average(known, names, usage, (), NO_MEMORY, options, rng)


def _below_average(
    known: tuple[str, ...],
    everybody: tuple[str, ...],
    usage: Floats,
    unknown: tuple[Rejection, ...],
    memory: M,
    options: PlacementOptions,
    rng: Random | None,
) -> Placement[M]:
    """Choose by the usage of ``known``; ``everybody`` is admissible when none is preferred."""
    margin = options.average_difference_percentage
    average = sum_in_order(usage) / len(known) if known else 0.0
    below = usage + margin / 100.0 <= average
    shares = dict(zip(known, usage.tolist(), strict=True))
    preferred = tuple(
        name for name, is_below in zip(known, below.tolist(), strict=True) if is_below
    )
    average_text = sentence("the average of {percent:.4g} %", {"percent": average * 100})
    admissible = preferred or everybody
    # By value, then name; those of unknown usage come last.
    chosen = (
        rng.choice(admissible)
        if rng
        else min(admissible, key=lambda name: (shares.get(name, np.inf), name))
    )
    if not preferred:
        reason = f"no candidate is {margin} points ({_MARGIN}) below {average_text}; any will do"
        return Placement(chosen, admissible, "none_below_average", reason, memory, unknown)
    limit = average * 100 - margin
    rejections = [
        _not_below(name, shares[name], limit)
        for name, is_below in zip(known, below.tolist(), strict=True)
        if not is_below
    ]
    reason = f"at least {margin} points ({_MARGIN}) below {average_text}"
    return Placement(chosen, admissible, "below_average", reason, memory, (*unknown, *rejections))


def _not_below(name: str, share: float, limit: float) -> Rejection:
    template = "{subject} uses {value:.4g} %, more than {limit:.4g} % ({setting} below average)"
    if np.isnan(share):
        template = "{subject} reports no usage that is a number"
    elif limit == -np.inf:
        template = (
            "{subject} uses {value:.4g} %, and another reports no usage that is a number, which "
            "counts as less"
        )
    setting = _MARGIN if "{setting}" in template else ""
    return Rejection(name, "not_below_average", share * 100, limit, setting, template)

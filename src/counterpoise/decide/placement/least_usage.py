"""``LeastResourceUsageWithWeight``: brokers clearly below the average usage, remembered or not."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import Any

import numpy as np

from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.strategy import Placement, known_candidates, nobody, pick
from counterpoise.decide.plan import Rejection, Rejections
from counterpoise.load.rates import Floats, sum_in_order
from counterpoise.load.view import ClusterView

UsageMemory = Mapping[str, float]
"""Remembered usage of each broker, as a share (0.85, not 85)."""

_NONE: UsageMemory = MappingProxyType({})


class LeastResourceUsageWithWeight:
    """The modular manager's: below the average by ``…AverageResourceUsageDifferenceThreshold…``.

    Usage is smoothed: ``loadBalancerHistoryResourcePercentage`` of what is remembered stays, unless
    the broker has no bundles or no messages. Every call smooths every candidate once more. When
    no broker is that far below the average, all candidates are equally good, overloaded ones too.

    Parity: ``LeastResourceUsageWithWeight`` of 4.0.7. The average is summed in the order of the
    candidates (Java: of its hash set), which can decide when usage lies exactly on the limit.
    """

    name = "LeastResourceUsageWithWeight"

    def initial_memory(self) -> UsageMemory:
        """No broker seen yet."""
        return _NONE

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
            return nobody(memory, unknown)
        usage = view.weighted_usage(options.weights.modular)[rows]
        traffic = view.broker.traffic
        fresh = (view.broker.bundle_count[rows] == 0) | (
            (traffic.rate_in[rows] == 0) & (traffic.rate_out[rows] == 0)
        )
        smoothed = _smooth(names, usage, fresh, memory, options.history_percentage)
        chosen = _below_average(names, smoothed, names, options, rng)
        remembered = {**memory, **dict(zip(names, smoothed.tolist(), strict=True))}
        return Placement(
            chosen.broker,
            chosen.admissible,
            chosen.rule,
            chosen.reason,
            MappingProxyType(remembered),
            Rejections(lambda: (*unknown, *chosen.rejections)),
        )

    def forget(self, memory: UsageMemory, active: Collection[str]) -> UsageMemory:
        """Keep the active brokers' usage (``onActiveBrokersChange``)."""
        kept = set(active)
        return MappingProxyType({name: memory[name] for name in memory if name in kept})

    def memory_to_json(self, memory: UsageMemory) -> Any:
        """Usage by broker."""
        return dict(memory)

    def memory_from_json(self, value: Mapping[str, Any]) -> UsageMemory:
        """Usage by broker."""
        return MappingProxyType({name: float(usage) for name, usage in value.items()})


def place_by_store_usage(
    candidates: Sequence[str],
    usage_ema: Mapping[str, float],
    options: PlacementOptions,
    rng: Random | None = None,
) -> Placement[None]:
    """The extensible manager's: the same rule over the smoothed usage that brokers publish.

    ``usage_ema`` is each broker's ``weightedMaxEMA``. Brokers that have none count neither in the
    average nor among the preferred, but are admissible when nobody is preferred.

    Parity: ``extensions.strategy.LeastResourceUsageWithWeight`` of 4.0.7.
    """
    names = list(dict.fromkeys(candidates))
    if not names:
        return nobody(None)
    known = [name for name in names if name in usage_ema]
    usage = np.array([usage_ema[name] for name in known], dtype=np.float64)
    return _below_average(known, usage, names, options, rng)


def _smooth(
    names: Sequence[str], usage: Floats, fresh: Any, memory: UsageMemory, history: float
) -> Floats:
    old = np.array([memory.get(name, np.nan) for name in names])
    forgets = fresh | np.array([name not in memory for name in names], dtype=np.bool_)
    with np.errstate(all="ignore"):
        smoothed: Floats = np.where(forgets, usage, old * history + (1 - history) * usage)
    return smoothed


def _below_average(
    names: Sequence[str],
    usage: Floats,
    everybody: Sequence[str],
    options: PlacementOptions,
    rng: Random | None,
) -> Placement[None]:
    margin = options.average_difference_percentage
    with np.errstate(all="ignore"):
        average = sum_in_order(usage) / len(names) if names else 0.0
        below = usage + margin / 100.0 <= average
    best = np.flatnonzero(below).tolist()
    percent = average * 100
    setting = "loadBalancerAverageResourceUsageDifferenceThresholdPercentage"
    if not best:
        reason = (
            f"no candidate is {margin} points below the average of {percent:.4g} %; any will do"
        )
        order = dict(zip(names, usage.tolist(), strict=True))
        by_value = min(everybody, key=lambda name: (order.get(name, np.inf), name))
        chosen = rng.choice(everybody) if rng else by_value
        return Placement(chosen, tuple(everybody), "none_below_average", reason, None)
    admissible = tuple(names[i] for i in best)
    least = usage[best].min()
    ties = [names[i] for i in best if usage[i] == least]

    def explain() -> Iterator[Rejection]:
        sentence = "{subject} uses {value:.4g} %, more than {limit:.4g} % ({setting} below average)"
        for i in np.flatnonzero(~below).tolist():
            value = float(usage[i]) * 100
            yield Rejection(
                names[i], "not_below_average", value, percent - margin, setting, sentence
            )

    return Placement(
        rng.choice(admissible) if rng else pick(ties, None),
        admissible,
        "below_average",
        f"at least {margin} points below the average of {percent:.4g} %",
        None,
        Rejections(explain),
    )

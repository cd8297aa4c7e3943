"""``LeastResourceUsageWithWeight``: brokers clearly below the average usage, remembered or not."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, NamedTuple, TypeVar

import numpy as np

from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.strategy import (
    Placement,
    known_candidates,
    modular_usage,
    nobody,
)
from counterpoise.decide.placement.usage_memory import NOTHING_REMEMBERED, UsageMemory
from counterpoise.decide.plan import Rejection, Rejections
from counterpoise.load.lookup_many import lookup_many
from counterpoise.load.rates import Floats, sum_in_order
from counterpoise.load.view import ClusterView, Masks

M = TypeVar("M")


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
        return NOTHING_REMEMBERED

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
        asked = tuple(candidates)
        with np.errstate(all="ignore"):
            seen = view.once(self.name, (asked, options), lambda: _look(asked, view, options))
            if not seen.field.known:
                return nobody(memory, seen.field.unknown)
            usage = _smooth(seen, memory, options.history_percentage)
            after = memory.after(seen.field.known, usage)
            return _below_average(seen.field, usage, after, options, rng)

    def forget(self, memory: UsageMemory, active: Collection[str]) -> UsageMemory:
        """Keep the active brokers' usage (``onActiveBrokersChange``)."""
        kept = set(active)
        return UsageMemory.of({name: memory[name] for name in memory if name in kept})

    def memory_to_json(self, memory: UsageMemory) -> Any:
        """Usage by broker."""
        return dict(memory)

    def memory_from_json(self, value: Mapping[str, Any]) -> UsageMemory:
        """Usage by broker."""
        return UsageMemory.of({name: float(usage) for name, usage in value.items()})


def place_by_store_usage(
    candidates: Sequence[str],
    usage_ema: Mapping[str, float],
    options: PlacementOptions,
    rng: Random | None = None,
) -> Placement[None]:
    """The extensible manager's: the same rule over the smoothed usage that brokers publish.

    ``candidates`` are named once each; ``usage_ema`` is each broker's ``weightedMaxEMA``. Brokers
    that have none count neither in the average nor among the preferred, but are admissible when
    nobody is preferred.

    Parity: ``extensions.strategy.LeastResourceUsageWithWeight`` of 4.0.7.
    """
    names = tuple(candidates)
    if not names:
        return nobody(None)
    known, shares = _published(names, usage_ema)
    usage = np.fromiter(shares, np.float64, len(known))
    with np.errstate(all="ignore"):
        return _below_average(_Field(known, names, ()), usage, None, options, rng)


def _published(
    names: tuple[str, ...], usage_ema: Mapping[str, float]
) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Those of the candidates that have published their usage, and what it is."""
    try:
        return names, lookup_many(usage_ema, names)
    except KeyError:
        known = tuple(name for name in names if name in usage_ema)
        return known, lookup_many(usage_ema, known)


class _Field(NamedTuple):
    """Who competes for a bundle."""

    known: tuple[str, ...]
    """Whose usage is known, and so makes up the average."""
    everybody: tuple[str, ...]
    unknown: tuple[Rejection, ...]
    """Who does not compete, for want of a load report."""


class _Seen(NamedTuple):
    """What a view says about the candidates: the same for every bundle."""

    field: _Field
    usage: Floats
    weighted: Floats
    """``usage`` times what counts of it beside what is remembered."""
    idle: Masks
    """Who has no bundles or no messages, so that its past says nothing."""


def _look(candidates: tuple[str, ...], view: ClusterView, options: PlacementOptions) -> _Seen:
    names, rows, unknown = known_candidates(candidates, view)
    usage = modular_usage(view, options)[rows]
    traffic = view.broker.traffic
    sending = np.logical_or(traffic.rate_in[rows], traffic.rate_out[rows])
    busy = np.logical_and(sending, view.broker.bundle_count[rows])
    field = _Field(names, names, unknown)
    return _Seen(field, usage, (1 - options.history_percentage) * usage, ~busy)


def _smooth(seen: _Seen, memory: UsageMemory, history: float) -> Floats:
    old, missing = memory.of_brokers(seen.field.known)
    usage = old * history
    usage += seen.weighted
    np.copyto(usage, seen.usage, where=seen.idle if missing is None else seen.idle | missing)
    return usage


def _below_average(
    field: _Field, usage: Floats, memory: M, options: PlacementOptions, rng: Random | None
) -> Placement[M]:
    names, everybody = field.known, field.everybody
    margin = options.average_difference_percentage
    average = sum_in_order(usage) / len(names) if names else 0.0
    below = usage + margin / 100.0 <= average
    percent = average * 100
    admissible = lookup_many(names, below.nonzero()[0].tolist())
    if not admissible:
        reason = (
            f"no candidate is {margin} points below the average of {percent:.4g} %; any will do"
        )
        chosen = rng.choice(everybody) if rng else _least(everybody, names, usage)
        return Placement(chosen, everybody, "none_below_average", reason, memory, field.unknown)
    return Placement(
        rng.choice(admissible) if rng else _least(admissible, names, usage),
        admissible,
        "below_average",
        f"at least {margin} points below the average of {percent:.4g} %",
        memory,
        Rejections(partial(_explain, field, usage, below, percent - margin)),
    )


def _explain(field: _Field, usage: Floats, below: Masks, limit: float) -> Iterator[Rejection]:
    yield from field.unknown
    setting = "loadBalancerAverageResourceUsageDifferenceThresholdPercentage"
    sentence = "{subject} uses {value:.4g} %, more than {limit:.4g} % ({setting} below average)"
    for i in np.flatnonzero(~below).tolist():
        value = float(usage[i]) * 100
        yield Rejection(field.known[i], "not_below_average", value, limit, setting, sentence)


def _least(choices: Sequence[str], names: Sequence[str], usage: Floats) -> str:
    """The least used of some brokers by value, then name; those of unknown usage come last."""
    known = dict(zip(names, usage.tolist(), strict=True))
    return min(choices, key=lambda name: (known.get(name, np.inf), name))

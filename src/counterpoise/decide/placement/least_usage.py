"""``LeastResourceUsageWithWeight``: brokers clearly below the average usage, remembered or not."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.strategy import (
    Placement,
    known_candidates,
    modular_usage,
    nobody,
)
from counterpoise.decide.placement.usage_memory import NOTHING_REMEMBERED, UsageMemory
from counterpoise.decide.plan import Rejection, Rejections
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
        seen = view.once(self.name, (asked, options), lambda: _look(asked, view, options))
        if not seen.field.known:
            return nobody(memory, seen.field.unknown)
        with np.errstate(all="ignore"):
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

    ``usage_ema`` is each broker's ``weightedMaxEMA``. Brokers that have none count neither in the
    average nor among the preferred, but are admissible when nobody is preferred.

    Parity: ``extensions.strategy.LeastResourceUsageWithWeight`` of 4.0.7.
    """
    names = tuple(dict.fromkeys(candidates))
    if not names:
        return nobody(None)
    known = tuple(name for name in names if name in usage_ema)
    usage = np.array([usage_ema[name] for name in known], dtype=np.float64)
    with np.errstate(all="ignore"):
        return _below_average(_field(known, names), usage, None, options, rng)


class _Field(NamedTuple):
    """Who competes for a bundle."""

    known: tuple[str, ...]
    """Whose usage is known, and so makes up the average."""
    everybody: tuple[str, ...]
    unknown: tuple[Rejection, ...]
    """Who does not compete, for want of a load report."""
    column: npt.NDArray[np.object_]
    """``known`` once more, to take some of a thousand names at once."""


def _field(
    known: tuple[str, ...], everybody: tuple[str, ...], unknown: tuple[Rejection, ...] = ()
) -> _Field:
    return _Field(known, everybody, unknown, np.array(known, dtype=np.object_))


class _Seen(NamedTuple):
    """What a view says about the candidates: the same for every bundle."""

    field: _Field
    usage: Floats
    weighted: Floats
    """``usage`` times what counts of it beside what is remembered."""
    forgets: Masks
    """Who has no bundles or no messages, so that its past says nothing."""


def _look(candidates: tuple[str, ...], view: ClusterView, options: PlacementOptions) -> _Seen:
    names, rows, unknown = known_candidates(candidates, view)
    usage = modular_usage(view, options)[rows]
    with np.errstate(all="ignore"):
        weighted = (1 - options.history_percentage) * usage
    traffic = view.broker.traffic
    silent = (traffic.rate_in[rows] == 0) & (traffic.rate_out[rows] == 0)
    forgets = silent | (view.broker.bundle_count[rows] == 0)
    return _Seen(_field(names, names, unknown), usage, weighted, forgets)


def _smooth(seen: _Seen, memory: UsageMemory, history: float) -> Floats:
    old, missing = memory.of_brokers(seen.field.known)
    usage = old * history
    usage += seen.weighted
    np.copyto(usage, seen.usage, where=seen.forgets if missing is None else seen.forgets | missing)
    return usage


def _below_average(
    field: _Field, usage: Floats, memory: M, options: PlacementOptions, rng: Random | None
) -> Placement[M]:
    names, everybody = field.known, field.everybody
    margin = options.average_difference_percentage
    average = sum_in_order(usage) / len(names) if names else 0.0
    below = usage + margin / 100.0 <= average
    percent = average * 100
    admissible = tuple(field.column[below].tolist())
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

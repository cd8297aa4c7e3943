"""The placement half of ``AvgShedder``: the broker that it planned when it shed the bundle."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from counterpoise.decide.memory import Remembering
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.strategy import Placement, no_candidate
from counterpoise.load.fields import JsonMapping
from counterpoise.load.view import ClusterView


@dataclass(frozen=True, slots=True)
class PlannedTargets(JsonMapping):
    """The destinations that AvgShedder planned or chose, by `load_key` of the bundle."""

    targets: Mapping[str, str] = field(default_factory=dict)


_UNSEEN_RATES = (50.0, 50.0, 50000.0, 50000.0)
_UNSEEN_SAMPLES = [10, 0, 1000, 0]


def load_key(view: ClusterView, bundle: str) -> str:
    """The key by which AvgShedder remembers a bundle: its averages and topics, not its name.

    Quirk kept from ``AvgShedder`` of 4.0.7, whose map is keyed by the ``BundleData`` itself: a
    bundle whose averages have changed is not found again, and bundles with the same averages (such
    as all that no broker has reported yet) share one entry.
    """
    row = view.bundle_index(bundle)
    if row is None:
        return repr((_UNSEEN_RATES, _UNSEEN_RATES, 0, _UNSEEN_SAMPLES))
    columns = view.bundle
    return repr(
        (
            columns.short.entry(row),
            columns.long.entry(row),
            columns.topics.item(row),
            columns.samples[row].tolist(),
        )
    )


class AvgShedderPlacement(Remembering[PlannedTargets]):
    """The destination that AvgShedder planned, if it is a candidate; else any candidate, which is
    remembered.

    Shares its memory with the AvgShedder that shed the bundle (PIP-364). Parity: ``AvgShedder`` of
    4.0.7, but without candidates the result is empty, where Pulsar throws an ArithmeticException.
    """

    name = "AvgShedder"
    options = PlacementOptions
    remembers = PlannedTargets

    def place(
        self,
        bundle: str,
        candidates: Sequence[str],
        view: ClusterView,
        memory: PlannedTargets,
        options: PlacementOptions,
        rng: Random | None = None,
    ) -> Placement[PlannedTargets]:
        """Choose the planned target, or any candidate; without ``rng`` the least used one."""
        if not candidates:
            return no_candidate(memory)
        key = load_key(view, bundle)
        planned = memory.targets.get(key)
        if planned is not None and planned in candidates:
            reason = "planned as this bundle's target, or picked for the same load before"
            return Placement(planned, (planned,), "planned", reason, memory)
        names = tuple(sorted(candidates))
        chosen = rng.choice(names) if rng else _least_used(names, view, options)
        after = PlannedTargets({**memory.targets, key: chosen})
        reason = (
            "no target was planned; any candidate will do"
            if planned is None
            else f"the planned target {planned} is no candidate; any candidate will do"
        )
        return Placement(chosen, names, "unplanned", reason, after)


def _least_used(names: Sequence[str], view: ClusterView, options: PlacementOptions) -> str:
    usage = view.weighted_usage(options.weights.modular)
    rows = {name: view.broker_index(name) for name in names}
    return min(names, key=lambda n: (float("inf") if (r := rows[n]) is None else usage[r], n))

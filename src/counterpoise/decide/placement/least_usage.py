"""``LeastUsage``: one of our own, for rounds that move several bundles."""

from collections.abc import Sequence
from random import Random

from counterpoise.decide.memory import NO_MEMORY, Memoryless, NoMemory
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.strategy import Placement, known_candidates, nobody
from counterpoise.decide.plan import Rejection
from counterpoise.load.view import ClusterView


class LeastUsage(Memoryless):
    """The broker with the least weighted usage, as long as the move makes the hottest cooler.

    One of our own. Ties go by bytes/s, then by name. A bundle that would make its destination
    as hot as its source is stays where it is: moving it would only move the problem.
    """

    name = "LeastUsage"
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
        """Choose among `candidates`; the bundle's present broker is the one that reports it."""
        names, rows, unknown = known_candidates(candidates, view)
        if not names:
            return nobody(NO_MEMORY, unknown)
        every = view.weighted_usage(options.weights.modular)
        usage, throughput = every[rows], view.broker.traffic.throughput(rows)
        best = min(range(len(names)), key=lambda i: (usage[i], throughput[i], names[i]))
        source = _reporter(view, bundle)
        if source is not None:
            after = usage[best] + _share(view, source, bundle, every[source])
            if not after < every[source]:
                return nobody(
                    NO_MEMORY, [*unknown, _no_gain(bundle, float(after), float(every[source]))]
                )
        reason = f"{names[best]} is the least used, at {usage[best]:.1%}"
        return Placement(names[best], (names[best],), "least-usage", reason, NO_MEMORY, unknown)


def _no_gain(bundle: str, after: float, before: float) -> Rejection:
    return Rejection(
        bundle,
        "no-gain",
        after,
        before,
        "",
        "{subject} stays: wherever it went, that broker would be used {value:.1%}, no less than "
        "the {limit:.1%} of the one it is on; split it",
    )


def _reporter(view: ClusterView, bundle: str) -> int | None:
    row = view.bundle_index(bundle)
    return None if row is None else next(iter(view.reporters(row)), None)


def _share(view: ClusterView, broker: int, bundle: str, usage: float) -> float:
    """How much of its broker's usage a bundle causes, by its part of the bytes/s."""
    row = view.bundle_index(bundle)
    total = float(view.broker.traffic.throughput()[broker])
    if row is None or total <= 0:
        return 0.0
    return float(usage * min(1.0, view.bundle.short.throughput()[row] / total))

"""``LeastUsage``: one of our own, for rounds that move several bundles."""

from collections.abc import Sequence
from functools import lru_cache
from random import Random

import numpy as np

from counterpoise.decide.memory import NO_MEMORY, Memoryless, NoMemory
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.strategy import Placement, known_candidates, nobody
from counterpoise.decide.plan import Rejection
from counterpoise.decide.sentence import sentence
from counterpoise.load.rates import Floats, Indices
from counterpoise.load.view import ClusterView
from counterpoise.names.units import bytes_text


class LeastUsage(Memoryless):
    """The broker with the least weighted usage, as long as the move makes the hottest cooler.

    One of our own. Ties go by bytes/s, then by name. A bundle that would make its destination
    as hot as its source is stays where it is: moving it would only move the problem.

    Brokers that share a host measure the same machine, whoever of them keeps it busy: among them
    usage says nothing, and bytes/s decide.
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
        every = _of_hosts(view, view.weighted_usage(options.weights.modular))
        usage, throughput = every[rows], view.broker.traffic.throughput(rows)
        usage[~np.isfinite(usage)] = np.inf  # who reports no figure is nobody's first choice
        least = np.flatnonzero(usage == usage.min())
        carried = np.nan_to_num(throughput[least], nan=np.inf, posinf=np.inf)
        best = min(least[carried == carried.min()].tolist(), key=names.__getitem__)
        source = _reporter(view, bundle)
        if source is not None:
            refused = _refused(view, bundle, source, view.row_of[names[best]], every)
            if refused is not None:
                rejections = (*unknown, refused)
                return Placement(None, (), refused.rule, refused.sentence, NO_MEMORY, rejections)
        reason = _why(view, names[best], float(usage[best]), float(throughput[best]))
        return Placement(names[best], (names[best],), "least-usage", reason, NO_MEMORY, unknown)


def _why(view: ClusterView, name: str, usage: float, carried: float) -> str:
    """What spoke for a broker; among brokers of one host it is not their usage."""
    which, hosts = _hosts(view.brokers)
    if hosts < len(which) and np.count_nonzero(which == which[view.row_of[name]]) > 1:
        figures: dict[str, object] = {"name": name, "carried": bytes_text(carried)}
        template = "{name} carries the least of its host's brokers that may have it, {carried}"
        return sentence(template, figures)
    if usage == np.inf:
        return sentence("no candidate reports usage that is a number; any will do", {})
    return sentence("{name} is the least used, at {usage:.1%}", {"name": name, "usage": usage})


def _refused(
    view: ClusterView, bundle: str, source: int, target: int, usage: Floats
) -> Rejection | None:
    """Why the move would not make the hottest cooler; None when it would."""
    if _host(view.brokers[source]) == _host(view.brokers[target]):
        row = view.bundle_index(bundle)
        carried = view.broker.traffic.throughput()
        moved = 0.0 if row is None else view.bundle.short.throughput_of(row)
        after, before = float(carried[target]) + moved, float(carried[source])
        template = _NO_GAIN_IN_BYTES
    else:
        after = float(usage[target] + _share(view, source, bundle, float(usage[source])))
        before, template = float(usage[source]), _NO_GAIN
    if after < before:
        return None
    return _no_gain(bundle, view.brokers[target], after, before, template)


def _host(broker: str) -> str:
    return broker.rpartition(":")[0]


@lru_cache(maxsize=4)
def _hosts(brokers: tuple[str, ...]) -> tuple[Indices, int]:
    """The number of each broker's host, and of all hosts; a round asks for every bundle."""
    hosts, which = np.unique([_host(name) for name in brokers], return_inverse=True)
    return which, len(hosts)


def _of_hosts(view: ClusterView, usage: Floats) -> Floats:
    """Each broker's usage, or that of the busiest broker of its host where several share one."""
    which, hosts = _hosts(view.brokers)
    if hosts == len(which):
        return usage
    most = np.full(hosts, -np.inf)
    np.maximum.at(most, which, usage)
    shared: Floats = most[which]
    return shared


_NO_GAIN_IN_BYTES = (
    "{subject} stays: even {target}, the best place for it, would then carry {value:,.0f} B/s, no "
    "less than the {limit:,.0f} B/s of the one it is on"
)
_NO_GAIN = (
    "{subject} stays: even {target}, the best place for it, would then be used {value:.1%}, no "
    "less than the {limit:.1%} of the one it is on"
)
_NO_FIGURE = "{subject} stays: the broker it is on reports no figure that is a number"


def _no_gain(bundle: str, target: str, after: float, before: float, template: str) -> Rejection:
    told = template if np.isfinite(before) else _NO_FIGURE
    return Rejection(bundle, "no-gain", after, before, "", told, {"target": target})


def _reporter(view: ClusterView, bundle: str) -> int | None:
    row = view.bundle_index(bundle)
    first = -1 if row is None else int(view.reporter[row])
    return None if first < 0 else first


def _share(view: ClusterView, broker: int, bundle: str, usage: float) -> float:
    """How much of its broker's usage a bundle causes, by its part of the bytes/s."""
    row = view.bundle_index(bundle)
    total = float(view.broker.traffic.throughput()[broker])
    if row is None or total <= 0:
        return 0.0
    return usage * min(1.0, view.bundle.short.throughput_of(row) / total)

"""``LeastUsage``: places a bundle on the broker with the least weighted usage."""

import math
from collections.abc import Sequence
from functools import lru_cache
from random import Random

import numpy as np

from counterpoise.decide.memory import NO_MEMORY, Memoryless, NoMemory
from counterpoise.decide.placement import strategy
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.plan import Rejection
from counterpoise.decide.sentence import sentence
from counterpoise.load.rates import Floats, Indices
from counterpoise.load.view import ClusterView
from counterpoise.names.units import bytes_text


class LeastUsage(Memoryless):
    """The broker with the least weighted usage, unless the bundle should rather stay.

    It stays if its destination would then be used as much as its source is now. Pulsar has no such
    strategy. Ties are broken by bytes/s, then by name.

    Brokers that share a host report the usage of the whole host, whichever of them causes it. Among
    them the broker with the least bytes/s is chosen.
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
    ) -> strategy.Placement[NoMemory]:
        """Choose the least used candidate, or none if the bundle should stay on its broker."""
        names, rows, unknown = strategy.known_candidates(candidates, view)
        if not names:
            return strategy.no_candidate(NO_MEMORY, unknown)
        if isinstance(names, strategy.Candidates):
            best, every = names.once(_choice, view, options)
        else:
            best, every = _choice(rows, view, options)
        refused = _refused(view, bundle, best, every)
        if refused is not None:
            rejections = (*unknown, refused)
            return strategy.Placement(
                None, (), refused.rule, refused.sentence, NO_MEMORY, rejections
            )
        name = view.brokers[best]
        reason = _why(view, best, every.item(best))
        return strategy.Placement(name, (name,), "least-usage", reason, NO_MEMORY, unknown)


def _choice(rows: Indices, view: ClusterView, options: PlacementOptions) -> tuple[int, Floats]:
    """Choose the best of these brokers; returns also the usage of all. Computed once for all
    bundles of a round.
    """
    every = _of_hosts(view, view.weighted_usage(options.weights.modular))
    return _best(rows, view, every), every


def _best(rows: Indices, view: ClusterView, every: Floats) -> int:
    """The least used of these brokers; of several the one with least bytes/s, then by name."""
    usage = every[rows]
    usage[~np.isfinite(usage)] = np.inf  # a broker that reports no figure is chosen last
    least = rows[usage == usage[usage.argmin()]]
    if len(least) > 1:
        carried = view.broker.traffic.throughput(least)
        if not np.isfinite(carried).all():
            carried = np.nan_to_num(carried, nan=np.inf, posinf=np.inf)
        least = least[carried == carried[carried.argmin()]]
    return int(least.min())  # a view's brokers are sorted by name


def _why(view: ClusterView, best: int, usage: float) -> str:
    """Why a broker was chosen: its usage or, among brokers of one host, its traffic."""
    which, _ = _hosts(view.brokers)
    name = view.brokers[best]
    if np.count_nonzero(which == which[best]) > 1:
        carried = bytes_text(view.broker.traffic.throughput_of(best))
        figures: dict[str, object] = {"name": name, "carried": carried}
        template = "{name} carries the least of its host's brokers that may have it, {carried}"
        return sentence(template, figures)
    if not math.isfinite(usage):
        return sentence("no candidate reports usage that is a number; any will do", {})
    return sentence("{name} is the least used, at {usage:.1%}", {"name": name, "usage": usage})


def _refused(view: ClusterView, bundle: str, target: int, usage: Floats) -> Rejection | None:
    """Why the move would load the destination as much as the source; None if it would not, or the
    bundle has no owner.
    """
    row = view.bundle_index(bundle)
    source = None if row is None else view.first_reporter(row)
    if row is None or source is None:
        return None
    moved, carried = view.bundle.short.throughput_of(row), view.broker.traffic
    if _host(view.brokers[source]) == _host(view.brokers[target]):
        after, before = carried.throughput_of(target) + moved, carried.throughput_of(source)
        template = _NO_GAIN_IN_BYTES
    else:
        before, total = usage.item(source), carried.throughput_of(source)
        # How much of its broker's usage a bundle causes, by its part of the bytes/s.
        share = 0.0 if total <= 0 else before * min(1.0, moved / total)
        after, template = usage.item(target) + share, _NO_GAIN
    if after < before:
        return None
    return _no_gain(bundle, view.brokers[target], after, before, template)


def _host(broker: str) -> str:
    return broker.rpartition(":")[0]


@lru_cache(maxsize=4)
def _hosts(brokers: tuple[str, ...]) -> tuple[Indices, int]:
    """The index of each broker's host, and the number of hosts; cached for a round's bundles."""
    hosts, which = np.unique([_host(name) for name in brokers], return_inverse=True)
    return which, len(hosts)


def _of_hosts(view: ClusterView, usage: Floats) -> Floats:
    """The usage of each broker or, where brokers share a host, of the busiest of them."""
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
    reason = template if np.isfinite(before) else _NO_FIGURE
    return Rejection(bundle, "no-gain", after, before, "", reason, {"target": target})

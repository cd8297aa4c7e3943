"""The load stores of PIP-192 built from reports, if the brokers' topics cannot be read.

A broker under the extensible manager publishes exponential averages of its usage and traffic, and
its busiest bundles, when it has measured again. Its metrics have the average of its usage, and the
admin API has the usage and the traffic of each bundle. An unknown average is computed here as
brokers do, from poll to poll; the shorter the interval of polls, the more history it contains.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from counterpoise.load.ranking import RATE_STEP, THROUGHPUT_STEP
from counterpoise.load.rates import Rates
from counterpoise.load.store_view import BundleRules, LoadStoreView
from counterpoise.load.topk import as_published
from counterpoise.load.view import ClusterView, bundle_namespace
from counterpoise.names.namespace import SYSTEM_NAMESPACE_TEXT

HISTORY: Final = 0.9
"""Default of ``loadBalancerHistoryResourcePercentage``: the part of an average that stays when a
measurement is added."""
REPORT_MS: Final = 5000
"""Milliseconds between two reports by default: in this time an average keeps the part `HISTORY`."""


class Ema(NamedTuple):
    """Exponential moving averages of a broker's usage (``load``) and bytes/s (``throughput``),
    and the time of their last update in milliseconds.
    """

    load: float
    throughput: float
    at_ms: int


@dataclass(frozen=True, slots=True)
class UnreportedFacts:
    """What `store_view` needs besides load reports."""

    unloaded_brokers: Mapping[str, int]
    """By broker: when bundles last left it, in milliseconds."""
    answering: Collection[str]
    newest: Rates | None = None
    """Each bundle's rates in the newest report; None: its short-term average is used instead."""
    as_leader: bool = False
    """Whether bundles of equal rank keep the order in which a broker publishes them."""


def averaged(
    view: ClusterView, weights: npt.NDArray[np.float64], before: Mapping[str, Ema]
) -> dict[str, Ema]:
    """Update each broker's exponential averages of usage and throughput with a new view.

    A broker without an entry in ``before`` begins with its present values. A usage average that the
    broker publishes itself replaces the computed one.
    """
    usage = view.weighted_usage(weights)
    through = view.broker.traffic.throughput()
    found = {}
    for row, broker in enumerate(view.brokers):
        now = Ema(float(usage[row]), float(through[row]), view.now_ms)
        old = before.get(broker)
        if old is not None and view.now_ms > old.at_ms:
            kept = HISTORY ** ((view.now_ms - old.at_ms) / REPORT_MS)
            now = Ema(
                old.load * kept + now.load * (1 - kept),
                old.throughput * kept + now.throughput * (1 - kept),
                view.now_ms,
            )
        found[broker] = now if old is None or view.now_ms > old.at_ms else old
        if (own := float(view.broker.load_average[row])) > 0:
            found[broker] = found[broker]._replace(load=own)
    return found


def store_view(
    view: ClusterView, averages: Mapping[str, Ema], known: UnreportedFacts, most: int
) -> LoadStoreView:
    """Build the load stores of PIP-192 from reports: each broker's averages and its ``most``
    busiest bundles, the busiest last.

    Bundles are ranked by `ranking.py`. Those of equal rank are ordered by bytes/s, or if
    ``known.as_leader`` in the order in which a broker publishes them.
    """
    carried = view.bundle.short if known.newest is None else known.newest
    through = carried.throughput()
    figures = (
        carried.throughput_in / THROUGHPUT_STEP,
        carried.throughput_out / THROUGHPUT_STEP,
        (carried.rate_in + carried.rate_out) / RATE_STEP,
    )
    steps = np.floor(np.nan_to_num(np.stack(figures, axis=1)) + 0.5)
    top: list[tuple[tuple[str, float], ...]] = []
    owners: dict[str, str] = {}
    for row, broker in enumerate(view.brokers):
        reported = view.reported_by(row).tolist()
        mine = [each for each in reported if through[each] > 0 and _counts(view, each)]
        owners |= {view.bundles[each]: broker for each in mine}
        if known.as_leader:
            place = {view.bundles[each]: each for each in mine}
            ranks = {name: (*steps[each].tolist(),) for name, each in place.items()}
            busiest = [place[name] for name in as_published(ranks, most, len(reported))]
        else:
            mine.sort(key=lambda each: (*steps[each].tolist(), through[each], view.bundles[each]))
            busiest = mine[-most:] if most > 0 else []
        top.append(tuple((view.bundles[each], float(through[each])) for each in busiest))
    marked = view.bundle.recently_unloaded
    measured = np.where(view.broker.measured_ms > 0, view.broker.measured_ms, view.now_ms)
    answering = np.isin(view.brokers, [*known.answering])
    return LoadStoreView(
        view.now_ms,
        view.brokers,
        np.array([averages[name].load for name in view.brokers], np.float64),
        view.broker.traffic.throughput().copy(),
        np.array([averages[name].throughput for name in view.brokers], np.float64),
        np.where(answering, measured, 0),
        tuple(top),
        (),
        frozenset(view.bundles[row] for row in np.flatnonzero(marked).tolist()),
        dict(known.unloaded_brokers),
        BundleRules(owners),
    )


def _counts(view: ClusterView, bundle: int) -> bool:
    """Whether brokers would publish a bundle among their busiest ones if it had traffic."""
    namespace = bundle_namespace(view.bundles[bundle])
    return bool(view.bundle.movable[bundle]) and namespace != SYSTEM_NAMESPACE_TEXT

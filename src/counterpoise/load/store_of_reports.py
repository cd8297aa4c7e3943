"""The load stores of PIP-192 built from reports, where the brokers' topics cannot be read.

A broker under the extensible manager publishes exponential averages of its usage and traffic, and
its busiest bundles. The admin API gives neither; but it gives what they are made from: the usage
and the traffic of each bundle. The averages are made here as brokers make them, from one look to
the next, and hold more history the shorter the time between two looks.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from counterpoise.load.ranking import RATE_STEP, THROUGHPUT_STEP
from counterpoise.load.store_view import BundleRules, LoadStoreView
from counterpoise.load.view import ClusterView, bundle_namespace
from counterpoise.names.namespace import SYSTEM_NAMESPACE_TEXT

HISTORY: Final = 0.9
"""Default of ``loadBalancerHistoryResourcePercentage``: what an average keeps of its past."""
REPORT_MS: Final = 5000
"""How often brokers measure by default: by this much time an average keeps `HISTORY`."""


class Ema(NamedTuple):
    """A broker's averages, and when they were made."""

    load: float
    throughput: float
    at_ms: int


@dataclass(frozen=True, slots=True)
class Known:
    """What is known beside the reports."""

    unloaded_brokers: Mapping[str, int]
    """When bundles last left or joined a broker, milliseconds."""
    answering: Collection[str]


def averaged(
    view: ClusterView, weights: npt.NDArray[np.float64], before: Mapping[str, Ema]
) -> dict[str, Ema]:
    """Each broker's averages after this look; the first look is taken as it is."""
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
    return found


def store_view(
    view: ClusterView, averages: Mapping[str, Ema], known: Known, most: int
) -> LoadStoreView:
    """The stores as they would be: of each broker its `most` busiest bundles, the busiest last.

    By the coarse steps in which Pulsar compares bundles (`ranking.py`). Those that are alike by
    them are in the order of their bytes/s here, and in any order in Pulsar.
    """
    through, short = view.bundle.short.throughput(), view.bundle.short
    figures = (
        short.throughput_in / THROUGHPUT_STEP,
        short.throughput_out / THROUGHPUT_STEP,
        (short.rate_in + short.rate_out) / RATE_STEP,
    )
    steps = np.floor(np.nan_to_num(np.stack(figures, axis=1)) + 0.5)
    top: list[tuple[tuple[str, float], ...]] = []
    owners: dict[str, str] = {}
    for row, broker in enumerate(view.brokers):
        mine = [each for each in view.reported_by(row).tolist() if _counts(view, each)]
        owners |= {view.bundles[each]: broker for each in mine}
        ranked = sorted(
            mine, key=lambda each: (*steps[each].tolist(), through[each], view.bundles[each])
        )
        busiest = ranked[-most:] if most > 0 else []
        top.append(tuple((view.bundles[each], float(through[each])) for each in busiest))
    marked = view.bundle.recently_unloaded
    return LoadStoreView(
        view.now_ms,
        view.brokers,
        np.array([averages[name].load for name in view.brokers], np.float64),
        view.broker.traffic.throughput().copy(),
        np.array([averages[name].throughput for name in view.brokers], np.float64),
        np.array(
            [view.now_ms if name in known.answering else 0 for name in view.brokers], np.int64
        ),
        tuple(top),
        (),
        frozenset(view.bundles[row] for row in np.flatnonzero(marked).tolist()),
        dict(known.unloaded_brokers),
        BundleRules(owners),
    )


def _counts(view: ClusterView, bundle: int) -> bool:
    """Whether brokers name a bundle among their busiest at all."""
    carries = bool(view.bundle.short.throughput_of(bundle) > 0)
    namespace = bundle_namespace(view.bundles[bundle])
    return carries and bool(view.bundle.movable[bundle]) and namespace != SYSTEM_NAMESPACE_TEXT

"""The clusters of bench/shedding.py, made by a formula that bench/java/SheddingTime.java shares."""

import numpy as np
import numpy.typing as npt

from counterpoise.load.extensible import BrokerLoadData, BundleLoadData, TopBundlesLoadData
from counterpoise.load.rates import Rates
from counterpoise.load.report import NamespaceBundleStats
from counterpoise.load.store_view import LoadStoreView
from counterpoise.load.usage import percent_of
from counterpoise.load.view import BrokerColumns, BundleColumns, ClusterView

GOLDEN = 0.6180339887498949

Floats = npt.NDArray[np.float64]


def spread(index: npt.NDArray[np.int64]) -> Floats:
    """Numbers in 0..1 that look random and need no generator to agree on."""
    value = index * GOLDEN
    spread: Floats = value - np.floor(value)
    return spread


def scale(broker: npt.NDArray[np.int64]) -> Floats:
    """How much busier one broker's bundles are than another's."""
    scaled: Floats = 0.2 + 1.6 * spread(5 * broker + 2)
    return scaled


def cluster(brokers: int, each: int) -> ClusterView:
    """Brokers with ``each`` bundles and mixed usages."""
    numbers = np.arange(brokers)
    usage = np.zeros((brokers, 5))
    for column, which in ((0, 0), (3, 1), (4, 2)):
        usage[:, column] = 5 + 90 * spread(3 * numbers + which)
    count = brokers * each
    owner = np.repeat(numbers, each)
    # A broker's total does not depend on how many bundles it is cut into, so the same ones shed.
    load = (1e4 + 990000 * spread(np.arange(count) + 7)) * scale(owner) * (100.0 / each)
    short = Rates.of(load / 1000, load / 1000, load, load)
    total: Floats = np.bincount(owner, load, brokers).astype(np.float64)
    bundles = [f"t/ns{b}/0x{k:08x}_0x{k + 1:08x}" for b in range(brokers) for k in range(each)]
    return ClusterView.from_columns(
        now_ms=0,
        brokers=[f"broker-{b}:8080" for b in numbers],
        broker=BrokerColumns.of(
            percent_of(usage, np.full_like(usage, 100.0)),
            Rates.of(total / 1000, total / 1000, total, total),
            np.full(brokers, each),
        ),
        bundles=bundles,
        bundle=BundleColumns.of(bundles, short, short),
        reported=(owner, np.arange(count)),
    )


def load_stores(brokers: int) -> LoadStoreView:
    """The same brokers as PIP-192 knows them, each with its ten busiest bundles."""
    numbers = np.arange(brokers)
    loads, tops = {}, {}
    usage = (5 + 90 * spread(3 * numbers)) / 100
    for b, size in enumerate(scale(numbers).tolist()):
        bundles = tuple(
            BundleLoadData(
                f"t/ns{b}/0x{k:08x}_0x{k + 1:08x}",
                NamespaceBundleStats(msg_throughput_out=(1 + k) * 1e5 * size),
            )
            for k in range(10)
        )
        total = sum(bundle.throughput for bundle in bundles)
        name = f"broker-{b}:8080"
        tops[name] = TopBundlesLoadData(bundles)
        loads[name] = BrokerLoadData(
            msg_throughput_out=total,
            weighted_max_ema=float(usage[b]),
            msg_throughput_ema=total,
            updated_at=1000,
        )
    return LoadStoreView.of(1000, loads, tops)

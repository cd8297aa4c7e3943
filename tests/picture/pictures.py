"""Pictures of clusters for tests, from what each broker carries."""

from collections.abc import Mapping

import numpy as np

from counterpoise.load.rates import Rates
from counterpoise.load.view import BrokerColumns, BundleColumns, ClusterView
from counterpoise.picture.cluster_picture import ClusterPicture

Carried = Mapping[str, Mapping[str, float]]


def view_of(
    carried: Carried, now_ms: int = 1_000, usage: float = 40.0, topics: int = 1
) -> ClusterView:
    """Brokers and the bytes/s that come in to each of their bundles, 100 bytes a message."""
    brokers = list(carried)
    bundles = list(dict.fromkeys(name for each in carried.values() for name in each))
    place = {name: row for row, name in enumerate(bundles)}
    flows = np.zeros(len(bundles))
    pairs = []
    for broker, loads in enumerate(carried.values()):
        for name, load in loads.items():
            flows[place[name]] = load
            pairs.append((broker, place[name]))
    rates = rates_of(flows)
    totals = rates_of(np.array([float(sum(each.values())) for each in carried.values()]))
    counts = [len(each) for each in carried.values()]
    return ClusterView.from_columns(
        now_ms=now_ms,
        brokers=brokers,
        broker=BrokerColumns.of(
            np.full((len(brokers), 5), usage, np.float32),
            totals,
            counts,
            topics=np.array(counts),
            short_average=totals,
            long_average=totals,
        ),
        bundles=bundles,
        bundle=BundleColumns.of(bundles, rates, rates, np.full(len(bundles), topics)),
        reported=tuple(np.array(pairs, np.intp).reshape(-1, 2).T),  # type: ignore[arg-type]
    )


def rates_of(bytes_in: "np.typing.NDArray[np.float64]") -> Rates:
    nothing = np.zeros(len(bytes_in))
    return Rates.of(bytes_in / 100, nothing, bytes_in, nothing)


def picture_of(carried: Carried, at_ms: int = 1_000, **more: object) -> ClusterPicture:
    return ClusterPicture(at_ms, view_of(carried, at_ms), **more)  # type: ignore[arg-type]

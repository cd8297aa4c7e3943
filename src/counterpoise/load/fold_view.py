"""Converts the fold's state to the `ClusterView` that strategies decide on."""

from collections.abc import Collection

import numpy as np

from counterpoise.load.fold import DEFAULT_OPTIONS, FoldOptions, FoldState
from counterpoise.load.rates import Rates
from counterpoise.load.rows import RATES, RESOURCES, Column, Table, places
from counterpoise.load.usage import percent_of
from counterpoise.load.view import BrokerColumns, BundleColumns, ClusterView


def cluster_view(
    state: FoldState,
    now_ms: int,
    recently_unloaded: Collection[str] = (),
    options: FoldOptions = DEFAULT_OPTIONS,
) -> ClusterView:
    """The load of the cluster as strategies read it: its listed brokers and the bundles they
    report.

    `state` is that of one shard, or `merged`. A bundle that no broker reports now is left out,
    though the state still has its averages.
    """
    served, brokers = state.served, state.brokers
    averages, member = _reported(state.averages, served["bundle"])
    names = averages["bundle"].tolist()
    owner = _owners(served["broker"], brokers["broker"].tolist())
    topics = np.zeros(len(names), np.int64)
    latest = np.argsort(served["poll_id"], kind="stable")
    topics[member[latest]] = served["topics"][latest]
    return ClusterView.from_columns(
        now_ms=now_ms,
        brokers=brokers["broker"].tolist(),
        broker=_broker_columns(brokers, averages, owner, member),
        bundles=names,
        bundle=BundleColumns.of(
            names,
            _rates(averages, "short_"),
            _rates(averages, "long_"),
            topics,
            _samples(averages, options),
            recently_unloaded,
        ),
        reported=(owner, member),
    )


def _owners(column: Column, brokers: list[str]) -> Column:
    """The index in ``brokers`` of each row's broker."""
    place = dict(zip(brokers, range(len(brokers)), strict=True))
    return np.fromiter(map(place.__getitem__, column.tolist()), np.intp, len(column))


def _reported(averages: Table, bundles: Column) -> tuple[Table, Column]:
    """The averages of bundles that are reported, and the index of each report's bundle there."""
    rows = places(bundles, averages["bundle"])
    if rows.size and rows.min() < 0:
        raise KeyError(f"{bundles[rows.argmin()]} is served and has no averages")
    there = np.zeros(len(averages["bundle"]), np.bool_)
    there[rows] = True
    if there.all():
        return averages, rows
    before = np.cumsum(there) - 1
    return {name: column[there] for name, column in averages.items()}, before[rows]


def _samples(averages: Table, options: FoldOptions) -> Column:
    count = len(averages["bundle"])
    return np.stack(
        [
            column
            for term, limit in options.limits.items()
            for column in (np.full(count, limit, np.int64), averages[f"{term}_samples"])
        ],
        axis=1,
    )


def _rates(table: Table, prefix: str = "") -> Rates:
    return Rates.of(*(table[prefix + name] for name in RATES))


def _broker_columns(
    brokers: Table, averages: Table, owner: Column, member: Column
) -> BrokerColumns:
    count = len(brokers["broker"])
    usage, limit = (
        np.stack([brokers[f"{name}_{part}"] for name in RESOURCES], axis=1)
        for part in ("usage", "limit")
    )

    def summed(prefix: str) -> Rates:
        # bincount adds from the first row to the last, which is the order of the reports: the sums
        # are those of `TimeAverageBrokerData`, bit for bit.
        return Rates(
            *(
                np.bincount(owner, averages[prefix + name][member], minlength=count).astype(float)
                for name in RATES
            )
        )

    return BrokerColumns.of(
        percent_of(usage, limit),
        _rates(brokers),
        np.bincount(owner, minlength=count),
        topics=brokers["topics"].astype(np.int64),
        short_average=summed("short_"),
        long_average=summed("long_"),
        load_average=brokers["load_average"],
        measured_ms=brokers["report_poll"],
    )


def newest_measured(state: FoldState, view: ClusterView) -> Rates:
    """The rates of each of the view's bundles, in its order, in the newest report that lists it."""
    served = state.served
    latest = np.argsort(served["poll_id"], kind="stable")
    member = places(served["bundle"][latest], np.array(view.bundles, dtype=object))
    found = np.zeros((len(RATES), len(view.bundles)))
    known = member >= 0
    for column, name in zip(found, RATES, strict=True):
        column[member[known]] = served[name][latest[known]]
    return Rates(*found)

"""The load of a cluster as it will be after moves that a round has decided.

Pulsar asks its placement strategy about each bundle on the same load data, so the bundles of a
round can all go to one broker. Here each move changes the load data before the next bundle is
placed.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from counterpoise.decide.plan import Decision
from counterpoise.load.rates import Floats, Rates
from counterpoise.load.view import ClusterView


def moved_in(view: ClusterView, decision: Decision) -> ClusterView:
    """The view with the load after a move; unchanged if it lacks the bundle or a broker."""
    source = view.broker_index(decision.source)
    target = view.broker_index(decision.destination or "")
    bundle = view.bundle_index(decision.bundle)
    if source is None or target is None or bundle is None:
        return view
    broker, averages = view.broker, view.bundle
    total = broker.traffic.throughput_of(source)
    moved = averages.short.throughput_of(bundle)
    part = min(1.0, moved / total) if total > 0 else 0.0
    usage = broker.usage.copy()
    # Brokers are assumed to be equal, so a bundle uses as much at its destination as at its source.
    usage[target] += usage[source] * np.float32(part)
    usage[source] -= usage[source] * np.float32(part)
    average = broker.load_average.copy()
    if average[source] > 0 and average[target] > 0:
        average[target] += average[source] * part
        average[source] -= average[source] * part
    count = broker.bundle_count.copy()
    count[source] -= 1
    count[target] += 1
    topics = broker.topics.copy()
    topics[source] -= averages.topics[bundle]
    topics[target] += averages.topics[bundle]
    moved_columns = replace(
        broker,
        usage=usage,
        bundle_count=count,
        topics=topics,
        traffic=_shifted(broker.traffic, averages.short, source, target, bundle),
        short_average=_shifted(broker.short_average, averages.short, source, target, bundle),
        long_average=_shifted(broker.long_average, averages.long, source, target, bundle),
        load_average=average,
    )
    return replace(view, broker=moved_columns)


def with_owners(view: ClusterView, owners: Mapping[str, str]) -> ClusterView:
    """The view with other owners of these bundles (broker by bundle); figures stay as they are."""
    reporter = np.repeat(np.arange(len(view.brokers)), np.diff(view.offsets))
    for bundle, broker in owners.items():
        row, to = view.bundle_index(bundle), view.broker_index(broker)
        if row is not None and to is not None:
            reporter[view.members == row] = to
    order = np.lexsort((view.members, reporter))
    offsets = np.zeros(len(view.brokers) + 1, np.intp)
    np.cumsum(np.bincount(reporter, minlength=len(view.brokers)), out=offsets[1:])
    return view.with_reports(offsets, view.members[order])


def _shifted(brokers: Rates, bundles: Rates, source: int, target: int, bundle: int) -> Rates:
    # In Python's floats, which are faster than NumPy's scalars: each move of a round calls this.
    rate_in, rate_out, bytes_in, bytes_out = bundles.entry(bundle)

    def shifted(column: Floats, amount: float) -> Floats:
        column = column.copy()
        had = column.item(source)
        amount = min(had, amount)
        column[source] = had - amount
        column[target] = column.item(target) + amount
        return column

    return Rates(
        shifted(brokers.rate_in, rate_in),
        shifted(brokers.rate_out, rate_out),
        shifted(brokers.throughput_in, bytes_in),
        shifted(brokers.throughput_out, bytes_out),
    )

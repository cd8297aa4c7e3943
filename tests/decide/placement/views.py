"""Cluster views for placement tests, built from a few numbers."""

import numpy as np

from counterpoise.load.rates import Rates
from counterpoise.load.view import BrokerColumns, BundleColumns, ClusterView


def column(values, default=0.0):
    return np.array([default if value is None else value for value in values], dtype=np.float64)


def view_of(brokers, bundles=()):
    """Brokers as ``name: {"cpu", "rate", "long_rate", "preallocated", "bundles"}``, all optional.

    ``bundles`` are ``name: rate``, short and long term alike.
    """
    rows = list(brokers.values())
    count = len(rows)
    usage = np.zeros((count, 5), dtype=np.float32)
    for resource in range(5):
        usage[:, resource] = [row.get("all", row.get("cpu", 0.0)) for row in rows]
        if resource == 0:
            continue
        usage[:, resource] = [row.get("all", 0.0) for row in rows]
    zeros = np.zeros(count)
    broker = BrokerColumns.of(
        usage,
        Rates.of(column(row.get("rate", 1.0) for row in rows), zeros, zeros, zeros),
        [row.get("bundles", 1) for row in rows],
        long_average=Rates.of(column(row.get("long_rate") for row in rows), zeros, zeros, zeros),
        preallocated_rate=column(row.get("preallocated") for row in rows),
    )
    rates = np.array(list(dict(bundles).values()), dtype=np.float64)
    carried = Rates.of(rates, np.zeros(len(rates)), np.zeros(len(rates)), np.zeros(len(rates)))
    none = np.array([], dtype=np.intp)
    return ClusterView.from_columns(
        now_ms=0,
        brokers=list(brokers),
        broker=broker,
        bundles=list(dict(bundles)),
        bundle=BundleColumns.of(list(dict(bundles)), carried, carried),
        reported=(none, none),
    )

"""Snapshots of clusters, by what the bundles of each broker carry."""

from collections.abc import Mapping, Sequence

import numpy as np

from counterpoise.decide.balancing.policies import PlacementPolicies
from counterpoise.decide.balancing.snapshot import ClusterSnapshot
from counterpoise.decide.filters.facts import BrokerFacts
from counterpoise.load.rates import Rates
from counterpoise.load.view import BrokerColumns, BundleColumns, ClusterView
from counterpoise.names.load_managers import MODULAR

Loads = Mapping[str, Sequence[tuple[str, float]]]


def snapshot(
    loads: Loads, silent: Mapping[str, str] | None = None, **policies: object
) -> ClusterSnapshot:
    """Brokers with bundles of so many bytes/s each."""
    bundles = sorted({name for each in loads.values() for name, _ in each})
    carried = {name: load for each in loads.values() for name, load in each}
    brokers = sorted(loads)
    owner = [brokers.index(b) for b in brokers for _ in loads[b]]
    rows = [bundles.index(name) for b in brokers for name, _ in loads[b]]
    zero = np.zeros(len(bundles))
    rates = Rates.of(zero, zero, np.array([carried[name] for name in bundles]), zero)
    total = np.array([sum(load for _, load in loads[b]) for b in brokers], float)
    none = np.zeros(len(brokers))
    view = ClusterView.from_columns(
        now_ms=1000,
        brokers=brokers,
        broker=BrokerColumns.of(
            np.zeros((len(brokers), 5), np.float32),
            Rates.of(none, none, total, none),
            np.array([len(loads[b]) for b in brokers]),
        ),
        bundles=bundles,
        bundle=BundleColumns.of(bundles, rates, rates),
        reported=(np.array(owner, np.intp), np.array(rows, np.intp)),
    )
    owned = {b: [name for name, _ in loads[b]] for b in brokers}
    facts = dict.fromkeys(brokers, BrokerFacts(MODULAR))
    rules = PlacementPolicies(facts, **policies)  # type: ignore[arg-type]
    return ClusterSnapshot(view, brokers, owned, silent or {}, rules)


def bundles(prefix: str, *loads: float, namespace: str = "t/n") -> list[tuple[str, float]]:
    return [(f"{namespace}/{prefix}{i}", load) for i, load in enumerate(loads)]

"""Load data as arrays: the input of strategies of the extensible load manager (PIP-192)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from counterpoise.load.extensible import BrokerLoadData, TopBundlesLoadData
from counterpoise.load.fields import from_json, read_object
from counterpoise.load.rates import Floats

TopBundles = tuple[tuple[str, float], ...]
"""A broker's busiest bundles in stored order: pairs of bundle name and bytes/s (in plus out)."""


@dataclass(frozen=True, slots=True)
class BundleRules:
    """Which bundles may move where; without rules every bundle may move anywhere.

    ``owners`` is each bundle's owner by the bundle state channel (None: not asked for),
    ``with_policies`` the bundles with an isolation policy or anti-affinity group, ``allowed`` the
    brokers that pass every filter for a bundle, where that is not all of them. ``silent`` brokers
    did not answer the last poll, and receive nothing.
    """

    owners: Mapping[str, str] | None = None
    with_policies: frozenset[str] = frozenset()
    allowed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    silent: frozenset[str] = frozenset()


NO_RULES: Final = BundleRules()


@dataclass(frozen=True, slots=True)
class _StoreRecords:
    """The JSON of the load data that one broker has published."""

    broker_load_data: BrokerLoadData | None = None
    top_bundles_load_data: TopBundlesLoadData | None = None


@dataclass(frozen=True, slots=True)
class _StoreLine:
    """The JSON that the command line reads: one line with the load data of all brokers."""

    now: int
    brokers: Mapping[str, _StoreRecords]
    available_brokers: tuple[str, ...] | None = None
    recently_unloaded_bundles: Mapping[str, int] = field(default_factory=dict)
    recently_unloaded_brokers: Mapping[str, int] = field(default_factory=dict)
    owners: Mapping[str, str] | None = None
    bundles_with_policies: tuple[str, ...] = ()
    allowed_brokers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class LoadStoreView:
    """The published load data of a cluster as a strategy reads it: brokers with load data, sorted
    by name.

    Its rules and recent unloads say which bundle may not move, or not to every broker.
    """

    now_ms: int
    brokers: tuple[str, ...]
    load: Floats
    """``weightedMaxEMA``: a fraction of the limit of the most used resource; it may exceed 1."""
    throughput: Floats
    """Bytes/s in and out, as last measured."""
    throughput_average: Floats
    """``msgThroughputEMA``: the moving average of bytes/s in and out."""
    updated_at: npt.NDArray[np.int64]
    top: tuple[TopBundles | None, ...]
    """Busiest bundles of each broker; None when it published none."""
    unpublished: tuple[str, ...]
    """Registered brokers without load data, by name."""
    recently_unloaded: frozenset[str]
    unloaded_brokers: Mapping[str, int]
    """By broker: when bundles last left or joined it, in milliseconds."""
    rules: BundleRules = NO_RULES

    @staticmethod
    def of(
        now_ms: int,
        loads: Mapping[str, BrokerLoadData],
        top: Mapping[str, TopBundlesLoadData],
        *,
        available: Sequence[str] | None = None,
        recently_unloaded: Mapping[str, Any] | None = None,
        unloaded_brokers: Mapping[str, int] | None = None,
        rules: BundleRules = NO_RULES,
    ) -> "LoadStoreView":
        """Build the view from the records of the two stores."""
        names = tuple(sorted(loads))
        rows = [loads[name] for name in names]
        records = [top.get(name) for name in names]
        with np.errstate(all="ignore"):
            throughput = np.array([row.msg_throughput_in for row in rows], dtype=np.float64)
            throughput += np.array([row.msg_throughput_out for row in rows], dtype=np.float64)
        return LoadStoreView(
            now_ms,
            names,
            np.array([row.weighted_max_ema for row in rows], dtype=np.float64),
            throughput,
            np.array([row.msg_throughput_ema for row in rows], dtype=np.float64),
            np.array([row.updated_at for row in rows], dtype=np.int64),
            tuple(None if record is None else _bundles(record) for record in records),
            tuple(sorted(set(available or ()).difference(names))),
            frozenset(recently_unloaded or ()),
            dict(unloaded_brokers or {}),
            rules,
        )

    @staticmethod
    def from_load_data(value: object) -> "LoadStoreView":
        """Build the view from one parsed line of JSON, as ``counterpoise decide shed --help``
        describes.

        Optional fields are ``availableBrokers``, ``owners`` {bundle: broker},
        ``bundlesWithPolicies`` and ``allowedBrokers`` {bundle: [broker]}. Raises ``LoadDataError``
        naming the field and what was expected there.
        """
        data = from_json(_StoreLine, read_object(value, "load data"))
        brokers, available = data.brokers, data.available_brokers
        loads = {b: each.broker_load_data for b, each in brokers.items() if each.broker_load_data}
        top = {
            broker: each.top_bundles_load_data
            for broker, each in brokers.items()
            if each.top_bundles_load_data
        }
        allowed = {b: frozenset(each) for b, each in data.allowed_brokers.items()}
        return LoadStoreView.of(
            data.now,
            loads,
            top,
            available=list(brokers) if available is None else available,
            recently_unloaded=data.recently_unloaded_bundles,
            unloaded_brokers=data.recently_unloaded_brokers,
            rules=BundleRules(data.owners, frozenset(data.bundles_with_policies), allowed),
        )


def _bundles(record: TopBundlesLoadData) -> TopBundles:
    return tuple((each.bundle_name, each.throughput) for each in record.top_bundles_load_data)

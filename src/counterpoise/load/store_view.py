"""The load stores as columns: what strategies of the extensible load manager look at (PIP-192)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from counterpoise.load.extensible import BrokerLoadData, TopBundlesLoadData
from counterpoise.load.fields import (
    LoadDataError,
    read_integer,
    read_object,
    read_text,
    read_texts,
    read_times,
)
from counterpoise.load.rates import Floats

TopBundles = tuple[tuple[str, float], ...]
"""Name and bytes/s (in and out) of a broker's busiest bundles, in the order they are stored."""


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


@dataclass(frozen=True, slots=True, eq=False)
class LoadStoreView:
    """Every broker with load data, sorted by name, and what else a strategy must know."""

    now_ms: int
    brokers: tuple[str, ...]
    load: Floats
    """``weightedMaxEMA``: a fraction, above 1 when limits are exceeded."""
    throughput: Floats
    """Bytes/s in and out, as last measured."""
    throughput_average: Floats
    """``msgThroughputEMA``."""
    updated_at: npt.NDArray[np.int64]
    top: tuple[TopBundles | None, ...]
    """Busiest bundles of each broker; None when it published none."""
    unpublished: tuple[str, ...]
    """Registered brokers without load data, by name."""
    recently_unloaded: frozenset[str]
    unloaded_brokers: Mapping[str, int]
    """When bundles last left or joined a broker (milliseconds)."""
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
        """Build the view from one parsed line of JSON (see ``counterpoise decide shed --help``).

        Beside what the line must have it may say ``availableBrokers``, ``owners`` {bundle: broker},
        ``bundlesWithPolicies`` and ``allowedBrokers`` {bundle: [broker]}. Raises ``LoadDataError``
        naming the field and what was expected there.
        """
        data = read_object(value, "load data")
        for name, expected in (("now", "the time in milliseconds"), ("brokers", "an object")):
            if name not in data:
                raise LoadDataError(name, expected)
        brokers = read_object(data["brokers"], "brokers")
        loads, top = {}, {}
        for name, entry in brokers.items():
            path = f"brokers[{name!r}]"
            records = read_object(entry, path)
            if records.get("brokerLoadData") is not None:
                where = f"{path}.brokerLoadData"
                loads[name] = BrokerLoadData.from_json(records["brokerLoadData"], where)
            if records.get("topBundlesLoadData") is not None:
                where = f"{path}.topBundlesLoadData"
                top[name] = TopBundlesLoadData.from_json(records["topBundlesLoadData"], where)
        return LoadStoreView.of(
            read_integer(data["now"], "now"),
            loads,
            top,
            available=read_texts(data.get("availableBrokers", list(brokers)), "availableBrokers"),
            recently_unloaded=read_times(data, "recentlyUnloadedBundles"),
            unloaded_brokers=read_times(data, "recentlyUnloadedBrokers"),
            rules=_rules(data),
        )


def _bundles(record: TopBundlesLoadData) -> TopBundles:
    return tuple((each.bundle_name, each.throughput) for each in record.top_bundles_load_data)


def _object(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return read_object(data.get(name, {}), name)


def _rules(data: Mapping[str, Any]) -> BundleRules:
    owners = None
    if "owners" in data:
        owners = {
            bundle: read_text(broker, f"owners[{bundle!r}]")
            for bundle, broker in _object(data, "owners").items()
        }
    return BundleRules(
        owners,
        frozenset(read_texts(data.get("bundlesWithPolicies", []), "bundlesWithPolicies")),
        {
            bundle: frozenset(read_texts(brokers, f"allowedBrokers[{bundle!r}]"))
            for bundle, brokers in _object(data, "allowedBrokers").items()
        },
    )

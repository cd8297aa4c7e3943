"""The busiest bundles of a broker, as it publishes them (``TopKBundles``, PIP-192)."""

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Final

from counterpoise.load.extensible import BundleLoadData, TopBundlesLoadData
from counterpoise.load.ranking import stats_key
from counterpoise.load.report import NamespaceBundleStats
from counterpoise.load.view import bundle_namespace
from counterpoise.names.namespace import is_left_in_place

MAX_BUNDLES: Final = 10
"""Default of ``loadBalancerMaxNumberOfBundlesInBundleLoadReport``."""

Rank = tuple[float, ...]
"""Figures by which bundles are compared, the first one first: a busier bundle has greater ones."""
_LEAST_SLOTS: Final = 16
_FULL: Final = 0.75
"""Load factor of Java's hash tables: one grows when this part of its slots is used."""


def top_bundles(
    stats: Mapping[str, NamespaceBundleStats],
    most: int = MAX_BUNDLES,
    with_policies: Collection[str] = (),
) -> TopBundlesLoadData:
    """The ``most`` busiest bundles, the least busy of them first.

    Bundles without traffic, of Pulsar's own namespaces and of the namespaces ``with_policies``
    (isolation or anti-affinity; pass none when those may be shed too) are left out. Bundles that
    rank alike are settled by name; Java leaves them in the order of its partitioning.
    """
    eligible = [
        (name, each)
        for name, each in sorted(stats.items())
        if each.msg_throughput_in + each.msg_throughput_out != 0
        and not _kept(bundle_namespace(name), with_policies)
    ]
    eligible.sort(key=lambda item: stats_key(item[1]), reverse=True)
    return TopBundlesLoadData(
        tuple(BundleLoadData(name, each) for name, each in reversed(eligible[: max(most, 0)]))
    )


def as_published(ranks: Mapping[str, Rank], most: int, owned: int) -> list[str]:
    """The ``most`` busiest bundles of a broker in the order in which Pulsar publishes them.

    ``ranks`` has the rank of each bundle with traffic; ``owned`` is how many bundles the broker
    owns in all. Equal ranks are ordered as ``TopKBundles.partitionSort`` leaves what it got from a
    ``ConcurrentHashMap``, whose table is taken to be as large as ``owned`` bundles need.
    """
    slots = _LEAST_SLOTS
    while owned >= _FULL * slots:
        slots *= 2
    names = sorted(sorted(ranks), key=lambda name: _spread(name) & (slots - 1))
    most = max(0, min(most, len(names)))
    end = _partition(names, ranks, most - 1)
    names[:end] = sorted(names[:end], key=ranks.__getitem__, reverse=True)
    return names[:most][::-1]


def _partition(names: list[str], ranks: Mapping[str, Rank], count: int) -> int:
    """Move the ``count`` + 1 busiest bundles to the front, in place.

    By a quickselect with the last bundle as pivot. Returns how many of them the caller has to sort;
    those behind them rank alike.
    """
    start, end = 0, len(names) - 1
    while start < end:
        low, at, high = start, start, end
        pivot = ranks[names[high]]
        while at <= high:
            if ranks[names[at]] > pivot:
                names[low], names[at] = names[at], names[low]
                low, at = low + 1, at + 1
            elif ranks[names[at]] < pivot:
                names[at], names[high] = names[high], names[at]
                high -= 1
            else:
                at += 1
        if low <= count < at:
            return low
        start, end = (start, low - 1) if count < low else (at, end)
    return end


@lru_cache(maxsize=1 << 16)
def _spread(name: str) -> int:
    """The hash of a text as ``ConcurrentHashMap`` takes it from ``String.hashCode``."""
    value = 0
    for character in name:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    return value ^ value >> 16


def _kept(namespace: str, with_policies: Collection[str]) -> bool:
    return is_left_in_place(namespace) or namespace in with_policies

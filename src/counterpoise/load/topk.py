"""The busiest bundles of a broker, as it publishes them (``TopKBundles``, PIP-192)."""

from collections.abc import Collection, Mapping
from typing import Final

from counterpoise.load.extensible import BundleLoadData, TopBundlesLoadData
from counterpoise.load.ranking import stats_key
from counterpoise.load.report import NamespaceBundleStats
from counterpoise.load.view import bundle_namespace
from counterpoise.names.namespace import is_left_in_place

MAX_BUNDLES: Final = 10
"""Default of ``loadBalancerMaxNumberOfBundlesInBundleLoadReport``."""


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


def _kept(namespace: str, with_policies: Collection[str]) -> bool:
    return is_left_in_place(namespace) or namespace in with_policies

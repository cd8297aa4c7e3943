"""Checks of how namespaces are cut into bundles, and when bundles are split."""

from collections.abc import Iterator

from counterpoise.app.doctor.diagnosis import Diagnosis, Shown, finding
from counterpoise.app.doctor.setup import MANAGER, Setup

_BUNDLES = "defaultNumberOfNamespaceBundles"
_MAXIMUM = "loadBalancerNamespaceMaximumBundles"
_AUTO = "loadBalancerAutoBundleSplitEnabled"
_UNLOAD = "loadBalancerAutoUnloadSplitBundlesEnabled"
_MBYTES = "loadBalancerNamespaceBundleMaxBandwidthMbytes"
_ALGORITHM = "defaultNamespaceBundleSplitAlgorithm"
_SUPPORTED = "supportedNamespaceBundleSplitAlgorithms"
_DIFFERENCE = "flowOrQpsDifferenceThresholdPercentage"

_FLOW = "flow_or_qps_equally_divide"
_POSITIONS = "specified_positions_divide"
_RANGE = "range_equally_divide"

BUNDLES_PER_BROKER = 4
"""Fewer bundles per broker than this leave a shedder little to choose from."""

OVERFLOW_MBYTES = 2048
"""From this many MiB/s on, the limit in bytes/s overflows Pulsar's 32-bit integer."""


def fewer_than_brokers(setup: Setup) -> Iterator[Diagnosis]:
    """Find too few bundles for the number of brokers."""
    brokers = setup.brokers
    bundles = setup.get(_BUNDLES) if setup.bundles is None else setup.bundles
    if not brokers or brokers == 1 or bundles >= brokers * BUNDLES_PER_BROKER:
        return
    short = bundles < brokers
    settings = setup.show(_BUNDLES) if setup.bundles is None else {}
    settings["brokers"] = Shown(str(brokers))
    if setup.bundles is not None:
        settings["bundles"] = Shown(str(bundles))
    yield finding(
        "fewer-bundles-than-brokers" if short else "few-bundles",
        settings,
        {_BUNDLES: str(max(32, brokers * BUNDLES_PER_BROKER))},
        brokers=brokers,
        bundles=bundles,
        missing=brokers - bundles,
        most=-(-bundles // brokers),
        least=bundles // brokers,
    )


def bandwidth_overflow(setup: Setup) -> Iterator[Diagnosis]:
    """Find a bandwidth limit for splits that overflows Pulsar's 32-bit arithmetic."""
    mbytes = setup.get(_MBYTES)
    if mbytes < OVERFLOW_MBYTES:
        return
    limit = (mbytes * 1048576 + 2**31) % 2**32 - 2**31
    yield finding(
        f"bandwidth-overflow/{'negative' if limit <= 0 else 'lower'}",
        setup.show(_MBYTES),
        {_MBYTES: str(OVERFLOW_MBYTES - 1)},
        mbytes=mbytes,
        limit=limit,
    )


def algorithm(setup: Setup) -> Iterator[Diagnosis]:
    """Find a default split algorithm that automatic splits, or the load manager, cannot use."""
    name = setup.get(_ALGORITHM)
    if name not in setup.get(_SUPPORTED):
        yield finding(
            "algorithm-not-supported",
            setup.show(_ALGORITHM, _SUPPORTED),
            {_SUPPORTED: ",".join((*setup.get(_SUPPORTED), name))},
        )
    if name == _POSITIONS and setup.get(_AUTO):
        yield finding(
            "automatic-split-needs-positions", setup.show(_ALGORITHM, _AUTO), {_ALGORITHM: _RANGE}
        )
    if name == _FLOW and setup.manager == "extensible" and setup.get(_AUTO):
        yield finding(
            "extensible-refuses-flow",
            setup.show(MANAGER, _ALGORITHM),
            {_ALGORITHM: "topic_count_equally_divide"},
        )


def flow_not_default(setup: Setup) -> Iterator[Diagnosis]:
    """Find ``flow_or_qps_equally_divide`` not configured as default, where its splits fail."""
    if setup.get(_ALGORITHM) == _FLOW or not setup.changed(_DIFFERENCE):
        return
    yield finding(
        "flow-works-only-as-default", setup.show(_ALGORITHM, _DIFFERENCE), {_ALGORITHM: _FLOW}
    )


def maximum(setup: Setup) -> Iterator[Diagnosis]:
    """Find a maximum of bundles that new namespaces already have, so that none is ever split."""
    start = setup.get(_BUNDLES) if setup.bundles is None else setup.bundles
    limit = setup.get(_MAXIMUM)
    if setup.get(_AUTO) and start >= limit:
        yield finding(
            "never-splits",
            setup.show(_BUNDLES, _MAXIMUM),
            {_MAXIMUM: str(start * 4)},
            limit=limit,
            start=start,
        )


def split_without_unload(setup: Setup) -> Iterator[Diagnosis]:
    """Find automatic splits whose parts stay on the broker; a cluster of one never splits."""
    if setup.get(_AUTO) and not setup.get(_UNLOAD) and setup.manager == "modular":
        yield finding("split-stays", setup.show(_AUTO, _UNLOAD), {_UNLOAD: "true"})
    if setup.get(_AUTO) and setup.brokers == 1 and setup.manager == "modular":
        yield finding("one-broker-never-splits", {**setup.show(_AUTO), "brokers": Shown("1")})


CHECKS = (
    fewer_than_brokers,
    bandwidth_overflow,
    algorithm,
    flow_not_default,
    maximum,
    split_without_unload,
)

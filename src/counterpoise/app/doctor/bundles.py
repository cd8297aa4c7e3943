"""Checks of how namespaces are cut into bundles, and when bundles are split."""

from __future__ import annotations

from collections.abc import Iterator

from counterpoise.app.doctor.diagnosis import Diagnosis, Severity, Shown
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
"""Fewer than this leaves a strategy little to choose from."""

OVERFLOW_MBYTES = 2048
"""From here on the bandwidth limit leaves 32 bits."""


def fewer_than_brokers(setup: Setup) -> Iterator[Diagnosis]:
    """Find a namespace with too few bundles for the cluster."""
    brokers = setup.brokers
    bundles = setup.get(_BUNDLES) if setup.bundles is None else setup.bundles
    if not brokers or brokers == 1 or bundles >= brokers * BUNDLES_PER_BROKER:
        return
    short = bundles < brokers
    settings = setup.show(_BUNDLES) if setup.bundles is None else {}
    settings["brokers"] = Shown(str(brokers))
    if setup.bundles is not None:
        settings["bundles"] = Shown(str(bundles))
    if short:
        why = f"{brokers - bundles} of {brokers} brokers can get nothing of such a namespace."
    else:
        most = -(-bundles // brokers)
        why = (
            f"{bundles} bundles over {brokers} brokers are {most} for one and "
            f"{bundles // brokers} for another at best; one hot bundle is a broker's whole share."
        )
    yield Diagnosis(
        "fewer-bundles-than-brokers" if short else "few-bundles",
        "fewer bundles than brokers" if short else "few bundles for so many brokers",
        why + " A namespace keeps the number it began with, and bundles are never merged.",
        settings,
        {_BUNDLES: str(max(32, brokers * BUNDLES_PER_BROKER))},
        severity=Severity.PROBLEM if short else Severity.ADVICE,
        issues=(17722, 10143, 26610) if short else (12137, 26610),
    )


def bandwidth_overflow(setup: Setup) -> Iterator[Diagnosis]:
    """Find a bandwidth limit for splits that overflows Pulsar's 32-bit arithmetic."""
    mbytes = setup.get(_MBYTES)
    if mbytes < OVERFLOW_MBYTES:
        return
    limit = (mbytes * 1048576 + 2**31) % 2**32 - 2**31
    yield Diagnosis(
        "bandwidth-overflow",
        "the bandwidth limit overflows",
        f"{mbytes} MiB/s become {limit} bytes/s in 32 bits: "
        + (
            "every busy bundle of two topics is above it, and split until the namespace is full."
            if limit <= 0
            else "bundles are split at that instead."
        ),
        setup.show(_MBYTES),
        {_MBYTES: str(OVERFLOW_MBYTES - 1)},
    )


def algorithm(setup: Setup) -> Iterator[Diagnosis]:
    """Find a default split algorithm that is not supported, or cannot split by itself."""
    name = setup.get(_ALGORITHM)
    if name not in setup.get(_SUPPORTED):
        yield Diagnosis(
            "algorithm-not-supported",
            "the default split algorithm is not among the supported ones",
            "A split that names it is refused, while splits that name none use it.",
            setup.show(_ALGORITHM, _SUPPORTED),
            {_SUPPORTED: ",".join((*setup.get(_SUPPORTED), name))},
        )
    if name == _POSITIONS and setup.get(_AUTO):
        yield Diagnosis(
            "automatic-split-needs-positions",
            "automatic splits always fail",
            f"{_POSITIONS} needs positions in the request, and an automatic split names none.",
            setup.show(_ALGORITHM, _AUTO),
            {_ALGORITHM: _RANGE},
        )
    if name == _FLOW and setup.manager == "extensible" and setup.get(_AUTO):
        yield Diagnosis(
            "extensible-refuses-flow",
            "the extensible load manager refuses most splits by flow",
            f"It accepts exactly one boundary; {_FLOW} answers as many as it takes to get every "
            "part below the limits, so the hotter a bundle, the surer it is not split.",
            setup.show(MANAGER, _ALGORITHM),
            {_ALGORITHM: "topic_count_equally_divide"},
            issues=(22254,),
        )


def flow_not_default(setup: Setup) -> Iterator[Diagnosis]:
    """Find the flow split algorithm configured but not as default, so that its splits fail."""
    if setup.get(_ALGORITHM) == _FLOW or not setup.changed(_DIFFERENCE):
        return
    yield Diagnosis(
        "flow-works-only-as-default",
        f"{_FLOW} works only as the default algorithm",
        f"{_DIFFERENCE} is read by that algorithm alone, and a split that asks for it by name ends "
        "in a ClassCastException: Pulsar collects topic loads only for the configured default.",
        setup.show(_ALGORITHM, _DIFFERENCE),
        {_ALGORITHM: _FLOW},
    )


def maximum(setup: Setup) -> Iterator[Diagnosis]:
    """Find a maximum of bundles that is reached from the start, so that none is ever split."""
    start = setup.get(_BUNDLES) if setup.bundles is None else setup.bundles
    limit = setup.get(_MAXIMUM)
    if setup.get(_AUTO) and start >= limit:
        yield Diagnosis(
            "never-splits",
            "no bundle is ever split automatically",
            f"A namespace with {limit} bundles is split no further, and this one begins with "
            f"{start}; the log says so on every round.",
            setup.show(_BUNDLES, _MAXIMUM),
            {_MAXIMUM: str(start * 4)},
            issues=(9484,),
        )


def split_without_unload(setup: Setup) -> Iterator[Diagnosis]:
    """Find automatic splits without unload: all parts stay on their broker."""
    if setup.get(_AUTO) and not setup.get(_UNLOAD) and setup.manager == "modular":
        yield Diagnosis(
            "split-stays",
            "a split relieves no broker by itself",
            "All parts of a split bundle stay with its broker until they are shed.",
            setup.show(_AUTO, _UNLOAD),
            {_UNLOAD: "true"},
            severity=Severity.ADVICE,
        )
    if setup.get(_AUTO) and setup.brokers == 1 and setup.manager == "modular":
        yield Diagnosis(
            "one-broker-never-splits",
            "a cluster of one broker never splits a bundle",
            "The modular manager looks for bundles to split only when it knows two brokers.",
            {**setup.show(_AUTO), "brokers": Shown("1")},
            severity=Severity.ADVICE,
        )


CHECKS = (
    fewer_than_brokers,
    bandwidth_overflow,
    algorithm,
    flow_not_default,
    maximum,
    split_without_unload,
)

"""Checks of thresholds and minimum loads ("floors") below which a shedder moves nothing."""

from collections.abc import Iterator

from counterpoise.app.doctor.diagnosis import Diagnosis, Severity, finding
from counterpoise.app.doctor.setup import SHEDDER, Setup

SMALL_CLUSTER = 5
"""With at most this many brokers, the default floors are a problem, not advice.

They suit large clusters."""

_THRESHOLD = "loadBalancerBrokerThresholdShedderPercentage"
_FLOOR = "loadBalancerBundleUnloadMinThroughputThreshold"
_LOWER = "lowerBoundarySheddingEnabled"
_HISTORY = "loadBalancerHistoryResourcePercentage"
_SHARE = "maxUnloadPercentage"
_RATE_FLOOR = "minUnloadMessage"
_BYTE_FLOOR = "minUnloadMessageThroughput"
_MAX_BUNDLES = "maxUnloadBundleNumPerShedding"
_RATE_THRESHOLD = "loadBalancerMsgRateDifferenceShedderThreshold"
_BYTE_THRESHOLD = "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold"
_OVERLOADED = "loadBalancerBrokerOverloadedThresholdPercentage"

_SLACK = 0.05
"""The fraction of its load that a broker sheds beyond what exceeds the threshold.

OverloadShedder and ThresholdShedder do so (their ``ADDITIONAL_THRESHOLD_PERCENT_MARGIN``)."""


def _small(setup: Setup) -> bool:
    return setup.brokers is not None and setup.brokers <= SMALL_CLUSTER


def throughput_floor(setup: Setup) -> Iterator[Diagnosis]:
    """Find a minimum throughput below which ThresholdShedder moves nothing."""
    floor = setup.number(_FLOOR)
    if setup.shedder != "ThresholdShedder" or not setup.sheds or floor <= 0:
        return
    raised = setup.given(_FLOOR) and floor > 10.0
    yield finding(
        "floor-silences-shedder/throughput",
        setup.show(SHEDDER, _FLOOR),
        {_FLOOR: "0"},
        severity=Severity.PROBLEM if _small(setup) or raised else Severity.ADVICE,
        floor=floor,
        near=floor / _SLACK,
        far=floor / (0.4 + _SLACK),
    )


def message_floor(setup: Setup) -> Iterator[Diagnosis]:
    """Find minimum rates (or a share of 0) that keep UniformLoadShedder or AvgShedder idle."""
    if setup.shedder not in ("UniformLoadShedder", "AvgShedder") or not setup.sheds:
        return
    share = setup.number(_SHARE)
    if share <= 0:
        yield finding(
            "moves-nothing/share",
            setup.show(SHEDDER, _SHARE),
            {_SHARE: "0.2"},
            shedder=setup.shedder,
        )
        return
    rate, size = setup.number(_RATE_FLOOR) / share, setup.number(_BYTE_FLOOR) / share
    if rate <= 0 or size <= 0:
        return
    raised = any(
        setup.given(name) and setup.number(name) > limit
        for name, limit in ((_RATE_FLOOR, 1000), (_BYTE_FLOOR, 1048576))
    )
    yield finding(
        "floor-silences-shedder/messages",
        setup.show(SHEDDER, _RATE_FLOOR, _BYTE_FLOOR, _SHARE),
        {_RATE_FLOOR: "10", _BYTE_FLOOR: "10240"},
        severity=Severity.PROBLEM if _small(setup) or raised else Severity.ADVICE,
        shedder=setup.shedder,
        rate=rate,
        mib=size / 1048576,
    )


def swing(setup: Setup) -> Iterator[Diagnosis]:
    """Find ``maxUnloadPercentage`` above a half: the fuller broker then becomes the emptier one."""
    if setup.shedder in ("UniformLoadShedder", "AvgShedder") and setup.number(_SHARE) > 0.5:
        yield finding(
            "moves-more-than-half",
            setup.show(SHEDDER, _SHARE),
            {_SHARE: "0.2"},
            share=setup.number(_SHARE),
        )


def uniform_off(setup: Setup) -> Iterator[Diagnosis]:
    """Find a UniformLoadShedder whose thresholds are all off, so that it never acts."""
    if setup.shedder != "UniformLoadShedder":
        return
    if setup.number(_RATE_THRESHOLD) <= 0 and setup.number(_BYTE_THRESHOLD) <= 0:
        yield finding(
            "uniform-thresholds-off",
            setup.show(_RATE_THRESHOLD, _BYTE_THRESHOLD),
            {_RATE_THRESHOLD: "50", _BYTE_THRESHOLD: "4"},
        )
    if setup.get(_MAX_BUNDLES) == 0:
        yield finding("moves-nothing/bundles", setup.show(_MAX_BUNDLES), {_MAX_BUNDLES: "-1"})


def lower_boundary(setup: Setup) -> Iterator[Diagnosis]:
    """Find ThresholdShedder without ``lowerBoundarySheddingEnabled``: idle brokers get no load."""
    if setup.shedder != "ThresholdShedder" or not setup.sheds or setup.get(_LOWER):
        return
    threshold = setup.number(_THRESHOLD)
    brokers = setup.brokers
    sure = brokers is not None and brokers > 1 and 80.0 / brokers < threshold
    shown = brokers if sure else 10
    average = 80.0 * (shown - 1) / shown if shown else 0.0
    yield finding(
        "idle-broker-stays-idle",
        setup.show(SHEDDER, _LOWER, _THRESHOLD),
        {_LOWER: "true"},
        severity=Severity.PROBLEM if sure else Severity.ADVICE,
        shown=shown,
        average=average,
        threshold=threshold,
    )


def overload_only(setup: Setup) -> Iterator[Diagnosis]:
    """Find OverloadShedder, which moves nothing while no broker exceeds its fixed threshold."""
    if setup.shedder == "OverloadShedder" and setup.sheds:
        limit = setup.get(_OVERLOADED)
        yield finding(
            "overload-shedder-waits",
            setup.show(SHEDDER, _OVERLOADED),
            {SHEDDER: "org.apache.pulsar.broker.loadbalance.impl.AvgShedder"},
            severity=Severity.PROBLEM if limit > 100 else Severity.ADVICE,
            below=limit - 1,
        )


def history(setup: Setup) -> Iterator[Diagnosis]:
    """Find a weight of past usage so large that the moving average lags, or never changes."""
    uses = setup.shedder == "ThresholdShedder" or setup.placement == "LeastResourceUsageWithWeight"
    share = setup.number(_HISTORY)
    if not uses or setup.manager == "simple":
        return
    if share >= 1.0:
        yield finding("history-never-changes", setup.show(_HISTORY), {_HISTORY: "0.9"})
    elif share > 0.9 and setup.shedder == "ThresholdShedder":
        yield finding("history-lags", setup.show(SHEDDER, _HISTORY), {_HISTORY: "0.9"})


CHECKS = (
    throughput_floor,
    message_floor,
    swing,
    uniform_off,
    lower_boundary,
    overload_only,
    history,
)

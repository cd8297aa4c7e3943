"""Checks of intervals, grace periods and hit counts that work against each other."""

from collections.abc import Iterator

from counterpoise.app.doctor.diagnosis import Diagnosis, Severity, finding
from counterpoise.app.doctor.setup import MANAGER, SHEDDER, Setup

_ENABLED = "loadBalancerEnabled"
_SHEDDING = "loadBalancerSheddingEnabled"
_INTERVAL = "loadBalancerSheddingIntervalMinutes"
_GRACE = "loadBalancerSheddingGracePeriodMinutes"
_HOST = "loadBalancerHostUsageCheckIntervalMinutes"
_STATS = "statsUpdateFrequencyInSecs"
_REPORT_MIN = "loadBalancerReportUpdateMinIntervalMillis"
_REPORT_MAX = "loadBalancerReportUpdateMaxIntervalMinutes"
_TTL = "loadBalancerBrokerLoadDataTTLInSeconds"
_AVG = "loadBalancerAvgShedder"
_TARGET = "loadBalancerBrokerLoadTargetStd"
_PER_CYCLE = "loadBalancerMaxNumberOfBrokerSheddingPerCycle"
_PREFER = "preferLaterVersions"

_WORST_DEVIATION = 0.5


def switched_off(setup: Setup) -> Iterator[Diagnosis]:
    """Find settings that another setting makes ineffective."""
    if not setup.get(_ENABLED):
        names = [SHEDDER] if setup.changed(SHEDDER) else []
        yield finding(
            "balancing-off",
            setup.show(_ENABLED, *names),
            {_ENABLED: "true"},
            severity=Severity.PROBLEM if names else Severity.ADVICE,
        )
    elif not setup.get(_SHEDDING):
        yield finding("shedding-off", setup.show(_SHEDDING))


def grace_period(setup: Setup) -> Iterator[Diagnosis]:
    """Find a grace period so short that a moved bundle may be moved again in the next round."""
    grace, interval = setup.get(_GRACE), setup.get(_INTERVAL)
    if setup.manager == "modular" and setup.sheds and grace < interval:
        yield finding(
            "no-grace",
            setup.show(_GRACE, _INTERVAL),
            {_GRACE: "30"},
            interval=interval,
            grace=grace,
        )


def stale_measurements(setup: Setup) -> Iterator[Diagnosis]:
    """Find measurements or load reports that come more rarely than rounds of shedding."""
    if not setup.sheds:
        return
    interval = setup.number(_INTERVAL) * 60
    slow = [
        name
        for name, seconds in (
            (_HOST, setup.number(_HOST) * 60),
            (_STATS, setup.number(_STATS)),
            (_REPORT_MIN, setup.number(_REPORT_MIN) / 1000),
        )
        if seconds > interval
    ]
    if slow:
        yield finding(
            "rounds-outrun-reports", setup.show(_INTERVAL, *slow), dict(_prompt(slow, setup))
        )


def _prompt(slow: list[str], setup: Setup) -> Iterator[tuple[str, str]]:
    for name in slow:
        minutes = setup.get(_INTERVAL)
        yield (name, {_HOST: str(minutes), _STATS: str(minutes * 60), _REPORT_MIN: "5000"}[name])


def outdated_by_design(setup: Setup) -> Iterator[Diagnosis]:
    """Find load reports that count as outdated before a broker with steady load writes the next."""
    if setup.manager != "extensible" or setup.number(_TTL) > setup.number(_REPORT_MAX) * 60:
        return
    yield finding(
        "reports-expire-too-soon",
        setup.show(_TTL, _REPORT_MAX),
        {_TTL: str(int(setup.number(_REPORT_MAX) * 120))},
        ttl=setup.get(_TTL),
        report_max=setup.get(_REPORT_MAX),
    )


def avg_thresholds(setup: Setup) -> Iterator[Diagnosis]:
    """Find AvgShedder's two thresholds, or their hit counts, in the wrong order."""
    if setup.shedder != "AvgShedder":
        return
    low, high = _AVG + "LowThreshold", _AVG + "HighThreshold"
    few, many = _AVG + "HitCountHighThreshold", _AVG + "HitCountLowThreshold"
    if setup.get(low) > setup.get(high):
        yield finding("avg-thresholds-crossed", setup.show(low, high), {low: "15", high: "40"})
    if setup.get(low) <= 0:
        yield finding("avg-threshold-none", setup.show(low), {low: "15"})
    if setup.get(few) > setup.get(many):
        yield finding("avg-hits-crossed", setup.show(few, many), {few: "2", many: "8"})


def later_versions(setup: Setup) -> Iterator[Diagnosis]:
    """Find the preference for later versions: the first upgraded broker gets every bundle."""
    if setup.get(_PREFER):
        yield finding("later-versions-take-all", setup.show(_PREFER), {_PREFER: "false"})


def transfer_target(setup: Setup) -> Iterator[Diagnosis]:
    """Find settings with which TransferShedder hardly ever moves a bundle, or never does."""
    if setup.manager != "extensible":
        return
    if setup.number(_TARGET) >= _WORST_DEVIATION:
        yield finding(
            "target-deviation-unreachable", setup.show(MANAGER, _TARGET), {_TARGET: "0.25"}
        )
    if setup.get(_PER_CYCLE) <= 0:
        yield finding("moves-nothing/brokers", setup.show(_PER_CYCLE), {_PER_CYCLE: "3"})


CHECKS = (
    switched_off,
    grace_period,
    stale_measurements,
    outdated_by_design,
    avg_thresholds,
    later_versions,
    transfer_target,
)

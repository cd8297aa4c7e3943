"""Checks of intervals, grace periods and hit counts that work against each other."""

from __future__ import annotations

from collections.abc import Iterator

from counterpoise.app.doctor.diagnosis import Diagnosis, Severity
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
        yield Diagnosis(
            "balancing-off",
            "nothing is balanced",
            "Without the load balancer bundles are neither shed nor split, whatever else is set.",
            setup.show(_ENABLED, *names),
            {_ENABLED: "true"},
            severity=Severity.PROBLEM if names else Severity.ADVICE,
        )
    elif not setup.get(_SHEDDING):
        yield Diagnosis(
            "shedding-off",
            "the brokers move no bundle by themselves",
            "Bundles are moved by a balancer beside the cluster alone: `counterpoise balance "
            "--execute` requires this setting, and works by the same strategy and thresholds.",
            setup.show(_SHEDDING),
            severity=Severity.ADVICE,
            advice="run a balancer, or the load stays where the first lookups put it",
        )


def grace_period(setup: Setup) -> Iterator[Diagnosis]:
    """Find a grace period so short that a moved bundle may be moved again in the next round."""
    grace, interval = setup.get(_GRACE), setup.get(_INTERVAL)
    if setup.manager == "modular" and setup.sheds and grace < interval:
        yield Diagnosis(
            "no-grace",
            "a bundle may be moved on every round",
            f"A round comes every {interval} min and a moved bundle is left alone for {grace}; "
            "its load is on the move before any report can show it.",
            setup.show(_GRACE, _INTERVAL),
            {_GRACE: "30"},
            issues=(16059,),
        )


def stale_measurements(setup: Setup) -> Iterator[Diagnosis]:
    """Find shedding rounds that come faster than new measurements."""
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
        yield Diagnosis(
            "rounds-outrun-reports",
            "decisions are taken faster than load is measured",
            "The same measurement is counted on several rounds: hit counts and averages see it "
            "again, and what was just moved is moved once more.",
            setup.show(_INTERVAL, *slow),
            dict(_prompt(slow, setup)),
        )


def _prompt(slow: list[str], setup: Setup) -> Iterator[tuple[str, str]]:
    for name in slow:
        minutes = setup.get(_INTERVAL)
        yield (
            name,
            {_HOST: str(minutes), _STATS: str(minutes * 60), _REPORT_MIN: "5000"}[name],
        )


def outdated_by_design(setup: Setup) -> Iterator[Diagnosis]:
    """Find load reports that count as outdated before a broker with steady load writes the next."""
    if setup.manager != "extensible" or setup.number(_TTL) > setup.number(_REPORT_MAX) * 60:
        return
    yield Diagnosis(
        "reports-expire-too-soon",
        "a quiet broker's report expires before it writes the next one",
        f"TransferShedder leaves out brokers whose report is older than {setup.get(_TTL)} s, and "
        f"a broker whose load does not change reports every {setup.get(_REPORT_MAX)} min.",
        setup.show(_TTL, _REPORT_MAX),
        {_TTL: str(int(setup.number(_REPORT_MAX) * 120))},
    )


def avg_thresholds(setup: Setup) -> Iterator[Diagnosis]:
    """Find AvgShedder's two thresholds, or their hit counts, in the wrong order."""
    if setup.shedder != "AvgShedder":
        return
    low, high = _AVG + "LowThreshold", _AVG + "HighThreshold"
    few, many = _AVG + "HitCountHighThreshold", _AVG + "HitCountLowThreshold"
    if setup.get(low) > setup.get(high):
        yield Diagnosis(
            "avg-thresholds-crossed",
            "AvgShedder's low threshold is above its high one",
            "Nothing below the low threshold counts at all, so the high one decides nothing.",
            setup.show(low, high),
            {low: "15", high: "40"},
        )
    if setup.get(low) <= 0:
        yield Diagnosis(
            "avg-threshold-none",
            "AvgShedder counts every pair of brokers as uneven",
            "With a low threshold of 0 it moves bundles between equal brokers, and pairs an odd "
            "broker with itself.",
            setup.show(low),
            {low: "15"},
        )
    if setup.get(few) > setup.get(many):
        yield Diagnosis(
            "avg-hits-crossed",
            "AvgShedder waits longer the greater the difference",
            "The high threshold is there to act sooner, and here it needs more hits.",
            setup.show(few, many),
            {few: "2", many: "8"},
        )


def later_versions(setup: Setup) -> Iterator[Diagnosis]:
    """Find the preference for later versions: the first upgraded broker gets every bundle."""
    if setup.get(_PREFER):
        yield Diagnosis(
            "later-versions-take-all",
            "the first upgraded broker gets every bundle that moves",
            "Until the second one runs the new version it is the only candidate; one broker "
            "without a readable version switches the preference off.",
            setup.show(_PREFER),
            {_PREFER: "false"},
            severity=Severity.ADVICE,
            advice="switch it on for the upgrade only",
        )


def transfer_target(setup: Setup) -> Iterator[Diagnosis]:
    """Find a TransferShedder whose target deviation hardly any cluster exceeds."""
    if setup.manager != "extensible":
        return
    if setup.number(_TARGET) >= _WORST_DEVIATION:
        yield Diagnosis(
            "target-deviation-unreachable",
            "no cluster is uneven enough for TransferShedder",
            f"Usage between 0 and 100 % deviates by {_WORST_DEVIATION} at the very most, half the "
            "brokers full and half idle; the target is not below that.",
            setup.show(MANAGER, _TARGET),
            {_TARGET: "0.25"},
        )
    if setup.get(_PER_CYCLE) <= 0:
        yield Diagnosis(
            "moves-nothing",
            "TransferShedder may shed from no broker at all",
            '0 brokers a round is none, not "no limit".',
            setup.show(_PER_CYCLE),
            {_PER_CYCLE: "3"},
        )


CHECKS = (
    switched_off,
    grace_period,
    stale_measurements,
    outdated_by_design,
    avg_thresholds,
    later_versions,
    transfer_target,
)

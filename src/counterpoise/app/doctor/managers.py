"""Checks of the load manager and of its shedding and placement strategies."""

from collections.abc import Iterator

from counterpoise.app.doctor.diagnosis import Diagnosis, Severity, finding
from counterpoise.app.doctor.setup import (
    AVG_SHEDDER,
    IMPL,
    MANAGER,
    PLACEMENT,
    PLACEMENTS,
    SHEDDER,
    SHEDDERS,
    TRANSFER_SHEDDER,
    Setup,
)
from counterpoise.names.load_managers import EXTENSIBLE, MODULAR

EVEN = "loadBalancerDistributeBundlesEvenlyEnabled"
"""The setting by which brokers with the fewest bundles of a namespace get its next one."""


def load_manager(setup: Setup) -> Iterator[Diagnosis]:
    """Find a load manager that is missing or unknown, so that Pulsar starts another one."""
    name = setup.get(MANAGER)
    blank = MANAGER in setup.properties.values and not setup.given(MANAGER)
    if blank or name not in (MODULAR, EXTENSIBLE):
        yield finding(
            f"load-manager-falls-back/{'blank' if blank else 'unknown'}",
            setup.show(MANAGER),
            {MANAGER: EXTENSIBLE},
        )


def _certainty(name: str) -> Severity:
    """Return an unknown strategy class's severity: advice for an operator's own, else a problem.

    A class is an operator's own if it is in a package other than Pulsar's.
    """
    own = "." in name and not name.startswith("org.apache.pulsar.")
    return Severity.ADVICE if own else Severity.PROBLEM


def shedder_class(setup: Setup) -> Iterator[Diagnosis]:
    """Find a shedding strategy that the load manager cannot use."""
    name = setup.get(SHEDDER)
    if setup.get(MANAGER) == EXTENSIBLE:
        if setup.given(SHEDDER) and name != TRANSFER_SHEDDER:
            yield finding(
                "extensible-ignores-shedder",
                setup.show(MANAGER, SHEDDER),
                {SHEDDER: TRANSFER_SHEDDER},
            )
        return
    if name == TRANSFER_SHEDDER:
        yield finding(
            "shedder-of-other-manager", setup.show(MANAGER, SHEDDER), {MANAGER: EXTENSIBLE}
        )
    elif name not in SHEDDERS:
        yield finding(
            "unknown-shedder",
            setup.show(SHEDDER),
            {SHEDDER: AVG_SHEDDER},
            severity=_certainty(name),
            known=", ".join(each.rpartition(".")[2] for each in SHEDDERS),
        )


def placement_class(setup: Setup) -> Iterator[Diagnosis]:
    """Find a placement strategy that the load manager cannot use."""
    name = setup.get(PLACEMENT)
    if setup.get(MANAGER) == EXTENSIBLE:
        if setup.given(PLACEMENT):
            yield finding("extensible-ignores-placement", setup.show(MANAGER, PLACEMENT))
    elif name not in PLACEMENTS:
        yield finding(
            "unknown-placement",
            setup.show(PLACEMENT),
            {PLACEMENT: IMPL + "LeastResourceUsageWithWeight"},
            severity=_certainty(name),
            known=", ".join(each.rpartition(".")[2] for each in PLACEMENTS),
        )


def avg_shedder_pair(setup: Setup) -> Iterator[Diagnosis]:
    """Find AvgShedder configured only as shedder, or only as placement strategy."""
    if setup.get(MANAGER) == EXTENSIBLE:
        return
    sheds, places = setup.get(SHEDDER) == AVG_SHEDDER, setup.get(PLACEMENT) == AVG_SHEDDER
    if places and not sheds:
        yield finding(
            "avg-shedder-pair/places", setup.show(SHEDDER, PLACEMENT), {SHEDDER: AVG_SHEDDER}
        )
    if sheds and not places:
        yield finding(
            "avg-shedder-pair/sheds", setup.show(SHEDDER, PLACEMENT), {PLACEMENT: AVG_SHEDDER}
        )


def placement_undoes_shedder(setup: Setup) -> Iterator[Diagnosis]:
    """Find a placement that may undo moves, since it does not use the shedder's measure of load."""
    if setup.manager != "modular" or not setup.sheds:
        return
    by_usage = setup.shedder in ("ThresholdShedder", "OverloadShedder")
    by_rate = setup.placement == "LeastLongTermMessageRate"
    by_turn = setup.placement == "RoundRobinBrokerSelector"
    if by_turn or (by_usage and by_rate):
        looks = "takes its turn, whatever it carries" if by_turn else "is chosen by message rate"
        yield finding(
            "placement-undoes-shedder",
            setup.show(SHEDDER, PLACEMENT),
            {SHEDDER: AVG_SHEDDER, PLACEMENT: AVG_SHEDDER},
            placement=setup.placement,
            shedder=setup.shedder,
            by="usage" if by_usage else "load",
            looks=looks,
        )


def even_distribution(setup: Setup) -> Iterator[Diagnosis]:
    """Find the filter by bundle count, which chooses brokers before any load is compared."""
    if setup.manager != "modular" or not setup.sheds or not setup.get(EVEN):
        return
    planned = setup.shedder == "AvgShedder" == setup.placement
    yield finding(
        f"even-distribution-decides/{'planned' if planned else 'ties'}",
        setup.show(EVEN, SHEDDER, PLACEMENT),
        {EVEN: "false"},
    )


WRITABLE = "systemTopicsWritableByClients"


def writable_system_topics(setup: Setup) -> Iterator[Diagnosis]:
    """Find that clients may write to ``pulsar/system``, where brokers store bundle ownership."""
    if setup.get(WRITABLE):
        yield finding("system-topics-writable", setup.show(WRITABLE), {WRITABLE: "false"})


CHECKS = (
    load_manager,
    writable_system_topics,
    shedder_class,
    placement_class,
    avg_shedder_pair,
    placement_undoes_shedder,
    even_distribution,
)

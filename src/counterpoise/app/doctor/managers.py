"""Checks of the load manager and the two strategies it is to use."""

from __future__ import annotations

from collections.abc import Iterator

from counterpoise.app.doctor.diagnosis import Diagnosis, Severity
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


def load_manager(setup: Setup) -> Iterator[Diagnosis]:
    """Find a load manager that is missing or unknown, so that Pulsar starts another one."""
    name = setup.get(MANAGER)
    blank = MANAGER in setup.properties.values and not setup.given(MANAGER)
    if blank or name not in (MODULAR, EXTENSIBLE):
        yield Diagnosis(
            "load-manager-falls-back",
            "no such load manager" if not blank else "no load manager is named",
            "Pulsar 4.0 starts the simple load manager of Pulsar 1 instead, with one warning in "
            "the log: no averages, no bundle shedding worth the name.",
            setup.show(MANAGER),
            {MANAGER: EXTENSIBLE},
            issues=(26031,),
        )


def _certainty(name: str) -> Severity:
    """Whether a class is an operator's own: it has a package, and not Pulsar's."""
    own = "." in name and not name.startswith("org.apache.pulsar.")
    return Severity.ADVICE if own else Severity.PROBLEM


def shedder_class(setup: Setup) -> Iterator[Diagnosis]:
    """Find a shedding strategy that the load manager cannot use."""
    name = setup.get(SHEDDER)
    if setup.get(MANAGER) == EXTENSIBLE:
        if setup.given(SHEDDER) and name != TRANSFER_SHEDDER:
            yield Diagnosis(
                "extensible-ignores-shedder",
                "the extensible load manager will not use this shedding strategy",
                "It knows only its own kind of strategy, and silently uses TransferShedder; "
                "settings of the one named do nothing.",
                setup.show(MANAGER, SHEDDER),
                {SHEDDER: TRANSFER_SHEDDER},
                issues=(16691,),
            )
        return
    if name == TRANSFER_SHEDDER:
        yield Diagnosis(
            "shedder-of-other-manager",
            "TransferShedder belongs to the extensible load manager",
            "The modular manager cannot create it, fails to start, and Pulsar 4.0 silently goes on "
            "with the simple load manager.",
            setup.show(MANAGER, SHEDDER),
            {MANAGER: EXTENSIBLE},
            issues=(26031,),
        )
    elif name not in SHEDDERS:
        yield Diagnosis(
            "unknown-shedder",
            "Pulsar 4.0 has no such shedding strategy",
            "Unless the class is on the brokers' own class path, the modular manager fails to "
            "start and Pulsar silently goes on with the simple load manager.",
            setup.show(SHEDDER),
            {SHEDDER: AVG_SHEDDER},
            severity=_certainty(name),
            advice="there are " + ", ".join(each.rpartition(".")[2] for each in SHEDDERS),
            issues=(26031,),
        )


def placement_class(setup: Setup) -> Iterator[Diagnosis]:
    """Find a placement strategy that the load manager cannot use."""
    name = setup.get(PLACEMENT)
    if setup.get(MANAGER) == EXTENSIBLE:
        if setup.given(PLACEMENT):
            yield Diagnosis(
                "extensible-ignores-placement",
                "the extensible load manager does not read the placement strategy",
                "It always places by LeastResourceUsageWithWeight, its own one.",
                setup.show(MANAGER, PLACEMENT),
                advice=f"delete {PLACEMENT}, since it misleads its readers",
                issues=(16691,),
            )
    elif name not in PLACEMENTS:
        yield Diagnosis(
            "unknown-placement",
            "Pulsar 4.0 has no such placement strategy",
            "Unless the class is on the brokers' own class path, the modular manager fails to "
            "start and Pulsar silently goes on with the simple load manager.",
            setup.show(PLACEMENT),
            {PLACEMENT: IMPL + "LeastResourceUsageWithWeight"},
            severity=_certainty(name),
            advice="there are " + ", ".join(each.rpartition(".")[2] for each in PLACEMENTS),
            issues=(26031,),
        )


def avg_shedder_pair(setup: Setup) -> Iterator[Diagnosis]:
    """Find AvgShedder configured only as shedder, or only as placement strategy."""
    if setup.get(MANAGER) == EXTENSIBLE:
        return
    sheds, places = setup.get(SHEDDER) == AVG_SHEDDER, setup.get(PLACEMENT) == AVG_SHEDDER
    if places and not sheds:
        yield Diagnosis(
            "avg-shedder-pair",
            "AvgShedder places bundles, but another strategy sheds them",
            "The modular manager refuses the pair and fails to start; Pulsar 4.0 silently goes on "
            "with the simple load manager.",
            setup.show(SHEDDER, PLACEMENT),
            {SHEDDER: AVG_SHEDDER},
            issues=(26031, 23156),
        )
    if sheds and not places:
        yield Diagnosis(
            "avg-shedder-pair",
            "AvgShedder sheds bundles, but another strategy places them",
            "It plans a target for each bundle that it takes away, and nothing reads it: the "
            "bundle goes wherever the placement strategy likes.",
            setup.show(SHEDDER, PLACEMENT),
            {PLACEMENT: AVG_SHEDDER},
            issues=(22946, 26031),
        )


def placement_undoes_shedder(setup: Setup) -> Iterator[Diagnosis]:
    """Find a placement that may move bundles back, since it does not use the shedder's figures."""
    if setup.manager != "modular" or not setup.sheds:
        return
    by_usage = setup.shedder in ("ThresholdShedder", "OverloadShedder")
    by_rate = setup.placement == "LeastLongTermMessageRate"
    by_turn = setup.placement == "RoundRobinBrokerSelector"
    if by_turn or (by_usage and by_rate):
        looks = "takes its turn, whatever it carries" if by_turn else "is chosen by message rate"
        yield Diagnosis(
            "placement-undoes-shedder",
            f"{setup.placement} undoes what {setup.shedder} does",
            f"A broker sheds by its {'usage' if by_usage else 'load'}, and the one that takes the "
            f"bundle {looks}: a bundle shed from a hot broker is routinely placed on another hot "
            "broker, and shed again.",
            setup.show(SHEDDER, PLACEMENT),
            {SHEDDER: AVG_SHEDDER, PLACEMENT: AVG_SHEDDER},
            advice="AvgShedder in both roles plans each bundle's target; it became the default",
            issues=(26609,),
        )


def even_distribution(setup: Setup) -> Iterator[Diagnosis]:
    """Find the filter by bundle count enabled, which decides before any load is compared."""
    if setup.manager != "modular" or not setup.sheds or not setup.get(EVEN):
        return
    planned = setup.shedder == "AvgShedder" == setup.placement
    yield Diagnosis(
        "even-distribution-decides",
        "bundles go where their namespace has the fewest, whatever the load",
        (
            "The broker that AvgShedder planned for a bundle is dropped unless it has the fewest "
            "bundles of the namespace; the bundle then goes to a random one of those that have."
            if planned
            else "The placement strategy only settles ties among brokers with the fewest bundles "
            "of a namespace; idle brokers stay hidden while counts are even."
        ),
        setup.show(EVEN, SHEDDER, PLACEMENT),
        {EVEN: "false"},
        severity=Severity.PROBLEM if planned else Severity.ADVICE,
        issues=(16059,),
    )


WRITABLE = "systemTopicsWritableByClients"


def writable_system_topics(setup: Setup) -> Iterator[Diagnosis]:
    """Find that clients may write to ``pulsar/system``, where brokers store bundle ownership."""
    if setup.get(WRITABLE):
        yield Diagnosis(
            "system-topics-writable",
            "every client may write to the topics of pulsar/system",
            "A client that writes bundles' states there moves bundles or stops them. Brokers and "
            "super users write there without this setting.",
            setup.show(WRITABLE),
            {WRITABLE: "false"},
        )


CHECKS = (
    load_manager,
    writable_system_topics,
    shedder_class,
    placement_class,
    avg_shedder_pair,
    placement_undoes_shedder,
    even_distribution,
)

"""Checks of the weights with which resources count as a broker's load."""

from collections.abc import Iterator

from counterpoise.app.doctor.diagnosis import Diagnosis, finding
from counterpoise.app.doctor.setup import Setup

_CPU = "loadBalancerCPUResourceWeight"
_MEMORY = "loadBalancerMemoryResourceWeight"
_DIRECT = "loadBalancerDirectMemoryResourceWeight"
_PAIRS = (
    ("loadBalancerBandwidthInResourceWeight", "loadBalancerBandwithInResourceWeight"),
    ("loadBalancerBandwidthOutResourceWeight", "loadBalancerBandwithOutResourceWeight"),
)


def memory(setup: Setup) -> Iterator[Diagnosis]:
    """Find weights above 0 for memory, which then counts as load."""
    for name in (_DIRECT, _MEMORY):
        if setup.number(name) <= 0:
            continue
        heeded = name == _DIRECT or setup.manager == "extensible"
        yield finding(
            f"memory-weight/{'heeded' if heeded else 'unread'}", setup.show(name), {name: "0"}
        )


def spelling(setup: Setup) -> Iterator[Diagnosis]:
    """Find weights under Pulsar's misspelled ``Bandwith`` names, which may override others."""
    for right, wrong in _PAIRS:
        fixed = setup.number(right)
        legacy = setup.number(wrong)
        if legacy == 1.0:
            continue
        contradicts = setup.given(right) and fixed != legacy
        wins = legacy if fixed == 1.0 else fixed
        loses = " An explicit 1.0 cannot win." if contradicts and fixed == 1.0 else ""
        yield finding(
            f"legacy-weight-spelling/{'twice' if contradicts else 'old'}",
            setup.show(right, wrong),
            {right: f"{wins:g}"},
            wins=wins,
            loses=loses,
            wrong=wrong,
        )


def nothing_counts(setup: Setup) -> Iterator[Diagnosis]:
    """Find resource weights that are all 0."""
    names = [_CPU, _DIRECT, *(right for right, _ in _PAIRS)]
    if setup.manager == "extensible":
        names.append(_MEMORY)
    inforce = [
        *(setup.number(name) for name in names if "Bandwidth" not in name),
        *(
            setup.number(right) if setup.number(right) != 1.0 else setup.number(wrong)
            for right, wrong in _PAIRS
        ),
    ]
    if not any(value > 0 for value in inforce):
        yield finding("no-resource-counts", setup.show(*names), {_CPU: "1.0"})


CHECKS = (memory, spelling, nothing_counts)

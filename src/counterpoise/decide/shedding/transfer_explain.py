"""The sentences of TransferShedder's reasons."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from counterpoise.decide.plan import Rejection, Rule
from counterpoise.decide.shedding.explain import GRACE_PERIOD
from counterpoise.decide.shedding.options import TransferOptions
from counterpoise.decide.shedding.transfer_spread import DEVIATING, FULL, IDLE, Cause, Stop

_TTL = "loadBalancerBrokerLoadDataTTLInSeconds"
_DELAY = "loadBalanceSheddingDelayInSeconds"
_HITS = "loadBalancerSheddingConditionHitCountThreshold"
_STD = "loadBalancerBrokerLoadTargetStd"
_LISTED = "loadBalancerMaxNumberOfBundlesInBundleLoadReport"
_SWAPS = "loadBalancerTransferEnabled"
_POLICIES = "loadBalancerSheddingBundlesWithPoliciesEnabled"
_CAP = "loadBalancerMaxNumberOfBrokerSheddingPerCycle"
_FULL = "loadBalancerBrokerOverloadedThresholdPercentage"

_CAUSES: Final[Mapping[Cause, str]] = MappingProxyType(
    {
        DEVIATING: f"the loads deviate by {{std:.3f}}, more than {{limit:g}} ({_STD})",
        IDLE: f"{{other}} has less than {{margin:.1%}} (half of {_STD}) of the average load, or of "
        "the traffic of {source}",
        FULL: f"{{source}} is above {{full:.0f}}% ({_FULL}), and more than {{limit:g}} above the "
        f"average ({_STD})",
    }
)
BECAUSE_BACK: Final = (
    "{bundle} ({throughput:,.0f} B/s) goes from {source} to {other} in exchange for a bigger one "
    f"({_SWAPS})"
)
HELD_BY_POLICY: Final = "policy"
HELD_BY_GRACE: Final = "recently unloaded"

_STOPS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "NoBrokers": ("", "no broker has published its load"),
        "OutDatedData": (
            _TTL,
            "the newest load data is {value:,.0f} s old; after {limit:,.0f} s it says nothing "
            "({setting})",
        ),
        "CoolDown": (
            _DELAY,
            "{subject} measured its load {value:,.0f} s after bundles moved, too early; it "
            "has {limit:,.0f} s ({setting})",
        ),
    }
)


NOTHING: Final[Mapping[str, int]] = MappingProxyType({})
_HIT_COUNT: Final = "HitCount"
"""Pulsar's label for a call that moves nothing, whatever the reason."""
_NO_TURN = Rule(
    _HIT_COUNT, "the cluster is uneven, but {setting} = {limit:.0f} lets no broker shed", _CAP
)
_ALONE = Rule(
    _HIT_COUNT, "the cluster is uneven, but there is only one broker: nowhere to move anything"
)
_EVEN = Rule(
    _HIT_COUNT,
    "the brokers' loads deviate by {value:.3f} from their average, and {limit:g} is fine "
    "({setting})",
    _STD,
)
_WAITING = Rule(
    _HIT_COUNT,
    "the cluster is uneven for {value:.0f} calls in a row; after {limit:.0f} something moves "
    "({setting})",
    _HITS,
)


class Uneven(NamedTuple):
    """How uneven the cluster is, and in how many consecutive calls it was."""

    average: float
    std: float
    hits: int
    stale: int
    """Brokers that are left out because their load data is too old."""


def because_moved(cause: Cause) -> str:
    """The template of the sentence that says why a bundle leaves the busier broker of a pair."""
    return (
        "{source} is at {load:.1%} and {other} at {otherLoad:.1%}; "
        + _CAUSES[cause]
        + f"; and the cluster is uneven for more than {{hits}} calls in a row ({_HITS}): "
        "about {target:,.0f} B/s should go from the one to the other; {bundle} carries "
        "{throughput:,.0f} B/s"
    )


def why_stopped(stop: Stop, held: Mapping[str, int] = NOTHING) -> Rejection:
    """Why a call or a pair of brokers has no moves. ``held``: how many bundles stay, by reason."""
    setting, template = _STOPS.get(stop.reason, ("", ""))
    value = stop.value
    if stop.reason == "CoolDown" and value is not None and value < 0:
        value, setting = 0.0, ""
        template = "{subject} has not measured its load since bundles moved; it waits for that"
    elif stop.reason == "NoLoadData" and stop.limit == 0:
        template = "{value:.0f} of the registered brokers, {subject} first, have published no load"
    elif stop.reason == "NoLoadData":
        template = "{subject} should shed, but published no busy bundle"
    elif stop.reason == "NoBundles" and stop.value is not None:
        template = "{subject} should shed, but published one bundle, and one always stays"
    elif stop.reason == "NoBundles":
        setting, because = _holding(held)
        template = "{subject} should shed, but none of the bundles it published can go ({held}); "
        template += because
    kept = ", ".join(f"{count} {why}" for why, count in held.items())
    return Rejection(
        stop.subject, stop.reason, value, stop.limit, setting, template, {"held": kept}
    )


def _holding(held: Mapping[str, int]) -> tuple[str, str]:
    """The setting that keeps bundles where they are, and a clause of a sentence about it."""
    if HELD_BY_POLICY in held:
        return _POLICIES, "{setting} would let those with a policy go"
    if HELD_BY_GRACE in held:
        return GRACE_PERIOD, "those that moved a moment ago wait ({setting})"
    return _LISTED, "it publishes at most so many as {setting} says"


def why_nothing(options: TransferOptions, brokers: int) -> Rejection:
    """Why no pair of brokers was considered although the cluster is uneven (Java: HitCount)."""
    cap = options.max_brokers_per_cycle
    if cap <= 0:
        return _NO_TURN.refuses("cluster", 0.0, float(cap))
    return _ALONE.refuses("cluster", float(brokers), 2.0)


def why_uneven(uneven: Uneven, options: TransferOptions) -> Rejection:
    """Why nothing moves: the cluster is even enough, or not uneven for enough consecutive calls."""
    if not uneven.hits and not uneven.std > 0:
        setting, whose = "", "of all brokers"
        if uneven.stale:
            setting, whose = _TTL, "of the brokers with fresh load data"
        template = (
            f"the loads {whose} are equal"
            if uneven.std == 0
            else f"the deviation of the loads {whose} is not a number"
        )
        if uneven.stale:
            template += "; {stale} published theirs more than {ttl:,.0f} s ago ({setting})"
        rule = Rule(_HIT_COUNT, template, setting)
        stale, ttl = uneven.stale, options.load_data_ttl_s
        return rule.refuses("cluster", 0.0, options.target_std, stale=stale, ttl=ttl)
    if not uneven.hits:
        return _EVEN.refuses("cluster", uneven.std, options.target_std)
    hits, limit = float(uneven.hits), float(options.hit_count_threshold)
    return _WAITING.refuses("cluster", hits, limit, std=uneven.std)

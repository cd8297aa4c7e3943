"""TransferShedder's reasons, in sentences."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from counterpoise.decide.plan import Rejection
from counterpoise.decide.shedding.transfer_options import TransferOptions
from counterpoise.decide.shedding.transfer_spread import Stop

BECAUSE_MOVED: Final = (
    "{source} is at {load:.1%} and {other} at {otherLoad:.1%}: about {target:,.0f} B/s should go "
    "from the one to the other; {bundle} carries {throughput:,.0f} B/s"
)
BECAUSE_BACK: Final = (
    "{bundle} ({throughput:,.0f} B/s) goes from {source} to {other} in exchange for a bigger one"
)

_TTL = "loadBalancerBrokerLoadDataTTLInSeconds"
_DELAY = "loadBalanceSheddingDelayInSeconds"
_HITS = "loadBalancerSheddingConditionHitCountThreshold"
_STD = "loadBalancerBrokerLoadTargetStd"
_LISTED = "loadBalancerMaxNumberOfBundlesInBundleLoadReport"

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
            "{subject} measured its load {value:,.0f} s after bundles moved, too early to tell; it "
            "has {limit:,.0f} s ({setting})",
        ),
    }
)


class Uneven(NamedTuple):
    """How uneven a cluster was found, and for how many calls."""

    average: float
    std: float
    hits: int


def why_stopped(stop: Stop, held: str = "") -> Rejection:
    """Why a call, or a broker's turn, came to nothing; ``held`` says what held its bundles."""
    setting, template = _STOPS.get(stop.reason, ("", ""))
    if stop.reason == "NoLoadData" and stop.limit == 0:
        template = "{value:.0f} registered brokers, {subject} first, have not published their load"
    elif stop.reason == "NoLoadData":
        template = "{subject} should shed, but published no busy bundle"
    elif stop.reason == "NoBundles" and stop.value is not None:
        template = "{subject} should shed, but published one bundle, and one always stays"
    elif stop.reason == "NoBundles":
        setting = _LISTED
        template = (
            "{subject} should shed, but none of the bundles it published can go ({held}); it "
            "publishes at most {setting}"
        )
    return Rejection(
        stop.subject, stop.reason, stop.value, stop.limit, setting, template, {"held": held}
    )


def why_uneven(uneven: Uneven, options: TransferOptions) -> Rejection:
    """Why an evenness that is fine, or not bad for long enough, moves nothing."""
    if not uneven.hits:
        return Rejection(
            "cluster",
            "HitCount",
            uneven.std,
            options.target_std,
            _STD,
            "the brokers' loads deviate by {value:.3f} from their average, and {limit:g} is fine "
            "({setting})",
        )
    return Rejection(
        "cluster",
        "HitCount",
        float(uneven.hits),
        float(options.hit_count_threshold),
        _HITS,
        "the cluster is uneven for {value:.0f} calls in a row; after {limit:.0f} something moves "
        "({setting})",
        {"std": uneven.std},
    )

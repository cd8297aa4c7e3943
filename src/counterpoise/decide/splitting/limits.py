"""The four limits whose excess causes a split, and their sentences."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from counterpoise.decide.plan import Rejection, Rule
from counterpoise.decide.splitting.loads import BundleLoads
from counterpoise.decide.splitting.options import MEBIBYTE, SplitOptions
from counterpoise.load.view import Masks

MIN_TOPICS = 2
"""A bundle with fewer topics is never split: a split could not divide its load."""
_TOO_FEW_TOPICS = Rule(
    "too_few_topics",
    "{subject} is above a limit but holds {held}; a split could not divide its load, only more "
    "partitions can",
)
_NO_FIGURE = "no bundle is above {limit:.0f} ({setting}): none reports a figure that is a number"


@dataclass(frozen=True, slots=True, eq=False)
class SplitLimit:
    """One limit for splits, with each bundle's value; ``reason`` is Pulsar's label."""

    reason: str
    values: npt.NDArray[np.float64]
    limit: float
    setting: str
    shown: str
    """The template of the words for a value and the limit: ``{value}`` and ``{limit}``."""
    active: bool = True

    @property
    def exceeded(self) -> Masks:
        """Which bundles are strictly above the limit."""
        if not self.active:
            return np.zeros(len(self.values), dtype=np.bool_)
        above: Masks = self.values > self.limit
        return above

    @property
    def sentence(self) -> str:
        """The template of the reason why a bundle is split."""
        return "{bundle} has " + self.shown + " ({setting}){also}"

    def also(self, row: int) -> str:
        """The template's addition for a bundle that exceeds this limit as well as another."""
        shown = self.shown.format(value=float(self.values[row]), limit=float(self.limit))
        return f", and {shown} ({self.setting})"


def limits_of(loads: BundleLoads, options: SplitOptions) -> tuple[SplitLimit, ...]:
    """The limits with the bundles' values, in the order in which Pulsar checks them."""
    prefix = "loadBalancerNamespaceBundleMax"
    return (
        SplitLimit(
            "Topics",
            loads.topics.astype(np.float64),
            options.max_topics,
            prefix + "Topics",
            "{value:.0f} topics, limit {limit:.0f}",
        ),
        SplitLimit(
            "Sessions",
            loads.sessions.astype(np.float64),
            options.max_sessions,
            prefix + "Sessions",
            "{value:.0f} producers and consumers, limit {limit:.0f}",
            active=options.max_sessions > 0,
        ),
        SplitLimit(
            "MsgRate",
            loads.msg_rate,
            options.max_msg_rate,
            prefix + "MsgRate",
            "{value:.6g} msg/s, limit {limit:.0f}",
        ),
        SplitLimit(
            "Bandwidth",
            loads.msg_throughput,
            options.max_bandwidth_bytes_int32,
            prefix + "BandwidthMbytes",
            "{value:.6g} bytes/s, limit {limit:.0f}" + _overflow(options),
        ),
    )


def _overflow(options: SplitOptions) -> str:
    if options.max_bandwidth_bytes_int32 == options.max_bandwidth_bytes:
        return ""
    return f" after {options.max_bandwidth_mbytes} * {MEBIBYTE} overflowed 32 bits"


def first_reasons(limits: tuple[SplitLimit, ...], splittable: Masks) -> dict[int, SplitLimit]:
    """By bundle (its row): the first limit that it exceeds; only bundles in ``splittable``."""
    first = np.full(len(splittable), -1)
    for index in reversed(range(len(limits))):
        first[limits[index].exceeded] = index
    first[~splittable] = -1
    return {row: limits[first[row]] for row in np.flatnonzero(first >= 0).tolist()}


def nearest_to_limits(loads: BundleLoads, limits: tuple[SplitLimit, ...]) -> Iterator[Rejection]:
    """Why nothing is split: for each limit, the bundle that is closest to it."""
    for each in limits:
        if not len(each.values) or not each.active or bool(each.exceeded.any()):
            continue
        if np.isnan(each.values).all():
            rule = Rule("below_limit", _NO_FIGURE, each.setting)
            yield rule.refuses("cluster", None, float(each.limit))
            continue
        row = int(np.nanargmax(each.values))
        closest = (
            f"no bundle is above it; {{subject}} comes closest with {each.shown} ({{setting}})"
        )
        rule = Rule("below_limit", closest, each.setting)
        yield rule.refuses(loads.bundles[row], float(each.values[row]), float(each.limit))


def single_topic(loads: BundleLoads, limits: tuple[SplitLimit, ...]) -> Iterator[Rejection]:
    """Rejections of bundles that exceed a limit but cannot be split, with at most one topic."""
    few = loads.topics < MIN_TOPICS
    above = np.logical_or.reduce([each.exceeded for each in limits]) & few
    for row in np.flatnonzero(above).tolist():
        held = "one topic" if loads.topics[row] == 1 else "no topic"
        count = int(loads.topics[row])
        yield _TOO_FEW_TOPICS.refuses(loads.bundles[row], count, MIN_TOPICS, held=held)

"""The cluster as the search looks at it: utilisation per broker, and what may move."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from counterpoise.decide.shedding.counterpoise.memory import Floats32
from counterpoise.load.rates import Floats, Indices
from counterpoise.load.usage import BANDWIDTH_IN, BANDWIDTH_OUT, CPU
from counterpoise.load.view import ClusterView, Masks

_USAGE = (CPU, BANDWIDTH_IN, BANDWIDTH_OUT)
_LEAST_USED = 0.02
"""Below this a use says too little about what a broker can carry."""
_SATURATED = 0.99
"""From this on a use is at its end, whatever the broker's clients want of it."""
FULL: Final = 0.95
"""A broker that is filled is full at this part of what the others have."""
_ILL, _WELL = 0.5, 0.8
"""What bundles carry ÷ their forecast: of an ill broker at most, and of the others at least."""
_FEWEST, _MOST_OF_THEM = 4, 0.75
"""Bundles of a broker that say something about it, and the part of them that fell with it."""


@dataclass(frozen=True, eq=False)
class LoadColumns:
    """What the search reads; a span is a part of the time ahead (`forecast.spans`)."""

    load: Floats32 | Floats
    """By figure (messages/s, bytes/s in, bytes/s out), span and bundle."""
    weight: Floats
    """What each span counts; together 1."""
    owner: Indices
    """The broker of each bundle, -1 where no broker reports it."""
    scale: Floats
    """By figure, span and broker: what a unit of load adds to its utilisation, 1 being the mean."""
    use: Floats
    """By figure, span and broker: see `used`."""
    movable: Masks
    destination: Masks
    """Which brokers may receive."""
    filling: Masks
    """Which brokers were found all but empty, and are to be filled."""
    allowed: Mapping[int, Masks] = field(default_factory=dict)
    """By bundle: which brokers may have it, where that is not all of them."""

    @cached_property
    def floor(self) -> float:
        """What no assignment lowers the objective below: a bundle is on one broker as a whole."""
        if not self.load.size or not self.scale.size:
            return 0.0
        largest = (self.load.max(axis=2) * self.scale.min(axis=2)).max(axis=0)
        return float(self.weight @ (largest - 1.0).clip(0.0))

    @cached_property
    def sizes(self) -> Floats:
        """By bundle: what it adds to its broker's utilisation, over the time ahead."""
        added = [
            (self.load[:, span] * self.scale[:, span, self.owner]).max(axis=0, initial=0.0)
            for span in range(len(self.weight))
        ]
        found: Floats = self.weight @ np.array(added)
        return found

    @cached_property
    def least(self) -> Floats:
        """By span and broker: the utilisation below which it counts by what it lacks.

        A broker that is filled is to be ``full``. The others are not to be emptied for that: a
        bundle larger than a broker's share would go from one empty broker to the next.
        """
        if not self.filling.any():
            return np.zeros_like(self.utilisation)
        least: Floats = np.where(self.filling, self.full, self.utilisation.clip(max=self.full))
        return least

    @cached_property
    def full(self) -> float:
        """When a broker that is filled is full: near the mean of those without a larger bundle."""
        giants, brokers = self.sizes[self.sizes > 1.0], len(self.filling)
        rest = brokers - len(giants)
        return FULL * max(0.0, brokers - float(giants.sum())) / rest if rest > 0 else 0.0

    @property
    def utilisation(self) -> Floats:
        """By span and broker: of the scarcest figure, whose mean over all brokers is 1."""
        scarcest: Floats = self.use.max(axis=0, initial=0.0)
        return scarcest


def used(load: Floats32 | Floats, owner: Indices, scale: Floats) -> Floats:
    """By figure, span and broker: what its bundles use, 1 being the mean of the scarcest figure."""
    carried = [totals(figure, owner, scale.shape[2]) for figure in load]
    return np.array(carried).reshape(scale.shape) * scale


def totals(load: Floats32 | Floats, owner: Indices, brokers: int) -> Floats:
    """By row of ``load`` (of one entry per bundle) and broker: what it carries."""
    there = _served(owner)
    rows = owner[there]
    # The counts of no rows are whole numbers, whatever their weights.
    summed = [np.bincount(rows, each[there], brokers) for each in load]
    return np.array(summed, np.float64).reshape(len(load), brokers)


def _served(owner: Indices) -> Masks | slice:
    served: Masks = owner >= 0
    return slice(None) if served.all() else served


def capacities(view: ClusterView, weights: Floats, remembered: Floats) -> Floats:
    """What each broker can carry of each figure, from what it carries and how much that uses.

    Messages/s stand for the processor. Where a use is too small to say, at its end or no number,
    what was ``remembered`` counts (0 or NaN: nothing), else the median of the others; 0 where a
    figure has no weight or no broker says anything. A saturated broker looks larger the more it has
    to do: it can carry that at most. Brokers of one host report what the host uses, or each its own
    part of that: either way they are equal parts of what it can carry.
    """
    traffic = view.broker.traffic
    carried = _evened_by_host(
        np.stack([traffic.rate(), traffic.throughput_in, traffic.throughput_out], axis=1),
        view.brokers,
    )
    with np.errstate(all="ignore"):
        reported = view.broker.usage[:, _USAGE].astype(np.float64) / 100.0
        part = _evened_by_host(np.where(np.isfinite(reported), reported, 0.0), view.brokers)
        use = part * weights[list(_USAGE)]
        seen = carried / use
    seen[~((use > _LEAST_USED) & np.isfinite(seen) & (seen > 0))] = np.nan
    most = np.where((part >= _SATURATED) & (seen > 0), seen, np.inf)
    seen[part >= _SATURATED] = np.nan
    # A tenth of what is new: a use is measured over another span than the traffic.
    remembered = np.where(remembered > 0, remembered, np.nan)
    known = np.where(np.isnan(remembered), seen, 0.9 * remembered + 0.1 * seen)
    known = np.where(np.isnan(known), remembered, known)
    middle = _median(known)
    known = np.where(np.isnan(known) | (np.abs(known - middle) < 0.15 * middle), middle, known)
    found: Floats = np.minimum(np.nan_to_num(known, nan=0.0), most)
    return found


def _evened_by_host(carried: Floats, brokers: Sequence[str]) -> Floats:
    """The figures of brokers, each the mean of the brokers at its address."""
    hosts = [name.rsplit(":", 1)[0] for name in brokers]
    place = {host: row for row, host in enumerate(dict.fromkeys(hosts))}
    host = np.array([place[each] for each in hosts], np.intp)
    summed = np.zeros((len(place), carried.shape[1]))
    np.add.at(summed, host, carried)
    evened: Floats = summed[host] / np.bincount(host)[host, np.newaxis]
    return evened


def _median(known: Floats) -> Floats:
    """The median of each column's numbers; NaN of a column without any."""
    ordered = np.sort(known, axis=0)  # what is no number comes last
    count = np.isfinite(known).sum(axis=0)
    each = np.arange(known.shape[1])
    low, high = ordered[(count - 1).clip(0) // 2, each], ordered[count // 2, each]
    return np.where(count > 0, (low + high) / 2.0, np.nan)


def scales(load: Floats32 | Floats, owner: Indices, capacity: Floats) -> Floats:
    """By figure, span and broker: what a unit of load adds, so that the scarcest has mean 1.

    ``load`` is as in `LoadColumns`, ``capacity`` is by broker and figure.
    """
    whole = load[:, :, _served(owner)].sum(axis=2, dtype=np.float64)
    carries = capacity.sum(axis=0)[:, np.newaxis]
    with np.errstate(all="ignore"):
        use = np.where(carries > 0, whole / carries, 0.0)
        each = np.where(capacity > 0, 1.0 / capacity, 0.0).T[:, np.newaxis, :]
        made: Floats = each / use.max(axis=0)[:, np.newaxis]
    for span in np.flatnonzero(~use.any(axis=0)).tolist():
        # No broker says how much its load uses: bytes/s stand for everything, the scarcer way.
        mean = whole[1:, span].max() / max(1, len(capacity))
        made[:, span] = 0.0
        made[1:, span] = 1.0 / mean if mean > 0 else 0.0
    return made


def allowed_brokers(view: ClusterView) -> dict[int, Masks]:
    """By bundle: which brokers pass its policies and groups, where not all do."""
    found = {}
    for bundle, brokers in view.rules.allowed.items():
        row = view.bundle_index(bundle)
        if row is not None:
            found[row] = np.array([name in brokers for name in view.brokers], np.bool_)
    return found


def suspects(view: ClusterView, sample: Floats32, level: Floats32) -> Masks:
    """Brokers that seem ill: their bundles carry far less than forecast, those of others do not.

    The traffic of a slow broker falls because it is slow, which makes it look empty. That of a
    broker of few bundles, or of one busy bundle, falls whenever its clients send less.
    """
    there = view.reporter >= 0
    owner = np.where(there & (level.sum(axis=1) > 0), view.reporter, -1)
    of_bundle = np.stack([level[:, 1:].sum(axis=1), sample[:, 1:].sum(axis=1)])
    fell = of_bundle[1] < _ILL * of_bundle[0]
    rows = np.stack([*of_bundle, np.ones(len(fell)), fell])
    expected, seen, count, fallen = totals(rows, owner, len(view.brokers))
    share = np.divide(seen, expected, out=np.ones_like(seen), where=expected > 0)
    most = (count >= _FEWEST) & (fallen >= _MOST_OF_THEM * count)
    found: Masks = most & (share < _ILL) & (float(np.median(share)) > _WELL)
    return found

"""The input of the search for moves: utilisation per broker, and which bundles may move where."""

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
"""Below this usage (a fraction) a broker's capacity cannot be estimated."""
_SATURATED = 0.99
"""At this usage (a fraction) or more a resource is full, whatever clients send."""
FULL: Final = 0.92
"""A broker that is being filled counts as full from this part of the others' mean load on."""
_ILL, _WELL = 0.5, 0.8
"""Limits of the load of a broker's bundles ÷ their forecast: a broker below the first is slow if
the median of all brokers is above the second."""
_FEWEST, _MOST_OF_THEM = 4, 0.75
"""The least number of bundles by which a broker is judged, and the part of them that must have
fallen."""


@dataclass(frozen=True, eq=False)
class LoadColumns:
    """The input of the search for moves, as arrays by bundle, broker, and span.

    A span is one of the two parts of the forecast's time (`forecast.spans`).
    """

    load: Floats32 | Floats
    """The load by figure (messages/s, bytes/s in, bytes/s out), span and bundle."""
    weight: Floats
    """The weight of each span; the sum is 1."""
    owner: Indices
    """By bundle: the broker that reports it, or -1 for none."""
    scale: Floats
    """What a unit of load adds to a broker's utilisation, 1 being the mean; by figure, span and
    broker."""
    use: Floats
    """The utilisation of each broker (see `used`), by figure, span and broker."""
    movable: Masks
    destination: Masks
    """Which brokers may receive bundles."""
    filling: Masks
    """Which brokers were found almost empty, and are to be filled."""
    allowed: Mapping[int, Masks] = field(default_factory=dict)
    """The brokers that may have a bundle, by bundle; bundles that all brokers may have are
    missing."""

    @cached_property
    def floor(self) -> float:
        """A lower bound of the objective: no assignment splits a bundle, so the largest one sets
        it.
        """
        if not self.load.size or not self.scale.size:
            return 0.0
        largest = (self.load.max(axis=2) * self.scale.min(axis=2)).max(axis=0)
        return float(self.weight @ (largest - 1.0).clip(0.0))

    @cached_property
    def sizes(self) -> Floats:
        """The utilisation that each bundle adds to its broker, averaged over the forecast's
        time.
        """
        added = [
            (self.load[:, span] * self.scale[:, span, self.owner]).max(axis=0, initial=0.0)
            for span in range(len(self.weight))
        ]
        found: Floats = self.weight @ np.array(added)
        return found

    @cached_property
    def least(self) -> Floats:
        """By span and broker: the utilisation below which a broker counts as too empty.

        For a broker that is to be filled it is ``full``. For others it is at most their present
        utilisation: otherwise a bundle larger than a broker's share would move from one empty
        broker to the next.
        """
        if not self.filling.any():
            return np.zeros_like(self.utilisation)
        least: Floats = np.where(self.filling, self.full, self.utilisation.clip(max=self.full))
        return least

    @cached_property
    def full(self) -> float:
        """The utilisation at which an almost empty broker counts as filled: 92 % of the mean of
        the brokers without a bundle larger than a broker's share.
        """
        giants, brokers = self.sizes[self.sizes > 1.0], len(self.filling)
        rest = brokers - len(giants)
        return FULL * max(0.0, brokers - float(giants.sum())) / rest if rest > 0 else 0.0

    @property
    def utilisation(self) -> Floats:
        """Utilisation by span and broker, of the scarcest resource; its mean over all brokers is
        1.
        """
        scarcest: Floats = self.use.max(axis=0, initial=0.0)
        return scarcest


def used(load: Floats32 | Floats, owner: Indices, scale: Floats) -> Floats:
    """Utilisation by resource, span and broker, from the bundles that each broker owns; 1 is the
    mean of the scarcest resource.
    """
    carried = [totals(figure, owner, scale.shape[2]) for figure in load]
    return np.array(carried).reshape(scale.shape) * scale


def totals(load: Floats32 | Floats, owner: Indices, brokers: int) -> Floats:
    """Sum the bundles of each broker, for each row of ``load`` (which has one value per bundle)."""
    there = _served(owner)
    rows = owner[there]
    # Without rows, `bincount` returns integers even if there are weights.
    summed = [np.bincount(rows, each[there], brokers) for each in load]
    return np.array(summed, np.float64).reshape(len(load), brokers)


def _served(owner: Indices) -> Masks | slice:
    served: Masks = owner >= 0
    return slice(None) if served.all() else served


def capacities(view: ClusterView, weights: Floats, remembered: Floats) -> Floats:
    """Estimate what each broker can carry of each resource: its traffic ÷ the usage that it
    reports.

    Messages/s stand for the processor. Where the usage is below 2 %, at its end, or no number, the
    estimate is ``remembered`` (0 or NaN: none), else the median of the other brokers'; it is 0
    where a resource has no weight or no broker reports usage. For a saturated broker traffic ÷
    usage is an upper bound, since its traffic may grow no further. Brokers of one host report
    either the host's usage or their own part of it; in both cases they count as equal parts of the
    host.
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
    # A new estimate counts a tenth, because usage and traffic are measured over different spans.
    remembered = np.where(remembered > 0, remembered, np.nan)
    known = np.where(np.isnan(remembered), seen, 0.9 * remembered + 0.1 * seen)
    known = np.where(np.isnan(known), remembered, known)
    middle = _median(known)
    known = np.where(np.isnan(known) | (np.abs(known - middle) < 0.15 * middle), middle, known)
    found: Floats = np.minimum(np.nan_to_num(known, nan=0.0), most)
    return found


def _evened_by_host(carried: Floats, brokers: Sequence[str]) -> Floats:
    """The figures of brokers, each replaced by the mean over the brokers of its host."""
    hosts = [name.rsplit(":", 1)[0] for name in brokers]
    place = {host: row for row, host in enumerate(dict.fromkeys(hosts))}
    host = np.array([place[each] for each in hosts], np.intp)
    summed = np.zeros((len(place), carried.shape[1]))
    np.add.at(summed, host, carried)
    evened: Floats = summed[host] / np.bincount(host)[host, np.newaxis]
    return evened


def _median(known: Floats) -> Floats:
    """The median of each column without its NaNs; NaN for a column of NaNs."""
    ordered = np.sort(known, axis=0)  # NaN comes last
    count = np.isfinite(known).sum(axis=0)
    each = np.arange(known.shape[1])
    low, high = ordered[(count - 1).clip(0) // 2, each], ordered[count // 2, each]
    return np.where(count > 0, (low + high) / 2.0, np.nan)


def scales(load: Floats32 | Floats, owner: Indices, capacity: Floats) -> Floats:
    """By resource, span and broker: the utilisation that a unit of load adds, such that the
    scarcest resource has the mean 1.

    ``load`` is as in `LoadColumns`; ``capacity`` is by broker and resource.
    """
    whole = load[:, :, _served(owner)].sum(axis=2, dtype=np.float64)
    carries = capacity.sum(axis=0)[:, np.newaxis]
    with np.errstate(all="ignore"):
        use = np.where(carries > 0, whole / carries, 0.0)
        each = np.where(capacity > 0, 1.0 / capacity, 0.0).T[:, np.newaxis, :]
        made: Floats = each / use.max(axis=0)[:, np.newaxis]
    for span in np.flatnonzero(~use.any(axis=0)).tolist():
        # If no broker reports usage, bytes/s are used, in or out, whichever is more.
        mean = whole[1:, span].max() / max(1, len(capacity))
        made[:, span] = 0.0
        made[1:, span] = 1.0 / mean if mean > 0 else 0.0
    return made


def allowed_brokers(view: ClusterView) -> dict[int, Masks]:
    """By index of each bundle that not every broker may own: a mask of the brokers that may."""
    found = {}
    for bundle, brokers in view.rules.allowed.items():
        row = view.bundle_index(bundle)
        if row is not None:
            found[row] = np.array([name in brokers for name in view.brokers], np.bool_)
    return found


def suspects(view: ClusterView, sample: Floats32, level: Floats32) -> Masks:
    """The brokers that seem slow: nearly all of their bundles carry far less than forecast, while
    other brokers' do not.

    A slow broker's traffic falls because the broker is slow, which makes it look empty. With few
    bundles, or one busy bundle, traffic falls whenever clients send less, so such a broker is not
    suspected.
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

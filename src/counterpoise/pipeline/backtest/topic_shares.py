"""How the load of a recorded bundle is divided among its topics."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from counterpoise.load.rates import Floats
from counterpoise.load.topic_loads import BundleTopicLoads, TopicLoad
from counterpoise.load.view import Integers
from counterpoise.names.hashing import topic_hash

_RATES = len(TopicLoad._fields)


@dataclass(frozen=True)
class TopicShares:
    """The topics of a bundle that are known by name, with their shares of its load."""

    points: Integers
    """The topics' positions on the hash ring."""
    shares: Floats
    """Fractions of the bundle's load: a row for each topic, columns as in `TopicLoad`."""
    others: int
    """The number of other topics, which have the rest of the load."""

    def parts(self, bounds: Integers, counts: Integers) -> tuple[Floats, Integers]:
        """The share of the load and the number of topics in each part of the bundle.

        `bounds` are the positions at which parts after the first begin; `counts` has how many of
        the other topics are taken to be in each part.
        """
        where = np.searchsorted(bounds, self.points, side="right")
        shares = np.zeros((len(counts), _RATES))
        np.add.at(shares, where, self.shares)
        topics = counts + np.bincount(where, minlength=len(counts))
        rest = np.maximum(0.0, 1.0 - shares.sum(axis=0))
        shares += rest * (counts / max(1, self.others))[:, np.newaxis]
        whole = shares.sum(axis=0)
        even = np.full_like(shares, 1.0 / len(counts))
        return np.divide(shares, whole, out=even, where=whole > 0), topics


@dataclass
class TopicShareSums:
    """Adds up the topic loads of one bundle over time."""

    _topics: dict[str, Floats] = field(default_factory=dict)
    _whole: Floats = field(default_factory=lambda: np.zeros(_RATES))
    _others: int = 0

    def add(self, loads: BundleTopicLoads) -> None:
        """Add the topics' loads of one report."""
        for name, load in loads.busiest.items():
            self._topics[name] = self._topics.get(name, 0.0) + np.array(load)
            self._whole += load
        self._whole += loads.rest
        self._others = loads.others

    def shares(self) -> TopicShares | None:
        """The topics' shares of the load of all reports added; None if there was no load.

        If one of the bundle's rates was zero in all reports, a topic's share of it is the mean of
        its shares of the other rates.
        """
        carried = self._whole > 0
        if not self._topics or not carried.any():
            return None
        sums = np.array(list(self._topics.values()))
        shares = sums / np.where(carried, self._whole, 1.0)
        shares[:, ~carried] = shares[:, carried].mean(axis=1, keepdims=True)
        points = np.array([topic_hash(name) for name in self._topics], np.int64)
        return TopicShares(points, shares, self._others)


def topic_shares(rows: Iterable[tuple[str, str]]) -> dict[str, TopicShares]:
    """The shares of topics by bundle, from rows of bundle and `topic_loads` in order of time."""
    sums: dict[str, TopicShareSums] = {}
    for bundle, text in rows:
        sums.setdefault(bundle, TopicShareSums()).add(BundleTopicLoads.from_json(text))
    found = {bundle: each.shares() for bundle, each in sums.items()}
    return {bundle: shares for bundle, shares in found.items() if shares is not None}

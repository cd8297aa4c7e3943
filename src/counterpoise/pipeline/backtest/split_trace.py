"""A trace as if its namespaces had more bundles: each bundle is split into several.

Topics whose loads the trace knows go where their names hash to, with their mean share of the
bundle's load. The others are assumed to be equally busy, and are assigned to the parts at random,
as hashes would. A bundle of one topic stays in one part, however often it is split.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from counterpoise.load.rates import Floats, Indices, Rates
from counterpoise.load.view import Integers
from counterpoise.names.bundle import BundleRange, format_boundary, namespace_of, range_of
from counterpoise.names.errors import InvalidName
from counterpoise.pipeline.backtest.measurements import RATE_NAMES
from counterpoise.pipeline.backtest.topic_shares import TopicShares
from counterpoise.pipeline.backtest.trace import DerivedTrace, LoadTrace, Source


@dataclass(frozen=True)
class SplitSource:
    """The source of a trace in which each bundle is split into several; serialisable."""

    source: Source
    parts: int
    """Into how many parts each bundle is split."""

    def open(self) -> "SplitTrace":
        """Return the trace with split bundles, which is built once per process."""
        return _opened(self)


class SplitTrace(DerivedTrace):
    """A trace in which each bundle is split into several parts, which start on the bundle's broker.

    `counts` has the number of parts of each bundle.
    """

    def __init__(self, whole: LoadTrace, counts: Sequence[int]) -> None:
        super().__init__(whole)
        rows = list(zip(whole.bundles, whole.topics.tolist(), counts, strict=True))
        known = whole.topic_shares([name for name, _, count in rows if count > 1])
        parts = [_parts_of(name, topics, count, known.get(name)) for name, topics, count in rows]
        names = [name for each in parts for name in each.names]
        order = np.argsort(np.array(names, dtype=object), kind="stable")
        self.bundles = tuple(names[row] for row in order.tolist())
        self.topics = np.concatenate([each.topics for each in parts])[order]
        self._shares: Floats = np.concatenate([each.shares for each in parts])[order]
        self._parent: Indices = np.repeat(np.arange(len(whole.bundles)), counts)[order]
        self.owners = whole.owners[self._parent]

    def loads(self, step: int) -> Rates:
        """The load of each part at a step: its share of the bundle's load."""
        loads = self._whole.loads(step)
        return Rates(
            *(
                getattr(loads, name)[self._parent] * self._shares[:, column]
                for column, name in enumerate(RATE_NAMES)
            )
        )


@lru_cache(maxsize=1)
def _opened(source: SplitSource) -> SplitTrace:
    whole = source.source.open()
    return SplitTrace(whole, [source.parts] * len(whole.bundles))


@dataclass(frozen=True, slots=True)
class _BundleParts:
    """The parts into which one bundle is split."""

    names: Sequence[str]
    shares: Floats
    """Each part's share of the bundle's load: a row for each part, a column for each rate."""
    topics: Integers


def _parts_of(bundle: str, topics: int, count: int, known: TopicShares | None) -> _BundleParts:
    if count == 1:
        return _BundleParts([bundle], np.ones((1, len(RATE_NAMES))), np.array([topics]))
    try:
        whole = BundleRange.parse(range_of(bundle))
    except InvalidName:
        return _by_chance([f"{bundle}.{number:03}" for number in range(count)], bundle, topics)
    wide = whole.upper - whole.lower
    bounds = [whole.lower + wide * i // count for i in range(count + 1)]
    texts = [format_boundary(bound) for bound in bounds]
    names = [f"{namespace_of(bundle)}/{texts[i]}_{texts[i + 1]}" for i in range(count)]
    if known is None:
        return _by_chance(names, bundle, topics)
    shares, counts = known.parts(np.array(bounds[1:-1]), _spread(bundle, known.others, count))
    return _BundleParts(names, shares, counts)


def _by_chance(names: Sequence[str], bundle: str, topics: int) -> _BundleParts:
    counts = _spread(bundle, topics, len(names))
    share = counts / topics if topics else np.full(len(names), 1.0 / len(names))
    return _BundleParts(names, np.repeat(share[:, np.newaxis], len(RATE_NAMES), axis=1), counts)


def _spread(bundle: str, topics: int, count: int) -> Integers:
    """Distribute topics over the parts at random, always in the same way for the same bundle."""
    rng = np.random.default_rng(zlib.crc32(bundle.encode()))
    found: Integers = rng.multinomial(topics, np.full(count, 1.0 / count))
    return found

"""A trace as if its namespaces had more bundles: each bundle is split into several.

The trace has loads by bundle, not by topic. The topics of a bundle are assumed to be equally busy,
and are assigned to its parts at random, as hashes would. A bundle of one topic stays in one part,
however often it is split.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from counterpoise.load.rates import Floats, Indices, Rates
from counterpoise.names.bundle import BundleRange, format_boundary, namespace_of, range_of
from counterpoise.names.errors import InvalidName
from counterpoise.pipeline.backtest.trace import DerivedTrace, LoadTrace, Source


@dataclass(frozen=True)
class CutSource:
    """The source of a trace in which each bundle is split into `cut` parts; serialisable."""

    source: Source
    cut: int

    def open(self) -> "CutTrace":
        """The trace; built once per process."""
        return _opened(self)


class CutTrace(DerivedTrace):
    """A trace in which each bundle is split into several; at the start all parts are on its broker.

    `cuts` has the number of parts of each bundle.
    """

    def __init__(self, whole: LoadTrace, cuts: Sequence[int]) -> None:
        super().__init__(whole)
        rows = list(zip(whole.bundles, whole.topics.tolist(), cuts, strict=True))
        names = [part for name, _, cut in rows for part in _parts_of(name, cut)]
        counts = np.array([n for name, topics, cut in rows for n in _spread(name, topics, cut)],
                          np.int64)  # fmt: skip
        order = np.argsort(np.array(names, dtype=object), kind="stable")
        of_parent = np.repeat(whole.topics, cuts)
        even = 1.0 / np.repeat(np.asarray(cuts, np.float64), cuts)
        share = np.divide(counts, of_parent, out=even, where=of_parent > 0)
        self.bundles = tuple(names[row] for row in order.tolist())
        self.topics = counts[order]
        self._share: Floats = share[order]
        self._parent: Indices = np.repeat(np.arange(len(whole.bundles)), cuts)[order]
        self.owners = whole.owners[self._parent]

    def loads(self, step: int) -> Rates:
        """The load of each part at a step: by its share of the bundle's topics."""
        loads = self._whole.loads(step)
        return Rates(
            *(
                getattr(loads, name)[self._parent] * self._share
                for name in ("rate_in", "rate_out", "throughput_in", "throughput_out")
            )
        )


@lru_cache(maxsize=1)
def _opened(source: CutSource) -> CutTrace:
    whole = source.source.open()
    return CutTrace(whole, [source.cut] * len(whole.bundles))


def _parts_of(bundle: str, cut: int) -> list[str]:
    if cut == 1:
        return [bundle]
    try:
        whole = BundleRange.parse(range_of(bundle))
    except InvalidName:
        return [f"{bundle}.{number:03}" for number in range(cut)]
    wide = whole.upper - whole.lower
    bounds = [format_boundary(whole.lower + wide * i // cut) for i in range(cut + 1)]
    return [f"{namespace_of(bundle)}/{bounds[i]}_{bounds[i + 1]}" for i in range(cut)]


def _spread(bundle: str, topics: int, cut: int) -> list[int]:
    """How many topics fall into each part; always the same for the same bundle."""
    rng = np.random.default_rng(zlib.crc32(bundle.encode()))
    found: list[int] = rng.multinomial(topics, np.full(cut, 1.0 / cut)).tolist()
    return found

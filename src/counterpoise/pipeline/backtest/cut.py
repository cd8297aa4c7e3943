"""A trace whose bundles are cut into more: what if namespaces had been made of more bundles?

Loads are known by bundle, not by topic. So the topics of a bundle are taken to be equally busy, and
fall onto its parts by chance, as hashes do; a bundle of one topic stays in one part, however often
it is cut.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from counterpoise.load.rates import Floats, Indices, Rates
from counterpoise.load.view import Integers, Masks
from counterpoise.names.bundle import BundleRange, format_boundary, namespace_of, range_of
from counterpoise.names.errors import InvalidName
from counterpoise.pipeline.backtest.recorded import Recording
from counterpoise.pipeline.backtest.synthetic import SyntheticTrace
from counterpoise.pipeline.backtest.trace import Hosts, LoadTrace


@dataclass(frozen=True)
class CutSource:
    """A source with each of its bundles cut into so many; a value, as sources are."""

    source: "SyntheticTrace | Recording"
    cut: int

    def open(self) -> "CutTrace":
        """The trace; made once for each process."""
        return _opened(self)


class CutTrace:
    """The trace of a `CutSource`."""

    def __init__(self, whole: LoadTrace, cut: int) -> None:
        self._whole = whole
        self._cut = cut
        names = [part for name in whole.bundles for part in _parts_of(name, cut)]
        topics = [row for name, n in zip(whole.bundles, whole.topics.tolist(), strict=True)
                  for row in _spread(name, n, cut)]  # fmt: skip
        order = np.argsort(np.array(names, dtype=object), kind="stable")
        self._order = order
        self.bundles = tuple(names[row] for row in order.tolist())
        counts = np.array(topics, np.int64)
        of_parent = np.repeat(whole.topics, cut)
        even = np.full(len(counts), 1.0 / cut)
        share = np.divide(counts, of_parent, out=even, where=of_parent > 0)
        self._share: Floats = share[order]
        self._parent: Indices = np.repeat(np.arange(len(whole.bundles)), cut)[order]
        self.topics: Integers = counts[order]

    @property
    def name(self) -> str:
        """As a person asks for it."""
        return f"{self._whole.name} cut into {self._cut}"

    @property
    def start_ms(self) -> int:
        """When it begins, milliseconds since 1970."""
        return self._whole.start_ms

    @property
    def step_ms(self) -> int:
        """Between two steps."""
        return self._whole.step_ms

    @property
    def steps(self) -> int:
        """How many there are."""
        return self._whole.steps

    @property
    def brokers(self) -> tuple[str, ...]:
        """All that are there at some step."""
        return self._whole.brokers

    @property
    def owners(self) -> Indices:
        """All parts of a bundle begin where the whole was."""
        return self._whole.owners[self._parent]

    @property
    def hosts(self) -> Hosts:
        """What load costs."""
        return self._whole.hosts

    def loads(self, step: int) -> Rates:
        """What flows through each part."""
        loads = self._whole.loads(step)
        return Rates(
            *(
                getattr(loads, name)[self._parent] * self._share
                for name in ("rate_in", "rate_out", "throughput_in", "throughput_out")
            )
        )

    def up(self, step: int) -> Masks:
        """Which brokers are there."""
        return self._whole.up(step)

    def measured(self, step: int) -> Masks | None:
        """See `LoadTrace.measured`."""
        return self._whole.measured(step)

    def moved(self, step: int) -> Sequence[tuple[int, int, int]]:
        """Nothing: no bundle of the recording is one of these."""
        return ()


@lru_cache(maxsize=1)
def _opened(source: CutSource) -> CutTrace:
    whole = source.source
    return CutTrace(whole.open() if isinstance(whole, Recording) else whole, source.cut)


def _parts_of(bundle: str, cut: int) -> list[str]:
    try:
        whole = BundleRange.parse(range_of(bundle))
    except InvalidName:
        return [f"{bundle}.{number:03}" for number in range(cut)]
    wide = whole.upper - whole.lower
    bounds = [format_boundary(whole.lower + wide * i // cut) for i in range(cut + 1)]
    return [f"{namespace_of(bundle)}/{bounds[i]}_{bounds[i + 1]}" for i in range(cut)]


def _spread(bundle: str, topics: int, cut: int) -> list[int]:
    """How many topics fall into each part; the same ones for the same bundle."""
    rng = np.random.default_rng(zlib.crc32(bundle.encode()))
    found: list[int] = rng.multinomial(topics, np.full(cut, 1.0 / cut)).tolist()
    return found

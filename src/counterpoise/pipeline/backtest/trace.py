"""A trace: the load of each bundle at each step, and the brokers present."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from counterpoise.load.rates import Floats, Indices, Rates
from counterpoise.load.view import Integers, Masks
from counterpoise.pipeline.backtest.topic_shares import TopicShares


@dataclass(frozen=True)
class Hosts:
    """How much of brokers' processors and networks a load uses, in per cent.

    The network's usage is bytes ÷ `bytes_most`; the processor's is `cpu_idle` plus `cpu_of_rate`
    for each message/s.
    """

    bytes_most: Floats
    """Bytes/s in, and as many out, at which a broker's network is full."""
    cpu_idle: Floats
    cpu_of_rate: Floats

    def usage(self, loads: Rates, step: int = 0) -> Floats:
        """Each broker's usage in per cent under the load it carries: a row per broker, columns in
        the order of `load/usage.py`.
        """
        used = np.zeros((len(loads), 5))
        used[:, 0] = np.minimum(100.0, self.cpu_idle + self.cpu_of_rate * loads.rate())
        used[:, 3] = 100.0 * loads.throughput_in / self.bytes_most
        used[:, 4] = 100.0 * loads.throughput_out / self.bytes_most
        return used

    def averages(self, usage: Floats, weights: Floats, step: int) -> Floats:
        """The average of its weighted usage that each broker would publish at a step; 0 where
        unknown.

        ``usage`` is the present usage in per cent, a row per broker.
        """
        del weights, step
        return np.zeros(len(usage))

    def more(self, broker: int, loads: Rates, bundle: int) -> Floats:
        """How much a bundle adds to a broker's usage: per cent by resource."""
        added = np.zeros(5)
        added[0] = self.cpu_of_rate[broker] * loads.rate()[bundle]
        added[3] = 100.0 * loads.throughput_in[bundle] / self.bytes_most[broker]
        added[4] = 100.0 * loads.throughput_out[bundle] / self.bytes_most[broker]
        return added


class LoadTrace(Protocol):
    """The loads of a cluster's bundles, step by step, to be replayed; steps can be read in any
    order.

    Bundles and brokers are sorted by name, and a bundle's load does not depend on its owner.
    """

    @property
    def name(self) -> str:
        """The text by which an operator names the trace on the command line."""

    @property
    def start_ms(self) -> int:
        """The start of the trace in milliseconds since 1970."""

    @property
    def step_ms(self) -> int:
        """Milliseconds between two steps, and between two reports of a broker."""

    @property
    def steps(self) -> int:
        """The number of steps."""

    @property
    def brokers(self) -> tuple[str, ...]:
        """The sorted names of all brokers that are present at any step."""

    @property
    def bundles(self) -> tuple[str, ...]:
        """The sorted names of all bundles that are present at any step."""

    @property
    def topics(self) -> Integers:
        """The number of topics of each bundle."""

    @property
    def owners(self) -> Indices:
        """The index of the broker of each bundle at the start."""

    @property
    def hosts(self) -> Hosts:
        """Computes the brokers' usage from the load that they carry."""

    def loads(self, step: int) -> Rates:
        """The load of each bundle at a step."""

    def topic_shares(self, bundles: Collection[str]) -> Mapping[str, TopicShares]:
        """How the load of these bundles is divided among their topics, where that is known."""

    def up(self, step: int) -> Masks:
        """The brokers that are present at a step, as a mask."""

    def measured(self, step: int) -> Masks | None:
        """A mask of the brokers that measure at the end of the step; None if all always do."""

    def moved(self, step: int) -> Sequence[tuple[int, int, int]]:
        """Recorded moves at a step: (bundle, source, destination), each as an index."""


class Source(Protocol):
    """Where a trace comes from; serialisable, so that each process can open the trace itself."""

    def open(self) -> LoadTrace:
        """The trace, which is built once in each process."""


class DerivedTrace:
    """Base of traces that change another trace; they have no recorded moves.

    The recorded moves mean nothing on a different cluster.
    """

    def __init__(self, whole: LoadTrace) -> None:
        self._whole = whole
        self.start_ms = whole.start_ms
        self.step_ms = whole.step_ms
        self.steps = whole.steps
        self.name = whole.name
        self.brokers = whole.brokers
        self.bundles = whole.bundles
        self.topics = whole.topics
        self.owners = whole.owners
        self.hosts = whole.hosts

    def loads(self, step: int) -> Rates:
        """The load of each bundle at a step."""
        return self._whole.loads(step)

    def topic_shares(self, bundles: Collection[str]) -> Mapping[str, TopicShares]:
        """How the load of these bundles is divided among their topics, where that is known."""
        return self._whole.topic_shares(bundles)

    def up(self, step: int) -> Masks:
        """The brokers that are present at a step, as a mask."""
        return self._whole.up(step)

    def measured(self, step: int) -> Masks | None:
        """The brokers that measure at the end of the step, as a mask; None: all, at each step."""
        return self._whole.measured(step)

    def moved(self, step: int) -> Sequence[tuple[int, int, int]]:
        """Return no moves, since those of the original cluster do not apply."""
        return ()


def time_ms(trace: LoadTrace, step: int) -> int:
    """The time of a step, in milliseconds since 1970."""
    return trace.start_ms + step * trace.step_ms


def span_of(trace: LoadTrace, part: int, parts: int) -> tuple[int, int]:
    """The first step of the `part`th of `parts` equal spans of a trace, and the end of the span."""
    return trace.steps * part // parts, trace.steps * (part + 1) // parts

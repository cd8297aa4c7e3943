"""What a backtest plays: the load of each bundle at each step, and which brokers there are."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from counterpoise.load.rates import Floats, Indices, Rates
from counterpoise.load.view import Integers, Masks


@dataclass(frozen=True)
class Hosts:
    """What load costs each broker: per cent of its resources, at best a line through what was seen.

    Bandwidth is what the bytes are of `bytes_most`; the processor `cpu_idle` and so much more for
    each message/s.
    """

    bytes_most: Floats
    """Bytes/s in, and as many out, at which a broker's network is full."""
    cpu_idle: Floats
    cpu_of_rate: Floats

    def usage(self, loads: Rates, step: int = 0) -> Floats:
        """Per cent used at a step, one row per broker, columns in the order of `load/usage.py`."""
        used = np.zeros((len(loads), 5))
        used[:, 0] = np.minimum(100.0, self.cpu_idle + self.cpu_of_rate * loads.rate())
        used[:, 3] = 100.0 * loads.throughput_in / self.bytes_most
        used[:, 4] = 100.0 * loads.throughput_out / self.bytes_most
        return used

    def averages(self, usage: Floats, weights: Floats, step: int) -> Floats:
        """The brokers' own averages of their weighted usage at a step; 0 where they are not known.

        ``usage`` is what they use, in per cent.
        """
        del weights, step
        return np.zeros(len(usage))

    def more(self, broker: int, loads: Rates, bundle: int) -> Floats:
        """Per cent that a bundle adds to what a broker uses."""
        added = np.zeros(5)
        added[0] = self.cpu_of_rate[broker] * loads.rate()[bundle]
        added[3] = 100.0 * loads.throughput_in[bundle] / self.bytes_most[broker]
        added[4] = 100.0 * loads.throughput_out[bundle] / self.bytes_most[broker]
        return added


class LoadTrace(Protocol):
    """Loads by step; the same for the same arguments, wherever and in whatever order it is asked.

    Bundles and brokers are sorted by name, and a bundle's load does not depend on its owner.
    """

    @property
    def name(self) -> str:
        """As a person asks for it."""

    @property
    def start_ms(self) -> int:
        """When it begins, milliseconds since 1970."""

    @property
    def step_ms(self) -> int:
        """Between two reports of a broker, and two steps."""

    @property
    def steps(self) -> int:
        """How many there are."""

    @property
    def brokers(self) -> tuple[str, ...]:
        """All that are there at some step."""

    @property
    def bundles(self) -> tuple[str, ...]:
        """All that are there at some step."""

    @property
    def topics(self) -> Integers:
        """How many topics each bundle has."""

    @property
    def owners(self) -> Indices:
        """The broker of each bundle at the start."""

    @property
    def hosts(self) -> Hosts:
        """What load costs."""

    def loads(self, step: int) -> Rates:
        """What flows through each bundle."""

    def up(self, step: int) -> Masks:
        """Which brokers are there."""

    def measured(self, step: int) -> Masks | None:
        """Which brokers measure at the end of the step; None: all of them, at each step."""

    def moved(self, step: int) -> Sequence[tuple[int, int, int]]:
        """What changed brokers where the load was recorded: bundle, source, destination."""


class Source(Protocol):
    """Where a trace comes from: a value, so that it can be sent to wherever it is played."""

    def open(self) -> LoadTrace:
        """The trace; made once for each process."""


class DerivedTrace:
    """Another trace, but for what a subclass changes; nothing moved in it.

    What the recording's own balancer moved says nothing of a cluster that is another one.
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
        """What flows through each bundle."""
        return self._whole.loads(step)

    def up(self, step: int) -> Masks:
        """Which brokers are there."""
        return self._whole.up(step)

    def measured(self, step: int) -> Masks | None:
        """See `LoadTrace.measured`."""
        return self._whole.measured(step)

    def moved(self, step: int) -> Sequence[tuple[int, int, int]]:
        """Nothing."""
        return ()


def span_of(trace: LoadTrace, part: int, parts: int) -> tuple[int, int]:
    """The first step of a part of a trace, and the one behind its last."""
    return trace.steps * part // parts, trace.steps * (part + 1) // parts

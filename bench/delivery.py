"""What consumers feel, beside real Apache Pulsar in one run: reading a backlog in every mode.

Consumers are frames (`bench/_frames_consume.py`), so that it is the brokers that are compared; the
processor time that a broker takes for a message says the same of a machine on which the client is
the limit. Rounds alternate between the two; medians are compared, and the ratios' spread is noted.
Live, a producer and a consumer of pulsar-perf stand beside the broker. Of batched messages their
share of two cores is what is measured: a broker that takes less is sent more, and the consumer gets
a smaller part of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from tests.conformance.jars import pulsar_lib

from bench import _pulsar_perf
from bench.beside_pulsar import (
    RATE,
    Server,
    Servers,
    alternate,
    beside,
    child,
    one_broker_each,
    spread,
)
from bench.figures import Figure

ROUNDS = 5
CPU = "cpu_us"


@dataclass(frozen=True, slots=True)
class Mode:
    """One way of consuming."""

    name: str
    kind: str
    acks: str
    messages: int
    consumers: int = 1
    subscriptions: int = 1
    batched: bool = False
    redelivered: bool = False

    def arguments(self, messages: int) -> list[str]:
        """Of `bench._frames_consume`."""
        return [
            "--kind",
            self.kind,
            "--acks",
            self.acks,
            "--messages",
            str(messages),
            "--consumers",
            str(self.consumers),
            "--subscriptions",
            str(self.subscriptions),
            *["--batched"] * self.batched,
            *["--redelivered"] * self.redelivered,
        ]


MODES = (
    Mode("exclusive, batches of 1,000", "exclusive", "cumulative", 4_000_000, batched=True),
    Mode("exclusive, cumulative", "exclusive", "cumulative", 100_000),
    Mode("exclusive, individual", "exclusive", "individual", 100_000),
    Mode("failover", "failover", "cumulative", 100_000),
    Mode("shared, 1 consumer", "shared", "individual", 100_000),
    Mode("shared, 10 consumers", "shared", "individual", 100_000, 10),
    Mode("shared, 100 consumers", "shared", "individual", 100_000, 100),
    Mode("shared, 10 consumers, batches", "shared", "individual", 4_000_000, 10, batched=True),
    Mode("key-shared, 1 consumer", "key-shared", "individual", 100_000),
    Mode("key-shared, 10 consumers", "key-shared", "individual", 100_000, 10),
    Mode("key-shared, 100 consumers", "key-shared", "individual", 100_000, 100),
    Mode("100 subscriptions", "exclusive", "cumulative", 5_000, 1, 100),
)

LIVE = (("Exclusive", True), ("Exclusive", False), ("Shared", False))
"""Types of subscription, and whether its messages are batched."""


def run(*, quick: bool, out: Path) -> list[Figure]:
    """Measure; ``out`` is not needed."""
    del out
    return measured(MODES[:1] if quick else MODES, quick=quick)


def measured(modes: Sequence[Mode], *, quick: bool) -> list[Figure]:
    """The figures of each way of consuming; the quick form measures ours alone."""
    lib = None if quick else pulsar_lib()
    with one_broker_each(lib) as servers:
        figures = [figure for mode in modes for figure in _mode(servers, mode, quick=quick)]
        if lib is not None and _pulsar_perf.available(lib):
            for kind, batched in LIVE:
                figures += _live(lib, servers, kind, batched=batched)
    return figures


def _live(lib: Path, servers: Servers, kind: str, *, batched: bool) -> list[Figure]:
    """A consumer beside its producer, both pulsar-perf's: on few cores they take the broker's."""
    consume = partial(_pulsar_perf.consume, lib, kind=kind, batched=batched, seconds=8)
    results = alternate(servers, ROUNDS, consume)
    name = f"live by pulsar-perf: {kind.lower()}, {'batched' if batched else 'unbatched'}"
    rate = beside(name, "msg/s", results, RATE, at_least=2.0 if batched else 1.5)
    for each in (row for rows in results.values() for row in rows):
        each[CPU] = each["cpu_s"] / each["handled"] * 1e6
    cpu = beside(f"processor of a message, {name}", "us", results, CPU)
    return [replace(rate, note=spread(results, RATE)), _bounded(cpu, results, batched=batched)]


def _mode(servers: Servers, mode: Mode, *, quick: bool) -> list[Figure]:
    messages = mode.messages // 20 if quick else mode.messages

    def measure(server: Server) -> dict[str, Any]:
        urls = ("--url", server.service_url, "--admin-url", server.admin_url)
        return child(
            "bench._frames_consume", *urls, "--pid", str(server.pid), *mode.arguments(messages)
        )

    results = alternate(servers, 1 if quick else ROUNDS, measure)
    print(f"   {mode.name}: measured", flush=True)
    faster = 2.0 if mode.batched else 1.5
    rate = beside(f"a backlog read: {mode.name}", "msg/s", results, RATE, at_least=faster)
    cpu = beside(f"processor of a message: {mode.name}", "us", results, CPU)
    return [replace(rate, note=spread(results, RATE)), _bounded(cpu, results, batched=mode.batched)]


def _bounded(cpu: Figure, results: dict[str, list[Any]], *, batched: bool) -> Figure:
    """The processor time of a message, against its bar."""
    part = 0.5 if batched else 0.33
    if cpu.ratio is not None:
        cpu = replace(cpu, bar=f"≤ {part:g} of Pulsar's", holds=cpu.ratio <= part)
    return replace(cpu, note=spread(results, CPU))

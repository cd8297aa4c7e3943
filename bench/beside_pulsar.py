"""Ours beside real Apache Pulsar in one run: publish throughput, latency, start-up, unload gap.

Rounds alternate between the two, so that a machine that slows down slows both; medians are
compared. Without Pulsar's jars (no Maven) only our figures are printed.
"""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tests.conformance.jars import pulsar_lib

from bench import _pulsar_perf
from bench._ours import Ours, first_acknowledged, up
from bench._processes import cpu_seconds
from bench._real_pulsar import RealPulsar, cluster, standalone
from bench.figures import Figure

EXTENSIBLE = {
    "loadManagerClassName": (
        "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"
    ),
    "loadBalancerLoadSheddingStrategy": (
        "org.apache.pulsar.broker.loadbalance.extensions.scheduler.TransferShedder"
    ),
}

RATE = "messages_per_second"

Server = Ours | RealPulsar
Servers = dict[str, Server]


def run(*, quick: bool, out: Path) -> list[Figure]:
    lib = None if quick else pulsar_lib()
    with tempfile.TemporaryDirectory(prefix="counterpoise-bench-") as text:
        folder = Path(text)
        figures = one_broker(lib, folder, quick=quick)
        figures += unload_gaps(lib, folder, rounds=1 if quick else 20)
    return figures


@contextlib.contextmanager
def one_broker_each(
    lib: Path | None, ours: Mapping[str, str] | None = None, real: Mapping[str, str] | None = None
) -> Iterator[Servers]:
    """A broker of ours and, with its jars, a standalone Pulsar, in folders of their own.

    ``ours`` and ``real``: their settings, under their names in broker.conf.
    """
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="counterpoise-")))
        servers: Servers = {"ours": stack.enter_context(up(folder / "ours", 1, ours))}
        if lib is not None:
            pulsar = standalone(lib, folder / "real", settings=real)
            servers["real"] = stack.enter_context(pulsar)
        yield servers


def one_broker(lib: Path | None, folder: Path, *, quick: bool) -> list[Figure]:
    """One broker each: messages a second, latency, seconds from nothing to acknowledged.

    Publishing is measured with three clients. The official one in Python is the limit itself on a
    small machine, as the row without storage shows; with pulsar-perf, and with frames made
    beforehand, it is the brokers that are compared.
    """
    rounds = 1 if quick else 3
    scale = 30 if quick else 1
    many, few = 600_000 // scale, 150_000 // scale
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(up(folder / "ours", brokers=1))
        start = {"ours": ours.start_seconds + first_acknowledged(ours.service_url)}
        servers: Servers = {"ours": ours}
        if lib is not None:
            real = stack.enter_context(standalone(lib, folder / "standalone"))
            start["real"] = real.start_seconds + first_acknowledged(real.service_url)
            servers["real"] = real
        figures = [
            *_frames(servers, rounds, 2_000_000 // scale, 300_000 // scale),
            *_perf(servers, lib, rounds=1 if quick else 2, seconds=3 if quick else 8),
        ]
        batched = python(servers, rounds, "throughput", "--batched", f"--messages={many}")
        unbatched = python(servers, rounds, "throughput", f"--messages={few}")
        limit = python(
            {"ours": ours}, rounds, "throughput", "--batched", "--unstored", f"--messages={many}"
        )
        delays = python(servers, rounds, "latency", "--rate=1000", f"--seconds={1 if quick else 5}")
    started = {k: [{"s": v}] for k, v in start.items()}
    return [
        *figures,
        beside("one Python client, batched", "msg/s", batched, RATE, at_least=1.5),
        beside("that client's own limit: nothing is stored", "msg/s", limit, RATE),
        beside("one Python client, unbatched", "msg/s", unbatched, RATE, at_least=1.5),
        beside(f"server CPU for {many:,} messages, batched", "s", batched, "cpu_s"),
        beside(f"server CPU for {few:,} messages, unbatched", "s", unbatched, "cpu_s"),
        beside("end to end p50 at 1,000/s", "ms", delays, "p50_ms"),
        beside("end to end p99 at 1,000/s", "ms", delays, "p99_ms"),
        beside("one broker: start to first acknowledged message", "s", started, "s"),
    ]


def _frames(servers: Servers, rounds: int, many: int, few: int) -> list[Figure]:
    """The brokers alone: a client that costs next to nothing."""
    figures = []
    for name, options in (
        ("batches of 1,000", ("--batched", f"--messages={many}")),
        ("unbatched", (f"--messages={few}",)),
    ):
        results = alternate(servers, rounds, client("bench._frames", *options))
        figures.append(beside(f"frames, {name}", "msg/s", results, RATE, at_least=1.5))
    return figures


def _perf(servers: Servers, lib: Path | None, rounds: int, seconds: int) -> list[Figure]:
    """Pulsar's own load generator, where it is among the jars."""
    if lib is None or not _pulsar_perf.available(lib):
        return []
    produce = partial(_pulsar_perf.produce, lib, seconds=seconds)
    return [
        beside(
            f"pulsar-perf, {'batched' if batched else 'unbatched'}",
            "msg/s",
            alternate(servers, rounds, partial(produce, batched=batched)),
            RATE,
            at_least=1.5,
        )
        for batched in (True, False)
    ]


def python(servers: Servers, rounds: int, *arguments: str) -> dict[str, list[Any]]:
    """The official Python client, in a process of its own."""
    return alternate(servers, rounds, client("bench._client", *arguments))


def unload_gaps(lib: Path | None, folder: Path, rounds: int) -> list[Figure]:
    """Three brokers each, a bundle unloaded again and again under 1,000 publishes a second."""
    results: dict[str, list[dict[str, Any]]] = {}
    with up(folder / "ours-3", brokers=3) as ours:
        results["ours"] = [gap(ours.service_url, ours.admin_url, rounds)]
    if lib is not None:
        with cluster(lib, folder / "real-3", 3, **EXTENSIBLE) as real:
            results["real"] = [gap(real.service_url, real.admin_url, rounds)]
    tenth = results["real"][0]["redelivered"] / 10 if lib is not None else None
    rows: tuple[tuple[str, str, str, float | None], ...] = (
        ("publish gap of an unload, median", "ms", "gap_median_ms", 10),
        ("publish gap of an unload, worst", "ms", "gap_max_ms", 50),
        ("publish gap of an unload, least", "ms", "gap_min_ms", None),
        ("unload: messages that never came", "messages", "lost", 0),
        ("unload: redelivered", "messages", "redelivered", tenth),
        ("unload: out of order", "messages", "out_of_order", 0),
    )
    return [beside(name, unit, results, key, at_most=most) for name, unit, key, most in rows]


def alternate(
    servers: Servers, rounds: int, measure: Callable[[Server], dict[str, Any]]
) -> dict[str, list[Any]]:
    """Measure each in turn, ``rounds`` times after one that is not counted, or just once.

    Beside what is measured: ``cpu_s``, the processor time that the server's processes took.
    """
    results: dict[str, list[Any]] = {name: [] for name in servers}
    uncounted = 1 if rounds > 1 else 0
    for number in range(uncounted + rounds):
        for name, server in servers.items():
            # What one server left to be written must not slow the other's disk.
            os.sync()
            before = cpu_seconds(server.pid)
            result = measure(server)
            if number >= uncounted:
                results[name].append({**result, "cpu_s": cpu_seconds(server.pid) - before})
    return results


def client(module: str, *arguments: str) -> Callable[[Server], dict[str, Any]]:
    """A measurement that one of the clients of this folder makes, in a process of its own."""

    def measure(server: Server) -> dict[str, Any]:
        urls = ("--url", server.service_url, "--admin-url", server.admin_url)
        return child(module, *arguments, *urls)

    return measure


def gap(service_url: str, admin_url: str, rounds: int) -> dict[str, Any]:
    return child(
        "bench._gap", "--url", service_url, "--admin-url", admin_url, "--rounds", str(rounds)
    )


def move_figures(gaps: dict[str, list[Any]], most_times: float, what: str = "") -> list[Figure]:
    """What `gap` measured of each; ``what`` names the case, where there are several."""
    case = f": {what}" if what else ""
    return [
        beside(f"gap of a move, median{case}", "ms", gaps, "gap_median_ms", most_times=most_times),
        beside(f"gap of a move, worst{case}", "ms", gaps, "gap_max_ms", most_times=most_times),
        beside(
            f"moves, acknowledged and never received{case}", "messages", gaps, "lost", at_most=0
        ),
    ]


def child(module: str, *arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=300,
    )
    parsed: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return parsed


def beside(
    name: str,
    unit: str,
    results: dict[str, list[Any]],
    key: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    most_times: float | None = None,
) -> Figure:
    """Medians of ours and of real Pulsar.

    ``at_least`` and ``most_times`` are ratios, ``at_most`` is a plain bound.
    """
    ours = statistics.median(r[key] for r in results["ours"])
    real = statistics.median(r[key] for r in results["real"]) if "real" in results else None
    bar, holds = "", None
    if at_least is not None and real:
        bar, holds = f"≥ {at_least:g} times Pulsar's", ours >= at_least * real
    if most_times is not None and real:
        bar, holds = f"≤ {most_times:.2g} times Pulsar's", ours <= most_times * real
    if at_most is not None:
        bar, holds = f"≤ {at_most:g} {unit}", ours <= at_most
    return Figure(name, ours, unit, "Pulsar 4.0.7" if real is not None else "", real, bar, holds)


def spread(results: dict[str, list[Any]], key: str) -> str:
    """The ratios of the pairs: least, median, most."""
    if "real" not in results:
        return ""
    pairs = zip(results["ours"], results["real"], strict=True)
    ratios = sorted(ours[key] / real[key] for ours, real in pairs)
    return f"{ratios[0]:.2f} to {ratios[-1]:.2f}, median {statistics.median(ratios):.2f}"

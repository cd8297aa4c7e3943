"""Ours beside real Apache Pulsar in one run: publish throughput, latency, start-up, unload gap.

Rounds alternate between the two, so that a machine that slows down slows both; medians are
compared. Without Pulsar's jars (no Maven) only our figures are printed.
"""

import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
from tests.conformance.jars import pulsar_lib

from bench._ours import Ours, first_acknowledged, up
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


def run(*, quick: bool, out: Path) -> list[Figure]:
    lib = pulsar_lib()
    with tempfile.TemporaryDirectory(prefix="counterpoise-bench-") as text:
        folder = Path(text)
        figures = one_broker(lib, folder, quick=quick)
        figures += unload_gaps(lib, folder, rounds=3 if quick else 20)
    return figures


def one_broker(lib: Path | None, folder: Path, *, quick: bool) -> list[Figure]:
    """One broker each: messages a second, latency, seconds from nothing to acknowledged."""
    rounds = 1 if quick else 5
    scale = 10 if quick else 1
    many, few = 600_000 // scale, 150_000 // scale
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(up(folder / "ours", brokers=1))
        start = {"ours": ours.start_seconds + first_acknowledged(ours.service_url)}
        servers: dict[str, Ours | RealPulsar] = {"ours": ours}
        if lib is not None:
            real = stack.enter_context(standalone(lib, folder / "standalone"))
            start["real"] = real.start_seconds + first_acknowledged(real.service_url)
            servers["real"] = real
        batched = alternate(servers, rounds, "throughput", "--batched", f"--messages={many}")
        pair = alternate(
            servers, rounds, "throughput", "--batched", f"--messages={many}", clients=2
        )
        unbatched = alternate(servers, rounds, "throughput", f"--messages={few}")
        limit = alternate(
            {"ours": ours}, rounds, "throughput", "--batched", "--unstored", f"--messages={many}"
        )
        delays = alternate(servers, rounds, "latency", "--rate=1000", f"--seconds={5 / scale}")
    figures = [
        beside("publish, batched", "msg/s", batched, RATE, at_least=1.5),
        beside("publish, batched, two clients at once", "msg/s", pair, RATE, at_least=1.5),
        beside("the client's own limit, batched: nothing is stored", "msg/s", limit, RATE),
        beside("publish, unbatched", "msg/s", unbatched, RATE, at_least=1.5),
        beside(f"server CPU for {many:,} messages, batched", "s", batched, "cpu_s"),
        beside(f"server CPU for {few:,} messages, unbatched", "s", unbatched, "cpu_s"),
        beside("end to end p50 at 1,000/s", "ms", delays, "p50_ms"),
        beside("end to end p99 at 1,000/s", "ms", delays, "p99_ms"),
    ]
    started = {k: [{"s": v}] for k, v in start.items()}
    return [*figures, beside("one broker: start to first acknowledged message", "s", started, "s")]


def unload_gaps(lib: Path | None, folder: Path, rounds: int) -> list[Figure]:
    """Three brokers each, a bundle unloaded again and again under 1,000 publishes a second."""
    results: dict[str, list[dict[str, Any]]] = {}
    with up(folder / "ours-3", brokers=3) as ours:
        results["ours"] = [gap(ours.service_url, ours.admin_url, rounds)]
    if lib is not None:
        with cluster(lib, folder / "real-3", 3, **EXTENSIBLE) as real:
            results["real"] = [gap(real.service_url, real.admin_url, rounds)]
    median = beside("publish gap of an unload, median", "ms", results, "gap_median_ms", at_most=30)
    lost = beside("messages that never came", "messages", results, "lost", at_most=0)
    rest = [
        beside(f"unload: {key.replace('_', ' ')}", unit, results, key)
        for key, unit in (
            ("gap_min_ms", "ms"),
            ("gap_max_ms", "ms"),
            ("redelivered", "messages"),
            ("out_of_order", "messages"),
        )
    ]
    return [median, lost, *rest]


def alternate(
    servers: Mapping[str, Ours | RealPulsar], rounds: int, *arguments: str, clients: int = 1
) -> dict[str, list[Any]]:
    """Run the client against each in turn, ``rounds`` times after one round that is not counted.

    Beside what the client measures: ``cpu_s``, the processor time that the server's processes took.
    Several clients run at once, and what they measure is added up.
    """
    results: dict[str, list[Any]] = {name: [] for name in servers}
    for number in range(rounds + 1):
        for name, server in servers.items():
            urls = ("--url", server.service_url, "--admin-url", server.admin_url)
            before = cpu_seconds(server.pid)
            with ThreadPoolExecutor(clients) as pool:
                running = [
                    pool.submit(child, "bench._client", *arguments, *urls) for _ in range(clients)
                ]
                parts = [each.result() for each in running]
            result = {key: sum(part[key] for part in parts) for key in parts[0]}
            if number:
                results[name].append({**result, "cpu_s": cpu_seconds(server.pid) - before})
    return results


def cpu_seconds(pid: int) -> float:
    """Processor time of a process and all below it."""
    top = psutil.Process(pid)
    times = [each.cpu_times() for each in (top, *top.children(recursive=True))]
    return sum(t.user + t.system for t in times)


def gap(service_url: str, admin_url: str, rounds: int) -> dict[str, Any]:
    return child(
        "bench._gap", "--url", service_url, "--admin-url", admin_url, "--rounds", str(rounds)
    )


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
) -> Figure:
    """Medians of ours and of real Pulsar; ``at_least`` is a ratio, ``at_most`` a plain bound."""
    ours = statistics.median(r[key] for r in results["ours"])
    real = statistics.median(r[key] for r in results["real"]) if "real" in results else None
    bar, holds = "", None
    if at_least is not None and real:
        bar, holds = f"≥ {at_least:g} times Pulsar's", ours >= at_least * real
    if at_most is not None:
        bar, holds = f"≤ {at_most:g} {unit}", ours <= at_most
    return Figure(name, ours, unit, "Pulsar 4.0.7" if real is not None else "", real, bar, holds)

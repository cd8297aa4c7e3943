"""Brokers of ours beside Apache Pulsar's on the same three bookies: publishing, latency, moves.

One ZooKeeper and three real bookies; each side has its brokers' metadata below a root of its own.
Two copies of every entry, both acknowledged. Rounds alternate. The quick form measures ours alone.
"""

import contextlib
import os
import tempfile
from pathlib import Path

from tests.conformance.jars import pulsar_lib

from bench._on_zookeeper import ours, real
from bench._ours import first_acknowledged
from bench._processes import cpu_seconds
from bench.beside_pulsar import (
    EXTENSIBLE,
    RATE,
    Servers,
    alternate,
    beside,
    client,
    gap,
    move_figures,
    python,
)
from bench.figures import Figure
from counterpoise.app.clusters.bookies import LocalBookies
from counterpoise.app.clusters.zookeeper import ZooKeeper

BOOKIES = 3


def run(*, quick: bool, out: Path) -> list[Figure]:
    lib = None if quick else pulsar_lib()
    with tempfile.TemporaryDirectory(prefix="counterpoise-bench-") as text:
        folder = Path(text)
        with (
            ZooKeeper.start(folder / "zookeeper") as zookeeper,
            LocalBookies.start(BOOKIES, folder / "bookies", zookeeper.address) as bookies,
        ):
            figures = publishing(lib, folder, zookeeper, bookies, quick=quick)
            figures += moving(lib, folder, zookeeper, rounds=1 if quick else 20)
    return figures


def publishing(
    lib: Path | None, folder: Path, zookeeper: ZooKeeper, bookies: LocalBookies, *, quick: bool
) -> list[Figure]:
    """One broker each."""
    scale = 10 if quick else 1
    rounds = 1 if quick else 3
    many, few = 600_000 // scale, 60_000 // scale
    with contextlib.ExitStack() as stack:
        address = zookeeper.address
        mine = ours(folder / "ours-1", address, [{}], **messages_on(zookeeper))
        servers: Servers = {"ours": stack.enter_context(mine)}
        if lib is not None:
            theirs = real(lib, folder / "real-1", address, 1, **EXTENSIBLE)
            servers["real"] = stack.enter_context(theirs)
        for each in servers.values():
            first_acknowledged(each.service_url)
        frames = "bench._frames"
        before = sum(cpu_seconds(each.pid) for each in bookies.children)
        batched = alternate(servers, rounds, client(frames, "--batched", f"--messages={many}"))
        unbatched = alternate(servers, rounds, client(frames, f"--messages={few}"))
        took = sum(cpu_seconds(each.pid) for each in bookies.children) - before
        delays = python(servers, rounds, "latency", "--rate=1000", f"--seconds={8 / scale}")
    load = os.getloadavg()[0]
    return [
        beside("frames, batches of 1,000", "msg/s", batched, RATE, at_least=1.0),
        beside("frames, unbatched", "msg/s", unbatched, RATE, at_least=1.0),
        beside(f"broker CPU for {2 * few:,} messages, unbatched", "s", unbatched, "cpu_s"),
        beside("end to end p50 at 1,000/s", "ms", delays, "p50_ms", most_times=1.0),
        beside("end to end p99 at 1,000/s", "ms", delays, "p99_ms", most_times=1.0),
        Figure("CPU of the bookies meanwhile", took, "s", note=f"load of the machine {load:.1f}"),
    ]


def moving(lib: Path | None, folder: Path, zookeeper: ZooKeeper, rounds: int) -> list[Figure]:
    """Two brokers each, a bundle unloaded again and again under 1,000 publishes a second."""
    results = {}
    address = zookeeper.address
    with ours(folder / "ours-2", address, [{}, {}], **messages_on(zookeeper)) as mine:
        results["ours"] = [gap(mine.service_url, mine.admin_url, rounds)]
    if lib is not None:
        with real(lib, folder / "real-2", address, 2, **EXTENSIBLE) as theirs:
            results["real"] = [gap(theirs.service_url, theirs.admin_url, rounds)]
    return move_figures(results, 1 / 3)


def messages_on(zookeeper: ZooKeeper) -> dict[str, str]:
    """The setting of ours for messages on the bookies of this ZooKeeper."""
    return {"ledgerStoreUrl": f"metadata-store:{zookeeper.metadata_url}"}

"""Reading what is not at hand, beside Apache Pulsar in one run: a backlog after a restart, cold and
warm, a compacted topic, and delayed messages by the million.

Consumers are frames. *Cold*: the servers were started again and the system's cache of their files
was dropped; *warm*: the same entries again, for another subscription.
"""

import contextlib
import os
import tempfile
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.conformance.jars import pulsar_lib

from bench._frames import BATCH
from bench._ours import up
from bench._real_pulsar import standalone
from bench.beside_pulsar import RATE, Server, Servers, alternate, beside, child, spread
from bench.figures import Figure

ROUNDS = 5
CATCH_UP = {"batches of 1,000": (4_000_000, BATCH), "unbatched": (200_000, 1)}
COMPACTED, DELAYED, MILLION = 100_000, 100_000, 1_000_000
DELAY_S, MILLIONS_DELAY_S = 10, 40
CLIENT = "bench._frames_read"


def run(*, quick: bool, out: Path) -> list[Figure]:
    """Measure; ``out`` is not needed."""
    del out
    lib = None if quick else pulsar_lib()
    scale, rounds = (50, 1) if quick else (1, ROUNDS)
    with tempfile.TemporaryDirectory(prefix="counterpoise-bench-") as text:
        folder = Path(text)
        figures = catch_up(folder, lib, rounds, scale)
        with contextlib.ExitStack() as stack:
            servers = {
                name: stack.enter_context(_server(folder, name, lib))
                for name in (["ours", "real"] if lib is not None else ["ours"])
            }
            figures += compacted(servers, rounds, scale)
            figures += delayed(servers, rounds, scale)
    return figures


def _server(folder: Path, name: str, lib: Path | None) -> AbstractContextManager[Server]:
    if name == "ours":
        return up(folder / name, brokers=1)
    assert lib is not None
    return standalone(lib, folder / name)


def catch_up(folder: Path, lib: Path | None, rounds: int, scale: int) -> list[Figure]:
    """A backlog left before a restart: read once cold, and once more."""
    names = ["ours", "real"] if lib is not None else ["ours"]
    results: dict[tuple[str, str], dict[str, list[Any]]] = {
        (kind, how): {name: [] for name in names} for kind in CATCH_UP for how in ("cold", "warm")
    }
    for name in names:
        with _server(folder, name, lib) as server:
            for kind, (messages, batch) in CATCH_UP.items():
                _client(server, "left", kind, messages // scale, batch)
    for number in range(rounds):
        for name in names:
            _drop_cached(folder / name)
            with _server(folder, name, lib) as server:
                for kind, (messages, batch) in CATCH_UP.items():
                    for how in ("cold", "warm"):
                        took = _client(
                            server, "read", kind, messages // scale, batch, f"{how}-{number}-"
                        )
                        results[kind, how][name].append(took)
    figures = []
    for (kind, how), measured in results.items():
        figure = beside(f"after a restart, {how}: {kind}", "msg/s", measured, RATE, at_least=1.5)
        figures.append(replace(figure, note=spread(measured, RATE)))
    return figures


def _client(
    server: Server, what: str, kind: str, messages: int, batch: int, subscription: str = "s"
) -> dict[str, Any]:
    topic = f"persistent://public/default/{kind.replace(' ', '-').replace(',', '')}"
    return child(
        CLIENT,
        what,
        "--url",
        server.service_url,
        "--admin-url",
        server.admin_url,
        "--topic",
        topic,
        "--messages",
        str(messages),
        "--batch",
        str(batch),
        "--subscription",
        subscription,
    )


def _drop_cached(folder: Path) -> None:
    """Write out, and drop, what the system has of the files below a folder in its memory."""
    os.sync()
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def compacted(servers: Servers, rounds: int, scale: int) -> list[Figure]:
    """A topic on which each key came twice."""
    messages = COMPACTED // scale
    results = _measured(servers, rounds, "compacted", messages)
    note = f"{messages:,} messages, each key twice"
    return [
        replace(
            beside(name, unit, results, key, **bar),
            note="; ".join(filter(None, (note, spread(results, key)))),
        )
        for name, unit, key, bar in (
            ("a topic is compacted", "s", "compaction_s", {"most_times": 1.0}),
            ("a compacted topic read", "msg/s", RATE, {"at_least": 1.5}),
        )
    ]


def delayed(servers: Servers, rounds: int, scale: int) -> list[Figure]:
    """Messages that are all due at one moment."""
    figures = []
    for messages, delay_s, count in (
        (DELAYED // scale, DELAY_S, rounds),
        *([(MILLION, MILLIONS_DELAY_S, 1)] if scale == 1 else []),
    ):
        options = (f"--delay-s={delay_s if scale == 1 else 2}",)
        results = _measured(servers, count, "delayed", messages, *options)
        note = f"{messages:,} due at one moment; " + (
            spread(results, RATE) if count > 1 else "measured once"
        )
        for name, unit, key, bar in (
            ("delayed messages, from the first one on", "msg/s", RATE, {"at_least": 1.5}),
            ("memory of a delayed message", "bytes", "bytes", {}),
            ("processor of a delayed message, published and delivered", "us", "cpu_us", {}),
        ):
            size = f"{messages:,}"
            figure = beside(f"{name}: {size}", unit, results, key, **bar)
            figures.append(replace(figure, note=note if key == RATE else ""))
    return figures


def _measured(
    servers: Servers, rounds: int, what: str, messages: int, *options: str
) -> dict[str, list[Any]]:
    def measure(server: Server) -> dict[str, Any]:
        urls = ("--url", server.service_url, "--admin-url", server.admin_url)
        pid = ("--pid", str(server.pid))
        return child(CLIENT, what, *urls, *pid, "--messages", str(messages), *options)

    return alternate(servers, rounds, measure)

"""Publish limits with the official client: how exact, how fair, and what a neighbour feels.

Ours beside Apache Pulsar standalone where its jars can be had, the same runs one after the other.
"""

import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from tests.conformance.jars import pulsar_lib

from bench._ours import up
from bench._real_pulsar import standalone
from bench._throttle_client import SLOTS_A_SECOND, set_rate
from bench.beside_pulsar import Servers
from bench.figures import Figure


@dataclass(frozen=True, slots=True)
class Case:
    """One limit and those who exceed it."""

    messages: int = 0
    bytes: int = 0
    size: int = 100
    batched: bool = False
    producers: int = 1
    shared: bool = False
    neighbour: str = "shared"

    @property
    def name(self) -> str:
        what = f"{self.messages:,} msg/s" if self.messages else f"{self.bytes:,} B/s"
        who = "1 producer"
        if self.producers > 1:
            who = f"{self.producers} producers, " + ("1 connection" if self.shared else "own ones")
        return f"{what}{', batched' if self.batched else ''}, {who}, neighbour on {self.neighbour}"

    @property
    def words(self) -> list[str]:
        words = [f"--messages={self.messages}", f"--bytes={self.bytes}", f"--size={self.size}"]
        words += [f"--producers={self.producers}", f"--neighbour={self.neighbour}"]
        return words + ["--batched"] * self.batched + ["--shared"] * self.shared

    @property
    def per_second(self) -> float:
        """The limit in messages, as far as their size on the wire is known."""
        return self.messages or self.bytes / (self.size + WIRE_BYTES)


WIRE_BYTES = 43
"""What an unbatched entry of these clients has besides its payload, measured below."""

CASES = (
    Case(messages=10),
    Case(messages=100, neighbour="own"),
    Case(messages=1000),
    Case(messages=1000, producers=4),
    Case(messages=1000, producers=4, shared=True),
    Case(bytes=100_000, size=1000),
    Case(bytes=10_000_000, size=10_000, producers=2),
    Case(messages=10_000, batched=True),
    Case(messages=50_000, batched=True, producers=2),
)
QUICK = (Case(messages=100), Case(messages=1000, producers=3, shared=True))


def run(*, quick: bool, out: Path) -> list[Figure]:
    """Measure; ``out`` is not needed."""
    del out
    lib = None if quick else pulsar_lib()
    seconds = 4 if quick else 10
    with (
        tempfile.TemporaryDirectory(prefix="counterpoise-bench-") as text,
        contextlib.ExitStack() as stack,
    ):
        folder = Path(text)
        servers: Servers = {"ours": stack.enter_context(up(folder / "ours", brokers=1))}
        if lib is not None:
            servers["real"] = stack.enter_context(standalone(lib, folder / "standalone"))
        figures = cost(servers["ours"], rounds=1 if quick else 6)
        for case in QUICK if quick else CASES:
            found = {name: client(each, case, seconds) for name, each in servers.items()}
            alone = client(servers["ours"], case, min(seconds, 4), "--idle")
            figures += _figures(case, found, alone, seconds)
        return figures


UNREACHED = (1_000_000_000, 1_000_000_000_000)
"""Messages and bytes a second that nobody reaches."""


def cost(server: Any, rounds: int) -> list[Figure]:
    """What limits cost that are set and not reached: the broker's processor time, paired runs.

    Processor time, because whatever else the machine does changes the throughput more than this.
    """
    figures = []
    for kind, words in {"unbatched": [], "batched": ["--batched"]}.items():
        messages = 300_000 if words else 60_000
        spent: dict[str, list[float]] = {"without": [], "with": []}
        for number in range(2 * rounds + 1):
            which = "with" if number % 2 else "without"
            set_rate(server.admin_url, "public/default", *(UNREACHED if number % 2 else (0, 0)))
            before = _processor_seconds(server.pid)
            subprocess.run(
                [
                    *(sys.executable, "-m", "bench._client", "throughput"),
                    *(f"--url={server.service_url}", f"--admin-url={server.admin_url}"),
                    *(f"--messages={messages}", *words),
                ],
                check=True,
                capture_output=True,
                timeout=120,
            )
            if number:  # the first warms up
                spent[which].append(_processor_seconds(server.pid) - before)
        set_rate(server.admin_url, "public/default", 0, 0)
        plain, limited = (statistics.median(spent[which]) for which in ("without", "with"))
        figures.append(
            Figure(
                f"processor time of {messages:,} {kind} messages under limits that are not reached",
                limited,
                "s",
                "no limit",
                plain,
                "at most 1.02 of it",
                limited <= 1.02 * plain,
            )
        )
    return figures


def _processor_seconds(pid: int) -> float:
    """What a process and its children have used, user and system."""
    process = psutil.Process(pid)
    times = [each.cpu_times() for each in (process, *process.children(recursive=True))]
    return sum(each.user + each.system for each in times)


def client(server: Any, case: Case, seconds: float, *more: str) -> dict[str, Any]:
    words = [f"--url={server.service_url}", f"--admin-url={server.admin_url}", *case.words, *more]
    done = subprocess.run(
        [sys.executable, "-m", "bench._throttle_client", *words, f"--seconds={seconds}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{case.name}: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def jain(shares: list[int]) -> float:
    """Jain's index: 1 when all have the same, 1/n when one has everything."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 0.0


def summary(case: Case, found: dict[str, Any], seconds: float) -> dict[str, float]:
    """Mean, worst second and first second as shares of the limit; fairness; the neighbour."""
    slots = [sum(each) for each in zip(*found["acknowledged"], strict=True)]
    windows = [
        sum(slots[begin : begin + SLOTS_A_SECOND]) for begin in range(len(slots) - SLOTS_A_SECOND)
    ]
    took = sorted(found["neighbour_ms"])
    return {
        "mean": sum(slots) / seconds / case.per_second,
        "worst": max(windows) / case.per_second,
        "first": sum(slots[:SLOTS_A_SECOND]) / case.per_second,
        "fair": jain([sum(each) for each in found["acknowledged"]]),
        "p50": statistics.median(took),
        "p99": took[int(len(took) * 0.99)],
        "rate": len(took) / seconds,
    }


def _figures(
    case: Case, found: dict[str, dict[str, Any]], alone: dict[str, Any], seconds: float
) -> list[Figure]:
    ours = summary(case, found["ours"], seconds)
    theirs = summary(case, found["real"], seconds) if "real" in found else {}
    quiet = sorted(alone["neighbour_ms"])
    # One entry, and what a resolution step allows, come on top of the rate in any second.
    burst = 1 + max(0.016, (200 if case.batched else 2) / case.per_second) + 0.02
    bars = {
        "mean": ("0.97 to 1.03 of it", 0.97 <= ours["mean"] <= 1.03),
        "worst": (f"at most {burst:.2f}", ours["worst"] <= burst),
        "first": ("at most 1.1, and one entry", ours["first"] <= burst + 0.08),
        "fair": ("at least 0.95", ours["fair"] >= 0.95),
        "p99": ("", None),
        "rate": ("at least 95 a second", ours["rate"] >= 95),
    }
    figures = []
    for what, (bar, holds) in bars.items():
        if what == "fair" and case.producers == 1:
            continue
        unit = {"p99": "ms", "rate": "msg/s", "fair": ""}.get(what, "of the limit")
        anchor = "Pulsar" if theirs else ""
        title = {"p99": "neighbour's p99", "rate": "neighbour's rate", "worst": "worst second"}
        name = f"{case.name}: {title.get(what, what)}"
        figures.append(Figure(name, ours[what], unit, anchor, theirs.get(what), bar, holds))
    for share in (0.5, 0.99):
        name = f"{case.name}: neighbour's p{100 * share:.0f}, without a limit beside it"
        without = quiet[int(len(quiet) * share)]
        figures.append(Figure(name, ours[f"p{100 * share:.0f}"], "ms", "alone", without))
    return figures

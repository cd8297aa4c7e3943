"""Publish limits: how exact, how fair, and what a neighbour feels; and what they cost.

Ours beside Apache Pulsar standalone where its jars can be had, the same runs one after the other:
with the official client, and for what it cannot reach with frames made beforehand. Under ten
minutes: ``python -m bench throttle``.
"""

import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance.jars import pulsar_lib

from bench._admin import call
from bench._frames import BATCH, UNANSWERED_BATCHES, UNANSWERED_MESSAGES, FrameClient, sends
from bench._ours import up
from bench._real_pulsar import standalone
from bench._throttle_client import SLOTS_A_SECOND, set_rate
from bench.beside_pulsar import Servers
from bench.figures import Figure

STEP_S = 0.016
"""A resolution step."""


@dataclass(frozen=True, slots=True)
class Case:
    """One limit and those who exceed it."""

    messages: int = 0
    bytes: int = 0
    size: int = 100
    batch: int = 1
    producers: int = 1
    shared: bool = False
    neighbour: str = "shared"
    midway: bool = False
    """The limit is set while they publish already."""
    client: str = "frames"

    @property
    def name(self) -> str:
        what = f"{self.messages:,} msg/s" if self.messages else f"{self.bytes:,} B/s"
        who = "1 producer"
        if self.producers > 1:
            who = f"{self.producers} producers, " + ("1 connection" if self.shared else "own ones")
        how = f", batches of {self.batch}" * (self.batch > 1) + ", set midway" * self.midway
        official = "official client, " if self.client == "client" else ""
        return f"{official}{what}{how}, {who}, neighbour on {self.neighbour}"

    @property
    def words(self) -> list[str]:
        words = [f"--messages={self.messages}", f"--bytes={self.bytes}", f"--size={self.size}"]
        words += [f"--producers={self.producers}", f"--neighbour={self.neighbour}"]
        words += [f"--batch={self.batch}"]
        return words + ["--shared"] * self.shared + ["--midway"] * self.midway

    @property
    def per_second(self) -> float:
        """The limit in messages, as far as their size on the wire is known."""
        return self.messages or self.bytes / (self.size + WIRE_BYTES[self.client])


WIRE_BYTES = {"client": 43, "frames": 27}
"""What an unbatched entry of these clients has besides its payload."""

CASES = (
    Case(messages=10, client="client"),
    Case(messages=1_000, producers=4, shared=True, client="client"),
    Case(bytes=100_000, size=1_000, producers=2, client="client"),
    Case(messages=10, producers=2),
    Case(messages=100, producers=3, neighbour="own"),
    Case(messages=1_000, producers=4),
    Case(messages=1_000, producers=4, shared=True),
    Case(messages=1_000, producers=2, midway=True),
    Case(bytes=1_000_000, size=1_000, producers=4, shared=True),
    Case(messages=10_000, producers=2, neighbour="own"),
    Case(messages=10_000, producers=2, shared=True, batch=20),
    Case(messages=50_000, producers=2, batch=20),
    Case(messages=50_000, producers=4, shared=True, batch=20, midway=True),
    Case(bytes=10_000_000, size=5_000, producers=3, shared=True),
)
QUICK = (Case(messages=1_000, producers=3, shared=True, batch=5, midway=True),)


def run(*, quick: bool, out: Path) -> list[Figure]:
    """Measure; ``out`` is not needed."""
    del out
    lib = None if quick else pulsar_lib()
    seconds = 2 if quick else 10
    with (
        tempfile.TemporaryDirectory(prefix="counterpoise-bench-") as text,
        contextlib.ExitStack() as stack,
    ):
        folder = Path(text)
        servers: Servers = {"ours": stack.enter_context(up(folder / "ours", brokers=1))}
        if lib is not None:
            servers["real"] = stack.enter_context(standalone(lib, folder / "standalone"))
        scale, rounds = (20, 1) if quick else (1, 25)
        figures = cost(servers["ours"], rounds, scale)
        alone: dict[str, list[float]] = {}
        for case in QUICK if quick else CASES:
            if case.client not in alone:
                idle = client(servers["ours"], case, 1 if quick else 4, "--idle")
                alone[case.client] = sorted(idle["neighbour_ms"])
            found = {name: client(each, case, seconds) for name, each in servers.items()}
            figures += _figures(case, found, alone[case.client], seconds)
        return figures if quick else figures + group(folder / "group")


UNREACHED = (1_000_000_000, 1_000_000_000_000)
"""Messages and bytes a second that no producer reaches."""


def cost(server: Any, rounds: int, scale: int) -> list[Figure]:
    """What limits cost that are set and not reached: the broker's processor time, paired runs.

    Processor time, because whatever else the machine does changes the throughput more than this.
    """
    for name in ("free", "limited"):
        path = f"{server.admin_url}/admin/v2/namespaces/public/{name}"
        call("PUT", path, {"bundles": {"numBundles": 1}})
    set_rate(server.admin_url, "public/limited", *UNREACHED)
    kinds = {
        "unbatched": (100_000 // scale, 1, UNANSWERED_MESSAGES),
        "batched": (1_000_000 // scale, BATCH, UNANSWERED_BATCHES),
    }
    figures = []
    for kind, (messages, batch, unanswered) in kinds.items():
        made = sends(0, messages // batch, batch=batch)
        spent: dict[str, list[float]] = {"free": [], "limited": []}
        for number in range(rounds + 1):
            for name in sorted(spent, reverse=number % 2 == 1):
                topic = f"persistent://public/{name}/{uuid.uuid4().hex[:8]}"
                flood = FrameClient(server.service_url, topic)
                before = processor_seconds(server.pid)
                flood.publish(made, unanswered)
                if number:  # the first warms up
                    spent[name].append((processor_seconds(server.pid) - before) / messages)
                flood.close()
        plain = statistics.median(spent["free"]) * 1e6
        pairs = zip(spent["limited"], spent["free"], strict=True)
        limited = plain * statistics.median(one / other for one, other in pairs)
        name = (
            f"the broker's processor time of a message, {kind}, under limits that are not reached"
        )
        holds = limited <= 1.02 * plain
        figures.append(Figure(name, limited, "us", "no limit", plain, "at most 1.02 of it", holds))
    return figures


def processor_seconds(pid: int) -> float:
    """What a process and those it started have used, as the scheduler counts it.

    But for ZooKeeper, which compiles when it likes.
    """
    if Path(f"/proc/{pid}/comm").read_text().strip() == "java":
        return 0.0
    spent = sum(_nanoseconds(each) for each in Path(f"/proc/{pid}/task").glob("*/schedstat"))
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return spent / 1e9 + sum(processor_seconds(int(each)) for each in children)


def _nanoseconds(schedstat: Path) -> int:
    try:
        return int(schedstat.read_text().split()[0])
    except OSError:  # a thread that has ended
        return 0


def group(folder: Path) -> list[Figure]:
    """A resource group's limit over three brokers, of which two use it, and then other two."""
    with up(folder, brokers=3) as three:
        words = [sys.executable, "-m", "bench._group_frames", f"--admin-url={three.admin_url}"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise SystemExit(f"a resource group: {done.stderr[-2000:]}")
    found = json.loads(done.stdout)
    figures = []
    for which, passed in zip(("the first two", "the last two"), found["passed"], strict=True):
        share = sum(passed) / found["limit"]
        name = f"a resource group of {found['limit']} msg/s over 3 brokers, {which} using it"
        holds = abs(share - 1) <= 0.05
        figures.append(Figure(name, share, "of the limit", bar="0.95 to 1.05 of it", holds=holds))
    return figures


def client(server: Any, case: Case, seconds: float, *more: str) -> dict[str, Any]:
    words = [f"--url={server.service_url}", f"--admin-url={server.admin_url}", *case.words, *more]
    done = subprocess.run(
        [sys.executable, "-m", f"bench._throttle_{case.client}", *words, f"--seconds={seconds}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{case.name}: {done.stderr[-2000:]}")
    # The official client logs to the same place.
    answers = [line for line in done.stdout.splitlines() if line.startswith("{")]
    # It may do so before the line has ended.
    found: dict[str, Any] = json.JSONDecoder().raw_decode(answers[-1])[0]
    return found


def jain(shares: list[int]) -> float:
    """Jain's index: 1 when all have the same, 1/n when one has everything."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 0.0


def summary(case: Case, found: dict[str, Any], seconds: float) -> dict[str, float]:
    """Mean, worst second and first second as shares of the limit; fairness; the neighbour."""
    slots = [sum(each) for each in zip(*found["acknowledged"], strict=True)]
    first = sum(slots[:SLOTS_A_SECOND])
    if case.midway:
        # What was under way before there was a limit passes besides.
        slots, seconds = slots[SLOTS_A_SECOND:], seconds - 1
    took = sorted(found["neighbour_ms"])
    return {
        "mean": sum(slots) / seconds / case.per_second,
        "worst": max(_windows(slots)) / case.per_second,
        "first": first / case.per_second,
        "fair": jain([sum(each) for each in found["acknowledged"]]),
        "p50": statistics.median(took),
        "p99": took[int(len(took) * 0.99)],
        "rate": len(took) / (seconds + 2 * case.midway),
        # How much later than others some receipts came.
        "late_s": (took[-1] - took[0]) / 1e3,
        "in_flight": found["in_flight"] / case.per_second,
    }


def _windows(slots: list[int]) -> Iterator[int]:
    for begin in range(len(slots) - SLOTS_A_SECOND + 1):
        yield sum(slots[begin : begin + SLOTS_A_SECOND])


def _figures(
    case: Case, found: dict[str, dict[str, Any]], alone: list[float], seconds: float
) -> list[Figure]:
    ours = summary(case, found["ours"], seconds)
    theirs = summary(case, found["real"], seconds) if "real" in found else {}
    # One entry, and what a resolution step allows, come on top of the rate in any second. What is
    # counted here are receipts: those that came late are counted in a later second.
    burst = 1 + STEP_S + case.batch / case.per_second
    late, flight = ours["late_s"], ours["in_flight"]
    late_text = f", and receipts up to {1000 * late:.0f} ms late"
    flight_text = f", and {flight:.2f} in flight" if case.midway else ""
    bars: dict[str, tuple[str, bool | None]] = {
        "mean": ("0.97 to 1.03 of it", 0.97 <= ours["mean"] <= 1.03),
        "worst": (f"at most {burst:.3f}{late_text}", ours["worst"] <= burst + late),
        "first": (
            f"at most {max(1.1, burst):.3f}{flight_text}",
            ours["first"] <= max(1.1, burst) + flight,
        ),
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
        title = {
            "p99": "neighbour's p99",
            "rate": "neighbour's rate",
            "worst": "worst second",
            "first": "first second",
        }
        name = f"{case.name}: {title.get(what, what)}"
        figures.append(Figure(name, ours[what], unit, anchor, theirs.get(what), bar, holds))
    for share in (0.5, 0.99):
        name = f"{case.name}: neighbour's p{100 * share:.0f}, beside the same without a limit"
        without = alone[int(len(alone) * share)]
        figures.append(Figure(name, ours[f"p{100 * share:.0f}"], "ms", "alone", without))
    return figures

"""One attack from beginning to end: a broker, a bystander, attackers, and the verdict."""

import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.attack.wire.attackers import Attack, Tally
from tests.attack.wire.bystander import PATIENCE_S
from tests.attack.wire.judges import GAP_MAX_S, Seen, problems
from tests.attack.wire.target import ROOT, Target, broker, environment


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was done, what was seen, and what did not hold."""

    tally: Tally
    seconds: float
    seen: Seen
    problems: list[str]

    def __str__(self) -> str:
        done = (
            f"{self.tally.frames} frames on {self.tally.connections} connections in "
            f"{self.seconds:.0f} s; the broker ended {self.tally.closed_by_broker} of them"
        )
        seen = (
            f"bystander: {self.seen.rounds} rounds, the worst {self.seen.worst_gap_s:.3f} s "
            f"(the machine alone: {self.seen.machine_late_s:.3f} s); "
            f"memory: {self.seen.memory_mb:.0f} MB"
        )
        return "\n".join((done, seen, *self.problems, "" if self.problems else "it stood"))


def attack(
    *, frames: int, seconds: float, seed: int, fault: str = "", gap_max_s: float = GAP_MAX_S
) -> Verdict:
    """Attack a new broker; ``fault`` plants one of `planted`, to see a judge find it."""
    with (
        tempfile.TemporaryDirectory(prefix="counterpoise-attack-") as folder,
        broker(Path(folder), fault) as target,
    ):
        attackers = Attack(target.service_url, frames=frames, seconds=seconds, seed=seed)
        return attacked(target, attackers.run(), gap_max_s)


def attacked(target: Target, attack: Coroutine[Any, Any, Tally], gap_max_s: float) -> Verdict:
    """Attack a broker beside a bystander."""
    began = time.monotonic()
    bystander = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tests.attack.wire.bystander",
            target.service_url,
            str(target.process.pid),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
        cwd=ROOT,
    )
    assert bystander.stdout is not None
    try:
        if bystander.stdout.readline() != "ready\n":
            raise RuntimeError("the bystander was not served before the attack began")
        tally = asyncio.run(attack)
        printed, _ = bystander.communicate(timeout=PATIENCE_S + 10)
    finally:
        if bystander.poll() is None:
            bystander.kill()
            bystander.communicate()
    saw = json.loads(printed.splitlines()[-1])
    afterwards = target.why_not_serving()
    if afterwards:
        # Its sockets close a moment before its end can be seen.
        with contextlib.suppress(subprocess.TimeoutExpired):
            target.process.wait(timeout=2)
    seen = Seen(
        worst_gap_s=saw["worst_s"],
        machine_late_s=saw["late_s"],
        rounds=saw["rounds"],
        bystander_problem=saw["problem"],
        memory_mb=target.memory_mb,
        log=target.log,
        still_serves=afterwards,
        exit_status=target.process.poll(),
    )
    return Verdict(tally, time.monotonic() - began, seen, problems(seen, gap_max_s))

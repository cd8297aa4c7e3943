"""`counterpoise`, killed with -9 by itself at a point of its choosing.

    python -m tests.pipeline.kills.driver ENGINE POINT NTH WORDS…

ENGINE is `spark`, or `thread`: the same fold of the same states without a JVM (`without_spark.py`),
which is there in a moment. POINT is what has just happened for the NTH time when the process dies:
a file of a table is there (`reports`, `decisions`, `rounds`, `outcomes`, `memory`), or the cluster
has granted an unload (`asked`). With `-` it lives. A lease in an object store lapses in seconds
here.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, BinaryIO

from counterpoise.app.main import main
from counterpoise.app.verbs import balance
from counterpoise.decide.balancing.moves import Move
from counterpoise.pipeline import clock
from counterpoise.pipeline.executor import Executor
from counterpoise.pipeline.history.lease import LeaseOptions
from counterpoise.pipeline.history.store import Store
from counterpoise.pipeline.runner import RunSettings
from tests.pipeline.kills.without_spark import fold_without_spark

POINTS = ("reports", "decisions", "rounds", "asked", "outcomes", "memory")
STOPS = "stopped:"
"""Before a point's name: the process stands still there, until it is told to go on."""
LATE = "late:"
"""Before a table's name: it stands still with a file that it may write and has not written yet."""
CLOCK = "KILLS_CLOCK_S"
"""A variable: by how many seconds this machine's clock is ahead of what it is."""
WAIT = "KILLS_WAIT_S"
"""Another: how long to wait for who has the history."""
QUICK = LeaseOptions(lasts_s=2.0, holds_s=1.5, renew_every_s=0.5, wait_s=60.0)


class _Death:
    def __init__(self, nth: int, by: signal.Signals) -> None:
        self._left = nth
        self._signal = by

    def comes(self) -> None:
        self._left -= 1
        if not self._left:
            os.kill(os.getpid(), self._signal)


def _after_files(table: str, death: _Death) -> None:
    writing = Store.writing

    @contextlib.contextmanager
    def written(self: Store, name: str) -> Iterator[BinaryIO]:
        with writing(self, name) as file:
            yield file
        if name.startswith(f"{table}/"):
            death.comes()

    Store.writing = written  # type: ignore[method-assign]


def _before_a_put(table: str, death: _Death) -> None:
    put = Store._put

    def late(self: Store, file: str, data: Any) -> None:
        if file.startswith(f"{table}/"):
            death.comes()
        put(self, file, data)

    Store._put = late  # type: ignore[method-assign]


def _after_unloads(death: _Death) -> None:
    unload: Any = Executor._unload

    async def unloaded(self: Executor, move: Move) -> None:
        await unload(self, move)
        death.comes()

    Executor._unload = unloaded  # type: ignore[method-assign]


def _with_a_short_lease() -> None:
    settings = balance._settings

    def short(args: Any) -> RunSettings:
        made = settings(args)
        executor = replace(made.executor, send_within_s=QUICK.holds_s)
        waits = replace(QUICK, wait_s=float(os.environ.get(WAIT, QUICK.wait_s)))
        return replace(made, lease=waits, executor=executor)

    balance._settings = short


if __name__ == "__main__":
    if ahead_s := float(os.environ.get(CLOCK, "0")):
        clock.time = SimpleNamespace(  # type: ignore[attr-defined]
            time_ns=lambda: time.time_ns() + round(ahead_s * 1e9)
        )
    engine, point, nth = sys.argv[1], sys.argv[2], int(sys.argv[3])
    _with_a_short_lease()
    if engine == "thread":
        fold_without_spark()
    stops = point.startswith((STOPS, LATE))
    death = _Death(nth, signal.SIGSTOP if stops else signal.SIGKILL)
    point = point.removeprefix(STOPS)
    if point.startswith(LATE):
        _before_a_put(point.removeprefix(LATE), death)
    elif point == "asked":
        _after_unloads(death)
    elif point != "-":
        _after_files(point, death)
    sys.exit(main(sys.argv[4:]))

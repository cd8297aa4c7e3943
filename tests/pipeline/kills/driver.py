"""`counterpoise`, killed with -9 by itself at a point of its choosing.

    python -m tests.pipeline.kills.driver ENGINE POINT NTH WORDS…

ENGINE is `spark`, or `thread`: the same fold without a JVM (`without_spark.py`), there in a
moment. POINT is what has just happened for the NTH time when the process dies: a commit of polls
(`reports`), of states (`fold_state`), of a `round`, an `outcome` or a `memory`, or the cluster has
granted an unload (`asked`). `begun:` before a name is the middle of that commit: the data files
are written, and no commit names them yet. With `-` it lives. A heartbeat grows old in seconds here.
"""

import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from counterpoise.app.main import main
from counterpoise.app.verbs import balance
from counterpoise.decide.balancing.moves import Move
from counterpoise.pipeline import clock
from counterpoise.pipeline.executor import Executor
from counterpoise.pipeline.runner import RunSettings
from counterpoise.pipeline.tables.data_files import DataFile
from counterpoise.pipeline.tables.heartbeat import HeartbeatOptions
from counterpoise.pipeline.tables.history import TablesWriter
from counterpoise.pipeline.tables.schema import JOURNAL
from tests.pipeline.kills.without_spark import fold_without_spark

COMMITS = ("reports", "fold_state", "round", "outcome", "memory")
POINTS = (*COMMITS, "asked")
BEGUN = "begun:"
"""Before the name of a commit: its files are written, and it is not made yet."""
STOPS = "stopped:"
"""Before a point's name: the process stands still there, until it is continued."""
CLOCK = "KILLS_CLOCK_S"
"""A variable: by how many seconds this machine's clock is ahead of what it is."""
WAIT = "KILLS_WAIT_S"
"""Another: how long to wait for the writer that has the history."""
QUICK = HeartbeatOptions(lasts_s=2.0, renew_every_s=0.5, wait_s=60.0)
SEND_WITHIN_S = 1.5


class _Death:
    def __init__(self, nth: int, by: signal.Signals) -> None:
        self._left = nth
        self._signal = by

    def comes(self) -> None:
        self._left -= 1
        if not self._left:
            os.kill(os.getpid(), self._signal)


def _at_commits(point: str, death: _Death) -> None:
    commit: Any = TablesWriter.commit
    wanted, begun = point.removeprefix(BEGUN), point.startswith(BEGUN)

    def committed(self: TablesWriter, table: str, added: Sequence[DataFile], **more: Any) -> int:
        found = bool(added) and _name(table, added[0]) == wanted
        if found and begun:
            death.comes()
        version: int = commit(self, table, added, **more)
        if found and not begun:
            death.comes()
        return version

    TablesWriter.commit = committed  # type: ignore[method-assign]


def _name(table: str, file: DataFile) -> str:
    """A commit's name: the table, or what the journal's rows are; a round comes last by name."""
    return str(file.kinds[1]) if table == JOURNAL and file.kinds else table


def _after_unloads(death: _Death) -> None:
    # Private: the process dies between a request and the note of its answer.
    unload: Any = Executor._unload

    async def unloaded(self: Executor, move: Move) -> None:
        await unload(self, move)
        death.comes()

    Executor._unload = unloaded  # type: ignore[method-assign]


def _with_a_short_heartbeat() -> None:
    # Private: no option sets times as short as these.
    settings = balance._settings

    def short(args: Any) -> RunSettings:
        made = settings(args)
        executor = replace(made.executor, send_within_s=SEND_WITHIN_S)
        waits = replace(QUICK, wait_s=float(os.environ.get(WAIT, QUICK.wait_s)))
        return replace(made, heartbeat=waits, executor=executor)

    balance._settings = short


if __name__ == "__main__":
    if ahead_s := float(os.environ.get(CLOCK, "0")):
        clock.time = SimpleNamespace(  # type: ignore[attr-defined]
            time_ns=lambda: time.time_ns() + round(ahead_s * 1e9)
        )
    engine, point, nth = sys.argv[1], sys.argv[2], int(sys.argv[3])
    _with_a_short_heartbeat()
    if engine == "thread":
        fold_without_spark()
    death = _Death(nth, signal.SIGSTOP if point.startswith(STOPS) else signal.SIGKILL)
    point = point.removeprefix(STOPS)
    if point == "asked":
        _after_unloads(death)
    elif point != "-":
        _at_commits(point, death)
    sys.exit(main(sys.argv[4:]))

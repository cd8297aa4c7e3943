"""The balancer of the command line with a thread in Spark's place; all else is what it always is.

The thread does what the query does: the polls behind the newest states that are whole, shard by
shard by the same function, and then the round.
"""

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from counterpoise.load.fold import DEFAULT_OPTIONS
from counterpoise.pipeline import runner
from counterpoise.pipeline.history.layout import files
from counterpoise.pipeline.history.names import span
from counterpoise.pipeline.history.store import open_store
from counterpoise.pipeline.stream.fold import Shard, fold_shard
from counterpoise.pipeline.stream.states import begin, forget, state_name

LOOK_EVERY_S = 0.02


class Query:
    """What the balancer asks of a query."""

    lastProgress = None  # noqa: N815  Spark's own name
    status = {"isTriggerActive": False}  # noqa: RUF012

    def __init__(self, uri: str, each: Callable[[int, list[str]], None], shards: int) -> None:
        self._store, self._each, self._shards = open_store(uri), each, shards
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @property
    def isActive(self) -> bool:
        return self._thread.is_alive()

    def exception(self) -> str:
        return f"{type(self._error).__name__}: {self._error}"

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            after = begin(self._store, self._shards)
            while not self._stop.wait(LOOK_EVERY_S):
                after = self._batch(after)
        except BaseException as error:
            self._error = error

    def _batch(self, after: int) -> int:
        names = tuple(files(self._store, "reports", after=after))
        if not names:
            return after
        found = span(names[-1])
        assert found is not None
        up_to = found[1]
        for shard in range(self._shards):
            part = Shard(shard, after, up_to, names)
            fold_shard(self._store, part, self._shards, DEFAULT_OPTIONS)
        self._each(up_to, [state_name(up_to, each, self._shards) for each in range(self._shards)])
        forget(self._store)
        return up_to


def fold_without_spark() -> None:
    """From now on, in this process."""

    def start_fold(
        spark: Any, uri: str, each: Callable[[int, list[str]], None], *, shards: int, **_: Any
    ) -> Query:
        return Query(uri, each, shards)

    session = SimpleNamespace(version="none", sparkContext=SimpleNamespace(master="local"))
    runner.start_session = lambda *_, **__: session  # type: ignore[assignment, return-value]
    runner.stop_session = lambda _: None
    runner.start_fold = start_fold  # type: ignore[assignment]

"""Memory ledgers whose commits are reported only when a test lets them."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from counterpoise.storage.grouplog import Log
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.storage.port import (
    EntryGroup,
    LedgerIds,
    LogListener,
    Lost,
    Persistence,
    StorageError,
)


class _Held:
    """Stands between a log and its topic."""

    def __init__(self, listener: LogListener[Any], store: "HeldStore") -> None:
        self._listener = listener
        self._store = store

    def committed(self, group: EntryGroup[Any]) -> None:
        self._store.report(lambda: self._listener.committed(group))

    def refused(self, error: StorageError, contexts: Sequence[Any]) -> None:
        self._listener.refused(error, contexts)

    def lost(self, lost: Lost) -> None:
        self._listener.lost(lost)

    def failed(self, error: StorageError, contexts: Sequence[Any]) -> None:
        self._listener.failed(error, contexts)


class HeldStore(MemoryLedgerStore):
    """While ``hold()`` is in force, nothing that is appended counts as stored."""

    def __init__(self) -> None:
        super().__init__()
        self._holding = False
        self._reports: deque[Callable[[], None]] = deque()
        self.waiting = threading.Event()
        """Set whenever a commit waits."""

    async def open(
        self,
        name: str,
        owner: str,
        listener: LogListener[Any],
        ids: LedgerIds | None = None,
        persistence: Persistence | None = None,
    ) -> Log[Any]:
        return await super().open(name, owner, _Held(listener, self), ids)

    def report(self, report: Callable[[], None]) -> None:
        if self._holding:
            self._reports.append(report)
            self.waiting.set()
        else:
            report()

    def hold(self) -> None:
        self._holding = True

    async def release(self) -> None:
        """Report everything, in order; to be run on the broker's loop."""
        self._holding = False
        while self._reports:
            self._reports.popleft()()

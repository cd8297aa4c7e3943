"""The base class of logs in every store: groups appended entries, and reports what was stored."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from counterpoise.storage.disk_faults import DiskFaults
from counterpoise.storage.ledger_index import LedgerIndex
from counterpoise.storage.port import (
    Chunk,
    CursorState,
    EntryGroup,
    LedgerInfo,
    LogClosedError,
    LogListener,
    Lost,
    Persistence,
    Position,
    StorageError,
)

C = TypeVar("C")
_log = logging.getLogger(__name__)

CLOSE_SECONDS = 20.0
"""For how many seconds closing waits for a disk that does not answer."""


class Log(ABC, Generic[C]):
    """One topic's stored messages, open for its only owner; the base of the logs of every store.

    Appended entries are committed in groups, few of which are in flight.

    All entries appended in one turn of the event loop share a commit, and so do all entries
    appended while the maximal number of groups is in flight: the slower the disk, the larger the
    groups.
    """

    groups_in_flight = 1
    """The most groups that may be in flight: begun and not committed."""

    disk: DiskFaults | None = None
    """The faults that a test injects into the disk; read once for each group."""

    def __init__(
        self,
        name: str,
        listener: LogListener[C],
        ledgers: Iterable[tuple[int, int, int]],
        cursors: Mapping[str, CursorState],
    ) -> None:
        self.name = name
        self._listener = listener
        self._index = LedgerIndex(ledgers)
        self._cursors = dict(cursors)
        self._loop = asyncio.get_running_loop()
        self._gathering: EntryGroup[C] = EntryGroup()
        self._submitted: deque[EntryGroup[C]] = deque()
        self._scheduled = False
        self._is_late = False
        self._error: StorageError | None = None
        self._idle: list[asyncio.Future[None]] = []
        self._closing = asyncio.Lock()
        self._lost: list[Lost] = []
        self._cursors_lost_below = 0
        self.close_seconds = CLOSE_SECONDS

    @property
    def begin(self) -> int:
        """Index of the oldest entry that is not deleted."""
        return self._index.begin

    @property
    def end(self) -> int:
        """Index after the newest committed entry; equal to `begin` when the log is empty."""
        last = self._index.last
        return last.base + last.entries

    @property
    def size(self) -> int:
        """Bytes of all committed entries that are not deleted."""
        return self._index.size

    @property
    def ledgers(self) -> tuple[LedgerInfo, ...]:
        """The ledgers in order; the last one is being written."""
        return self._index.infos()

    @property
    def cursors(self) -> Mapping[str, CursorState]:
        """Every durable cursor as last saved."""
        return self._cursors

    @property
    def lost(self) -> Sequence[Lost]:
        """The entries known to be lost, except deleted ones, in order."""
        return self._lost

    @property
    def cursors_lost(self) -> bool:
        """Whether there were durable cursors that could not be read when the log was opened.

        Their positions are unknown, so a subscription that returns starts where the log does.
        """
        return self._index.first.ledger_id < self._cursors_lost_below

    def position(self, index: int) -> Position:
        """Position of the entry at ``index``; the next position to be written at the end."""
        return self._index.position(index)

    def index(self, position: tuple[int, int]) -> int:
        """Index of the entry at ``position``, which need not be written yet; of the next if it is
        deleted.
        """
        last = self._index.last
        if position[0] == last.ledger_id and position[1] >= 0:
            return last.base + position[1]
        return self._index.index(position)

    def index_after(self, position: tuple[int, int]) -> int:
        """Index of the entry that follows ``position``, which need not be that of a stored
        entry.
        """
        return self.index((position[0], position[1] + 1))

    def find(self, position: tuple[int, int]) -> int | None:
        """Index of the entry at ``position``, which need not be written yet; None if it is
        deleted.
        """
        index = self.index(position)
        return index if self.position(index) == position else None

    def append(self, entry: bytes, messages: int, context: C) -> None:
        """Queue one entry to be stored; never blocks. Raises `LogFencedError`, `LogClosedError`."""
        self.extend((entry,), (messages,), (context,))

    def extend(
        self, entries: Sequence[bytes], messages: Sequence[int], contexts: Sequence[C]
    ) -> None:
        """Queue several entries, all of them or none; cheaper than as many `append`.

        ``messages``: how many messages each entry has.
        """
        if self._error is not None:
            raise self._error
        group = self._gathering
        if not group.entries:
            group.began_s = self._loop.time()
        group.entries += entries
        group.messages += messages
        group.contexts += contexts
        if not self._scheduled and self._may_submit:
            self._scheduled = True
            self._loop.call_soon(self._submit)

    @property
    def _may_submit(self) -> bool:
        # Injected disk faults apply to one group after the other.
        most = self.groups_in_flight if self.disk is None else 1
        return len(self._submitted) < most and not self._is_late

    def _submit(self) -> None:
        self._scheduled = False
        group = self._gathering
        if not group.entries:
            if self._idle and not self._submitted:
                self._wake_idle()
            return
        if not self._may_submit:
            return
        self._gathering = EntryGroup()
        self._submitted.append(group)
        disk = self.disk
        if disk is None or not disk.fails:
            self._begin(group)
        elif disk.is_full:
            self._refuse(StorageError(f"{self.name}: no space is left on the disk"))
        else:
            self._is_late = True
            self._loop.call_later(disk.delay_s, self._begin_late, group)

    def _begin_late(self, group: EntryGroup[C]) -> None:
        if group in self._submitted:
            self._is_late = False
            self._begin(group)

    def _begin(self, group: EntryGroup[C]) -> None:
        try:
            group.ledger_id, group.first_entry = self._place(group)
            self._write(group)
        except StorageError as error:
            self._refuse(error)
        except Exception as error:
            # Only this group failed: its callers get the error, and the log continues.
            _log.exception("%s: a group could not be written", self.name)
            self._refuse(StorageError(f"{self.name}: {error!r}"))

    def _written(self, group: EntryGroup[C]) -> None:
        """Commit ``group``, the first in flight, and start the next one.

        Called by the store when the group is durable and no later owner had fenced the log by then.
        """
        last = self._index.last
        if group.ledger_id != last.ledger_id:
            last = self._index.start(group.ledger_id)
        group.first = last.base + last.entries
        last.entries += len(group.entries)
        last.size += group.size
        self._submitted.popleft()
        group.took_s = self._loop.time() - group.began_s
        self._remember(group)
        # Start the next group before the listener's work, so that the disk never waits for it.
        self._submit()
        try:
            self._listener.committed(group)
        except Exception as error:
            # The entries are stored, but a caller that waits for an answer must get one.
            _log.exception("%s: the listener failed on stored entries", self.name)
            self._listener.refused(StorageError(f"{self.name}: {error!r}"), group.contexts)

    def _refuse(self, error: StorageError) -> None:
        """Report to the listener that a group in flight, and all that follow, are not stored."""
        if self._error is None:
            self._listener.refused(error, self._drop_waiting())

    def _drop_waiting(self) -> list[C]:
        """Drop all entries that are not stored yet; returns the contexts that came with them."""
        # Nothing that was appended after the failed group may be stored: entries keep their order.
        waiting = [each for group in self._submitted for each in group.contexts]
        waiting += self._gathering.contexts
        self._submitted.clear()
        self._gathering, self._is_late = EntryGroup(), False
        self._wake_idle()
        return waiting

    def _fail(self, error: StorageError) -> None:
        """End the log after an error that lets it store nothing more."""
        if self._error is not None:
            return
        self._error = error
        self._listener.failed(error, self._drop_waiting())

    async def drain(self) -> None:
        """Wait until everything appended is committed or has failed."""
        if self._gathering.entries or self._submitted:
            waiter = self._loop.create_future()
            self._idle.append(waiter)
            await waiter

    def _wake_idle(self) -> None:
        waiters, self._idle = self._idle, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def flush(self) -> None:
        """Wait until everything appended is committed or has failed, and cursors are saved."""
        await self.drain()
        await self._persist()

    async def close(self) -> None:
        """Wait for all appended entries, and release the log. A fenced log closes without an error.

        The next owner finds everything, cursors included. The last state of the cursors may reach
        the disk a moment later: after a power failure in between, the owner finds the state before
        it.

        Raises `StorageError` if the disk fails or does not respond in time. The log is closed
        nevertheless, and entries that are not acknowledged by then never will be.
        """
        # If it is closed twice at once, neither caller may open it before its state is written.
        async with self._closing:
            try:
                async with asyncio.timeout(self.close_seconds):
                    if self._error is None:
                        await self.drain()
                    if self._error is None:
                        self._error = LogClosedError(f"{self.name} was closed by this broker")
                        await self._write_final_state()
            except TimeoutError:
                silent = StorageError(
                    f"{self.name}: its store did not answer within {self.close_seconds:g} s"
                )
                self._fail(silent)
                raise silent from None
            finally:
                await self._release()

    def save_cursor(self, state: CursorState) -> None:
        """Save a cursor; it is stored soon, and at the latest after `flush`."""
        self._cursors[state.name] = state
        self._state_changed()

    async def cursors_saved(self) -> None:
        """Wait until every cursor passed to `save_cursor` so far is stored; raises
        `StorageError`.
        """
        await self._persist()

    def drop_cursor(self, name: str) -> None:
        """Delete the cursor of this name."""
        if self._cursors.pop(name, None) is not None:
            self._state_changed()

    def set_persistence(self, persistence: Persistence | None) -> None:
        """Set the quorums of later ledgers and the rate of cursor saves; None: the store's
        settings.

        Ignored by logs that are not on bookies.
        """

    def trim(self, before: int) -> None:
        """Delete every closed ledger whose entries all lie before index ``before``."""
        dropped = self._index.trimmable(before)
        if dropped and self._error is None:
            self._index.drop(len(dropped))
            first = self._index.first.ledger_id
            self._lost = [each for each in self._lost if each.ledger_id >= first]
            self._delete_ledgers([ledger.ledger_id for ledger in dropped])

    @abstractmethod
    def cached(self, index: int) -> Chunk | None:
        """A cached chunk that contains ``index``; None if it has to be `read`."""

    @property
    def cached_bytes(self) -> int:
        """Bytes of this log's entries in the entry cache; 0 for a log that is stored in memory."""
        return 0

    @abstractmethod
    async def read(self, index: int, max_bytes: int) -> Chunk:
        """A chunk starting at ``index``: at least one entry, about ``max_bytes`` at most.

        It is empty if the entry is deleted, before or during the read.
        """

    @abstractmethod
    def _place(self, group: EntryGroup[C]) -> tuple[int, int]:
        """Ledger id and first entry id for the next group; rolls over to a new ledger if due."""

    @abstractmethod
    def _write(self, group: EntryGroup[C]) -> None:
        """Start to write a group, and set its ``size``. Calls `_written`, `_refuse` or `_fail` at
        its end.
        """

    @abstractmethod
    def _remember(self, group: EntryGroup[C]) -> None:
        """Cache a committed group, for `cached`."""

    @abstractmethod
    def _state_changed(self) -> None:
        """Have the state stored soon, because cursors or the list of ledgers have changed."""

    @abstractmethod
    def _delete_ledgers(self, ledger_ids: list[int]) -> None:
        """Delete ledgers that `_index` no longer lists."""

    @abstractmethod
    async def _persist(self) -> None:
        """Store cursors and the list of ledgers now."""

    @abstractmethod
    async def _write_final_state(self) -> None:
        """Write the state for the next owner; nothing is written afterwards."""

    @abstractmethod
    async def _release(self) -> None:
        """Release what the log holds: timers, open files and the cache."""

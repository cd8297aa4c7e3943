"""The ledger store on a directory that all brokers share."""

import asyncio
import contextlib
import logging
import shutil
import threading
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from counterpoise.storage.cache import EntryCache
from counterpoise.storage.files import fence, state
from counterpoise.storage.files.committer import Committer
from counterpoise.storage.files.disk import LedgerDisk
from counterpoise.storage.files.ledger import Descriptors, LedgerFile
from counterpoise.storage.files.log import FileLog
from counterpoise.storage.files.recovery import (
    Recovered,
    highest_ledger,
    ledger_files,
    ledger_path,
    take_over,
)
from counterpoise.storage.files.state import SavedState, UnsyncedCopy
from counterpoise.storage.files.threads import Threads
from counterpoise.storage.grouplog import Log
from counterpoise.storage.local_ids import LocalLedgerIds
from counterpoise.storage.port import LedgerIds, LogListener, Persistence, StorageError
from counterpoise.storage.topic_record import JsonTopics, TopicCodec

C = TypeVar("C")
P = ParamSpec("P")
R = TypeVar("R")

_log = logging.getLogger(__name__)

LEDGER_BYTES = 64 << 20
CACHE_BYTES = 64 << 20
MAX_OPEN_FILES = 512
CLOSE_SECONDS = 10.0
"""For how many seconds closing the store waits for a disk that does not answer."""
PREPARED_MAX = 10_000
"""How many names of logs that were prepared are kept at most, since some are never opened here."""
TIDY_SECONDS = 1.0
"""For how many seconds after a takeover the former owners' files are not deleted yet.

Deleting them keeps the disk busy, just while clients reconnect."""
UNFINISHED_MAX = 100
"""How many logs' final states may wait to be synced, each with an open file."""
OPEN_ATTEMPTS = 3
"""How often it is tried to open a log whose directory is removed by a deletion meanwhile."""


class FileLedgerStore:
    """The logs in files below the directory ``root``, which all brokers share, for one broker.

    ``ledger_bytes``: a ledger rolls over once it holds this much; only whole ledgers are deleted.
    ``cache_bytes``: how much of the newest entries stays in memory for tailing consumers.
    """

    def __init__(
        self,
        root: Path,
        *,
        ledger_bytes: int = LEDGER_BYTES,
        cache_bytes: int = CACHE_BYTES,
        max_open_files: int = MAX_OPEN_FILES,
        disk: LedgerDisk | None = None,
    ) -> None:
        self._root = root
        self.disk = disk or LedgerDisk()
        self.ledger_bytes = ledger_bytes
        self.tidy_seconds = TIDY_SECONDS
        self.descriptors = Descriptors(max_open_files)
        self.cache = EntryCache(cache_bytes)
        self._committer: Committer | None = None
        self._threads = Threads(4, "ledger-reader")
        # Threads of their own, so that waiting for the disk delays no reads.
        self._settlers = Threads(8, "ledger-settler")
        # And one for what no client waits for, so that a thousand logs do not delay clients.
        self._tidier = Threads(1, "ledger-tidier")
        self._prepared: set[str] = set()
        self._unfinished: list[UnsyncedCopy] = []
        self._may_be_unfinished = threading.Semaphore(UNFINISHED_MAX)
        self._tasks: set[asyncio.Future[Any]] = set()
        self._ids = LocalLedgerIds()
        self.topics: TopicCodec = JsonTopics()
        self.closed = False

    @property
    def committer(self) -> Committer:
        """The threads that write; started with the first log."""
        if self._committer is None:
            self._committer = Committer(asyncio.get_running_loop())
        return self._committer

    async def open(
        self,
        name: str,
        owner: str,
        listener: LogListener[C],
        ids: LedgerIds | None = None,
        persistence: Persistence | None = None,
    ) -> Log[C]:
        """Take a log over: fence its former owner, and find out what that one stored."""
        ids = ids or self._ids
        directory = self._directory(name)
        self._prepared.discard(name)
        try:
            while True:
                recovered, file = await self.in_thread(self._take_over, directory, owner, ids)
                if file is not None:
                    return FileLog(name, listener, self, directory, recovered, file, ids)
                await ids.fetch(recovered.next_ledger - 1)
        except OSError as error:
            raise StorageError(f"log {name} in {directory} cannot be opened: {error}") from error

    def _take_over(
        self, directory: Path, owner: str, ids: LedgerIds
    ) -> tuple[Recovered, LedgerFile | None]:
        """Take a log over. Returns it with the file of its next ledger, or None if no id is
        available.
        """
        recovered = _take_over(directory, owner, self.disk)
        ledger_id = ids.next_id(recovered.next_ledger - 1)
        if ledger_id is None:
            recovered.abandon()
            return recovered, None
        file = self.ledger_file(recovered.saved, directory, ledger_id)
        # Created now, so that its name is synced together with the state's: mostly clients wait to
        # publish. If the disk is full, the log can be read nevertheless; the first write tries
        # again.
        with contextlib.suppress(OSError):
            file.create()
            if self.descriptors.crowded:
                file.close()
        return recovered, file

    def ledger_file(self, saved: SavedState, directory: Path, ledger_id: int) -> LedgerFile:
        """The object for a new ledger's file, which its first write creates."""
        path = ledger_path(directory, ledger_id, saved.epoch)
        return LedgerFile(path, ledger_id, saved.marker, self.disk, self.descriptors)

    async def prepare(self, name: str, ids: LedgerIds | None = None) -> None:
        """Read in advance what opening the log reads, so that it is in the page cache."""
        directory = self._directory(name)
        try:
            last = await self.in_thread(_look_at, directory, self.disk)
        except OSError as error:
            raise StorageError(f"log {name} in {directory} cannot be read: {error}") from error
        if ids is not None:
            await ids.fetch(last)
        if len(self._prepared) < PREPARED_MAX:
            self._prepared.add(name)

    async def highest_ledger(self) -> int:
        """The largest id among the names of all ledger files."""
        try:
            return await self.in_thread(highest_ledger, self._root)
        except OSError as error:
            raise StorageError(f"ledgers in {self._root} cannot be listed: {error}") from error

    async def is_released(self, name: str) -> bool:
        """Whether the log's last owner closed it in order, leaving a final state."""
        directory = self._directory(name)
        try:
            if name in self._prepared:
                # `prepare` has read it, so it is in the page cache: reading it here is faster than
                # a thread.
                return _is_released(directory, self.disk)
            return await self.in_thread(_is_released, directory, self.disk)
        except OSError as error:
            raise StorageError(f"log {name} in {directory} cannot be read: {error}") from error

    async def exists(self, name: str) -> bool:
        """Whether the log exists: its directory has a fence."""
        return await self.in_thread(fence.exists, self._directory(name))

    async def delete(self, name: str) -> None:
        """Fence the log's owner, and remove the log's directory."""
        directory = self._directory(name)
        try:
            await self.in_thread(_delete, directory, self.disk)
        except OSError as error:
            raise StorageError(f"log {name} in {directory} cannot be deleted: {error}") from error

    async def close(self) -> None:
        """End the threads. Logs that are still open are abandoned, as in a crash."""
        self.closed = True
        self._finish()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                while self._tasks:
                    await asyncio.wait(self._tasks)
        if self._committer is not None and not await self._committed(self._committer):
            _log.error("%s: the disk does not answer; pending writes are abandoned", self._root)
        self._threads.close()
        self._settlers.close()
        self._tidier.close()

    async def _committed(self, committer: Committer) -> bool:
        """Close the committer; returns whether all queued writes ended in time.

        Waits in a thread of its own, because the store's threads may hang.
        """
        closing = Threads(1, "ledger-closer")
        try:
            return await closing.run(lambda: committer.close(CLOSE_SECONDS))
        finally:
            closing.close()

    async def in_thread(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run blocking work in a thread."""
        return await self._threads.run(partial(work, *args, **kwargs))

    async def beside(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run blocking work in other threads than reads and writes, so that it delays neither."""
        return await self._settlers.run(partial(work, *args, **kwargs))

    async def later(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run blocking work that no client waits for, one job after the other."""
        return await self._tidier.run(partial(work, *args, **kwargs))

    async def end(self, work: Callable[[], UnsyncedCopy | None]) -> None:
        """Run a log's closing work in a thread; the copy that it returns gets to the disk later.

        It runs to its end even if the caller is cancelled, because it has a file open.
        """
        ending = self._threads.run(partial(self._end, work))
        self.keep(ending)
        ending.add_done_callback(self._ended)
        await asyncio.shield(ending)

    def _end(self, work: Callable[[], UnsyncedCopy | None]) -> UnsyncedCopy | None:
        copy = work()
        if copy is None or self._may_be_unfinished.acquire(blocking=False):
            return copy
        # `UNFINISHED_MAX` wait for their sync already. After a power failure the next owner of this
        # log has to scan one more ledger.
        with contextlib.suppress(OSError):
            copy.abandon()
        return None

    def _ended(self, ending: asyncio.Future[UnsyncedCopy | None]) -> None:
        if ending.exception() is None and (copy := ending.result()) is not None:
            self._finish_later(copy)

    def _finish_later(self, copy: UnsyncedCopy) -> None:
        """Have a closed log's last state synced later: after `tidy_seconds`, or when the store
        closes. A sync now would delay the log's next owner.
        """
        if not self._unfinished and not self.closed:
            asyncio.get_running_loop().call_later(self.tidy_seconds, self._finish)
        self._unfinished.append(copy)
        if self.closed:
            self._finish()

    def _finish(self) -> None:
        unfinished, self._unfinished = self._unfinished, []
        for copy in unfinished:
            self.committer.submit(partial(_settle, copy))
            self._may_be_unfinished.release()

    def keep(self, task: asyncio.Future[Any]) -> None:
        """Hold a reference to a background task until it ends."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _directory(self, name: str) -> Path:
        directory = self._root / name
        if ".." in Path(name).parts or not directory.is_relative_to(self._root):
            raise StorageError(f"{name!r} is no name for a log")
        return directory


def _settle(copy: UnsyncedCopy) -> None:
    # Errors are ignored: after a power failure the next owner would find the state before this one.
    with contextlib.suppress(OSError):
        copy.settle()


def _look_at(directory: Path, disk: LedgerDisk) -> int:
    """Read what opening the log reads; returns its largest ledger id, -1 if it has none."""
    try:
        for epoch in state.epochs(directory):
            state.load(directory, epoch, disk)
        fence.exists(directory)
        return max((ledger_id for ledger_id, _ in ledger_files(directory)), default=-1)
    except FileNotFoundError:
        return -1


def _is_released(directory: Path, disk: LedgerDisk) -> bool:
    return state.closed(directory, fence.epoch(directory, disk), disk)


def _take_over(directory: Path, owner: str, disk: LedgerDisk) -> Recovered:
    for _ in range(OPEN_ATTEMPTS - 1):
        # If a deletion moves the directory away meanwhile, the next attempt begins an empty log.
        with contextlib.suppress(FileNotFoundError):
            return take_over(directory, owner, disk)
    return take_over(directory, owner, disk)


def _delete(directory: Path, disk: LedgerDisk) -> None:
    if not fence.exists(directory):
        return
    # The directory is renamed first, so that no other deletion and no new log of this name meets
    # its files.
    aside = directory.with_name(f".{uuid.uuid4().hex}.deleted")
    try:
        fence.claim(directory, "its deletion", disk)
        directory.rename(aside)
    except FileNotFoundError:
        return
    shutil.rmtree(aside)

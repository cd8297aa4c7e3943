"""A log in files, open for its owner."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from counterpoise.storage.cache import LogCache
from counterpoise.storage.files.ledger import LedgerFile
from counterpoise.storage.files.record import HEADER_SIZE, encode
from counterpoise.storage.files.recovery import Recovered, ledger_path
from counterpoise.storage.files.state import SavedState, Sealed
from counterpoise.storage.grouplog import GroupLog
from counterpoise.storage.port import (
    Chunk,
    Group,
    LogFencedError,
    LogListener,
    StorageError,
)

if TYPE_CHECKING:
    from counterpoise.storage.files.store import FileLedgerStore

C = TypeVar("C")
_log = logging.getLogger(__name__)

SAVE_SECONDS = 0.1
"""How long a change may stay unsaved: cursors that are saved close together share a write."""


class FileLog(GroupLog[C]):
    """Groups go to the current ledger's file; cursors and closed ledgers to the state file."""

    def __init__(
        self,
        name: str,
        listener: LogListener[C],
        store: FileLedgerStore,
        directory: Path,
        recovered: Recovered,
    ) -> None:
        ledgers = [(s.ledger_id, s.entries, s.size) for s in recovered.sealed]
        ledgers.append((recovered.next_ledger, 0, 0))
        super().__init__(name, listener, ledgers, recovered.cursors)
        self._store = store
        self._directory = directory
        self.fence = recovered.fence
        self._epochs = {s.ledger_id: s.epoch for s in recovered.sealed}
        self._files = dict(recovered.files)
        self.file = self._start_file(recovered.next_ledger)
        self._cache = LogCache(store.cache)
        self._trimmed: list[LedgerFile] = []
        self._save_timer: asyncio.TimerHandle | None = None
        self._saving = asyncio.Lock()
        self._unsaved = False

    def _start_file(self, ledger_id: int) -> LedgerFile:
        epoch = self.fence.epoch
        path = ledger_path(self._directory, ledger_id, epoch)
        file = LedgerFile(path, ledger_id, self._store.descriptors)
        self._epochs[ledger_id] = epoch
        self._files[ledger_id] = file
        return file

    # --- writing -------------------------------------------------------------------------

    def _place(self, group: Group[C]) -> tuple[int, int]:
        last = self._index.last
        if last.size < self._store.ledger_bytes or self._error is not None:
            return last.ledger_id, last.entries
        former, self.file = self.file, self._start_file(last.ledger_id + 1)
        self._store.committer.submit(_CloseFile(former))
        self._changed()
        return self.file.ledger_id, 0

    def _write(self, group: Group[C]) -> None:
        pieces = encode(group.entries, group.messages, group.first_entry)
        group.size = sum(map(len, pieces)) - HEADER_SIZE * len(group.entries)
        self._store.committer.submit(_WriteGroup(self, group, pieces))

    def written(self, group: Group[C], offset: int, error: StorageError | None) -> None:
        """A group's job is done (`_WriteGroup` calls this on the loop)."""
        if self._error is not None:
            return
        if error is not None:
            self._fail(error)
            return
        self._files[group.ledger_id].mark(group.first_entry, offset)
        self._written(group)

    def _remember(self, group: Group[C]) -> None:
        self._cache.add(group)

    # --- reading -------------------------------------------------------------------------

    def cached(self, index: int) -> Chunk | None:
        """A chunk of recently written entries that contains ``index``."""
        return self._cache.at(index)

    async def read(self, index: int, max_bytes: int) -> Chunk:
        """Read a ledger's file in a thread."""
        ledger = self._index.holding(index)
        file = self._files[ledger.ledger_id]
        try:
            entries, messages = await self._store.in_thread(
                file.read, index - ledger.base, ledger.entries, max_bytes
            )
        except OSError as error:
            raise StorageError(f"{file.path} cannot be read: {error}") from error
        return Chunk(index, entries, messages)

    # --- state ---------------------------------------------------------------------------

    def _cursors_changed(self) -> None:
        self._changed()

    def _delete_ledgers(self, ledger_ids: list[int]) -> None:
        for ledger_id in ledger_ids:
            self._trimmed.append(self._files.pop(ledger_id))
            del self._epochs[ledger_id]
        self._changed()

    def _changed(self) -> None:
        self._unsaved = True
        if self._save_timer is None:
            self._save_timer = self._loop.call_later(SAVE_SECONDS, self._save_soon)

    def _save_soon(self) -> None:
        self._save_timer = None
        if self._error is None and not self._store.closed:
            self._store.keep(self._loop.create_task(self._save_now()))

    async def _save_now(self) -> None:
        try:
            await self._persist()
        except StorageError as error:
            # Nothing acknowledged depends on it: the next change tries again.
            _log.warning("%s", error)

    def _state(self, *, final: bool) -> SavedState:
        ledgers = list(self._index)
        sealed = ledgers if final else ledgers[:-1]
        rows = (
            Sealed(s.ledger_id, self._epochs[s.ledger_id], s.entries, s.size)
            for s in sealed
            if s.entries
        )
        first = ledgers[0].ledger_id
        return SavedState(self.fence.epoch, first, tuple(rows), dict(self._cursors))

    async def _persist(self) -> None:
        async with self._saving:
            final = self._error is not None
            if not self._unsaved and not final:
                return
            self._unsaved = False
            trimmed, self._trimmed = self._trimmed, []
            state = self._state(final=final)
            try:
                await self._store.in_thread(self._save, state, trimmed)
            except StorageError:
                self._unsaved, self._trimmed = True, [*trimmed, *self._trimmed]
                raise

    def _save(self, state: SavedState, trimmed: list[LedgerFile]) -> None:
        try:
            if not self.fence.holds():
                return
            state.save(self._directory)
            # Only the owner may delete, and only what its saved state no longer lists: had a
            # successor come before this look at the fence, it might still count on the files.
            if trimmed and self.fence.holds():
                for file in trimmed:
                    file.path.unlink(missing_ok=True)
        except FileNotFoundError:
            return  # the log was deleted
        except OSError as error:
            raise StorageError(f"{self._directory}: its state cannot be saved: {error}") from error

    async def _release(self) -> None:
        if self._save_timer is not None:
            self._save_timer.cancel()
        self._cache.close()
        self._store.committer.submit(_CloseFile(self.file))

    def fenced(self) -> LogFencedError:
        """What to say once the fence is gone."""
        return LogFencedError(f"{self.name} was taken over by {self.fence.holder()}")


class _WriteGroup:
    """One group on its way to the disk."""

    __slots__ = ("_error", "_file", "_group", "_log", "_offset", "_pieces")

    def __init__(self, log: FileLog[C], group: Group[C], pieces: list[bytes]) -> None:
        self._log = log
        self._file = log.file
        self._group = group
        self._pieces = pieces
        self._offset = 0
        self._error: StorageError | None = None

    def run(self) -> None:
        try:
            self._offset = self._file.write(self._pieces)
        except FileNotFoundError:
            self._error = self._log.fenced()
        except OSError as error:
            self._error = StorageError(f"{self._file.path} cannot be written: {error}")

    def finish(self) -> None:
        # After the write is on disk, as the fence demands. Here and not in `run`: a look at the
        # fence takes a few microseconds, but every system call in a thread gives the interpreter
        # away and waits for a busy loop to hand it back.
        if self._error is None and not self._log.fence.holds():
            self._error = self._log.fenced()
        self._log.written(self._group, self._offset, self._error)


class _CloseFile:
    """Closes a ledger's file in the thread that writes it."""

    __slots__ = ("_file",)

    def __init__(self, file: LedgerFile) -> None:
        self._file = file

    def run(self) -> None:
        self._file.close()

    def finish(self) -> None:
        pass

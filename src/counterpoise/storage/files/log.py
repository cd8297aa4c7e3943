"""A log in files, open for its owner."""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from counterpoise.storage.files import committed
from counterpoise.storage.files.committed import Committed
from counterpoise.storage.files.jobs import WriteGroup
from counterpoise.storage.files.ledger import LedgerFile, Piece
from counterpoise.storage.files.record import HEADER_SIZE
from counterpoise.storage.files.recovery import Recovered
from counterpoise.storage.files.state import SavedState, Sealed, UnsyncedCopy
from counterpoise.storage.ledger_index import IndexedLedger
from counterpoise.storage.lost_entries import LostEntries
from counterpoise.storage.port import (
    EntryGroup,
    LedgerIds,
    LogFencedError,
    LogListener,
    Lost,
    StorageError,
)
from counterpoise.storage.stored_log import StoredLog

if TYPE_CHECKING:
    from counterpoise.storage.files.store import FileLedgerStore

C = TypeVar("C")
_log = logging.getLogger(__name__)

SAVE_SECONDS = 0.1
"""How many seconds a change of cursors or ledgers may stay unsaved: cursors that are saved close
together share a write."""

NOTE_SECONDS = 0.1
"""How many seconds the note of the committed entries (see `committed`) may lag behind."""


class FileLog(StoredLog[C]):
    """A log in files, open for its owner: entries go to ledger files, cursors to state files."""

    def __init__(
        self,
        name: str,
        listener: LogListener[C],
        store: "FileLedgerStore",
        directory: Path,
        recovered: Recovered,
        file: LedgerFile,
        ids: LedgerIds,
    ) -> None:
        """``file``: of the first ledger that this owner writes. ``ids``: supplies the ids of later
        ones.
        """
        saved = recovered.saved
        ledgers = [(s.ledger_id, s.entries, s.size) for s in saved.ledgers]
        ledgers.append((file.ledger_id, 0, 0))
        super().__init__(name, listener, ledgers, saved.cursors, store.cache)
        self._lost = list(saved.lost)
        self._cursors_lost_below = saved.cursors_lost_below
        self._store = store
        self.directory = directory
        self.fence = recovered.fence
        self._saved = saved
        self._states = recovered.states
        self._epochs = {s.ledger_id: s.epoch for s in saved.ledgers}
        self._files = dict(recovered.files)
        self._ids = ids
        self._file = self._start(file)
        # After a failed write: the ledger's file is not to be written again.
        self._broken = False
        self._abandoned: list[int] = []
        self._trimmed: list[LedgerFile] = []
        self._save_timer: asyncio.TimerHandle | None = None
        self._note_timer: asyncio.TimerHandle | None = None
        self._tidy_timer: asyncio.TimerHandle | None = None
        self._saving = asyncio.Lock()
        self._unsaved = False
        self._begun = -1  # the ledger that was begun after another and has no entry yet
        self._states_made = 0
        self._saved_ledgers = saved.ledgers
        self._settled: asyncio.Future[None] = self._loop.create_future()
        """Done once the state saved at the takeover, and the names of new files, are on disk.
        Nothing is acknowledged before."""
        self._unsettled: OSError | None = None
        store.keep(self._loop.create_task(self._settle(recovered)))

    async def _settle(self, recovered: Recovered) -> None:
        store, directory = self._store, self.directory
        try:
            # Both run at the same time, and the first write meanwhile: a slow disk delays only
            # once.
            await asyncio.gather(
                store.beside(recovered.states.settle),
                store.beside(recovered.names_settle, directory, store.disk),
            )
        except OSError as error:
            # Handled like a failed write: the state is saved again before the next group is
            # written.
            if not self._submitted:
                self._broken = True
            else:
                self._unsettled = error
            self._settled.set_result(None)
        else:
            self._settled.set_result(None)
            if self._error is None:
                self._tidy_timer = self._loop.call_later(
                    store.tidy_seconds, self._tidy_soon, recovered
                )

    def _tidy_soon(self, recovered: Recovered) -> None:
        self._tidy_timer = None
        if self._error is None and not self._store.closed:
            self._store.keep(self._loop.create_task(self._tidy(recovered)))

    async def _tidy(self, recovered: Recovered) -> None:
        store = self._store

        def tidy() -> None:
            # Before its turn comes another may own the log, and tidies as well.
            if self._error is None:
                recovered.tidy(self.directory, store.disk)

        try:
            await store.later(tidy)
        except OSError as error:
            # No log refers to these files, and the next owner tries again.
            _log.info("%s: files of former owners are not deleted: %s", self.directory, error)

    def _start(self, file: LedgerFile) -> LedgerFile:
        self._epochs[file.ledger_id] = self.fence.epoch
        self._files[file.ledger_id] = file
        return file

    def _place(self, group: EntryGroup[C]) -> tuple[int, int]:
        last = self._index.last
        full = last.size >= self._store.ledger_bytes and self._error is None
        if not (self._broken or full):
            return last.ledger_id, last.entries
        if not self._begin_another():
            if self._broken:
                raise StorageError(f"{self.name}: no ledger id is at hand to go on after a fault")
            return last.ledger_id, last.entries
        self._begun = self._file.ledger_id
        return self._file.ledger_id, 0

    def _begin_another(self) -> bool:
        """Start a new ledger; False, and the last one is written on, if no id is available."""
        ledger_id = self._ids.next_id(self._file.ledger_id)
        if ledger_id is None:
            return False
        file = self._store.ledger_file(self._saved, self.directory, ledger_id)
        self._store.committer.submit(partial(_close, self._file))
        self._file = self._start(file)
        return True

    def _write(self, group: EntryGroup[C]) -> None:
        file = self._file
        pieces = file.encode(group.entries, group.messages, group.first_entry)
        group.size = sum(map(len, pieces)) - HEADER_SIZE * len(group.entries)
        # A saved state must first exclude from the log what the failed write left in its file.
        seal = self._sealed() if self._broken else None
        job = WriteGroup(self, file, group, pieces, seal)
        self._store.committer.submit(job.run, job.finish)

    def _sealed(self) -> tuple[SavedState, int]:
        """The state with every ledger closed at its last committed entry, and its number."""
        self._states_made += 1
        return self._state(final=True), self._states_made

    def save_sealed(self, state: SavedState, number: int) -> None:
        """Make a state of the log durable, in a thread; ``number`` grows with every change."""
        self._states.save(state, number=number)

    def written(self, group: EntryGroup[C], offset: int, error: StorageError | None) -> None:
        """Take the result of writing a group. Called by `WriteGroup` on the event loop."""
        if not self._settled.done():
            # The state saved at the takeover may not be on disk yet: only the first write waits for
            # it.
            self._settled.add_done_callback(lambda _: self.written(group, offset, error))
            return
        if self._error is not None:
            return
        if error is None:
            # The fence is read after the write (see `fence`), and here rather than in the thread
            # that wrote: there each system call releases the interpreter lock, and a busy loop is
            # slow to release it again.
            error = self._not_mine()
        unsettled, self._unsettled = self._unsettled, None
        if unsettled is not None and error is None:
            error = StorageError(f"{self.directory}: its state is not saved: {unsettled}")
        if isinstance(error, LogFencedError):
            self._fail(error)
        elif error is not None:
            self._break(error)
        else:
            if self._broken:
                _log.warning("%s: writes succeed again, in ledger %d", self.name, group.ledger_id)
                self._broken = False
            self._files[group.ledger_id].mark(group.first_entry, offset)
            self._written(group)
            if group.ledger_id == self._begun:
                # Only now: a state saved before the new ledger had an entry would not list the one
                # before it as closed.
                self._begun = -1
                self._state_changed()
            if self._note_timer is None:
                self._note_timer = self._loop.call_later(NOTE_SECONDS, self._note)

    def _break(self, error: StorageError) -> None:
        """After a failed write: refuse all waiting entries, and have the next write begin a new
        ledger.

        What the failed write left in its file is unknown, so that file is not written any more.
        """
        if not self._broken:
            _log.error("%s: %s; the next write begins a new ledger", self.name, error)
        self._broken = True
        failed, last = self._file.ledger_id, self._index.last
        if failed != last.ledger_id or not last.entries:
            self._abandoned.append(failed)
        self._refuse(error)

    def _note(self) -> None:
        self._note_timer = None
        if self._error is None and not self._store.closed:
            last = Committed(self._index.last.ledger_id, self._index.last.entries)
            self._store.committer.submit(partial(self._write_note, last))

    def _write_note(self, last: Committed) -> None:
        # Without the note a recovery only notices fewer missing entries.
        with contextlib.suppress(OSError):
            committed.note(self.directory, self.fence.epoch, last, self._store.disk)

    async def _read(
        self, ledger: IndexedLedger, entry_id: int, max_bytes: int
    ) -> tuple[list[bytes], list[int]]:
        """Entries from a ledger's file, read in a thread."""
        file = self._files[ledger.ledger_id]
        limit = ledger.entries
        try:
            piece = await self._store.in_thread(file.read, entry_id, limit, max_bytes)
        except FileNotFoundError:
            if self._files.get(ledger.ledger_id) is not file:
                raise StorageError(f"{file.path} was deleted while it was read") from None
            piece = Piece([], [], (entry_id, limit - 1))
        except OSError as error:
            raise StorageError(f"{file.path} cannot be read: {error}") from error
        if piece.lost is not None:
            raise LostEntries(Lost(ledger.ledger_id, *piece.lost))
        return piece.entries, piece.messages

    async def _check_mine(self) -> None:
        why_not = await self._store.in_thread(self._not_mine)
        if why_not is not None:
            raise why_not

    def _log_lost(self, lost: Lost) -> None:
        _log.error("%s is damaged: %s", self._files[lost.ledger_id].path, lost)
        self._state_changed()

    def _delete_ledgers(self, ledger_ids: list[int]) -> None:
        for ledger_id in ledger_ids:
            self._trimmed.append(self._files.pop(ledger_id))
            del self._epochs[ledger_id]
        self._state_changed()

    def _state_changed(self) -> None:
        self._unsaved = True
        if self._save_timer is None:
            self._save_timer = self._loop.call_later(SAVE_SECONDS, self._save_soon)

    def _save_soon(self) -> None:
        self._save_timer = None
        if self._error is None and not self._store.closed:
            self._store.keep(self._loop.create_task(self._save_now()))

    def _state(self, *, final: bool) -> SavedState:
        ledgers = list(self._index)
        sealed = ledgers if final or self._broken else ledgers[:-1]
        rows = [
            Sealed(s.ledger_id, self._epochs[s.ledger_id], s.entries, s.size)
            for s in sealed
            if s.entries
        ]
        # Abandoned ledgers are listed as empty: whatever their files hold is not part of the log.
        rows += [Sealed(i, self.fence.epoch, 0, 0) for i in self._abandoned]
        first = ledgers[0].ledger_id
        return SavedState(
            self.fence.epoch,
            first,
            tuple(sorted(rows, key=lambda each: each.ledger_id)),
            dict(self._cursors),
            self._saved.marker,
            tuple(self._lost),
            self._cursors_lost_below,
        )

    async def _persist(self) -> None:
        async with self._saving:
            if not self._unsaved:
                return
            self._unsaved = False
            trimmed, self._trimmed = self._trimmed, []
            self._states_made += 1
            state = self._state(final=False)
            # The other copy may stay if only its cursors are older: it must list the same closed
            # ledgers. The last ledger does not count, because the note says how far it was
            # committed.
            last = self._index.last.ledger_id
            closed = tuple(s for s in state.ledgers if s.ledger_id != last)
            copies = 1 if closed == self._saved_ledgers else 2
            try:
                await self._store.in_thread(self._save, state, self._states_made, copies, trimmed)
                self._saved_ledgers = closed
            except BaseException as error:
                self._unsaved, self._trimmed = True, [*trimmed, *self._trimmed]
                if isinstance(error, LogFencedError):
                    self._fail(error)
                raise

    async def _write_final_state(self) -> None:
        # Waits neither for a save in progress nor for the disk: clients wait for the next owner.
        self._states_made += 1
        state, number = self._state(final=True), self._states_made
        await self._store.end(lambda: self._end(state, number))

    def _end(self, state: SavedState, number: int) -> UnsyncedCopy | None:
        try:
            if not self.fence.holds():
                return None
            with contextlib.suppress(OSError):
                return self._states.end(state)
            # A full disk still lets an older copy be overwritten.
            self._states.save(state, number=number)
        except FileNotFoundError:
            pass  # the log was deleted
        except OSError as error:
            raise StorageError(f"{self.directory}: its state cannot be saved: {error}") from error
        return None

    def _save(
        self, state: SavedState, number: int, copies: int, trimmed: Sequence[LedgerFile]
    ) -> None:
        try:
            if self.fence.holds():
                # Before files are deleted, both copies are written, so that neither lists a deleted
                # file.
                self._states.save(state, number=number, copies=2 if trimmed else copies)
                # A successor that fenced the log before this check may have read the former state:
                # it needs the files that this lists, and does not know what is new.
                if self.fence.holds():
                    for file in trimmed:
                        self._store.disk.remove(file.path)
                    return
        except FileNotFoundError:
            pass  # the log was deleted
        except OSError as error:
            raise StorageError(f"{self.directory}: its state cannot be saved: {error}") from error
        raise self.fenced()

    async def _release(self) -> None:
        for timer in (self._save_timer, self._note_timer, self._tidy_timer):
            if timer is not None:
                timer.cancel()
        self._cache.close()
        self._store.committer.submit(partial(_close, self._file))

    def _not_mine(self) -> StorageError | None:
        """Why this owner may not acknowledge (it is fenced, or that is unknown); None if it may."""
        try:
            return None if self.fence.holds() else self.fenced()
        except OSError as error:
            return StorageError(f"{self.directory}: whose it is: {error}")

    def fenced(self) -> LogFencedError:
        """The error for a log that another owner has fenced."""
        return LogFencedError(f"{self.name} was taken over by {self.fence.holder()}")


def _close(file: LedgerFile) -> None:
    # An error loses nothing: each group was synced when it was written.
    with contextlib.suppress(OSError):
        file.close()

"""Jobs of the committer's threads for a log."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from counterpoise.storage.files import committed
from counterpoise.storage.files.committed import Committed
from counterpoise.storage.files.disk import LedgerDisk
from counterpoise.storage.files.ledger import LedgerFile
from counterpoise.storage.files.state import SavedState, UnsyncedCopy
from counterpoise.storage.port import EntryGroup, StorageError

if TYPE_CHECKING:
    from counterpoise.storage.files.log import FileLog


class WriteGroup:
    """The job that writes a group of entries. ``seal``: a state to make durable before it, if
    any.
    """

    __slots__ = ("_error", "_file", "_group", "_log", "_offset", "_pieces", "_seal")

    def __init__(
        self,
        log: FileLog[Any],
        file: LedgerFile,
        group: EntryGroup[Any],
        pieces: list[bytes],
        seal: tuple[SavedState, int] | None,
    ) -> None:
        self._log = log
        self._file = file
        self._group = group
        self._pieces = pieces
        self._seal = seal
        self._offset = 0
        self._error: StorageError | None = None

    def run(self) -> None:
        """Write the group's records, and wait until they are on disk."""
        try:
            if self._seal is not None:
                self._log.save_sealed(*self._seal)
            self._offset = self._file.write(self._pieces)
        except FileNotFoundError:
            self._error = self._log.fenced()
        except Exception as error:
            self._error = StorageError(f"{self._file.path} cannot be written: {error}")

    def finish(self) -> None:
        """Report the outcome to the log."""
        self._log.written(self._group, self._offset, self._error)


class NoteCommitted:
    """The job that notes in a file how many entries of a ledger are committed."""

    __slots__ = ("_committed", "_disk", "_log")

    def __init__(self, log: FileLog[Any], noted: Committed, disk: LedgerDisk) -> None:
        self._log = log
        self._committed = noted
        self._disk = disk

    def run(self) -> None:
        """Write the note; errors are ignored, since recovery only knows less without it."""
        with contextlib.suppress(OSError):
            committed.note(self._log.directory, self._log.fence.epoch, self._committed, self._disk)

    def finish(self) -> None:
        """Does nothing."""


class FinishState:
    """The job that waits until the last state that an owner wrote is on disk."""

    __slots__ = ("_copy",)

    def __init__(self, copy: UnsyncedCopy) -> None:
        self._copy = copy

    def run(self) -> None:
        """Sync; errors are ignored: after a power failure the state before it would be found."""
        with contextlib.suppress(OSError):
            self._copy.settle()

    def abandon(self) -> None:
        """Do not wait for the disk."""
        with contextlib.suppress(OSError):
            self._copy.abandon()

    def finish(self) -> None:
        """Does nothing."""


class CloseFile:
    """The job that closes a ledger's file in the thread that writes it."""

    __slots__ = ("_file",)

    def __init__(self, file: LedgerFile) -> None:
        self._file = file

    def run(self) -> None:
        """Close the file. Errors are ignored: each write has waited for the disk itself."""
        with contextlib.suppress(OSError):
            self._file.close()

    def finish(self) -> None:
        """Does nothing."""

"""Writes a group of entries to a log in files, in a thread of the `Committer`."""

from typing import TYPE_CHECKING, Any

from counterpoise.storage.files.ledger import LedgerFile
from counterpoise.storage.files.state import SavedState
from counterpoise.storage.port import EntryGroup, StorageError

if TYPE_CHECKING:
    from counterpoise.storage.files.log import FileLog


class WriteGroup:
    """The write of one group. ``seal``: a state to save first and its number, or None."""

    __slots__ = ("_error", "_file", "_group", "_log", "_offset", "_pieces", "_seal")

    def __init__(
        self,
        log: "FileLog[Any]",
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
        """Pass the outcome to the log, on the event loop."""
        self._log.written(self._group, self._offset, self._error)

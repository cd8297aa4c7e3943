"""Ledger ids for a store that only one broker writes to: in a test or a tool."""

import threading


class LocalLedgerIds:
    """Ledger ids in ascending order from 0, unique within this object."""

    def __init__(self) -> None:
        self._next = 0
        self._lock = threading.Lock()

    def next_id(self, above: int) -> int:
        """The next id that is larger than ``above``."""
        with self._lock:
            taken = max(self._next, above + 1)
            self._next = taken + 1
            return taken

    async def fetch(self, above: int) -> None:
        """Does nothing: ids never run out."""

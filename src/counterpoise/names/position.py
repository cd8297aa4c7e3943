"""The position of an entry in a topic."""

from typing import Final, NamedTuple


class Position(NamedTuple):
    """The position of an entry in a topic's log. Entry id -1 is the position before the ledger's
    first entry.
    """

    ledger_id: int
    entry_id: int

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id}"


NO_POSITION: Final = Position(-1, -1)
"""The position of the last entry in a log that has no entries."""

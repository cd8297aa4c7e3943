"""The position of an entry in a topic."""

from typing import Final, NamedTuple


class Position(NamedTuple):
    """The position of an entry in a topic's log: ledger and index. Entry -1 is before the first."""

    ledger_id: int
    entry_id: int


NO_POSITION: Final = Position(-1, -1)
"""The last message id of an empty log."""

"""Where an entry of a topic lies."""

from __future__ import annotations

from typing import Final, NamedTuple


class Position(NamedTuple):
    """Where an entry lies, as the protocol names it. Entry -1 lies before the ledger's first."""

    ledger_id: int
    entry_id: int


NO_POSITION: Final = Position(-1, -1)
"""The last message id of an empty log."""

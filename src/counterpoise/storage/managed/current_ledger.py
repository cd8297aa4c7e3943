"""The ledger that a log is writing."""

from typing import Protocol

from counterpoise.bookkeeper.client_port import LedgerWriter
from counterpoise.bookkeeper.errors import BookKeeperError


class LedgerEvents(Protocol):
    """What a log is notified of about the ledger that it writes."""

    def ledger_confirmed(self, ledger: "CurrentLedger", last: int) -> None:
        """Called when a ledger's entries up to and including ``last`` are confirmed."""

    def ledger_ended(self, ledger: "CurrentLedger", error: BookKeeperError) -> None:
        """Called when a ledger accepts no more entries."""


class CurrentLedger:
    """The ledger that a log writes, with its writer, until it accepts no more entries."""

    def __init__(self, begun: float) -> None:
        """``begun``: when the ledger was created, in seconds of `ManagedContext.now`."""
        self.writer: LedgerWriter
        self.begun = begun
        self.events: LedgerEvents | None = None
        self.is_over = False

    @property
    def ledger_id(self) -> int:
        """The id of the ledger that is written now."""
        return self.writer.ledger

    def confirmed(self, last: int) -> None:
        """Called by the writer: entries up to ``last`` are on an ack quorum of bookies."""
        if self.events is not None and not self.is_over:
            self.events.ledger_confirmed(self, last)

    def ended(self, error: BookKeeperError) -> None:
        """Called by the writer: no entry after the last confirmed one will be acknowledged."""
        if not self.is_over:
            self.is_over = True
            if self.events is not None:
                self.events.ledger_ended(self, error)

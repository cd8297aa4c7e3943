"""The recovery of a ledger over real bookies: `LedgerRecovery` with connections and metadata."""

import asyncio
import logging
from collections.abc import Collection, Sequence

from counterpoise.bookkeeper.bookie_frames import ADD, OK, BookieAnswer, BookieRequest
from counterpoise.bookkeeper.bookies import Bookies
from counterpoise.bookkeeper.client import ledger_recovery
from counterpoise.bookkeeper.client.bookie_directory import BookieDirectory
from counterpoise.bookkeeper.client.ledger_nodes import LedgerNodes
from counterpoise.bookkeeper.client.metadata_changes import RecoveryClose, RecoveryStart
from counterpoise.bookkeeper.errors import BookieError
from counterpoise.bookkeeper.ledger_metadata import LedgerMetadata

log = logging.getLogger(__name__)


async def recover_ledger(
    ledger: int, bookies: Bookies, directory: BookieDirectory, nodes: LedgerNodes
) -> LedgerMetadata:
    """Fence the ledger's writer, find its last entry and close it; returns its metadata then.

    Raises `NoSuchLedger`, `RecoveryFailed` and the metadata store's errors.
    """
    known = await nodes.change(ledger, RecoveryStart())
    if known.metadata.closed:
        return known.metadata
    await directory.refresh()
    end = await _Recovering(known.metadata, bookies, directory).end()
    last = known.metadata.segments[-1]
    close = RecoveryClose(last, end.last_entry, end.length, end.segments)
    return (await nodes.change(ledger, close, known)).metadata


class _Recovering:
    """Carries out the requests of one `LedgerRecovery`, and passes it the responses."""

    def __init__(
        self, metadata: LedgerMetadata, bookies: Bookies, directory: BookieDirectory
    ) -> None:
        self._bookies = bookies
        self._directory = directory
        self._recovery = ledger_recovery.LedgerRecovery(metadata, self)
        self._write_quorum = metadata.write_quorum
        loop = asyncio.get_running_loop()
        self._end: asyncio.Future[ledger_recovery.RecoveredEnd] = loop.create_future()
        self._replacing: asyncio.Task[None] | None = None

    async def end(self) -> ledger_recovery.RecoveredEnd:
        """Run the recovery, and return the ledger's end."""
        self._recovery.start()
        try:
            return await self._end
        finally:
            if self._replacing is not None:
                self._replacing.cancel()

    def send(self, bookie: str, request: BookieRequest) -> None:
        """Send a request of the recovery to a bookie."""
        self._bookies.send(bookie, [request], self)

    def replace(self, ensemble: Sequence[str], failed: Collection[str]) -> None:
        """Find bookies to replace failed ones, then call `LedgerRecovery.replaced`."""
        work = self._replace(ensemble, failed)
        self._replacing = asyncio.get_running_loop().create_task(work)

    def recovered(self, end: ledger_recovery.RecoveredEnd) -> None:
        """Called when the ledger's end is known, at which its metadata has to be closed."""
        if not self._end.done():
            self._end.set_result(end)

    def failed(self, error: ledger_recovery.RecoveryFailed) -> None:
        """Called when the recovery failed: the ledger's end could not be decided."""
        if not self._end.done():
            self._end.set_exception(error)

    def answered(self, bookie: str, answers: Sequence[BookieAnswer]) -> None:
        """Called when a bookie responded, perhaps with errors."""
        for answer in answers:
            if answer.operation == ADD and answer.code != OK:
                self._bookies.avoid(bookie)
            self._recovery.answered(bookie, answer)

    def unanswered(self, bookie: str, request: BookieRequest, error: BookieError) -> None:
        """Called when a bookie will not respond; it may have carried out the request."""
        self._bookies.avoid(bookie)
        self._recovery.unanswered(bookie, request, str(error))

    async def _replace(self, ensemble: Sequence[str], failed: Collection[str]) -> None:
        try:
            quorum = self._write_quorum
            after = await self._directory.replace(ensemble, failed, quorum, self._bookies)
        except Exception:
            # The recovery continues with the remaining bookies, if they are enough.
            log.warning("no other bookies for %s", ", ".join(sorted(failed)), exc_info=True)
            after = list(ensemble)
        self._recovery.replaced(after)

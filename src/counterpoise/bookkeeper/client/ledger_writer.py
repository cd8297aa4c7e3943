"""The writer of a ledger over real bookies: `PendingAdds` with connections and metadata."""

import asyncio
import logging
from collections.abc import Collection, Sequence

from counterpoise.bookkeeper.bookie_frames import ADD_OVERHEAD_MAX, OK, BookieAnswer, BookieRequest
from counterpoise.bookkeeper.bookies import Bookies
from counterpoise.bookkeeper.client import metadata_changes
from counterpoise.bookkeeper.client.bookie_directory import BookieDirectory, NotEnoughBookies
from counterpoise.bookkeeper.client.ledger_nodes import LedgerNodes, as_bookkeeper_error
from counterpoise.bookkeeper.client.pending_adds import PendingAdds
from counterpoise.bookkeeper.client_port import EntryTooLarge, LedgerListener, LedgerOver
from counterpoise.bookkeeper.errors import BookieError, BookKeeperError
from counterpoise.bookkeeper.ledger_metadata import LedgerMetadata, LedgerSegment
from counterpoise.metadata.errors import MetadataError

_log = logging.getLogger(__name__)


class BookieLedgerWriter:
    """The only writer of an open ledger: does the I/O for the state machine `PendingAdds`."""

    def __init__(
        self,
        created: metadata_changes.VersionedMetadata,
        bookies: Bookies,
        directory: BookieDirectory,
        nodes: LedgerNodes,
        listener: LedgerListener,
    ) -> None:
        self._known = created
        self._bookies = bookies
        self._directory = directory
        self._nodes = nodes
        self._listener = listener
        self._adds = PendingAdds(created.metadata, self)
        self._changing: asyncio.Task[None] | None = None
        self._reasons: dict[str, str] = {}
        """Why each failed bookie failed the last time."""
        self._loop = asyncio.get_running_loop()
        self._payload_max = bookies.options.frame_max - ADD_OVERHEAD_MAX
        self._notifying = False

    @property
    def ledger(self) -> int:
        """The ledger's id."""
        return self._adds.ledger

    @property
    def last_confirmed(self) -> int:
        """The last confirmed entry; -1 if there is none."""
        return self._adds.last_confirmed

    @property
    def length(self) -> int:
        """Bytes of the payloads of all confirmed entries."""
        return self._adds.length

    @property
    def metadata(self) -> LedgerMetadata:
        """The ledger's metadata."""
        return self._known.metadata

    def add(self, *payloads: bytes) -> int:
        """Send entries; returns the first's id. Raises `LedgerOver`, `EntryTooLarge`."""
        if (largest := max(map(len, payloads))) > self._payload_max:
            raise EntryTooLarge(
                f"an entry of {largest} bytes; bookies take {self._payload_max} "
                "(nettyMaxFrameSizeBytes)"
            )
        return self._adds.add(*payloads)

    async def close(self) -> None:
        """Fail unconfirmed entries, and record the ledger as closed at `last_confirmed`."""
        adds = self._adds
        adds.stop(f"ledger {adds.ledger} is closed")
        self._notify()
        if self._changing is not None:
            # It may have changed the metadata: the write below finds out.
            self._changing.cancel()
        change = metadata_changes.WriterClose(adds.last_confirmed, adds.length)
        try:
            self._known = await self._nodes.change(adds.ledger, change, self._known)
        except MetadataError as error:
            raise as_bookkeeper_error(error) from error

    # Actions that the state machine `PendingAdds` requests.

    def send(self, bookie: str, *requests: BookieRequest) -> None:
        """Send entries to a bookie."""
        self._bookies.send(bookie, requests, self)

    def confirmed(self, last: int) -> None:
        """Notify the owner, once per turn of the event loop, that entries are acknowledged."""
        if not self._notifying:
            self._notifying = True
            self._loop.call_soon(self._notify)

    def change_ensemble(self, first: int, before: LedgerSegment, failed: Collection[str]) -> None:
        """Write a segment from ``first`` on, without the failed bookies, into the metadata."""
        work = self._replace(first, before, failed)
        self._changing = self._loop.create_task(work)

    def ended(self, error: LedgerOver) -> None:
        """Notify the owner that no further entry is acknowledged."""
        self._notify()
        self._listener.ended(error)

    # Responses of bookies, from `Bookies`.

    def answered(self, bookie: str, answers: Sequence[BookieAnswer]) -> None:
        """Take a bookie's responses, which may be errors."""
        for answer in answers:
            if answer.code != OK:
                self._bookies.avoid(bookie)
                self._reasons[bookie] = answer.reason
        self._adds.answered(bookie, *answers)

    def unanswered(self, bookie: str, request: BookieRequest, error: BookieError) -> None:
        """Note that a bookie will not respond; it may have carried out the request."""
        self._bookies.avoid(bookie)
        self._reasons[bookie] = str(error)
        self._adds.bookie_failed(bookie)

    def _notify(self) -> None:
        if self._notifying:
            self._notifying = False
            self._listener.confirmed(self._adds.last_confirmed)

    async def _replace(self, first: int, before: LedgerSegment, failed: Collection[str]) -> None:
        ledger, ensemble = self._adds.ledger, before.ensemble
        try:
            quorum = self._known.metadata.write_quorum
            after = await self._directory.replace(ensemble, failed, quorum, self._bookies)
            lacking = sorted(set(after).intersection(failed))
            if lacking:
                raise NotEnoughBookies(f"no other bookie to write to than {', '.join(lacking)}")
            change = metadata_changes.EnsembleChange(before, LedgerSegment(first, tuple(after)))
            self._known = await self._nodes.change(ledger, change, self._known)
        except Exception as error:
            # Any error ends the ledger, since its owner would wait for these entries for ever.
            names = "; ".join(f"{each}, {self._reasons[each]}" for each in sorted(failed))
            why = str(error) or repr(error)
            self._adds.end(f"ledger {ledger}: bookies that failed ({names}) stay: {why}")
            if not isinstance(error, BookKeeperError | MetadataError):
                _log.exception("ledger %d: its ensemble could not be changed", ledger)
            return
        self._adds.ensemble_changed(self._known.metadata.segments[-1])

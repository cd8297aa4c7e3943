"""The ledgers of a log on BookKeeper: those that its node lists, and the one being written."""

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Mapping

from counterpoise.bookkeeper.client_port import LedgerClient
from counterpoise.bookkeeper.errors import BookKeeperError, NoSuchLedger
from counterpoise.bookkeeper.managed_ledgers import ListedLedger
from counterpoise.bookkeeper.quorums import Quorums
from counterpoise.names.callbacks import Clock
from counterpoise.storage.managed.current_ledger import CurrentLedger
from counterpoise.storage.managed.topic_node import OwnedNode
from counterpoise.storage.port import LogFencedError, StorageError

_log = logging.getLogger(__name__)


async def create_ledger(
    client: LedgerClient, name: str, purpose: Mapping[str, bytes], now: Clock, quorums: Quorums
) -> CurrentLedger:
    """Create a ledger that the log does not list yet; raises `StorageError`."""
    made = CurrentLedger(now())
    try:
        made.writer = await client.create(purpose, made, quorums)
    except BookKeeperError as error:
        raise StorageError(f"{name}: no ledger can be created: {error}") from error
    return made


async def delete_unlisted(client: LedgerClient, ledger: CurrentLedger) -> None:
    """Delete a ledger that was created but is listed by no log."""
    await _end(ledger)
    await _delete(client, ledger.ledger_id)


async def _end(ledger: CurrentLedger) -> None:
    with contextlib.suppress(BookKeeperError):
        await ledger.writer.close()


async def _delete(client: LedgerClient, ledger_id: int) -> None:
    try:
        await client.delete(ledger_id)
    except BookKeeperError as error:
        _log.warning("ledger %d is left as an orphan: %s", ledger_id, error)


class LedgerChain:
    """The list of ledgers of one log, for its owner: creates, lists and deletes ledgers."""

    def __init__(
        self,
        client: LedgerClient,
        owned: OwnedNode,
        purpose: Mapping[str, bytes],
        now: Clock,
        wall: Clock,
        quorums: Quorums,
    ) -> None:
        """``owned``: the log's node in the metadata store; ``purpose``: custom metadata of each new
        ledger. ``now``: seconds by which the age of ledgers is measured; ``wall``: seconds since
        1970.
        """
        self.quorums = quorums
        """The quorums of ledgers that are created from now on."""
        self.owned = owned
        self.current: CurrentLedger
        """The ledger that is written, from `begin` on."""
        self._is_begun = False
        self.closed: list[ListedLedger] = []
        """The ledgers before the current one, in order."""
        self._client = client
        self._purpose = purpose
        self._now = now
        self._wall = wall
        self._next: CurrentLedger | None = None
        self._dropped: set[int] = set()
        self._listing = asyncio.Lock()

    async def create_next(self) -> CurrentLedger:
        """Create the ledger that `list_next` will make the current one; raises `StorageError`.

        Reuses one that was created before and could not be listed.
        """
        if self._next is not None and self._next.is_over:
            # It may have been listed, which can be unknown: the next list is written without it.
            self._dropped.add(self._next.ledger_id)
            self._next = None
        if self._next is None:
            self._next = await create_ledger(
                self._client, self.owned.name, self._purpose, self._now, self.quorums
            )
        return self._next

    async def settle(self, ledger: CurrentLedger, committed: int) -> int:
        """Close a ledger; returns how many entries it finally has. Raises `StorageError`.

        That is more than ``committed`` if another client has closed it and found more.
        """
        try:
            try:
                await ledger.writer.close()
            except BookKeeperError:
                reader = await self._client.recover(ledger.ledger_id)
                return max(reader.last_entry + 1, committed)
        except NoSuchLedger as error:
            await self.owned.check_mine()
            if committed:
                _log.error("%s: %s any more", self.owned.name, error)
        except BookKeeperError as error:
            raise StorageError(
                f"{self.owned.name}: the end of ledger {ledger.ledger_id} is unknown: {error}"
            ) from error
        return committed

    async def list_next(self, following: CurrentLedger, entries: int, size: int) -> None:
        """Write the list with ``following``, which becomes the current ledger, added to it.

        The ledger before it is listed as closed, with its ``entries`` and ``size`` in bytes;
        without entries it is deleted.
        """
        async with self._listing:
            closed = list(self.closed)
            if entries:
                closed.append(self._closed(self.current.ledger_id, entries, size))
            else:
                self._dropped.add(self.current.ledger_id)
            await self._list(closed, following)
            self.current, self._next = following, None

    async def begin(
        self, following: CurrentLedger, found: Iterable[ListedLedger], empty: Iterable[int]
    ) -> None:
        """Write the list after a takeover: ledgers ``found``, then the next; delete ``empty``."""
        async with self._listing:
            self._next = following
            self._dropped.update(empty)
            closed = [
                each if each.closed_ms else self._closed(each.ledger, each.entries, each.size)
                for each in found
            ]
            await self._list(closed, following)
            self.current, self._next, self._is_begun = following, None, True

    def _closed(self, ledger_id: int, entries: int, size: int) -> ListedLedger:
        return ListedLedger(ledger_id, entries, size, int(self._wall() * 1000), False, False)

    async def _list(self, closed: list[ListedLedger], current: CurrentLedger) -> None:
        """Write the list of ledgers, then delete the ledgers that it no longer has."""
        kept = [each for each in closed if each.ledger not in self._dropped]
        written = ListedLedger(current.ledger_id, 0, 0, 0, False, False)
        await self.owned.list_ledgers([*kept, written])
        self.closed = kept
        dropped, self._dropped = self._dropped, set()
        await asyncio.gather(*(_delete(self._client, each) for each in dropped))

    def drop(self, ledger_ids: Iterable[int]) -> None:
        """Mark ledgers for deletion: the next list is written without them."""
        self._dropped.update(ledger_ids)

    async def trim(self) -> None:
        """Write the list without the ledgers marked by `drop`, and delete them.

        Raises `LogFencedError` and `StorageError`.
        """
        async with self._listing:
            if self._dropped:
                await self._list(self.closed, self.current)

    async def close(self, committed: int) -> bool:
        """Close the current ledger; returns whether the next owner needs no recovery.

        Raises `LogFencedError` if the log has another owner.
        """
        try:
            await self.current.writer.close()
        except BookKeeperError as error:
            # All that was acknowledged is there; the next owner recovers the ledger.
            _log.info("%s: %s", self.owned.name, error)
            return False
        await self.owned.check_mine()
        return True

    async def delete(self) -> None:
        """Delete every ledger of a log that is being deleted; raises `BookKeeperError`."""
        with contextlib.suppress(BookKeeperError):
            await self.current.writer.close()
        ids = [each.ledger for each in self.closed] + [self.current.ledger_id]
        await asyncio.gather(*map(self._client.delete, ids))

    async def _discard_next(self) -> None:
        """Delete the ledger that was created and is not listed."""
        following, self._next = self._next, None
        if following is None:
            return
        listed = True
        with contextlib.suppress(StorageError):
            try:
                await self.owned.check_mine()
                listed = self.owned.lists(following.ledger_id)
            except LogFencedError:
                listed = False
        if listed:
            await _end(following)
        else:
            await delete_unlisted(self._client, following)

    async def abandon(self) -> None:
        """Delete a ledger that was created and not listed, and close the current one; ignores
        errors.
        """
        await self._discard_next()
        if self._is_begun:
            with contextlib.suppress(BookKeeperError):
                await self.current.writer.close()

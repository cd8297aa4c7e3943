"""Stores the durable cursors of one log, in their nodes and ledgers.

The first saved state of a cursor goes into its node. Later ones are entries of a ledger of its own,
which the node names; an orderly close writes the last one into the node again.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from counterpoise.bookkeeper import cursors, errors
from counterpoise.bookkeeper.client_port import LedgerClient
from counterpoise.metadata import BadVersion, MetadataError, NotFound
from counterpoise.metadata.port import MUST_NOT_EXIST
from counterpoise.names.position import NO_POSITION
from counterpoise.names.topic import url_encoded
from counterpoise.storage.managed.confirmed_ledger import ConfirmedLedger
from counterpoise.storage.managed.context import ManagedContext
from counterpoise.storage.managed.cursor_states import node_of, state_of
from counterpoise.storage.managed.purpose import cursor_purpose
from counterpoise.storage.managed.topic_node import OwnedNode
from counterpoise.storage.port import CursorState, StorageError

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class StoredCursor:
    """One cursor, with its node in the metadata store as it was last read or written."""

    path: str
    node: cursors.CursorNode
    version: int = MUST_NOT_EXIST
    value: bytes = b""
    saved: CursorState | None = None
    writer: ConfirmedLedger | None = None
    """Writes the cursor's ledger; None until this owner has created one and still had the log after
    the node named it: a successor that read the node before would not fence that ledger.
    """
    begun: float = 0.0
    unused: set[int] = field(default_factory=set)
    """Ledgers that its node named before and that may be deleted."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


async def latest_positions(
    client: LedgerClient, node: cursors.CursorNode
) -> tuple[cursors.CursorPositions, errors.BookKeeperError | None]:
    """Read a cursor's last state from its ledger; if that is lost, from its node, with the error.

    Recovers the cursor's ledger. Raises `BookKeeperError` if a later attempt may succeed.
    """
    if node.ledger == cursors.NO_LEDGER:
        return node.positions, None
    try:
        return await _last_state(client, node.ledger) or node.positions, None
    except (errors.NoSuchLedger, errors.UnreadableNode, errors.EntryUnreadable) as error:
        if isinstance(error, errors.EntryUnreadable) and not error.lost:
            raise
        return node.positions, error


async def _last_state(client: LedgerClient, ledger: int) -> cursors.CursorPositions | None:
    reader = await client.recover(ledger)
    if reader.last_entry < 0:
        return None
    (payload,) = await reader.read(reader.last_entry, reader.last_entry)
    return cursors.parse_positions(f"entry {ledger}:{reader.last_entry}", payload)


class CursorKeeper:
    """Saves the cursors of one log for its owner, so that the next owner finds all that was
    reported.

    It changes a cursor's node first, and then reads the log's node; a new owner does the reverse.
    So if another broker has become the owner, nothing is reported as saved. The log's node is read
    before the first node of a cursor is written, too.
    """

    def __init__(self, context: ManagedContext, owned: OwnedNode) -> None:
        self._metadata = context.metadata
        self._client = context.client
        self._options = context.options
        self._now = context.now
        self._wall = context.wall
        self._owned = owned
        self._stored: dict[str, StoredCursor] = {}

    async def load(self, expected: Sequence[str] = ()) -> dict[str, CursorState]:
        """Read every cursor, and fence the former owner's ledgers of them.

        ``expected``: names of cursor nodes listed a moment ago, to read while listing them again.
        """
        with _as_storage_errors(f"cursors of {self._owned.name} cannot be read"):
            names, known = await asyncio.gather(
                cursors.cursor_names(self._metadata, self._owned.name),
                asyncio.gather(*map(self._load, expected)),
            )
            others = [name for name in names if name not in expected]
            found = [*known, *await asyncio.gather(*map(self._load, others))]
        self._stored = {each.node.name: each for each in found if each is not None}
        return {name: each.saved for name, each in self._stored.items() if each.saved is not None}

    async def _load(self, name: str) -> StoredCursor | None:
        path = f"{self._owned.path}/{name}"
        stored = await self._metadata.get(path)
        while stored is not None:
            node = cursors.parse_cursor_node(path, stored.value)
            positions, missing = await latest_positions(self._client, node)
            # The former owner may have changed the node and deleted the ledger meanwhile.
            again = await self._metadata.get(path) if missing is not None else stored
            if again == stored:
                if missing is not None:
                    message = "%s: %s; the cursor goes on at %s, where its node has it"
                    _log.error(message, path, missing, positions.mark_delete)
                found = state_of(node, positions)
                return StoredCursor(path, node, stored.version, stored.value, found)
            stored = again
        return None

    async def save(self, states: Mapping[str, CursorState]) -> None:
        """Store each cursor that differs from what is stored, and delete those not in ``states``.

        Raises `LogFencedError` and `StorageError`, after which some may be stored.
        """
        changed = [state for state in states.values() if self._differs(state)]
        gone = [name for name in self._stored if name not in states]
        if not changed and not gone:
            return
        with _as_storage_errors(f"cursors of {self._owned.name} cannot be saved"):
            if gone:
                await self._owned.check_mine()
            await asyncio.gather(
                *(self._save(state) for state in changed), *(self._drop(name) for name in gone)
            )

    def _differs(self, state: CursorState) -> bool:
        stored = self._stored.get(state.name)
        return stored is None or stored.saved is not state

    async def _save(self, state: CursorState) -> None:
        stored = self._stored.get(state.name)
        if stored is None:
            path = f"{self._owned.path}/{url_encoded(state.name)}"
            node = cursors.CursorNode(
                state.name, cursors.NO_LEDGER, cursors.CursorPositions(NO_POSITION), ()
            )
            stored = self._stored[state.name] = StoredCursor(path, node)
        async with stored.turn:
            if stored.version == MUST_NOT_EXIST and self._fits_node(state):
                # A node created after a successor has read the cursors would mislead the owner
                # after that.
                await self._owned.check_mine()
                await self._write_node(stored, state, cursors.NO_LEDGER)
                await self._owned.check_mine()
            elif not await self._append(stored, state):
                await self._begin_ledger(stored, state)
            stored.saved = state

    def _fits_node(self, state: CursorState) -> bool:
        return len(state.acked) <= self._options.node_ranges_max

    async def _append(self, stored: StoredCursor, state: CursorState) -> bool:
        """Append the state to the cursor's ledger; False if the cursor needs another ledger."""
        writer = stored.writer
        if writer is None or writer.is_over or self._is_due(stored, writer):
            return False
        former = stored.node
        node = node_of(state, writer.ledger, former)
        try:
            await writer.add(cursors.write_positions(node.positions))
        except errors.BookKeeperError as error:
            _log.info("%s: %s; the cursor goes on in another ledger", stored.path, error)
            return False
        if node.texts != former.texts:
            await self._write_node(stored, state, writer.ledger)
            await self._owned.check_mine()
        return True

    def _is_due(self, stored: StoredCursor, writer: ConfirmedLedger) -> bool:
        options = self._options
        age = self._now() - stored.begun
        return writer.entries >= options.cursor_entries or age >= options.cursor_rollover_s

    async def _begin_ledger(self, stored: StoredCursor, state: CursorState) -> None:
        owned = self._owned
        await owned.check_mine()
        purpose = cursor_purpose(owned.name, url_encoded(state.name))
        writer = await ConfirmedLedger.create(self._client, purpose)
        try:
            node = node_of(state, writer.ledger, stored.node)
            await writer.add(cursors.write_positions(node.positions))
            await self._write_node(stored, state, writer.ledger)
        except MetadataError:
            # The node may name this ledger. It is unused once the node names another.
            stored.unused.add(writer.ledger)
            raise
        except BaseException:
            await self._discard({writer.ledger})
            raise
        stored.writer = None
        await owned.check_mine()
        stored.writer, stored.begun = writer, self._now()
        # The full one is among them: what is deleted need not be closed.
        await self._discard(stored.unused)

    async def _write_node(self, stored: StoredCursor, state: CursorState, ledger: int) -> None:
        """Write a cursor's node, and overwrite what a former owner may still have written there.

        Adds the ledgers that the node named before to ``unused``. They may be deleted after
        `check_mine` has shown that this broker still owns the log.
        """
        node = node_of(state, ledger, stored.node)
        stored.unused.add(stored.node.ledger)
        while True:
            value = cursors.write_cursor_node(
                stored.path, stored.value, node, int(self._wall() * 1000)
            )
            try:
                stored.version = await self._metadata.put(
                    stored.path, value, expected_version=stored.version
                )
            except BadVersion:
                await self._owned.check_mine()
                now = await self._metadata.get(stored.path)
                stored.version = MUST_NOT_EXIST if now is None else now.version
                if now is not None:
                    stored.unused.add(cursors.parse_cursor_node(stored.path, now.value).ledger)
            else:
                stored.value, stored.node = value, node
                stored.unused -= {ledger, cursors.NO_LEDGER}
                return

    async def _discard(self, unused: set[int]) -> None:
        """Delete ledgers that no node names any more."""
        while unused:
            ledger = unused.pop()
            try:
                await self._client.delete(ledger)
            except errors.BookKeeperError as error:
                _log.warning("ledger %d of a cursor is left as an orphan: %s", ledger, error)

    async def _drop(self, name: str) -> None:
        stored = self._stored[name]
        async with stored.turn:
            with contextlib.suppress(NotFound):
                await self._metadata.delete(stored.path)
            del self._stored[name]
            await self._discard((stored.unused | {stored.node.ledger}) - {cursors.NO_LEDGER})

    async def close(self, states: Mapping[str, CursorState]) -> None:
        """Save all cursors, and write each state that is small enough into its node.

        `discard_unused` then deletes the ledgers that no node names any more.
        """
        await self.save(states)
        with _as_storage_errors(f"cursors of {self._owned.name} cannot be saved"):
            await self._owned.check_mine()
            await asyncio.gather(*(self._settle(each) for each in self._stored.values()))
            # A successor that read a node before it was changed needs the ledger that it names.
            await self._owned.check_mine()

    async def discard_unused(self) -> None:
        """Delete the ledgers of cursors whose state is stored in their node."""
        await asyncio.gather(*(self._discard(each.unused) for each in self._stored.values()))

    async def _settle(self, stored: StoredCursor) -> None:
        """Write a cursor's last state into its node, if it is small enough for that."""
        async with stored.turn:
            if stored.saved is None or stored.writer is None:
                return
            closing = asyncio.create_task(_close(stored.writer))
            try:
                if self._fits_node(stored.saved):
                    await self._write_node(stored, stored.saved, cursors.NO_LEDGER)
            finally:
                await closing

    async def delete(self) -> None:
        """Delete every loaded cursor with its ledger."""
        with _as_storage_errors(f"cursors of {self._owned.name} cannot be deleted"):
            await asyncio.gather(*(self._drop(name) for name in list(self._stored)))

    async def abandon(self) -> None:
        """Close the ledgers of cursors without saving anything: this broker's use of the log
        ends.
        """
        writers = [each.writer for each in self._stored.values() if each.writer is not None]
        await asyncio.gather(*map(_close, writers))


async def _close(writer: ConfirmedLedger) -> None:
    """Close a cursor's ledger; one that cannot be closed is recovered by the next owner."""
    with contextlib.suppress(errors.BookKeeperError):
        await writer.close()


@contextmanager
def _as_storage_errors(what: str) -> Iterator[None]:
    try:
        yield
    except (errors.BookKeeperError, MetadataError) as error:
        raise StorageError(f"{what}: {error}") from error

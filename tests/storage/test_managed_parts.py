"""Parts of logs on BookKeeper: cursors' ledgers and states, and when a ledger is full."""

import asyncio
from collections.abc import Mapping
from typing import cast

import pytest

from counterpoise.bookkeeper.client_port import LedgerClient, LedgerOver, LedgerWriter
from counterpoise.bookkeeper.cursors import NO_LEDGER, CursorNode, CursorPositions
from counterpoise.bookkeeper.errors import BookKeeperError, EntryUnreadable
from counterpoise.metadata import MemoryTree
from counterpoise.names.position import NO_POSITION, Position
from counterpoise.storage.ledger_index import IndexedLedger
from counterpoise.storage.lost_entries import LostEntries
from counterpoise.storage.managed.confirmed_ledger import ConfirmedLedger
from counterpoise.storage.managed.current_ledger import CurrentLedger
from counterpoise.storage.managed.cursor_states import DEDUPLICATION, node_of, state_of
from counterpoise.storage.managed.ledger_chain import LedgerChain
from counterpoise.storage.managed.ledger_reads import LedgerReads
from counterpoise.storage.managed.topic_node import OwnedNode
from counterpoise.storage.managed_options import ManagedLedgerOptions
from counterpoise.storage.port import CursorState
from tests.bookkeeper.memory_ledgers import MemoryBookKeeper


class Writer:
    """A ledger's writer whose entries are confirmed when the test says so."""

    ledger = 7
    last_confirmed = -1

    def __init__(self) -> None:
        self.added: list[bytes] = []
        self.is_over = False

    def add(self, *payloads: bytes) -> int:
        if self.is_over:
            raise LedgerOver("it was fenced")
        self.added += payloads
        return len(self.added) - len(payloads)

    async def create(self, _purpose: Mapping[str, bytes], _events: object) -> "Writer":
        return self


async def ledger_of(writer: Writer) -> ConfirmedLedger:
    return await ConfirmedLedger.create(cast("LedgerClient", writer), {})


async def test_an_entry_is_waited_for_until_it_is_confirmed_itself() -> None:
    writer = Writer()
    ledger = await ledger_of(writer)
    for number in range(3):
        adding = asyncio.ensure_future(ledger.add(b"%d" % number))
        await asyncio.sleep(0)
        ledger.confirmed(number - 1)
        await asyncio.sleep(0)
        assert not adding.done(), "only the one before it is confirmed"
        writer.last_confirmed = number
        ledger.confirmed(number)
        await adding
        assert ledger.entries == number + 1


@pytest.mark.parametrize("how", ["refused", "ended"])
async def test_nothing_is_added_after_an_entry_that_failed(how: str) -> None:
    writer = Writer()
    ledger = await ledger_of(writer)
    writer.is_over = how == "refused"
    adding = asyncio.ensure_future(ledger.add(b"0"))
    await asyncio.sleep(0)
    if how == "ended":
        ledger.ended(BookKeeperError("too few bookies are left"))
    with pytest.raises(BookKeeperError):
        await adding
    assert ledger.is_over
    writer.is_over, before = False, list(writer.added)
    with pytest.raises(LedgerOver, match="ledger 7 takes no more"):
        await ledger.add(b"1")
    assert writer.added == before


async def test_a_ledger_that_ended_before_it_was_listed_is_deleted_with_the_next_list() -> None:
    tree = MemoryTree()
    client, metadata = MemoryBookKeeper(tree).client(), tree.open()
    await metadata.put("/managed-ledgers/x", b"")
    owned = OwnedNode(metadata, "/ledgers", "x", b"", 0)
    chain = LedgerChain(client, owned, {}, float, float, ManagedLedgerOptions().persistence.quorums)
    first = await chain.create_next()
    assert await chain.create_next() is first
    first.ended(BookKeeperError("too few bookies are left"))
    following = await chain.create_next()
    await chain.begin(following, (), ())
    assert list(client.cluster.ledgers) == [following.ledger_id]


class Copies:
    """A ledger client whose readers know of the copies that there were when they were opened."""

    def __init__(self) -> None:
        self.moves, self.opened = 0, 0

    async def recover(self, ledger: int) -> "Copies.Reader":
        self.opened += 1
        return Copies.Reader(self, ledger)

    class Reader:
        def __init__(self, copies: "Copies", ledger: int) -> None:
            self.copies, self.ledger, self.knows = copies, ledger, copies.moves

        async def read(self, first: int, last: int) -> list[bytes]:
            if self.knows != self.copies.moves:
                raise EntryUnreadable(self.ledger, first, ["it is gone"], lost=True)
            return [b"%d" % entry for entry in range(first, last + 1)]


async def test_a_ledger_that_was_copied_since_it_was_opened_is_opened_once_more() -> None:
    """Its bookies are gone, and others have it by now. A second failure is one."""
    copies, current = Copies(), CurrentLedger(0.0)
    current.writer = cast("LedgerWriter", Writer())
    reads = LedgerReads(cast("LedgerClient", copies))
    ledger = IndexedLedger(3, 0, 4, 4)
    for moves in (0, 1, 2):
        copies.moves = moves
        for _ in range(2):
            assert await reads.read(ledger, 1, 2, current) == [b"1", b"2"]
        assert copies.opened == moves + 1
    reads.forget([3])
    copies.moves += 1
    reader = await copies.recover(3)
    copies.moves += 1

    async def outdated(_: int) -> Copies.Reader:
        return reader

    copies.recover = outdated  # type: ignore[method-assign]
    with pytest.raises(LostEntries):
        await reads.read(ledger, 1, 2, current)


RANGES = ((Position(1, 4), Position(1, 6)), (Position(1, 9), Position(2, 0)))
PARTIAL = ((Position(1, 7), (5, 1)),)


@pytest.mark.parametrize(
    "state",
    [
        CursorState("s", Position(1, 2)),
        CursorState("s", NO_POSITION, RANGES, {"team": "a"}, PARTIAL),
        CursorState(DEDUPLICATION, Position(1, 2), (), {"p": "12", "q": "-1"}),
    ],
)
def test_a_cursor_comes_back_as_it_was_stored(state: CursorState) -> None:
    former = CursorNode(
        state.name, 3, CursorPositions(NO_POSITION, numbers=(("a number", 5),)), (("old", "x"),)
    )
    node = node_of(state, NO_LEDGER, former)
    assert state_of(node, node.positions) == state
    if state.name != DEDUPLICATION:
        assert node.positions.numbers == former.positions.numbers, "what only Pulsar writes stays"


MINUTE = 60.0


@pytest.mark.parametrize(
    ("entries", "size", "age_s", "is_due"),
    [
        (100, 0, 10 * MINUTE, True),
        (99, 999, 10 * MINUTE, False),
        (1, 1000, 10 * MINUTE, True),
        (100, 1000, 10 * MINUTE - 0.1, False),
        (1, 1, 20 * MINUTE, True),
        (1, 1, 20 * MINUTE - 0.1, False),
        (0, 0, 30 * MINUTE, False),
    ],
)
def test_when_a_ledger_is_closed_and_the_next_begun(
    entries: int, size: int, age_s: float, is_due: bool
) -> None:
    options = ManagedLedgerOptions(ledger_entries=100, min_rollover_min=10, max_rollover_min=20)
    assert options.is_due(entries, size, age_s, 1000) is is_due

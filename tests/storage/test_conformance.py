"""What every ledger store promises."""

import asyncio
import contextlib
import random

import pytest

from counterpoise.storage.port import (
    CursorState,
    LogClosedError,
    LogFencedError,
    Position,
    StorageError,
)
from counterpoise.storage.stored_log import StoredLog
from counterpoise.wire.entry import build
from counterpoise.wire.proto.metadata_pb2 import MessageMetadata
from tests.storage.conftest import Brokers, Heard, everything, write

NAME = "tenant/ns/persistent/topic"


def bodies(count: int, start: int = 0) -> list[bytes]:
    return [b"entry-%04d" % n for n in range(start, start + count)]


def batch_of(messages: int) -> bytes:
    """An entry whose metadata says how many messages it holds: some stores count by that."""
    metadata = MessageMetadata(
        producer_name="p", sequence_id=0, publish_time=1, num_messages_in_batch=messages
    )
    return build(metadata, bytes(6 * messages))


async def test_groups_are_heard_in_order_with_their_contexts(brokers: Brokers) -> None:
    heard = Heard()
    log = await brokers().open(NAME, "a", heard)
    await write(log, heard, *bodies(3))
    await write(log, heard, *bodies(20, 3))
    assert heard.entries == heard.contexts == bodies(23)
    assert heard.positions == sorted(set(heard.positions))
    assert (log.begin, log.end) == (0, 23)
    assert log.size == sum(map(len, bodies(23)))
    await log.close()


async def test_positions_and_indexes_are_inverse_across_ledgers(brokers: Brokers) -> None:
    heard = Heard()
    log = await brokers().open(NAME, "a", heard)
    for body in bodies(11):
        await write(log, heard, body)
    assert len(log.ledgers) > 1
    assert [log.position(i) for i in range(11)] == heard.positions
    assert [log.index(Position(*p)) for p in heard.positions] == list(range(11))
    first = log.ledgers[0]
    assert log.index(Position(first.ledger_id, first.entries)) == first.entries
    assert log.index(Position(first.ledger_id, 10**9)) == first.entries
    assert log.index(Position(first.ledger_id, -1)) == 0
    assert log.index(Position(-1, -1)) == 0
    assert log.index(Position(10**9, 0)) == log.end
    assert log.position(-1) == (first.ledger_id, -1)
    await log.close()


async def test_a_ledger_that_is_full_takes_no_more(brokers: Brokers) -> None:
    heard = Heard()
    log = await brokers().open(NAME, "a", heard)
    for number in range(9):
        # Four of these fill a ledger of each store to the byte, or to the entry.
        await write(log, heard, b"%010d" % number)
    assert [entry for _, entry in heard.positions] == [0, 1, 2, 3] * 2 + [0]
    assert [each.entries for each in log.ledgers] == [4, 4, 1]
    await log.close()


async def test_what_is_committed_can_be_read(brokers: Brokers) -> None:
    heard = Heard()
    log = await brokers().open(NAME, "a", heard)
    for n in range(40):
        await write(log, heard, *bodies(n % 7 + 1, 10 * n))
    assert await everything(log) == heard.entries
    await log.close()
    assert log.cached_bytes == 0


@pytest.mark.parametrize("seed", range(12))
async def test_whenever_a_log_is_prepared_the_next_owner_finds_what_was_stored_last(
    brokers: Brokers, seed: int
) -> None:
    """Prepared long ago, while it was written, for a move that went elsewhere, or not at all."""
    rng = random.Random(seed)
    everybody = [brokers() for _ in range(3)]
    stored: list[bytes] = []
    acknowledged, left = -1, []
    for turn in range(8):
        store = rng.choice(everybody)
        heard = Heard()
        log = await store.open(NAME, f"owner {turn}", heard)
        assert await everything(log) == stored
        heard.entries += stored
        if acknowledged >= 0:
            assert log.index(log.cursors["s"].mark_delete) == acknowledged
        for _ in range(rng.randint(0, 4)):
            await rng.choice(everybody).prepare(NAME)
            await write(log, heard, *bodies(rng.randint(1, 3), len(heard.entries)))
            acknowledged = rng.randint(acknowledged, log.end - 1)
            log.save_cursor(CursorState("s", log.position(acknowledged)))
        stored = heard.entries
        if rng.random() < 0.3:
            # Its owner dies, after its cursor was saved.
            await log.cursors_saved()
            left.append(log)
        else:
            await log.close()
    for log in left:
        await log.close()


async def test_a_log_is_released_when_its_last_owner_has_closed_it(brokers: Brokers) -> None:
    first, second = brokers(), brokers()
    assert not await second.is_released(NAME), "there is none"
    log = await first.open(NAME, "a", Heard())
    assert not await second.is_released(NAME)
    await log.close()
    assert await second.is_released(NAME)
    taken = await second.open(NAME, "b", Heard())
    assert not await first.is_released(NAME), (
        "what the owner before that left says nothing of this one"
    )
    again = await first.open(NAME, "a", Heard())
    await taken.close()
    assert not await second.is_released(NAME), "a fenced owner releases nothing"
    await again.close()
    assert await second.is_released(NAME)
    await first.delete(NAME)
    assert not await second.is_released(NAME)


async def test_a_log_that_was_deleted_after_it_was_prepared_begins_empty(brokers: Brokers) -> None:
    first, second, heard = brokers(), brokers(), Heard()
    log = await first.open(NAME, "a", heard)
    await write(log, heard, *bodies(3))
    await second.prepare(NAME)
    await log.close()
    await first.delete(NAME)
    log, heard = await second.open(NAME, "b", Heard()), Heard()
    assert await everything(log) == []
    await log.close()
    await second.prepare("tenant/ns/persistent/never was")
    assert not await second.exists("tenant/ns/persistent/never was")


@pytest.mark.parametrize("graceful", [True, False])
async def test_the_next_owner_finds_everything(brokers: Brokers, graceful: bool) -> None:
    entries: list[bytes] = []
    left = []
    for owner in "abcd":
        heard = Heard()
        log = await brokers().open(NAME, owner, heard)
        assert (log.begin, log.end) == (0, len(entries))
        assert await everything(log) == entries
        await write(log, heard, *bodies(5, len(entries)))
        await write(log, heard, *bodies(2, len(entries) + 5))
        entries += heard.entries
        if graceful:
            await log.close()
        else:
            left.append(log)
    assert entries == bodies(28)
    for log in left:
        await log.close()


async def test_message_counts_are_kept(brokers: Brokers) -> None:
    heard = Heard()
    log = await brokers().open(NAME, "a", heard)
    log.append(batch_of(17), 17, None)
    log.append(b"single", 1, None)
    await heard.until(lambda: len(heard.entries) == 2)
    await log.close()
    log = await brokers().open(NAME, "b", Heard())
    assert list((await log.read(0, 1000)).messages)[:2] == [17, 1]
    await log.close()


async def test_a_successor_fences_the_former_owner(brokers: Brokers) -> None:
    old, new = Heard(), Heard()
    former = await brokers().open(NAME, "old", old)
    await write(former, old, b"kept")
    successor = await brokers().open(NAME, "new", new)
    former.append(b"never acknowledged", 1, "lost")
    await old.until(lambda: old.error is not None)
    assert isinstance(old.error, LogFencedError)
    assert "new" in str(old.error)
    assert (old.entries, old.lost_contexts) == ([b"kept"], ["lost"])
    with pytest.raises(LogFencedError):
        former.append(b"again", 1, None)
    await write(successor, new, b"after")
    assert await everything(successor) == [b"kept", b"after"]
    await former.close()
    await successor.close()
    # What the fenced owner wrote is not found by anybody later either.
    third = await brokers().open(NAME, "third", Heard())
    assert await everything(third) == [b"kept", b"after"]
    await third.close()


async def test_a_fenced_owner_changes_nothing_any_more(brokers: Brokers) -> None:
    """Though it does not know that yet, since it has written nothing."""
    heard = Heard()
    former = await brokers().open(NAME, "old", heard)
    for body in bodies(11):
        await write(former, heard, body)
    kept = CursorState("s", former.position(2))
    former.save_cursor(kept)
    await former.flush()
    successor = await brokers().open(NAME, "new", Heard())
    for name in ("s", "made too late"):
        former.save_cursor(CursorState(name, former.position(9)))
    former.trim(former.end)
    with pytest.raises(LogFencedError):
        await former.flush()
    assert isinstance(heard.error, LogFencedError)
    await former.close()
    assert not await brokers().is_released(NAME)
    assert await everything(successor) == bodies(11)
    await successor.close()
    third = await brokers().open(NAME, "third", Heard())
    assert (await everything(third), third.cursors) == (bodies(11), {"s": kept})
    await third.close()


async def test_what_its_successor_deletes_is_lost_for_no_fenced_owner(brokers: Brokers) -> None:
    heard = Heard()
    former = await brokers().open(NAME, "old", heard)
    for body in bodies(9):
        await write(former, heard, body)
    successor = await brokers().open(NAME, "new", Heard())
    successor.trim(successor.end)
    await successor.flush()
    await successor.close()
    if isinstance(former, StoredLog):
        with pytest.raises(LogFencedError, match="taken over by new"):
            await former.read(0, 100)
    assert (heard.damage, list(former.lost)) == ([], [])
    with contextlib.suppress(StorageError):
        await former.close()


async def test_entries_in_a_row_are_stored_as_if_each_came_alone(brokers: Brokers) -> None:
    heard = Heard()
    log = await brokers().open(NAME, "a", heard)
    log.append(b"first", 1, "1")
    log.extend([b"a", batch_of(7), b"c"], [1, 7, 1], ["2", "3", "4"])
    log.append(b"last", 1, "5")
    await log.flush()
    wanted = [b"first", b"a", batch_of(7), b"c", b"last"]
    assert (heard.entries, heard.contexts) == (wanted, ["1", "2", "3", "4", "5"])
    await log.close()
    log = await brokers().open(NAME, "b", Heard())
    assert await everything(log) == wanted
    assert list((await log.read(0, 1000)).messages) == [1, 1, 7, 1, 1]
    await log.close()
    with pytest.raises(LogClosedError):
        log.extend([b"late", b"later"], [1, 1], [None, None])


async def test_a_closed_log_takes_no_more(brokers: Brokers) -> None:
    log = await brokers().open(NAME, "a", Heard())
    await log.close()
    with pytest.raises(LogClosedError):
        log.append(b"late", 1, None)


async def test_closing_commits_what_was_appended(brokers: Brokers) -> None:
    heard = Heard()
    log = await brokers().open(NAME, "a", heard)
    for body in bodies(9):
        log.append(body, 1, None)
    await log.close()
    assert heard.entries == bodies(9)


async def test_flush_waits_for_the_commit(brokers: Brokers) -> None:
    heard = Heard()
    log = await brokers().open(NAME, "a", heard)
    log.append(b"x", 1, None)
    await log.flush()
    assert heard.entries == [b"x"]
    await log.close()


async def test_cursors_are_there_for_the_next_owner(brokers: Brokers) -> None:
    heard = Heard()
    log = await brokers().open(NAME, "a", heard)
    await write(log, heard, *bodies(9))
    state = CursorState("s/1 ü", log.position(2), ((log.position(4), log.position(5)),), {"k": "v"})
    log.save_cursor(CursorState("gone", log.position(0)))
    log.save_cursor(state)
    log.drop_cursor("gone")
    await log.close()
    log = await brokers().open(NAME, "b", Heard())
    assert log.cursors == {"s/1 ü": state}
    await log.close()


async def test_flush_saves_cursors_though_the_owner_dies(brokers: Brokers) -> None:
    heard = Heard()
    former = await brokers().open(NAME, "a", heard)
    await write(former, heard, *bodies(3))
    states = [CursorState(each, former.position(1)) for each in ("s", "gone")]
    for state in states:
        former.save_cursor(state)
    await former.flush()
    former.drop_cursor("gone")
    await former.flush()
    log = await brokers().open(NAME, "b", Heard())
    assert log.cursors == {"s": states[0]}
    await former.close()
    await log.close()


async def test_what_is_deleted_while_it_is_read_is_not_lost(brokers: Brokers) -> None:
    for turns in range(6):
        heard = Heard()
        log = await brokers().open(f"{NAME}-{turns}", "a", heard)
        for body in bodies(11):
            await write(log, heard, body)
        reading = asyncio.ensure_future(log.read(0, 1000))
        for _ in range(turns):
            await asyncio.sleep(0)
        log.trim(log.end)
        first, entries, messages = await reading
        assert (first, len(messages)) == (0, len(entries))
        assert list(entries) == heard.entries[: len(entries)]
        assert not heard.damage
        await log.close()


async def test_trim_deletes_whole_closed_ledgers_only(brokers: Brokers) -> None:
    heard = Heard()
    log = await brokers().open(NAME, "a", heard)
    for body in bodies(11):
        await write(log, heard, body)
    kept = log.ledgers[1].entries + log.ledgers[0].entries
    log.trim(kept + 1)
    assert log.begin == kept
    assert log.position(kept - 1).entry_id == -1
    for index in (0, kept - 1):
        assert await log.read(index, 1000) == (index, (), ())
    assert not heard.damage
    log.trim(log.end)
    assert len(log.ledgers) == 1
    assert log.ledgers[0].is_open
    begin = log.begin
    expected = heard.entries[begin:]
    assert await everything(log) == expected
    await log.close()
    log = await brokers().open(NAME, "b", Heard())
    assert await everything(log) == expected
    await log.close()


async def test_delete_removes_entries_and_cursors_and_fences(brokers: Brokers) -> None:
    heard = Heard()
    store = brokers()
    log = await store.open(NAME, "a", heard)
    await write(log, heard, b"x")
    log.save_cursor(CursorState("s", log.position(0)))
    assert await store.exists(NAME)
    await store.delete(NAME)
    await store.delete(NAME)
    assert not await store.exists(NAME)
    log.append(b"y", 1, "lost")
    await heard.until(lambda: heard.error is not None)
    assert heard.lost_contexts == ["lost"]
    await log.close()
    log = await store.open(NAME, "a", Heard())
    assert (log.begin, log.end, dict(log.cursors)) == (0, 0, {})
    await log.close()


async def test_an_unused_log_leaves_no_empty_ledgers(brokers: Brokers) -> None:
    for owner in "abc":
        log = await brokers().open(NAME, owner, Heard())
        assert len(log.ledgers) == 1
        await log.close()


async def test_logs_do_not_see_each_other(brokers: Brokers) -> None:
    store, one, two = brokers(), Heard(), Heard()
    first = await store.open("t/n/persistent/x", "a", one)
    second = await store.open("t/n/persistent/xy", "a", two)
    await write(first, one, b"1")
    await write(second, two, b"2")
    assert await everything(first) == [b"1"]
    assert await everything(second) == [b"2"]
    await first.close()
    await second.close()


async def test_errors_are_storage_errors() -> None:
    assert issubclass(LogFencedError, StorageError)
    assert issubclass(LogClosedError, StorageError)

"""Files are damaged while no broker runs: what is whole is delivered, the rest is named exactly."""

import asyncio
import logging
import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from counterpoise.admin.topic_json import topic_stats_json
from counterpoise.storage.files import committed, state
from counterpoise.storage.files.disk import LedgerDisk
from counterpoise.storage.files.store import FileLedgerStore
from counterpoise.storage.files.verify import verify
from counterpoise.storage.port import Position
from counterpoise.wire.values import InitialPosition, SubscriptionType
from tests.broker.topic.conftest import World, entry, publish
from tests.storage.damage import KINDS, Pristine, damage
from tests.waiting import until

COUNT = 120
LEDGER_BYTES = 4_000
NAME = "t/n/persistent/x"


@asynccontextmanager
async def broker(root: Path) -> AsyncIterator[World]:
    store = FileLedgerStore(root, ledger_bytes=LEDGER_BYTES, cache_bytes=2_000)
    world = World(store)  # type: ignore[arg-type]
    world.cluster.created.append(world.name)
    try:
        yield world
    finally:
        await world.registry.close()
        await store.close()


async def fill(root: Path, *, crash: bool) -> tuple[Pristine, list[Position]]:
    """A topic with entries in several ledgers; what is on disk, and where each entry is."""
    rng = random.Random(7)
    entries = [entry(f"{n}." + "x" * rng.choice((1, 60, 400))) for n in range(COUNT)]
    store = FileLedgerStore(root, ledger_bytes=LEDGER_BYTES)
    world = World(store)  # type: ignore[arg-type]
    topic = await world.topic()
    await topic.create_subscription("s", InitialPosition.Earliest)
    producer = await world.producer()
    done = 0
    while done < COUNT:
        for each in entries[done : done + 8]:
            publish(producer, done, done, each)
            done += 1
        await world.wire.until(lambda: len(world.wire.receipted) == done)  # noqa: B023
    positions = [Position(*each[3:]) for each in world.wire.receipted]
    if crash:
        await topic.log.flush()
        await noted(root / NAME, positions[-1])
    else:
        await world.registry.close()
    await store.close()
    return await asyncio.to_thread(Pristine, root / NAME, entries), positions


async def noted(directory: Path, last: Position) -> None:
    (epoch,) = state.epochs(directory)

    def is_noted() -> bool:
        note = committed.noted(directory, epoch, LedgerDisk())
        return note == (last.ledger_id, last.entry_id + 1)

    await until(is_noted, f"{last} is noted")


def spoil(directory: Path, rng: random.Random) -> None:
    """One to four faults in ledgers, perhaps one in a copy of the state or in the fence.

    A log that was closed soon has one copy of what it holds, the final state: either that is
    damaged, or ledgers are.
    """
    final = sorted(directory.glob("state-*.final"))
    others = sorted({*directory.glob("state-*"), directory / "fence"}.difference(final))
    if final and rng.random() < 0.25:
        others = final
    else:
        for _ in range(rng.randint(1, 4)):
            ledgers = sorted(directory.glob("*.ledger"))
            if ledgers:
                damage(rng.choice(ledgers), rng.choice(KINDS), rng)
    if others is final or rng.random() < 0.5:
        damage(rng.choice(others), rng.choice(KINDS), rng)


def logged_errors(caplog: pytest.LogCaptureFixture) -> str:
    return "\n".join(r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR)


@pytest.mark.parametrize("crash", [True, False], ids=["killed", "closed"])
@pytest.mark.parametrize("seed", range(int(os.environ.get("DAMAGE_SEEDS", "12"))))
async def test_what_is_whole_is_delivered_and_the_rest_is_named(
    tmp_path: Path, seed: int, crash: bool, caplog: pytest.LogCaptureFixture
) -> None:
    pristine, positions = await fill(tmp_path, crash=crash)
    rng = random.Random(seed)
    kind = list(SubscriptionType)[seed % 4]
    await asyncio.to_thread(spoil, tmp_path / NAME, rng)
    whole = await asyncio.to_thread(pristine.whole)
    wanted = [e for e in pristine.entries if e in whole]
    gone = {p for e, p in zip(pristine.entries, positions, strict=True) if e not in whole}
    (report,) = await asyncio.to_thread(lambda: list(verify(tmp_path)))
    assert gone == {
        Position(ledger.ledger_id, n)
        for ledger in report.ledgers
        for each in ledger.lost
        for n in range(each.first, each.last + 1)
    }
    for life in range(2):
        async with broker(tmp_path) as world:
            consumer = await world.consumer(kind, permits=2 * COUNT)
            await world.wire.until(lambda: len(world.wire.deliveries) >= len(wanted))
            fresh = await world.publish(await world.producer(), f"later {life}")
            await world.wire.until(lambda: len(world.wire.deliveries) > len(wanted))
            assert fresh is None
            got = [delivery[3] for _, delivery in world.wire.deliveries]
            assert got[: len(wanted)] == wanted or kind is SubscriptionType.Key_Shared
            assert sorted(got[:-1]) == sorted(wanted)
            topic = await world.topic()
            named = {
                Position(each.ledger_id, n)
                for each in topic.log.lost
                for n in range(each.first, each.last + 1)
            }
            assert named == gone
            stats = await topic_stats_json(topic, "b")
            assert stats.get("lostEntries", 0) == len(gone)
            wanted.append(got[-1])
            if life == 1:
                # Once all that came is acknowledged, nothing is left to wait for.
                consumer.ack_individual(world.wire.ids(consumer))
                subscription = topic.subscriptions["s"]
                assert (subscription.backlog, subscription.acks.above) == (0, 0)
    logged = logged_errors(caplog)
    assert "Traceback" not in caplog.text
    assert sum(logged.count(f", {p.ledger_id}:{p.entry_id}") for p in gone) <= len(gone)
    assert bool(gone) == (" lost, " in logged)


async def test_a_subscription_that_comes_back_without_its_cursor_sees_everything(
    tmp_path: Path,
) -> None:
    pristine, _ = await fill(tmp_path, crash=False)

    def forget() -> None:
        for path in (tmp_path / NAME).glob("state-*"):
            damage(path, "zeros", random.Random(1))

    await asyncio.to_thread(forget)
    async with broker(tmp_path) as world:
        consumer = await world.consumer(permits=COUNT, initial_position=InitialPosition.Latest)
        await world.wire.until(lambda: len(world.wire.deliveries) == COUNT)
        assert [d[3] for _, d in world.wire.deliveries] == pristine.entries
        consumer.ack_individual(world.wire.ids(consumer))


async def test_a_seek_and_a_new_subscription_pass_over_what_is_lost(tmp_path: Path) -> None:
    pristine, positions = await fill(tmp_path, crash=False)
    first = min((tmp_path / NAME).glob("*.ledger"), key=lambda p: int(p.name.partition("-")[0]))
    content = bytearray(await asyncio.to_thread(first.read_bytes))
    content[content.index(pristine.entries[2])] ^= 1
    await asyncio.to_thread(first.write_bytes, content)
    wanted = [e for n, e in enumerate(pristine.entries) if n != 2]
    async with broker(tmp_path) as world:
        consumer = await world.consumer(permits=COUNT)
        await world.wire.until(lambda: len(world.wire.deliveries) == COUNT - 1)
        consumer.ack_individual(world.wire.ids(consumer))
        topic = await world.topic()
        await consumer.seek_to(positions[0])
        for name in ("s", "other"):
            world.wire.deliveries.clear()
            again = await world.consumer(permits=COUNT, subscription=name)
            await world.wire.until(lambda: len(world.wire.deliveries) == COUNT - 1)
            assert [d[3] for _, d in world.wire.deliveries] == wanted
            again.ack_individual(world.wire.ids(again))
            assert topic.subscriptions[name].acks.mark == COUNT - 1


async def test_what_was_lost_and_is_deleted_since_hides_nothing_that_follows_it(
    tmp_path: Path,
) -> None:
    """Its place in the log is that of the oldest entry now."""
    pristine, positions = await fill(tmp_path, crash=False)
    first = min((tmp_path / NAME).glob("*.ledger"), key=lambda p: int(p.name.partition("-")[0]))
    content = bytearray(await asyncio.to_thread(first.read_bytes))
    content[content.index(pristine.entries[2])] ^= 1
    await asyncio.to_thread(first.write_bytes, content)
    async with broker(tmp_path) as world:
        consumer = await world.consumer(permits=COUNT)
        await world.wire.until(lambda: len(world.wire.deliveries) == COUNT - 1)
        topic = await world.topic()
        assert (await topic_stats_json(topic, "b"))["lostEntries"] == 1
        last = positions[-1].ledger_id
        end = next(n for n, each in enumerate(positions) if each.ledger_id == last)
        consumer.ack_cumulative(*positions[end - 1])
        await topic.trim()
        assert topic.log.begin == end
        assert list(topic.log.lost) == []
        assert "lostEntries" not in await topic_stats_json(topic, "b")
        await consumer.seek_to(positions[0])
        for name in ("s", "other"):
            world.wire.deliveries.clear()
            await world.consumer(permits=COUNT, subscription=name)
            await world.wire.until(lambda: len(world.wire.deliveries) == COUNT - end)
            assert [d[3] for _, d in world.wire.deliveries] == pristine.entries[end:]


async def test_a_consumer_that_waits_for_permits_goes_on_behind_what_was_lost_and_deleted(
    tmp_path: Path,
) -> None:
    """Another subscription finds the loss, and what it passes over is deleted before it reads."""
    pristine, positions = await fill(tmp_path, crash=False)
    begin = next(n for n, each in enumerate(positions) if each.ledger_id > positions[0].ledger_id)
    async with broker(tmp_path) as world:
        waits = await world.consumer(SubscriptionType.Shared, permits=0)
        reads = await world.consumer(SubscriptionType.Shared, subscription="reads", permits=0)
        (first,) = (tmp_path / NAME).glob(f"{positions[0].ledger_id}-*.ledger")
        await asyncio.to_thread(first.unlink)
        reads.flow(COUNT)
        await world.wire.until(lambda: len(world.wire.deliveries) == COUNT - begin)
        topic = await world.topic()
        await topic.trim()
        assert topic.log.begin == begin
        waits.flow(COUNT)
        await world.wire.until(lambda: len(world.wire.payloads(waits)) == COUNT - begin)
        got = [d[3] for number, d in world.wire.deliveries if number == waits.consumer_id]
        assert got == pristine.entries[begin:]

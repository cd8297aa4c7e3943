"""Topics are loaded a few at a time (``maxConcurrentTopicLoadRequest``)."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.limits.publish import PublishLimits
from counterpoise.broker.limits.rates import TopicRates
from counterpoise.broker.topic import leaving
from counterpoise.broker.topic.log_name import log_name
from counterpoise.broker.topic.options import TopicOptions
from counterpoise.broker.topic.ports import ProducerRequest, ServiceUrls
from counterpoise.names.bundle import NamespaceBundles
from counterpoise.names.topic import TopicName
from counterpoise.storage.disk_faults import DiskFaults
from counterpoise.storage.files.store import FileLedgerStore
from counterpoise.storage.grouplog import Log
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.storage.port import LedgerIds, LogListener, Persistence, StorageError
from counterpoise.wire.errors import ServerError
from tests.broker.topic.conftest import Wire, World, entry, publish
from tests.descriptors import open_ledgers
from tests.quota.jumping import on_jumping_loop, pass_time
from tests.waiting import WITHIN_S, turns

NAMES = [TopicName.parse(f"persistent://t/n/{n}") for n in range(5)]


class Opening(MemoryLedgerStore):
    """Opens a log when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[str] = []
        self.answers: dict[str, asyncio.Future[None]] = {}
        self._changed = asyncio.Event()

    async def open(
        self,
        name: str,
        owner: str,
        listener: LogListener[Any],
        ids: LedgerIds | None = None,
        persistence: Persistence | None = None,
    ) -> Log[Any]:
        self.begun.append(name)
        self._changed.set()
        answer = self.answers[name] = asyncio.get_running_loop().create_future()
        await answer
        return await super().open(name, owner, listener, ids)

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(WITHIN_S):
            while not holds():
                self._changed.clear()
                await self._changed.wait()


@pytest.fixture
def opening() -> Opening:
    return Opening()


@pytest.fixture
def world(opening: Opening) -> World:
    return World(opening, options=replace(TopicOptions(), loads_max=2))


async def test_no_more_are_loaded_at_once_and_the_others_have_their_turn(
    world: World, opening: Opening
) -> None:
    loads = [asyncio.ensure_future(world.topic(name)) for name in NAMES]
    await opening.until(lambda: len(opening.begun) == 2)
    await turns()
    assert len(opening.begun) == 2
    opening.answers[opening.begun[1]].set_result(None)
    await opening.until(lambda: len(opening.begun) == 3)
    await turns()
    assert len(opening.begun) == 3
    assert sum(load.done() for load in loads) == 1
    while not all(load.done() for load in loads):
        for answer in list(opening.answers.values()):
            if not answer.done():
                answer.set_result(None)
        await turns()
    assert {load.result().name for load in loads} == set(NAMES)
    assert len(opening.begun) == len(NAMES), "each is opened once"


async def test_the_limit_may_change_for_loads_that_begin_later(opening: Opening) -> None:
    options = [replace(TopicOptions(), loads_max=1)]
    world = World(opening, options=options[0], live=lambda: options[0])
    loads = [asyncio.ensure_future(world.topic(name)) for name in NAMES[:2]]
    await opening.until(lambda: len(opening.begun) == 1)
    await turns()
    assert len(opening.begun) == 1
    options[0] = replace(options[0], loads_max=2)
    loads += [asyncio.ensure_future(world.topic(name)) for name in NAMES[2:]]
    await opening.until(lambda: len(opening.begun) == 3)
    await turns()
    assert len(opening.begun) == 3
    while not all(load.done() for load in loads):
        for answer in list(opening.answers.values()):
            if not answer.done():
                answer.set_result(None)
        await turns()
    assert {load.result().name for load in loads} == set(NAMES)


async def test_a_load_that_fails_makes_room(world: World, opening: Opening) -> None:
    loads = [asyncio.ensure_future(world.topic(name)) for name in NAMES[:3]]
    await opening.until(lambda: len(opening.begun) == 2)
    opening.answers[opening.begun[0]].set_exception(StorageError("the disk is gone"))
    await opening.until(lambda: len(opening.begun) == 3)
    with pytest.raises(BrokerError, match="the disk is gone"):
        await loads[0]
    for name in opening.begun[1:]:
        opening.answers[name].set_result(None)
    assert [(await load).name for load in loads[1:]] == NAMES[1:3]


async def test_a_client_that_gives_up_waiting_harms_no_other(
    world: World, opening: Opening
) -> None:
    """Its load goes on for the other clients that wait for the topic, in its turn."""
    first = asyncio.ensure_future(world.topic(NAMES[0]))
    await opening.until(lambda: len(opening.begun) == 1)
    impatient, patient = (asyncio.ensure_future(world.topic(NAMES[0])) for _ in range(2))
    await turns()
    impatient.cancel()
    await turns()
    opening.answers[opening.begun[0]].set_result(None)
    assert await patient is await first
    assert opening.begun == [opening.begun[0]]


@on_jumping_loop
async def test_a_topic_that_is_being_closed_is_not_given_to_anyone() -> None:
    """Its disk is slow: what a client would begin on it would end at once."""
    world = World(MemoryLedgerStore())
    topic, producer = await world.topic(), await world.producer()
    topic.log.disk = DiskFaults(delay_s=5)  # type: ignore[attr-defined]
    publish(producer, 0, 0, entry("x"))
    unloading = asyncio.create_task(world.registry.unload_topic(world.name))
    await pass_time(1)
    assert not unloading.done()
    with pytest.raises(BrokerError, match="is being unloaded") as refused:
        await world.topic()
    assert refused.value.code is ServerError.ServiceNotReady
    await unloading
    assert await world.topic() is not topic


@pytest.mark.parametrize("domain", ["persistent", "non-persistent"])
async def test_a_topic_whose_bundle_goes_while_it_is_opened_leaves_nothing_here(
    domain: str,
) -> None:
    """No limits, and a log that its next owner need not wait for."""
    name = TopicName.parse(f"{domain}://t/n/x")

    async def rates_of(topic: TopicName) -> TopicRates:
        world.cluster.refused.add(world.cluster.bundle_of(topic))
        return TopicRates()

    limits = PublishLimits("b", rates_of)
    world = World(MemoryLedgerStore(), limits=limits)
    with pytest.raises(BrokerError, match="not served by this instance") as refused:
        await world.topic(name)
    assert refused.value.code is ServerError.ServiceNotReady
    assert (list(limits.topics), dict(world.registry.loaded)) == ([], {})
    assert await world.store.is_released(log_name(name)) is name.is_persistent


async def test_a_load_that_fails_after_its_log_is_open_closes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(FileLedgerStore(tmp_path))
    await world.cluster.create(world.name)

    async def unreadable(topic: TopicName) -> bool:
        raise BrokerError(ServerError.MetadataError, f"the record of {topic} cannot be read")

    await world.topic()
    await world.registry.unload_topic(world.name)  # nothing is read of a topic that is new
    with monkeypatch.context() as broken:
        broken.setattr(world.cluster, "terminated", unreadable)
        for _ in range(3):
            with pytest.raises(BrokerError, match="cannot be read"):
                await world.topic()
    # The files are closed before this is stored: a thread does one after the other.
    await world.publish(await world.producer(), "m0")
    assert len(open_ledgers(tmp_path)) == 1
    await world.registry.close()


async def test_topics_that_stay_are_not_unloaded_with_their_bundle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All others are, although they close one after the other and the first one's client fails."""

    class Failing(Wire):
        def close_producer(self, producer_id: int, url: ServiceUrls | None) -> None:
            super().close_producer(producer_id, url)
            if len(self.closed_producers) == 1:
                raise OSError("the socket is gone")

    monkeypatch.setattr(leaving, "CLOSING_MAX", 1)
    stays = TopicName.parse("persistent://t/n/stays")
    world, wire = World(MemoryLedgerStore(), stays=lambda name: name == stays), Failing()
    for number, name in enumerate((*NAMES, stays)):
        (await world.topic(name)).add_producer(ProducerRequest(number), wire)
    whole = NamespaceBundles.of_count(stays.namespace_name, 1).bundle_of(stays)
    unloaded = await world.registry.unload_bundle(whole, None)
    assert (unloaded, [*world.registry.loaded]) == (len(NAMES), [stays])
    # The one that failed is disconnected once more in the end.
    assert [number for number, _ in wire.closed_producers] == [*range(len(NAMES)), 0]
    assert [await world.store.is_released(log_name(name)) for name in NAMES] == [True] * len(NAMES)

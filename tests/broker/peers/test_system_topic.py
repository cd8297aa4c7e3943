"""Brokers that read and write one topic as each other's clients."""

import asyncio
import json
from collections.abc import AsyncIterator

import pulsar
import pytest

from counterpoise.broker.broker import Broker
from counterpoise.broker.peers import system_topic
from counterpoise.broker.peers.connection import PeerError
from counterpoise.names.topic import TopicName
from tests.broker.conftest import BrokersOfTest
from tests.waiting import WITHIN_S

TOPIC = "persistent://public/default/state"


class Table:
    """What a reader of the topic knows, and when."""

    def __init__(self, broker: Broker, topic: str = TOPIC) -> None:
        self.values: dict[str, bytes | None] = {}
        self.heard: list[system_topic.SystemTopicMessage] = []
        self.readings = 0
        self.broker = broker
        self.caught_up = asyncio.Event()
        self._changed = asyncio.Condition()
        self.link = system_topic.SystemTopicLink(
            topic,
            system_topic.SystemTopicListener(self._begin, self._take, self.caught_up.set),
            producer_name=broker.id,
            timeout_s=10,
        )
        self.run = asyncio.create_task(self.link.run(broker.service_url))
        self.news = asyncio.Event()

    def _begin(self) -> None:
        self.readings += 1

    def _take(self, heard: system_topic.SystemTopicMessage) -> None:
        self.values[heard.key] = heard.value
        self.heard.append(heard)
        self.news.set()

    async def until(self, key: str, value: bytes | None) -> None:
        async with asyncio.timeout(WITHIN_S):
            while key not in self.values or self.values[key] != value:
                self.news.clear()
                await self.news.wait()


@pytest.fixture
async def tables(brokers: BrokersOfTest) -> AsyncIterator[list[Table]]:
    """A reader at each of three brokers, all caught up with the empty topic."""
    made = [Table(each) for each in await brokers.start_many(3)]
    async with asyncio.timeout(WITHIN_S):
        for each in made:
            await each.caught_up.wait()
    yield made
    for each in made:
        each.run.cancel()
    await asyncio.gather(*(each.run for each in made), return_exceptions=True)


async def test_what_one_broker_writes_all_read(tables: list[Table]) -> None:
    await tables[0].link.publish("a", b"1")
    await tables[1].link.publish("b", b"2")
    for each in tables:
        await each.until("a", b"1")
        await each.until("b", b"2")


async def test_a_tombstone_is_heard_as_one(tables: list[Table]) -> None:
    await tables[0].link.publish("a", b"1")
    await tables[2].link.publish("a", None)
    for each in tables:
        await each.until("a", None)
        assert [heard.value for heard in each.heard] == [b"1", None]


async def test_who_comes_later_catches_up_with_everything(
    brokers: BrokersOfTest, tables: list[Table]
) -> None:
    for number in range(1200):  # more than one run of permits
        await tables[number % 3].link.publish(f"k{number}", b"%d" % number)
    late = Table(await brokers.start())
    async with asyncio.timeout(WITHIN_S):
        await late.caught_up.wait()
    assert late.values == {f"k{number}": b"%d" % number for number in range(1200)}
    late.run.cancel()


async def test_the_link_ends_when_the_topic_moves_and_is_made_again_at_its_new_owner(
    brokers: BrokersOfTest, tables: list[Table]
) -> None:
    await tables[0].link.publish("a", b"1")
    namespaces = brokers.all[0].namespaces
    bundle = (await namespaces.bundles(TopicName.parse(TOPIC).namespace_name)).bundle_of(
        TopicName.parse(TOPIC)
    )
    await brokers.owner(bundle).namespaces.moves.unload(bundle)
    async with asyncio.timeout(WITHIN_S):
        whys = await asyncio.gather(*(each.run for each in tables))
    assert all("serves the topic no more" in why for why in whys)
    with pytest.raises(PeerError, match="not linked"):
        await tables[0].link.publish("a", b"2")
    again = Table(brokers.all[1])
    await again.until("a", b"1")
    await again.link.publish("a", b"2")
    await again.until("a", b"2")
    again.run.cancel()


async def test_a_link_ends_when_the_topics_broker_dies(
    brokers: BrokersOfTest, tables: list[Table]
) -> None:
    topic = TopicName.parse(TOPIC)
    bundles = await brokers.all[0].namespaces.bundles(topic.namespace_name)
    owner = brokers.owner(bundles.bundle_of(topic))
    await brokers.kill(owner)
    async with asyncio.timeout(WITHIN_S):
        for each in tables:
            if each.broker is not owner:
                assert "has closed the connection" in await each.run


async def test_a_broker_that_is_not_there_is_named(brokers: BrokersOfTest) -> None:
    broker = await brokers.start()
    link = system_topic.SystemTopicLink(
        TOPIC,
        system_topic.SystemTopicListener(lambda: None, lambda heard: None, lambda: None),
        producer_name=broker.id,
        timeout_s=5,
    )

    with pytest.raises(PeerError, match=r"127\.0\.0\.1:1 cannot be reached"):
        await link.run("pulsar://127.0.0.1:1")


@pytest.mark.client
async def test_an_official_client_reads_what_brokers_write(tables: list[Table]) -> None:
    await tables[0].link.publish("bundle", json.dumps({"state": "Owned"}).encode())

    def read() -> tuple[str, object]:
        client = pulsar.Client(tables[1].broker.service_url)
        try:
            reader = client.create_reader(TOPIC, pulsar.MessageId.earliest)
            message = reader.read_next(60_000)
            return message.partition_key(), json.loads(message.data())
        finally:
            client.close()

    assert await asyncio.to_thread(read) == ("bundle", {"state": "Owned"})

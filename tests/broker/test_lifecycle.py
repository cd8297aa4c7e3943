"""A broker starts whole or not at all, and leaves nothing behind."""

import asyncio
import socket
from collections.abc import Sequence
from dataclasses import replace
from unittest.mock import AsyncMock, Mock

import pytest

from counterpoise.app.wiring import make_broker
from counterpoise.broker.broker import Broker
from counterpoise.broker.bundles.lookup_result import LookupConnect
from counterpoise.broker.config import BrokerConfig
from counterpoise.broker.connection.outbox import MIB
from counterpoise.broker.server_sockets import ServerSocket
from counterpoise.decide.filters.options import FilterOptions
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.metadata import InvalidMetadataUrl, MemoryTree, MetadataStore, Unsubscribe
from counterpoise.metadata.cache import MetadataCache
from counterpoise.names.errors import InvalidName
from counterpoise.names.options import ConfigError
from counterpoise.names.topic import TopicName
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.storage.options import StorageOptions
from tests.broker.conftest import CONFIG, BrokersOfTest, NoAdminServer, client_of, in_thread, owned
from tests.waiting import until

TOPIC = TopicName.parse("persistent://public/default/x")


async def test_produce_and_consume_on_three_brokers(any_brokers: BrokersOfTest) -> None:
    started = await any_brokers.start_many(3)

    def work() -> list[bytes]:
        client = client_of(started[2])
        got = []
        for number in range(6):
            topic = f"persistent://public/default/t-{number}"
            consumer = client.subscribe(topic, "s")
            producer = client.create_producer(topic)
            for each in range(5):
                producer.send(b"%d" % each)
            for _ in range(5):
                message = consumer.receive(60_000)
                consumer.acknowledge(message)
                got.append(message.data())
        client.close()
        return got

    assert await in_thread(work) == [b"%d" % each for _ in range(6) for each in range(5)]
    assert sum(len(owned(broker)) for broker in started) == 4


async def test_a_taken_port_is_an_error_and_leaves_no_trace(brokers: BrokersOfTest) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        await brokers.start(web_service_port=taken.getsockname()[1])
    broker = await brokers.start()
    assert await broker.active_brokers() == [broker.id]


async def test_a_start_that_fails_half_way_is_undone(brokers: BrokersOfTest) -> None:
    class Broken:
        async def start(self, sockets: Sequence[ServerSocket]) -> None:
            for each in sockets:
                each.socket.close()
            raise RuntimeError("no web today")

        async def stop(self) -> None:
            """Nothing was started."""

    session = await brokers.session()
    broken = Broker(CONFIG, metadata=session, ledgers=MemoryLedgerStore(), web=lambda _: Broken())
    before = asyncio.all_tasks()
    with pytest.raises(RuntimeError, match="no web today"):
        await broken.start()
    assert not session.connected
    await until(lambda: asyncio.all_tasks() == before, "its tasks have ended")
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", int(broken.service_url.rpartition(":")[2]))


def listeners_of(store: MetadataStore) -> set[object]:
    """Those that are added to a store from now on and not removed again.

    Caches do nothing but forget, and go with their store.
    """
    present = set[object]()

    def watch(name: str) -> None:
        subscribe = getattr(store, name)

        def watched(listener: object) -> Unsubscribe:
            leave = subscribe(listener)
            if not isinstance(getattr(listener, "__self__", None), MetadataCache):
                present.add((name, listener))

            def unsubscribe() -> None:
                present.discard((name, listener))
                leave()

            return unsubscribe

        setattr(store, name, watched)

    watch("subscribe")
    watch("subscribe_session")
    return present


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_nothing_runs_after_the_end(
    brokers: BrokersOfTest, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = asyncio.all_tasks()
    session = await brokers.session()
    listening = listeners_of(session)
    monkeypatch.setattr(brokers, "session", AsyncMock(return_value=session))
    broker = await brokers.start()
    client = await in_thread(lambda: client_of(broker))
    await in_thread(lambda: client.create_producer(str(TOPIC)))
    await (brokers.stop(broker) if how == "stop" else brokers.kill(broker))
    await until(lambda: asyncio.all_tasks() == before, "its tasks have ended")
    assert listening == set()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", int(broker.service_url.rpartition(":")[2]))
    await in_thread(client.close)


async def test_stopping_twice_is_harmless(brokers: BrokersOfTest) -> None:
    broker = await brokers.start()
    await broker.stop()
    assert not broker.is_ready


async def test_without_balancing_the_broker_that_is_asked_takes_the_bundle(
    brokers: BrokersOfTest,
) -> None:
    _, second = await brokers.start_many(2, load_balancer_enabled=False)
    answer = await second.namespaces.lookup(TOPIC)
    assert isinstance(answer, LookupConnect)
    assert answer.broker_id == second.id


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"filters": FilterOptions(load_manager_class="Simple")}, "loadManagerClassName"),
        ({"placement": PlacementOptions(strategy="Nonsense")}, "LeastLongTermMessageRate"),
        ({"advertised_address": ""}, "expected host:port"),
        ({"advertised_address": "a/b"}, "expected host:port"),
        ({"metadata_store_url": "zk:"}, "not a metadata store URL"),
    ],
)
async def test_what_is_not_supported_is_said_at_once_and_leaves_nothing_open(
    changes: dict[str, object], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config: BrokerConfig = replace(CONFIG, **changes)  # type: ignore[arg-type]
    ledgers, session = MemoryLedgerStore(), MemoryTree().open()
    closed = AsyncMock()
    monkeypatch.setattr(ledgers, "close", closed)
    tree = None if "metadata_store_url" in changes else Mock(open=lambda: session)
    with pytest.raises((ConfigError, InvalidName, InvalidMetadataUrl), match=message):
        await (await make_broker(config, ledgers=ledgers, tree=tree, web=NoAdminServer)).start()
    closed.assert_awaited_once()
    assert tree is None or not session.connected


async def test_the_publish_buffer_follows_the_dynamic_configuration(brokers: BrokersOfTest) -> None:
    broker = await brokers.start()
    buffer = broker.listener.publish_buffer
    name = "maxMessagePublishBufferSizeInMB"
    assert buffer.limit == CONFIG.connection.publish_buffer_mb * MIB
    await broker.policies.set_dynamic_setting(name, "3")
    await until(lambda: buffer.limit == 3 * MIB, "taken up")
    late = await brokers.start()
    assert late.listener.publish_buffer.limit == 3 * MIB
    assert late.listener.throttled_memory.limit == 3 * MIB // 2
    await broker.policies.set_dynamic_setting(name, None)
    await until(lambda: buffer.limit == CONFIG.connection.publish_buffer_mb * MIB, "back")


ON_BOOKKEEPER = StorageOptions(url="metadata-store:memory:/ledgers")


async def test_on_bookkeeper_none_starts_beside_pulsars_own_brokers(brokers: BrokersOfTest) -> None:
    """They would open the same topics, by rules of their own; a broker of ours stands in no way."""
    await brokers.start(storage=ON_BOOKKEEPER)
    second = await brokers.start(storage=ON_BOOKKEEPER)
    assert len(await second.active_brokers()) == 2
    metadata = await brokers.session()
    await metadata.put("/loadbalance/brokers/java:8080", b"{}", ephemeral=True)
    before = await metadata.children("/loadbalance/brokers")
    with pytest.raises(ConfigError, match=r"registered in memory: \(java:8080\).*Stop them"):
        await brokers.start(storage=ON_BOOKKEEPER)
    assert await metadata.children("/loadbalance/brokers") == before
    await metadata.close()
    third = await brokers.start(storage=ON_BOOKKEEPER)
    assert len(await third.active_brokers()) == 3


async def test_topics_are_listed_where_ledgers_are(brokers: BrokersOfTest) -> None:
    with pytest.raises(ConfigError, match="use metadata-store:memory: with metadataStoreUrl"):
        await brokers.start(storage=StorageOptions(url="metadata-store:zk:elsewhere:2181"))

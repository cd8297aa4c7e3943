"""Clients that leave while they are being served: what they asked for is finished, or not begun."""

import asyncio
import threading

import pytest

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.bundles.lookup_result import LookupConnect
from counterpoise.broker.connection.permissions import ClientPermissions
from counterpoise.names.topic import TopicName
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.wire.errors import ServerError
from tests.broker.connection.one_broker import Everything, OneBroker
from tests.broker.connection.raw_client import RawClient
from tests.waiting import WITHIN_S, until
from tests.wire import frames
from tests.wire.frames import Type


class SlowOwner(Everything):
    """Takes a bundle in two steps; a request that is stopped between them leaves it half taken."""

    def __init__(self) -> None:
        super().__init__()
        self.half_way = threading.Event()
        self.go_on = asyncio.Event()
        self.taken: list[str] = []
        self.abandoned: list[str] = []

    async def lookup(self, topic: TopicName, *, authoritative: bool = False) -> LookupConnect:
        self.half_way.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.abandoned.append(topic.local_name)
            raise
        self.taken.append(topic.local_name)
        return await super().lookup(topic, authoritative=authoritative)


async def gone(broker: OneBroker) -> None:
    await until(lambda: not broker.listener.connections)


def test_a_lookup_is_finished_although_its_client_has_gone(topic: str) -> None:
    world = SlowOwner()
    name = TopicName.parse(topic).local_name
    with OneBroker(world=world) as broker:
        with RawClient(broker.service_url) as client:
            client.connect()
            client.command("lookup_topic", topic=topic, request_id=4)
            assert world.half_way.wait(WITHIN_S)
        broker.run(gone(broker))

        async def finish() -> None:
            world.go_on.set()
            await until(lambda: world.taken or world.abandoned)

        broker.run(finish())
    assert (world.taken, world.abandoned) == ([name], [])


@pytest.mark.parametrize("slow", ["the list of topics", "its permission"])
def test_a_watch_whose_client_went_while_it_began_watches_nothing(
    topic: str, monkeypatch: pytest.MonkeyPatch, slow: str
) -> None:
    world = Everything()
    half_way, go_on = threading.Event(), asyncio.Event()
    where, name = (
        (world, "topics_of") if slow == "the list of topics" else (ClientPermissions, "namespace")
    )
    quickly = getattr(where, name)

    async def slowly(*args: object) -> list[TopicName]:
        half_way.set()
        await go_on.wait()
        return await quickly(*args)  # type: ignore[no-any-return]

    monkeypatch.setattr(where, name, slowly)
    with OneBroker(world=world) as broker:
        with RawClient(broker.service_url) as client:
            client.connect()
            client.command(
                "watch_topic_list",
                namespace="public/default",
                topics_pattern=".*",
                watcher_id=1,
                request_id=4,
            )
            assert half_way.wait(WITHIN_S)
        broker.run(gone(broker))

        async def finish() -> list[str]:
            go_on.set()
            await until(lambda: "a client's request" not in broker.background.running)
            return broker.background.running

        assert (broker.run(finish()), world.watches) == ([], 0)


OPENING: dict[str, tuple[str, dict[str, object]]] = {
    "producer": ("producer", {}),
    "consumer": ("subscribe", {"subscription": "s", "sub_type": 1}),
}
"""Of a producer and of a consumer: the command that opens one, and what it needs."""


@pytest.mark.parametrize("leaves", [False, True])
@pytest.mark.parametrize("kind", list(OPENING))
def test_what_is_opened_for_a_client_that_wants_it_no_longer_is_not_attached(
    topic: str, monkeypatch: pytest.MonkeyPatch, kind: str, leaves: bool
) -> None:
    """Whether the client closes it or goes: a producer left behind would keep its name busy."""
    world = Everything()
    came, go_on = threading.Event(), asyncio.Event()

    async def approach(*_: object) -> None:
        came.set()
        await go_on.wait()

    monkeypatch.setattr(world, "approach", approach)
    opens, more = OPENING[kind]
    with OneBroker(world=world) as broker, RawClient(broker.service_url) as client:
        client.connect()
        client.command(opens, topic=topic, **{f"{kind}_id": 1}, request_id=1, **more)
        assert came.wait(WITHIN_S)
        if leaves:
            client.close()
            broker.run(gone(broker))
        else:
            client.command(f"close_{kind}", **{f"{kind}_id": 1}, request_id=2)
            assert client.receive(Type.SUCCESS).success.request_id == 2

        async def finish() -> int:
            go_on.set()
            await until(lambda: "a client's request" not in broker.background.running)
            return broker.topics.loaded[TopicName.parse(topic)].attached_clients()

        assert broker.run(finish()) == 0
        if not leaves:
            client.command("ping")
            client.receive(Type.PONG)  # and nothing more about what was closed


@pytest.mark.parametrize("kind", list(OPENING))
def test_a_client_that_closes_what_is_being_opened_and_opens_it_again_is_answered(
    topic: str, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Also where the first request fails afterwards: that is no business of the second."""
    world = Everything()
    steps: dict[str, asyncio.Event] = {}
    came = {"first": threading.Event(), "second": threading.Event()}

    async def approach(name: TopicName, _: object) -> None:
        which = name.local_name.rpartition("-")[2]
        came[which].set()
        await steps.setdefault(which, asyncio.Event()).wait()
        if which == "first":
            raise BrokerError(ServerError.ServiceNotReady, "the first one fails")

    async def let(which: str) -> None:
        steps[which].set()

    monkeypatch.setattr(world, "approach", approach)
    opens, more = OPENING[kind]
    with OneBroker(world=world) as broker, RawClient(broker.service_url) as client:
        client.connect()

        def open_on(which: str, request_id: int) -> None:
            name = {"topic": f"{topic}-{which}", f"{kind}_id": 1, "request_id": request_id}
            client.command(opens, **name, **more)
            assert came[which].wait(WITHIN_S)

        open_on("first", 1)
        client.command(f"close_{kind}", **{f"{kind}_id": 1}, request_id=2)
        assert client.receive(Type.SUCCESS).success.request_id == 2
        open_on("second", 3)
        broker.run(let("first"))
        assert client.receive(Type.ERROR).error.request_id == 1
        broker.run(let("second"))
        if kind == "producer":
            assert client.receive(Type.PRODUCER_SUCCESS).producer_success.request_id == 3
            client.send(frames.send(1, 0))
            client.receive(Type.SEND_RECEIPT)
        else:
            assert client.receive(Type.SUCCESS).success.request_id == 3


class SlowDeletion(MemoryLedgerStore):
    """Deletes a log when a test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = asyncio.Event()

    async def delete(self, name: str) -> None:
        await self.go_on.wait()
        await super().delete(name)


@pytest.mark.parametrize("disconnects", [False, True])
@pytest.mark.parametrize("kind", ["consumer", "producer"])
def test_a_deleted_topic_is_not_created_again_for_a_client_that_has_gone(
    kind: str, disconnects: bool, topic: str
) -> None:
    store, name = SlowDeletion(), TopicName.parse(topic)
    field, more = {
        "consumer": ("subscribe", {"subscription": "s", "sub_type": 0}),
        "producer": ("producer", {}),
    }[kind]
    with OneBroker(store) as broker:
        broker.run(broker.topics.get(name))
        deleting = broker.begin(broker.topics.delete(name))

        async def finish() -> None:
            store.go_on.set()
            await until(lambda: deleting.done() and not broker.background.running)

        with RawClient(broker.service_url) as client:
            client.connect()
            client.command(field, topic=topic, request_id=4, **{f"{kind}_id": 0}, **more)
            client.ping()
            if not disconnects:
                client.command(f"close_{kind}", request_id=5, **{f"{kind}_id": 0})
                client.receive(Type.SUCCESS)
                broker.run(finish())
        if disconnects:
            broker.run(gone(broker))
            broker.run(finish())
        deleting.result()
        assert name not in broker.everything.topics
        assert not broker.topics.loaded

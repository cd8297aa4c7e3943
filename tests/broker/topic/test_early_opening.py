"""A log that is lost while its topic is still being opened."""

import contextlib
from typing import Any

import pytest

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic.topic import Topic
from counterpoise.broker.topic.topics import TopicRegistry
from counterpoise.names.topic import TopicName
from counterpoise.storage.memory import MemoryLedgerStore
from counterpoise.storage.port import LogFencedError
from counterpoise.wire.errors import ServerError
from tests.broker.topic.conftest import Everything
from tests.waiting import found

NAME = TopicName.parse("persistent://t/n/early")


class ListenedStore(MemoryLedgerStore):
    """Shows the listener of the log that was opened last."""

    listener: Any = None

    async def open(self, name: str, owner: str, listener: Any, *more: Any) -> Any:
        self.listener = listener
        return await super().open(name, owner, listener, *more)


async def test_a_log_that_is_fenced_before_its_topic_is_open_is_opened_again() -> None:
    store, world = ListenedStore(), Everything()
    registry = TopicRegistry(store, world, world, owner="a broker")
    await (await registry.get(NAME)).leave(None)
    registry = TopicRegistry(store, world, world, owner="another")
    really = world.terminated

    async def fenced(topic: TopicName) -> bool:
        store.listener.failed(LogFencedError("by another broker"), ())
        return await really(topic)

    world.terminated = fenced  # type: ignore[method-assign]
    with pytest.raises(BrokerError) as refused:
        await registry.get(NAME)
    assert refused.value.code is ServerError.ServiceNotReady
    world.terminated = really  # type: ignore[method-assign]

    async def served() -> Topic | None:
        with contextlib.suppress(BrokerError):
            return await registry.get(NAME)
        return None

    topic = await found(served, "what was fenced is closed")
    assert registry.loaded == {NAME: topic}
    topic.check_open()
    await registry.close()

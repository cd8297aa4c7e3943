"""A bundle's successor serves what its former owner has closed, while that closes the rest."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from counterpoise.broker.bundles import ownership
from counterpoise.broker.bundles.options import IN_STORE
from counterpoise.broker.topic.log_name import log_name
from counterpoise.names.bundle import BundleName
from counterpoise.names.load_managers import EXTENSIBLE, MODULAR
from counterpoise.ownership.lock.nodes import lock_of
from tests.broker.bundles.test_unload import own_first_bundle
from tests.broker.conftest import BrokersOfTest, topic_in
from tests.broker.misbehaving_store import MisbehavingStore
from tests.waiting import found, until


class SlowToWrite(MisbehavingStore):
    """Writes nothing about a bundle before it may."""

    slow_about: str | None = None
    may: asyncio.Event

    async def reach(self, operation: str, path: str) -> None:
        await super().reach(operation, path)
        about = self.slow_about
        if operation == "put" and about is not None and about in path:
            await self.may.wait()


class Brokers(BrokersOfTest):
    """Over one store of logs: which broker opened which log, and one that closes when it may."""

    def __init__(self, manager: str) -> None:
        super().__init__("memory:", manager, IN_STORE)
        self.opened: list[tuple[str, str]] = []
        self.slow_to_close = ""
        self.may_close = asyncio.Event()
        really = self.ledgers.open

        async def opening(name: str, owner: str, *how: Any) -> Any:
            log = await really(name, owner, *how)
            self.opened.append((name, owner))
            if name == self.slow_to_close:
                close = log.close

                async def closing() -> None:
                    await self.may_close.wait()
                    await close()

                log.close = closing  # type: ignore[method-assign]
            return log

        self.ledgers.open = opening  # type: ignore[method-assign]

    async def session(self) -> SlowToWrite:
        return SlowToWrite(self.tree)


@pytest.fixture(params=[MODULAR, EXTENSIBLE])
async def brokers(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Brokers]:
    # Nothing here happens because a broker or a client has waited for long enough.
    monkeypatch.setattr(ownership, "PATIENCE_S", 60)
    made = Brokers(request.param)
    yield made
    made.may_close.set()
    for broker in list(made.all):
        await made.stop(broker)


async def half_closed(brokers: Brokers) -> tuple[BundleName, asyncio.Task[Any]]:
    """A bundle of whose two topics the former owner cannot close one yet; and its unload."""
    await brokers.start_many(3)
    bundle, owner = await own_first_bundle(brokers)
    successor = brokers.all[1]
    await owner.topics.get(topic_in(bundle, "quick"))
    brokers.slow_to_close = log_name(topic_in(bundle, "slow"))
    await owner.topics.get(topic_in(bundle, "slow"))
    brokers.slow_to_close = ""
    unloading = asyncio.create_task(owner.namespaces.moves.unload(bundle, successor.id))
    await until(
        lambda: successor.parts.ownership.bundles.taking_over(bundle), "the successor owns it"
    )
    quick = log_name(topic_in(bundle, "quick"))
    await found(lambda: brokers.ledgers.is_released(quick), "the former owner has closed one")
    return bundle, unloading


async def test_a_successor_serves_what_is_closed_and_opens_nothing_else(brokers: Brokers) -> None:
    bundle, unloading = await half_closed(brokers)
    _, successor, _ = brokers.all
    slow, quick = topic_in(bundle, "slow"), topic_in(bundle, "quick")
    early = asyncio.create_task(successor.topics.get(slow))
    topic = await successor.topics.get(quick)
    assert successor.topics.loaded[quick] is topic
    assert not successor.parts.ownership.bundles.serves(bundle)
    assert successor.namespaces.owns(quick)
    assert not early.done()
    assert (log_name(slow), successor.id) not in brokers.opened
    brokers.may_close.set()
    assert await early is successor.topics.loaded[slow]
    await unloading
    await until(lambda: successor.parts.ownership.bundles.serves(bundle), "all is closed")
    assert brokers.owner(bundle) is successor
    assert successor.topics.loaded[quick] is topic, "it stays open"


async def test_who_comes_too_early_is_served_with_the_first_that_is_not(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Consumers are sent on before the log is closed, and producers after it."""
    bundle, unloading = await half_closed(brokers)
    _, successor, _ = brokers.all
    slow = topic_in(bundle, "slow")
    consumer = asyncio.create_task(successor.topics.get(slow))
    for _ in range(20):
        await asyncio.sleep(0)

    async def is_released(name: str) -> bool:
        return True

    monkeypatch.setattr(brokers.ledgers, "is_released", is_released)
    producer = asyncio.create_task(successor.topics.get(slow))
    assert await producer is await consumer
    assert not successor.parts.ownership.bundles.serves(bundle)
    brokers.may_close.set()
    await unloading


@pytest.mark.parametrize("brokers", [MODULAR], indirect=True)
async def test_what_a_successor_opened_in_vain_is_closed_again(brokers: Brokers) -> None:
    """Its lock goes, and another broker is faster."""
    bundle, unloading = await half_closed(brokers)
    _, successor, third = brokers.all
    quick = topic_in(bundle, "quick")
    await successor.topics.get(quick)
    store = successor.metadata
    assert isinstance(store, SlowToWrite)
    store.slow_about, store.may = str(bundle), asyncio.Event()
    await third.metadata.delete(lock_of(str(bundle)))
    assert await third.parts.ownership.bundles.acquire(bundle)
    store.may.set()
    await until(lambda: quick not in successor.topics.loaded, "the successor closes it")
    await third.topics.get(quick)
    assert brokers.opened[-1] == (log_name(quick), third.id)
    assert brokers.owner(bundle) is third
    brokers.may_close.set()
    await unloading

"""A bundle's heir opens its topics while it is still being written that they are its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from counterpoise.broker.broker import Broker
from counterpoise.broker.bundles import ownership
from counterpoise.broker.bundles.options import IN_STORE
from counterpoise.broker.errors import BrokerError
from counterpoise.names.bundle import BundleName
from counterpoise.names.load_managers import EXTENSIBLE, MODULAR
from tests.broker.bundles.test_unload import own_first_bundle
from tests.broker.conftest import BrokersOfTest, eventually, topic_in
from tests.broker.misbehaving_store import MisbehavingStore


class SlowToWrite(MisbehavingStore):
    """Writes whatever is about a bundle, except that one gets ready for it, when it may."""

    slow_about: str | None = None
    may: asyncio.Event

    async def _reach(self, operation: str, path: str) -> None:
        await super()._reach(operation, path)
        about = self.slow_about
        if operation == "put" and about is not None and about in path and "ready" not in path:
            await self.may.wait()


class Brokers(BrokersOfTest):
    """Over one store of logs that tells who opened one."""

    def __init__(self, manager: str) -> None:
        super().__init__("memory:", manager, IN_STORE)
        self.opened: list[str] = []
        really = self.ledgers.open

        async def opening(name: str, owner: str, listener: Any) -> Any:
            log = await really(name, owner, listener)
            self.opened.append(owner)
            return log

        self.ledgers.open = opening  # type: ignore[method-assign]

    async def session(self) -> SlowToWrite:
        return SlowToWrite(self.tree)


@pytest.fixture(params=[MODULAR, EXTENSIBLE])
async def brokers(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Brokers]:
    # Nothing here happens because somebody has waited for long enough.
    monkeypatch.setattr(ownership, "PATIENCE_S", 60)
    made = Brokers(request.param)
    yield made
    for broker in list(made.all):
        await made.stop(broker)


def slow(broker: Broker, bundle: BundleName) -> asyncio.Event:
    """What the broker writes about the bundle waits for this."""
    store = broker.metadata
    assert isinstance(store, SlowToWrite)
    store.slow_about, store.may = str(bundle), asyncio.Event()
    return store.may


async def let_go(
    brokers: Brokers,
) -> tuple[BundleName, asyncio.Event, asyncio.Task[Any], list[asyncio.Task[Any]]]:
    """A bundle whose owner has let go, and whose heir has not got as far as to have it.

    With what the heir's write waits for, a client that came to the heir, and the unload.
    """
    await brokers.start_many(3)
    bundle, owner = await own_first_bundle(brokers)
    heir = brokers.all[1]
    await owner.topics.get(topic_in(bundle))
    may = slow(heir, bundle)
    unloading = asyncio.create_task(owner.namespaces.unload(bundle, heir.id))
    await eventually(lambda: heir.ownership.settling(bundle), "the heir knows")
    client = asyncio.create_task(heir.topics.get(topic_in(bundle)))
    await eventually(lambda: heir.id in brokers.opened, "the heir opens the log")
    return bundle, may, client, [unloading]


async def test_an_heir_opens_logs_while_it_takes_the_bundle_and_tells_nobody_before(
    brokers: Brokers,
) -> None:
    bundle, may, client, others = await let_go(brokers)
    owner, heir, _ = brokers.all
    assert topic_in(bundle) not in owner.topics.loaded
    assert not heir.ownership.serves(bundle)
    for _ in range(20):
        await asyncio.sleep(0)
    assert not client.done()
    assert topic_in(bundle) not in heir.topics.loaded
    may.set()
    topic = await client
    assert heir.topics.loaded[topic_in(bundle)] is topic
    assert brokers.owner(bundle) is heir
    assert brokers.opened.count(heir.id) == 1
    await asyncio.gather(*others)


@pytest.mark.parametrize("brokers", [MODULAR], indirect=True)
async def test_what_an_heir_opened_in_vain_is_closed_again(brokers: Brokers) -> None:
    """Somebody else is faster: the client is sent away, and the log is that one's."""
    bundle, may, client, others = await let_go(brokers)
    _, heir, third = brokers.all
    assert await third.ownership.acquire(bundle)
    may.set()
    with pytest.raises(BrokerError, match="not served"):
        await client
    assert not heir.topics.loaded
    await third.topics.get(topic_in(bundle))
    assert brokers.opened[-1] == third.id
    assert brokers.owner(bundle) is third
    await asyncio.gather(*others)

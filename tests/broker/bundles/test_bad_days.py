"""Whatever fails while a bundle changes hands, it is usable again afterwards."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest

from counterpoise.broker import assembly
from counterpoise.broker.base import paths
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.broker import Broker
from counterpoise.names.bundle import BundleName
from counterpoise.names.topic import TopicName
from counterpoise.ownership.lock.nodes import hand_over_of
from counterpoise.ownership.records import HandOver
from counterpoise.storage.port import StorageError
from tests.broker.conftest import NAMESPACE, BrokersOfTest, holds, served, topic_in
from tests.broker.misbehaving_store import MisbehavingStore
from tests.waiting import WITHIN_S, pause, until


class BrokersOnBadDays(BrokersOfTest):
    """Each broker has a session that a test can spoil."""

    async def session(self) -> MisbehavingStore:
        return MisbehavingStore(self.tree)

    async def start_owner(self, *, topic: bool = False) -> tuple[Broker, Broker, BundleName]:
        """Two brokers, and a bundle that the first of them owns, with a topic open if asked."""
        one, two = await self.start_many(2)
        bundle, *_ = await bundles_of(one)
        await one.parts.ownership.bundles.acquire(bundle)
        if topic:
            await one.topics.get(topic_in(bundle))
        return one, two, bundle


@pytest.fixture
async def brokers() -> AsyncIterator[BrokersOnBadDays]:
    async with BrokersOnBadDays("memory:") as made:
        yield made


def store_of(broker: Broker) -> MisbehavingStore:
    assert isinstance(broker.metadata, MisbehavingStore)
    return broker.metadata


async def bundles_of(broker: Broker) -> tuple[BundleName, ...]:
    return (await broker.namespaces.bundles(NAMESPACE)).bundles


async def usable(brokers: BrokersOfTest, bundle: BundleName) -> Broker:
    """Follow lookups as a client does until one broker serves a topic of the bundle."""
    broker, authoritative, last = brokers.all[0], False, "nothing"
    try:
        async with asyncio.timeout(WITHIN_S):
            while True:
                try:
                    answer = await broker.namespaces.lookups.lookup_bundle(
                        bundle, authoritative=authoritative
                    )
                    last = str(answer)
                    broker = brokers.get(answer.broker_id)
                    authoritative = getattr(answer, "authoritative", False)
                    if not hasattr(answer, "authoritative"):
                        await served(broker, topic_in(bundle))
                        return broker
                except (BrokerError, StopIteration) as error:
                    last = str(error)
                    broker, authoritative = brokers.all[0], False
                    await pause()
    except TimeoutError:
        pytest.fail(f"{bundle} is unusable: {last}")


async def owners_in_turn(brokers: BrokersOfTest, bundle: BundleName) -> list[Broker]:
    """Move a bundle to every broker and back: who serves it after each move."""
    for broker in brokers.all:
        await holds(broker, paths.broker(broker.id))
    owners = []
    for broker in [*brokers.all, brokers.all[0]]:
        owner = await usable(brokers, bundle)
        await owner.namespaces.moves.unload(bundle, broker.id)
        owners.append(await usable(brokers, bundle))
    return owners


async def test_a_lookup_whose_client_goes_away_does_not_stop_what_it_began(
    brokers: BrokersOnBadDays,
) -> None:
    (broker,) = await brokers.start_many(1)
    bundle, *_ = await bundles_of(broker)
    await usable(brokers, bundle)
    store_of(broker).takes_turns = 3
    stopped = 0
    for turns in range(30):
        await broker.parts.ownership.bundles.release(bundle, None)
        asking = asyncio.create_task(broker.namespaces.lookups.lookup_bundle(bundle))
        for _ in range(turns):
            await asyncio.sleep(0)
        stopped += asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await usable(brokers, bundle)
    assert 5 < stopped < 30, "before it had what it asked for, and after"


async def test_an_unload_whose_client_goes_away_ends_all_the_same(
    brokers: BrokersOnBadDays,
) -> None:
    one, two = await brokers.start_many(2)
    for turns, bundle in enumerate(await bundles_of(one)):
        await one.parts.ownership.bundles.acquire(bundle)
        store_of(one).takes_turns = store_of(two).takes_turns = 3
        unloading = asyncio.create_task(one.namespaces.moves.unload(bundle, two.id))
        for _ in range(turns * 3):
            await asyncio.sleep(0)
        unloading.cancel()
        await asyncio.gather(unloading, return_exceptions=True)
        assert await owners_in_turn(brokers, bundle) == [one, two, one]


@pytest.mark.parametrize("fails", [False, True], ids=["hangs", "fails"])
async def test_a_successor_that_cannot_prepare_itself_gets_the_bundle_all_the_same(
    brokers: BrokersOnBadDays, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until its owner has waited long enough, topics stay open there."""
    one, two, bundle = await brokers.start_owner()
    topic = await one.topics.get(topic_in(bundle))
    begun, seen = asyncio.Event(), []

    async def prepare(names: Iterable[TopicName], **_: object) -> int:
        del names
        begun.set()
        if fails:
            raise OSError("the disk failed")
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(two.topics, "prepare", prepare)
    unloading = asyncio.create_task(one.namespaces.moves.unload(bundle, two.id))
    await begun.wait()
    seen += [
        topic.closing,
        bundle in one.parts.ownership.bundles.owned(),
        one.parts.ownership.bundles.serves(bundle),
    ]
    assert await unloading == two.id
    assert seen == [False, True, False]
    assert topic.closing
    await usable(brokers, bundle)


async def test_a_successor_that_is_ready_has_read_what_its_topics_need(
    brokers: BrokersOnBadDays,
) -> None:
    """Nothing is asked of the store between the end of the one topic and the next one's."""
    one, two, bundle = await brokers.start_owner(topic=True)
    assert await one.namespaces.moves.unload(bundle, two.id) == two.id
    before = len(store_of(two).asked)
    await two.topics.get(topic_in(bundle))
    # (A load report may be due whenever it likes.)
    asked = [path for _, path in store_of(two).asked[before:]]
    assert [path for path in asked if not path.startswith("/loadbalance/")] == []


async def test_an_unload_that_could_not_be_announced_names_no_successor(
    brokers: BrokersOnBadDays,
) -> None:
    one, two, bundle = await brokers.start_owner()
    store_of(one).fails = lambda operation, path: (
        operation == "put" and path.startswith("/counterpoise/hand-overs/")
    )
    assert await one.namespaces.moves.unload(bundle, two.id) is None
    store_of(one).fails = lambda _, __: False
    await usable(brokers, bundle)


@pytest.mark.parametrize("lose", [False, True], ids=["connection", "session"])
async def test_a_store_that_goes_away_just_after_unloads_are_ordered(
    brokers: BrokersOnBadDays, lose: bool
) -> None:
    one, two = await brokers.start_many(2)
    bundles = await bundles_of(one)
    for bundle in bundles:
        await one.parts.ownership.bundles.acquire(bundle)
        await one.topics.get(topic_in(bundle))
    unloads = [asyncio.create_task(one.namespaces.moves.unload(each, two.id)) for each in bundles]
    for _ in range(6):
        await asyncio.sleep(0)
    for broker in (one, two):
        store_of(broker).go_away()
        if lose:
            store_of(broker).lose_session()
    for _ in range(20):
        await asyncio.sleep(0)
    for broker in (one, two):
        store_of(broker).come_back()
    for bundle in bundles:
        await usable(brokers, bundle)
    await asyncio.gather(*unloads, return_exceptions=True)
    for bundle in bundles:
        assert await owners_in_turn(brokers, bundle) == [one, two, one]


@pytest.mark.parametrize("error", [StorageError("disk"), RuntimeError("bug"), OSError("io")])
async def test_a_drain_that_raises(brokers: BrokersOnBadDays, error: Exception) -> None:
    one, two, bundle = await brokers.start_owner()
    real, failures = one.topics.unload_bundle, iter(range(2))

    async def sometimes(*arguments: Any, **more: Any) -> int:
        for _ in failures:
            raise error
        return await real(*arguments, **more)

    one.topics.unload_bundle = sometimes  # type: ignore[method-assign]
    await asyncio.gather(one.namespaces.moves.unload(bundle, two.id), return_exceptions=True)
    assert await usable(brokers, bundle) is two
    assert await owners_in_turn(brokers, bundle) == [one, two, one]


@pytest.mark.parametrize("afterwards", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("operation", ["get", "put", "delete"])
@pytest.mark.parametrize("below", ["/namespace/", "/counterpoise/hand-overs/"])
async def test_each_store_operation_of_a_move_may_fail(
    brokers: BrokersOnBadDays, below: str, operation: str, afterwards: bool
) -> None:
    one, two, bundle = await brokers.start_owner()
    for broker in (one, two):
        failures = iter(range(2))

        def fails(what: str, path: str, failures: Any = failures) -> bool:
            return what == operation and path.startswith(below) and next(failures, None) is not None

        if afterwards:
            store_of(broker).fails_afterwards = fails
        else:
            store_of(broker).fails = fails
    await asyncio.gather(one.namespaces.moves.unload(bundle, two.id), return_exceptions=True)
    await usable(brokers, bundle)
    assert await owners_in_turn(brokers, bundle) == [one, two, one]


async def test_a_draining_bundle_whose_session_is_lost_is_closed_and_not_served(
    brokers: BrokersOnBadDays,
) -> None:
    one, two, bundle = await brokers.start_owner(topic=True)
    real, draining, go_on = one.topics.unload_bundle, asyncio.Event(), asyncio.Event()

    async def slowly(*arguments: Any, **more: Any) -> int:
        draining.set()
        await go_on.wait()
        return await real(*arguments, **more)

    one.topics.unload_bundle = slowly  # type: ignore[method-assign]
    unloading = asyncio.create_task(one.namespaces.moves.unload(bundle, one.id))
    await draining.wait()
    store_of(one).lose_session()
    await until(
        lambda: not two.parts.ownership.bundles.is_undecided(bundle), "the other has nothing to do"
    )
    assert (await usable(BrokersAlone(two), bundle)) is two
    store_of(one).come_back()
    go_on.set()
    await asyncio.gather(unloading, return_exceptions=True)
    await until(lambda: not one.topics.loaded, "its topics are closed")
    await until(lambda: not one.parts.ownership.bundles.is_undecided(bundle), "it knows better")
    assert brokers.owner(bundle) is two
    assert await owners_in_turn(brokers, bundle) == [one, two, one]


class BrokersAlone(BrokersOfTest):
    """Some of the brokers, for a client that reaches no other."""

    def __init__(self, *brokers: Broker) -> None:
        super().__init__("memory:")
        self.all = list(brokers)


async def test_a_lost_session_is_noticed_without_news_of_the_deleted_lock(
    brokers: BrokersOnBadDays,
) -> None:
    one, two, bundle = await brokers.start_owner(topic=True)
    store_of(one).lose_session()
    assert await usable(BrokersAlone(two), bundle) is two
    store_of(one).come_back()
    await until(lambda: not one.parts.ownership.bundles.serves(bundle), "the bundle is given up")
    await until(lambda: not one.topics.loaded, "its topics are closed")
    assert await owners_in_turn(brokers, bundle) == [one, two, one]


async def test_notifications_that_come_late_and_twice(
    brokers: BrokersOnBadDays, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They carry a move to its end, whose patience would last for longer than the test."""
    monkeypatch.setattr(assembly, "PATIENCE_S", 1000.0)
    one, two = await brokers.start_many(2)
    stores = [store_of(broker) for broker in (two, one)]
    bundle = (await bundles_of(one))[0]
    await one.parts.ownership.bundles.acquire(bundle)
    for store in stores:
        store.hold_notifications()
    one_way = asyncio.create_task(one.namespaces.moves.unload(bundle, two.id))
    async with asyncio.timeout(WITHIN_S):
        while not one_way.done():
            for _ in range(10):
                await asyncio.sleep(0)
            for store in stores:
                store.release_notifications(times=2)
                store.hold_notifications()
    await one_way
    assert (
        one.parts.ownership.bundles.serves(bundle),
        two.parts.ownership.bundles.serves(bundle),
    ) == (False, True)
    for store in stores:
        store.release_notifications(times=2)
    assert await owners_in_turn(brokers, bundle) == [one, two, one]


async def test_a_lock_that_was_created_without_an_answer_is_taken_up(
    brokers: BrokersOnBadDays,
) -> None:
    one, two = await brokers.start_many(2)
    bundle = (await bundles_of(one))[0]
    store_of(one).fails_afterwards = lambda what, path: (
        what == "put" and path.startswith("/namespace/")
    )
    asking = asyncio.create_task(one.namespaces.lookups.lookup_bundle(bundle, authoritative=True))
    for _ in range(5):
        await asyncio.sleep(0)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    store_of(one).fails_afterwards = lambda _, __: False
    assert await usable(BrokersAlone(two, one), bundle) is one


async def test_a_successor_that_is_gone_keeps_no_bundle_from_the_living(
    brokers: BrokersOnBadDays,
) -> None:
    one, two = await brokers.start_many(2)
    bundle = (await bundles_of(one))[0]
    # A broker released it and died before it could withdraw its announcement.
    former = await brokers.session()
    announced = HandOver("former:1", "gone:1").to_json()
    await former.put(hand_over_of(str(bundle)), announced, ephemeral=True)
    answer = await one.namespaces.lookups.lookup_bundle(bundle)
    assert answer.broker_id in {one.id, two.id}
    assert await usable(brokers, bundle) in {one, two}
    await former.close()


async def test_no_lookup_is_sent_to_a_leader_that_is_gone(brokers: BrokersOnBadDays) -> None:
    leader, other = await brokers.start_many(2)
    bundle = (await bundles_of(other))[0]
    # Its session has not run out yet, so that its node says that it leads; but it is not there.
    await leader.parts.balancing.reporter.stop()
    await leader.parts.load.registry.unregister()
    await until(lambda: other.leader() is not None, "a leader is known")
    known = other.leader()
    assert known.broker_id == leader.id
    async with asyncio.timeout(WITHIN_S):
        while leader.id in await other.active_brokers():  # noqa: ASYNC110 - heard in its own time
            await asyncio.sleep(0)
    answer = await other.namespaces.lookups.lookup_bundle(bundle)
    assert answer.broker_id == other.id
    assert other.parts.ownership.bundles.serves(bundle)

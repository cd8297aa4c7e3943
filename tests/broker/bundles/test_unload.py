"""A bundle changes hands: by order, by a broker's leaving, by its death."""

import asyncio
import threading
from collections import Counter
from itertools import pairwise

import pulsar
import pytest

from counterpoise.broker import assembly
from counterpoise.broker.base import paths
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.broker import Broker
from counterpoise.broker.bundle_topics import BundleTopics
from counterpoise.broker.bundles.lookup_result import LookupConnect, LookupRedirect, LookupResult
from counterpoise.metadata import BadVersion
from counterpoise.metadata.port import MUST_NOT_EXIST
from counterpoise.names.bundle import BundleName
from counterpoise.names.load_managers import MODULAR
from counterpoise.ownership.lock.nodes import lock_of
from counterpoise.ownership.records import NamespaceEphemeralData
from counterpoise.wire.errors import ServerError
from tests.broker.conftest import (
    NAMESPACE,
    BrokersOfTest,
    client_of,
    holds,
    in_thread,
    owned,
    served,
    topic_in,
    vanished,
)
from tests.waiting import WITHIN_S, until


class SlowClose:
    """Brokers that drain a bundle when they may."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()
        self.closed_for: list[str | None] = []
        really = BundleTopics.close

        async def close(topics: BundleTopics, bundle: BundleName, destination: str | None) -> None:
            self.closed_for.append(destination)
            self.begun.set()
            await self.may_end.wait()
            await really(topics, bundle, destination)

        monkeypatch.setattr(BundleTopics, "close", close)


@pytest.fixture
def slow_close(monkeypatch: pytest.MonkeyPatch) -> SlowClose:
    return SlowClose(monkeypatch)


async def own_first_bundle(brokers: BrokersOfTest) -> tuple[BundleName, Broker]:
    bundle = (await brokers.all[0].namespaces.bundles(NAMESPACE)).bundles[0]
    await brokers.all[0].parts.ownership.bundles.acquire(bundle)
    return bundle, brokers.all[0]


async def test_unload_to_a_destination(any_brokers: BrokersOfTest) -> None:
    await any_brokers.start_many(3)
    bundle, owner = await own_first_bundle(any_brokers)
    destination = any_brokers.all[2]
    assert await owner.namespaces.moves.unload(bundle, destination.id) == destination.id
    assert not owner.parts.ownership.bundles.serves(bundle)
    await served(destination, topic_in(bundle))
    assert any_brokers.owner(bundle) is destination
    answer = await owner.namespaces.lookups.lookup_bundle(bundle)
    assert answer == LookupConnect(
        destination.id, destination.service_url, web_url=destination.web_url
    )


async def test_unload_without_destination_goes_to_another_broker(brokers: BrokersOfTest) -> None:
    await brokers.start_many(3)
    bundle, owner = await own_first_bundle(brokers)
    successor = await owner.namespaces.moves.unload(bundle)
    assert successor is not None
    assert successor != owner.id
    await served(brokers.get(successor), topic_in(bundle))


async def test_unload_of_the_only_broker_closes_and_serves_again(brokers: BrokersOfTest) -> None:
    await brokers.start()
    bundle, owner = await own_first_bundle(brokers)
    before = await owner.metadata.get(lock_of(str(bundle)))
    assert await owner.namespaces.moves.unload(bundle) == owner.id
    assert owner.parts.ownership.bundles.serves(bundle)
    after = await owner.metadata.get(lock_of(str(bundle)))
    assert after.value == before.value, "the lock still says that it is draining"


async def test_what_cannot_be_unloaded(brokers: BrokersOfTest) -> None:
    one, two = await brokers.start_many(2)
    bundle, owner = await own_first_bundle(brokers)
    with pytest.raises(BrokerError, match="not owned by this broker"):
        await two.namespaces.moves.unload(bundle)
    with pytest.raises(BrokerError, match="not an active broker") as caught:
        await one.namespaces.moves.unload(bundle, "gone:1")
    assert caught.value.code is ServerError.NotAllowedError
    assert brokers.owner(bundle) is owner


async def test_while_a_bundle_drains_lookups_answer_its_destination(
    brokers: BrokersOfTest, slow_close: SlowClose
) -> None:
    await brokers.start_many(3)
    bundle, owner = await own_first_bundle(brokers)
    destination, third = brokers.all[1:]
    unloading = asyncio.create_task(owner.namespaces.moves.unload(bundle, destination.id))
    await slow_close.begun.wait()
    try:
        for broker in brokers.all:
            answer = await broker.namespaces.lookups.lookup_bundle(bundle)
            assert isinstance(answer, LookupConnect)
            assert answer.broker_id == destination.id
        for broker in (owner, third):
            with pytest.raises(BrokerError, match="not served"):
                await served(broker, topic_in(bundle))
        waiting = asyncio.create_task(served(destination, topic_in(bundle)))
        await until(
            lambda: destination.parts.ownership.bundles.is_undecided(bundle),
            "the destination waits",
        )
        assert not waiting.done()
    finally:
        slow_close.may_end.set()
    await asyncio.gather(unloading, waiting)
    assert brokers.owner(bundle) is destination


async def test_two_unloads_at_once_do_no_harm(brokers: BrokersOfTest) -> None:
    await brokers.start_many(3)
    bundle, owner = await own_first_bundle(brokers)
    destinations = [broker.id for broker in brokers.all[1:]]
    results = await asyncio.gather(
        *(owner.namespaces.moves.unload(bundle, each) for each in destinations),
        return_exceptions=True,
    )
    went_to = [each for each in results if isinstance(each, str)]
    assert went_to, results
    assert all(isinstance(each, str | BrokerError) for each in results)
    for broker in brokers.all:
        answer = await broker.namespaces.lookups.lookup_bundle(bundle)
        assert answer.broker_id == went_to[0]


async def test_a_destination_that_dies_meanwhile_is_no_dead_end(
    brokers: BrokersOfTest, slow_close: SlowClose, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies when the owner has drained for it and lookups are sent to it already."""
    with monkeypatch.context() as impatient:
        impatient.setattr(assembly, "PATIENCE_S", 0.05)
        owner = await brokers.start()
    destination, third = await brokers.start_many(2)
    bundle, _ = await own_first_bundle(brokers)
    unloading = asyncio.create_task(owner.namespaces.moves.unload(bundle, destination.id))
    await slow_close.begun.wait()
    assert (await third.namespaces.lookups.lookup_bundle(bundle)).broker_id == destination.id
    await brokers.kill(destination)
    async with asyncio.timeout(WITHIN_S):
        while destination.id in await third.active_brokers():  # noqa: ASYNC110 - heard in its time
            await asyncio.sleep(0)
    # The announcement names the dead one still: lookups go to the leader instead, at once.
    answer = await third.namespaces.lookups.lookup_bundle(bundle)
    assert answer == LookupRedirect(
        owner.id, owner.service_url, web_url=owner.web_url, authoritative=False
    )
    slow_close.may_end.set()
    await asyncio.gather(unloading, return_exceptions=True)
    assert slow_close.closed_for == [destination.id]
    await until(
        lambda: not owner.parts.ownership.bundles.serves(bundle), "the owner has released it"
    )
    for first in (owner, third):
        asked, authoritative = first, False
        answers: list[LookupResult] = []
        while not answers or not isinstance(answers[-1], LookupConnect):
            assert len(answers) < 4, f"sent in circles: {answers}"
            answer = await asked.namespaces.lookups.lookup_bundle(
                bundle, authoritative=authoritative
            )
            assert answer.broker_id != destination.id, "sent to the dead one"
            answers.append(answer)
            if isinstance(answer, LookupRedirect):
                asked, authoritative = brokers.get(answer.broker_id), answer.authoritative
        successor = brokers.get(answers[-1].broker_id)
        await served(successor, topic_in(bundle))
        assert brokers.owner(bundle) is successor


async def test_a_broker_that_leaves_hands_everything_over(any_brokers: BrokersOfTest) -> None:
    leaving, *others = await any_brokers.start_many(3)
    bundles = (await leaving.namespaces.bundles(NAMESPACE)).bundles
    for bundle in bundles:
        await leaving.parts.ownership.bundles.acquire(bundle)
    await any_brokers.stop(leaving)
    await until(
        lambda: sum(len(owned(broker)) for broker in others) == len(bundles),
        "the others own all bundles",
    )
    assert leaving.id not in await others[0].active_brokers()
    if any_brokers.filters.load_manager_class == MODULAR:  # the other knows no evenness
        assert [len(owned(broker)) for broker in others] == [2, 2]
    await until(lambda: any(broker.is_leader for broker in others), "there is a leader")


async def test_a_broker_that_dies_is_replaced(any_brokers: BrokersOfTest) -> None:
    dying, other = await any_brokers.start_many(2)
    bundle, _ = await own_first_bundle(any_brokers)
    await any_brokers.kill(dying)
    await until(lambda: other.is_leader, "the other broker leads")
    if any_brokers.filters.load_manager_class == MODULAR:
        await vanished(other, lock_of(str(bundle)))
    answer = await other.namespaces.lookups.lookup_bundle(bundle)
    assert answer.broker_id == other.id
    assert (dying.id, False) not in any_brokers.leadership, "a dead broker says nothing"


async def test_a_lock_of_a_former_life_is_replaced(brokers: BrokersOfTest) -> None:
    broker = await brokers.start()
    bundle = (await broker.namespaces.bundles(NAMESPACE)).bundles[0]
    former = await brokers.session()
    left_behind = NamespaceEphemeralData(broker.service_url, broker.web_url)
    await former.put(lock_of(str(bundle)), left_behind.to_json(), ephemeral=True)
    answer = await broker.namespaces.lookups.lookup_bundle(bundle)
    assert answer.broker_id == broker.id
    assert broker.parts.ownership.bundles.serves(bundle)
    await former.close()
    stored = await broker.metadata.get(lock_of(str(bundle)))
    assert stored.mine


async def test_ownership_that_no_broker_took_survives_a_lost_session(
    brokers: BrokersOfTest,
) -> None:
    await brokers.start()
    bundle, owner = await own_first_bundle(brokers)
    owner.metadata.expire()  # type: ignore[attr-defined] - a session in memory
    await until(lambda: owner.parts.ownership.bundles.serves(bundle), "it owns the bundle again")
    await holds(owner, lock_of(str(bundle)))
    await holds(owner, paths.broker(owner.id))
    await until(lambda: owner.is_leader, "it leads again")
    assert owner.parts.ownership.bundles.serves(bundle)


async def test_ownership_taken_meanwhile_is_given_up(brokers: BrokersOfTest) -> None:
    await brokers.start_many(2)
    bundle, owner = await own_first_bundle(brokers)
    other = brokers.all[1]

    def run() -> tuple[pulsar.Client, pulsar.Producer]:
        client = client_of(owner)
        return client, client.create_producer(str(topic_in(bundle)))

    client, _ = await in_thread(run)
    assert owner.topics.loaded
    # The other broker is faster than the owner's return.
    path, session = lock_of(str(bundle)), owner.metadata
    session.lose()  # type: ignore[attr-defined] - a session in memory
    await other.metadata.put(
        path,
        NamespaceEphemeralData(other.service_url, other.web_url).to_json(),
        expected_version=MUST_NOT_EXIST,
        ephemeral=True,
    )
    session.come_back()  # type: ignore[attr-defined]
    await until(lambda: not owner.parts.ownership.bundles.serves(bundle), "the bundle is given up")
    await until(lambda: not owner.topics.loaded, "its topics are closed")
    await in_thread(client.close)


async def test_the_official_client_follows_without_loss_or_disorder(
    any_brokers: BrokersOfTest,
) -> None:
    await any_brokers.start_many(3)
    bundle, _ = await own_first_bundle(any_brokers)
    topic, stop, sent, got = str(topic_in(bundle)), threading.Event(), [0], []
    total: list[int] = []  # known just before the last one is sent
    client = await in_thread(lambda: client_of(any_brokers.all[0]))
    results: list[pulsar.Result] = []

    def produce() -> None:
        producer = client.create_producer(topic, batching_enabled=False)
        last = False
        while not last:
            # The last one is sent after the stop, so that it wakes a consumer that has all others.
            last = stop.is_set() and sent[0] >= 200
            number, sent[0] = sent[0], sent[0] + 1
            if last:
                total.append(sent[0])
            producer.send_async(b"%d" % number, lambda result, _: results.append(result))
            stop.wait(0.001)
        producer.flush()

    def consume() -> None:
        consumer = client.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest)
        while [len(set(got))] != total:
            message = consumer.receive(20_000)
            got.append(int(message.data()))
            consumer.acknowledge(message)

    running = [asyncio.create_task(in_thread(work)) for work in (produce, consume)]
    for moves in range(1, 5):
        await until(lambda least=moves * 50: len(results) >= least, "messages flow")
        owner = any_brokers.owner(bundle)
        await owner.namespaces.moves.unload(bundle)
        await until(
            lambda: any(each.parts.ownership.bundles.serves(bundle) for each in any_brokers.all),
            "it moved",
        )
    stop.set()
    await asyncio.gather(*running)
    await in_thread(client.close)
    assert results == [pulsar.Result.Ok] * sent[0]
    first_seen = list(dict.fromkeys(got))
    assert first_seen == list(range(sent[0])), "lost or out of order"
    # What was delivered and not yet acknowledged comes again after a move, and only then.
    back = [number for former, number in pairwise(got) if number <= former]
    assert len(back) <= 4, f"delivered again {len(got) - sent[0]} times, from {back} on"
    assert max(Counter(got).values()) <= 1 + 4, "at most once for each move, besides the first"


async def test_a_lock_is_only_created_once(brokers: BrokersOfTest) -> None:
    await brokers.start()
    bundle, owner = await own_first_bundle(brokers)
    with pytest.raises(BadVersion):
        await owner.metadata.put(
            lock_of(str(bundle)), b"", expected_version=MUST_NOT_EXIST, ephemeral=True
        )

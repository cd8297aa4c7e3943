"""Lookups: who answers what, and who ends up owning a bundle."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.bundles.lookup_result import LookupConnect, LookupRedirect, LookupResult
from counterpoise.broker.bundles.placement import LoadPlacer
from counterpoise.names.bundle import BundleName
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.topic import TopicName
from counterpoise.wire.errors import ServerError
from tests.broker.conftest import NAMESPACE, BrokersOfTest, owned, served, topic_in
from tests.waiting import found

TOPIC = TopicName.parse("persistent://public/default/x")


async def follow(brokers: BrokersOfTest, start: str, topic: TopicName) -> list[LookupResult]:
    """Do what a client does with redirects; returns every answer."""
    answers: list[LookupResult] = []
    broker, authoritative = brokers.get(start), False
    while len(answers) < 5:
        answer = await broker.namespaces.lookup(topic, authoritative=authoritative)
        answers.append(answer)
        if isinstance(answer, LookupConnect):
            return answers
        broker, authoritative = brokers.get(answer.broker_id), answer.authoritative
    pytest.fail(f"redirected in circles: {answers}")


async def test_one_broker_takes_the_bundle_and_says_so(brokers: BrokersOfTest) -> None:
    broker = await brokers.start()
    answer = await broker.namespaces.lookup(TOPIC)
    assert answer == LookupConnect(broker.id, broker.service_url, web_url=broker.web_url)
    assert broker.namespaces.owns(TOPIC)
    assert TOPIC in broker.namespaces.bundle_of(TOPIC)


async def test_the_answer_is_the_same_from_every_broker(any_brokers: BrokersOfTest) -> None:
    started = await any_brokers.start_many(3)
    first = (await follow(any_brokers, started[2].id, TOPIC))[-1]
    for broker in started:
        assert (await follow(any_brokers, broker.id, TOPIC))[-1] == first
    assert any_brokers.owner(started[0].namespaces.bundle_of(TOPIC)).id == first.broker_id


async def test_an_unowned_bundle_is_decided_by_the_leader(brokers: BrokersOfTest) -> None:
    leader, follower = await brokers.start_many(2)
    assert leader.is_leader
    answer = await follower.namespaces.lookup(TOPIC)
    assert answer == LookupRedirect(
        leader.id, leader.service_url, web_url=leader.web_url, authoritative=False
    )
    leader.namespaces.lookups.set_affinity(
        (await leader.namespaces.bundles(NAMESPACE)).bundle_of(TOPIC), follower.id
    )
    answer = await leader.namespaces.lookup(TOPIC)
    assert answer == LookupRedirect(
        follower.id, follower.service_url, web_url=follower.web_url, authoritative=True
    )
    answer = await follower.namespaces.lookup(TOPIC, authoritative=True)
    assert isinstance(answer, LookupConnect)
    assert answer.broker_id == follower.id


async def test_an_affinity_holds_once_and_only_for_its_namespace(
    brokers: BrokersOfTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader, other = await brokers.start_many(2)

    async def leader_only(*_: object) -> str:
        return leader.id

    bundle = (await leader.namespaces.bundles(NAMESPACE)).bundles[0]
    twin = BundleName(NamespaceName("pulsar", "system"), bundle.range)
    leader.namespaces.lookups.set_affinity(bundle, other.id)
    await leader.namespaces.lookups.lookup_bundle(twin)
    assert (await leader.namespaces.lookups.lookup_bundle(bundle)).broker_id == other.id
    # Not taken by the other broker, it is looked up again, and placed as any bundle.
    monkeypatch.setattr(LoadPlacer, "choose", leader_only)
    assert (await leader.namespaces.lookups.lookup_bundle(bundle)).broker_id == leader.id


async def test_malformed_registrations_disturb_no_lookup(brokers: BrokersOfTest) -> None:
    broker = await brokers.start()
    for number, value in enumerate((b"garbage", b"[]", b'{"cpu": 3}', b"[" * 100_000)):
        await broker.metadata.put(f"/loadbalance/brokers/odd:{number}", value)
    assert (await broker.namespaces.lookup(TOPIC)).broker_id == broker.id


@pytest.mark.parametrize("value", [b"garbage", b"[]", b"{}"])
async def test_a_lock_that_names_no_broker_is_reported_with_its_node(
    brokers: BrokersOfTest, value: bytes
) -> None:
    broker = await brokers.start()
    lock = f"/namespace/{(await broker.namespaces.bundles(NAMESPACE)).bundle_of(TOPIC)}"
    await broker.metadata.put(lock, value)
    with pytest.raises(BrokerError, match=f"{lock} names no broker") as refused:
        await broker.namespaces.lookup(TOPIC)
    assert refused.value.code == ServerError.ServiceNotReady
    await broker.metadata.delete(lock)
    assert (await broker.namespaces.lookup(TOPIC)).broker_id == broker.id


@pytest.mark.parametrize(
    "bundles",
    ["5", '{"boundaries": 7}', '{"boundaries": ["0x00000000"]}', '{"boundaries": ["0x0", null]}'],
)
async def test_bundles_that_are_none_are_reported_with_their_node(
    brokers: BrokersOfTest, bundles: str
) -> None:
    broker = await brokers.start()
    node = f"/admin/local-policies/{NAMESPACE}"
    await broker.namespaces.bundles(NAMESPACE)  # the first request for them writes the node
    before = await broker.metadata.get(node)
    assert before is not None
    await broker.metadata.put(node, f'{{"bundles": {bundles}}}'.encode())

    async def refusal() -> BrokerError | None:
        try:
            await broker.namespaces.lookup(TOPIC)
        except BrokerError as error:
            return error
        return None

    refused = await found(refusal, "the broker has read the changed bundles")
    assert refused.code == ServerError.ServiceNotReady
    assert f"metadata node {node}" in str(refused)
    await broker.metadata.put(node, before.value)
    await found(lambda: none(refusal), "the broker has read the repaired bundles")


async def none(found: Callable[[], Awaitable[object]]) -> bool:
    return await found() is None


async def test_an_affinity_to_a_dead_broker_is_forgotten(brokers: BrokersOfTest) -> None:
    leader = await brokers.start()
    bundle = (await leader.namespaces.bundles(NAMESPACE)).bundles[0]
    leader.namespaces.lookups.set_affinity(bundle, "gone:8080")
    assert (await leader.namespaces.lookups.lookup_bundle(bundle)).broker_id == leader.id


async def test_many_lookups_at_once_find_one_owner(any_brokers: BrokersOfTest) -> None:
    started = await any_brokers.start_many(3)
    found = await asyncio.gather(
        *(follow(any_brokers, broker.id, TOPIC) for broker in started for _ in range(10))
    )
    assert len({answers[-1].broker_id for answers in found}) == 1


async def test_bundles_of_a_namespace_are_spread_evenly(brokers: BrokersOfTest) -> None:
    started = await brokers.start_many(2)
    bundles = (await started[0].namespaces.bundles(NAMESPACE)).bundles
    for bundle in bundles:
        await follow(brokers, started[0].id, topic_in(bundle))
    assert [len(owned(broker)) for broker in started] == [2, 2]


@pytest.mark.parametrize("name", ["absent/here/x", "public/nothing/x"])
async def test_no_such_namespace(brokers: BrokersOfTest, name: str) -> None:
    broker = await brokers.start()
    with pytest.raises(BrokerError, match="Namespace not found") as caught:
        await broker.namespaces.lookup(TopicName.parse(name))
    assert caught.value.code is ServerError.TopicNotFound


async def test_a_heartbeat_namespace_belongs_to_the_broker_it_names(brokers: BrokersOfTest) -> None:
    started = await brokers.start_many(3)
    for broker in started:
        topic = TopicName.parse(f"persistent://pulsar/{broker.id}/healthcheck")
        answers = await follow(brokers, started[0].id, topic)
        assert answers[-1].broker_id == broker.id


async def test_a_broker_refuses_topics_it_does_not_own(brokers: BrokersOfTest) -> None:
    started = await brokers.start_many(2)
    owner = (await follow(brokers, started[0].id, TOPIC))[-1].broker_id
    other = next(broker for broker in started if broker.id != owner)
    with pytest.raises(BrokerError, match="not served by this instance") as caught:
        await served(other, TOPIC)
    assert caught.value.code is ServerError.ServiceNotReady
    await served(brokers.get(owner), TOPIC)


async def test_a_closed_metadata_session_is_no_crash(brokers: BrokersOfTest) -> None:
    broker = await brokers.start()
    broker.metadata.kill()
    with pytest.raises(BrokerError, match="metadata store") as caught:
        await broker.namespaces.lookup(TOPIC)
    assert caught.value.code is ServerError.ServiceNotReady
    assert not broker.is_ready
    await brokers.kill(broker)

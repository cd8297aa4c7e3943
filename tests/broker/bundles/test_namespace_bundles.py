"""Namespaces cut into bundles: read, kept, split."""

import asyncio
import json
from types import SimpleNamespace

import pulsar
import pytest

from counterpoise.broker.base import paths
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.broker import Broker
from counterpoise.broker.bundles.namespace_bundles import NamespaceBundleCache
from counterpoise.broker.namespaces.policies import Policies
from counterpoise.metadata import BadVersion, MemoryTree, MetadataStore
from counterpoise.names.bundle import BundleName, NamespaceBundles
from counterpoise.names.errors import InvalidName
from counterpoise.names.namespace import NamespaceName
from counterpoise.ownership.lock.nodes import LOCKS, lock_of
from tests.broker.conftest import NAMESPACE, BrokersOfTest, client_of, in_thread, owned, topic_in
from tests.broker.misbehaving_store import MisbehavingStore
from tests.waiting import until

FOUR = ["0x00000000", "0x40000000", "0x80000000", "0xc0000000", "0xffffffff"]


async def json_at(broker: Broker, path: str) -> dict[str, object]:
    stored = await broker.metadata.get(path)
    read = json.loads(stored.value)
    assert isinstance(read, dict)
    return read


async def first_bundle(broker: Broker) -> BundleName:
    bundle = (await broker.parts.ownership.cache.get(NAMESPACE)).bundles[0]
    await broker.parts.ownership.bundles.acquire(bundle)
    return bundle


async def test_what_is_there_before_the_first_client(any_brokers: BrokersOfTest) -> None:
    broker = await any_brokers.start()
    assert await broker.policies.clusters() == ["standalone"]
    assert await broker.policies.tenants() == ["public", "pulsar"]
    assert await broker.policies.namespaces("pulsar") == [NamespaceName("pulsar", "system")]
    for tenant in ("public", "pulsar"):
        info = await broker.policies.tenant(tenant)
        assert info == {"adminRoles": [], "allowedClusters": ["standalone"]}
    policies = await json_at(broker, paths.policies(NAMESPACE))
    assert policies["bundles"] == {"boundaries": FOUR, "numBundles": 4}
    assert policies["replication_clusters"] == ["standalone"]
    cluster = await broker.policies.cluster("standalone").get()
    # As Pulsar 4.0.7's initialisation writes it.
    assert cluster == {
        "serviceUrl": broker.web_url,
        "brokerServiceUrl": broker.service_url,
        "brokerClientTlsTrustStoreType": "JKS",
        "brokerClientTlsKeyStoreType": "JKS",
        "brokerClientSslFactoryPlugin": "org.apache.pulsar.common.util.DefaultPulsarSslFactory",
    }


async def test_the_number_of_bundles_is_a_setting(brokers: BrokersOfTest) -> None:
    broker = await brokers.start(default_number_of_namespace_bundles=7)
    assert len((await broker.parts.ownership.cache.get(NAMESPACE)).bundles) == 7


async def test_bundles_are_copied_to_the_local_policies_once(brokers: BrokersOfTest) -> None:
    broker = await brokers.start()
    bundles = await broker.parts.ownership.cache.get(NAMESPACE)
    local = await json_at(broker, paths.local_policies(NAMESPACE))
    assert local == {"bundles": {"boundaries": FOUR, "numBundles": 4}, "migrated": False}
    stored = await broker.metadata.get(paths.local_policies(NAMESPACE))
    assert await broker.parts.ownership.cache.get(NAMESPACE) is bundles, "it is kept"
    assert stored == await broker.metadata.get(paths.local_policies(NAMESPACE))


class BehindTheBack:
    """A broker's bundles, and another broker that splits one while the first is reading."""

    def __init__(self) -> None:
        tree = MemoryTree()
        self.session, session = tree.open(), tree.open()
        self.policies = Policies(self.session)
        self.cache = NamespaceBundleCache(self.session, self.policies)
        self.other = NamespaceBundleCache(session, Policies(session))

    async def split(self) -> None:
        half = NamespaceBundles.of_count(NAMESPACE, 4).bundles[0].range.upper // 2
        parent = (await self.other.get(NAMESPACE)).bundles[0].range
        await self.other.update(NAMESPACE, lambda bundles: bundles.split(parent, [half]))

    async def parts(self) -> int:
        return len((await self.cache.get(NAMESPACE)).bundles)


async def test_what_another_broker_changes_meanwhile_is_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    brokers = BehindTheBack()
    shared = {"bundles": {"boundaries": FOUR, "numBundles": 4}}
    await brokers.policies.shared_policies(NAMESPACE).create(shared)
    await brokers.other.get(NAMESPACE)
    node_of = brokers.policies.local_policies

    # With the namespace's policies first, then on its own.
    read: list[object] = []

    def read_late(namespace: NamespaceName) -> object:
        async def get() -> object:
            found = await node_of(namespace).get()
            if read:
                await brokers.split()
                await asyncio.sleep(0)
            read.append(found)
            return found

        return SimpleNamespace(get=get)

    monkeypatch.setattr(brokers.policies, "local_policies", read_late)
    assert await brokers.parts() == 4
    monkeypatch.undo()
    assert await brokers.parts() == 5


async def test_what_another_broker_changed_during_a_lost_session_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    brokers = BehindTheBack()
    shared = {"bundles": {"boundaries": FOUR, "numBundles": 4}}
    await brokers.policies.shared_policies(NAMESPACE).create(shared)
    put, written = brokers.session.put, []

    async def put_later(path: str, value: bytes, **how: object) -> int:
        written.append(path)
        await asyncio.sleep(0)
        return await put(path, value, **how)

    monkeypatch.setattr(brokers.session, "put", put_later)
    for _ in range(2):
        # Of many that ask at once, one reads the policies and copies them.
        assert await asyncio.gather(*(brokers.parts() for _ in range(3))) == [4] * 3
        assert written == [paths.local_policies(NAMESPACE)]
        # What it wrote itself is notified as well.
        await asyncio.sleep(0)
    brokers.session.lose()
    await brokers.split()
    brokers.session.come_back()
    await asyncio.sleep(0)
    assert await brokers.parts() == 5


async def test_a_namespace_without_bundles_has_one(brokers: BrokersOfTest) -> None:
    broker = await brokers.start()
    namespace = NamespaceName("public", "whole")
    await broker.policies.shared_policies(namespace).create({})
    assert (await broker.parts.ownership.cache.get(namespace)).boundary_texts == [
        "0x00000000",
        "0xffffffff",
    ]


async def test_a_change_by_others_is_noticed(any_brokers: BrokersOfTest) -> None:
    one, two = await any_brokers.start_many(2)
    await one.parts.ownership.cache.get(NAMESPACE)
    await two.parts.ownership.cache.get(NAMESPACE)
    await two.parts.ownership.cache.update(
        NAMESPACE, lambda bundles: bundles.split(bundles.bundles[0].range)
    )
    await until(
        lambda: one.parts.ownership.cache.peek(NAMESPACE) is None, "the old bundles are forgotten"
    )
    assert len((await one.parts.ownership.cache.get(NAMESPACE)).bundles) == 5


async def test_a_split_keeps_what_else_the_local_policies_hold(brokers: BrokersOfTest) -> None:
    broker = await brokers.start()
    await broker.parts.ownership.cache.get(NAMESPACE)
    await broker.policies.local_policies(NAMESPACE).change(
        lambda local: {**local, "namespaceAntiAffinityGroup": "g"}
    )
    bundle = await first_bundle(broker)
    await broker.namespaces.moves.split(bundle)
    local = await json_at(broker, paths.local_policies(NAMESPACE))
    assert local["namespaceAntiAffinityGroup"] == "g"
    assert local["bundles"] == {"boundaries": [FOUR[0], "0x20000000", *FOUR[1:]], "numBundles": 5}
    assert (await json_at(broker, paths.policies(NAMESPACE)))["bundles"] == local["bundles"]


async def test_a_split_keeps_topics_open_and_clients_connected(brokers: BrokersOfTest) -> None:
    broker = await brokers.start()
    bundle = await first_bundle(broker)
    topic = topic_in(bundle)

    def connect() -> tuple[pulsar.Client, pulsar.Producer, pulsar.Consumer]:
        client = client_of(broker)
        return client, client.create_producer(str(topic)), client.subscribe(str(topic), "s")

    client, producer, consumer = await in_thread(connect)
    loaded = broker.topics.loaded[topic]
    children = await broker.namespaces.moves.split(bundle)
    assert [str(child.range) for child in children] == [
        "0x00000000_0x20000000",
        "0x20000000_0x40000000",
    ]
    assert owned(broker) == sorted(children)
    assert broker.topics.loaded[topic] is loaded
    assert broker.namespaces.bundle_of(topic) in children
    assert not await broker.metadata.exists(lock_of(str(bundle)))
    await in_thread(lambda: producer.send(b"after"))
    assert (await in_thread(lambda: consumer.receive(60_000))).data() == b"after"
    await in_thread(client.close)


async def test_parts_can_be_unloaded_right_away(brokers: BrokersOfTest) -> None:
    one, two = await brokers.start_many(2)
    bundle = await first_bundle(one)
    children = await one.namespaces.moves.split(bundle, unload=True)
    await until(lambda: owned(two) == sorted(children), "the parts have moved")
    assert owned(one) == []


@pytest.mark.parametrize(
    ("algorithm", "boundaries", "expected"),
    [
        (None, (), ["0x20000000"]),
        ("range_equally_divide", (), ["0x20000000"]),
        ("specified_positions_divide", (0x10000000, 0x30000000), ["0x10000000", "0x30000000"]),
        ("no_such_algorithm", (), ["0x20000000"]),
    ],
)
async def test_where_a_bundle_is_cut(
    brokers: BrokersOfTest, algorithm: str | None, boundaries: tuple[int, ...], expected: list[str]
) -> None:
    broker = await brokers.start()
    bundle = await first_bundle(broker)
    for number in range(2):
        await broker.policies.create_topic(topic_in(bundle, f"a{number}"))
    await broker.namespaces.moves.split(bundle, algorithm=algorithm, boundaries=boundaries)
    texts = (await broker.parts.ownership.cache.get(NAMESPACE)).boundary_texts
    assert texts == sorted([*FOUR, *expected])


async def test_no_cut_where_the_algorithm_sees_no_need(brokers: BrokersOfTest) -> None:
    broker = await brokers.start()
    bundle = await first_bundle(broker)
    assert await broker.namespaces.moves.split(bundle, algorithm="topic_count_equally_divide") == ()
    assert owned(broker) == [bundle]


async def test_only_the_owner_splits(brokers: BrokersOfTest) -> None:
    one, two = await brokers.start_many(2)
    bundle = await first_bundle(one)
    with pytest.raises(BrokerError, match="not owned by this broker"):
        await two.namespaces.moves.split(bundle)


async def test_of_two_splits_at_once_one_wins_and_owns_the_parts(brokers: BrokersOfTest) -> None:
    broker = await brokers.start()
    bundle = await first_bundle(broker)
    results = await asyncio.gather(
        broker.namespaces.moves.split(bundle),
        broker.namespaces.moves.split(bundle),
        return_exceptions=True,
    )
    assert sorted(type(each).__name__ for each in results) == ["BrokerError", "tuple"]
    assert len(owned(broker)) == 2
    assert len((await broker.parts.ownership.cache.get(NAMESPACE)).bundles) == 5


async def test_splits_of_one_namespace_by_two_brokers_both_succeed(
    any_brokers: BrokersOfTest,
) -> None:
    one, two = await any_brokers.start_many(2)
    bundles = (await one.parts.ownership.cache.get(NAMESPACE)).bundles
    await one.parts.ownership.bundles.acquire(bundles[0])
    await two.parts.ownership.bundles.acquire(bundles[1])
    await asyncio.gather(
        one.namespaces.moves.split(bundles[0]), two.namespaces.moves.split(bundles[1])
    )
    whole = await any_brokers.session()
    stored = await whole.get(paths.local_policies(NAMESPACE))
    await whole.close()
    assert json.loads(stored.value)["bundles"]["numBundles"] == 6


async def test_a_split_that_others_keep_beating_gives_the_parts_back(
    brokers: BrokersOfTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await brokers.start()
    bundle = await first_bundle(broker)

    async def beaten(*_: object) -> NamespaceBundles:
        raise BadVersion(paths.local_policies(NAMESPACE))

    monkeypatch.setattr(broker.parts.ownership.cache, "update", beaten)
    with pytest.raises(BadVersion):
        await broker.namespaces.moves.split(bundle)
    assert owned(broker) == [bundle]
    lock_names = await broker.metadata.children(f"{LOCKS}/{NAMESPACE}")
    assert lock_names == [str(bundle.range)]


async def test_an_impossible_cut_is_refused(brokers: BrokersOfTest) -> None:
    broker = await brokers.start()
    await broker.parts.ownership.cache.get(NAMESPACE)
    with pytest.raises(InvalidName, match="no such bundle now"):
        await broker.parts.ownership.cache.update(
            NAMESPACE, lambda bundles: bundles.split(BundleName.parse(f"{NAMESPACE}/0x1_0x2").range)
        )


class Racing:
    """A store in which another writer changes a path right before each of our writes."""

    def __init__(self, store: MetadataStore, path: str, times: int) -> None:
        self._store, self._path, self._times = store, path, times
        self._put = store.put

    async def put(self, path: str, value: bytes, **more: object) -> int:
        if path == self._path and self._times > 0:
            self._times -= 1
            stored = await self._store.get(path)
            await self._put(path, stored.value)
        return await self._put(path, value, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(("times", "succeeds"), [(3, True), (100, False)])
async def test_a_split_is_tried_again_while_others_are_faster(
    brokers: BrokersOfTest, monkeypatch: pytest.MonkeyPatch, times: int, succeeds: bool
) -> None:
    broker = await brokers.start()
    bundle = await first_bundle(broker)
    path = paths.local_policies(NAMESPACE)
    monkeypatch.setattr("counterpoise.broker.namespaces.policies.records.UPDATE_PAUSE_S", 0)
    monkeypatch.setattr(broker.metadata, "put", Racing(broker.metadata, path, times).put)
    if succeeds:
        assert len(await broker.namespaces.moves.split(bundle)) == 2
    else:
        with pytest.raises(BadVersion):
            await broker.namespaces.moves.split(bundle)


async def test_what_this_broker_changes_while_it_is_read_is_not_overwritten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MisbehavingStore(MemoryTree())
    policies = Policies(store)
    shared = {"bundles": {"boundaries": FOUR, "numBundles": 4}}
    await policies.shared_policies(NAMESPACE).create(shared)
    await policies.local_policies(NAMESPACE).create(shared)
    await asyncio.sleep(0)
    cache = NamespaceBundleCache(store, policies)
    node, was_read, may_answer = (
        policies.local_policies(NAMESPACE),
        asyncio.Event(),
        asyncio.Event(),
    )

    async def late() -> object:
        found = await node.get()
        was_read.set()
        await may_answer.wait()
        return found

    # They are read with the namespace's policies first, then on their own.
    reads = iter((node, SimpleNamespace(get=late)))
    monkeypatch.setattr(policies, "local_policies", lambda _: next(reads))
    reading = asyncio.ensure_future(cache.get(NAMESPACE))
    await was_read.wait()
    monkeypatch.undo()
    # Its own notification comes late.
    store.hold_notifications()
    await cache.update(NAMESPACE, lambda bundles: bundles.split(bundles.bundles[0].range))
    may_answer.set()
    await reading
    known = cache.peek(NAMESPACE)
    assert known is not None
    assert len(known.bundles) == 5

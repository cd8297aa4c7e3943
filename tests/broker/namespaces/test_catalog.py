"""Which topics exist, and which are created because a client asks."""

import asyncio

import pytest

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.namespaces.auto_creation import AutoTopicCreation, CreationLimits
from counterpoise.broker.namespaces.catalog import TopicCatalog, matching
from counterpoise.broker.namespaces.policies import Policies
from counterpoise.broker.namespaces.policies.applied import applied_policies
from counterpoise.broker.namespaces.policies.records import TooLarge
from counterpoise.metadata import BadVersion, MemoryTree, MetadataStore, NotEmpty, NotFound, Stored
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.position import Position
from counterpoise.names.topic import TopicName
from counterpoise.wire.errors import ServerError
from tests.broker.misbehaving_store import MisbehavingStore

NAMESPACE = NamespaceName("t", "n")


def topic(name: str, domain: str = "persistent") -> TopicName:
    return TopicName(domain, "t", "n", name)


@pytest.fixture
def store() -> MetadataStore:
    return MemoryTree().open()


@pytest.fixture
async def policies(store: MetadataStore) -> Policies:
    made = Policies(store)
    await made.tenant_node("t").create({"adminRoles": [], "allowedClusters": []})
    await made.shared_policies(NAMESPACE).create({})
    return made


def catalog(policies: Policies, **rule: object) -> TopicCatalog:
    return TopicCatalog(policies, lambda: AutoTopicCreation(**rule), CreationLimits, "here")  # type: ignore[arg-type]


async def test_topics_without_policies_of_their_own_are_not_read_one_by_one() -> None:
    tree = MemoryTree()
    policies, other = Policies(store := MisbehavingStore(tree)), Policies(tree.open())
    await other.shared_policies(NAMESPACE).create({})
    await asyncio.sleep(0)  # the turn of the loop in which the notification comes
    names = [topic(f"x{number}") for number in range(9)]
    for name in names:
        assert not (await policies.applied(name, "here")).get("maxProducerPerTopic")
    assert len([path for _, path in store.asked if "topic-policies" in path]) == 1
    await other.topic_policies(names[3]).create({"maxProducerPerTopic": 7})
    await asyncio.sleep(0)
    assert (await policies.applied(names[3], "here"))["maxProducerPerTopic"] == 7


async def test_an_unknown_topic_becomes_an_ordinary_one(policies: Policies) -> None:
    topics = catalog(policies)
    assert await topics.partitions(topic("x")) == 0
    assert not await topics.exists(topic("x")), "asking for partitions creates no topic"
    await topics.create(topic("x"))
    assert await topics.exists(topic("x"))
    await topics.delete(topic("x"))
    assert not await topics.exists(topic("x"))


async def test_or_a_partitioned_one(policies: Policies) -> None:
    topics = catalog(policies, kind="partitioned", partitions=3)
    assert await topics.partitions(topic("x")) == 3
    assert await topics.partitions(topic("x")) == 3
    assert await policies.partitioned_topic(topic("x")).get() == {
        "partitions": 3,
        "properties": {},
        "deleted": False,
    }
    await topics.create(topic("x-partition-2"))
    assert await topics.partitions(topic("x-partition-2")) == 0


async def test_one_that_another_broker_makes_at_once_has_that_ones_partitions(
    policies: Policies, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = policies.create_partitioned_topic

    async def second(name: TopicName, partitions: int) -> None:
        await create(name, 5)
        await create(name, partitions)

    monkeypatch.setattr(policies, "create_partitioned_topic", second)
    assert await catalog(policies, kind="partitioned", partitions=3).partitions(topic("x")) == 5


@pytest.mark.parametrize("allowed", [False, True])
async def test_a_topic_is_usable_if_it_exists_or_would_be_created(
    policies: Policies, allowed: bool
) -> None:
    await policies.create_topic(topic("plain"))
    await policies.create_partitioned_topic(topic("whole"), 2)
    await policies.create_topic(topic("whole-partition-3"))
    topics = catalog(policies, allowed=allowed)
    for name, is_usable in (
        ("plain", True),
        ("whole", True),
        ("whole-partition-1", True),
        ("whole-partition-2", False),
        ("whole-partition-3", True),
        ("none", allowed),
        ("none-partition-0", allowed),
    ):
        assert await topics.is_usable(topic(name)) is is_usable, name
        assert await topics.is_usable(topic(name, "non-persistent")), name
    assert not await topics.exists(topic("none")), "asking creates nothing"


async def test_an_existing_ordinary_topic_stays_one(policies: Policies) -> None:
    await policies.create_topic(topic("x"))
    assert await catalog(policies, kind="partitioned").partitions(topic("x")) == 0


async def test_where_creation_is_not_allowed(policies: Policies) -> None:
    topics = catalog(policies, allowed=False)
    for refused in (topics.partitions(topic("x")), topics.create(topic("x"))):
        with pytest.raises(BrokerError, match="does not exist") as caught:
            await refused
        assert caught.value.code is ServerError.TopicNotFound
    assert await topics.partitions(topic("x", "non-persistent")) == 0
    # One of Pulsar's own is made nevertheless, and without partitions.
    topics = catalog(policies, allowed=False, kind="partitioned")
    events = topic("__change_events")
    assert await topics.partitions(events) == 0
    await topics.create(events)
    assert await topics.exists(events)
    # But a log of pending acknowledgements is no client's.
    for name in ("x-s__transaction_pending_ack", "x-s__transaction_pending_ack-partition-0"):
        with pytest.raises(BrokerError, match="Can not create transaction system topic") as caught:
            await catalog(policies).create(topic(name))
        assert caught.value.code is ServerError.NotAllowedError


async def test_without_auto_creation_a_question_is_only_a_question(policies: Policies) -> None:
    with pytest.raises(BrokerError, match="does not exist"):
        await catalog(policies).partitions(topic("x"), auto_create=False)
    assert await policies.partitioned_topics(NAMESPACE, "persistent") == []


@pytest.mark.parametrize(
    ("override", "partitions"),
    [
        (
            {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 2},
            2,
        ),
        ({"allowAutoTopicCreation": True, "topicType": "non-partitioned"}, 0),
        ({"allowAutoTopicCreation": False}, None),
    ],
)
async def test_a_namespace_may_say_otherwise(
    policies: Policies, override: dict[str, object], partitions: int | None
) -> None:
    await policies.shared_policies(NAMESPACE).change(
        lambda each: {**each, "autoTopicCreationOverride": override}
    )
    asked = catalog(policies).partitions(topic("x"))
    if partitions is None:
        with pytest.raises(BrokerError):
            await asked
    else:
        assert await asked == partitions


async def test_a_partition_may_be_created_if_its_topic_has_it(policies: Policies) -> None:
    await policies.create_partitioned_topic(topic("x"), 2)
    topics = catalog(policies, allowed=False)
    await topics.create(topic("x-partition-1"))
    with pytest.raises(BrokerError):
        await topics.create(topic("x-partition-2"))
    for allowed, missing in ((False, "y"), (True, "y-partition-0"), (True, "y-partition-1")):
        with pytest.raises(BrokerError):
            await catalog(policies, allowed=allowed).create(topic(missing, "non-persistent"))


async def test_nothing_is_created_in_a_namespace_that_is_being_deleted(policies: Policies) -> None:
    await policies.create_partitioned_topic(topic("x"), 2)
    await policies.shared_policies(NAMESPACE).change(lambda each: {**each, "deleted": True})
    for missing in ("x-partition-1", "y"):
        with pytest.raises(BrokerError):
            await catalog(policies).create(topic(missing))


async def test_topics_of_a_namespace(policies: Policies) -> None:
    topics = catalog(policies)
    await policies.create_topic(topic("b/%2F ü+*"[2:]))
    await policies.create_topic(topic("a"))
    await policies.create_partitioned_topic(topic("p"), 2)
    await policies.create_topic(topic("p-partition-1"))
    await policies.create_partitioned_topic(topic("q", "non-persistent"), 1)
    assert [each.local_name for each in await topics.topics_of(NAMESPACE)] == [
        "%2F ü+*",
        "a",
        "p-partition-1",
    ]
    only = await topics.topics_of(NAMESPACE, "NON_PERSISTENT")
    assert only == (topic("q-partition-0", "non-persistent"),)
    assert len(await topics.topics_of(NAMESPACE, "ALL")) == 4


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("persistent://t/n/a.*", ["a", "ab"]),
        ("t/n/b", ["b"]),
        (None, ["a", "ab", "b", "p-partition-1"]),
        ("(", ["a", "ab", "b", "p-partition-1"]),
        ("t/n/", []),
        ("t/n/p", ["p-partition-1"]),
    ],
)
def test_patterns(pattern: str | None, found: list[str]) -> None:
    topics = [topic(name) for name in ("a", "ab", "b", "p-partition-1")]
    assert [each.local_name for each in matching(topics, pattern)] == found


async def test_no_such_namespace(policies: Policies) -> None:
    with pytest.raises(BrokerError, match="Namespace not found: t/other"):
        await catalog(policies).partitions(TopicName.parse("t/other/x"))


async def test_a_namespace_with_topics_cannot_be_forgotten(policies: Policies) -> None:
    await policies.create_topic(topic("x"))
    with pytest.raises(NotEmpty):
        await policies.delete_namespace(NAMESPACE)
    assert await policies.namespace(NAMESPACE) == {}
    await policies.delete_topic(topic("x"))
    await policies.delete_namespace(NAMESPACE)
    assert await policies.namespace(NAMESPACE) is None
    with pytest.raises(NotFound):
        await policies.delete_namespace(NAMESPACE)


async def test_of_a_deleted_tenant_nothing_is_left(
    policies: Policies, store: MetadataStore
) -> None:
    await policies.local_policies(NAMESPACE).create({})
    await policies.create_topic(topic("x"))
    await policies.create_partitioned_topic(topic("p"), 2)
    with pytest.raises(NotEmpty):
        await policies.delete_tenant("t")
    assert await policies.topic_exists(topic("x"))
    await policies.delete_topic(topic("x"))
    await policies.partitioned_topic(topic("p")).delete()
    await policies.delete_namespace(NAMESPACE)
    await policies.delete_tenant("t")
    left = [
        f"{root}/{name}"
        for root in ("/managed-ledgers", "/admin/partitioned-topics", "/admin/local-policies")
        for name in await store.children(root)
    ]
    assert left == []
    with pytest.raises(NotFound):
        await policies.delete_tenant("t")


async def test_of_a_tenant_that_comes_back_at_once_topics_stay(
    policies: Policies, store: MetadataStore
) -> None:
    await policies.delete_namespace(NAMESPACE)
    await store.put("/managed-ledgers/t/new/persistent/x", b"{}")
    await policies.delete_tenant("t")
    assert await store.exists("/managed-ledgers/t/new/persistent/x")


async def test_what_exists_is_not_created_again_nor_changed_when_absent(policies: Policies) -> None:
    with pytest.raises(BadVersion):
        await policies.shared_policies(NAMESPACE).create({})
    with pytest.raises(BadVersion):
        await policies.tenant_node("t").create({})
    with pytest.raises(NotFound):
        await policies.tenant_node("other").replace({})
    with pytest.raises(NotFound):
        await policies.partitioned_topic(topic("x")).replace({"partitions": 3})
    with pytest.raises(NotEmpty):
        await policies.tenant_node("t").delete()


async def test_isolation_policies_and_failure_domains(
    policies: Policies, store: MetadataStore
) -> None:
    await policies.cluster("c").create({})
    isolation = policies.isolation_policies("c")
    assert await isolation.get() is None
    await isolation.replace({"p": {"namespaces": ["t/.*"]}}, create=True)
    await isolation.replace({"p": {"namespaces": ["t/n"]}}, create=True)
    assert await isolation.get() == {"p": {"namespaces": ["t/n"]}}
    assert await policies.clusters() == ["c"]
    await store.put("/admin/clusters/c/failureDomain/d1", b'{"brokers":["b1:1","b2:1"]}')
    assert await policies.failure_domains("c") == {"b1:1": "d1", "b2:1": "d1"}


async def test_changes_that_meet_are_all_kept(
    policies: Policies, store: MetadataStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = store.get

    async def slowly(path: str) -> Stored | None:
        found = await read(path)
        await asyncio.sleep(0)
        return found

    monkeypatch.setattr(store, "get", slowly)
    await policies.cluster("c").create({})
    isolation = policies.isolation_policies("c")
    await asyncio.gather(
        *(
            isolation.change(lambda now, name=name: {**now, name: {}}, create=True)
            for name in "abcdefghij"
        )
    )
    assert set(await isolation.get() or {}) == set("abcdefghij")


async def test_a_value_that_no_node_should_hold_is_refused(policies: Policies) -> None:
    with pytest.raises(TooLarge, match="at most 262144"):
        await policies.cluster("c").create({"x": "x" * 300_000})


async def test_a_node_that_holds_no_json_stops_no_reader(
    policies: Policies, store: MetadataStore
) -> None:
    await store.put("/admin/clusters/c", b"{" * 100_000)
    assert await policies.cluster("c").get() == {}


async def test_a_topics_policies_go_with_it_and_not_with_a_partition(policies: Policies) -> None:
    topics, whole = catalog(policies), topic("p")
    await policies.create_partitioned_topic(whole, 2)
    for name in (topic("x"), topic("p-partition-1")):
        await topics.create(name)
    for name in (topic("x"), whole):
        await policies.topic_policies(name).create({"messageTTLInSeconds": 7})
    for name in (topic("x"), topic("p-partition-1")):
        await topics.delete(name)
    assert await policies.topic_policies(topic("x")).get() is None
    assert await policies.topic_policies(whole).get() == {"messageTTLInSeconds": 7}


@pytest.mark.parametrize(
    ("policy", "setting", "most"), [(None, 2, 2), (1, 2, 1), (0, 2, None), (None, 0, None)]
)
async def test_a_namespace_takes_topics_up_to_its_limit(
    policies: Policies, policy: int | None, setting: int, most: int | None
) -> None:
    """A policy of 0 means that there is no limit, whatever the setting says."""
    given = {} if policy is None else {"max_topics_per_namespace": policy}
    await policies.shared_policies(NAMESPACE).replace(given)
    limits = CreationLimits(topics=setting, partitions=3)
    rule = AutoTopicCreation(kind="partitioned", partitions=4)
    topics = TopicCatalog(policies, lambda: rule, lambda: limits, "here")
    with pytest.raises(BrokerError, match="should be less than or equal to 3") as caught:
        await topics.partitions(topic("many"))
    assert caught.value.code is ServerError.NotAllowedError
    for number in range(4 if most is None else most):
        await topics.create(topic(f"x{number}"))
    if most is not None:
        with pytest.raises(BrokerError, match=rf"\(maxTopicsPerNamespace: {most}\)") as caught:
            await topics.create(topic("one-more"))
        assert caught.value.code is ServerError.NotAllowedError


async def test_a_namespace_has_the_bundles_of_this_cluster(policies: Policies) -> None:
    await policies.shared_policies(NAMESPACE).replace({"bundles": {"numBundles": 4}, "x": 1})
    assert await policies.namespace(NAMESPACE) == {"bundles": {"numBundles": 4}, "x": 1}
    await policies.local_policies(NAMESPACE).create({"bundles": {"numBundles": 5}})
    assert await policies.namespace(NAMESPACE) == {"bundles": {"numBundles": 5}, "x": 1}


async def test_dynamic_settings_are_set_and_restored_one_by_one(policies: Policies) -> None:
    for name, value in (("a", "1"), ("b", "2"), ("a", "3")):
        await policies.set_dynamic_setting(name, value)
    assert await policies.dynamic_settings() == {"a": "3", "b": "2"}
    await policies.set_dynamic_setting("a", None)
    assert await policies.dynamic_settings() == {"b": "2"}


async def test_a_resource_group_is_deleted_with_the_reports_of_its_use(
    policies: Policies, store: MetadataStore
) -> None:
    await policies.resource_group_node("g").create({"publishRateInMsgs": 1})
    await store.put("/counterpoise/resource-usage/g", b"")
    await policies.delete_resource_group("g")
    assert await policies.resource_group("g") is None
    assert await store.children("/counterpoise/resource-usage") == []
    with pytest.raises(NotFound):
        await policies.delete_resource_group("g")


@pytest.mark.parametrize(
    ("own", "due"), [([], ["Shared"]), (None, ["Shared"]), (["Failover"],) * 2]
)
def test_a_topics_empty_list_is_no_policy(own: object, due: list[str]) -> None:
    shared = {"subscription_types_enabled": ["Shared"]}
    found = applied_policies({"subscriptionTypesEnabled": own}, shared, "standalone")
    assert found["subscriptionTypesEnabled"] == due


async def test_a_partitioned_topic_ends_with_its_last_partition(policies: Policies) -> None:
    topics, whole = catalog(policies), topic("x")
    await policies.create_partitioned_topic(whole, 2)
    await policies.topic_policies(whole).create({"maxProducerPerTopic": 7})
    for index in range(2):
        await topics.create(whole.partition(index))
    for index in range(2):
        await topics.delete(whole.partition(index))
        await topics.delete_if_unparted(whole.partition(index))
        is_left = index == 0
        assert (await policies.partitioned_topic(whole).get() is not None) is is_left
        assert (await policies.topic_policies(whole).get() is not None) is is_left
    await policies.create_topic(topic("plain"))
    await policies.topic_policies(topic("plain")).create({})
    await topics.delete_if_unparted(topic("plain"))
    assert await policies.topic_policies(topic("plain")).get() is not None


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        (None, 1),
        ({}, 1),
        ({"maxProducerPerTopic": None}, 1),
        ({"global": {"maxProducerPerTopic": 2}}, 2),
        ({"global": {"maxProducerPerTopic": 2}, "maxProducerPerTopic": 3}, 3),
        ({"global": {"maxProducerPerTopic": 2}, "maxProducerPerTopic": 0}, 0),
        ({"global": {"maxProducerPerTopic": 2}, "maxProducerPerTopic": None}, 2),
        ({"maxProducerPerTopic": 3}, 3),
    ],
)
def test_a_topics_local_policy_comes_before_its_global_one_and_that_before_its_namespaces(
    own: dict[str, object] | None, expected: int
) -> None:
    found = applied_policies(own, {"max_producers_per_topic": 1}, "here")
    assert found["maxProducerPerTopic"] == expected


def test_backlog_quotas_are_put_together_by_type() -> None:
    shared = {"backlog_quota_map": {"destination_storage": 1, "message_age": 1}}
    own = {
        "global": {"backLogQuotaMap": {"message_age": 2, "other": 2}},
        "backLogQuotaMap": {"other": 3},
    }
    found = applied_policies(own, shared, "here")["backLogQuotaMap"]
    assert found == {"destination_storage": 1, "message_age": 2, "other": 3}


def test_of_policies_by_cluster_those_of_this_cluster_apply() -> None:
    shared = {"publishMaxMessageRate": {"here": 1, "there": 2}}
    assert applied_policies(None, shared, "there")["publishRate"] == 2
    assert applied_policies(None, shared, "nowhere")["publishRate"] is None
    assert applied_policies({"publishRate": 3}, shared, "here")["publishRate"] == 3


async def test_topics_that_do_not_exist_are_not_remembered() -> None:
    """A client could ask for ever more of them."""
    store = MisbehavingStore(MemoryTree())
    policies = Policies(store)
    for _ in range(3):
        assert not await policies.topic_exists(topic("x"))
    assert len(store.asked) == 3
    await policies.create_topic(topic("x"))
    await asyncio.sleep(0)
    assert await policies.topic_exists(topic("x"))
    asked = len(store.asked)
    assert await policies.topic_exists(topic("x"))
    assert len(store.asked) == asked


@pytest.mark.parametrize(("most", "is_allowed"), [(0, True), (2, False), (3, True), (4, True)])
async def test_a_topic_that_is_created_on_use_has_no_more_partitions_than_allowed(
    policies: Policies, most: int, is_allowed: bool
) -> None:
    rule = AutoTopicCreation(kind="partitioned", partitions=3)
    limits = CreationLimits(partitions=most)
    topics = TopicCatalog(policies, lambda: rule, lambda: limits, "here")
    if is_allowed:
        assert await topics.partitions(topic("x")) == 3
    else:
        with pytest.raises(BrokerError, match="less than or equal to 2"):
            await topics.partitions(topic("x"))
        assert await policies.partitioned_topic(topic("x")).get() is None


@pytest.mark.parametrize("bundles", [None, {}, {"boundaries": ["0x0", "0xf"], "numBundles": 1}])
async def test_a_namespaces_bundles_are_the_local_ones_where_there_are_any(
    policies: Policies, bundles: dict[str, object] | None
) -> None:
    shared = {"bundles": {"boundaries": ["0x0", "0x8", "0xf"], "numBundles": 2}, "deleted": False}
    await policies.shared_policies(NAMESPACE).replace(shared)
    assert await policies.namespace(NAMESPACE) == shared
    await policies.local_policies(NAMESPACE).create({"bundles": bundles, "migrated": False})
    assert await policies.namespace(NAMESPACE) == {
        **shared,
        "bundles": bundles or shared["bundles"],
    }


@pytest.mark.parametrize(
    ("stored", "group"),
    [
        ({}, None),
        ({"namespaceAntiAffinityGroup": None}, None),
        *(
            ({"namespaceAntiAffinityGroup": text}, group)
            for text, group in (("", None), ("  ", None), ("g", "g"), (" g ", "g"))
        ),
    ],
)
async def test_a_blank_group_is_none(
    policies: Policies, stored: dict[str, object], group: str | None
) -> None:
    await policies.local_policies(NAMESPACE).create(stored)
    assert await policies.anti_affinity_group(NAMESPACE) == group


async def test_the_partitions_of_a_topic_count_when_it_is_made_and_not_once_more(
    policies: Policies,
) -> None:
    await policies.shared_policies(NAMESPACE).replace({"max_topics_per_namespace": 1})
    await policies.create_partitioned_topic(topic("x"), 2)
    topics = catalog(policies)
    for index in (1, 0):
        await topics.create(topic("x").partition(index))
    assert len(await policies.topics(NAMESPACE)) == 2
    with pytest.raises(BrokerError, match="maxTopicsPerNamespace: 1"):
        await topics.create(topic("y"))


async def test_a_topic_that_is_created_again_is_not_what_another_broker_deleted() -> None:
    """The notification of its end may come later."""
    tree = MemoryTree()
    store, other = MisbehavingStore(tree), Policies(tree.open())
    policies = Policies(store)
    await policies.create_topic(topic("x"))
    await policies.terminate_topic(topic("x"), Position(0, 5))
    await asyncio.sleep(0)
    record = await policies.topic_record(topic("x"))
    assert record is not None
    assert record.terminated == Position(0, 5)
    store.hold_notifications()
    await other.delete_topic(topic("x"))
    await policies.create_topic(topic("x"))
    record = await policies.topic_record(topic("x"))
    assert record is not None
    assert record.terminated is None

"""Questions about topics: lookup, partitions, lists and watches, schemas."""

import logging
import threading
import uuid
from typing import cast

import pytest

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.bundles.lookup_result import LookupConnect, LookupRedirect
from counterpoise.broker.connection import ConnectionConfig, topic_watches
from counterpoise.broker.connection.listings import Listings
from counterpoise.broker.connection.topics_hash import topics_hash
from counterpoise.broker.namespaces.catalog import TopicCatalog
from counterpoise.broker.topic.topics import TopicRegistry
from counterpoise.names.topic import TopicName
from counterpoise.wire.errors import ServerError
from tests.broker.connection.one_broker import Everything, OneBroker
from tests.broker.connection.raw_client import RawClient
from tests.waiting import WITHIN_S, until
from tests.wire.frames import Type


@pytest.fixture
def namespace() -> str:
    return f"public/ns-{uuid.uuid4().hex[:8]}"


@pytest.mark.parametrize("at_once", [False, True])
def test_lookup(
    broker: OneBroker, client: RawClient, topic: str, monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    if at_once:
        here = LookupConnect("localhost:0", broker.service_url)
        monkeypatch.setattr(broker.everything, "lookup_now", {TopicName.parse(topic): here}.get)
        monkeypatch.delattr(Everything, "lookup")
    client.command("lookup_topic", topic=topic, request_id=4)
    answer = client.receive(Type.LOOKUP_RESPONSE).lookup_topic_response
    assert answer.request_id == 4
    assert answer.response == answer.Connect
    assert answer.authoritative
    assert answer.broker_service_url == broker.service_url


@pytest.mark.parametrize("authoritative", [False, True])
@pytest.mark.parametrize("listener", [None, "outside"])
def test_a_lookup_sends_the_client_on_as_its_result_says(
    broker: OneBroker,
    client: RawClient,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
    authoritative: bool,
    listener: str | None,
) -> None:
    outside = {"brokerServiceUrl": "pulsar://out:1", "brokerServiceUrlTls": "pulsar+ssl://out:2"}
    result = LookupRedirect(
        "b",
        "pulsar://in:1",
        "pulsar+ssl://in:2",
        listeners={"outside": outside},
        authoritative=authoritative,
    )

    async def lookup(_topic: TopicName, *, authoritative: bool) -> LookupRedirect:
        return result

    monkeypatch.setattr(broker.everything, "lookup", lookup)
    # What it asked with is not what it is answered.
    asked = {"topic": topic, "request_id": 4, "authoritative": not authoritative}
    named = {} if listener is None else {"advertised_listener_name": listener}
    client.command("lookup_topic", **asked, **named)
    answer = client.receive(Type.LOOKUP_RESPONSE).lookup_topic_response
    where = "in" if listener is None else "out"
    assert (answer.response, answer.authoritative) == (answer.Redirect, authoritative)
    assert (answer.broker_service_url, answer.broker_service_url_tls) == (
        f"pulsar://{where}:1",
        f"pulsar+ssl://{where}:2",
    )


@pytest.mark.parametrize("auto_create", [False, True])
def test_partitions_are_created_only_where_the_client_has_them_created(
    broker: OneBroker,
    client: RawClient,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
    auto_create: bool,
) -> None:
    asked: list[bool] = []

    async def partitions(_topic: TopicName, *, auto_create: bool) -> int:
        asked.append(auto_create)
        return 0

    monkeypatch.setattr(broker.everything, "partitions", partitions)
    more = {"metadata_auto_creation_enabled": auto_create}
    client.command("partition_metadata", topic=topic, request_id=4, **more)
    client.receive(Type.PARTITIONED_METADATA_RESPONSE)
    assert asked == [auto_create]


def test_a_watch_that_is_closed_listens_no_longer(
    broker: OneBroker, client: RawClient, namespace: str
) -> None:
    before = broker.everything.watches
    for watcher_id in (1, 2, 2):
        client.command(
            "watch_topic_list",
            request_id=4,
            watcher_id=watcher_id,
            namespace=namespace,
            topics_pattern=".*",
        )
        client.receive(Type.WATCH_TOPIC_LIST_SUCCESS)
    assert broker.everything.watches == before + 2
    for left in (1, 0):
        client.command("watch_topic_list_close", request_id=5, watcher_id=1 + left)
        client.receive(Type.SUCCESS)
        assert broker.everything.watches == before + left


def test_lookup_of_no_topic(client: RawClient) -> None:
    client.command("lookup_topic", topic="a://b/c/d", request_id=4)
    answer = client.receive(Type.LOOKUP_RESPONSE).lookup_topic_response
    assert (answer.response, answer.error) == (answer.Failed, ServerError.InvalidTopicName)


def test_partitions(broker: OneBroker, client: RawClient, topic: str) -> None:
    broker.everything.partitioned[TopicName.parse(topic)] = 7
    for name, count in ((topic, 7), (f"{topic}-other", 0)):
        client.command("partition_metadata", topic=name, request_id=4)
        answer = client.receive(Type.PARTITIONED_METADATA_RESPONSE).partition_metadata_response
        assert (answer.response, answer.partitions) == (answer.Success, count)
    client.command("partition_metadata", topic="a://b", request_id=5)
    answer = client.receive(Type.PARTITIONED_METADATA_RESPONSE).partition_metadata_response
    assert (answer.response, answer.error) == (answer.Failed, ServerError.InvalidTopicName)


def list_topics(client: RawClient, namespace: str, **more: object) -> object:
    client.command("get_topics_of_namespace", namespace=namespace, request_id=4, **more)
    kind = Type.GET_TOPICS_OF_NAMESPACE_RESPONSE
    return client.receive(kind).get_topics_of_namespace_response


def test_topics_of_a_namespace_include_non_persistent_ones_in_use(
    client: RawClient, namespace: str
) -> None:
    stored, passing = (f"{domain}://{namespace}/t" for domain in ("persistent", "non-persistent"))
    client.produce(stored, producer_id=1)
    client.produce(passing, producer_id=2)
    # Of another namespace whose name begins alike.
    client.produce(f"non-persistent://{namespace}2/t", producer_id=3)
    for mode, names in (("PERSISTENT", [stored]), ("NON_PERSISTENT", [passing])):
        assert list(list_topics(client, namespace, mode=mode).topics) == names
    found = list_topics(client, namespace, mode="ALL")
    assert sorted(found.topics) == sorted([stored, passing])
    assert found.topics_hash == topics_hash([stored, passing])
    client.command("close_producer", producer_id=2, request_id=9)
    client.receive(Type.SUCCESS)
    assert list(list_topics(client, namespace, mode="ALL").topics) == [stored]


def test_topics_of_a_namespace_leave_system_topics_out(client: RawClient, namespace: str) -> None:
    mine = [f"persistent://{namespace}/{name}" for name in ("__mine", "__change_events_of_mine")]
    systems = [
        f"persistent://{namespace}/{name}"
        for name in ("__change_events", "__transaction_buffer_snapshot-partition-0")
    ]
    systems.append(f"persistent://{namespace}/t-s__transaction_pending_ack")
    for number, name in enumerate((*mine, *systems)):
        client.produce(name, producer_id=number)
    found = list_topics(client, namespace)
    assert list(found.topics) == sorted(mine)
    assert found.topics_hash == topics_hash(sorted(mine))


def test_topics_of_a_namespace(client: RawClient, namespace: str) -> None:
    names = [f"persistent://{namespace}/{name}" for name in ("a", "b1", "b2-partition-0")]
    for number, name in enumerate(names):
        client.produce(name, producer_id=number)
    found = list_topics(client, namespace)
    assert list(found.topics) == names
    assert not found.filtered
    assert found.topics_hash == topics_hash(names)
    some = list_topics(client, namespace, topics_pattern=f"persistent://{namespace}/b[12]")
    assert list(some.topics) == names[1:]
    assert some.filtered
    same = list_topics(client, namespace, topics_hash=found.topics_hash)
    assert (list(same.topics), same.changed) == ([], False)
    for length, is_filtered in ((50, True), (51, False)):
        long = list_topics(client, namespace, topics_pattern="x" * length)
        assert (list(long.topics), long.filtered) == ([] if is_filtered else names, is_filtered)


def test_a_watch_hears_of_new_and_deleted_topics(
    broker: OneBroker, client: RawClient, namespace: str
) -> None:
    a, b, c = (f"persistent://{namespace}/{name}" for name in ("wa", "wb", "other"))
    client.produce(a, producer_id=1)
    # As a client that reconnects does, with what it knows; the second replaces the first.
    for request_id, known, listed in ((3, "", [a]), (4, topics_hash([a]), [])):
        client.command(
            "watch_topic_list",
            request_id=request_id,
            watcher_id=2,
            namespace=namespace,
            topics_pattern=f"{namespace}/w.*",
            topics_hash=known,
        )
        started = client.receive(Type.WATCH_TOPIC_LIST_SUCCESS).watch_topic_list_success
        assert (started.request_id, started.watcher_id) == (request_id, 2)
        assert (list(started.topic), started.topics_hash) == (listed, topics_hash([a]))
    world = broker.everything
    broker.run(world.create(TopicName.parse(c)))
    broker.run(world.create(TopicName.parse(b)))
    update = client.receive(Type.WATCH_TOPIC_UPDATE).watch_topic_update
    assert (list(update.new_topics), list(update.deleted_topics)) == ([b], [])
    assert update.topics_hash == topics_hash([a, b])
    broker.run(world.delete(TopicName.parse(a)))
    update = client.receive(Type.WATCH_TOPIC_UPDATE).watch_topic_update
    assert (list(update.new_topics), list(update.deleted_topics)) == ([], [a])
    client.command("watch_topic_list_close", request_id=5, watcher_id=2)
    client.receive(Type.SUCCESS)
    broker.run(world.create(TopicName.parse(a)))
    client.ping()
    watch = "a watch of topics of /{}:{}".format(*client.socket.getsockname())
    broker.run(until(lambda: watch not in broker.background.running))


def test_of_two_lists_each_watch_gets_its_own_difference() -> None:
    listings = Listings(cast("TopicCatalog", None), cast("TopicRegistry", None))
    one, two = (TopicName.parse(f"persistent://t/n/{name}") for name in ("1", "2"))
    none, first, both = (), (one,), (one, two)
    for before, now, new, gone in (
        (none, first, [one], []),
        (none, both, [one, two], []),
        (first, both, [two], []),
        (both, first, [], [two]),
    ):
        assert listings.difference(before, now) == (new, gone)


def test_a_watch_outlives_a_store_that_is_away(
    broker: OneBroker,
    client: RawClient,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What it missed comes once the store is back; to be away is no failure of ours."""
    monkeypatch.setattr(topic_watches, "RETRY_S", 0.01)
    world, asked = broker.everything, threading.Event()
    watch = {"namespace": namespace, "topics_pattern": ".*", "watcher_id": 2, "request_id": 3}
    client.command("watch_topic_list", **watch)
    client.receive(Type.WATCH_TOPIC_LIST_SUCCESS)

    async def away(*_: object) -> list[TopicName]:
        asked.set()
        raise BrokerError(ServerError.ServiceNotReady, "the store cannot be reached")

    missed = f"persistent://{namespace}/a"
    with monkeypatch.context() as patched:
        patched.setattr(world, "topics_of", away)
        broker.run(world.create(TopicName.parse(missed)))
        assert asked.wait(WITHIN_S)
    update = client.receive(Type.WATCH_TOPIC_UPDATE).watch_topic_update
    assert list(update.new_topics) == [missed]
    assert [it.getMessage() for it in caplog.records if it.levelno >= logging.ERROR] == []


def test_no_pattern_is_watched_where_the_broker_evaluates_none(namespace: str) -> None:
    config = ConnectionConfig(pattern_evaluation=False)
    with OneBroker(config=config) as broker, RawClient(broker.service_url) as client:
        client.connect()
        client.produce(f"persistent://{namespace}/a")
        watch = {"namespace": namespace, "topics_pattern": ".*", "watcher_id": 2, "request_id": 3}
        client.command("watch_topic_list", **watch)
        assert client.receive(Type.ERROR).error.error == ServerError.NotAllowedError
        found = list_topics(client, namespace, topics_pattern="none of them")
        assert (len(found.topics), found.filtered) == (1, False)


@pytest.mark.parametrize("name", ["", "one", "a/b/c/d", "a/"])
def test_what_is_no_namespace_is_refused(client: RawClient, name: str) -> None:
    asked = {"namespace": name, "request_id": 3}
    for field, more in (
        ("get_topics_of_namespace", {}),
        ("watch_topic_list", {"topics_pattern": ".*", "watcher_id": 2}),
    ):
        client.command(field, **asked, **more)
        error = client.receive(Type.ERROR).error
        assert (error.request_id, error.error) == (3, ServerError.InvalidTopicName)


def test_a_long_pattern_is_not_watched(client: RawClient, namespace: str) -> None:
    client.command(
        "watch_topic_list", request_id=4, watcher_id=2, namespace=namespace, topics_pattern="x" * 51
    )
    error = client.receive(Type.ERROR).error
    assert (error.error, error.message) == (
        ServerError.NotAllowedError,
        "Pattern longer than maximum: 50",
    )
    client.command(
        "watch_topic_list", request_id=5, watcher_id=2, namespace=namespace, topics_pattern="x" * 50
    )
    assert client.receive(Type.WATCH_TOPIC_LIST_SUCCESS).watch_topic_list_success.request_id == 5


def test_schemas(client: RawClient, topic: str) -> None:
    schema = {"name": "s", "schema_data": b"{}", "type": 2}
    client.command("get_schema", request_id=1, topic=topic)
    missing = client.receive(Type.GET_SCHEMA_RESPONSE).get_schema_response
    assert missing.error_code == ServerError.TopicNotFound
    client.command("get_or_create_schema", request_id=2, topic=topic, schema=schema)
    kind = Type.GET_OR_CREATE_SCHEMA_RESPONSE
    version = client.receive(kind).get_or_create_schema_response.schema_version
    assert version == bytes(8)
    for asked in (b"", version):
        client.command("get_schema", request_id=3, topic=topic, schema_version=asked)
        found = client.receive(Type.GET_SCHEMA_RESPONSE).get_schema_response
        assert (found.schema.name, found.schema.schema_data, found.schema_version) == (
            "s",
            b"{}",
            version,
        )
    success = client.produce(topic, schema=schema).producer_success
    assert success.schema_version == version


def test_bytes_have_no_schema_and_so_no_version(client: RawClient, topic: str) -> None:
    """As in Pulsar; of a version, Java's client makes chunks whose frames are too short."""
    bytes_ = {"name": "Bytes", "schema_data": b"", "type": 0}
    client.command("get_or_create_schema", request_id=2, topic=topic, schema=bytes_)
    answer = client.receive(Type.GET_OR_CREATE_SCHEMA_RESPONSE).get_or_create_schema_response
    assert (answer.schema_version, answer.HasField("error_code")) == (b"", False)
    client.command("get_schema", request_id=1, topic=topic)
    missing = client.receive(Type.GET_SCHEMA_RESPONSE).get_schema_response
    assert missing.error_code == ServerError.TopicNotFound


def test_a_topic_in_use_without_a_schema_gets_none_from_a_consumer(
    client: RawClient, topic: str
) -> None:
    """As in Pulsar. Consumers of any schema leave the choice to the next one."""
    text, any_schema = ({"name": "s", "schema_data": b"", "type": kind} for kind in (1, 21))
    client.subscribe(f"{topic}-any", 1, schema=any_schema)
    client.subscribe(f"{topic}-any", 2, schema=text)
    client.subscribe(f"{topic}-bytes", 3)
    client.produce(f"{topic}-sent")
    for number, used in enumerate(("bytes", "sent")):
        fields = {"topic": f"{topic}-{used}", "subscription": "t", "sub_type": 1}
        client.command("subscribe", request_id=9, consumer_id=10 + number, schema=text, **fields)
        error = client.receive(Type.ERROR).error
        assert (error.error, error.message) == (
            ServerError.IncompatibleSchema,
            "IncompatibleSchemaException: in use",
        )


@pytest.mark.parametrize("at_once", [None, LookupConnect("localhost:0", "pulsar://it:1")])
def test_a_lookup_for_a_listener_that_no_broker_advertises(
    broker: OneBroker,
    client: RawClient,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
    at_once: LookupConnect | None,
) -> None:
    """It used to be answered with the address that every other client gets."""
    monkeypatch.setattr(broker.everything, "lookup_now", lambda _topic: at_once)
    client.command("lookup_topic", topic=topic, request_id=4, advertised_listener_name="outside")
    answer = client.receive(Type.LOOKUP_RESPONSE).lookup_topic_response
    assert (answer.response, answer.error) == (answer.Failed, ServerError.ServiceNotReady)
    assert answer.message == "the broker do not have outside listener"


def test_a_request_that_fails_as_nothing_may_is_answered_and_logged(
    topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Everything):
        async def lookup(self, topic: TopicName, *, authoritative: bool = False) -> LookupConnect:
            raise RuntimeError("a fault of ours")

    with OneBroker(world=Broken()) as broker, RawClient(broker.service_url) as client:
        client.connect()
        client.command("lookup_topic", topic=topic, request_id=4)
        answer = client.receive(Type.LOOKUP_RESPONSE).lookup_topic_response
        assert (answer.request_id, answer.error) == (4, ServerError.UnknownError)
        client.ping()
    assert "a fault of ours" in caplog.text

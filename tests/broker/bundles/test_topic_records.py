"""Who owns which bundle, kept on a system topic: all brokers believe the same, whichever dies."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from itertools import pairwise

import pulsar
import pulsar.schema
import pytest

from counterpoise.broker.broker import Broker
from counterpoise.broker.bundles.lookup_result import LookupConnect
from counterpoise.broker.bundles.options import ON_TOPIC
from counterpoise.broker.bundles.topic_records import TopicRecords
from counterpoise.broker.peers.json_schemas import SCHEMAS
from counterpoise.broker.peers.system_topic import KEEPER
from counterpoise.broker.schemas.registry import version_bytes
from counterpoise.broker.topic import compaction
from counterpoise.metadata import BadVersion, NotFound, NotificationKind, StoreUnavailable
from counterpoise.names.bundle import BundleName
from counterpoise.names.load_managers import EXTENSIBLE
from counterpoise.names.namespace import SYSTEM_NAMESPACE
from counterpoise.names.system_topics import SERVICE_UNIT_STATE
from counterpoise.names.topic import TopicName
from counterpoise.ownership.channel.data import ServiceUnitState, ServiceUnitStateData
from counterpoise.ownership.channel.state import RECORDS
from counterpoise.wire.entry import metadata_of
from counterpoise.wire.values import Schema
from tests.broker.bundles.test_bad_days import usable
from tests.broker.conftest import NAMESPACE, BrokersOfTest, owned
from tests.waiting import WITHIN_S, found, pause, until

TOPIC = TopicName.parse(SERVICE_UNIT_STATE)
NOW_MS = time.time_ns() // 1_000_000
UNREAL = "b1:1"
"""A broker that does not exist, and that no request names."""


@pytest.fixture
async def brokers() -> AsyncIterator[BrokersOfTest]:
    async with BrokersOfTest("memory:", EXTENSIBLE, ON_TOPIC) as made:
        yield made


def records(broker: Broker) -> TopicRecords:
    assert broker.parts.ownership.records is not None
    return broker.parts.ownership.records


def free(version: int) -> bytes:
    """A record that obliges no broker to anything."""
    return ServiceUnitStateData(
        ServiceUnitState.FREE, None, UNREAL, timestamp_ms=NOW_MS, version=version
    ).to_json()


async def agree(brokers: list[Broker], path: str, value: bytes | None) -> None:
    """Wait until all brokers read this value."""
    async with asyncio.timeout(WITHIN_S):
        for broker in brokers:
            while True:
                stored = await records(broker).get(path)
                if (None if stored is None else stored.value) == value:
                    break
                await asyncio.sleep(0)


def path_of(number: int = 0) -> str:
    return f"{RECORDS}/t/ns/0x0000000{number}_0xffffffff"


async def test_of_those_who_write_at_once_one_wins(brokers: BrokersOfTest) -> None:
    made = await brokers.start_many(3)
    for number in range(8):
        path = path_of(number)
        ends = await asyncio.gather(
            *(records(each).put(path, free(1), expected_version=-1) for each in made),
            *(records(each).put(path, free(1), expected_version=-1) for each in made),
            return_exceptions=True,
        )
        assert ends.count(1) == 1, ends
        others = [each for each in ends if each != 1]
        assert all(isinstance(each, BadVersion) for each in others), others
        await agree(made, path, free(1))


async def test_a_record_is_removed_only_as_it_was_seen(brokers: BrokersOfTest) -> None:
    first, second = await brokers.start_many(2)
    path = path_of()
    await records(first).put(path, free(1))
    await agree([first, second], path, free(1))
    assert [await records(first).exists(each) for each in (path, path_of(9))] == [True, False]
    with pytest.raises(BadVersion):
        await records(second).delete(path, expected_version=7)
    for version, missing in ((0, path), (1, path_of(9))):
        with pytest.raises(BadVersion):
            await records(first).put(missing, free(1), expected_version=version)
    # Both at once: the second of them finds another record, or none.
    assigning = ServiceUnitStateData(
        ServiceUnitState.ASSIGNING, UNREAL, timestamp_ms=NOW_MS, version=2
    ).to_json()
    ends = await asyncio.gather(
        records(first).put(path, assigning, expected_version=1),
        records(second).delete(path, expected_version=1),
        return_exceptions=True,
    )
    assert any(isinstance(each, BadVersion) for each in ends) or ends == [2, None]
    last = await records(first).get(path)
    await agree([first, second], path, None if last is None else last.value)
    with pytest.raises(NotFound):
        await records(first).delete(path_of(9))


async def test_every_broker_is_notified_of_what_becomes_of_a_record(brokers: BrokersOfTest) -> None:
    made = await brokers.start_many(2)
    path, heard = path_of(), [list[NotificationKind]() for _ in made]

    def listen(broker: Broker, kinds: list[NotificationKind]) -> None:
        records(broker).subscribe(lambda it: kinds.append(it.kind) if it.path == path else None)

    for broker, kinds in zip(made, heard, strict=True):
        listen(broker, kinds)
    first, second = made
    await records(first).put(path, free(1), expected_version=-1)
    await agree(made, path, free(1))
    assigning = ServiceUnitStateData(
        ServiceUnitState.ASSIGNING, UNREAL, timestamp_ms=NOW_MS, version=2
    ).to_json()
    await records(second).put(path, assigning, expected_version=1)
    await agree(made, path, assigning)
    await records(first).delete(path, expected_version=2)
    await agree(made, path, None)
    kinds = [NotificationKind.CREATED, NotificationKind.MODIFIED, NotificationKind.DELETED]
    assert heard == [kinds, kinds]


async def test_a_client_reads_what_pulsar_writes(brokers: BrokersOfTest) -> None:
    first, _ = await brokers.start_many(2)
    bundle = (await first.namespaces.bundles(NAMESPACE)).bundles[0]
    await first.parts.ownership.bundles.acquire(bundle)
    read = await asyncio.to_thread(read_all, first.service_url)
    mine = [value for key, value in read if key == str(bundle)]
    assert [json.loads(each)["state"] for each in mine] == ["Assigning", "Owned"]
    owned_record = json.loads(mine[-1])
    assert list(owned_record) == ["state", "dstBroker", "force", "timestamp", "versionId"]
    assert owned_record["dstBroker"] == first.id
    assert owned_record["versionId"] == 2


def read_all(url: str) -> list[tuple[str, bytes]]:
    """Every message of the topic, by the official client; acknowledged, as a stranger may do."""
    client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        reader = client.create_reader(SERVICE_UNIT_STATE, pulsar.MessageId.earliest)
        stranger = client.subscribe(
            SERVICE_UNIT_STATE, "stranger", initial_position=pulsar.InitialPosition.Earliest
        )
        found = []
        while reader.has_message_available():
            message = reader.read_next(60_000)
            stranger.acknowledge(stranger.receive(60_000))
            found.append((message.partition_key(), message.data()))
        return found
    finally:
        client.close()


async def test_no_consumer_deletes_records_by_acknowledging_them(brokers: BrokersOfTest) -> None:
    broker = await brokers.start()
    await records(broker).put(path_of(), free(1))
    topic = await broker.topics.get(TOPIC)
    keeper = topic.subscriptions[KEEPER]
    assert keeper.durable
    assert keeper.acks.mark == -1


async def test_the_leader_serves_the_topic_whichever_broker_owned_its_bundle(
    brokers: BrokersOfTest,
) -> None:
    leader, other = await brokers.start_many(2)
    assert leader.is_leader
    await records(other).put(path_of(), free(1))
    answer = await other.namespaces.lookup(TOPIC)
    assert isinstance(answer, LookupConnect)
    assert answer.broker_id == leader.id
    bundle = (await leader.namespaces.bundles(SYSTEM_NAMESPACE)).bundle_of(TOPIC)
    await usable_bundle(leader, bundle)
    serving = leader.topics.loaded[TOPIC]
    assert await leader.namespaces.moves.unload(bundle, other.id) == other.id
    assert bundle in other.namespaces.owned()
    assert leader.topics.loaded[TOPIC] is serving, "not even for a moment"
    assert not other.namespaces.owns(TOPIC)


async def usable_bundle(broker: Broker, bundle: BundleName) -> None:
    await broker.parts.ownership.bundles.acquire(bundle)
    assert broker.parts.ownership.bundles.serves(bundle)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("orderly", [True, False])
async def test_the_next_leader_serves_it_with_all_that_was_written(
    brokers: BrokersOfTest, orderly: bool
) -> None:
    leader, successor, third = await brokers.start_many(3)
    bundles = (await leader.namespaces.bundles(NAMESPACE)).bundles
    await third.parts.ownership.bundles.acquire(bundles[0])
    await leader.parts.ownership.bundles.acquire(bundles[1])
    await records(third).put(path_of(), free(1))
    await (brokers.stop(leader) if orderly else brokers.kill(leader))
    await agree([successor, third], path_of(), free(1))
    assert owned(third)[0] == bundles[0], "it was not the leader's, and nothing happened to it"
    assert (await usable(brokers, bundles[1])).id in (successor.id, third.id)
    assert await records(successor).put(path_of(1), free(1), expected_version=-1) == 1
    await agree([successor, third], path_of(1), free(1))
    serving = await successor.namespaces.lookup(TOPIC)
    assert serving.broker_id in (successor.id, third.id)


async def test_what_changed_while_the_link_was_down_is_reported(brokers: BrokersOfTest) -> None:
    leader, other = await brokers.start_many(2)
    await records(other).put(path_of(), free(1))
    heard: asyncio.Queue[str] = asyncio.Queue()
    records(other).led_by("b9:8080")
    assert not records(other).caught_up
    # Before the link may be there again.
    leave = records(other).subscribe(lambda notification: heard.put_nowait(notification.path))
    for number in (1, 2):
        await records(leader).put(path_of(number), free(1))
    reported: set[str] = set()
    async with asyncio.timeout(WITHIN_S):
        await agree([other], path_of(2), free(1))
        while not {path_of(1), path_of(2)} <= reported:
            reported.add(await heard.get())
    leave()
    assert path_of() not in reported, "it did not change"


async def test_another_leader_is_turned_to_though_the_former_one_says_nothing(
    brokers: BrokersOfTest,
) -> None:
    broker = await brokers.start()
    await records(broker).put(path_of(), free(1))
    topic = broker.topics.loaded[TOPIC]
    former = set(topic.attached_producers())
    assert former

    def is_linked_again() -> bool:
        now = set(topic.attached_producers())
        return bool(now) and not former & now

    records(broker).led_by("b9:8080")
    assert not records(broker).caught_up
    assert await records(broker).get(path_of()) is not None
    await until(is_linked_again, "it is linked again")


async def rewritten(brokers: BrokersOfTest, count: int) -> tuple[Broker, str]:
    """A leader whose topic holds many records in vain; the last one at a path counts."""
    broker = await brokers.start()
    last = b""
    for version in range(1, count + 1):
        last = said_again(version)
        await records(broker).put(path_of(1), last)
    await records(broker).put(path_of(2), free(1))
    await records(broker).put(path_of(3), free(1))
    await records(broker).delete(path_of(3))
    return broker, last.decode()


def said_again(version: int) -> bytes:
    """A record that may follow any other, and obliges no broker to anything."""
    state = ServiceUnitStateData(
        ServiceUnitState.FREE, None, UNREAL, force=True, timestamp_ms=NOW_MS, version=version
    )
    return state.to_json()


def compacted(url: str) -> tuple[list[str], dict[str, str]]:
    """What the official client reads, by `read_compacted`, up to the end: keys, last values."""
    client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        reader = client.create_reader(
            SERVICE_UNIT_STATE, pulsar.MessageId.earliest, is_read_compacted=True
        )
        keys, last = [], dict[str, str]()
        while reader.has_message_available():
            message = reader.read_next(60_000)
            keys.append(message.partition_key())
            last[message.partition_key()] = message.data().decode()
        return keys, {key: value for key, value in last.items() if value}
    finally:
        client.close()


async def test_what_is_read_compacted_is_what_stands(brokers: BrokersOfTest) -> None:
    """The topic is compacted when it is loaded; each record that counts is there once."""
    broker, last = await rewritten(brokers, 12)
    before, stand = await asyncio.to_thread(compacted, broker.service_url)
    assert len(before) >= 15
    await broker.topics.unload_topic(TOPIC)
    after, still = await asyncio.to_thread(compacted, broker.service_url)
    assert still == stand
    assert len(after) == len(set(after)) == len(stand)
    name_1, name_2 = (path_of(n).removeprefix(f"{RECORDS}/") for n in (1, 2))
    assert (still[name_1], json.loads(still[name_2])["state"]) == (last, "Free")
    topic = await broker.topics.get(TOPIC)
    assert topic.log.end - topic.log.begin == len(stand)
    # And it goes on from there, with the same idea of versions.
    await linked(broker)
    with pytest.raises(BadVersion):
        await records(broker).put(path_of(1), said_again(5), expected_version=4)
    assert await records(broker).put(path_of(1), said_again(13), expected_version=12) == 13


async def test_a_topic_on_which_nothing_stands_is_read_to_its_end(brokers: BrokersOfTest) -> None:
    broker = await brokers.start()
    async with asyncio.timeout(WITHIN_S):
        for path in [f"{RECORDS}/{each}" for each in await all_bundles(broker)]:
            await records(broker).delete(path)
    for _ in range(3):
        await records(broker).put(path_of(1), free(1))
        await records(broker).delete(path_of(1))
        await broker.topics.unload_topic(TOPIC)
        topic = await broker.topics.get(TOPIC)
        assert topic.log.end - topic.log.begin == 1
        await linked(broker)
        await records(broker).delete(path_of(4))


async def all_bundles(broker: Broker) -> list[str]:
    """Whose records stand."""
    await records(broker).get(path_of(1))
    return list(records(broker).believed)


async def linked(broker: Broker) -> None:
    """Wait until a broker writes to the topic again."""

    async def wrote() -> bool:
        with contextlib.suppress(StoreUnavailable):
            await records(broker).put(path_of(4), free(1))
            return True
        return False

    await found(wrote, "a record is written")


async def test_what_stands_outlives_its_brokers(brokers: BrokersOfTest) -> None:
    broker, last = await rewritten(brokers, 5)
    _, stand = await asyncio.to_thread(compacted, broker.service_url)
    for _ in range(2):
        await brokers.kill(broker)
        broker = await brokers.start()
        await agree([broker], path_of(1), last.encode())
        await agree([broker], path_of(3), None)
        _, again = await asyncio.to_thread(compacted, broker.service_url)
        mine = {key: value for key, value in again.items() if key in stand}
        assert mine.keys() == stand.keys()


async def test_a_topic_that_grows_is_compacted_while_it_is_in_use(
    brokers: BrokersOfTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "LOOK_S", 0.01)
    first, second = await brokers.start_many(2)
    for broker in (first, second):
        records(broker).compaction.threshold = 4_000
    version, sizes = 0, []
    async with asyncio.timeout(60):
        while version < 150:
            try:
                await records(second).put(
                    path_of(1), said_again(version + 1), expected_version=version or -1
                )
            except (StoreUnavailable, BadVersion):
                # It is being read again, and perhaps the record has been written.
                await pause()
                with contextlib.suppress(StoreUnavailable):
                    stored = await records(second).get(path_of(1))
                    version = 0 if stored is None else stored.version
                continue
            version += 1
            if (topic := first.topics.loaded.get(TOPIC)) is not None:
                sizes.append(topic.log.size)  # type: ignore[attr-defined]
    assert any(later < earlier for earlier, later in pairwise(sizes)), sizes
    await agree([first, second], path_of(1), said_again(150))


async def test_clients_find_the_schemas_that_pulsars_brokers_register(
    brokers: BrokersOfTest,
) -> None:
    broker = await brokers.start()
    await records(broker).put(path_of(1), said_again(1))
    for name, schema in SCHEMAS.items():
        topic = TopicName.parse(name)
        await eventually_has(broker, topic, schema)
    written = await broker.topics.get(TOPIC)
    chunk = written.log.cached(written.log.begin)
    assert {metadata_of(each).schema_version for each in chunk.entries} == {version_bytes(0)}
    read = await asyncio.to_thread(read_as_json, broker.service_url)
    assert {"sourceBroker": UNREAL, "versionId": 1, "force": True} in read


def test_numbers_of_a_record_have_as_many_bits_in_its_schema() -> None:
    fields = json.loads(SCHEMAS[SERVICE_UNIT_STATE].data)["fields"]
    kinds = {each["name"]: each["type"] for each in fields}
    most = ServiceUnitStateData(
        ServiceUnitState.OWNED, "a:1", timestamp_ms=2**63 - 1, version=2**63 - 1
    )
    wide = [name for name, value in json.loads(most.to_json()).items() if value == 2**63 - 1]
    assert {name: kinds[name] for name in wide} == {"timestamp": "long", "versionId": "long"}


async def eventually_has(broker: Broker, topic: TopicName, schema: Schema) -> None:
    async with asyncio.timeout(WITHIN_S):
        while True:
            found = await broker.schemas.get(topic, None)
            if found is not None:
                break
            await asyncio.sleep(0)
    assert found[0] == schema


class UnitState(pulsar.schema.Record):  # type: ignore[misc]
    """As much of a record as a client may want."""

    _avro_namespace = "org.apache.pulsar.broker.loadbalance.extensions.channel"
    sourceBroker = pulsar.schema.String()  # noqa: N815 - as Pulsar calls it
    versionId = pulsar.schema.Long()  # noqa: N815
    force = pulsar.schema.Boolean()


READ = ("sourceBroker", "versionId", "force")


def read_as_json(url: str) -> list[dict[str, object]]:
    client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        reader = client.create_reader(
            SERVICE_UNIT_STATE,
            pulsar.MessageId.earliest,
            schema=pulsar.schema.JsonSchema(UnitState),
        )
        found = []
        while reader.has_message_available():
            record = reader.read_next(60_000).value()
            found.append({name: getattr(record, name) for name in READ})
        return found
    finally:
        client.close()

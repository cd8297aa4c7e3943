"""Schemas made to hurt: they are refused, soon, and nothing else happens."""

import asyncio
import json

import pytest

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.schemas import registry
from counterpoise.broker.schemas.avro import CHECKS_MAX, NotAvro, why_unreadable
from counterpoise.broker.schemas.compatibility import why_incompatible
from counterpoise.broker.schemas.registry import KNOWN_MAX, STORED_MAX, SchemaRegistry
from counterpoise.metadata import MemoryTree
from counterpoise.names.topic import TopicName
from counterpoise.wire.errors import ServerError
from counterpoise.wire.proto.values_pb2 import Schema as RawSchema
from counterpoise.wire.values import Schema


def avro(declaration: object) -> Schema:
    data = declaration if isinstance(declaration, bytes) else json.dumps(declaration).encode()
    return Schema("s", data, RawSchema.Avro)


def nested(depth: int) -> object:
    found: object = "int"
    for _ in range(depth):
        found = {"type": "array", "items": found}
    return found


FINE = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}
HOSTILE = {
    "deep lists": b"[" * 100_000,
    "deep objects": b'{"type":' * 50_000 + b'"int"' + b"}" * 50_000,
    "fields that are a number": {"type": "record", "name": "r", "fields": 5},
    "a field that is a number": {"type": "record", "name": "r", "fields": [1]},
    "names that are lists": {
        "type": "record",
        "name": "r",
        "fields": [{"name": [1], "type": "int"}],
    },
    "a schema inside many others": nested(900),
}


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_what_is_no_schema_is_refused_and_not_an_error_of_the_broker(hostile: object) -> None:
    for pair in ((FINE, hostile), (hostile, FINE)):
        assert why_incompatible(*map(avro, pair)) is not None


def test_two_unions_are_not_held_against_each_other_for_ever() -> None:
    """Each branch of one against each of the other: three thousand took half a minute."""
    branches = [{"type": "record", "name": f"r{n}", "fields": []} for n in range(3000)]
    with pytest.raises(NotAvro, match=f"more than {CHECKS_MAX} steps"):
        why_unreadable(branches, [*branches, "int"])


async def test_a_topic_has_no_more_schemas_than_its_node_can_hold() -> None:
    store = MemoryTree().open()
    here = SchemaRegistry(store)
    topic = TopicName.parse("public/default/t")

    async def put_many() -> None:
        for number in range(20):
            await here.put(topic, avro({**FINE, "of": f"{number}" * 100_000}))

    with pytest.raises(BrokerError, match=f"at most {STORED_MAX}") as refused:
        await put_many()
    assert refused.value.code is ServerError.NotAllowedError
    assert 0 < len(await here.versions(topic)) < 10
    await store.close()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The stored schemas that are read; how often is in no answer, so it is counted inside."""
    counted, read = list[bytes](), registry._read

    def count(value: bytes) -> list[Schema]:
        counted.append(value)
        return read(value)

    monkeypatch.setattr(registry, "_read", count)
    return counted


async def test_what_is_remembered_of_a_topic_is_what_is_stored(reads: list[bytes]) -> None:
    """Two brokers, one store: each reads what the other wrote, or deleted."""
    store = MemoryTree().open()
    one, other = SchemaRegistry(store), SchemaRegistry(store)
    topic = TopicName.parse("t")
    fields = [{"name": f"f{n}", "type": "int", "default": n} for n in range(3)]
    first, second, as_long = (
        avro({"type": "record", "name": "R", "fields": fields[begin:end]})
        for begin, end in ((0, 1), (0, 2), (1, 2))
    )
    await one.put(topic, first)
    assert await other.versions(topic) == [first]
    await other.put(topic, second)
    assert await one.versions(topic) == await one.versions(topic) == [first, second]
    await other.delete(topic)
    assert await one.versions(topic) == []
    for again in (first, as_long):
        await other.put(topic, again)
        assert await one.versions(topic) == [again], "version 0 of a topic made again"
        await other.delete(topic)
    topics = [TopicName.parse(f"t{number}") for number in range(2 * KNOWN_MAX)]
    for each in topics:
        await one.put(each, first)
        assert await one.versions(each) == [first]
    for known, count in ((topics[-KNOWN_MAX:], 0), (topics[:KNOWN_MAX], KNOWN_MAX)):
        before = len(reads)
        for each in known:
            assert await one.versions(each) == [first]
        assert len(reads) - before == count


async def test_schemas_are_read_for_one_client_in_a_turn(reads: list[bytes]) -> None:
    store = MemoryTree().open()
    here = SchemaRegistry(store)
    topics = [TopicName.parse(f"t{number}") for number in range(2 * KNOWN_MAX)]
    for topic in topics:
        await here.put(topic, avro("int"))
    asking = asyncio.gather(*(here.get(topic, None) for topic in topics))
    while not asking.done():
        before = len(reads)
        await asyncio.sleep(0)
        assert len(reads) - before <= 1
    assert len(reads) >= KNOWN_MAX

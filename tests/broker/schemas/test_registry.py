"""The schemas of a topic: registered by producers of several brokers, checked for consumers."""

import asyncio
import json

import pytest

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.schemas import registry
from counterpoise.broker.schemas.registry import SchemaRegistry, version_bytes
from counterpoise.broker.schemas.rules import SchemaOptions
from counterpoise.metadata import MemoryTree
from counterpoise.names.topic import TopicName
from counterpoise.wire.errors import ServerError
from counterpoise.wire.proto.values_pb2 import Schema as RawSchema
from counterpoise.wire.values import Schema

TOPIC = TopicName.parse("persistent://public/default/t")


def with_fields(*names: str) -> Schema:
    """A record of numbers, none of which has a default."""
    fields = [{"name": each, "type": "int"} for each in names]
    declared = json.dumps({"type": "record", "name": "R", "fields": fields})
    return Schema("s", declared.encode(), RawSchema.Avro)


async def test_of_two_brokers_that_register_at_once_both_succeed() -> None:
    tree, lenient = MemoryTree(), SchemaOptions("ALWAYS_COMPATIBLE")
    both = [SchemaRegistry(tree.open(), options=lambda: lenient) for _ in range(2)]
    schemas = with_fields("a"), with_fields("b")
    versions = await asyncio.gather(
        *(each.put(TOPIC, schema) for each, schema in zip(both, schemas, strict=True))
    )
    assert sorted(versions) == [version_bytes(0), version_bytes(1)]
    assert {each.data for each in await both[0].versions(TOPIC)} == {each.data for each in schemas}


async def test_a_schema_that_says_the_same_is_no_other_version() -> None:
    """Beside Pulsar 4.0.7: white space, documentation, names and properties do not count."""
    here, one = SchemaRegistry(MemoryTree().open()), with_fields("a")
    declared = json.loads(one.data)
    declared["fields"][0]["doc"] = "a number"
    documented = json.dumps({**declared, "doc": "all of it"}, indent=2).encode()
    same = [one, Schema("other", one.data + b"\n  \n", one.type, (("a", "b"),))]
    for each in (*same, Schema("s", documented, one.type)):
        assert await here.put(TOPIC, each) == version_bytes(0)
    assert await here.versions(TOPIC) == [one]
    renamed = one.data.replace(b'"R"', b'"S"')
    assert await here.put(TOPIC, Schema("s", renamed, one.type)) == version_bytes(1)


@pytest.mark.parametrize(
    ("kind", "data", "problem"),
    [
        (RawSchema.Avro, b'[{"type": "enum", "name": "E", "symbols": ["A"]}]', "typed .UNION. is"),
        (RawSchema.Avro, b"{", "Invalid schema definition data for AVRO schema"),
        (RawSchema.Protobuf, b"", "Invalid schema definition data for PROTOBUF schema"),
    ],
)
async def test_what_is_no_schema_of_its_type_is_not_stored(
    kind: int, data: bytes, problem: str
) -> None:
    here = SchemaRegistry(MemoryTree().open())
    with pytest.raises(BrokerError, match=problem):
        await here.put(TOPIC, Schema("s", data, kind))
    assert await here.versions(TOPIC) == []


async def test_a_version_that_is_not_there_is_none() -> None:
    here = SchemaRegistry(MemoryTree().open())
    assert [await here.get(TOPIC, each) for each in (None, version_bytes(0))] == [None, None]
    await here.put(TOPIC, with_fields("a"))
    for wanted in (None, version_bytes(0)):
        found = await here.get(TOPIC, wanted)
        assert found is not None
        assert (found[0].data, found[1]) == (with_fields("a").data, version_bytes(0))
    assert await here.get(TOPIC, version_bytes(1)) is None


@pytest.mark.parametrize("spare", [0, -1])
async def test_schemas_may_be_as_large_as_the_limit(
    monkeypatch: pytest.MonkeyPatch, spare: int
) -> None:
    store, one = MemoryTree().open(), with_fields("a")
    await SchemaRegistry(store).put(TOPIC, one)
    stored = await store.get("/schemas/public/default/t")
    assert stored is not None
    monkeypatch.setattr(registry, "STORED_MAX", len(stored.value) + spare)
    here = SchemaRegistry(MemoryTree().open())
    if spare == 0:
        await here.put(TOPIC, one)
    else:
        with pytest.raises(BrokerError, match=f"take {len(stored.value)} bytes, at most"):
            await here.put(TOPIC, one)


async def test_a_consumer_brings_no_schema_to_a_topic_that_is_in_use_without_one() -> None:
    here = SchemaRegistry(MemoryTree().open())
    with pytest.raises(BrokerError, match=r"empty\(BYTES\) schema: new schema type AVRO"):
        await here.attach(TOPIC, with_fields("a"), in_use=True)
    assert await here.versions(TOPIC) == []
    lenient = SchemaRegistry(MemoryTree().open(), None, lambda: SchemaOptions("ALWAYS_COMPATIBLE"))
    await lenient.attach(TOPIC, with_fields("a"), in_use=True)
    assert await lenient.versions(TOPIC) == []
    await here.attach(TOPIC, Schema("a", b"", registry.AUTO_CONSUME), in_use=True)
    await here.put(TOPIC, with_fields("a"))
    await here.attach(TOPIC, with_fields("a"), in_use=True)


async def test_a_consumer_has_to_read_what_was_written_and_no_more() -> None:
    here = SchemaRegistry(MemoryTree().open())
    await here.attach(TOPIC, with_fields("a", "b"))
    assert len(await here.versions(TOPIC)) == 1, "the first schema of a topic is registered"
    await here.attach(TOPIC, with_fields("a"))
    with pytest.raises(BrokerError, match="/c: the writer has no such field"):
        await here.attach(TOPIC, with_fields("c"))
    assert len(await here.versions(TOPIC)) == 1


@pytest.mark.parametrize("enforced", [True, False])
async def test_where_schemas_are_enforced_a_topic_that_has_one_refuses_who_has_none(
    enforced: bool,
) -> None:
    options = SchemaOptions(validation_enforced=enforced)
    here = SchemaRegistry(MemoryTree().open(), options=lambda: options)
    await here.admit_without(TOPIC)
    await here.put(TOPIC, with_fields("a"))
    if enforced:
        with pytest.raises(BrokerError, match="without a schema") as refused:
            await here.admit_without(TOPIC)
        assert refused.value.code is ServerError.IncompatibleSchema
    else:
        await here.admit_without(TOPIC)


async def test_the_newest_version_is_given_where_none_is_named() -> None:
    lenient = SchemaOptions("ALWAYS_COMPATIBLE")
    here = SchemaRegistry(MemoryTree().open(), options=lambda: lenient)
    schemas = [with_fields(name) for name in "abc"]
    for number, each in enumerate(schemas):
        assert await here.put(TOPIC, each) == version_bytes(number)
        newest = await here.get(TOPIC, None)
        assert newest is not None
        assert (newest[0].data, newest[1]) == (each.data, version_bytes(number))
    for number, each in enumerate(schemas):
        found = await here.get(TOPIC, version_bytes(number))
        assert found is not None
        assert (found[0].data, found[1]) == (each.data, version_bytes(number))


async def test_without_automatic_updates_a_topic_keeps_the_schema_that_it_got_first() -> None:
    strict = SchemaOptions("ALWAYS_COMPATIBLE", auto_update=False)
    here = SchemaRegistry(MemoryTree().open(), options=lambda: strict)
    assert await here.put(TOPIC, with_fields("a")) == version_bytes(0)
    assert await here.put(TOPIC, with_fields("a")) == version_bytes(0)
    with pytest.raises(BrokerError, match="isAllowAutoUpdateSchema") as refused:
        await here.put(TOPIC, with_fields("b"))
    assert refused.value.code is ServerError.IncompatibleSchema
    assert len(await here.versions(TOPIC)) == 1


async def test_a_version_has_the_time_at_which_it_was_registered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry.time, "time", lambda: 1_700_000_000.25)
    here = SchemaRegistry(MemoryTree().open())
    await here.put(TOPIC, with_fields("a"))
    assert [each.registered_ms for each in await here.versions(TOPIC)] == [1_700_000_000_250]


async def test_to_delete_the_schemas_of_a_topic_without_any_is_no_error() -> None:
    here = SchemaRegistry(MemoryTree().open())
    await here.delete(TOPIC)
    await here.put(TOPIC, with_fields("a"))
    for _ in range(2):
        await here.delete(TOPIC)
        assert await here.versions(TOPIC) == []

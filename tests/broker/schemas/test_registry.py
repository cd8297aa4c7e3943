"""The schemas of a topic: registered by producers of several brokers, checked for consumers."""

from __future__ import annotations

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
    tree, text = MemoryTree(), RawSchema.String
    both = [SchemaRegistry(tree.open()) for _ in range(2)]
    versions = await asyncio.gather(
        *(each.put(TOPIC, Schema(str(place), b"", text)) for place, each in enumerate(both))
    )
    assert sorted(versions) == [version_bytes(0), version_bytes(1)]
    assert {each.name for each in await both[0].versions(TOPIC)} == {"0", "1"}


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

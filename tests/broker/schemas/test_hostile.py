"""Schemas made to hurt: they are refused, soon, and nothing else happens."""

import json

import pytest

from counterpoise.broker.errors import BrokerError
from counterpoise.broker.schemas.avro import CHECKS_MAX, NotAvro, why_unreadable
from counterpoise.broker.schemas.compatibility import why_incompatible
from counterpoise.broker.schemas.registry import STORED_MAX, SchemaRegistry
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
    registry = SchemaRegistry(store)
    topic = TopicName.parse("public/default/t")

    async def put_many() -> None:
        for number in range(20):
            await registry.put(topic, Schema(f"s{number}", b"x" * 100_000, RawSchema.String))

    with pytest.raises(BrokerError, match=f"at most {STORED_MAX}") as refused:
        await put_many()
    assert refused.value.code is ServerError.NotAllowedError
    assert 0 < len(await registry.versions(topic)) < 10
    await store.close()

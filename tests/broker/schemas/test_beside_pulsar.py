"""Schemas of topics on the BookKeeper of Pulsar's own brokers, whose schemas are not read here."""

import pytest

from counterpoise.broker.base import paths
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.schemas.registry import SchemaRegistry
from counterpoise.metadata import MemoryTree
from counterpoise.names.topic import TopicName
from counterpoise.wire.errors import ServerError
from counterpoise.wire.proto.values_pb2 import Schema as RawSchema
from counterpoise.wire.values import Schema

TOPIC = TopicName.parse("persistent://public/default/t")
SCHEMA = Schema("s", b"", RawSchema.String)


async def test_what_pulsar_has_of_schemas_stays_untouched() -> None:
    store = MemoryTree().open()
    here = SchemaRegistry(store, root=paths.OWN_SCHEMAS)
    await here.put(TOPIC, SCHEMA)
    assert [each.name for each in await here.versions(TOPIC)] == ["s"]
    assert not await store.exists(paths.schemas(TOPIC)), "a node that Pulsar could not read"
    await store.put(paths.schemas(TOPIC), b"a locator")
    for refused in (here.put(TOPIC, SCHEMA), here.attach(TOPIC, SCHEMA), here.get(TOPIC, None)):
        with pytest.raises(BrokerError, match=r"registered by a broker of Apache Pulsar") as error:
            await refused
        assert error.value.code is ServerError.NotAllowedError
    await here.delete(TOPIC)
    stored = await store.get(paths.schemas(TOPIC))
    assert stored.value == b"a locator"
    # Brokers of both kinds write system topics, each with its own schema.
    system = TopicName.parse("persistent://pulsar/system/__change_events")
    await store.put(paths.schemas(system), b"a locator")
    await here.attach(system, SCHEMA)
    assert await here.versions(system) == [SCHEMA]
    await store.close()

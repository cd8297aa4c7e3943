"""The schemas of topics: every version ever registered, in the metadata store."""

import base64
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from counterpoise.broker.base import paths
from counterpoise.broker.base.by_turns import OnePerTurn
from counterpoise.broker.base.errors import BrokerError, store_errors_as_not_ready
from counterpoise.broker.schemas.compatibility import find_version, why_invalid, why_refused
from counterpoise.broker.schemas.rules import SchemaOptions, SchemaPolicies, rules_for
from counterpoise.metadata import BadVersion, MetadataStore, NotFound
from counterpoise.metadata.port import MUST_NOT_EXIST, Stored
from counterpoise.names.namespace import SYSTEM_NAMESPACE
from counterpoise.names.topic import TopicName
from counterpoise.wire.errors import ServerError
from counterpoise.wire.proto.values_pb2 import Schema as RawSchema
from counterpoise.wire.values import Schema

UPDATE_ROUNDS: Final = 10
STORED_MAX: Final = 768 * 1024
"""The most bytes of a topic's schemas, all versions together: ZooKeeper ends the session of a
client that writes a node of a megabyte (``jute.maxbuffer``)."""
AUTO_CONSUME: Final = RawSchema.AutoConsume
"""The type of a consumer that takes whatever schema the messages have."""

KNOWN_MAX: Final = 8
"""How many topics' parsed schemas are kept: the producers of all partitions need the same ones."""

VERSION_BYTES: Final = 8
"""The bytes of a version: a number from 0, big-endian (``LongSchemaVersion``)."""


class SchemaRegistry:
    """Stores the schemas of topics by version; all partitions of a topic share them.

    Pulsar stores schemas in BookKeeper ledgers, which the nodes below ``/schemas`` name; here a
    node contains the schemas themselves. If the cluster uses Pulsar's BookKeeper, the nodes have
    another path, and a topic that has schemas of Pulsar's gets none here: its messages carry the
    versions of Pulsar's schemas.
    """

    def __init__(
        self,
        store: MetadataStore,
        policies: SchemaPolicies | None = None,
        options: Callable[[], SchemaOptions] = SchemaOptions,
        root: str = paths.SCHEMAS,
    ) -> None:
        """``root``: the parent of the nodes; Pulsar's own are below `paths.SCHEMAS`."""
        self._root = root
        self._store = store
        self._policies = policies
        self._options = options
        self._turns = OnePerTurn()
        self._known: dict[str, tuple[bytes, tuple[Schema, ...]]] = {}
        """By path, the node's value that was read last, and the schemas parsed from it."""

    async def get(self, topic: TopicName, version: bytes | None) -> tuple[Schema, bytes] | None:
        """A topic's schema of this version (None: the latest), and its version; None if missing."""
        with store_errors_as_not_ready():
            stored = await self._stored(topic)
        schemas = await self._read(topic, stored)
        number = len(schemas) - 1 if version is None else int.from_bytes(version)
        if not 0 <= number < len(schemas):
            return None
        return schemas[number], version_bytes(number)

    async def versions(self, topic: TopicName) -> list[Schema]:
        """All schemas of a topic, oldest first; a schema's index is its version."""
        with store_errors_as_not_ready():
            stored = await self._stored(topic)
        return list(await self._read(topic, stored))

    async def put(self, topic: TopicName, schema: Schema) -> bytes:
        """Register a producer's schema unless the topic has it already; returns its version.

        Raises `BrokerError` (IncompatibleSchema) if the topic's strategy or policies forbid it.
        """
        _check(why_invalid(schema))
        rules = await self.rules(topic)
        path = paths.schemas(topic, self._root)
        with store_errors_as_not_ready():
            for _ in range(UPDATE_ROUNDS):
                stored = await self._stored(topic)
                schemas = await self._read(topic, stored)
                known = find_version(schemas, schema)
                if known is not None:
                    return version_bytes(known)
                if schemas and not rules.auto_update:
                    raise BrokerError(
                        ServerError.IncompatibleSchema,
                        "Schema not found and schema auto updating is disabled. "
                        "(isAllowAutoUpdateSchema)",
                    )
                _check(why_refused(schemas, schema, rules.strategy))
                expected = stored.version if stored is not None else MUST_NOT_EXIST
                try:
                    value = _write(
                        [*schemas, replace(schema, registered_ms=int(time.time() * 1000))]
                    )
                    if len(value) > STORED_MAX:
                        raise BrokerError(
                            ServerError.NotAllowedError,
                            f"the schemas of {topic} take {len(value)} bytes, at most {STORED_MAX}",
                        )
                    await self._store.put(path, value, expected_version=expected)
                except BadVersion:
                    continue
                return version_bytes(len(schemas))
        raise BrokerError(
            ServerError.ServiceNotReady, f"the schemas of {topic} keep changing; try again"
        )

    async def attach(self, topic: TopicName, schema: Schema, *, in_use: bool = False) -> None:
        """Check a consumer's schema by the topic's strategy; the first schema of a topic is
        registered, unless the topic is in use without one.

        Raises `BrokerError` (IncompatibleSchema).
        """
        if schema.type == AUTO_CONSUME:
            return
        versions = await self.versions(topic)
        strategy = (await self.rules(topic)).strategy
        if not versions and in_use:
            if strategy == "ALWAYS_COMPATIBLE":
                return
            kind = RawSchema.Type.Name(schema.type).upper()
            why = "Failed to add schema to an active topic with empty(BYTES) schema"
            _check(f"{why}: new schema type {kind}")
        elif not versions:
            await self.put(topic, schema)
        else:
            _check(why_refused(versions, schema, strategy, consumer=True))

    async def admit_without(self, topic: TopicName) -> None:
        """Raise `BrokerError` (IncompatibleSchema) if a topic's producers must have a schema."""
        if (await self.rules(topic)).validation_enforced and await self.versions(topic):
            raise BrokerError(
                ServerError.IncompatibleSchema,
                "Producers cannot connect or send message without a schema to topics with a schema "
                "when SchemaValidationEnforced is enabled",
            )

    async def rules(self, topic: TopicName) -> SchemaOptions:
        """The schema settings in force for a topic."""
        if self._policies is None:
            return self._options()
        return rules_for(await self._policies.policies_of(topic), self._options())

    async def _stored(self, topic: TopicName) -> Stored | None:
        """The topic's node; raises `BrokerError` if Pulsar's own brokers have its schemas."""
        if (
            self._root != paths.SCHEMAS
            and topic.namespace_name != SYSTEM_NAMESPACE
            and await self._store.exists(paths.schemas(topic))
        ):
            raise BrokerError(
                ServerError.NotAllowedError,
                f"{topic} has schemas that were registered by a broker of Apache Pulsar; they are "
                "in BookKeeper, where this broker does not read them: use the topic without a "
                "schema, or serve it by Pulsar's brokers",
            )
        return await self._store.get(paths.schemas(topic, self._root))

    async def _read(self, topic: TopicName, stored: Stored | None) -> Sequence[Schema]:
        """Parse the stored schemas; yields to other tasks before the caller continues.

        They may have `STORED_MAX` bytes, and a client may ask a thousand times at once.
        """
        await self._turns.mine()
        if stored is None:
            return ()
        path = paths.schemas(topic, self._root)
        value, schemas = self._known.pop(path, (b"", ()))
        if value != stored.value:
            schemas = tuple(_read(stored.value))
        self._known[path] = stored.value, schemas
        if len(self._known) > KNOWN_MAX:
            del self._known[next(iter(self._known))]
        return schemas

    async def delete(self, topic: TopicName) -> None:
        """Delete all schemas of a topic; ignored if it has none."""
        with store_errors_as_not_ready():
            try:
                await self._store.delete(paths.schemas(topic, self._root))
            except NotFound:
                return


def _check(problem: str | None) -> None:
    if problem is not None:
        raise BrokerError(ServerError.IncompatibleSchema, problem)


def version_bytes(number: int) -> bytes:
    """A schema version as the protocol carries it: 8 bytes, big-endian."""
    return number.to_bytes(VERSION_BYTES)


def _read(value: bytes) -> list[Schema]:
    return [
        Schema(
            name=each["name"],
            data=base64.b64decode(each["data"]),
            type=each["type"],
            properties=tuple((key, text) for key, text in each["properties"]),
            registered_ms=int(each.get("timestamp", 0)),
        )
        for each in json.loads(value)
    ]


def _write(schemas: Sequence[Schema]) -> bytes:
    rows: list[dict[str, Any]] = [
        {
            "name": each.name,
            "data": base64.b64encode(each.data).decode(),
            "type": each.type,
            "properties": each.properties,
            "timestamp": each.registered_ms,
        }
        for each in schemas
    ]
    return json.dumps(rows, separators=(",", ":")).encode()

"""One connection's queries: lookups, partitions, lists of topics, and schemas."""

from collections.abc import Sequence
from functools import partial

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.bundles.lookup_result import LookupRedirect, LookupResult, for_listener
from counterpoise.broker.connection.client_link import ClientLink, topic_name
from counterpoise.broker.connection.ports import ConnectionConfig, Services
from counterpoise.broker.connection.shared_parts import SharedByConnections
from counterpoise.broker.connection.topics_hash import topics_hash
from counterpoise.names.errors import InvalidName
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.topic import TopicName
from counterpoise.wire import encode
from counterpoise.wire.decode import schema_of
from counterpoise.wire.errors import ServerError
from counterpoise.wire.proto import commands_pb2 as commands
from counterpoise.wire.proto.values_pb2 import Schema as RawSchema


class TopicQueries:
    """Handles a client's requests about topics: partitions, lookups, lists and schemas."""

    def __init__(
        self,
        link: ClientLink,
        services: Services,
        config: ConnectionConfig,
        shared: SharedByConnections,
    ) -> None:
        self._link = link
        self._services = services
        self._config = config
        self._lookups = shared.lookups
        self._listings = shared.listings

    async def partitions(self, event: commands.CommandPartitionedTopicMetadata) -> bytes:
        """PARTITIONED_METADATA: respond with a topic's number of partitions, 0 if it has none."""
        topic = topic_name(event.topic)
        with self._lookups.one():
            await self._link.permits.topic(
                topic, "LOOKUP", "Client is not authorized to Get Partition Metadata"
            )
            count = await self._services.catalog.partitions(
                topic, auto_create=event.metadata_auto_creation_enabled
            )
        response = commands.CommandPartitionedTopicMetadataResponse
        return encode.frame(
            response(partitions=count, request_id=event.request_id, response=response.Success)
        )

    def lookup(self, event: commands.CommandLookupTopic) -> None:
        """LOOKUP: respond with the broker that serves a topic; at once if this one surely does."""
        if self._link.permits.unlimited and not self._lookups.full:
            try:
                found = self._services.namespaces.lookup_now(TopicName.parse(event.topic))
                if found is not None:
                    self._link.outbox.write(self._where(event, found))
                    return
            except (BrokerError, InvalidName):
                pass  # `_lookup` raises the same error, which is then sent to the client.
        self._link.answer(self._lookup(event), partial(encode.refuse, event))

    async def _lookup(self, event: commands.CommandLookupTopic) -> bytes:
        topic = topic_name(event.topic)
        with self._lookups.one():
            await self._link.permits.topic(topic, "LOOKUP", "Client is not authorized to Lookup")
            found = await self._services.namespaces.lookup(topic, authoritative=event.authoritative)
        return self._where(event, found)

    def _where(self, event: commands.CommandLookupTopic, found: LookupResult) -> bytes:
        answer = for_listener(event.advertised_listener_name or self._link.listener, found)
        response = commands.CommandLookupTopicResponse
        kind, authoritative = response.Connect, True
        if isinstance(answer, LookupRedirect):
            kind, authoritative = response.Redirect, answer.authoritative
        return encode.frame(
            response(
                response=kind,
                request_id=event.request_id,
                authoritative=authoritative,
                broker_service_url=answer.service_url,
                broker_service_url_tls=answer.service_url_tls,
            )
        )

    async def topics(self, event: commands.CommandGetTopicsOfNamespace) -> None:
        """GET_TOPICS_OF_NAMESPACE: respond with a namespace's topics."""
        namespace = NamespaceName.parse(event.namespace)
        await self._link.permits.namespace(
            namespace, "GET_TOPICS", "Client is not authorized to GetTopicsOfNamespace"
        )
        outbox = self._link.outbox
        async with self._link.listing:
            await outbox.room()
            if self._link.closed:
                return
            await self._listings.answer(
                namespace,
                event.Mode.Name(event.mode),
                lambda found: self._write_topics(found, event),
            )

    async def _write_topics(
        self, found: Sequence[TopicName], event: commands.CommandGetTopicsOfNamespace
    ) -> None:
        if not self._link.closed:
            self._link.outbox.write(await self._topics_frame(found, event))

    async def _topics_frame(
        self, found: Sequence[TopicName], event: commands.CommandGetTopicsOfNamespace
    ) -> bytes:
        filtered = (
            event.HasField("topics_pattern")
            and self._config.pattern_evaluation
            and len(event.topics_pattern) <= self._config.pattern_length_max
        )
        found = await self._listings.of_users(found)
        if filtered:
            found = await self._listings.matching(found, event.topics_pattern)
        names = [str(topic) for topic in found]
        digest = topics_hash(names)
        changed = event.topics_hash != digest
        return encode.frame(
            commands.CommandGetTopicsOfNamespaceResponse(
                request_id=event.request_id,
                topics=names if changed else (),
                filtered=filtered,
                topics_hash=digest,
                changed=changed,
            )
        )

    async def get_schema(self, event: commands.CommandGetSchema) -> bytes:
        """GET_SCHEMA: respond with a topic's schema."""
        topic = topic_name(event.topic)
        # Pulsar 4.0.7 returns a schema to every client, without this check.
        await self._link.permits.topic(topic, "LOOKUP", "Client is not authorized to get schema")
        found = await self._services.schemas.get(topic, event.schema_version or None)
        if found is None:
            raise BrokerError(ServerError.TopicNotFound, "Topic not found or no-schema")
        schema, version = found
        return encode.frame(
            commands.CommandGetSchemaResponse(
                request_id=event.request_id,
                schema=encode.raw_schema(schema),
                schema_version=version,
            )
        )

    async def put_schema(self, event: commands.CommandGetOrCreateSchema) -> bytes:
        """GET_OR_CREATE_SCHEMA: register a schema."""
        topic = topic_name(event.topic)
        await self._link.permits.topic(topic, "LOOKUP", "Client is not authorized to put schema")
        version = b""
        if event.schema.type == RawSchema.NoSchema:
            await self._services.schemas.admit_without(topic)
        else:
            version = await self._services.schemas.put(topic, schema_of(event.schema))
        return encode.frame(
            commands.CommandGetOrCreateSchemaResponse(
                request_id=event.request_id, schema_version=version
            )
        )

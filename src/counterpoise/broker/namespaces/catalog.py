"""Which topics exist, and which ones clients create by using them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from counterpoise.broker.base import paths
from counterpoise.broker.base.by_turns import in_pieces
from counterpoise.broker.base.errors import BrokerError, store_errors_as_not_ready
from counterpoise.broker.base.single_flight import SingleFlight
from counterpoise.broker.namespaces.auto_creation import AutoTopicCreation, CreationLimits
from counterpoise.broker.namespaces.policies import Policies
from counterpoise.broker.namespaces.policies.records import JsonObject
from counterpoise.metadata import BadVersion
from counterpoise.names.callbacks import Notify, StopListening
from counterpoise.names.errors import InvalidName
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.patterns import compile_pattern
from counterpoise.names.position import Position
from counterpoise.names.system_topics import is_pending_ack_log, is_used_by_brokers
from counterpoise.names.topic import NON_PERSISTENT, PARTITION_SUFFIX, PERSISTENT, TopicName
from counterpoise.wire.errors import ServerError

DOMAINS_OF_MODE: Final = {
    "PERSISTENT": (PERSISTENT,),
    "NON_PERSISTENT": (NON_PERSISTENT,),
    "ALL": (PERSISTENT, NON_PERSISTENT),
}
"""The domains of the topics that each ``CommandGetTopicsOfNamespace.Mode`` lists."""


class TopicCatalog:
    """Finds, creates and lists a cluster's topics, for the topic registry and clients' requests."""

    def __init__(
        self,
        policies: Policies,
        default: Callable[[], AutoTopicCreation],
        limits: Callable[[], CreationLimits],
        cluster: str,
        schemas: str = paths.SCHEMAS,
    ) -> None:
        """``default`` returns how topics are created where no policy says so, and ``limits`` how
        many there may be. ``schemas``: the parent of the nodes with topics' schemas.
        """
        self._policies = policies
        self._schemas = schemas
        self._limits = limits
        self._cluster = cluster
        self._default = default
        self._list = SingleFlight(self._listed)

    async def exists(self, topic: TopicName) -> bool:
        """Whether a persistent topic exists."""
        with store_errors_as_not_ready():
            return await self._policies.topic_exists(topic)

    async def is_usable(self, topic: TopicName) -> bool:
        """Whether a client can use a topic: it exists, or is created by that."""
        with store_errors_as_not_ready():
            return (
                not topic.is_persistent
                or await self._may_create(topic)
                or await self._policies.topic_exists(topic)
                or await self._partition_count(topic) is not None
            )

    def on_topics_changed(self, namespace: NamespaceName, listener: Notify) -> StopListening:
        """Call ``listener`` after each change of a namespace's persistent or partitioned topics."""
        return self._policies.on_topics_changed(namespace, listener)

    async def policies_of(self, topic: TopicName) -> JsonObject:
        """The policies in force for a topic, by their names in ``TopicPolicies``."""
        with store_errors_as_not_ready():
            return await self._policies.applied(topic, self._cluster)

    async def create(self, topic: TopicName) -> None:
        """Create a topic for a client; raises `BrokerError` if that is not allowed.

        A partition may be created if its partitioned topic has it. For any other topic the
        namespace's ``autoTopicCreationOverride`` decides, or else ``allowAutoTopicCreation``.
        """
        if is_pending_ack_log(topic):
            why = f"Can not create transaction system topic {topic}"
            raise BrokerError(ServerError.NotAllowedError, why)
        with store_errors_as_not_ready():
            if not await self._may_create(topic):
                raise BrokerError(ServerError.TopicNotFound, f"Topic {topic} does not exist")
            if topic.is_persistent:
                if topic.partition_index < 0:
                    await self.admit_topics(topic.namespace_name, 1)
                await self._policies.create_topic(topic)

    async def admit_topics(self, namespace: NamespaceName, count: int) -> None:
        """Raise `BrokerError` (NotAllowedError) if a namespace may not have ``count`` more topics.

        Its policy ``maxTopicsPerNamespace`` decides, or else the setting of this name.
        """
        maximum = (await self._policies.namespace(namespace) or {}).get("max_topics_per_namespace")
        most = maximum if isinstance(maximum, int) else self._limits().topics
        if 0 < most < len(await self._policies.topics(namespace)) + count:
            raise BrokerError(
                ServerError.NotAllowedError,
                f"Exceed maximum number of topics in namespace. (maxTopicsPerNamespace: {most})",
            )

    async def terminated(self, topic: TopicName) -> bool:
        """Whether a topic was terminated: nothing more may be published to it."""
        with store_errors_as_not_ready():
            record = await self._policies.topic_record(topic)
            return record is not None and record.terminated is not None

    async def terminate(self, topic: TopicName, last: Position) -> None:
        """Record for all brokers that a topic is terminated, after the entry at ``last``."""
        with store_errors_as_not_ready():
            await self._policies.terminate_topic(topic, last)

    async def delete(self, topic: TopicName) -> None:
        """Delete a topic, and first its schemas and policies: a new one must not get them."""
        with store_errors_as_not_ready():
            if topic.partition_index < 0:
                await self._policies.schemas(topic, self._schemas).delete(missing_ok=True)
                await self._policies.topic_policies(topic).delete(missing_ok=True)
            await self._policies.delete_topic(topic)

    async def delete_if_unparted(self, topic: TopicName) -> None:
        """Delete a partitioned topic's metadata once none of its partitions is left."""
        if topic.partition_index < 0:
            return
        whole = topic.partitioned_name
        with store_errors_as_not_ready():
            for index in range(await self._partition_count(whole) or 0):
                if await self._policies.topic_exists(whole.partition(index)):
                    return
            await self._policies.topic_policies(whole).delete(missing_ok=True)
            await self._policies.partitioned_topic(whole).delete(missing_ok=True)

    async def partitions(self, topic: TopicName, *, auto_create: bool = True) -> int:
        """A topic's number of partitions, 0 if it is not partitioned.

        With ``auto_create`` a missing topic is created as ``allowAutoTopicCreationType`` says.
        Raises `BrokerError` (TopicNotFound) if the namespace does not exist, or the topic does not
        and may not be created.
        """
        with store_errors_as_not_ready():
            if topic.partition_index >= 0:
                return 0
            found = await self._partition_count(topic)
            if found is not None:
                return found
            if await self._policies.namespace(topic.namespace_name) is None:
                if topic.namespace_name.bound_broker is not None:
                    return 0
                raise BrokerError(
                    ServerError.TopicNotFound, f"Namespace not found: {topic.namespace_name}"
                )
            if topic.is_persistent and await self._policies.topic_exists(topic):
                return 0
            return await self._partitions_of_new(topic, auto_create=auto_create)

    async def topics_of(
        self, namespace: NamespaceName, mode: str = "PERSISTENT"
    ) -> Sequence[TopicName]:
        """Return the topics of a namespace that the metadata store has, sorted.

        Of persistent topics those that were created, partitions included; of non-persistent ones
        all partitions of partitioned topics. ``mode`` is PERSISTENT, NON_PERSISTENT or ALL.
        Concurrent callers get the same tuple.
        """
        return await self._list((namespace, mode))

    async def _listed(self, key: tuple[NamespaceName, str]) -> tuple[TopicName, ...]:
        namespace, mode = key
        with store_errors_as_not_ready():
            found: set[TopicName] = set()
            for domain in DOMAINS_OF_MODE[mode]:
                if domain == PERSISTENT:
                    found.update(await self._policies.topics(namespace))
                    continue
                for topic in await self._policies.partitioned_topics(namespace, domain):
                    count = await self._partition_count(topic) or 0
                    async for some in in_pieces(range(count)):
                        found.update(map(topic.partition, some))
            return tuple(sorted(found, key=str))

    async def _partitions_of_new(self, topic: TopicName, *, auto_create: bool) -> int:
        rule = await self._rule(topic)
        if not (auto_create and rule.allowed):
            if topic.is_persistent:
                raise BrokerError(ServerError.TopicNotFound, f"Topic {topic} does not exist")
            return 0
        if rule.kind != "partitioned":
            return 0
        most = self._limits().partitions
        if 0 < most < rule.partitions:
            raise BrokerError(
                ServerError.NotAllowedError,
                f"Number of partitions should be less than or equal to {most}",
            )
        await self.admit_topics(topic.namespace_name, rule.partitions)
        try:
            await self._policies.create_partitioned_topic(topic, rule.partitions)
        except BadVersion:
            return await self._partition_count(topic) or 0
        return rule.partitions

    async def _partition_count(self, topic: TopicName) -> int | None:
        """Return a topic's number of partitions; None if no partitioned topic has this name."""
        found = await self._policies.partitioned_topic(topic).get()
        return None if found is None else int(found.get("partitions") or 0)

    async def _may_create(self, topic: TopicName) -> bool:
        policies = await self._policies.namespace(topic.namespace_name) or {}
        if topic.partition_index >= 0 and not policies.get("deleted"):
            partitions = await self._partition_count(topic.partitioned_name)
            if partitions is not None or not topic.is_persistent:
                return topic.partition_index < (partitions or 0)
        return (await self._rule(topic)).allowed

    async def _rule(self, topic: TopicName) -> AutoTopicCreation:
        """Return whether, and with how many partitions, a topic may be created automatically.

        The namespace's ``autoTopicCreationOverride`` decides, or else the broker's settings. A
        system topic always may.
        """
        policies = await self._policies.namespace(topic.namespace_name) or {}
        if policies.get("deleted"):
            return AutoTopicCreation(allowed=False)
        if is_used_by_brokers(topic):
            return AutoTopicCreation()
        override = policies.get("autoTopicCreationOverride")
        if not isinstance(override, dict) or not override:
            return self._default()
        return AutoTopicCreation(
            allowed=bool(override.get("allowAutoTopicCreation")),
            kind=str(override.get("topicType") or "non-partitioned"),
            partitions=int(override.get("defaultNumPartitions") or 1),
        )


def matching(topics: Iterable[TopicName], pattern: str | None) -> list[TopicName]:
    """The topics whose name without the domain matches a client's pattern (PIP-145).

    An invalid pattern selects everything: the client filters again itself.
    """
    if not pattern:
        return list(topics)
    try:
        regex = compile_pattern(pattern.rpartition("://")[2])
    except InvalidName:
        return list(topics)
    return [each for each in topics if regex.fullmatch(_whole(each))]


def _whole(topic: TopicName) -> str:
    """A topic's name without the domain and the partition's number."""
    name = str(topic).partition("://")[2]
    return name if topic.partition_index < 0 else name.rpartition(PARTITION_SUFFIX)[0]

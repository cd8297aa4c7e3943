"""``/admin/v2/{persistent|non-persistent}``: topics: list, create, delete, unload, statistics."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from aiohttp import web

from counterpoise.admin import access, errors, route
from counterpoise.admin.large_json import IN_A_TURN, encoded
from counterpoise.admin.packed import Packed, answer_with
from counterpoise.admin.redirect import ask, require_topic_owner
from counterpoise.admin.request import answer, body_of, broker_of, flag, namespace_of, topic_of
from counterpoise.admin.rest.namespaces import require_found, require_namespace
from counterpoise.admin.route import AUTHORITATIVE
from counterpoise.admin.shapes import FLAG, Json, Shape, map_of, nullable, text
from counterpoise.admin.shared_answers import SHARED
from counterpoise.admin.topic_json import internal_stats_json, topic_stats_json
from counterpoise.broker.face import BrokerError, Topic, WorkBudget, earliest_in_backlog, in_pieces
from counterpoise.names.bundle import BundleRange
from counterpoise.names.position import Position
from counterpoise.names.system_topics import is_pending_ack_log
from counterpoise.names.topic import NON_PERSISTENT, PERSISTENT, TopicName

DOMAIN = f"/admin/v2/{{domain:{PERSISTENT}|{NON_PERSISTENT}}}"
IN_NAMESPACE = f"{DOMAIN}/{{tenant}}/{{namespace}}"
TOPIC = f"{IN_NAMESPACE}/{{topic}}"


EXCLUDED = dict.fromkeys(("excludePublishers", "excludeConsumers"), FLAG)
STATS = EXCLUDED | dict.fromkeys(
    ("getPreciseBacklog", "subscriptionBacklogSize", "getEarliestTimeInBacklog"), FLAG
)
PROPERTIES = Shape(nullable(map_of(text())))
_MANY: Final = 500
"""From this many subscriptions on, requests for a topic's statistics at the same time share one
response."""


routes = route.Routes()


@routes.get(
    IN_NAMESPACE, access.namespace("GET_TOPICS"), {"bundle": text(), "includeSystemTopic": FLAG}
)
async def names(request: web.Request) -> web.Response:
    """The topics of a namespace, or with ``bundle=0x…_0x…`` of a bundle; partitions are topics."""
    namespace, domain = namespace_of(request), request.match_info["domain"]
    await require_namespace(request, namespace)
    broker = broker_of(request)
    if domain == PERSISTENT:
        found = await broker.policies.topics(namespace, domain)
    else:
        found = await _non_persistent(request)
    bundle_range = request.query.get("bundle")
    if bundle_range:
        bundles = await broker.namespaces.bundles(namespace)
        bundle = bundles.validate(BundleRange.parse(bundle_range))
        within: list[TopicName] = []
        async for some in in_pieces(found):
            within += filter(bundle.__contains__, some)
        found = within
    return answer([str(each) for each in found])


@routes.put(TOPIC, access.namespace("CREATE_TOPIC"), PROPERTIES, AUTHORITATIVE)
async def create(request: web.Request) -> None:
    """Create a topic without partitions."""
    topic, broker = topic_of(request), broker_of(request)
    refuse_pending_ack_log(topic)
    await require_found(request, topic.namespace_name)
    count = await _count_of_whole(request, topic)
    if topic.partition_index >= (count or 0):
        whole = topic.partitioned_name.local_name
        raise errors.precondition_failed(
            f'Can\'t create topic {topic.local_name} with "-partition-" followed by '
            + (
                f"numeric value if there isn't a partitioned topic {whole} created."
                if count is None
                else f"a number smaller than number of partition of partitioned topic {whole}"
            )
        )
    exists = topic.is_persistent and await broker.policies.topic_exists(topic)
    if exists or await broker.policies.partitioned_topic(topic).get() is not None:
        raise errors.conflict("This topic already exists")
    await require_topic_owner(request, topic)
    if topic.is_persistent:
        if topic.partition_index < 0:
            await require_room(request, topic, 1)
        await broker.policies.create_topic(topic, body_of(request))
    await broker.topics.get(topic, by_policies=False)


async def require_room(request: web.Request, topic: TopicName, count: int) -> None:
    """Return if the namespace may have more topics (``maxTopicsPerNamespace``); 412 otherwise."""
    try:
        await broker_of(request).catalog.admit_topics(topic.namespace_name, count)
    except BrokerError as error:
        raise errors.precondition_failed(error.message) from None


@routes.delete(TOPIC, access.namespace("DELETE_TOPIC"), query=route.FORCE)
async def delete(request: web.Request) -> None:
    """Delete a topic; 412 while it has clients or subscriptions, unless ``force=true``."""
    topic, broker = await topic_in_namespace(request, names_topic=True), broker_of(request)
    if await broker.policies.partitioned_topic(topic).get() is not None:
        raise errors.conflict(
            f"{topic} is a partitioned topic, instead of calling delete topic, please call "
            "delete-partitioned-topic."
        )
    if not topic.is_persistent:
        await require_topic_owner(request, topic)
        if topic not in broker.topics.loaded:
            return
    await require_exists(request, topic)
    await require_loaded(request, topic)
    try:
        await broker.topics.delete(topic, force=flag(request, "force"))
    except BrokerError as error:
        if error.code.name == "PersistenceError":
            raise
        # What the binary protocol calls not allowed, the REST API calls a failed precondition.
        raise errors.precondition_failed(error.message) from None


@routes.put(f"{TOPIC}/unload", access.topic("UNLOAD"))
async def unload(request: web.Request) -> None:
    """Close a topic on this broker; its clients reconnect, and so open it again."""
    topic, broker = await topic_in_namespace(request), broker_of(request)
    count = await partition_count(request, topic)
    if count is not None:
        for index in range(count):
            await ask(request, "PUT", f"{path_of(topic.partition(index))}/unload")
        return
    await require_loaded(request, topic)
    await broker.topics.unload_topic(topic)


@routes.get(f"{TOPIC}/stats", access.topic("GET_STATS"), STATS)
async def stats(request: web.Request) -> web.StreamResponse:
    """The statistics of a topic, its producers, subscriptions and consumers."""
    topic = await topic_in_namespace(request)
    loaded = await require_loaded(request, topic)

    async def figures() -> dict[str, Json]:
        found = await stats_json(request, loaded)
        if flag(request, "getEarliestTimeInBacklog"):
            await _add_earliest(loaded, found)
        return found

    return await _answer(request, loaded, figures)


async def _answer(
    request: web.Request, topic: Topic, figures: Callable[[], Awaitable[Json]]
) -> web.StreamResponse:
    """The statistics of a topic. Those of a large topic are megabytes, so requests that come at
    the same time share one answer.
    """

    async def written() -> Packed:
        return await encoded(await figures())

    if len(topic.subscriptions) < _MANY:
        return answer_with(await written())
    return answer_with(await request.app[SHARED].get(request.path_qs, written))


async def stats_json(request: web.Request, topic: Topic) -> dict[str, Json]:
    """``TopicStats`` of a topic of this broker."""
    found = await topic_stats_json(topic, broker_of(request).id)
    if not flag(request, "subscriptionBacklogSize", default=True):
        for subscription in found["subscriptions"].values():
            subscription["backlogSize"] = -1
    if flag(request, "excludePublishers"):
        found["publishers"] = []
    if flag(request, "excludeConsumers"):
        for subscription in found["subscriptions"].values():
            subscription["consumers"] = []
    return found


async def _add_earliest(topic: Topic, found: dict[str, Json]) -> None:
    """Add the publish time of the oldest message that some subscription has not acknowledged."""
    oldest, turns = [], WorkBudget(IN_A_TURN)
    for name, subscription in list(topic.subscriptions.items()):
        if name not in found["subscriptions"]:
            continue
        await turns.did()
        at = await earliest_in_backlog(subscription.log, subscription.acks)
        found["subscriptions"][name]["earliestMsgPublishTimeInBacklog"] = -1 if at is None else at
        oldest += [] if at is None else [at]
    found["earliestMsgPublishTimeInBacklogs"] = min(oldest, default=0)


@routes.get(f"{TOPIC}/internalStats", access.topic("GET_STATS"))
async def internal_stats(request: web.Request) -> web.StreamResponse:
    """The ledgers and cursors of a topic (``PersistentTopicInternalStats``)."""
    topic = await topic_in_namespace(request)
    loaded = await require_loaded(request, topic)
    return await _answer(request, loaded, lambda: internal_stats_json(loaded))


@routes.get(f"{TOPIC}/lastMessageId", access.topic("PEEK_MESSAGES"))
async def last_message_id(request: web.Request) -> web.Response:
    """The id of the last stored message; -1:-1 if there is none."""
    topic = await topic_in_namespace(request, names_topic=True)
    loaded = await require_loaded(request, topic)
    if not topic.is_persistent:
        raise errors.not_allowed("GetLastMessageId on a non-persistent topic is not allowed")
    return answer(message_id_json(topic, loaded.last_message_id()))


def message_id_json(topic: TopicName, position: Position) -> Json:
    """The id of a message that is an entry of its own."""
    return {
        "ledgerId": position.ledger_id,
        "entryId": position.entry_id,
        "partitionIndex": topic.partition_index,
        "batchIndex": -1,
        "batchSize": 0,
    }


async def topic_in_namespace(request: web.Request, *, names_topic: bool = False) -> TopicName:
    """The topic in the path; 404 if its namespace does not exist.

    ``names_topic``: the reason is that the topic was not found, as Pulsar answers on some routes.
    """
    topic = topic_of(request)
    if names_topic and await broker_of(request).policies.namespace(topic.namespace_name) is None:
        raise errors.not_found(f"Topic {topic} not found")
    await require_found(request, topic.namespace_name)
    return topic


async def persistent_topic(request: web.Request, *, names_topic: bool = False) -> TopicName:
    """The topic in the path, as `topic_in_namespace`; 406 for one that stores nothing."""
    topic = await topic_in_namespace(request, names_topic=names_topic)
    if not topic.is_persistent:
        raise errors.RestError(HTTPStatus.NOT_ACCEPTABLE, "Need to provide a persistent topic name")
    return topic


async def require_loaded(request: web.Request, topic: TopicName) -> Topic:
    """The opened topic; 404 if it does not exist, 307 if another broker owns it.

    A partition of a non-persistent topic exists as soon as the partitioned topic does.
    """
    await require_topic_owner(request, topic)
    broker, creates = broker_of(request), False
    if topic not in broker.topics.loaded:
        known = topic.is_persistent and await broker.policies.topic_exists(topic)
        count = None if known else await _count_of_whole(request, topic)
        if not known and count is None:
            raise errors.not_found(f"Topic {topic} not found")
        if count is not None and topic.partition_index >= count:
            raise errors.not_found("Topic partitions were not yet created")
        creates = not topic.is_persistent
    return await broker.topics.get(topic, create=creates)


async def require_exists(request: web.Request, topic: TopicName) -> None:
    """Raise 404 if there is no such topic, partitioned or not.

    A non-persistent topic is known to its owner alone: 307 if that is another broker.
    """
    policies = broker_of(request).policies
    if await policies.partitioned_topic(topic).get() is not None:
        return
    if topic.is_persistent:
        if not await policies.topic_exists(topic):
            raise errors.not_found(f"Topic {topic} not found")
    elif await policies.namespace(topic.namespace_name) is None:
        raise errors.not_found(f"Topic {topic} not found")
    else:
        await require_loaded(request, topic)


def path_of(topic: TopicName) -> str:
    """The URL path of a topic's resource, percent-encoded."""
    return f"/admin/v2/{topic.rest_path}"


def refuse_pending_ack_log(topic: TopicName) -> None:
    """Raise 400 for the name of a log of pending acknowledgements, which no client may create."""
    if is_pending_ack_log(topic):
        raise errors.bad_request("Cannot create topic in system topic format!")


def subscription_path(topic: str, name: str) -> str:
    """The URL path of a subscription; its name is encoded twice, as Pulsar reads it."""
    return f"{topic}/subscription/{quote(quote(name, safe=''), safe='')}"


async def _count_of_whole(request: web.Request, topic: TopicName) -> int | None:
    """The number of partitions of the partitioned topic that ``topic`` is a partition of.

    None if it is not a partition, or there is no such partitioned topic.
    """
    if topic.partition_index < 0:
        return None
    return await partition_count(request, topic.partitioned_name)


async def partition_count(request: web.Request, topic: TopicName) -> int | None:
    """The number of partitions of a topic; None if it is not partitioned."""
    found = await broker_of(request).policies.partitioned_topic(topic).get()
    return None if found is None else int(found["partitions"])


async def _non_persistent(request: web.Request) -> list[TopicName]:
    """The non-persistent topics of a namespace; only owners know them: every broker is asked."""
    namespace, broker = namespace_of(request), broker_of(request)
    found: set[TopicName] = set()
    if flag(request, "local"):
        brokers: list[str] = []
    else:
        brokers = [each for each in await broker.active_brokers() if each != broker.id]
    path = f"/admin/v2/{NON_PERSISTENT}/{namespace}?local=true"
    for each in brokers:
        listed: Json = await ask(request, "GET", path, broker_id=each)
        found.update(map(TopicName.parse, listed))
    for topic in broker.topics.loaded:
        if topic.namespace_name == namespace and not topic.is_persistent:
            found.add(topic)
    return sorted(found)

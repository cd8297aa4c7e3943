"""A topic's storage: ledgers, size of its backlog, trimming, compaction, offload, termination."""

from aiohttp import web

from counterpoise.admin import access, route
from counterpoise.admin.errors import bad_request, conflict, not_allowed
from counterpoise.admin.large_json import large_answer
from counterpoise.admin.many import ask_each
from counterpoise.admin.request import answer, body_of, broker_of, nothing
from counterpoise.admin.rest.subscriptions import (
    MESSAGE_ID,
    SUBSCRIPTION,
    on_partitions,
    partitions_of,
    refuse_partitioned,
    require_subscription,
    stored,
    storing_topic,
)
from counterpoise.admin.rest.topics import (
    TOPIC,
    path_of,
    persistent_topic,
    require_loaded,
    topic_in_namespace,
)
from counterpoise.admin.route import AUTHORITATIVE
from counterpoise.admin.shapes import Json, Shape, nullable
from counterpoise.admin.topic_json import managed_ledger_json
from counterpoise.broker.face import BrokerError, Subscription, survey
from counterpoise.names.topic import TopicName

POSITION = Shape(nullable(MESSAGE_ID.schema))
_NO_MESSAGE: Json = {
    **dict.fromkeys(("ledgerId", "entryId", "partitionIndex", "batchIndex"), -1),
    "batchSize": 0,
}
_NO_OFFLOADER = (
    "org.apache.bookkeeper.mledger.ManagedLedgerException: "
    "[NullLedgerOffloader] does not support offload"
)

routes = route.Routes()


@routes.get(f"{TOPIC}/internal-info", access.topic("GET_STATS"), AUTHORITATIVE)
async def internal_info(request: web.Request) -> web.StreamResponse:
    """``ManagedLedgerInfo``: a topic's ledgers, and the position of each subscription; of a
    partitioned topic, that of each partition.
    """
    name = await storing_topic(request, "GetInternalInfo")
    partitions = await partitions_of(request, name)
    if partitions:
        paths = [f"{path_of(each)}/internal-info" for each in partitions]
        found = zip(map(str, partitions), await ask_each(request, "GET", paths), strict=True)
        return await large_answer({"version": 0, "partitions": dict(found)})
    topic = await stored(request, name)
    record = await broker_of(request).policies.topic_record(topic.name)
    properties = record.properties if record is not None else {}
    return await large_answer(await managed_ledger_json(topic, properties))


@routes.put(f"{TOPIC}/backlogSize", access.topic("GET_BACKLOG_SIZE"), POSITION, AUTHORITATIVE)
async def backlog_size(request: web.Request) -> web.Response:
    """Bytes stored after a message id; without one, all that is stored."""
    topic, position = await storing_topic(request, "GetBacklogSize"), body_of(request)
    why = "calculate backlog size is not allowed for partitioned-topic"
    await refuse_partitioned(request, topic, why)
    log = (await stored(request, topic)).log
    begin = log.begin
    if position is not None and int(position["ledgerId"]) >= 0:
        begin = log.index_after((int(position["ledgerId"]), int(position["entryId"])))
    entries = log.end - log.begin
    left = max(log.end - max(begin, log.begin), 0)
    return answer(left * log.size // entries if entries else 0)


@routes.post(f"{SUBSCRIPTION}/analyzeBacklog", access.topic("CONSUME"), POSITION, AUTHORITATIVE)
async def analyze(request: web.Request) -> web.Response:
    """The number of entries and messages in a subscription's backlog."""
    topic = await topic_in_namespace(request)
    why = "Analyze backlog on a partitioned topic is not allowed, please try do it on specific "
    await refuse_partitioned(request, topic, f"{why}topic partition")
    found = await require_subscription(request, topic)
    survey_result = await survey(found.log, found.acks)
    return answer(
        {
            "entries": survey_result.entries,
            "messages": survey_result.messages,
            "filterRejectedEntries": 0,
            "filterAcceptedEntries": survey_result.entries,
            "filterRescheduledEntries": 0,
            "filterRejectedMessages": 0,
            "filterAcceptedMessages": survey_result.messages,
            "filterRescheduledMessages": 0,
            "firstMessageId": _id_of(found, survey_result.first),
            "lastMessageId": _id_of(found, survey_result.last),
            "aborted": not survey_result.complete,
        }
    )


@routes.post(f"{TOPIC}/trim", access.topic("TRIM_TOPIC"), query=AUTHORITATIVE)
async def trim(request: web.Request) -> web.Response:
    """Delete at once, not at the next check, the messages that every subscription has
    acknowledged.
    """
    topic = await topic_in_namespace(request, names_topic=True)
    if not topic.is_persistent:
        raise not_allowed("Trim on a non-persistent topic is not allowed")
    if not await on_partitions(request, topic, "trim"):
        await (await stored(request, topic)).trim()
    return nothing()


@routes.put(f"{TOPIC}/compaction", access.topic("COMPACT"), query=AUTHORITATIVE)
async def compact(request: web.Request) -> None:
    """Start compacting a topic; 409 while it is being compacted."""
    topic = await storing_topic(request, "Compaction")
    if await on_partitions(request, topic, "compaction"):
        return
    compaction = (await stored(request, topic)).compaction
    if compaction.is_running:
        raise conflict("Compaction already in progress")
    background = broker_of(request).background
    background.start(f"compacting {topic}", compaction.compact(), expected=(BrokerError,))


@routes.get(f"{TOPIC}/compaction", access.topic("COMPACT"), AUTHORITATIVE)
async def compaction_status(request: web.Request) -> web.Response:
    """``LongRunningProcessStatus`` of the last compaction since the topic was loaded."""
    await topic_in_namespace(request, names_topic=True)
    compaction = (await stored(request, await storing_topic(request, "Compaction"))).compaction
    return answer({"status": compaction.status, "lastError": compaction.last_error})


@routes.get(f"{TOPIC}/offload", access.topic("OFFLOAD"), AUTHORITATIVE)
async def offload_status(request: web.Request) -> web.Response:
    """``OffloadProcessStatus`` of a Pulsar without an offloader: not run, or failed."""
    await topic_in_namespace(request, names_topic=True)
    failed = (await stored(request, await storing_topic(request, "Offload"))).offload_failed
    status, error = ("ERROR", _NO_OFFLOADER) if failed else ("NOT_RUN", "")
    return answer({"status": status, "lastError": error, "firstUnoffloadedMessage": _NO_MESSAGE})


@routes.put(f"{TOPIC}/offload", access.topic("OFFLOAD"), POSITION, AUTHORITATIVE)
async def offload(request: web.Request) -> None:
    """Accept the request, as a Pulsar without an offloader does; the status is an error
    afterwards.
    """
    if body_of(request) is None:
        raise bad_request("messageId is null")
    (await stored(request, await storing_topic(request, "Offload"))).offload_failed = True


@routes.post(f"{TOPIC}/terminate", access.topic("TERMINATE"), query=AUTHORITATIVE)
async def terminate(request: web.Request) -> web.Response:
    """Terminate a topic: nothing can be published any more. Answers with the last message's id."""
    topic = await persistent_topic(request)
    await refuse_partitioned(request, topic, "Termination of a partitioned topic is not allowed")
    await require_loaded(request, topic)
    return answer(_id_json(topic, await broker_of(request).topics.terminate(topic)))


@routes.post(f"{TOPIC}/terminate/partitions", access.topic("TERMINATE"), query=AUTHORITATIVE)
async def terminate_all(request: web.Request) -> web.Response:
    """Terminate each partition; answers with the ids of their last messages, by number."""
    topic = await topic_in_namespace(request)
    partitions = await partitions_of(request, topic) if topic.is_persistent else []
    if not partitions:
        raise not_allowed(
            "Termination of a non-partitioned topic is not allowed using partitioned-terminate, "
            "please use terminate commands"
        )
    answers = await ask_each(request, "POST", [f"{path_of(each)}/terminate" for each in partitions])
    # As in Pulsar: only the key shows to which partition an id belongs.
    ids = ({**each, "partitionIndex": -1} for each in answers)
    return answer({str(number): each for number, each in enumerate(ids)})


def _id_of(subscription: Subscription, index: int) -> str | None:
    log = subscription.log
    return str(log.position(index)) if index >= log.begin else None


def _id_json(topic: TopicName, position: tuple[int, int]) -> Json:
    return {
        "ledgerId": position[0],
        "entryId": position[1],
        "partitionIndex": topic.partition_index,
    }

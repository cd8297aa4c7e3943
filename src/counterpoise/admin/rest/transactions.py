"""``/admin/v3/transactions``: coordinators, and the transactions in topics and subscriptions."""

from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from aiohttp import web

from counterpoise.admin import access, route
from counterpoise.admin.errors import RestError, not_allowed, not_found
from counterpoise.admin.many import ask_each
from counterpoise.admin.parameters import whole_number
from counterpoise.admin.redirect import require_topic_owner
from counterpoise.admin.request import answer, body_of, broker_of, flag, number_of, topic_of
from counterpoise.admin.rest.topics import partition_count
from counterpoise.admin.route import AUTHORITATIVE
from counterpoise.admin.shapes import FLAG, Json, Shape, whole
from counterpoise.admin.transaction_json import (
    buffer_json,
    coordinator_json,
    coordinator_log_json,
    in_buffer_json,
    in_pending_acks_json,
    pending_acks_json,
    pending_state,
    transaction_json,
)
from counterpoise.broker import face
from counterpoise.names.system_topics import TRANSACTION_COORDINATORS
from counterpoise.names.topic import TopicName

BASE = "/admin/v3/transactions"
_TOPIC = "{tenant}/{namespace}/{topic}"
_SUBSCRIPTION = f"{_TOPIC}/{{subscription}}"
_ID = "{mostSigBits}/{leastSigBits}"
_ASSIGNMENT: Final = TopicName.parse(TRANSACTION_COORDINATORS)
_OF_ONE = {"coordinatorId": whole(), **AUTHORITATIVE}
_MARKS = {"lowWaterMarks": FLAG, **AUTHORITATIVE}
_METADATA = {"metadata": FLAG, **AUTHORITATIVE}


routes = route.Routes()


@routes.get(f"{BASE}/coordinators", access.KNOWN)
async def coordinators(request: web.Request) -> web.Response:
    """``TransactionCoordinatorInfo`` of each coordinator: which broker runs it."""
    _require_enabled(request)
    partitions = [_ASSIGNMENT.partition(number) for number in range(await _count(request))]
    # By lookups, which are redirected to the broker that decides.
    owners = await ask_each(
        request, "GET", [f"/lookup/v2/topic/{each.rest_path}" for each in partitions]
    )
    urls = [each.get("brokerUrl") or each.get("brokerUrlTls") for each in owners]
    return answer([{"id": number, "brokerServiceUrl": url} for number, url in enumerate(urls)])


@routes.get(f"{BASE}/coordinatorStats", access.SUPER_USER, _OF_ONE)
async def coordinator_stats(request: web.Request) -> web.Response:
    """``TransactionCoordinatorStats`` of one coordinator, or of all by their numbers."""
    _require_enabled(request)
    number = _wanted(request)
    if number is None:
        answers = await _of_each(request, "coordinatorStats")
        return answer({str(each): stats for each, stats in enumerate(answers)})
    return answer(coordinator_json(await _coordinator(request, number)))


@routes.get(f"{BASE}/coordinatorInternalStats/{{coordinatorId}}", access.KNOWN, _METADATA)
async def coordinator_log(request: web.Request) -> web.Response:
    """``TransactionCoordinatorInternalStats``: the log of a coordinator."""
    _require_enabled(request)
    found = await _coordinator(request, number_of(request, "coordinatorId"))
    return answer(await coordinator_log_json(found))


@routes.get(f"{BASE}/transactionMetadata/{_ID}", access.KNOWN, AUTHORITATIVE)
async def metadata(request: web.Request) -> web.Response:
    """``TransactionMetadata``: a transaction that has not ended, and what it did where."""
    _require_enabled(request)
    coordinator, transaction = await _of_transaction(request)
    return answer(await _with_participants(request, coordinator.table.find(transaction)))


@routes.get(f"{BASE}/slowTransactions/{{timeout}}", access.SUPER_USER, _OF_ONE)
async def slow(request: web.Request) -> web.Response:
    """``TransactionMetadata`` by id, of transactions with a time-out above ``timeout`` ms."""
    _require_enabled(request)
    timeout_ms, number = number_of(request, "timeout"), _wanted(request)
    if number is None:
        answers = await _of_each(request, f"slowTransactions/{timeout_ms}")
        return answer({name: each for of_one in answers for name, each in of_one.items()})
    coordinator = await _coordinator(request, number)
    return answer(
        {
            str(each.id): await _with_participants(request, each)
            for each in [*coordinator.table.transactions.values()]
            if each.timeout_ms > timeout_ms
        }
    )


@routes.post(f"{BASE}/abortTransaction/{_ID}", access.SUPER_USER, query=AUTHORITATIVE)
async def abort(request: web.Request) -> None:
    """Abort an open transaction; returns when every participant has done so."""
    _require_enabled(request)
    coordinator, transaction = await _of_transaction(request)
    await coordinator.end(transaction, commit=False)


@routes.post(f"{BASE}/transactionCoordinator/replicas", access.SUPER_USER, Shape(whole()))
async def scale(request: web.Request) -> None:
    """Set the number of coordinators; it can only grow."""
    _require_enabled(request)
    requested = body_of(request)

    def widened(now: dict[str, Json]) -> dict[str, Json]:
        if int(now["partitions"]) >= requested:
            raise RestError(
                HTTPStatus.NOT_ACCEPTABLE,
                "Number of transaction coordinators should be more than the current number of "
                "transaction coordinator",
            )
        return {**now, "partitions": requested}

    await broker_of(request).policies.partitioned_topic(_ASSIGNMENT).change(widened)


@routes.get(
    f"{BASE}/transactionBufferStats/{_TOPIC}", access.KNOWN, {"segmentStats": FLAG, **_MARKS}
)
async def buffer_stats(request: web.Request) -> web.Response:
    """``TransactionBufferStats``: the transactions that have messages in a topic."""
    topic = await _topic(request)
    return answer(buffer_json(topic, low_watermarks=flag(request, "lowWaterMarks")))


@routes.get(f"{BASE}/transactionBufferInternalStats/{_TOPIC}", access.KNOWN, _METADATA)
async def buffer_log(request: web.Request) -> web.Response:
    """Always 404: a topic's transactions are in its own log; there is no snapshot log to show."""
    await _topic(request)
    raise not_found("Transaction buffer Snapshot for the topic does not exist")


@routes.get(f"{BASE}/transactionInBufferStats/{_TOPIC}/{_ID}", access.KNOWN, AUTHORITATIVE)
async def in_buffer(request: web.Request) -> web.Response:
    """``TransactionInBufferStats``: one transaction in a topic."""
    return answer(in_buffer_json(await _topic(request), _id_of(request)))


@routes.get(f"{BASE}/pendingAckStats/{_SUBSCRIPTION}", access.KNOWN, _MARKS)
async def pending_ack_stats(request: web.Request) -> web.Response:
    """``TransactionPendingAckStats``: the transactions that acknowledge on a subscription."""
    found = await _subscription(request)
    return answer(pending_acks_json(found, low_watermarks=flag(request, "lowWaterMarks")))


@routes.get(f"{BASE}/pendingAckInternalStats/{_SUBSCRIPTION}", access.KNOWN, _METADATA)
async def pending_ack_log(request: web.Request) -> web.Response:
    """Always 405: pending acknowledgements have no log; the cursor stores them."""
    if (await _subscription(request)).transactions is None:
        raise RestError(HTTPStatus.SERVICE_UNAVAILABLE, "Pending ack have not init success!")
    raise not_allowed("Pending ack handle don't use managedLedger!")


@routes.get(
    f"{BASE}/transactionInPendingAckStats/{_SUBSCRIPTION}/{_ID}", access.KNOWN, AUTHORITATIVE
)
async def in_pending_acks(request: web.Request) -> web.Response:
    """``TransactionInPendingAckStats``: one transaction on a subscription."""
    return answer(in_pending_acks_json(await _subscription(request), _id_of(request)))


@routes.get(
    f"{BASE}/positionStatsInPendingAck/{_SUBSCRIPTION}/{{ledgerId}}/{{entryId}}",
    access.KNOWN,
    {"batchIndex": whole(), **AUTHORITATIVE},
)
async def position_stats(request: web.Request) -> web.Response:
    """``PositionInPendingAckStats``: whether an open transaction acknowledges a message."""
    found, batch_index = await _subscription(request), request.query.get("batchIndex")
    position = number_of(request, "ledgerId"), number_of(request, "entryId")
    within = None if batch_index is None else whole_number(batch_index)
    return answer({"state": pending_state(found, position, within)})


def _require_enabled(request: web.Request) -> None:
    if not broker_of(request).transactions.enabled:
        raise RestError(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "This Broker is not configured with transactionCoordinatorEnabled=true.",
        )


def _id_of(request: web.Request) -> face.TransactionId:
    return face.TransactionId(number_of(request, "mostSigBits"), number_of(request, "leastSigBits"))


def _wanted(request: web.Request) -> int | None:
    number = request.query.get("coordinatorId")
    return None if number is None else whole_number(number)


async def _count(request: web.Request) -> int:
    return await partition_count(request, _ASSIGNMENT) or 0


async def _of_each(request: web.Request, what: str) -> list[dict[str, Json]]:
    """The response of each coordinator, in order."""
    count = await _count(request)
    if not count:
        raise not_found("Transaction coordinator not found")
    return await ask_each(
        request, "GET", (f"{BASE}/{what}?coordinatorId={number}" for number in range(count))
    )


async def _coordinator(
    request: web.Request,
    number: int,
    absent: str = "Transaction coordinator not found! coordinator id : {}",
) -> face.Coordinator:
    """The coordinator with this number, opened if no client has used it yet; 307 to its broker."""
    if not 0 <= number < await _count(request):
        raise not_found(absent.format(number))
    await require_topic_owner(request, _ASSIGNMENT.partition(number))
    return await broker_of(request).transactions.connect(number)


async def _of_transaction(request: web.Request) -> tuple[face.Coordinator, face.TransactionId]:
    """The transaction in the path and its coordinator; raises like `_coordinator`."""
    transaction = _id_of(request)
    absent = "Transaction coordinator with id {} not found!"
    return await _coordinator(request, transaction.coordinator, absent), transaction


async def _topic(request: web.Request) -> face.PersistentTopic:
    """The topic in the path, if it is loaded here; 307 if another broker owns it."""
    _require_enabled(request)
    name = topic_of(request)
    await require_topic_owner(request, name)
    loaded = broker_of(request).topics.loaded.get(name)
    if not isinstance(loaded, face.PersistentTopic):
        raise not_found(f"Topic not found {name}")
    return loaded


async def _subscription(request: web.Request) -> face.Subscription:
    topic, name = await _topic(request), request.match_info["subscription"]
    found = topic.subscriptions.get(name)
    if found is None:
        raise not_found(f"{topic.name} not found subscription : {name}")
    return found


async def _with_participants(
    request: web.Request, transaction: face.CoordinatedTransaction
) -> dict[str, Json]:
    """A transaction with the state that each topic and subscription reports."""
    most, least = transaction.id
    topics, subscriptions = [*transaction.topics], [*transaction.subscriptions]
    produced = await ask_each(
        request,
        "GET",
        [f"{BASE}/transactionInBufferStats/{_path(each)}/{most}/{least}" for each in topics],
    )
    acknowledged = await ask_each(
        request,
        "GET",
        [
            f"{BASE}/transactionInPendingAckStats/{_path(topic)}/{quote(name, safe='')}"
            f"/{most}/{least}"
            for topic, name in subscriptions
        ],
    )
    by_topic: dict[str, Json] = {}
    for (topic, name), stats in zip(subscriptions, acknowledged, strict=True):
        by_topic.setdefault(topic, {})[name] = stats
    return {
        **transaction_json(transaction),
        "producedPartitions": dict(zip(topics, produced, strict=True)),
        "ackedPartitions": by_topic,
    }


def _path(topic: str) -> str:
    return TopicName.parse(topic).rest_path.partition("/")[2]

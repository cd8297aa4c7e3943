"""A topic's statistics as JSON: Pulsar's ``TopicStats``, ``PersistentTopicInternalStats``."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

from counterpoise.admin.large_json import IN_A_TURN, each_in_turns, in_turns
from counterpoise.admin.subscription_json import JsonObject, subscription_json, timestamp
from counterpoise.broker import face
from counterpoise.names.topic import url_encoded

RANGES_IN_A_TURN: Final = 500
"""How many acknowledged ranges are written before other tasks of the event loop run."""

_COMPACTION_FIGURES = (
    "lastCompactionRemovedEventCount",
    "lastCompactionSucceedTimestamp",
    "lastCompactionFailedTimestamp",
    "lastCompactionDurationTimeInMills",
)
_TRANSACTION_FIGURES = ("ongoingTxnCount", "abortedTxnCount", "committedTxnCount")

NOT_MEASURED: Mapping[str, Any] = {
    "systemTopicBytesInCounter": 0,
    "bytesOutInternalCounter": 0,
    "msgChunkPublished": False,
    "backlogQuotaLimitSize": -1,
    "backlogQuotaLimitTime": -1,
    "oldestBacklogMessageAgeSeconds": -1,
    "earliestMsgPublishTimeInBacklogs": 0,
    "offloadedStorageSize": 0,
    "lastOffloadLedgerId": 0,
    "lastOffloadSuccessTimeStamp": 0,
    "lastOffloadFailureTimeStamp": 0,
    **dict.fromkeys(_TRANSACTION_FIGURES, 0),
    "replication": {},
    "nonContiguousDeletedMessagesRanges": 0,
    "nonContiguousDeletedMessagesRangesSerializedSize": 0,
    "delayedMessageIndexSizeInBytes": 0,
    "compaction": dict.fromkeys(_COMPACTION_FIGURES, 0),
}
"""Figures that clients and tools expect and this broker does not measure."""

SUMMED_TOPIC_FIGURES = (
    *"""
    msgRateIn msgThroughputIn msgRateOut msgThroughputOut bytesInCounter msgInCounter
    bytesOutCounter msgOutCounter storageSize backlogSize waitingPublishers
    publishRateLimitedTimes
    """.split(),
    *_TRANSACTION_FIGURES,
)
SUMMED_SUBSCRIPTION_FIGURES = tuple(
    """
    msgRateOut msgThroughputOut bytesOutCounter msgOutCounter msgRateRedeliver msgBacklog
    backlogSize msgBacklogNoDelayed unackedMessages
    """.split()
)
SUMMED_PUBLISHER_FIGURES = ("msgRateIn", "msgThroughputIn")
SUMMED_CONSUMER_FIGURES = tuple(
    """
    msgRateOut messageAckRate msgThroughputOut bytesOutCounter msgOutCounter msgRateRedeliver
    availablePermits unackedMessages
    """.split()
)


async def topic_stats_json(topic: face.Topic, broker_id: str) -> JsonObject:
    """``TopicStats``: rates are messages or bytes a second, counters since the topic was loaded."""
    subscriptions = await in_turns(sorted(topic.subscriptions.items()), subscription_json)
    producers = list(topic.producers.all())
    publishers = await each_in_turns(producers, partial(_publisher_of, topic))
    return {
        **NOT_MEASURED,
        "msgRateIn": topic.meter_in.rate,
        "msgThroughputIn": topic.meter_in.byte_rate,
        "msgRateOut": topic.meter_out.rate,
        "msgThroughputOut": topic.meter_out.byte_rate,
        "bytesInCounter": topic.meter_in.bytes,
        "msgInCounter": topic.meter_in.messages,
        "bytesOutCounter": topic.meter_out.bytes,
        "msgOutCounter": topic.meter_out.messages,
        "averageMsgSize": topic.meter_in.average_size,
        "publishRateLimitedTimes": topic.commons.limits.throttled_times(topic),
        "storageSize": topic.log.size if isinstance(topic, face.PersistentTopic) else 0,
        "backlogSize": max((each["backlogSize"] for each in subscriptions.values()), default=0),
        "publishers": publishers,
        "waitingPublishers": sum(not each.ready for each in producers),
        "subscriptions": subscriptions,
        "ownerBroker": broker_id,
        **(_stored_json(topic) if isinstance(topic, face.PersistentTopic) else _NOTHING_STORED),
    }


_NOTHING_STORED = {
    "backlogQuotaLimitSize": 0,
    "backlogQuotaLimitTime": 0,
    "oldestBacklogMessageAgeSeconds": 0,
}
"""Pulsar's values for a non-persistent topic, which has no backlog."""


def _stored_json(topic: face.PersistentTopic) -> JsonObject:
    status = "Enabled" if topic.rules.deduplicates else "Disabled"
    compaction = topic.compaction.stats
    figures = (
        compaction.removed,
        compaction.succeeded_ms,
        compaction.failed_ms,
        compaction.took_ms,
    )
    return {
        "deduplicationStatus": status,
        "compaction": dict(zip(_COMPACTION_FIGURES, figures, strict=True)),
        **_transactions_json(topic),
        **_lost_json(topic),
    }


def _transactions_json(topic: face.PersistentTopic) -> JsonObject:
    """How many transactions had messages here; without any, the zeros of `NOT_MEASURED` stand."""
    if topic.transactions is None:
        return {}
    buffer = topic.transactions.buffer
    ended = buffer.ended_by[face.Marker.ABORT], buffer.ended_by[face.Marker.COMMIT]
    return dict(zip(_TRANSACTION_FIGURES, (len(buffer.open), *ended), strict=True))


def _lost_json(topic: face.PersistentTopic) -> JsonObject:
    """The messages that a topic's storage has lost; not in Pulsar, and absent if there are none."""
    lost = topic.log.lost
    if not lost:
        return {}
    return {
        "lostEntries": sum(each.entries for each in lost),
        "lost": [
            {"ledgerId": each.ledger_id, "firstEntryId": each.first, "lastEntryId": each.last}
            for each in lost
        ],
    }


def _publisher_of(topic: face.Topic, producer: face.Producer) -> JsonObject:
    """``PublisherStats``; also how limits delayed the producer, if they did, which Pulsar lacks."""
    stats, flow = publisher_json(producer), producer.flow
    stats["supportsPartialProducer"] = topic.commons.options.sums_by_producer_name
    if flow is not None and flow.throttled_count:
        stats["rateLimitedTimes"] = flow.throttled_count
        stats["rateLimitedSeconds"] = topic.commons.limits.throttled_ns(flow) / 1e9
        if flow.waits_at is not None:
            stats["rateLimitedBy"] = flow.waits_at.level
    return stats


def publisher_json(producer: face.Producer) -> JsonObject:
    """``PublisherStats`` of one producer."""
    request = producer.request
    return {
        "accessMode": request.access_mode.name,
        "msgRateIn": producer.meter.rate,
        "msgThroughputIn": producer.meter.byte_rate,
        "averageMsgSize": producer.meter.average_size,
        "chunkedMessageRate": producer.chunks.rate if producer.chunks is not None else 0.0,
        "producerId": producer.producer_id,
        "metadata": dict(request.properties),
        "producerName": producer.name,
        "address": request.address,
        "connectedSince": timestamp(producer.connected_since),
        "clientVersion": request.client_version,
    }


async def internal_stats_json(topic: face.Topic) -> JsonObject:
    """``PersistentTopicInternalStats``: the ledgers and cursors of a topic."""
    if not isinstance(topic, face.PersistentTopic):
        return {"ledgers": [], "cursors": {}, "entriesAddedCounter": topic.meter_in.messages}
    log, state = topic.log, _state(topic)
    return {
        **log_stats_json(log, topic.meter_in.messages, topic.created, state),
        "cursors": await in_turns(_cursors(topic.subscriptions), _cursor_json),
        "schemaLedgers": [],
        "compactedLedger": {
            "ledgerId": -1,
            "entries": -1,
            "size": -1,
            "offloaded": False,
            "underReplicated": False,
        },
    }


def log_stats_json(log: face.Log[Any], added: int, created: float, state: str) -> JsonObject:
    """``ManagedLedgerInternalStats`` without the cursors.

    ``added``: entries since the log was opened; ``created``: seconds since 1970.
    """
    return {
        "entriesAddedCounter": added,
        "numberOfEntries": log.end - log.begin,
        "totalSize": log.size,
        "currentLedgerEntries": log.ledgers[-1].entries if log.ledgers else 0,
        "currentLedgerSize": log.ledgers[-1].size if log.ledgers else 0,
        "lastLedgerCreatedTimestamp": timestamp(created),
        "waitingCursorsCount": 0,
        "pendingAddEntriesCount": 0,
        "lastConfirmedEntry": str(log.position(log.end - 1)),
        "state": state,
        "ledgers": [
            {
                "ledgerId": each.ledger_id,
                # Pulsar shows 0 for the ledger that is being written.
                "entries": 0 if each.is_open else each.entries,
                "size": 0 if each.is_open else each.size,
                "offloaded": False,
                "underReplicated": False,
            }
            for each in log.ledgers
        ],
    }


def _cursors(subscriptions: Mapping[str, face.Subscription]) -> list[tuple[str, face.Subscription]]:
    """Subscriptions by their cursors' names: that of a durable one is URL-encoded, as in Pulsar."""
    return [
        (url_encoded(name) if each.durable else name, each)
        for name, each in sorted(subscriptions.items())
    ]


def _state(topic: face.PersistentTopic) -> str:
    if topic.terminated:
        return "Terminated"
    return "Closed" if topic.closing else "LedgerOpened"


async def managed_ledger_json(
    topic: face.PersistentTopic, properties: Mapping[str, str]
) -> JsonObject:
    """``ManagedLedgerInfo``: a topic's storage as Pulsar's metadata store describes it."""
    log = topic.log
    durable = [each for each in _cursors(topic.subscriptions) if each[1].durable]
    ended = {"terminatedPosition": _place(log.position(log.end - 1))} if topic.terminated else {}
    return {
        "version": 0,
        "creationDate": timestamp(topic.created),
        "modificationDate": timestamp(topic.created),
        "ledgers": [
            {
                "ledgerId": each.ledger_id,
                **({} if each.is_open else {"entries": each.entries, "size": each.size}),
                "isOffloaded": False,
            }
            for each in log.ledgers
        ],
        **ended,
        **({"properties": dict(properties)} if properties else {}),
        "cursors": await in_turns(durable, partial(_saved_cursor_json, topic)),
    }


async def _saved_cursor_json(
    topic: face.PersistentTopic, subscription: face.Subscription
) -> JsonObject:
    position = subscription.log.position

    def shown(ends: tuple[int, int]) -> JsonObject:
        first, last = map(position, ends)
        return {"from": _place(first), "to": _place(last)}

    ranges = await each_in_turns(subscription.acks.ranges(), shown, RANGES_IN_A_TURN)
    return {
        "version": 0,
        "creationDate": timestamp(topic.created),
        "modificationDate": timestamp(topic.created),
        "cursorsLedgerId": -1,
        "markDelete": _place(position(subscription.acks.mark)),
        **({"individualDeletedMessages": ranges} if ranges else {}),
    }


def _place(position: tuple[int, int]) -> JsonObject:
    return {"ledgerId": position[0], "entryId": position[1]}


async def _cursor_json(subscription: face.Subscription) -> JsonObject:
    """``CursorStats`` of one subscription."""
    log, acks = subscription.log, subscription.acks

    def shown(ends: tuple[int, int]) -> str:
        first, last = map(log.position, ends)
        return f"({first}..{last}]"

    ranges = await each_in_turns(acks.ranges(), shown, RANGES_IN_A_TURN)
    return {
        "markDeletePosition": str(log.position(max(acks.mark, log.begin - 1))),
        "readPosition": str(log.position(min(acks.mark + 1, log.end))),
        "waitingReadOp": False,
        "pendingReadOps": 0,
        "messagesConsumedCounter": subscription.meters.out.messages,
        "cursorLedger": -1,
        "cursorLedgerLastEntry": -1,
        "individuallyDeletedMessages": f"[{','.join(ranges)}]",
        "state": "Open",
        "active": bool(subscription.consumers),
        "numberOfEntriesSinceFirstNotAckedMessage": log.end - acks.mark,
        "lastLedgerSwitchTimestamp": timestamp(subscription.created),
        "totalNonContiguousDeletedMessagesRange": len(ranges),
        "subscriptionHavePendingRead": False,
        "subscriptionHavePendingReplayRead": False,
        "properties": {},
    }


async def broker_topic_json(topic: face.Topic, broker_id: str) -> JsonObject:
    """A topic's statistics in the form of ``broker-stats/topics``."""
    found = await topic_stats_json(topic, broker_id)
    subscriptions = found["subscriptions"]
    return {
        "publishers": found["publishers"],
        "replication": {},
        "subscriptions": subscriptions,
        "producerCount": len(found["publishers"]),
        "averageMsgSize": found["averageMsgSize"],
        "msgRateIn": found["msgRateIn"],
        "msgRateOut": found["msgRateOut"],
        "msgInCount": found["msgInCounter"],
        "bytesInCount": found["bytesInCounter"],
        "msgOutCount": found["msgOutCounter"],
        "bytesOutCount": found["bytesOutCounter"],
        "msgThroughputIn": found["msgThroughputIn"],
        "msgThroughputOut": found["msgThroughputOut"],
        "storageSize": found["storageSize"],
        "backlogSize": found["backlogSize"],
        "pendingAddEntriesCount": 0,
        "filteredEntriesCount": 0,
    }


async def sum_of_stats(partitions: list[JsonObject]) -> JsonObject:
    """The ``partitioned-stats`` of a topic: the sum over its partitions."""
    total: JsonObject = {
        **NOT_MEASURED,
        "oldestBacklogMessageAgeSeconds": 0,
        **dict.fromkeys(SUMMED_TOPIC_FIGURES, 0),
        "publishers": [],
    }
    busy = [each["averageMsgSize"] for each in partitions if each["averageMsgSize"]]
    total["averageMsgSize"] = sum(busy) / len(busy) if busy else 0.0
    subscriptions: dict[str, JsonObject] = {}
    places: dict[str | int, int] = {}
    turns = face.WorkBudget(IN_A_TURN)
    for partition in partitions:
        await turns.did(1 + len(partition["subscriptions"]))
        for name in SUMMED_TOPIC_FIGURES:
            total[name] += partition[name]
        for number, publisher in enumerate(partition["publishers"]):
            by_name = publisher["supportsPartialProducer"]
            key = publisher["producerName"] if by_name else number
            place = places.setdefault(key, len(places))
            _add(total["publishers"], place, publisher, SUMMED_PUBLISHER_FIGURES)
        for name, figures in partition["subscriptions"].items():
            known = subscriptions.get(name)
            if known is None:
                subscriptions[name] = {**figures, "consumers": list(figures["consumers"])}
                continue
            for figure in SUMMED_SUBSCRIPTION_FIGURES:
                known[figure] += figures[figure]
            there, consumers = known["consumers"], figures["consumers"]
            first = 0 if len(there) == len(consumers) else len(there)
            for place, consumer in enumerate(consumers, first):
                _add(there, place, consumer, SUMMED_CONSUMER_FIGURES)
    total["subscriptions"] = subscriptions
    return total


def _add(sums: list[JsonObject], place: int, client: JsonObject, figures: Iterable[str]) -> None:
    """Add the figures of a partition's producer or consumer to the one at the same place in
    ``sums``.

    Pulsar takes them for one producer or consumer of a client on the partitioned topic.
    """
    if place >= len(sums):
        sums.append(client)
        return
    sums[place] = {**sums[place], **{name: sums[place][name] + client[name] for name in figures}}

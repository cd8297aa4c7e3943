"""A topic's figures in the JSON of Pulsar's ``TopicStats`` and ``PersistentTopicInternalStats``."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from counterpoise.broker.topic.consumer import Consumer
from counterpoise.broker.topic.dispatch import SingleActiveDispatcher
from counterpoise.broker.topic.faces import SubscriptionType
from counterpoise.broker.topic.persistent import PersistentTopic
from counterpoise.broker.topic.producer import Producer
from counterpoise.broker.topic.subscription import Subscription
from counterpoise.broker.topic.topic import Topic

JsonObject = dict[str, Any]

SUMMED_TOPIC_FIGURES = (
    "msgRateIn",
    "msgThroughputIn",
    "msgRateOut",
    "msgThroughputOut",
    "bytesInCounter",
    "msgInCounter",
    "bytesOutCounter",
    "msgOutCounter",
    "storageSize",
    "backlogSize",
)
SUMMED_SUBSCRIPTION_FIGURES = (
    "msgRateOut",
    "msgThroughputOut",
    "bytesOutCounter",
    "msgOutCounter",
    "msgRateRedeliver",
    "msgBacklog",
    "backlogSize",
    "msgBacklogNoDelayed",
    "unackedMessages",
)


def topic_stats_json(topic: Topic) -> JsonObject:
    """``TopicStats``: rates are messages or bytes a second, counters since the topic was loaded."""
    subscriptions = {
        name: subscription_json(each) for name, each in sorted(topic.subscriptions.items())
    }
    publishers = [publisher_json(each) for each in topic.producers.all()]
    stored = topic.log.size if isinstance(topic, PersistentTopic) else 0
    return {
        "msgRateIn": topic.meter_in.rate,
        "msgThroughputIn": topic.meter_in.byte_rate,
        "msgRateOut": sum(each["msgRateOut"] for each in subscriptions.values()),
        "msgThroughputOut": sum(each["msgThroughputOut"] for each in subscriptions.values()),
        "bytesInCounter": topic.meter_in.bytes,
        "msgInCounter": topic.meter_in.messages,
        "bytesOutCounter": sum(each["bytesOutCounter"] for each in subscriptions.values()),
        "msgOutCounter": sum(each["msgOutCounter"] for each in subscriptions.values()),
        "averageMsgSize": topic.meter_in.average_size,
        "msgChunkPublished": False,
        "storageSize": stored,
        "backlogSize": max((each["backlogSize"] for each in subscriptions.values()), default=0),
        "publishRateLimitedTimes": 0,
        "earliestMsgPublishTimeInBacklogs": 0,
        "offloadedStorageSize": 0,
        "lastOffloadLedgerId": 0,
        "lastOffloadSuccessTimeStamp": 0,
        "lastOffloadFailureTimeStamp": 0,
        "ongoingTxnCount": 0,
        "abortedTxnCount": 0,
        "committedTxnCount": 0,
        "publishers": publishers,
        "waitingPublishers": sum(not each.ready for each in topic.producers.all()),
        "subscriptions": subscriptions,
        "replication": {},
        "deduplicationStatus": "Disabled",
        "nonContiguousDeletedMessagesRanges": 0,
        "nonContiguousDeletedMessagesRangesSerializedSize": 0,
        "ownerBroker": None,
    }


def publisher_json(producer: Producer) -> JsonObject:
    """``PublisherStats`` of one producer."""
    request = producer.request
    return {
        "accessMode": request.access_mode.name,
        "msgRateIn": producer.meter.rate,
        "msgThroughputIn": producer.meter.byte_rate,
        "averageMsgSize": producer.meter.average_size,
        "chunkedMessageRate": 0.0,
        "producerId": producer.producer_id,
        "supportsPartialProducer": False,
        "metadata": dict(request.properties),
        "producerName": producer.name,
        "address": request.address,
        "connectedSince": timestamp(producer.connected_since),
        "clientVersion": request.client_version,
    }


def subscription_json(subscription: Subscription) -> JsonObject:
    """``SubscriptionStats`` of one subscription."""
    consumers = [consumer_json(each) for each in subscription.consumers]
    kind = subscription.type
    active = active_consumer(subscription)
    return {
        "msgRateOut": subscription.meter.rate,
        "msgThroughputOut": subscription.meter.byte_rate,
        "bytesOutCounter": subscription.meter.bytes,
        "msgOutCounter": subscription.meter.messages,
        "msgRateRedeliver": 0.0,
        "messageAckRate": 0.0,
        "chunkedMessageRate": 0,
        "msgBacklog": subscription.backlog,
        "backlogSize": backlog_size(subscription),
        "earliestMsgPublishTimeInBacklog": 0,
        "msgBacklogNoDelayed": subscription.backlog,
        "blockedSubscriptionOnUnackedMsgs": False,
        "msgDelayed": 0,
        "unackedMessages": sum(each["unackedMessages"] for each in consumers),
        "type": kind.name,
        **({"activeConsumerName": active.name} if active is not None else {}),
        "msgRateExpired": 0.0,
        "totalMsgExpired": 0,
        "lastExpireTimestamp": 0,
        "lastConsumedFlowTimestamp": 0,
        "lastConsumedTimestamp": 0,
        "lastAckedTimestamp": 0,
        "lastMarkDeleteAdvancedTimestamp": 0,
        "consumers": consumers,
        "allowOutOfOrderDelivery": False,
        **({"keySharedMode": "AUTO_SPLIT"} if kind is SubscriptionType.Key_Shared else {}),
        "consumersAfterMarkDeletePosition": {},
        "nonContiguousDeletedMessagesRanges": sum(1 for _ in subscription.acks.ranges()),
        "nonContiguousDeletedMessagesRangesSerializedSize": 0,
        "subscriptionProperties": dict(subscription.properties),
        "durable": subscription.durable,
        "replicated": False,
    }


def active_consumer(subscription: Subscription) -> Consumer | None:
    """Who gets the messages, where only one consumer does."""
    dispatcher = subscription.dispatcher
    if not isinstance(dispatcher, SingleActiveDispatcher):
        return None
    return next((each for each in dispatcher.consumers if dispatcher.is_active(each)), None)


def backlog_size(subscription: Subscription) -> int:
    """Bytes of the backlog, at the average size of the topic's entries (as Pulsar estimates)."""
    entries = subscription.log.end - subscription.log.begin
    return subscription.backlog * subscription.log.size // entries if entries else 0


def consumer_json(consumer: Consumer) -> JsonObject:
    """``ConsumerStats`` of one consumer."""
    request = consumer.request
    return {
        "msgRateOut": consumer.meter.rate,
        "msgThroughputOut": consumer.meter.byte_rate,
        "bytesOutCounter": consumer.meter.bytes,
        "msgOutCounter": consumer.meter.messages,
        "msgRateRedeliver": 0.0,
        "messageAckRate": 0.0,
        "chunkedMessageRate": 0.0,
        "consumerName": consumer.name,
        "availablePermits": consumer.permits,
        "unackedMessages": consumer.unacked,
        "avgMessagesPerEntry": 0,
        "blockedConsumerOnUnackedMsgs": consumer.blocked,
        "lastAckedTimestamp": 0,
        "lastConsumedTimestamp": 0,
        "lastConsumedFlowTimestamp": 0,
        "metadata": dict(request.metadata),
        "address": request.address,
        "connectedSince": timestamp(consumer.connected_since),
        "clientVersion": request.client_version,
    }


def internal_stats_json(topic: Topic) -> JsonObject:
    """``PersistentTopicInternalStats``: the ledgers and cursors of a topic."""
    if not isinstance(topic, PersistentTopic):
        return {"ledgers": [], "cursors": {}, "entriesAddedCounter": topic.meter_in.messages}
    log = topic.log
    cursors = {}
    for name, each in sorted(topic.subscriptions.items()):
        mark = log.position(each.acks.mark) if each.acks.mark >= log.begin else None
        cursors[name] = {
            "markDeletePosition": "-1:-1" if mark is None else _position(mark),
            "readPosition": _position(log.position(min(each.acks.mark + 1, log.end))),
            "waitingReadOp": False,
            "pendingReadOps": 0,
            "messagesConsumedCounter": each.meter.messages,
            "cursorLedger": -1,
            "cursorLedgerLastEntry": -1,
            "individuallyDeletedMessages": str(
                [
                    f"({_position(log.position(a))}..{_position(log.position(b))}]"
                    for a, b in each.acks.ranges()
                ]
            ),
            "state": "Open",
            "active": bool(each.consumers),
            "numberOfEntriesSinceFirstNotAckedMessage": log.end - each.acks.mark,
            "totalNonContiguousDeletedMessagesRange": sum(1 for _ in each.acks.ranges()),
            "properties": {},
        }
    return {
        "entriesAddedCounter": topic.meter_in.messages,
        "numberOfEntries": log.end - log.begin,
        "totalSize": log.size,
        "currentLedgerEntries": log.ledgers[-1].entries if log.ledgers else 0,
        "currentLedgerSize": log.ledgers[-1].size if log.ledgers else 0,
        "waitingCursorsCount": 0,
        "pendingAddEntriesCount": 0,
        "lastConfirmedEntry": _position(topic.last_message_id()),
        "state": "Closed" if topic.closing else "LedgerOpened",
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
        "cursors": cursors,
        "schemaLedgers": [],
        "compactedLedger": {
            "ledgerId": -1,
            "entries": -1,
            "size": -1,
            "offloaded": False,
            "underReplicated": False,
        },
    }


def broker_topic_json(topic: Topic) -> JsonObject:
    """A topic as ``broker-stats/topics`` tells it."""
    told = topic_stats_json(topic)
    subscriptions = told["subscriptions"]
    return {
        "publishers": told["publishers"],
        "replication": {},
        "subscriptions": subscriptions,
        "producerCount": len(told["publishers"]),
        "averageMsgSize": told["averageMsgSize"],
        "msgRateIn": told["msgRateIn"],
        "msgRateOut": told["msgRateOut"],
        "msgInCount": told["msgInCounter"],
        "bytesInCount": told["bytesInCounter"],
        "msgOutCount": told["msgOutCounter"],
        "bytesOutCount": told["bytesOutCounter"],
        "msgThroughputIn": told["msgThroughputIn"],
        "msgThroughputOut": told["msgThroughputOut"],
        "storageSize": told["storageSize"],
        "backlogSize": told["backlogSize"],
        "pendingAddEntriesCount": 0,
        "filteredEntriesCount": 0,
    }


def sum_of_stats(partitions: list[JsonObject]) -> JsonObject:
    """What ``partitioned-stats`` says of all partitions together."""
    total: JsonObject = {
        name: sum(each[name] for each in partitions) for name in SUMMED_TOPIC_FIGURES
    }
    busy = [each["averageMsgSize"] for each in partitions if each["averageMsgSize"]]
    total["averageMsgSize"] = sum(busy) / len(busy) if busy else 0.0
    subscriptions: dict[str, JsonObject] = {}
    for partition in partitions:
        for name, figures in partition["subscriptions"].items():
            known = subscriptions.get(name)
            if known is None:
                subscriptions[name] = {**figures, "consumers": list(figures["consumers"])}
                continue
            for figure in SUMMED_SUBSCRIPTION_FIGURES:
                known[figure] += figures[figure]
            known["consumers"] += figures["consumers"]
    total["subscriptions"] = subscriptions
    total["publishers"] = [each for partition in partitions for each in partition["publishers"]]
    total["replication"] = {}
    return total


def timestamp(seconds: float) -> str:
    """A moment as Pulsar writes it, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def _position(position: tuple[int, int]) -> str:
    return f"{position[0]}:{position[1]}"

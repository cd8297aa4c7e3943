"""A subscription's figures in the JSON of Pulsar's ``SubscriptionStats`` and ``ConsumerStats``."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from counterpoise.admin.large_json import each_in_turns
from counterpoise.broker.face import LimitLevel, Recipient, Subscription, SubscriptionType

JsonObject = dict[str, Any]

NOT_MEASURED: Mapping[str, Any] = {
    "chunkedMessageRate": 0.0,
    "earliestMsgPublishTimeInBacklog": 0,
    "msgInReplay": 0,
    "msgRateExpired": 0.0,
    "totalMsgExpired": 0,
    "allowOutOfOrderDelivery": False,
    "consumersAfterMarkDeletePosition": {},
    "drainingHashesCount": 0,
    "drainingHashesClearedTotal": 0,
    "drainingHashesUnackedMessages": 0,
    "nonContiguousDeletedMessagesRangesSerializedSize": 0,
    "delayedMessageIndexSizeInBytes": 0,
    "filterProcessedMsgCount": 0,
    "filterAcceptedMsgCount": 0,
    "filterRejectedMsgCount": 0,
    "filterRescheduledMsgCount": 0,
    "isReplicated": False,
    "replicated": False,
}
"""Figures of a subscription that clients and tools expect and this broker does not measure."""

CONSUMER_NOT_MEASURED: Mapping[str, Any] = {
    "chunkedMessageRate": 0.0,
    "drainingHashesCount": 0,
    "drainingHashesClearedTotal": 0,
    "drainingHashesUnackedMessages": 0,
}

_LEVELS = {
    LimitLevel.SUBSCRIPTION_DISPATCH: "Subscription",
    LimitLevel.TOPIC_DISPATCH: "Topic",
    LimitLevel.BROKER_DISPATCH: "Broker",
}
"""The dispatch limits for which Pulsar has counters, and their names in these."""

_LAST_TIMES = ("lastAckedTimestamp", "lastConsumedTimestamp", "lastConsumedFlowTimestamp")
"""Times of a subscription that are the latest of its consumers' times."""


async def subscription_json(subscription: Subscription) -> JsonObject:
    """``SubscriptionStats`` of one subscription, however many consumers it has."""
    consumers = await each_in_turns(list(subscription.consumers), consumer_json)
    active = subscription.active
    kind = subscription.type if subscription.dispatcher is not None else None
    return {
        **NOT_MEASURED,
        "msgRateOut": subscription.meters.out.rate,
        "msgThroughputOut": subscription.meters.out.byte_rate,
        "bytesOutCounter": subscription.meters.out.bytes,
        "msgOutCounter": subscription.meters.out.messages,
        "msgBacklog": subscription.backlog,
        "backlogSize": backlog_size(subscription),
        "msgBacklogNoDelayed": subscription.backlog - subscription.delayed,
        "msgDelayed": subscription.delayed,
        "msgRateRedeliver": subscription.meters.redelivered.rate,
        "messageAckRate": subscription.meters.acked.rate,
        **{name: max((each[name] for each in consumers), default=0) for name in _LAST_TIMES},
        "lastExpireTimestamp": int(subscription.expired_at * 1000),
        "lastMarkDeleteAdvancedTimestamp": subscription.advanced_ms,
        "blockedSubscriptionOnUnackedMsgs": subscription.blocked,
        "unackedMessages": sum(each["unackedMessages"] for each in consumers),
        # No consumer has subscribed since the topic was opened, so no type is known.
        "type": "None" if kind is None else kind.name,
        **({"activeConsumerName": active.name} if active is not None else {}),
        "consumers": consumers,
        **({"keySharedMode": "AUTO_SPLIT"} if kind is SubscriptionType.Key_Shared else {}),
        **_throttled_json(subscription),
        "nonContiguousDeletedMessagesRanges": subscription.acks.range_count(),
        "subscriptionProperties": dict(subscription.properties),
        "isDurable": subscription.durable,
        "durable": subscription.durable,
    }


def _throttled_json(subscription: Subscription) -> JsonObject:
    """How often each dispatch limit delayed the subscription, and at which one it waits now.

    The limit at which it waits is not in Pulsar, and absent if it waits at none.
    """
    flow = subscription.flow
    throttled = flow.events if flow is not None else {}
    at = flow.waits_at if flow is not None else None
    return {
        **{
            f"dispatchThrottled{what}EventsBy{name}Limit": throttled.get((level, kind), 0)
            for level, name in _LEVELS.items()
            for kind, what in (("messages", "Msg"), ("bytes", "Bytes"))
        },
        **({"dispatchThrottledBy": at.level} if at is not None else {}),
    }


def backlog_size(subscription: Subscription) -> int:
    """Bytes of the backlog, at the average size of the topic's entries (as Pulsar estimates)."""
    entries = subscription.log.end - subscription.log.begin
    return subscription.backlog * subscription.log.size // entries if entries else 0


def consumer_json(consumer: Recipient) -> JsonObject:
    """``ConsumerStats`` of one consumer."""
    request = consumer.request
    return {
        **CONSUMER_NOT_MEASURED,
        "msgRateOut": consumer.meters.out.rate,
        "msgThroughputOut": consumer.meters.out.byte_rate,
        "bytesOutCounter": consumer.meters.out.bytes,
        "msgOutCounter": consumer.meters.out.messages,
        "msgRateRedeliver": consumer.meters.redelivered.rate,
        "messageAckRate": consumer.meters.acked.rate,
        "avgMessagesPerEntry": round(consumer.meters.out.messages / max(consumer.entries_out, 1)),
        "lastAckedTimestamp": consumer.last_acked_ms,
        "lastConsumedTimestamp": consumer.last_sent_ms,
        "lastConsumedFlowTimestamp": consumer.last_flow_ms,
        "consumerName": consumer.name,
        "availablePermits": consumer.permits,
        "unackedMessages": consumer.unacked,
        "blockedConsumerOnUnackedMsgs": consumer.blocked,
        "metadata": dict(request.metadata),
        "address": request.address,
        "connectedSince": timestamp(consumer.connected_since),
        "clientVersion": request.client_version,
    }


def timestamp(seconds: float) -> str:
    """A time in Pulsar's text format, in UTC."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

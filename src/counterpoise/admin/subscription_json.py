"""A subscription's figures in the JSON of Pulsar's ``SubscriptionStats`` and ``ConsumerStats``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from counterpoise.broker.face import (
    Consumer,
    SingleActiveDispatcher,
    Subscription,
    SubscriptionType,
)

JsonObject = dict[str, Any]

NOT_MEASURED: Mapping[str, Any] = {
    "msgRateRedeliver": 0.0,
    "messageAckRate": 0.0,
    "chunkedMessageRate": 0.0,
    "earliestMsgPublishTimeInBacklog": 0,
    "msgDelayed": 0,
    "msgInReplay": 0,
    "msgRateExpired": 0.0,
    "totalMsgExpired": 0,
    "lastExpireTimestamp": 0,
    "lastConsumedFlowTimestamp": 0,
    "lastConsumedTimestamp": 0,
    "lastAckedTimestamp": 0,
    "lastMarkDeleteAdvancedTimestamp": 0,
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
    "dispatchThrottledMsgEventsBySubscriptionLimit": 0,
    "dispatchThrottledBytesEventsBySubscriptionLimit": 0,
    "dispatchThrottledMsgEventsByTopicLimit": 0,
    "dispatchThrottledBytesEventsByTopicLimit": 0,
    "dispatchThrottledMsgEventsByBrokerLimit": 0,
    "dispatchThrottledBytesEventsByBrokerLimit": 0,
    "isReplicated": False,
    "replicated": False,
}
"""Figures of a subscription that clients and tools expect and this broker does not take."""

CONSUMER_NOT_MEASURED: Mapping[str, Any] = {
    "msgRateRedeliver": 0.0,
    "messageAckRate": 0.0,
    "chunkedMessageRate": 0.0,
    "avgMessagesPerEntry": 0,
    "drainingHashesCount": 0,
    "drainingHashesClearedTotal": 0,
    "drainingHashesUnackedMessages": 0,
    "lastAckedTimestamp": 0,
    "lastConsumedTimestamp": 0,
    "lastConsumedFlowTimestamp": 0,
}


def subscription_json(subscription: Subscription) -> JsonObject:
    """``SubscriptionStats`` of one subscription."""
    consumers = [consumer_json(each) for each in subscription.consumers]
    active = active_consumer(subscription)
    kind = subscription.type if subscription.dispatcher is not None else None
    return {
        **NOT_MEASURED,
        "msgRateOut": subscription.meter.rate,
        "msgThroughputOut": subscription.meter.byte_rate,
        "bytesOutCounter": subscription.meter.bytes,
        "msgOutCounter": subscription.meter.messages,
        "msgBacklog": subscription.backlog,
        "backlogSize": backlog_size(subscription),
        "msgBacklogNoDelayed": subscription.backlog,
        "blockedSubscriptionOnUnackedMsgs": False,
        "unackedMessages": sum(each["unackedMessages"] for each in consumers),
        # Nobody has subscribed since the topic was opened, so no type is known.
        "type": "None" if kind is None else kind.name,
        **({"activeConsumerName": active.name} if active is not None else {}),
        "consumers": consumers,
        **({"keySharedMode": "AUTO_SPLIT"} if kind is SubscriptionType.Key_Shared else {}),
        "nonContiguousDeletedMessagesRanges": sum(1 for _ in subscription.acks.ranges()),
        "subscriptionProperties": dict(subscription.properties),
        "isDurable": subscription.durable,
        "durable": subscription.durable,
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
        **CONSUMER_NOT_MEASURED,
        "msgRateOut": consumer.meter.rate,
        "msgThroughputOut": consumer.meter.byte_rate,
        "bytesOutCounter": consumer.meter.bytes,
        "msgOutCounter": consumer.meter.messages,
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
    """A moment as Pulsar writes it, in UTC."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

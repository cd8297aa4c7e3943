"""A consumer's statistics, as the response to CONSUMER_STATS has them."""

from __future__ import annotations

from datetime import UTC, datetime

from counterpoise.broker.topic.consumer import Consumer
from counterpoise.wire.proto.commands_pb2 import CommandConsumerStatsResponse


def consumer_stats(request_id: int, consumer: Consumer) -> CommandConsumerStatsResponse:
    """Answer CONSUMER_STATS with a consumer's figures; rates are those of the last measurement."""
    subscription = consumer.subscription
    return CommandConsumerStatsResponse(
        request_id=request_id,
        msg_rate_out=consumer.meters.out.rate,
        msg_throughput_out=consumer.meters.out.byte_rate,
        msg_rate_redeliver=consumer.meters.redelivered.rate,
        consumer_name=consumer.name,
        available_permits=max(0, consumer.permits),
        unacked_messages=consumer.unacked,
        blocked_consumer_on_unacked_msgs=consumer.blocked,
        address=consumer.request.address,
        connected_since=datetime.fromtimestamp(consumer.connected_since, UTC).isoformat(),
        type=consumer.request.type.name,
        msg_rate_expired=0.0,
        msg_backlog=subscription.backlog,
        message_ack_rate=consumer.meters.acked.rate,
    )

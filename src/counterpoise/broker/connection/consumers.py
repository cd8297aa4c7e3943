"""One connection's consumers: subscribing, delivery, acknowledgement, redelivery and seek."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.connection.client_link import ClientLink, log, topic_name
from counterpoise.broker.connection.ports import Services
from counterpoise.broker.connection.reading_rounds import one_by_one
from counterpoise.broker.topic.consumer import Consumer
from counterpoise.broker.topic.ports import KeySharedMeta, ServiceUrls, SubscribeRequest
from counterpoise.storage.port import Position
from counterpoise.wire import encode, events
from counterpoise.wire.decode import message_id, optional, pairs_of, schema_of
from counterpoise.wire.encode_runs import Delivery
from counterpoise.wire.encode_runs import messages as wire_messages
from counterpoise.wire.errors import ServerError
from counterpoise.wire.proto import commands_pb2 as commands
from counterpoise.wire.proto import values_pb2 as raw
from counterpoise.wire.states import PeerChange
from counterpoise.wire.values import InitialPosition, MessageId, SubscriptionType, TransactionId


class ClientConsumers:
    """Handles the commands of one connection's consumers, and sends them messages.

    It is the `ConsumerSink` of the topics that they read.
    """

    def __init__(self, link: ClientLink, services: Services) -> None:
        self._link = link
        self._services = services
        self._consumers: dict[int, Consumer] = {}
        self._leaving: dict[int, Consumer] = {}
        """Closed consumers whose clients may not have read CLOSE_CONSUMER yet."""
        self._opening: dict[int, commands.CommandSubscribe] = {}
        """SUBSCRIBE requests under way, by consumer id, so that a close can cancel them."""
        self._epochs: dict[int, int] = {}
        """By consumer id, the consumer's epoch (PIP-84): written on each message, so that the
        client drops messages that were under way when it asked for a redelivery of all."""
        self._after_success: dict[int, bytes] = {}
        """Frames for a consumer whose SUBSCRIBE is being served: they follow its SUCCESS."""

    def find(self, consumer_id: int) -> Consumer | None:
        """The attached consumer with this id; None if there is none."""
        return self._consumers.get(consumer_id)

    def subscribe(self, event: commands.CommandSubscribe) -> None:
        """SUBSCRIBE: attach a consumer. If it is attached already, only respond again."""
        if event.consumer_id in self._consumers:
            self._link.outbox.write(encode.success(event.request_id))
            return
        self._opening[event.consumer_id] = event
        self._link.answer(self._subscribe(event), partial(encode.refuse, event))

    async def _subscribe(self, event: commands.CommandSubscribe) -> bytes | None:
        consumer_id = event.consumer_id
        try:
            name = topic_name(event.topic)
            await self._link.permits.topic(
                name, "CONSUME", "Client is not authorized to subscribe", event.subscription
            )
            await self._services.topics.wait_for_deletion(name)
            if self._opening.get(consumer_id) is not event:
                # For a client that has gone meanwhile, the topic is not created again.
                return None
            topic = await self._services.topics.get(name, create=event.force_topic_creation)
            if event.HasField("schema"):
                await self._services.schemas.attach(
                    name, schema_of(event.schema), in_use=topic.is_in_use
                )
            consumer = await topic.subscribe(self._request(event), self)
        except BaseException:
            if self._opening.get(consumer_id) is event:
                del self._opening[consumer_id]
                self._link.protocol.change_consumer(consumer_id, PeerChange.REFUSED)
            raise
        later = self._after_success.pop(consumer_id, b"")
        if self._opening.get(consumer_id) is not event:
            # The client has closed it, or has disconnected, while the topic subscribed it.
            consumer.close()
            return None
        del self._opening[consumer_id]
        self._consumers[consumer_id] = consumer
        self._set_epoch(consumer_id, optional(event, "consumer_epoch"))
        self._link.protocol.change_consumer(consumer_id, PeerChange.OPENED)
        return encode.success(event.request_id) + later

    def _request(self, event: commands.CommandSubscribe) -> SubscribeRequest:
        return SubscribeRequest(
            subscription=event.subscription,
            type=SubscriptionType(event.sub_type),
            consumer_id=event.consumer_id,
            consumer_name=event.consumer_name,
            priority_level=event.priority_level,
            durable=event.durable,
            initial_position=InitialPosition(event.initial_position),
            start_message_id=_position(event.start_message_id)
            if event.HasField("start_message_id")
            else None,
            rollback_seconds=event.start_message_rollback_duration_sec,
            read_compacted=event.read_compacted,
            takes_any_schema=event.HasField("schema")
            and event.schema.type == raw.Schema.AutoConsume,
            key_shared=_key_shared(event.key_shared_meta),
            consumer_epoch=optional(event, "consumer_epoch"),
            metadata=dict(pairs_of(event.metadata)),
            properties=dict(pairs_of(event.subscription_properties)),
            address=self._link.address,
            client_version=self._link.client_version,
        )

    def flow(self, event: events.Flow) -> None:
        """FLOW: permit the broker to send a consumer more messages."""
        self._consumers[event.consumer_id].flow(event.permits)

    def ack(self, event: events.Ack) -> None:
        """ACK: acknowledge messages of a consumer; respond if the command asks for it."""
        consumer = self._consumers.get(event.consumer_id) or self._leaving.get(event.consumer_id)
        if consumer is None or not consumer.takes_acks:
            self._answer_ack(event, ServerError.ServiceNotReady, "The topic has been unloaded")
            return
        if event.validation_error is not None and not consumer.discards:
            # Logged once for each consumer: it may be unable to read any message of a topic.
            consumer.discards = True
            log.warning(
                "%s: consumer %d discards messages that it cannot read (validation error %d), "
                "the first at %s",
                self._link.address,
                event.consumer_id,
                event.validation_error,
                event.acked[:1],
            )
        if event.transaction is not None and not self._services.transactions.enabled:
            why = "Transactions are not enabled."
            self._answer_ack(event, ServerError.NotAllowedError, why)
            return
        if event.cumulative and len(event.acked) != 1:
            # As `Consumer.messageAcked` of Java: nothing is acknowledged, and no error returned.
            log.warning(
                "%s: consumer %d acknowledges cumulatively and names %d messages instead of one: "
                "ignored",
                self._link.address,
                event.consumer_id,
                len(event.acked),
            )
        elif event.transaction is not None:
            self._ack_in_transaction(consumer, event, event.transaction)
            return
        elif event.cumulative:
            consumer.ack_cumulative(*event.acked[0])
        else:
            consumer.ack_individual(event.acked)
        self._answer_ack(event)

    def _ack_in_transaction(
        self, consumer: Consumer, event: events.Ack, transaction: TransactionId
    ) -> None:
        async def work() -> bytes | None:
            await consumer.ack_in_transaction(transaction, event.acked, cumulative=event.cumulative)
            return self._ack_response(event)

        self._link.answer(work(), partial(self._ack_response, event))

    def _answer_ack(
        self, event: events.Ack, code: ServerError | None = None, refusal: str = ""
    ) -> None:
        frame = self._ack_response(event, code, refusal)
        if frame is not None:
            self._link.outbox.write(frame)

    @staticmethod
    def _ack_response(
        event: events.Ack, code: ServerError | None = None, refusal: str = ""
    ) -> bytes | None:
        if event.request_id is None:
            return None
        return encode.ack_response(
            event.consumer_id, event.request_id, code, refusal, event.transaction
        )

    def _set_epoch(self, consumer_id: int, epoch: int | None) -> None:
        if epoch is None:
            self._epochs.pop(consumer_id, None)
        else:
            self._epochs[consumer_id] = epoch

    def redeliver(self, event: events.Redeliver) -> None:
        """REDELIVER_UNACKNOWLEDGED_MESSAGES: deliver entries again."""
        if event.epoch is not None:
            self._epochs[event.consumer_id] = event.epoch
        positions = [(item.ledger_id, item.entry_id) for item in event.message_ids]
        self._consumers[event.consumer_id].redeliver(positions or None)

    def respond(
        self,
        serve: Callable[["ClientConsumers", Consumer, Any], Coroutine[None, None, bytes]],
        event: Any,
    ) -> None:
        """Respond to a command of an attached consumer with what ``serve`` returns."""
        self._link.respond(serve(self, self._consumers[event.consumer_id], event), event)

    async def seek(self, consumer: Consumer, event: commands.CommandSeek) -> bytes:
        """SEEK: move a consumer's subscription to a message or a publish time."""
        if event.HasField("message_id"):
            named = event.message_id
            await consumer.seek_to(_position(named), tuple(named.ack_set))
        elif event.HasField("message_publish_time"):
            await consumer.seek_to_time(event.message_publish_time)
        else:
            raise BrokerError(
                ServerError.MetadataError, "A seek names a message id or a publish time"
            )
        return encode.success(event.request_id)

    async def last_message_id(
        self, consumer: Consumer, event: commands.CommandGetLastMessageId
    ) -> bytes:
        """GET_LAST_MESSAGE_ID: the position of the topic's last message."""
        batch_index = await consumer.last_batch_index()
        last, mark_delete = consumer.last_message_id()
        return encode.last_message_id(
            event.request_id,
            MessageId(last.ledger_id, last.entry_id, consumer.partition, batch_index),
            MessageId(mark_delete.ledger_id, mark_delete.entry_id),
        )

    def stats(self, event: commands.CommandConsumerStats) -> None:
        """CONSUMER_STATS: respond with the statistics of a consumer."""
        consumer = self._consumers.get(event.consumer_id)
        self._link.outbox.write(
            encode.refuse(
                event, ServerError.ConsumerNotFound, f"Consumer {event.consumer_id} not found"
            )
            if consumer is None
            else encode.frame(_stats(event.request_id, consumer))
        )

    async def unsubscribe(self, consumer: Consumer, event: commands.CommandUnsubscribe) -> bytes:
        """UNSUBSCRIBE: delete a consumer's subscription."""
        await consumer.unsubscribe(force=event.force)
        return encode.success(event.request_id)

    def close(self, event: commands.CommandCloseConsumer) -> None:
        """CLOSE_CONSUMER: detach a consumer; its subscription stays."""
        self._opening.pop(event.consumer_id, None)
        self._epochs.pop(event.consumer_id, None)
        consumer = self._consumers.pop(event.consumer_id, None)
        if consumer is not None:
            consumer.close()
        self._link.outbox.write(encode.success(event.request_id))

    @property
    def writable(self) -> bool:
        """Whether the client reads fast enough to be sent more messages."""
        return self._link.outbox.writable

    def deliver(self, consumer_id: int, partition: int, messages: Sequence[Delivery]) -> None:
        """Send messages of one topic to a consumer."""
        epoch = self._epochs.get(consumer_id)
        self._link.outbox.write_burst(*wire_messages(consumer_id, partition, epoch, messages))

    def active_change(self, consumer_id: int, is_active: bool) -> None:
        """Send ACTIVE_CONSUMER_CHANGE: a Failover consumer became active or inactive."""
        change = commands.CommandActiveConsumerChange(consumer_id=consumer_id, is_active=is_active)
        self._write_after_success(consumer_id, encode.frame(change))

    def _write_after_success(self, consumer_id: int, frame: bytes) -> None:
        """Write a frame, but not before the SUCCESS response to the consumer's SUBSCRIBE."""
        if consumer_id in self._opening:
            self._after_success[consumer_id] = self._after_success.get(consumer_id, b"") + frame
        else:
            self._link.outbox.write(frame)

    def close_consumer(self, consumer_id: int, assigned_broker_url: ServiceUrls | None) -> None:
        """Send CLOSE_CONSUMER: the client reconnects, to the broker of these URLs if not None.

        Used when the topic is unloaded or the cursor was reset.
        """
        opening = self._opening.pop(consumer_id, None)
        if opening is not None:
            # Its subscribe is still under way: refused, so that the client looks up again.
            self._link.protocol.change_consumer(consumer_id, PeerChange.REFUSED)
            self._link.outbox.write(
                encode.error(
                    opening.request_id, ServerError.ServiceNotReady, "The topic is being unloaded"
                )
            )
        elif self._consumers.pop(consumer_id, None) is not None:
            self._link.protocol.change_consumer(consumer_id, PeerChange.DETACHED)
            whereto = self._link.sent_on_to(assigned_broker_url) or ()
            self._link.outbox.write(encode.close_consumer(consumer_id, *whereto))

    def farewell(
        self, consumer_id: int, assigned_broker_url: ServiceUrls | None
    ) -> asyncio.Future[None]:
        """Close a consumer as `close_consumer` does; the future is done when the client has read
        CLOSE_CONSUMER.

        Acknowledgements that the client sent before still count.
        """
        consumer = self._consumers.get(consumer_id)
        self.close_consumer(consumer_id, assigned_broker_url)
        answered = self._link.round_trips.begin()
        if consumer is not None:
            self._leaving[consumer_id] = consumer
            answered.add_done_callback(lambda _: self._left(consumer_id, consumer))
        return answered

    def _left(self, consumer_id: int, consumer: Consumer) -> None:
        if self._leaving.get(consumer_id) is consumer:
            del self._leaving[consumer_id]

    def reached_end(self, consumer_id: int) -> None:
        """Send REACHED_END_OF_TOPIC: the topic is terminated, and all is acknowledged."""
        reached = commands.CommandReachedEndOfTopic(consumer_id=consumer_id)
        self._write_after_success(consumer_id, encode.frame(reached))

    def resume_all(self) -> None:
        """Resume delivery to all consumers, since the connection is writable again."""
        for consumer in list(self._consumers.values()):
            consumer.resume()

    def detach_all(self) -> None:
        """Detach all consumers, since the connection is closed."""
        consumers = deque(self._consumers.values())
        self._consumers.clear()
        self._leaving.clear()
        self._opening.clear()
        one_by_one(consumers, Consumer.close)


def _stats(request_id: int, consumer: Consumer) -> commands.CommandConsumerStatsResponse:
    """Answer CONSUMER_STATS with a consumer's figures; rates are those of the last measurement."""
    subscription = consumer.subscription
    return commands.CommandConsumerStatsResponse(
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


def _position(named: raw.MessageIdData) -> Position:
    found = message_id(named)
    return Position(found.ledger_id, found.entry_id)


def _key_shared(meta: raw.KeySharedMeta) -> KeySharedMeta:
    ranges = tuple((each.start, each.end) for each in meta.hash_ranges)
    is_sticky = meta.key_shared_mode == raw.STICKY
    return KeySharedMeta(ranges if is_sticky else None, meta.allow_out_of_order_delivery)

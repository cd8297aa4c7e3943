"""One connection's producers: opening, publishing, receipts, and the limit on what is pending."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Final

from counterpoise.broker.base.cluster_key import without_key
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.connection.client_link import ClientLink, topic_name
from counterpoise.broker.connection.pause import PauseReason
from counterpoise.broker.connection.ports import ConnectionConfig, Services
from counterpoise.broker.connection.publish_buffer import PublishShare
from counterpoise.broker.connection.reading_rounds import one_by_one
from counterpoise.broker.connection.throttled import ThrottledMemory, ThrottledPublishes
from counterpoise.broker.topic.ports import ProducerRequest, ServiceUrls
from counterpoise.broker.topic.producer import Producer
from counterpoise.broker.transactions.buffer import in_transaction
from counterpoise.wire import encode
from counterpoise.wire.decode import optional, pairs_of, schema_of
from counterpoise.wire.encode_runs import send_receipts
from counterpoise.wire.errors import ServerError
from counterpoise.wire.events import Send, SendRefused, TransactionSend
from counterpoise.wire.proto import commands_pb2 as commands
from counterpoise.wire.states import PeerChange
from counterpoise.wire.values import AccessMode

_PENDING: Final = PauseReason.PENDING_PUBLISHES
_PRODUCER_ID: Final = itemgetter(Send._fields.index("producer_id"))
_ENTRY: Final = itemgetter(Send._fields.index("entry"))


@dataclass(slots=True)
class _Attached:
    """A producer, and how many of its publishes have no response yet."""

    producer: Producer
    pending: int = 0
    pending_bytes: int = 0
    """Bytes of the pending publishes. A receipt does not say which entry it is for, so each is
    charged the average size."""
    close_request: int | None = None
    """Id of the CLOSE_PRODUCER request, which is answered once nothing is pending; None: none."""
    ready_request: int | None = None
    """Id of the PRODUCER request of a producer that waits for exclusive access: it is answered
    again when the producer has it. None: not waiting."""

    def answered(self, count: int) -> int:
        """Count publishes that got a response; returns their bytes."""
        size = self.pending_bytes * count // self.pending
        self.pending -= count
        self.pending_bytes -= size
        return size


class ClientProducers:
    """Handles the commands of one connection's producers, and sends them receipts.

    It is the `ProducerSink` of the topics they publish to. With too many publishes pending, the
    connection is not read until half of them are acknowledged.
    """

    def __init__(
        self,
        link: ClientLink,
        services: Services,
        config: ConnectionConfig,
        share: PublishShare,
        throttled_memory: ThrottledMemory,
    ) -> None:
        self._link = link
        self._services = services
        self._attached: dict[int, _Attached] = {}
        self._opening: dict[int, commands.CommandProducer] = {}
        """PRODUCER requests under way, by producer id, so that a close can cancel them."""
        self._pending = 0
        self._pending_max = config.max_pending_publish_requests
        self._left: dict[object, _Attached] = {}
        """By `Producer`: those that were closed before all that they published was stored."""
        self._share = share
        self._throttled = ThrottledPublishes(
            link.pause, throttled_memory, config.throttled_entries_max, config.throttled_bytes_max
        )
        """Entries that wait for a publish limit, not for the disk: they are not pending."""

    def find(self, producer_id: int) -> Producer | None:
        """The attached producer with this id; None if there is none."""
        attached = self._attached.get(producer_id)
        return None if attached is None else attached.producer

    def open(self, event: commands.CommandProducer) -> None:
        """PRODUCER: attach a producer. If it is attached already, only respond again."""
        present = self._attached.get(event.producer_id)
        if present is None:
            self._opening[event.producer_id] = event
            self._link.answer(self._open(event), partial(encode.refuse, event))
        elif present.close_request is None:
            self._link.outbox.write(self._success(event.request_id, present.producer, b""))
        else:
            self._opening[event.producer_id] = event
            self._refuse_while_closing(event)

    def _refuse_while_closing(self, event: commands.CommandProducer) -> None:
        del self._opening[event.producer_id]
        self._link.protocol.change_producer(event.producer_id, PeerChange.REFUSED)
        self._link.outbox.write(
            encode.error(
                event.request_id, ServerError.ServiceNotReady, "The producer is being closed"
            )
        )

    async def _open(self, event: commands.CommandProducer) -> bytes | None:
        producer_id = event.producer_id
        try:
            name = topic_name(event.topic)
            await self._link.permits.write(name, dict(pairs_of(event.metadata)))
            await self._services.topics.wait_for_deletion(name)
            if self._opening.get(producer_id) is not event:
                return None
            topic = await self._services.topics.get(name)
            version = b""
            if event.HasField("schema"):
                version = await self._services.schemas.put(name, schema_of(event.schema))
            else:
                await self._services.schemas.admit_without(name)
            request = self._request(event)
            await topic.make_ready(request)
            if self._opening.get(producer_id) is not event:
                return None
            producer = topic.add_producer(request, self)
        except BaseException:
            # The client may have closed the producer meanwhile, and opened it again.
            if self._opening.get(producer_id) is event:
                del self._opening[producer_id]
                self._link.protocol.change_producer(producer_id, PeerChange.REFUSED)
            raise
        del self._opening[producer_id]
        self._share.join()
        attached = self._attached[producer_id] = _Attached(producer)
        if not producer.ready:
            attached.ready_request = event.request_id
        self._link.protocol.change_producer(producer_id, PeerChange.OPENED)
        return self._success(event.request_id, producer, version)

    def _success(self, request_id: int, producer: Producer, version: bytes) -> bytes:
        return encode.producer_success(
            request_id,
            producer.name,
            last_sequence_id=producer.last_sequence_id,
            schema_version=version,
            topic_epoch=producer.topic_epoch,
            ready=producer.ready,
        )

    def _request(self, event: commands.CommandProducer) -> ProducerRequest:
        return ProducerRequest(
            producer_id=event.producer_id,
            name=event.producer_name or None,
            epoch=event.epoch,
            user_provided_name=event.user_provided_producer_name,
            access_mode=AccessMode(event.producer_access_mode),
            topic_epoch=optional(event, "topic_epoch"),
            properties=without_key(dict(pairs_of(event.metadata))),
            address=self._link.address,
            client_version=self._link.client_version,
            initial_subscription=event.initial_subscription_name or None,
            encrypted=event.encrypted,
        )

    def send(self, event: Send) -> None:
        """SEND: store an entry."""
        attached = self._attached[event.producer_id]
        attached.pending += 1
        self._pending += 1
        size = len(event.entry)
        attached.pending_bytes += size
        self._share.new += size
        attached.producer.publish((event,), size)

    def send_in_transaction(self, event: TransactionSend) -> None:
        """SEND: store an entry of a transaction."""
        attached = self._attached[event.send.producer_id]
        send = event.send._replace(entry=in_transaction(event.send.entry, event.transaction))
        size = len(send.entry)
        attached.pending += 1
        self._pending += 1
        attached.pending_bytes += size
        self._share.new += size
        if self._services.transactions.enabled:
            attached.producer.topic.publish_in_transaction(
                attached.producer, event.transaction, send
            )
        else:
            refusal = BrokerError(ServerError.NotAllowedError, "Transactions are not enabled.")
            self.send_error(send.producer_id, send.sequence_id, refusal)

    def sends(self, run: Sequence[Send]) -> None:
        """Publish several consecutive SENDs; faster than `send` for each if one producer sent them.

        All are counted as pending before the first is stored, so a receipt always finds its entry
        counted.
        """
        producer_id = run[0].producer_id
        if len(set(map(_PRODUCER_ID, run))) > 1:
            for send in run:
                self.send(send)
            return
        attached = self._attached[producer_id]
        size = sum(map(len, map(_ENTRY, run)))
        attached.pending += len(run)
        self._pending += len(run)
        attached.pending_bytes += size
        self._share.new += size
        attached.producer.publish(run, size)

    def after_reading(self) -> None:
        """Pause reading if too many publishes are pending; called when all bytes read have been
        served.

        Pausing earlier would save nothing: entries that were read already take memory, and share
        the next commit.
        """
        if self._pending >= self._pending_max:
            self._link.pause.hold(_PENDING)

    def refused(self, event: SendRefused) -> None:
        """Refuse a SEND whose entry is damaged or contradicts its metadata."""
        self._link.outbox.write(
            encode.send_error(event.producer_id, event.sequence_id, event.code, event.message)
        )

    def close(self, event: commands.CommandCloseProducer) -> None:
        """CLOSE_PRODUCER: detach a producer once all its entries have a response."""
        self._opening.pop(event.producer_id, None)
        attached = self._attached.get(event.producer_id)
        if attached is None:
            self._link.outbox.write(encode.success(event.request_id))
            return
        attached.close_request = event.request_id
        if not attached.pending:
            self._end(event.producer_id, attached)

    def _end(self, producer_id: int, attached: _Attached) -> None:
        """Complete a CLOSE_PRODUCER that waited for the last receipt."""
        del self._attached[producer_id]
        attached.producer.close()
        if attached.close_request is not None:
            self._link.outbox.write(encode.success(attached.close_request))

    def receipts(
        self,
        producer_id: int,
        ledger_id: int,
        first_entry_id: int,
        published: Sequence[tuple[object, int, int]],
    ) -> None:
        """Send SEND_RECEIPTs for entries that are stored at consecutive positions.

        ``published``: for each entry, its sequence id and highest sequence id.
        """
        self._link.outbox.write(send_receipts(producer_id, ledger_id, first_entry_id, published))
        self._answered(producer_id, len(published))

    def send_error(self, producer_id: int, sequence_id: int, error: BrokerError) -> None:
        """Send SEND_ERROR: an entry was refused."""
        self._link.outbox.write(
            encode.send_error(producer_id, sequence_id, error.code, error.message)
        )
        self._answered(producer_id, 1)

    def _answered(self, producer_id: int, count: int) -> None:
        attached = self._attached.get(producer_id)
        if attached is None:
            return
        self._pending -= count
        self._share.subtract(attached.answered(count))
        if self._pending <= self._pending_max // 2:
            self._link.pause.release(_PENDING)
        if attached.close_request is not None and not attached.pending:
            self._end(producer_id, attached)

    def count_throttled(self, entries: int, size: int) -> None:
        """Count ``entries`` of ``size`` bytes together as throttled, no longer as pending.

        Negative: they have passed the rate limit, and are pending again.
        """
        self._pending -= entries
        self._share.subtract(size)
        self._throttled.add(entries, size)
        if entries < 0 and self._pending >= self._pending_max:
            self._link.pause.hold(_PENDING)

    def count_detached(self, producer: object, count: int) -> None:
        """Subtract ``count`` pending entries of a closed producer: they are stored or lost."""
        left = self._left.get(producer)
        if left is not None:
            self._share.subtract(left.answered(count))
            if not left.pending:
                del self._left[producer]

    def producer_ready(self, producer_id: int, topic_epoch: int | None) -> None:
        """Send PRODUCER_SUCCESS: a producer that waited for exclusive access has it now."""
        attached = self._attached.get(producer_id)
        if attached is None or attached.ready_request is None:
            return
        request_id, attached.ready_request = attached.ready_request, None
        self._link.outbox.write(
            encode.producer_success(request_id, attached.producer.name, topic_epoch=topic_epoch)
        )

    def producer_refused(self, producer_id: int, error: BrokerError) -> None:
        """Send ERROR: a producer that waits for exclusive access does not get it."""
        attached = self._attached.get(producer_id)
        if attached is None or attached.ready_request is None:
            return
        del self._attached[producer_id]
        self._link.protocol.change_producer(producer_id, PeerChange.DETACHED)
        self._link.outbox.write(encode.error(attached.ready_request, error.code, error.message))

    def close_producer(self, producer_id: int, assigned_broker_url: ServiceUrls | None) -> None:
        """Send CLOSE_PRODUCER: the client reconnects, to the broker of these URLs if not None.

        Pending entries get no response: the client sends them again where it reconnects.
        """
        attached = self._attached.get(producer_id)
        if attached is None:
            return
        if attached.pending:
            self._answered(producer_id, attached.pending)
        if attached.close_request is not None:
            return
        del self._attached[producer_id]
        self._link.protocol.change_producer(producer_id, PeerChange.DETACHED)
        whereto = self._link.sent_on_to(assigned_broker_url) or ()
        self._link.outbox.write(encode.close_producer(producer_id, *whereto))

    def detach_all(self) -> None:
        """Detach all producers, since the connection is closed."""
        self._opening.clear()
        self._share.book()
        self._share.leave()
        one_by_one(deque(self._attached), self._leave)

    def _leave(self, producer_id: int) -> None:
        # Its topic may have closed the producer meanwhile.
        attached = self._attached.pop(producer_id, None)
        if attached is None:
            return
        dropped = attached.producer.close()
        if dropped:
            self._share.subtract(attached.answered(dropped))
        if attached.pending:
            self._left[attached.producer] = attached

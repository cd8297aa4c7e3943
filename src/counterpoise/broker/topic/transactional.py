"""The base class of topics with a log: publishing and acknowledging in transactions."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.topic.deduplication import CURSOR
from counterpoise.broker.topic.producer import Producer
from counterpoise.broker.topic.receipts import Published
from counterpoise.broker.topic.shared_parts import SharedByTopics
from counterpoise.broker.topic.subscription import Subscription
from counterpoise.broker.topic.subscription_transactions import (
    PENDING_ACKS,
    SubscriptionTransactions,
)
from counterpoise.broker.topic.topic import Topic
from counterpoise.broker.topic.topic_transactions import BUFFER_CURSOR, TopicTransactions
from counterpoise.broker.transactions.buffer import entry_of_transaction
from counterpoise.names.topic import TopicName
from counterpoise.storage.grouplog import Log
from counterpoise.storage.port import StorageError
from counterpoise.wire.errors import ServerError
from counterpoise.wire.events import EndOnParticipant, Send
from counterpoise.wire.values import TransactionId


class TransactionalTopic(Topic):
    """A topic with a log; a part for transactions is made when the first one uses it."""

    log: Log[Any]

    def __init__(self, name: TopicName, commons: SharedByTopics) -> None:
        super().__init__(name, commons)
        self.transactions: TopicTransactions | None = None
        """None until a message is published in a transaction."""

    @property
    def cached_bytes(self) -> int:
        """The size of the topic's cached entries, in bytes."""
        return self.log.cached_bytes

    @abstractmethod
    def refused(self, error: StorageError, contexts: Sequence[Published]) -> None:
        """Make the producers of entries that could not be stored reconnect."""

    async def recover_transactions(self) -> None:
        """Restore transactions from a log that has some; raises `StorageError`."""
        if BUFFER_CURSOR in self.log.cursors:
            await self._new_transactions().recover()

    def _new_transactions(self) -> TopicTransactions:
        self.transactions = TopicTransactions(self, lambda: int(self.commons.wall() * 1000))
        return self.transactions

    def _restore_acks(self, subscription: Subscription) -> None:
        pending = self.log.cursors.get(subscription.name + PENDING_ACKS)
        if pending is not None:
            subscription.in_transactions().restore(pending.properties)

    def publish_in_transaction(
        self, producer: Producer, transaction: TransactionId, send: Send
    ) -> None:
        """Accept an entry of a transaction, or refuse it if the transaction has ended here."""
        why = self._refusal(transaction, send.entry)
        if why:
            refusal = BrokerError(ServerError.NotAllowedError, why)
            producer.sink.send_error(producer.producer_id, send.sequence_id, refusal)
            return
        if self.transactions is None:
            self._new_transactions().start()
        self.publish(producer, (send,), len(send.entry))

    def _refusal(self, transaction: TransactionId, entry: bytes) -> str:
        """Why an entry cannot be stored in a transaction; empty if it can."""
        if entry_of_transaction(entry) != (transaction, None):
            # When the log is read again, metadata alone decides: this entry would be a message of
            # another transaction, or a marker.
            return f"The metadata of a message of transaction {transaction} must name it"
        if self.transactions is not None and self.transactions.buffer.is_over(transaction):
            return (
                f"Transaction [{transaction}] has been ended. Please use a new transaction to "
                "send message."
            )
        return ""

    async def end_transaction(self, request: EndOnParticipant) -> None:
        """Commit or abort what a transaction published here, or acknowledged on a subscription.

        Raises `BrokerError`; does nothing for an unknown transaction.
        """
        self.check_open()
        ends: TopicTransactions | SubscriptionTransactions | None = self.transactions
        if request.subscription is not None:
            found = self.subscriptions.get(request.subscription)
            ends = None if found is None else found.transactions
        if ends is not None:
            mark = request.low_watermark
            await ends.end(request.transaction, commit=request.commit, low_watermark=mark)

    def end_markers(self) -> None:
        """Stop writing markers; the topic's next owner writes those that are missing."""
        if self.transactions is not None:
            self.transactions.close()


def is_reserved(name: str) -> bool:
    """Whether a topic uses a cursor of this name itself, so that no subscription may have it."""
    return name in (CURSOR, BUFFER_CURSOR) or name.endswith(PENDING_ACKS)


def require_subscription_name(name: str) -> None:
    """Raise `BrokerError` if no subscription may have this name."""
    if is_reserved(name):
        why = "Subscription with reserved subscription name attempted"
        raise BrokerError(ServerError.NotAllowedError, why)
    if not name.strip():
        # The code of Pulsar's NamingException.
        raise BrokerError(ServerError.ProducerBusy, "Empty subscription name")

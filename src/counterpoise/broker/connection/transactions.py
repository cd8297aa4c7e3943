"""One connection's transaction commands: those of clients, and those of other coordinators."""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.connection.client_link import ClientLink, log, topic_name
from counterpoise.broker.connection.ports import Services
from counterpoise.broker.transactions.coordinator import Coordinator
from counterpoise.wire import encode, events
from counterpoise.wire.decode import transaction_in
from counterpoise.wire.encode_transactions import answer
from counterpoise.wire.errors import ServerError
from counterpoise.wire.proto import commands_pb2 as commands
from counterpoise.wire.proto import values_pb2 as raw
from counterpoise.wire.values import TransactionId


class ClientTransactions:
    """Handles a client's transaction commands, except SEND and ACK."""

    def __init__(self, link: ClientLink, services: Services) -> None:
        self._link = link
        self._services = services
        self._coordinators = services.transactions

    def respond(
        self,
        serve: Callable[["ClientTransactions", Any], Coroutine[None, None, bytes | None]],
        event: Any,
    ) -> None:
        """Respond to a command with what ``serve`` returns for it, or refuse it."""
        if self._coordinators.enabled or isinstance(event, events.EndOnParticipant):
            self._link.answer(serve(self, event), partial(answer, event, None))
        else:
            why = "Transactions are not enabled."
            refused = encode.error(event.request_id, ServerError.NotAllowedError, why)
            self._link.outbox.write(refused)

    async def connect(self, event: commands.CommandTcClientConnectRequest) -> bytes:
        """TC_CLIENT_CONNECT_REQUEST: open a transaction coordinator on this broker."""
        await self._coordinators.connect(event.tc_id)
        return answer(event)

    async def new(self, event: commands.CommandNewTxn) -> bytes | None:
        """NEW_TXN: open a transaction."""
        coordinator = self._coordinators.find(event.tc_id)
        most = self._coordinators.open_max
        if 0 < most <= len(coordinator.table.transactions):
            # As in Pulsar: a client that gets an error asks again at once.
            log.warning(
                "%s: coordinator %d has %d open transactions, and opens no more "
                "(maxActiveTransactionsPerCoordinator): NEW_TXN is not answered",
                self._link.address,
                event.tc_id,
                most,
            )
            return None
        role = self._link.permits.caller.role
        # The field is named after seconds, but all clients send milliseconds.
        return answer(event, await coordinator.open(event.txn_ttl_seconds, role))

    async def add_topics(self, event: commands.CommandAddPartitionToTxn) -> bytes:
        """ADD_PARTITION_TO_TXN: add the topics that a transaction publishes to."""
        return await self._add(event, topics=tuple(event.partitions))

    async def add_subscriptions(self, event: commands.CommandAddSubscriptionToTxn) -> bytes:
        """ADD_SUBSCRIPTION_TO_TXN: add the subscriptions that a transaction acknowledges on."""
        added = tuple((each.topic, each.subscription) for each in event.subscription)
        return await self._add(event, subscriptions=added)

    async def _add(
        self,
        event: commands.CommandAddPartitionToTxn | commands.CommandAddSubscriptionToTxn,
        topics: tuple[str, ...] = (),
        subscriptions: tuple[tuple[str, str], ...] = (),
    ) -> bytes:
        transaction = transaction_in(event)
        coordinator = await self._owned(transaction)
        for name in (*topics, *(topic for topic, _ in subscriptions)):
            topic_name(name)  # refuse what names no topic; the statistics have names as sent
        await coordinator.add(transaction, topics, subscriptions)
        return answer(event)

    async def end(self, event: commands.CommandEndTxn) -> bytes:
        """END_TXN: commit or abort a transaction."""
        transaction = transaction_in(event)
        coordinator = await self._owned(transaction)
        await coordinator.end(transaction, commit=event.txn_action == raw.COMMIT)
        return answer(event)

    async def end_here(self, event: events.EndOnParticipant) -> bytes:
        """END_TXN_ON_PARTITION, END_TXN_ON_SUBSCRIPTION: end a transaction on a topic here."""
        if not await self._link.permits.is_superuser():
            raise BrokerError(
                ServerError.UnknownError,
                f"TC client ({self._link.permits.caller.role}) is not a super user, and is not "
                f"allowed to operate on transaction {event.transaction}",
            )
        await self._services.participants.end(event)
        return answer(event)

    async def _owned(self, transaction: TransactionId) -> Coordinator:
        """Return a transaction's coordinator; raises `BrokerError` unless the client owns the
        transaction or is a superuser.
        """
        coordinator = self._coordinators.find(transaction.coordinator)
        owner, role = coordinator.table.find(transaction).owner, self._link.permits.caller.role
        if owner != role and not await self._link.permits.is_superuser():
            raise BrokerError(
                ServerError.UnknownError,
                f"Client ({role}) is neither the owner of the transaction {transaction} nor a "
                "super user",
            )
        return coordinator

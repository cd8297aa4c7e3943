"""One connection's transaction commands: those of clients, and those of other coordinators."""

from __future__ import annotations

from collections.abc import Coroutine
from functools import partial

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.connection.client_link import ClientLink, log, topic_name
from counterpoise.broker.connection.ports import Services
from counterpoise.broker.transactions.coordinator import Coordinator
from counterpoise.wire import encode, events
from counterpoise.wire.encode_transactions import Request, answer
from counterpoise.wire.errors import ServerError
from counterpoise.wire.values import TransactionId


class ClientTransactions:
    """Handles a client's transaction commands, except SEND and ACK."""

    def __init__(self, link: ClientLink, services: Services) -> None:
        self._link = link
        self._services = services
        self._coordinators = services.transactions

    def _answer(self, request: Request, work: Coroutine[None, None, bytes | None]) -> None:
        if not self._coordinators.enabled and not isinstance(request, events.EndOnParticipant):
            work.close()
            why = "Transactions are not enabled."
            self._link.outbox.write(
                encode.error(request.request_id, ServerError.NotAllowedError, why)
            )
            return
        self._link.answer(work, partial(answer, request, None))

    def connect(self, event: events.ConnectCoordinator) -> None:
        """TC_CLIENT_CONNECT_REQUEST: open a transaction coordinator on this broker."""
        self._answer(event, self._connect(event))

    async def _connect(self, event: events.ConnectCoordinator) -> bytes:
        await self._coordinators.connect(event.coordinator)
        return answer(event)

    def new(self, event: events.NewTransaction) -> None:
        """NEW_TXN: open a transaction."""
        self._answer(event, self._new(event))

    async def _new(self, event: events.NewTransaction) -> bytes | None:
        coordinator = self._coordinators.find(event.coordinator)
        most = self._coordinators.open_max
        if 0 < most <= len(coordinator.table.transactions):
            # As in Pulsar: a client that gets an error asks again at once.
            log.warning(
                "%s: coordinator %d has %d open transactions, and opens no more "
                "(maxActiveTransactionsPerCoordinator): NEW_TXN is not answered",
                self._link.address,
                event.coordinator,
                most,
            )
            return None
        role = self._link.permits.caller.role
        return answer(event, await coordinator.open(event.timeout_ms, role))

    def add(self, event: events.AddToTransaction) -> None:
        """ADD_PARTITION_TO_TXN, ADD_SUBSCRIPTION_TO_TXN: add what a transaction writes to."""
        self._answer(event, self._add(event))

    async def _add(self, event: events.AddToTransaction) -> bytes:
        coordinator = await self._owned(event.transaction)
        subscriptions = event.subscriptions or ()
        for name in (*event.topics, *(topic for topic, _ in subscriptions)):
            topic_name(name)  # refuse what names no topic; the statistics have names as sent
        await coordinator.add(event.transaction, event.topics, tuple(subscriptions))
        return answer(event)

    def end(self, event: events.EndTransaction) -> None:
        """END_TXN: commit or abort."""
        self._answer(event, self._end(event))

    async def _end(self, event: events.EndTransaction) -> bytes:
        coordinator = await self._owned(event.transaction)
        await coordinator.end(event.transaction, commit=event.commit)
        return answer(event)

    def end_here(self, event: events.EndOnParticipant) -> None:
        """END_TXN_ON_PARTITION, END_TXN_ON_SUBSCRIPTION: end a transaction on a topic here."""
        self._answer(event, self._end_here(event))

    async def _end_here(self, event: events.EndOnParticipant) -> bytes:
        if not await self._link.permits.is_superuser():
            raise BrokerError(
                ServerError.UnknownError,
                f"TC client ({self._link.permits.caller.role}) is not a super user, and is not "
                f"allowed to operate on transaction {event.transaction}",
            )
        await self._services.participants.end(event)
        return answer(event)

    async def _owned(self, transaction: TransactionId) -> Coordinator:
        """The coordinator, if the client owns the transaction or is a superuser."""
        coordinator = self._coordinators.find(transaction.coordinator)
        owner, role = coordinator.table.find(transaction).owner, self._link.permits.caller.role
        if owner != role and not await self._link.permits.is_superuser():
            raise BrokerError(
                ServerError.UnknownError,
                f"Client ({role}) is neither the owner of the transaction {transaction} nor a "
                "super user",
            )
        return coordinator

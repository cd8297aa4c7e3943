"""A raw client's transactions: the commands of a coordinator, and messages and
acknowledgements in a transaction.
"""

from __future__ import annotations

from counterpoise.wire.proto.base_pb2 import BaseCommand
from counterpoise.wire.values import TransactionId
from tests.broker.connection.raw_client import RawClient
from tests.wire import frames
from tests.wire.frames import Type

COMMIT, ABORT = 0, 1
ASSIGNMENT = "persistent://pulsar/system/transaction_coordinator_assign-partition-0"
"""Its owner has coordinator 0."""


class Transactor:
    """One client of a coordinator."""

    def __init__(self, client: RawClient) -> None:
        self.client = client
        self._ids = 0

    def ask(self, kind: int, **values: object) -> int | None:
        """A request; the code of its error, None: it is done."""
        self._ids += 1
        self.client.command(Type.Name(kind).lower(), request_id=self._ids, **values)
        command = self.client.receive()
        answer = getattr(command, BaseCommand.Type.Name(command.type).lower())
        assert answer.request_id == self._ids
        self.answer = answer
        if command.type == Type.ERROR:
            return int(answer.error)
        return int(answer.error) if answer.HasField("error") else None

    def open(self, timeout_ms: int = 60_000) -> dict[str, int]:
        """A new transaction of coordinator 0."""
        assert self.ask(Type.TC_CLIENT_CONNECT_REQUEST, tc_id=0) is None
        assert self.ask(Type.NEW_TXN, tc_id=0, txn_ttl_seconds=timeout_ms) is None
        return self.id_of(self.answer.txnid_most_bits, self.answer.txnid_least_bits)

    def add(self, transaction: dict[str, int], topic: str, subscription: str = "") -> None:
        """Add a topic, or a subscription of one, to a transaction."""
        if subscription:
            named = [{"topic": topic, "subscription": subscription}]
            kind = Type.ADD_SUBSCRIPTION_TO_TXN
            assert self.ask(kind, subscription=named, **transaction) is None
        else:
            assert self.ask(Type.ADD_PARTITION_TO_TXN, partitions=[topic], **transaction) is None

    def end(self, transaction: dict[str, int], action: int) -> None:
        """Commit or abort it."""
        assert self.ask(Type.END_TXN, txn_action=action, **transaction) is None

    def publish(self, transaction: dict[str, int], number: int) -> tuple[int, int]:
        """Send a message by producer 0; where it is."""
        entry = frames.entry(sequence_id=number, **transaction)
        self.client.send(frames.send(0, number, entry, **transaction))
        receipt = self.client.receive(Type.SEND_RECEIPT).send_receipt.message_id
        return receipt.ledger_id, receipt.entry_id

    def acknowledge(
        self, transaction: dict[str, int], position: tuple[int, int], *, cumulative: bool = False
    ) -> None:
        """Acknowledge a message by consumer 0."""
        at = {"ledger_id": position[0], "entry_id": position[1]}
        kind, how = int(cumulative), {"consumer_id": 0, "message_id": [at]}
        assert self.ask(Type.ACK, ack_type=kind, **how, **transaction) is None

    @staticmethod
    def id_of(most: int, least: int) -> dict[str, int]:
        return {"txnid_most_bits": most, "txnid_least_bits": least}


def commit_one(of_coordinator: str, of_topic: str, topic: str) -> None:
    """A transaction that publishes to a topic and acknowledges on its subscription ``s``.

    ``of_coordinator``, ``of_topic``: the service URLs of the brokers that own them.
    """
    with RawClient(of_coordinator) as client, RawClient(of_topic) as other:
        client.connect()
        other.connect()
        coordinator, member = Transactor(client), Transactor(other)
        other.produce(topic)
        other.subscribe(topic)
        opened = coordinator.open()
        coordinator.add(opened, topic)
        coordinator.add(opened, topic, "s")
        other.send(frames.send(0, 0))
        stored = other.receive(Type.SEND_RECEIPT).send_receipt.message_id
        member.acknowledge(opened, (stored.ledger_id, stored.entry_id))
        member.publish(opened, 1)
        coordinator.end(opened, COMMIT)


def id_in(transaction: dict[str, int]) -> TransactionId:
    """The same as the admin API names it."""
    return TransactionId(transaction["txnid_most_bits"], transaction["txnid_least_bits"])

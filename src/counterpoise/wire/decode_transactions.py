"""Decodes commands about transactions (see `decode`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from counterpoise.wire import events
from counterpoise.wire.proto import commands_pb2 as commands
from counterpoise.wire.proto import values_pb2 as raw
from counterpoise.wire.values import TransactionId
from counterpoise.wire.varint import signed


def transaction_of(
    command: commands.CommandSend | commands.CommandAck,
) -> TransactionId | None:
    """The transaction to which a SEND or ACK belongs; None if it belongs to none."""
    if not (command.HasField("txnid_most_bits") and command.HasField("txnid_least_bits")):
        return None
    return TransactionId(command.txnid_most_bits, command.txnid_least_bits)


def _transaction(command: Any) -> TransactionId:
    return TransactionId(command.txnid_most_bits, command.txnid_least_bits)


def _add_partitions(command: commands.CommandAddPartitionToTxn, _: bytes) -> events.Event:
    return events.AddToTransaction(
        command.request_id, _transaction(command), tuple(command.partitions)
    )


def _add_subscriptions(command: commands.CommandAddSubscriptionToTxn, _: bytes) -> events.Event:
    return events.AddToTransaction(
        command.request_id,
        _transaction(command),
        subscriptions=tuple((each.topic, each.subscription) for each in command.subscription),
    )


def _end(command: commands.CommandEndTxn, _: bytes) -> events.Event:
    return events.EndTransaction(
        command.request_id, _transaction(command), command.txn_action == raw.COMMIT
    )


def _end_on_partition(command: commands.CommandEndTxnOnPartition, _: bytes) -> events.Event:
    return events.EndOnParticipant(
        command.request_id,
        _transaction(command),
        command.txn_action == raw.COMMIT,
        _low_watermark(command),
        command.topic,
    )


def _end_on_subscription(command: commands.CommandEndTxnOnSubscription, _: bytes) -> events.Event:
    return events.EndOnParticipant(
        command.request_id,
        _transaction(command),
        command.txn_action == raw.COMMIT,
        _low_watermark(command),
        command.subscription.topic,
        command.subscription.subscription,
    )


def _low_watermark(
    command: commands.CommandEndTxnOnPartition | commands.CommandEndTxnOnSubscription,
) -> int:
    """A coordinator whose transactions are all open says -1, which 64 bits hold as 2^64 - 1."""
    if not command.HasField("txnid_least_bits_of_low_watermark"):
        return -1
    return signed(command.txnid_least_bits_of_low_watermark)


#: By the field of the command.
TRANSACTION_READERS: Final[dict[str, Callable[[Any, bytes], events.Event]]] = {
    # Called seconds, and sent in milliseconds by all clients.
    "new_txn": lambda c, _: events.NewTransaction(c.request_id, c.tc_id, c.txn_ttl_seconds),
    "add_partition_to_txn": _add_partitions,
    "add_subscription_to_txn": _add_subscriptions,
    "end_txn": _end,
    "end_txn_on_partition": _end_on_partition,
    "end_txn_on_subscription": _end_on_subscription,
    "tc_client_connect_request": lambda c, _: events.ConnectCoordinator(c.request_id, c.tc_id),
}

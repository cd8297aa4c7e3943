"""Encodes responses about transactions, and a coordinator's requests to other brokers."""

from __future__ import annotations

from google.protobuf.message import Message

from counterpoise.wire import events
from counterpoise.wire.encode import frame
from counterpoise.wire.errors import ServerError
from counterpoise.wire.proto import commands_pb2 as commands
from counterpoise.wire.proto import values_pb2 as raw
from counterpoise.wire.values import TransactionId

Request = (
    events.ConnectCoordinator
    | events.NewTransaction
    | events.AddToTransaction
    | events.EndTransaction
    | events.EndOnParticipant
)


def answer(
    request: Request,
    transaction: TransactionId | None = None,
    code: ServerError | None = None,
    message: str = "",
) -> bytes:
    """Answer a request about a transaction: with success, or with an error if ``code`` is given."""
    response = _response(request)
    if transaction is None and not isinstance(
        request, events.ConnectCoordinator | events.NewTransaction
    ):
        transaction = request.transaction
    if transaction is not None:
        response.txnid_most_bits, response.txnid_least_bits = transaction  # type: ignore[attr-defined]
    if code is not None:
        response.error, response.message = code.value, message  # type: ignore[attr-defined]
    return frame(response)


def _response(request: Request) -> Message:
    number = request.request_id
    match request:
        case events.ConnectCoordinator():
            return commands.CommandTcClientConnectResponse(request_id=number)
        case events.NewTransaction():
            return commands.CommandNewTxnResponse(
                request_id=number, txnid_most_bits=request.coordinator
            )
        case events.AddToTransaction():
            if request.subscriptions is not None:
                return commands.CommandAddSubscriptionToTxnResponse(request_id=number)
            return commands.CommandAddPartitionToTxnResponse(request_id=number)
        case events.EndTransaction():
            return commands.CommandEndTxnResponse(request_id=number)
        case events.EndOnParticipant():
            if request.subscription is None:
                return commands.CommandEndTxnOnPartitionResponse(request_id=number)
            return commands.CommandEndTxnOnSubscriptionResponse(request_id=number)


def end_on_participant(request: events.EndOnParticipant) -> bytes:
    """Ask the owner of a topic to end a transaction there, or on a subscription of it."""
    action = raw.COMMIT if request.commit else raw.ABORT
    watermark = request.low_watermark & (1 << 64) - 1
    most, least = request.transaction
    if request.subscription is None:
        return frame(
            commands.CommandEndTxnOnPartition(
                request_id=request.request_id,
                txnid_most_bits=most,
                txnid_least_bits=least,
                topic=request.topic,
                txn_action=action,
                txnid_least_bits_of_low_watermark=watermark,
            )
        )
    return frame(
        commands.CommandEndTxnOnSubscription(
            request_id=request.request_id,
            txnid_most_bits=most,
            txnid_least_bits=least,
            subscription=commands.Subscription(
                topic=request.topic, subscription=request.subscription
            ),
            txn_action=action,
            txnid_least_bits_of_low_watermark=watermark,
        )
    )

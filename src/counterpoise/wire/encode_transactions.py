"""Encodes responses about transactions, and a coordinator's requests to other brokers."""

from typing import Any, Final

from google.protobuf.message import Message

from counterpoise.wire.decode import transaction_in
from counterpoise.wire.encode import frame
from counterpoise.wire.errors import ServerError
from counterpoise.wire.events import EndOnParticipant
from counterpoise.wire.proto import commands_pb2 as commands
from counterpoise.wire.proto import values_pb2 as raw
from counterpoise.wire.values import TransactionId

_RESPONSES: Final[dict[type[Message], Any]] = {
    commands.CommandTcClientConnectRequest: commands.CommandTcClientConnectResponse,
    commands.CommandNewTxn: commands.CommandNewTxnResponse,
    commands.CommandAddPartitionToTxn: commands.CommandAddPartitionToTxnResponse,
    commands.CommandAddSubscriptionToTxn: commands.CommandAddSubscriptionToTxnResponse,
    commands.CommandEndTxn: commands.CommandEndTxnResponse,
}


def answer(
    request: Any,
    transaction: TransactionId | None = None,
    code: ServerError | None = None,
    message: str = "",
) -> bytes:
    """Answer a request about a transaction: with success, or with an error if ``code`` is given."""
    if isinstance(request, EndOnParticipant):
        on_topic = request.subscription is None
        made: Any = (
            commands.CommandEndTxnOnPartitionResponse
            if on_topic
            else commands.CommandEndTxnOnSubscriptionResponse
        )
        transaction = request.transaction
    else:
        made = _RESPONSES[type(request)]
        if hasattr(request, "txnid_most_bits"):
            transaction = transaction_in(request)
    response = made(request_id=request.request_id)
    if transaction is not None:
        response.txnid_most_bits, response.txnid_least_bits = transaction
    elif isinstance(request, commands.CommandNewTxn):
        response.txnid_most_bits = request.tc_id
    if code is not None:
        response.error, response.message = code.value, message
    return frame(response)


def end_on_participant(request: EndOnParticipant) -> Any:
    """The command that asks the owner of a topic to end a transaction there, or on a
    subscription of it; without its request id.
    """
    most, least = request.transaction
    common: dict[str, Any] = {
        "txnid_most_bits": most,
        "txnid_least_bits": least,
        "txn_action": raw.COMMIT if request.commit else raw.ABORT,
        "txnid_least_bits_of_low_watermark": request.low_watermark & (1 << 64) - 1,
    }
    if request.subscription is None:
        return commands.CommandEndTxnOnPartition(topic=request.topic, **common)
    subscription = commands.Subscription(topic=request.topic, subscription=request.subscription)
    return commands.CommandEndTxnOnSubscription(subscription=subscription, **common)

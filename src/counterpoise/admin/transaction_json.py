"""Transactions in the JSON of Pulsar's ``Transaction…Stats``; times are ms since 1970."""

from counterpoise.admin.subscription_json import JsonObject
from counterpoise.admin.topic_json import log_stats_json
from counterpoise.broker import face


def coordinator_json(coordinator: face.Coordinator) -> JsonObject:
    """``TransactionCoordinatorStats`` of a transaction coordinator."""
    table, figures = coordinator.table, coordinator.figures
    open_ones = table.transactions
    return {
        "state": "Ready",
        "leastSigBits": table.next - 1,
        # As in Pulsar: 0 where no transaction is open.
        "lowWaterMark": table.low_watermark if open_ones else 0,
        "ongoingTxnSize": len(open_ones),
        "recoverStartTime": figures.recovery_began_ms,
        "recoverEndTime": figures.recovery_ended_ms,
    }


async def coordinator_log_json(coordinator: face.Coordinator) -> JsonObject:
    """``TransactionCoordinatorInternalStats``: the log of a coordinator."""
    figures = coordinator.figures
    stats = log_stats_json(
        coordinator.log, figures.records, figures.recovery_began_ms / 1000, "LedgerOpened"
    )
    return {
        "transactionLogStats": {
            "managedLedgerName": coordinator.log.name,
            "managedLedgerInternalStats": {**stats, "cursors": {}},
        }
    }


def transaction_json(transaction: face.CoordinatedTransaction) -> JsonObject:
    """``TransactionMetadata`` without the participants."""
    owner = transaction.owner
    return {
        "txnId": str(transaction.id),
        "status": transaction.state.name,
        "openTimestamp": transaction.opened_ms,
        # As in Pulsar: for how long it may be open, whatever the name says.
        "timeoutAt": transaction.timeout_ms,
        **({} if owner is None else {"owner": owner}),
    }


def buffer_json(topic: face.PersistentTopic, *, low_watermarks: bool) -> JsonObject:
    """``TransactionBufferStats``, without snapshots: the topic's log holds the transactions."""
    buffer = None if topic.transactions is None else topic.transactions.buffer
    stable_end = topic.log.end if buffer is None else buffer.stable_end(topic.log.end)
    # The transactions are read with the log, when the topic is loaded.
    loaded_ms = int(topic.created * 1000)
    return {
        "state": "NoSnapshot" if buffer is None else "Ready",
        "maxReadPosition": str(topic.log.position(stable_end - 1)),
        "lastSnapshotTimestamps": 0,
        **({} if not low_watermarks else _marks_json(buffer.watermarks if buffer else {})),
        "ongoingTxnSize": len(buffer.open) if buffer else 0,
        "recoverStartTime": loaded_ms,
        "recoverEndTime": loaded_ms,
        "totalAbortedTransactions": buffer.ended_by[face.Marker.ABORT] if buffer else 0,
    }


def in_buffer_json(topic: face.PersistentTopic, transaction: face.TransactionId) -> JsonObject:
    """``TransactionInBufferStats``: where an open transaction's messages begin in this topic."""
    if topic.transactions is None:
        return {"aborted": False}
    buffer = topic.transactions.buffer
    first = buffer.begins_at(transaction)
    start = {} if first is None else {"startPosition": str(topic.log.position(first))}
    return {**start, "aborted": buffer.is_aborted(transaction)}


def pending_acks_json(subscription: face.Subscription, *, low_watermarks: bool) -> JsonObject:
    """``TransactionPendingAckStats`` of a subscription."""
    of = subscription.transactions
    # What is pending is read with the cursor, when the subscription is opened.
    opened_ms = 0 if of is None else int(subscription.created * 1000)
    return {
        "state": "None" if of is None else "Ready",
        **({} if not low_watermarks else _marks_json(of.watermarks if of else {})),
        "ongoingTxnSize": len(of.pending.transactions) if of else 0,
        "recoverStartTime": opened_ms,
        "recoverEndTime": opened_ms,
    }


def in_pending_acks_json(
    subscription: face.Subscription, transaction: face.TransactionId
) -> JsonObject:
    """``TransactionInPendingAckStats``: up to where a transaction acknowledges cumulatively."""
    if subscription.transactions is None:
        return {}
    cumulative = subscription.transactions.pending.of(transaction).cumulative
    if cumulative is None:
        return {}
    part, log = cumulative.part, subscription.log
    position = log.position(cumulative.through if part is None else part.at)
    text = str(position)
    if part is not None:
        # The first message of the batch that is left.
        text += f":{(~part.bits & (part.bits + 1)).bit_length() - 1}"
    return {"cumulativeAckPosition": text}


def pending_state(
    subscription: face.Subscription, position: tuple[int, int], batch_index: int | None
) -> str:
    """Whether an open transaction acknowledges a message (``PositionInPendingAckStats.State``).

    ``batch_index``: the message's index within its batch; None: the whole entry.
    """
    if subscription.transactions is None:
        return "PendingAckNotReady"
    index = subscription.log.index(position)
    if index <= subscription.acks.mark:
        return "MarkDelete"
    bits, size = subscription.transactions.pending.bits(index)
    if not bits:
        return "NotInPendingAck"
    if batch_index is None:
        return "PendingAck"
    if batch_index >= (size or 1):
        return "InvalidPosition"
    whole = bits == face.WHOLE_ENTRY
    return "PendingAck" if whole or bits >> batch_index & 1 else "NotInPendingAck"


def _marks_json(marks: dict[int, int]) -> JsonObject:
    return {"lowWaterMarks": {str(each): mark for each, mark in marks.items()}}

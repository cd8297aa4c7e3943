"""The transactions of one coordinator as a state table without I/O: open, ending, gone.

Every change is a record, which is applied both when it is made and when the log is read again.
"""

import json
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from counterpoise.broker.base.errors import BrokerError
from counterpoise.names.topic import TopicName
from counterpoise.wire.errors import ServerError
from counterpoise.wire.values import TransactionId

OPEN_MAX: Final = 100_000
"""The most open transactions of one coordinator, if no setting says less."""
PARTICIPANTS_MAX: Final = 10_000
"""The most topics and subscriptions of one transaction, together."""

Record = dict[str, Any]
"""One entry of a coordinator's log, as JSON: a change of one transaction."""


class TransactionState(Enum):
    """The state of a transaction (``TxnStatus``); one that has ended is forgotten."""

    OPEN = "open"
    COMMITTING = "committing"
    ABORTING = "aborting"


ENDED: Final = "ended"
"""The state in the record of a transaction that is committed, or aborted, on all participants."""


@dataclass(slots=True)
class CoordinatedTransaction:
    """The state of one transaction at its coordinator."""

    id: TransactionId
    opened_ms: int
    timeout_ms: int
    owner: str | None
    """The role of the client that opened it; None without authentication."""
    first_record: int
    """The index of its first record in the coordinator's log."""
    state: TransactionState = TransactionState.OPEN
    topics: dict[str, None] = field(default_factory=dict)
    """The topics' names as the client sent them, which may be short; ``subscriptions`` likewise."""
    subscriptions: dict[tuple[str, str], None] = field(default_factory=dict)

    @property
    def participants(self) -> list[tuple[str, str | None]]:
        """Each topic, and each subscription with its topic: once, and under complete names."""
        everything = [*((topic, None) for topic in self.topics), *self.subscriptions]
        named = [(str(TopicName.parse(topic)), name) for topic, name in everything]
        return list(dict.fromkeys(named))

    @property
    def due_ms(self) -> int:
        """When the transaction is aborted if it is still open (milliseconds since 1970)."""
        return self.opened_ms + self.timeout_ms


class CoordinatorTable:
    """The transactions of one coordinator that have not ended.

    Every change is a record: the methods that decide return one, and `apply` applies it, both when
    it is made and when the log is read again. What is not allowed raises `BrokerError`.
    """

    def __init__(self, coordinator: int) -> None:
        self.coordinator = coordinator
        self.transactions: dict[int, CoordinatedTransaction] = {}
        self.next = 0
        """The number of the next transaction."""

    def open(self, now_ms: int, timeout_ms: int, owner: str | None) -> Record:
        """The record that opens a transaction; its number is `next`."""
        if len(self.transactions) >= OPEN_MAX:
            raise BrokerError(
                ServerError.TooManyRequests,
                f"Coordinator {self.coordinator} has {OPEN_MAX} open transactions: end some",
            )
        opened = {"is": TransactionState.OPEN.value, "at": now_ms, "timeout": timeout_ms}
        return {"txn": self.next, **opened, **({"owner": owner} if owner is not None else {})}

    def add(
        self,
        transaction: TransactionId,
        topics: tuple[str, ...],
        subscriptions: tuple[tuple[str, str], ...],
    ) -> Record | None:
        """The record that adds topics and subscriptions; None if the transaction has them all."""
        known = self.find(transaction)
        if known.state is not TransactionState.OPEN:
            raise _not_open(known)
        new_topics = [it for it in dict.fromkeys(topics) if it not in known.topics]
        new = [it for it in dict.fromkeys(subscriptions) if it not in known.subscriptions]
        have = len(known.topics) + len(known.subscriptions)
        if have + len(new_topics) + len(new) > PARTICIPANTS_MAX:
            raise BrokerError(
                ServerError.NotAllowedError,
                f"Transaction {transaction} has {have} topics and subscriptions, at most "
                f"{PARTICIPANTS_MAX}",
            )
        if not (new_topics or new):
            return None
        return {"txn": transaction.number, "topics": new_topics, "subscriptions": new}

    def end(self, transaction: TransactionId, *, commit: bool) -> Record | None:
        """The record that begins a commit or abort; None if that has begun already."""
        known = self.find(transaction)
        end_state = TransactionState.COMMITTING if commit else TransactionState.ABORTING
        if known.state is end_state:
            return None
        if known.state is not TransactionState.OPEN:
            raise _not_open(known)
        return {"txn": transaction.number, "is": end_state.value}

    def ended(self, transaction: TransactionId) -> Record:
        """The record of a transaction that has ended on all participants."""
        # It has the next number: earlier records may be deleted, and no number is used twice.
        return {"txn": transaction.number, "is": ENDED, "next": self.next}

    def apply(self, record: Record, index: int) -> None:
        """Apply a record, whose index in the log is ``index``.

        Records whose transaction's first record was deleted concern ended transactions, and are
        ignored.
        """
        number, state = record["txn"], record.get("is")
        self.next = max(self.next, number + 1, record.get("next", 0))
        if state == TransactionState.OPEN.value:
            self.transactions[number] = CoordinatedTransaction(
                TransactionId(self.coordinator, number),
                record["at"],
                record["timeout"],
                record.get("owner"),
                index,
            )
            return
        known = self.transactions.get(number)
        if known is None:
            return
        if state == ENDED:
            del self.transactions[number]
        elif state is not None:
            known.state = TransactionState(state)
        known.topics.update(dict.fromkeys(record.get("topics", ())))
        known.subscriptions.update(
            dict.fromkeys((topic, name) for topic, name in record.get("subscriptions", ()))
        )

    def find(self, transaction: TransactionId) -> CoordinatedTransaction:
        """A transaction that has not ended; raises `BrokerError` TransactionNotFound."""
        known = self.transactions.get(transaction.number)
        if known is None or transaction.coordinator != self.coordinator:
            raise BrokerError(
                ServerError.TransactionNotFound,
                f"The transaction with this txdID `{transaction}`not found ",
            )
        return known

    @property
    def low_watermark(self) -> int:
        """The largest number up to which every transaction has ended."""
        # Numbers ascend, and a dict keeps the order in which they came.
        return next(iter(self.transactions), self.next) - 1

    def kept_from(self, end: int) -> int:
        """The index of the log's first record that is still needed; earlier ones may be deleted.

        ``end`` is the index after the last record, which is always kept.
        """
        firsts = min((it.first_record for it in self.transactions.values()), default=end)
        return min(firsts, end - 1)


def _not_open(known: CoordinatedTransaction) -> BrokerError:
    return BrokerError(
        ServerError.InvalidTxnStatus,
        f"Expect transaction `{known.id}` to be in OPEN status but it is in "
        f"{known.state.name} status",
    )


def encode_record(record: Record) -> bytes:
    """Encode a record for the coordinator's log."""
    return json.dumps(record, separators=(",", ":")).encode()


def decode_record(entry: bytes) -> Record:
    """Decode a record that `encode_record` has written."""
    record: Record = json.loads(entry)
    return record

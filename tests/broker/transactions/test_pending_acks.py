"""What open transactions acknowledge, against sets of single messages."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from counterpoise.broker.transactions.pending_acks import (
    WHOLE,
    CumulativeAck,
    EntryAck,
    PendingAcks,
    PendingTransaction,
)
from counterpoise.wire.values import TransactionId

ENTRIES, SIZE = 5, 3
TRANSACTIONS = st.builds(TransactionId, st.just(0), st.integers(0, 3))
INDEXES = st.integers(0, ENTRIES - 1)
PARTS = st.integers(0, (1 << SIZE) - 2)
"""No, one or more messages of a batch, never all."""

Message = tuple[int, int]
"""An entry, and a place in its batch."""


def messages(ack: EntryAck) -> set[Message]:
    return {(ack.at, place) for place in range(SIZE) if ack.bits >> place & 1}


def everything(pending: PendingTransaction) -> tuple[set[Message], CumulativeAck | None]:
    return set().union(*map(messages, pending.entries)), pending.cumulative


class PendingMachine(RuleBasedStateMachine):
    """A message has one transaction at most, and is free again once that has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.pending = PendingAcks()
        self.mine: dict[TransactionId, set[Message]] = {}
        self.cumulative: CumulativeAck | None = None

    def reached(self) -> set[Message]:
        """What the cumulative acknowledgement has."""
        if self.cumulative is None:
            return set()
        part = set() if self.cumulative.part is None else messages(self.cumulative.part)
        through = range(self.cumulative.through + 1)
        return {(at, place) for at in through for place in range(SIZE)} | part

    @rule(transaction=TRANSACTIONS, at=INDEXES, bits=st.just(WHOLE) | PARTS)
    def acknowledge(self, transaction: TransactionId, at: int, bits: int) -> None:
        ack = EntryAck(at, bits) if bits == WHOLE else EntryAck(at, bits, SIZE)
        taken = self.reached().union(*self.mine.values())
        conflicts = self.pending.conflicts(ack)
        if not bits:
            conflicts = False
        else:
            assert conflicts == bool(messages(ack) & taken)
        if not conflicts:
            self.pending.add(transaction, ack)
            if bits:
                self.mine.setdefault(transaction, set()).update(messages(ack))

    @rule(transaction=TRANSACTIONS, at=INDEXES, bits=st.just(WHOLE) | PARTS)
    def acknowledge_through(self, transaction: TransactionId, at: int, bits: int) -> None:
        """Only one transaction does, and only further than it did before."""
        part = None if bits == WHOLE else EntryAck(at, bits, SIZE)
        ack = CumulativeAck(transaction, at if part is None else at - 1, part)
        refused, before = self.pending.refuses_cumulative(ack), self.reached()
        held = self.cumulative
        if held is None:
            assert not refused
        elif held.transaction != transaction:
            assert refused
        if not refused:
            self.cumulative = self.pending.cumulative = ack
            if held is not None:
                assert len(self.reached()) > len(before)

    @rule(transaction=TRANSACTIONS)
    def end(self, transaction: TransactionId) -> None:
        """All of it, once; the second time nothing."""
        wanted = self.mine.pop(transaction, set()), None
        if self.cumulative is not None and self.cumulative.transaction == transaction:
            wanted, self.cumulative = (wanted[0], self.cumulative), None
        assert (transaction in self.pending) == (wanted != (set(), None))
        assert everything(self.pending.of(transaction)) == wanted
        assert everything(self.pending.end(transaction)) == wanted
        assert self.pending.end(transaction) == PendingTransaction()

    @rule()
    def reload(self) -> None:
        saved = dict(self.pending.items())
        self.pending = PendingAcks()
        self.pending.restore(saved)

    @rule()
    def move(self) -> None:
        self.pending.clear()
        self.mine.clear()
        self.cumulative = None

    @invariant()
    def withholds_what_is_pending(self) -> None:
        taken = self.reached().union(*self.mine.values())
        for at in range(ENTRIES):
            places = {place for index, place in taken if index == at}
            bits, size = self.pending.bits(at)
            assert {place for place in range(SIZE) if bits >> place & 1} == places
            assert (bits == WHOLE) == (len(places) == SIZE)
            assert size in (0, SIZE)
        owners = {self.cumulative.transaction} if self.cumulative is not None else set()
        assert self.pending.transactions == owners | set(self.mine)
        assert bool(self.pending) == bool(owners or self.mine)


PendingMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
TestPending = PendingMachine.TestCase


def test_two_transactions_share_a_batch_and_the_first_to_end_leaves_the_others_part() -> None:
    """Rare among the steps above."""
    shared, first, second = PendingMachine(), TransactionId(0, 0), TransactionId(0, 1)
    for transaction, bits in ((first, 0b001), (first, 0b010), (second, 0b100)):
        shared.acknowledge(transaction, 0, bits)
        shared.withholds_what_is_pending()
    for transaction in (first, second):
        shared.end(transaction)
        shared.withholds_what_is_pending()

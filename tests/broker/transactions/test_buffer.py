"""What a topic delivers of transactions, against a list of what was published."""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from counterpoise.broker.transactions.buffer import (
    ENDED_MAX,
    EntryOfTransaction,
    Marker,
    TransactionBuffer,
    entry_of_transaction,
    in_transaction,
    marker_entry,
)
from counterpoise.wire.entry import build, metadata_of, split
from counterpoise.wire.proto.metadata_pb2 import MessageMetadata
from counterpoise.wire.values import TransactionId

TRANSACTIONS = st.builds(TransactionId, st.integers(0, 1), st.integers(0, 4))


def message(transaction: TransactionId | None) -> bytes:
    fields = (
        {}
        if transaction is None
        else {"txnid_most_bits": transaction[0], "txnid_least_bits": transaction[1]}
    )
    return build(MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, **fields), b"")


def test_an_entry_is_given_its_transaction_once_and_keeps_the_rest() -> None:
    one, two = TransactionId(1, 3), TransactionId(0, 4)
    metadata = MessageMetadata(producer_name="p", sequence_id=7, publish_time=1, partition_key="k")
    given = in_transaction(build(metadata, b"body"), one)
    assert entry_of_transaction(given) == EntryOfTransaction(one, None)
    found = metadata_of(given)
    assert (found.sequence_id, found.partition_key) == (7, "k")
    assert bytes(split(given)[1]) == b"body"
    assert in_transaction(given, two) == given
    assert in_transaction(b"no metadata", one) == b"no metadata"


class Hidden(set[int]):
    """Indexes that are never delivered."""

    def ack_range(self, first: int, last: int) -> bool:
        self.update(range(first, last + 1))
        return True


class BufferMachine(RuleBasedStateMachine):
    """Each transaction all or nothing, in the order of the log, none while it is open."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[bytes] = []
        self.of: list[TransactionId | None] = []
        """Of each entry the transaction that it is a message of; a marker: its own."""
        self.ends: dict[TransactionId, Marker] = {}
        self.markers: set[int] = set()
        self.late: set[int] = set()
        self.marks = {0: -1, 1: -1}
        self.hidden = Hidden()
        self.buffer = TransactionBuffer(self.hidden)

    def store(self, entry: bytes) -> None:
        index = len(self.log)
        self.log.append(entry)
        found, before = entry_of_transaction(entry), set(self.hidden)
        if found is not None:
            stretches = self.buffer.stored(index, found)
            added = {at for first, last in stretches for at in range(first, last + 1)}
            assert self.hidden == before | added

    @rule(transaction=st.none() | TRANSACTIONS)
    def publish(self, transaction: TransactionId | None) -> None:
        """A message; one that comes after its transaction's end is never delivered."""
        if transaction in self.ends:
            self.late.add(len(self.log))
        self.of.append(transaction)
        self.store(message(transaction))

    @rule(transaction=TRANSACTIONS, marker=st.sampled_from(Marker))
    def end(self, transaction: TransactionId, marker: Marker) -> None:
        """The first end counts; the same once more is harmless."""
        marker = self.ends.setdefault(transaction, marker)
        self.buffer.ending(transaction)
        assert self.buffer.is_over(transaction)
        entry = marker_entry(marker, transaction, 0, 1)
        assert entry_of_transaction(entry) == EntryOfTransaction(transaction, marker)
        self.markers.add(len(self.log))
        self.of.append(transaction)
        self.store(entry)
        self.buffer.ended(transaction)

    @rule(transaction=TRANSACTIONS)
    def end_that_could_not_be_stored(self, transaction: TransactionId) -> None:
        self.buffer.ending(transaction)
        assert self.buffer.is_over(transaction)
        self.buffer.ended(transaction)

    @rule(coordinator=st.integers(0, 1), number=st.integers(-1, 4))
    def raise_watermark(self, coordinator: int, number: int) -> None:
        found = self.buffer.raise_watermark(coordinator, number)
        self.marks[coordinator] = max(self.marks[coordinator], number)
        assert set(found) == {
            each for each in self.open() if each[0] == coordinator and each[1] <= number
        }

    @rule()
    def reload(self) -> None:
        """All that the log says is known again; watermarks are not on it."""
        self.hidden = Hidden()
        self.buffer = TransactionBuffer(self.hidden)
        self.marks = {0: -1, 1: -1}
        entries, self.log = self.log, []
        for entry in entries:
            self.store(entry)

    def open(self) -> set[TransactionId]:
        return {each for each in self.of if each is not None and each not in self.ends}

    @invariant()
    def delivers_all_of_a_transaction_or_nothing(self) -> None:
        unwanted = {
            index
            for index, of in enumerate(self.of)
            if index in self.markers | self.late
            or (of is not None and self.ends.get(of) is Marker.ABORT)
        }
        assert self.hidden == unwanted
        opened = self.open()
        first = next((at for at, of in enumerate(self.of) if of in opened), len(self.log))
        assert self.buffer.stable_end(len(self.log)) == first
        assert set(self.buffer.open) == opened
        for coordinator, mark in self.marks.items():
            for number in range(6):
                each = TransactionId(coordinator, number)
                assert self.buffer.is_over(each) == (each in self.ends or number <= mark)
                assert self.buffer.has_marker(each) == (each in self.ends)
                assert self.buffer.is_aborted(each) == (self.ends.get(each) is Marker.ABORT)
                mine = [at for at, of in enumerate(self.of) if of == each and each in opened]
                assert self.buffer.begins_at(each) == (mine[0] if mine else None)
        assert self.buffer.ended_by == Counter(self.ends.values()), "each end is counted once"


BufferMachine.TestCase.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
TestBuffer = BufferMachine.TestCase


def test_an_abort_hides_every_stretch_of_a_transactions_messages() -> None:
    """Rare among the steps above: the second stretch has more than one message."""
    topic, mine = BufferMachine(), TransactionId(0, 0)
    for transaction in (mine, None, mine, mine):
        topic.publish(transaction)
    topic.end(mine, Marker.ABORT)
    topic.delivers_all_of_a_transaction_or_nothing()


def test_so_many_ends_are_remembered_and_the_first_are_forgotten() -> None:
    buffer = TransactionBuffer(Hidden())
    each = [TransactionId(0, number) for number in range(ENDED_MAX + 2)]
    for index, transaction in enumerate(each):
        buffer.stored(index, EntryOfTransaction(transaction, Marker.ABORT))
    assert [buffer.has_marker(it) for it in each[:3]] == [False, False, True]
    assert buffer.is_aborted(each[-1])


def test_what_is_no_message_of_a_transaction_is_none() -> None:
    assert entry_of_transaction(b"") is None
    assert entry_of_transaction(b"\xb8\x01") is None
    assert entry_of_transaction(message(None)) is None
    half = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, txnid_most_bits=0)
    assert entry_of_transaction(build(half, b"")) is None
    unreadable = b"\x00\x00\x00\xff"
    assert in_transaction(unreadable, TransactionId(0, 1)) == unreadable

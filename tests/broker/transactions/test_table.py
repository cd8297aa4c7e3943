"""A coordinator's table against a dictionary, through reloads of a log that is trimmed."""

from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.transactions import table as module
from counterpoise.broker.transactions.table import (
    PARTICIPANTS_MAX,
    CoordinatorTable,
    Record,
    TransactionState,
    decode_record,
    encode_record,
)
from counterpoise.wire.errors import ServerError
from counterpoise.wire.values import TransactionId

COORDINATOR = 3
NUMBERS = st.integers(0, 6)
TOPICS = st.lists(st.sampled_from("abc"), max_size=3)


class Known:
    """What the oracle has of a transaction."""

    def __init__(self) -> None:
        self.state = "open"
        self.topics: list[str] = []
        self.subscriptions: list[tuple[str, str]] = []


class TableMachine(RuleBasedStateMachine):
    """Everything that is not refused is on the log, and nowhere else."""

    def __init__(self) -> None:
        super().__init__()
        self.table = CoordinatorTable(COORDINATOR)
        self.known: dict[int, Known] = {}
        self.opened = 0
        self.log: list[bytes] = []
        self.trimmed = 0

    def write(self, record: Record | None) -> None:
        if record is not None:
            self.table.apply(record, len(self.log))
            self.log.append(encode_record(record))

    def refused(self, code: ServerError, number: int, work: str) -> None:
        transaction = TransactionId(COORDINATOR, number)
        attempts: dict[str, Callable[[], Record | None]] = {
            "add": lambda: self.table.add(transaction, ("z",), ()),
            "commit": lambda: self.table.end(transaction, commit=True),
            "abort": lambda: self.table.end(transaction, commit=False),
        }
        with pytest.raises(BrokerError) as refusal:
            attempts[work]()
        assert refusal.value.code is code
        if known := self.known.get(number):
            is_in = f"in OPEN status but it is in {known.state.upper()} status"
            assert is_in in str(refusal.value)

    @rule(at=st.integers(0, 99), owner=st.sampled_from([None, "me"]))
    def open(self, at: int, owner: str | None) -> None:
        record = self.table.open(at, 5, owner)
        assert record["txn"] == self.opened
        self.write(record)
        found = self.table.find(TransactionId(COORDINATOR, self.opened))
        assert (found.due_ms, found.owner) == (at + 5, owner)
        self.known[self.opened] = Known()
        self.opened += 1

    @rule(number=NUMBERS, topics=TOPICS, names=TOPICS)
    def add(self, number: int, topics: list[str], names: list[str]) -> None:
        known = self.known.get(number)
        if known is None:
            self.refused(ServerError.TransactionNotFound, number, "add")
        elif known.state != "open":
            self.refused(ServerError.InvalidTxnStatus, number, "add")
        else:
            pairs = tuple(("t", name) for name in names)
            self.write(self.table.add(TransactionId(COORDINATOR, number), tuple(topics), pairs))
            known.topics = list(dict.fromkeys([*known.topics, *topics]))
            known.subscriptions = list(dict.fromkeys([*known.subscriptions, *pairs]))

    @rule(number=NUMBERS, commit=st.booleans())
    def end(self, number: int, commit: bool) -> None:
        """Once, or again; the other way round it is refused."""
        known, wanted = self.known.get(number), "committing" if commit else "aborting"
        if known is None:
            self.refused(ServerError.TransactionNotFound, number, "commit" if commit else "abort")
        elif known.state not in ("open", wanted):
            self.refused(ServerError.InvalidTxnStatus, number, "commit" if commit else "abort")
        else:
            record = self.table.end(TransactionId(COORDINATOR, number), commit=commit)
            assert (record is None) == (known.state == wanted)
            self.write(record)
            known.state = wanted

    @rule(number=NUMBERS)
    def ended(self, number: int) -> None:
        known = self.known.get(number)
        if known is not None and known.state != "open":
            self.write(self.table.ended(TransactionId(COORDINATOR, number)))
            del self.known[number]

    @rule(newest=st.booleans())
    def end_everywhere(self, newest: bool) -> None:
        if self.known:
            number = (max if newest else min)(self.known)
            if self.known[number].state == "open":
                self.end(number, True)
            self.ended(number)

    @rule(share=st.sampled_from([0.0, 0.5, 1.0]))
    def reload(self, share: float) -> None:
        """Of the records that are not needed some are deleted, as whole ledgers are."""
        if self.log:
            kept = self.table.kept_from(len(self.log))
            assert kept < len(self.log)
            self.trimmed = max(self.trimmed, round(share * kept))
        self.table = CoordinatorTable(COORDINATOR)
        for index in range(self.trimmed, len(self.log)):
            self.table.apply(decode_record(self.log[index]), index)

    @rule()
    def another_coordinator(self) -> None:
        with pytest.raises(BrokerError):
            self.table.find(TransactionId(COORDINATOR + 1, 0))

    @invariant()
    def is_as_known(self) -> None:
        found = {
            number: (each.state.value, list(each.topics), list(each.subscriptions))
            for number, each in self.table.transactions.items()
        }
        assert found == {
            number: (each.state, each.topics, each.subscriptions)
            for number, each in self.known.items()
        }
        assert self.table.next == self.opened
        assert self.table.low_watermark == min(self.known, default=self.opened) - 1


TableMachine.TestCase.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
TestTable = TableMachine.TestCase


def test_a_transaction_has_so_many_participants_at_most() -> None:
    table = CoordinatorTable(0)
    table.apply(table.open(0, 1, None), 0)
    transaction = TransactionId(0, 0)
    names = tuple(map(str, range(PARTICIPANTS_MAX)))
    with pytest.raises(BrokerError, match=str(PARTICIPANTS_MAX)):
        table.add(transaction, (*names, "one more"), ())
    record = table.add(transaction, names, ())
    assert record is not None
    table.apply(record, 1)
    assert table.add(transaction, names, ()) is None
    with pytest.raises(BrokerError, match=str(PARTICIPANTS_MAX)):
        table.add(transaction, (), (("one", "more"),))
    assert table.find(transaction).state is TransactionState.OPEN


def test_a_coordinator_has_so_many_open_transactions_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "OPEN_MAX", 2)
    table = CoordinatorTable(0)
    for index in range(2):
        table.apply(table.open(0, 1, None), index)
    with pytest.raises(BrokerError, match="2 open transactions"):
        table.open(0, 1, None)
    table.apply(table.ended(TransactionId(0, 0)), 2)
    assert table.open(0, 1, None)["txn"] == 2


def test_numbers_are_never_given_again_though_the_log_has_its_last_record_alone() -> None:
    table, index = CoordinatorTable(COORDINATOR), 0
    for _ in range(3):
        table.apply(table.open(0, 5, None), index)
        index += 1
    for number in (2, 0, 1):
        last = table.ended(TransactionId(COORDINATOR, number))
        table.apply(last, index)
        index += 1
    again = CoordinatorTable(COORDINATOR)
    again.apply(decode_record(encode_record(last)), 0)
    assert again.next == 3


@pytest.mark.parametrize("commit", [False, True])
def test_what_is_being_committed_is_not_aborted_nor_the_other_way_round(commit: bool) -> None:
    table, first = CoordinatorTable(COORDINATOR), TransactionId(COORDINATOR, 0)
    table.apply(table.open(0, 5, None), 0)
    begun = table.end(first, commit=commit)
    assert begun is not None
    table.apply(begun, 1)
    assert table.end(first, commit=commit) is None
    with pytest.raises(BrokerError, match="in OPEN status but it is in") as refused:
        table.end(first, commit=not commit)
    assert refused.value.code is ServerError.InvalidTxnStatus
    with pytest.raises(BrokerError) as refused:
        table.add(first, ("a",), ())
    assert refused.value.code is ServerError.InvalidTxnStatus

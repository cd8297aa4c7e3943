"""The writer of a ledger and its recovery in simulated time, and orders that once lost entries."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import permutations

import pytest

from counterpoise.bookkeeper.bookie_frames import (
    ADD,
    FENCED,
    OK,
    READ,
    UNAUTHORISED,
    BookieAnswer,
    BookieRequest,
)
from counterpoise.bookkeeper.client.ledger_recovery import (
    LedgerRecovery,
    RecoveredEnd,
    RecoveryFailed,
)
from counterpoise.bookkeeper.client.metadata_changes import RecoveryClose, WriterClose
from counterpoise.bookkeeper.client.pending_adds import PendingAdds
from counterpoise.bookkeeper.client_port import LedgerOver
from counterpoise.bookkeeper.errors import BookKeeperError
from counterpoise.bookkeeper.ledger_metadata import (
    DigestType,
    LedgerMetadata,
    LedgerSegment,
    LedgerState,
)
from counterpoise.bookkeeper.stored_entry import EntryDigest
from tests.bookkeeper.sim.__main__ import run_many
from tests.bookkeeper.sim.world import SimulatedBookie

HISTORIES = 1000
READ_ONLY = 105


def test_no_history_loses_an_acknowledged_entry_or_has_two_ends() -> None:
    steps, acknowledged, violations = run_many(1, HISTORIES)
    assert not violations
    assert steps > 50 * HISTORIES, "so much happened"
    assert acknowledged > HISTORIES


class Post:
    """Requests of one client, each delivered when a test says so, and what became of it all."""

    def __init__(self, bookies: dict[str, SimulatedBookie]) -> None:
        self.bookies = bookies
        self.sent: list[tuple[str, BookieRequest]] = []
        self.acknowledged = -1
        self.replaced: set[str] = set()
        self.before: LedgerSegment | None = None
        self.error: LedgerOver | RecoveryFailed | None = None
        self.end: RecoveredEnd | None = None

    def send(self, bookie: str, *requests: BookieRequest) -> None:
        self.sent += [(bookie, each) for each in requests]

    def confirmed(self, last: int) -> None:
        self.acknowledged = last

    def change_ensemble(self, first: int, before: LedgerSegment, failed: Collection[str]) -> None:
        assert self.before is None, "two changes at once, of which one ends the ledger"
        self.replaced, self.before = set(failed), before

    def ended(self, error: LedgerOver) -> None:
        self.error = error

    def replace(self, ensemble: Sequence[str], failed: Collection[str]) -> None:
        self.replaced = set(failed)

    def recovered(self, end: RecoveredEnd) -> None:
        self.end = end

    def failed(self, error: RecoveryFailed) -> None:
        self.error = error

    def take(self, operation: int, bookie: str) -> BookieRequest:
        found = next(
            each for each in self.sent if each[0] == bookie and each[1].operation == operation
        )
        self.sent.remove(found)
        return found[1]

    def deliver(self, operation: int, bookie: str) -> BookieAnswer:
        return self.bookies[bookie].apply(self.take(operation, bookie))


def ledger(*sizes: int, state: LedgerState = LedgerState.OPEN) -> LedgerMetadata:
    ensemble, write_quorum, ack_quorum = sizes
    segment = LedgerSegment(0, tuple(f"b{number}" for number in range(1, ensemble + 1)))
    return LedgerMetadata(
        7, state, write_quorum, ack_quorum, 0, -1, (segment,), DigestType.CRC32C, b"", 1, {}
    )


def test_the_order_of_bookkeepers_issue_2614() -> None:
    """An add that reaches a bookie after the recovery read it there must be refused."""
    metadata = ledger(3, 3, 2)
    bookies = {name: SimulatedBookie(name) for name in metadata.segments[0].ensemble}
    writing, recovering = Post(bookies), Post(bookies)
    writer, recovery = PendingAdds(metadata, writing), LedgerRecovery(metadata, recovering)
    assert writer.add(b"payload") == 0
    on_b1 = writing.deliver(ADD, "b1")  # the adds to the others are on their way
    recovery.start()
    lost = recovering.take(READ, "b3")  # the connection breaks before it arrives
    recovery.unanswered("b3", lost, "the connection broke")
    for name in ("b1", "b2"):
        recovery.answered(name, recovering.deliver(READ, name))
    # Entry 0: b2 and b3 have none, which is enough; the answer of b1 comes too late.
    for name in ("b2", "b3"):
        recovery.answered(name, recovering.deliver(READ, name))
    writer.answered("b1", on_b1)
    writer.answered("b3", writing.deliver(ADD, "b3"))
    assert writing.acknowledged <= recovering.end.last_entry, "an acknowledged entry is lost"
    assert isinstance(writing.error, LedgerOver)


@pytest.mark.parametrize(
    ("code", "ended", "replaced"), [(FENCED, True, set()), (READ_ONLY, False, {"b2"})]
)
def test_what_a_bookie_confirmed_before_it_refused_is_acknowledged(
    code: int, ended: bool, replaced: set[str]
) -> None:
    """The responses came together. To a bookie that refused nothing more is sent."""
    metadata = ledger(2, 2, 2)
    post = Post({})
    write = PendingAdds(metadata, post)
    assert write.add(b"0", b"1", b"2") == 0
    write.answered("b1", *(BookieAnswer(ADD, OK, 7, entry) for entry in range(3)))
    write.answered(
        "b2", *(BookieAnswer(ADD, each, 7, entry) for entry, each in enumerate((OK, code, OK)))
    )
    assert (post.acknowledged, post.error is not None, post.replaced) == (0, ended, replaced)
    if not ended:
        post.sent.clear()
        assert write.add(b"3") == 3
        assert [(name, each.entry) for name, each in post.sent] == [("b1", 3)]


def test_a_bookie_that_comes_back_in_another_place_has_no_copy_of_what_it_was_sent_before() -> None:
    """Who reads the entry asks the bookies of its write set, and that one is not among them."""
    post = Post({})
    write = PendingAdds(ledger(3, 2, 2), post)
    write.add(b"0")
    for failed, following in (("b1", ("b4", "b2", "b3")), ("b3", ("b4", "b2", "b1"))):
        write.bookie_failed(failed)
        post.before = None
        write.ensemble_changed(LedgerSegment(0, following))
    for name in ("b2", "b1"):
        write.answered(name, BookieAnswer(ADD, OK, 7, 0))
    assert post.acknowledged == -1
    write.answered("b4", BookieAnswer(ADD, OK, 7, 0))
    assert post.acknowledged == 0


@pytest.mark.parametrize("others", [("b3", "b4", "b5"), ("b3", "b4"), ("b3",)])
@pytest.mark.parametrize("order", list(permutations(("b1 fails", "b2 fails", "b3 has it", ""))))
def test_every_bookie_that_fails_is_replaced_and_what_others_have_counts(
    order: tuple[str, ...], others: tuple[str, ...]
) -> None:
    """At an event without a name the change of the ensemble is written, if one is asked for."""
    post, spare = Post({}), ["b5", "b4"]
    write = PendingAdds(ledger(3, 3, len(others)), post)
    write.add(b"0")
    answers = [f"{each} has it" for each in others[1:]]
    for event in (*order, *["is written"] * 2, *answers):
        if event.endswith("fails"):
            write.bookie_failed(event[:2])
        elif event.endswith("has it"):
            write.answered(event[:2], BookieAnswer(ADD, OK, 7, 0))
        elif (before := post.before) is not None:
            post.before = None
            names = [spare.pop() if each in post.replaced else each for each in before.ensemble]
            write.ensemble_changed(LedgerSegment(0, tuple(names)))
            if post.acknowledged < 0:
                assert {name for name, _ in post.sent} >= set(names), "each is sent the entry"
    assert (post.acknowledged, spare, post.error) == (0, [], None)
    write.add(b"1")
    assert {name for name, each in post.sent if each.entry == 1} == {"b3", "b4", "b5"}


@pytest.mark.parametrize(
    ("sizes", "answering", "enough"),
    [
        ((3, 2, 2), ("b1",), False),
        ((3, 2, 2), ("b1", "b2"), True),
        ((5, 3, 2), ("b1", "b2"), False),
        ((5, 3, 2), ("b1", "b2", "b4"), False),
        ((5, 3, 2), ("b1", "b2", "b3", "b5"), True),
        ((3, 3, 3), ("b2",), True),
        ((2, 2, 1), ("b1",), False),
        ((2, 2, 1), ("b1", "b2"), True),
    ],
)
def test_bookies_are_fenced_until_no_ack_quorum_is_left_in_any_write_set(
    sizes: tuple[int, int, int], answering: tuple[str, ...], enough: bool
) -> None:
    metadata = ledger(*sizes, state=LedgerState.IN_RECOVERY)
    bookies = {name: SimulatedBookie(name) for name in metadata.segments[0].ensemble}
    post = Post(bookies)
    recovery = LedgerRecovery(metadata, post)
    recovery.start()
    for name in answering:
        recovery.answered(name, post.deliver(READ, name))
    reads_entry_0 = any(request.entry == 0 for _, request in post.sent)
    assert reads_entry_0 == enough
    if not enough:
        for name, request in list(post.sent):
            recovery.unanswered(name, request, "the connection broke")
        assert isinstance(post.error, RecoveryFailed)
        assert post.end is None


def test_what_a_recovery_writes_confirms_nothing_that_the_ledgers_writer_did_not() -> None:
    """If it dies then, its copy may be one of a bookie that the metadata does not name."""
    metadata = ledger(3, 3, 2)
    bookies = {name: SimulatedBookie(name) for name in metadata.segments[0].ensemble}
    writing = Post(bookies)
    writer = PendingAdds(metadata, writing)
    writer.add(b"0")
    for name in ("b1", "b2"):
        writer.answered(name, writing.deliver(ADD, name))
    assert writing.acknowledged == 0
    writing.sent.clear()
    writer.add(b"1", b"2", b"3")
    for name in ("b2", "b3") * 3:
        writing.deliver(ADD, name)
    recovering = Post(bookies)
    recovery = LedgerRecovery(replace(metadata, state=LedgerState.IN_RECOVERY), recovering)
    recovery.start()
    while recovering.sent:
        name, request = recovering.sent.pop(0)
        recovery.answered(name, bookies[name].apply(request))
    assert recovering.end is not None
    assert recovering.end.last_entry == 3
    digest, copies = EntryDigest(DigestType.CRC32C, b""), 0
    for bookie in bookies.values():
        for entry in (1, 2, 3):
            code, stored = bookie.disk.read(7, entry)
            if code == OK:
                copies += 1
                assert digest.open(7, entry, stored).last_confirmed == 0, entry
    assert copies == 9


@pytest.mark.parametrize("fails", [False, True])
def test_a_recovery_goes_on_once_an_ack_quorum_has_the_entry_and_not_before(fails: bool) -> None:
    """A bookie that had no such entry, or was replaced and writes it late, is no copy."""
    metadata = ledger(3, 3, 2)
    bookies = {name: SimulatedBookie(name) for name in ("b1", "b2", "b3", "b4")}
    writing, recovering = Post(bookies), Post(bookies)
    PendingAdds(metadata, writing).add(b"payload")
    writing.deliver(ADD, "b1")  # the writer dies: no other bookie has it
    recovery = LedgerRecovery(replace(metadata, state=LedgerState.IN_RECOVERY), recovering)
    recovery.start()
    for name in ("b2", "b3", "b1", "b2", "b1"):  # fenced; then the entry is read
        recovery.answered(name, recovering.deliver(READ, name))
    assert [name for name, each in recovering.sent if each.operation == ADD] == ["b1", "b2", "b3"]
    second = "b2"
    if fails:
        on_its_way = recovering.deliver(ADD, "b2")
        recovery.unanswered("b2", writing.take(ADD, "b2"), "the connection broke")
        assert recovering.replaced == {"b2"}
        recovery.replaced(("b1", "b4", "b3"))
        recovery.answered("b2", on_its_way)
        second = "b4"
    for name, reads_on in (("b1", False), (second, True)):
        recovery.answered(name, recovering.deliver(ADD, name))
        assert any(each.entry == 1 for _, each in recovering.sent) == reads_on
    for name in ("b1", "b2"):
        request = next(each for each in recovering.sent if each[0] == name and each[1].entry == 1)
        recovering.sent.remove(request)
        recovery.answered(name, bookies[name].apply(request[1]))
    assert recovering.end is not None
    assert (recovering.end.last_entry, recovering.end.length) == (0, len(b"payload"))


@pytest.mark.parametrize("code", [FENCED, UNAUTHORISED])
def test_a_bookie_that_refuses_the_writer_itself_ends_the_ledger_for_its_first_reason(
    code: int,
) -> None:
    post = Post({})
    write = PendingAdds(ledger(2, 2, 2), post)
    write.add(b"0")
    write.answered("b2", BookieAnswer(ADD, code, 7, 0))
    assert isinstance(post.error, LedgerOver)
    write.stop("ledger 7 is closed")
    with pytest.raises(LedgerOver, match="ledger 7: bookie b2: ") as raised:
        write.add(b"1")
    assert str(raised.value) == str(post.error)


OPEN = ledger(2, 2, 2)
CLOSED = replace(OPEN, state=LedgerState.CLOSED, last_entry=4, length=40)
RECOVERING = replace(OPEN, state=LedgerState.IN_RECOVERY)
MOVED = replace(RECOVERING, segments=(*OPEN.segments, LedgerSegment(3, ("b1", "b9"))))


@pytest.mark.parametrize(
    ("found", "last", "length", "closes"),
    [
        (OPEN, 4, 40, CLOSED),
        (CLOSED, 4, 40, None),
        (CLOSED, 3, 30, "closed it at entry 4, 40 bytes"),
        (CLOSED, 4, 41, "closed it at entry 4, 40 bytes"),
        (RECOVERING, 4, 40, "recovers it"),
    ],
)
def test_a_writer_closes_its_ledger_or_finds_it_closed_as_it_would(
    found: LedgerMetadata, last: int, length: int, closes: LedgerMetadata | str | None
) -> None:
    change = WriterClose(last, length)
    if not isinstance(closes, str):
        assert change.decide(found) == closes
        return
    with pytest.raises(LedgerOver, match=closes):
        change.decide(found)


@pytest.mark.parametrize(
    ("found", "closes"),
    [(RECOVERING, CLOSED), (CLOSED, None), (OPEN, "recover it again"), (MOVED, "recover it again")],
)
def test_a_recovery_closes_what_it_has_recovered_and_nothing_else(
    found: LedgerMetadata, closes: LedgerMetadata | str | None
) -> None:
    change = RecoveryClose(OPEN.segments[-1], 4, 40, ())
    if not isinstance(closes, str):
        assert change.decide(found) == closes
        return
    with pytest.raises(BookKeeperError, match=closes):
        change.decide(found)

"""The bundle lock machine: what it does in order, and everything that may come in between."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from counterpoise.ownership.lock.nodes import hand_over_of, lock_of
from counterpoise.ownership.lock.state import BundleLock, Phase
from counterpoise.ownership.lock.table import DRAIN_TRIES, TRIES, advance
from counterpoise.ownership.machine import ProtocolError
from counterpoise.ownership.port import (
    Acquire,
    CatchUp,
    Change,
    Created,
    CreateNode,
    Differs,
    Drain,
    Drained,
    Exists,
    Failed,
    Found,
    HeirReady,
    LetGo,
    NodeChanged,
    Prepare,
    Question,
    ReadNode,
    Release,
    Removed,
    RemoveNode,
    Replaced,
    SessionChanged,
    Terms,
    WakeMe,
    Woken,
    WriteNode,
    Written,
)
from counterpoise.ownership.records import HandOver, NamespaceEphemeralData
from tests.ownership.exploring import Place, explore

BUNDLE = "t/n/0x00000000_0xffffffff"
LOCK, HAND_OVER = lock_of(BUNDLE), hand_over_of(BUNDLE)
ME, OTHER = "b1:8080", "b2:8080"
TERMS = Terms(NamespaceEphemeralData("pulsar://b1:6650", f"http://{ME}"), heir_s=5, drain_s=70)
MY_LOCK = TERMS.me.to_json()
OTHERS_LOCK = NamespaceEphemeralData("pulsar://b2:6650", f"http://{OTHER}").to_json()
TO_ME = HandOver(OTHER, ME).to_json()
FROM_ME = HandOver(ME, OTHER).to_json()
FREE = BundleLock(TERMS, BUNDLE)
VANISHED = NodeChanged(LOCK, Change.VANISHED)
APPEARED = NodeChanged(LOCK, Change.APPEARED)
ANNOUNCED = NodeChanged(HAND_OVER, Change.APPEARED)
WITHDRAWN = NodeChanged(HAND_OVER, Change.VANISHED)
CREATE = CreateNode(LOCK, MY_LOCK)
NOBODY = Found(None)
OTHERS = Found(OTHERS_LOCK, 3)
MINE = Found(MY_LOCK, 0, mine=True)
FORMER = Found(MY_LOCK, 4)


P = Phase


def drain(destination: str | None) -> Drain:
    return Drain(destination, within_s=70)


def run(state: BundleLock, *steps: tuple[object, Phase, tuple[object, ...]]) -> BundleLock:
    for record, phase, effects in steps:
        state, out = advance(state, record)
        assert (state.phase, out) == (phase, effects), record
    return state


def quietly(state: BundleLock, *records: object) -> BundleLock:
    for record in records:
        state, _ = advance(state, record)
    return state


def owned() -> BundleLock:
    return quietly(FREE, Acquire(), Created(0))


def leaving(destination: str | None) -> BundleLock:
    state = quietly(owned(), Release(destination), Written())
    return quietly(state, Woken()) if destination is not None else state


def yielding() -> BundleLock:
    return quietly(owned(), Release(OTHER), Written(), HeirReady())


def inheriting() -> BundleLock:
    return quietly(FREE, ANNOUNCED, Found(TO_ME), OTHERS, VANISHED, Created(0))


def test_an_heir_inherits_while_the_lock_is_surely_its_own() -> None:
    """Meanwhile it may open what the former owner has closed."""
    expecting = quietly(FREE, ANNOUNCED, Found(TO_ME), OTHERS)
    assert not expecting.inheriting
    assert not quietly(expecting, VANISHED).inheriting
    heir = inheriting()
    assert heir.inheriting
    assert heir.holds
    assert heir.settling
    for record in (SessionChanged(), VANISHED, WITHDRAWN, Woken()):
        assert not quietly(heir, record).inheriting, record


def test_an_owner_goes_on_with_open_topics_until_its_heir_has_the_lock() -> None:
    state = yielding()
    for record in (Removed(), APPEARED):
        assert state.holds
        assert not state.serves
        state = quietly(state, record)
    assert state.phase is P.DRAINING
    assert not state.holds


WHAT_HAPPENS = {
    "a bundle that nobody owns": (
        FREE,
        (Acquire(), P.ACQUIRING, (CREATE,)),
        (Created(0), P.OWNED, ()),
    ),
    "a bundle that somebody owns": (
        FREE,
        (Acquire(), P.ACQUIRING, (CREATE,)),
        (Exists(), P.ACQUIRING, (ReadNode(LOCK),)),
        (OTHERS, P.FREE, ()),
    ),
    "a lock of a former life": (
        FREE,
        (Acquire(), P.ACQUIRING, (CREATE,)),
        (Exists(), P.ACQUIRING, (ReadNode(LOCK),)),
        (FORMER, P.ACQUIRING, (RemoveNode(LOCK, 4),)),
        (Removed(), P.ACQUIRING, (CREATE,)),
        (Created(0), P.OWNED, ()),
    ),
    "a lock that was created, though nobody said so": (
        FREE,
        (Acquire(), P.ACQUIRING, (CREATE,)),
        (Failed("away"), P.ACQUIRING, (WakeMe(0.05),)),
        (Woken(), P.ACQUIRING, (CREATE,)),
        (Exists(), P.ACQUIRING, (ReadNode(LOCK),)),
        (MINE, P.OWNED, ()),
    ),
    "a hand-over, the owner's side": (
        owned(),
        (Release(OTHER), P.ANNOUNCING, (WriteNode(HAND_OVER, FROM_ME),)),
        (Written(), P.AWAITING, (WakeMe(1),)),
        (HeirReady(), P.YIELDING, (RemoveNode(LOCK, 0),)),
        (VANISHED, P.YIELDING, ()),
        (Removed(), P.YIELDED, (WakeMe(5),)),
        (APPEARED, P.DRAINING, (drain(OTHER),)),
        (Drained(), P.WITHDRAWING, (ReadNode(HAND_OVER),)),
        (Found(FROM_ME, 0, mine=True), P.WITHDRAWING, (RemoveNode(HAND_OVER, 0),)),
        (Removed(), P.FREE, ()),
    ),
    "an heir that is heard of before our own lock is known to be gone": (
        yielding(),
        (APPEARED, P.YIELDING, ()),
        (Removed(), P.DRAINING, (drain(OTHER),)),
        (Drained(), P.WITHDRAWING, (ReadNode(HAND_OVER),)),
    ),
    "an heir that was ready, and never comes": (
        quietly(yielding(), Removed()),
        (Woken(), P.DRAINING, (drain(None),)),
        (Drained(), P.WITHDRAWING, (ReadNode(HAND_OVER),)),
        (Found(FROM_ME, 0, mine=True), P.WITHDRAWING, (RemoveNode(HAND_OVER, 0),)),
        (Removed(), P.FREE, ()),
    ),
    "a session that is lost while the lock is given away": (
        yielding(),
        (SessionChanged(), P.YIELDING, ()),
        (Removed(), P.DRAINING, (drain(OTHER),)),
        (Drained(), P.DELETING, (ReadNode(LOCK),)),
    ),
    "a lock that was written over before it could be given away": (
        yielding(),
        (Differs(), P.DRAINING, (drain(OTHER),)),
        (Drained(), P.DELETING, (ReadNode(LOCK),)),
    ),
    "a lock of which nobody knows whether it was given away": (
        yielding(),
        (Failed("away"), P.DRAINING, (drain(OTHER),)),
        (Drained(), P.DELETING, (ReadNode(LOCK),)),
        (OTHERS, P.WITHDRAWING, (ReadNode(HAND_OVER),)),
    ),
    "a session that is lost when the lock is given away": (
        quietly(yielding(), Removed()),
        (SessionChanged(), P.DRAINING, (drain(OTHER),)),
        (Drained(), P.WITHDRAWING, (ReadNode(HAND_OVER),)),
    ),
    "an owner whose heir was late": (
        quietly(owned(), Release(OTHER), Written()),
        (Woken(), P.DRAINING, (drain(OTHER),)),
        (Drained(), P.DELETING, (RemoveNode(LOCK, 0),)),
        (Removed(), P.HANDING_ON, (WakeMe(5),)),
        (APPEARED, P.WITHDRAWING, (ReadNode(HAND_OVER),)),
        (Found(FROM_ME, 0, mine=True), P.WITHDRAWING, (RemoveNode(HAND_OVER, 0),)),
        (Removed(), P.FREE, ()),
    ),
    "an heir that is never ready": (
        quietly(owned(), Release(OTHER), Written()),
        (Woken(), P.DRAINING, (drain(OTHER),)),
        (HeirReady(), P.DRAINING, ()),
    ),
    "a lock that goes while its heir gets ready": (
        quietly(owned(), Release(OTHER), Written()),
        (VANISHED, P.DRAINING, (drain(OTHER),)),
        (Drained(), P.DELETING, (ReadNode(LOCK),)),
    ),
    "a session that is lost while the heir gets ready": (
        quietly(owned(), Release(OTHER), Written()),
        (SessionChanged(), P.DRAINING, (drain(OTHER),)),
        (Drained(), P.DELETING, (ReadNode(LOCK),)),
    ),
    "a session that is lost before the heir is told": (
        quietly(owned(), Release(OTHER), SessionChanged()),
        (Written(), P.DRAINING, (drain(OTHER),)),
        (Drained(), P.DELETING, (ReadNode(LOCK),)),
    ),
    "an heir that was heard of before our own lock was known to be gone": (
        quietly(leaving(OTHER), Drained()),
        (APPEARED, P.DELETING, ()),
        (Removed(), P.WITHDRAWING, (ReadNode(HAND_OVER),)),
        (Found(FROM_ME, 0, mine=True), P.WITHDRAWING, (RemoveNode(HAND_OVER, 0),)),
        (Removed(), P.FREE, ()),
    ),
    "an heir that never comes": (
        quietly(leaving(OTHER), Drained(), Removed()),
        (Woken(), P.WITHDRAWING, (ReadNode(HAND_OVER),)),
        (NOBODY, P.FREE, ()),
    ),
    "a hand-over that the heir has handed on already": (
        quietly(leaving(OTHER), Drained(), Removed(), APPEARED),
        (ANNOUNCED, P.WITHDRAWING, ()),
        (Found(TO_ME, 1, mine=True), P.HEARING, (ReadNode(HAND_OVER),)),
        (Found(TO_ME, 1, mine=True), P.CHECKING, (ReadNode(LOCK),)),
        (OTHERS, P.EXPECTED, (WakeMe(5), Prepare())),
    ),
    "a hand-over to nobody": (
        leaving(None),
        (Drained(), P.DELETING, (RemoveNode(LOCK, 0),)),
        (Removed(), P.WITHDRAWING, (ReadNode(HAND_OVER),)),
    ),
    "a hand-over to itself keeps the lock and is nobody's business": (
        owned(),
        (Release(ME), P.DRAINING, (drain(ME),)),
        (Drained(), P.OWNED, ()),
    ),
    "a hand-over, the heir's side": (
        FREE,
        (ANNOUNCED, P.HEARING, (ReadNode(HAND_OVER),)),
        (Found(TO_ME), P.CHECKING, (ReadNode(LOCK),)),
        (OTHERS, P.EXPECTED, (WakeMe(5), Prepare())),
        (VANISHED, P.ACQUIRING, (CREATE,)),
        (Created(0), P.INHERITING, (WakeMe(5),)),
        (WITHDRAWN, P.OWNED, ()),
    ),
    "a former owner that takes too long": (
        inheriting(),
        (Woken(), P.OWNED, ()),
    ),
    "a former owner that was done before the heir had the lock": (
        quietly(FREE, ANNOUNCED, Found(TO_ME), OTHERS, VANISHED),
        (WITHDRAWN, P.ACQUIRING, ()),
        (Created(0), P.OWNED, ()),
    ),
    "a former owner that is gone": (
        quietly(FREE, ANNOUNCED, Found(TO_ME), OTHERS),
        (WITHDRAWN, P.ACQUIRING, (CREATE,)),
        (Created(0), P.OWNED, ()),
    ),
    "a former owner that is gone while the heir looks at the lock": (
        quietly(FREE, ANNOUNCED, Found(TO_ME)),
        (WITHDRAWN, P.CHECKING, ()),
        (NOBODY, P.ACQUIRING, (CREATE,)),
        (Created(0), P.OWNED, ()),
    ),
    "an heir whose lock was created, though nobody said so": (
        quietly(FREE, ANNOUNCED, Found(TO_ME), OTHERS, VANISHED),
        (Exists(), P.ACQUIRING, (ReadNode(LOCK),)),
        (MINE, P.INHERITING, (WakeMe(5),)),
    ),
    "an heir whose session is only interrupted": (
        inheriting(),
        (SessionChanged(), P.DOUBTED, (ReadNode(LOCK),)),
        (MINE, P.INHERITING, (WakeMe(5),)),
    ),
    "an heir in doubt whose former owner is done": (
        quietly(inheriting(), SessionChanged()),
        (WITHDRAWN, P.DOUBTED, ()),
        (MINE, P.OWNED, ()),
    ),
    "an heir whose lock another has": (
        inheriting(),
        (VANISHED, P.DOUBTED, (ReadNode(LOCK),)),
        (OTHERS, P.DROPPING, (drain(None),)),
    ),
    "an heir that is to hand it on when it has it": (
        quietly(inheriting(), Release(OTHER)),
        (WITHDRAWN, P.ANNOUNCING, (WriteNode(HAND_OVER, FROM_ME),)),
    ),
    "a hand-over of which the heir hears late": (
        FREE,
        (ANNOUNCED, P.HEARING, (ReadNode(HAND_OVER),)),
        (Found(TO_ME), P.CHECKING, (ReadNode(LOCK),)),
        (NOBODY, P.ACQUIRING, (CREATE,)),
    ),
    "a lock that goes while the heir looks at it": (
        FREE,
        (ANNOUNCED, P.HEARING, (ReadNode(HAND_OVER),)),
        (Found(TO_ME), P.CHECKING, (ReadNode(LOCK),)),
        (VANISHED, P.CHECKING, ()),
        (OTHERS, P.CHECKING, (ReadNode(LOCK),)),
        (NOBODY, P.ACQUIRING, (CREATE,)),
    ),
    "an heir that hears nothing tries before it gives up": (
        quietly(FREE, ANNOUNCED, Found(TO_ME), OTHERS),
        (Woken(), P.ACQUIRING, (CREATE,)),
        (Exists(), P.ACQUIRING, (ReadNode(LOCK),)),
        (OTHERS, P.FREE, ()),
    ),
    "somebody else's hand-over": (
        FREE,
        (ANNOUNCED, P.HEARING, (ReadNode(HAND_OVER),)),
        (Found(HandOver(OTHER, "b3:8080").to_json()), P.FREE, ()),
    ),
    "a client that comes for nothing": (
        FREE,
        (CatchUp(), P.HEARING, (ReadNode(HAND_OVER),)),
        (NOBODY, P.CHECKING, (ReadNode(LOCK),)),
        (OTHERS, P.FREE, ()),
    ),
    "a client that knows more than the broker": (
        FREE,
        (CatchUp(), P.HEARING, (ReadNode(HAND_OVER),)),
        (NOBODY, P.CHECKING, (ReadNode(LOCK),)),
        (MINE, P.OWNED, ()),
    ),
    "an announcement that a release of ours left behind": (
        FREE,
        (CatchUp(), P.HEARING, (ReadNode(HAND_OVER),)),
        (Found(FROM_ME, 2), P.WITHDRAWING, (ReadNode(HAND_OVER),)),
        (Found(FROM_ME, 2), P.WITHDRAWING, (RemoveNode(HAND_OVER, 2),)),
        (Differs(), P.WITHDRAWING, (ReadNode(HAND_OVER),)),
        (NOBODY, P.FREE, ()),
    ),
    "a session that was only interrupted": (
        owned(),
        (SessionChanged(), P.DOUBTED, (ReadNode(LOCK),)),
        (MINE, P.OWNED, ()),
    ),
    "a session that was lost": (
        owned(),
        (SessionChanged(), P.DOUBTED, (ReadNode(LOCK),)),
        (NOBODY, P.DOUBTED, (CREATE,)),
        (Created(0), P.OWNED, ()),
    ),
    "a lock that our lost session still holds": (
        owned(),
        (SessionChanged(), P.DOUBTED, (ReadNode(LOCK),)),
        (FORMER, P.DOUBTED, (RemoveNode(LOCK, 4),)),
        (Removed(), P.DOUBTED, (CREATE,)),
    ),
    "somebody else has it": (
        owned(),
        (VANISHED, P.DOUBTED, (ReadNode(LOCK),)),
        (OTHERS, P.DROPPING, (drain(None),)),
        (Drained(), P.FREE, ()),
    ),
    "an answer from before the session was lost is not believed": (
        owned(),
        (SessionChanged(), P.DOUBTED, (ReadNode(LOCK),)),
        (SessionChanged(), P.DOUBTED, ()),
        (MINE, P.DOUBTED, (ReadNode(LOCK),)),
        (OTHERS, P.DROPPING, (drain(None),)),
    ),
    "nor is a lock that a lost session created": (
        FREE,
        (Acquire(), P.ACQUIRING, (CREATE,)),
        (SessionChanged(), P.ACQUIRING, ()),
        (Created(0), P.ACQUIRING, (CREATE,)),
        (Exists(), P.ACQUIRING, (ReadNode(LOCK),)),
        (FORMER, P.ACQUIRING, (RemoveNode(LOCK, 4),)),
    ),
    "a store that is away while there is doubt is asked when it is back": (
        owned(),
        (SessionChanged(), P.DOUBTED, (ReadNode(LOCK),)),
        (Failed("away"), P.DOUBTED, (WakeMe(0.05),)),
        (Woken(), P.DOUBTED, (ReadNode(LOCK),)),
        (Failed("away"), P.DOUBTED, (WakeMe(0.1),)),
        (SessionChanged(), P.DOUBTED, (ReadNode(LOCK),)),
    ),
    "a session that is lost while the bundle drains to its own broker": (
        quietly(owned(), Release(ME)),
        (SessionChanged(), P.DRAINING, ()),
        (Drained(), P.DOUBTED, (ReadNode(LOCK),)),
        (MINE, P.OWNED, ()),
    ),
    "a session that is lost while the bundle drains to another": (
        leaving(OTHER),
        (SessionChanged(), P.DRAINING, ()),
        # A version may be the same in a lock that is somebody else's by now.
        (Drained(), P.DELETING, (ReadNode(LOCK),)),
        (OTHERS, P.WITHDRAWING, (ReadNode(HAND_OVER),)),
    ),
    "a release that nobody could be told of has no heir to wait for": (
        quietly(owned(), Release(OTHER), Failed("1"), Woken(), Failed("2"), Woken()),
        (Failed("3"), P.DRAINING, (drain(None),)),
        (Drained(), P.DELETING, (RemoveNode(LOCK, 0),)),
        (Removed(), P.WITHDRAWING, (ReadNode(HAND_OVER),)),
    ),
    "a lock whose deletion was not answered is looked at": (
        quietly(leaving(OTHER), Drained()),
        (Failed("away"), P.DELETING, (WakeMe(0.05),)),
        (Woken(), P.DELETING, (ReadNode(LOCK),)),
        (MINE, P.DELETING, (RemoveNode(LOCK, 0),)),
    ),
    "a lookup that chose a broker which still waits for the heir": (
        quietly(leaving(OTHER), Drained(), Removed()),
        (Acquire(), P.WITHDRAWING, (ReadNode(HAND_OVER),)),
        (NOBODY, P.ACQUIRING, (CREATE,)),
    ),
    "a split": (
        owned(),
        (Replaced(), P.DELETING, (RemoveNode(LOCK, 0),)),
        (Removed(), P.FREE, ()),
    ),
    "a split that ends while there is doubt": (
        quietly(owned(), SessionChanged()),
        (Replaced(), P.DOUBTED, ()),
        (Found(MY_LOCK, 7, mine=True), P.DELETING, (RemoveNode(LOCK, 7),)),
    ),
    "a lock that is no record": (
        FREE,
        (Acquire(), P.ACQUIRING, (CREATE,)),
        (Exists(), P.ACQUIRING, (ReadNode(LOCK),)),
        (Found(b"[", 1), P.FREE, ()),
    ),
}


@pytest.mark.parametrize("story", WHAT_HAPPENS)
def test_what_happens_to(story: str) -> None:
    start, *steps = WHAT_HAPPENS[story]
    run(start, *steps)


def test_topics_that_never_close_do_not_keep_a_bundle() -> None:
    state = leaving(OTHER)
    for _ in range(DRAIN_TRIES - 1):
        state = run(quietly(state, Failed("no")), (Woken(), P.DRAINING, (drain(OTHER),)))
    run(state, (Failed("no"), P.DELETING, (RemoveNode(LOCK, 0),)))


def test_topics_that_take_all_the_time_there_is_get_no_more() -> None:
    late = Failed("no answer within 70 s", late=True)
    run(leaving(OTHER), (late, P.DELETING, (RemoveNode(LOCK, 0),)))


def test_a_bundle_that_cannot_be_taken_is_left_to_the_next_lookup() -> None:
    state = quietly(FREE, Acquire())
    for _ in range(TRIES - 1):
        state = quietly(state, Failed("away"), Woken())
    assert advance(state, Failed("away")) == (FREE, ())


def test_pauses_grow_and_are_bounded() -> None:
    state, pauses = quietly(owned(), SessionChanged()), []
    for _ in range(40):
        state, (alarm,) = advance(state, Failed("away"))
        pauses.append(alarm.after_s)
        state = quietly(state, Woken())
    assert pauses == sorted(pauses)
    assert pauses[0] < 0.1
    assert pauses[-1] == pauses[-2] <= 5


def answers(question: Question) -> Iterable[object]:
    match question:
        case CreateNode():
            return Created(0), Exists()
        case WriteNode():
            return (Written(),)
        case ReadNode(path) if path == LOCK:
            return NOBODY, OTHERS, MINE, FORMER, Found(b"[")
        case ReadNode():
            return NOBODY, Found(TO_ME), Found(FROM_ME), Found(HandOver(OTHER, None).to_json())
        case RemoveNode():
            return Removed(), Differs()
        case Drain():
            return (Drained(),)
    raise AssertionError(question)


OUTSIDE = [
    Acquire(), Release(OTHER), Release(ME), Release(None), Replaced(), CatchUp(),
    VANISHED, APPEARED, ANNOUNCED, WITHDRAWN, SessionChanged(), HeirReady(), LetGo(),
]  # fmt: skip


@pytest.fixture(scope="module")
def places() -> dict[Place, tuple[Place, object]]:
    return explore(FREE, advance, OUTSIDE, answers, lambda state: state.passing)


def test_wherever_it_is_anything_may_come_and_it_never_waits_for_nothing(
    places: dict[Place, tuple[Place, object]],
) -> None:
    assert {place.state.phase for place in places} == set(Phase)


def test_what_it_says_of_itself(places: dict[Place, tuple[Place, object]]) -> None:
    for place in places:
        state = place.state
        assert state.holds or not state.serves
        assert not (state.serves and (state.passing or state.version is None)), place
        assert not (state.forgettable and (state.passing or place.question)), place


def test_it_serves_only_upon_the_word_of_the_store(
    places: dict[Place, tuple[Place, object]],
) -> None:
    for place, (before, record) in places.items():
        if place.state.serves and not before.state.serves and before is not place:
            draining_to_itself = isinstance(record, Drained | Failed)
            assert isinstance(record, Created | Found) or draining_to_itself, (before, record)
            assert not before.state.overtaken, (before, record)


@pytest.mark.parametrize(
    ("state", "record"),
    [(FREE, Drained()), (owned(), Removed()), (leaving(OTHER), Created(0))],
)
def test_an_answer_to_nothing_is_a_protocol_error(state: BundleLock, record: object) -> None:
    with pytest.raises(ProtocolError, match=type(record).__name__):
        advance(state, record)

"""Getting a bundle from another broker: the successor's side of a move."""

import pytest

from counterpoise.ownership import events
from counterpoise.ownership.records import HandOver
from tests.ownership.lock.machine import (
    ANNOUNCED,
    CREATE,
    FREE,
    FROM_ME,
    HAND_OVER,
    LOCK,
    MINE,
    NO_NODE,
    OTHER,
    OTHERS,
    TO_ME,
    VANISHED,
    WITHDRAWN,
    P,
    close_topics,
    quietly,
    run,
    taking_over,
)

WHAT_HAPPENS = {
    "a hand-over, the successor's side": (
        FREE,
        (ANNOUNCED, P.READING_HAND_OVER, (events.ReadNode(HAND_OVER),)),
        (events.NodeFound(TO_ME), P.CHECKING, (events.ReadNode(LOCK),)),
        (OTHERS, P.EXPECTED, (events.StartTimer(5), events.Prepare())),
        (VANISHED, P.ACQUIRING, (CREATE,)),
        (events.NodeCreated(0), P.TAKING_OVER, (events.StartTimer(3),)),
        (WITHDRAWN, P.OWNED, ()),
    ),
    "a former owner that takes too long": (taking_over(), (events.TimerFired(), P.OWNED, ())),
    "a former owner that was done before the successor had the lock": (
        quietly(FREE, ANNOUNCED, events.NodeFound(TO_ME), OTHERS, VANISHED),
        (WITHDRAWN, P.ACQUIRING, ()),
        (events.NodeCreated(0), P.OWNED, ()),
    ),
    "a former owner that is gone": (
        quietly(FREE, ANNOUNCED, events.NodeFound(TO_ME), OTHERS),
        (WITHDRAWN, P.ACQUIRING, (CREATE,)),
        (events.NodeCreated(0), P.OWNED, ()),
    ),
    "a former owner that is gone while the successor looks at the lock": (
        quietly(FREE, ANNOUNCED, events.NodeFound(TO_ME)),
        (WITHDRAWN, P.CHECKING, ()),
        (NO_NODE, P.ACQUIRING, (CREATE,)),
        (events.NodeCreated(0), P.OWNED, ()),
    ),
    "a successor whose lock was created, though the answer was lost": (
        quietly(FREE, ANNOUNCED, events.NodeFound(TO_ME), OTHERS, VANISHED),
        (events.NodeExists(), P.ACQUIRING, (events.ReadNode(LOCK),)),
        (MINE, P.TAKING_OVER, (events.StartTimer(3),)),
    ),
    "a successor whose session is only interrupted": (
        taking_over(),
        (events.SessionChanged(), P.DOUBTED, (events.ReadNode(LOCK),)),
        (MINE, P.TAKING_OVER, (events.StartTimer(3),)),
    ),
    "a successor in doubt whose former owner is done": (
        quietly(taking_over(), events.SessionChanged()),
        (WITHDRAWN, P.DOUBTED, ()),
        (MINE, P.OWNED, ()),
    ),
    "a successor whose lock another has": (
        taking_over(),
        (VANISHED, P.DOUBTED, (events.ReadNode(LOCK),)),
        (OTHERS, P.DROPPING, (close_topics(None),)),
    ),
    "a successor that is to hand it on when it has it": (
        quietly(taking_over(), events.Release(OTHER)),
        (WITHDRAWN, P.ANNOUNCING, (events.WriteNode(HAND_OVER, FROM_ME),)),
    ),
    "a hand-over of which the successor hears late": (
        FREE,
        (ANNOUNCED, P.READING_HAND_OVER, (events.ReadNode(HAND_OVER),)),
        (events.NodeFound(TO_ME), P.CHECKING, (events.ReadNode(LOCK),)),
        (NO_NODE, P.ACQUIRING, (CREATE,)),
    ),
    "a lock that goes while the successor looks at it": (
        FREE,
        (ANNOUNCED, P.READING_HAND_OVER, (events.ReadNode(HAND_OVER),)),
        (events.NodeFound(TO_ME), P.CHECKING, (events.ReadNode(LOCK),)),
        (VANISHED, P.CHECKING, ()),
        (OTHERS, P.CHECKING, (events.ReadNode(LOCK),)),
        (NO_NODE, P.ACQUIRING, (CREATE,)),
    ),
    "a successor that hears nothing tries before it gives up": (
        quietly(FREE, ANNOUNCED, events.NodeFound(TO_ME), OTHERS),
        (events.TimerFired(), P.ACQUIRING, (CREATE,)),
        (events.NodeExists(), P.ACQUIRING, (events.ReadNode(LOCK),)),
        (OTHERS, P.FREE, ()),
    ),
    "a hand-over between two other brokers": (
        FREE,
        (ANNOUNCED, P.READING_HAND_OVER, (events.ReadNode(HAND_OVER),)),
        (events.NodeFound(HandOver(OTHER, "b3:8080").to_json()), P.FREE, ()),
    ),
}


@pytest.mark.parametrize("story", WHAT_HAPPENS)
def test_what_happens_to(story: str) -> None:
    start, *steps = WHAT_HAPPENS[story]
    run(start, *steps)


def test_a_successor_inherits_while_the_lock_is_surely_its_own() -> None:
    """Meanwhile it may open what the former owner has closed."""
    expecting = quietly(FREE, ANNOUNCED, events.NodeFound(TO_ME), OTHERS)
    assert not expecting.taking_over
    assert not quietly(expecting, VANISHED).taking_over
    successor = taking_over()
    assert successor.taking_over
    assert successor.holds
    assert successor.undecided
    for record in (events.SessionChanged(), VANISHED, WITHDRAWN, events.TimerFired()):
        assert not quietly(successor, record).taking_over, record

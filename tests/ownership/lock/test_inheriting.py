"""Getting a bundle from another broker: the heir's side of a move."""

from __future__ import annotations

import pytest

from counterpoise.ownership.port import (
    Created,
    Exists,
    Found,
    Prepare,
    ReadNode,
    Release,
    SessionChanged,
    WakeMe,
    Woken,
    WriteNode,
)
from counterpoise.ownership.records import HandOver
from tests.ownership.lock.machine import (
    ANNOUNCED,
    CREATE,
    FREE,
    FROM_ME,
    HAND_OVER,
    LOCK,
    MINE,
    NOBODY,
    OTHER,
    OTHERS,
    TO_ME,
    VANISHED,
    WITHDRAWN,
    P,
    drain,
    inheriting,
    quietly,
    run,
)

WHAT_HAPPENS = {
    "a hand-over, the heir's side": (
        FREE,
        (ANNOUNCED, P.HEARING, (ReadNode(HAND_OVER),)),
        (Found(TO_ME), P.CHECKING, (ReadNode(LOCK),)),
        (OTHERS, P.EXPECTED, (WakeMe(5), Prepare())),
        (VANISHED, P.ACQUIRING, (CREATE,)),
        (Created(0), P.INHERITING, (WakeMe(3),)),
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
        (MINE, P.INHERITING, (WakeMe(3),)),
    ),
    "an heir whose session is only interrupted": (
        inheriting(),
        (SessionChanged(), P.DOUBTED, (ReadNode(LOCK),)),
        (MINE, P.INHERITING, (WakeMe(3),)),
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
}


@pytest.mark.parametrize("story", WHAT_HAPPENS)
def test_what_happens_to(story: str) -> None:
    start, *steps = WHAT_HAPPENS[story]
    run(start, *steps)


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

"""One bundle under lock and redirect: what comes to its machine, and states to begin with."""

from __future__ import annotations

from counterpoise.ownership.lock.nodes import hand_over_of, lock_of
from counterpoise.ownership.lock.state import BundleLock, Phase
from counterpoise.ownership.lock.table import advance
from counterpoise.ownership.port import (
    Acquire,
    Change,
    Created,
    CreateNode,
    Drain,
    Found,
    HeirReady,
    NodeChanged,
    Release,
    Terms,
    Woken,
    Written,
)
from counterpoise.ownership.records import HandOver, NamespaceEphemeralData

BUNDLE = "t/n/0x00000000_0xffffffff"
LOCK, HAND_OVER = lock_of(BUNDLE), hand_over_of(BUNDLE)
ME, OTHER = "b1:8080", "b2:8080"
TERMS = Terms(
    NamespaceEphemeralData("pulsar://b1:6650", f"http://{ME}"), heir_s=5, inherit_s=3, drain_s=70
)
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

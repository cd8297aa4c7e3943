"""One bundle under lock and redirect: what comes to its machine, and states to begin with."""

from counterpoise.ownership import events
from counterpoise.ownership.lock.nodes import hand_over_of, lock_of
from counterpoise.ownership.lock.state import BundleLock, LockPhase
from counterpoise.ownership.lock.table import advance
from counterpoise.ownership.port import OwnershipOptions
from counterpoise.ownership.records import HandOver, NamespaceEphemeralData

BUNDLE = "t/n/0x00000000_0xffffffff"
LOCK, HAND_OVER = lock_of(BUNDLE), hand_over_of(BUNDLE)
ME, OTHER = "b1:8080", "b2:8080"
TERMS = OwnershipOptions(
    NamespaceEphemeralData("pulsar://b1:6650", f"http://{ME}"),
    successor_s=5,
    takeover_s=3,
    close_topics_s=70,
)
MY_LOCK = TERMS.me.to_json()
OTHERS_LOCK = NamespaceEphemeralData("pulsar://b2:6650", f"http://{OTHER}").to_json()
TO_ME = HandOver(OTHER, ME).to_json()
FROM_ME = HandOver(ME, OTHER).to_json()
FREE = BundleLock(TERMS, BUNDLE)
VANISHED = events.NodeChanged(LOCK, events.NodeChange.VANISHED)
APPEARED = events.NodeChanged(LOCK, events.NodeChange.APPEARED)
ANNOUNCED = events.NodeChanged(HAND_OVER, events.NodeChange.APPEARED)
WITHDRAWN = events.NodeChanged(HAND_OVER, events.NodeChange.VANISHED)
CREATE = events.CreateNode(LOCK, MY_LOCK)
NO_NODE = events.NodeFound(None)
OTHERS = events.NodeFound(OTHERS_LOCK, 3)
MINE = events.NodeFound(MY_LOCK, 0, mine=True)
FORMER = events.NodeFound(MY_LOCK, 4)

P = LockPhase


def close_topics(destination: str | None) -> events.CloseTopics:
    return events.CloseTopics(destination, within_s=70)


def run(state: BundleLock, *steps: tuple[object, LockPhase, tuple[object, ...]]) -> BundleLock:
    for record, phase, effects in steps:
        state, out = advance(state, record)
        assert (state.phase, out) == (phase, effects), record
    return state


def quietly(state: BundleLock, *records: object) -> BundleLock:
    for record in records:
        state, _ = advance(state, record)
    return state


def owned() -> BundleLock:
    return quietly(FREE, events.Acquire(), events.NodeCreated(0))


def leaving(destination: str | None) -> BundleLock:
    state = quietly(owned(), events.Release(destination), events.NodeWritten())
    return quietly(state, events.TimerFired()) if destination is not None else state


def yielding() -> BundleLock:
    return quietly(owned(), events.Release(OTHER), events.NodeWritten(), events.SuccessorReady())


def taking_over() -> BundleLock:
    return quietly(
        FREE, ANNOUNCED, events.NodeFound(TO_ME), OTHERS, VANISHED, events.NodeCreated(0)
    )

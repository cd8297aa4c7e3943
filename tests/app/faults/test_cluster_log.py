"""What the log of a watched cluster says of operations, and what a failed expectation says."""

from functools import partial

import pytest

from counterpoise.app.faults.cluster_log import SHOWN_MAX, ClusterLog, EventKind, story
from counterpoise.faults import (
    MESSAGE,
    RECEIPT,
    SEND,
    SUBSCRIBE,
    EffectKind,
    FaultEffect,
    Occurrence,
    Operation,
)

TOPIC = "persistent://public/default/x"


def note(
    log: ClusterLog, operation: Operation, entry: int = -1, *, arrives: bool = True, **more: object
) -> None:
    """An operation on a topic at broker ``b1``; of an entry of ledger 1 if it is given."""
    position = (1, entry) if entry >= 0 else None
    fields = {"broker": "b1", "subscription": "s", **more}
    log.begun(Occurrence(operation, topic=TOPIC, position=position, **fields), arrives=arrives)


def texts(log: ClusterLog, kind: EventKind) -> list[str]:
    return [each.text for each in log.of(kind)]


async def test_messages_count_from_the_first_subscribe() -> None:
    log = ClusterLog()
    note(log, RECEIPT, 0)
    note(log, SUBSCRIBE)
    note(log, RECEIPT, 1)
    note(log, SUBSCRIBE)
    assert log.undelivered(TOPIC, "s") == [2]
    assert log.undelivered(TOPIC, "unseen") == [1, 2]
    note(log, MESSAGE, 1, arrives=False)
    assert log.undelivered(TOPIC, "s") == [2]
    note(log, MESSAGE, 1)
    assert log.undelivered(TOPIC, "s") == []
    assert log.stored(TOPIC) == 2


async def test_a_message_that_comes_again_is_logged_by_its_number() -> None:
    log = ClusterLog()
    note(log, RECEIPT, 7)
    note(log, MESSAGE, 7)
    assert texts(log, EventKind.REDELIVERED) == []
    note(log, MESSAGE, 7)
    note(log, MESSAGE, 8, redeliveries=1)
    assert texts(log, EventKind.REDELIVERED) == [
        f"message 1 of {TOPIC} again to subscription s",
        f"a message of {TOPIC} again to subscription s",
    ]


async def test_a_topic_moves_from_one_broker_to_another() -> None:
    log = ClusterLog()
    note(log, RECEIPT, 0)
    note(log, RECEIPT, 1)
    assert texts(log, EventKind.MOVED) == []
    note(log, MESSAGE, 0, broker="b2")
    assert texts(log, EventKind.MOVED) == [f"{TOPIC} from broker 1 to broker 2"]
    assert log.of(EventKind.MOVED, TOPIC) == log.of(EventKind.MOVED)
    assert log.of(EventKind.MOVED, "another") == []


async def test_what_a_fault_did_names_the_topic_if_there_is_one() -> None:
    log = ClusterLog()
    log.struck(Occurrence(SEND, "b1", topic=TOPIC), FaultEffect.delay(2))
    log.struck(Occurrence(Operation.CONNECT, "b1"), FaultEffect(EffectKind.DROP))
    assert texts(log, EventKind.FAULT) == [f"SEND of {TOPIC} delayed by 2 s", "CONNECT dropped"]
    assert [each.broker for each in log.events] == ["b1", "b1"]


async def test_events_are_awaited_as_often_as_they_are_expected() -> None:
    log = ClusterLog()
    twice = partial(log.missing_events, EventKind.REDELIVERED, TOPIC, 2)
    note(log, MESSAGE, 0, redeliveries=1)
    assert twice() == f"{TOPIC} was redelivered 1 times, and 2 were expected"
    note(log, MESSAGE, 0, redeliveries=2)
    assert twice() == ""
    await log.expect(twice, 0)


@pytest.mark.parametrize(("more", "end"), [(0, f" {SHOWN_MAX}"), (1, f" {SHOWN_MAX} …")])
async def test_only_the_first_of_the_lost_messages_are_named(more: int, end: str) -> None:
    log = ClusterLog()
    lost = partial(log.missing_messages, TOPIC, "s")
    assert lost() == f"no message of {TOPIC} was stored while the cluster was watched"
    for entry in range(SHOWN_MAX + more):
        note(log, RECEIPT, entry)
    sentence = lost()
    assert sentence.startswith(f"{SHOWN_MAX + more} of the {SHOWN_MAX + more} messages of {TOPIC}")
    assert sentence.endswith(f" {SHOWN_MAX - 1},{end}")


async def test_a_story_has_the_newest_events_and_says_how_many_it_leaves_out() -> None:
    log = ClusterLog()
    assert story("it is late", log.events) == "it is late. Nothing happened that is recorded."
    for number in range(SHOWN_MAX + 2):
        log.add(EventKind.CLOCK, f"tick {number}")
    head, *lines = story("it is late", log.events).splitlines()
    assert head == "it is late. What happened, but for the first 2 events:"
    assert len(lines) == SHOWN_MAX
    assert lines[0].endswith("s  clock: tick 2")
    assert story("it is late", log.events[:1]).splitlines()[0] == "it is late. What happened:"

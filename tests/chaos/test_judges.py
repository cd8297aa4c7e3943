"""Each judge reports nothing of a sound history, and the violation that it is there for."""

from collections.abc import Callable
from itertools import islice

import pytest

from tests.chaos import judges
from tests.chaos.faults import Kind, plan
from tests.chaos.history import Bundle, History, Message, Seen, TopicHistory

TOPIC, HERE, THERE = "persistent://public/chaos/t0", "127.0.0.1:1", "127.0.0.1:2"

PROBED = [Message("probe-0", 0, "probe")]


def messages(*numbers: int) -> list[Message]:
    return [Message("load", number, f"k{number % 2}") for number in numbers]


def sound() -> History:
    """A broker died: the client sent 2 and 3 again, and 1, whose acknowledgement got lost, came
    twice.
    """
    return History(
        topics={
            TOPIC: TopicHistory(
                acknowledged=messages(0, 1, 2, 3, 4) + PROBED,
                stored=messages(0, 1, 2, 3, 2, 3) + PROBED + messages(4),
                delivered=messages(0, 1, 1, 2, 3, 2, 3) + PROBED + messages(4),
            )
        },
        faults=[Seen("kill -9", "broker-1", {TOPIC: 5.9})],
        bundles=[Bundle("public/chaos/0x0_0x1", HERE, changing=False, held_by=[HERE])],
        brokers=[HERE, THERE],
        active=[HERE, THERE],
        logs={"broker-1.log": "a warning\n"},
    )


def lose(history: History) -> None:
    history.topics[TOPIC].stored = messages(0, 1, 2, 3) + PROBED


def never_deliver(history: History) -> None:
    history.topics[TOPIC].delivered.remove(messages(1)[0])
    history.topics[TOPIC].delivered.remove(messages(1)[0])


def skip(history: History) -> None:
    history.topics[TOPIC].stored = messages(0, 1, 3, 2, 3, 4) + PROBED


def deliver_out_of_order(history: History) -> None:
    history.topics[TOPIC].delivered = messages(2, 0, 1, 3, 4) + PROBED


def be_late(history: History) -> None:
    history.faults.append(Seen("freeze", "broker-2", {TOPIC: 10.1}))


def stay_with_the_frozen(history: History) -> None:
    history.faults.append(Seen("freeze", "broker-2", {TOPIC: 5.0}, silent_s={TOPIC: 70.1}))


def never_be_writable(history: History) -> None:
    history.faults.append(Seen("freeze", "broker-2", {TOPIC: None}))


def refuse(history: History) -> None:
    history.faults.append(Seen("unload", "0x0_0x1", {TOPIC: 0.1}, "500: it is broken"))


def stumble(history: History) -> None:
    history.logs["broker-2.log"] = "oh\nTraceback (most recent call last):\n  File …\n"


def give_up(history: History) -> None:
    history.logs["broker-2.log"] = "2026-11-22 10:00:00 ERROR   broker the report failed\n"


def stay_away(history: History) -> None:
    history.active.remove(THERE)


def rest_half_way(history: History) -> None:
    history.bundles.append(Bundle("b", HERE, changing=True, held_by=[HERE]))


def belong_to_the_dead(history: History) -> None:
    history.bundles.append(Bundle("b", "127.0.0.1:3", changing=False, held_by=["127.0.0.1:3"]))


def have_two_owners(history: History) -> None:
    history.bundles.append(Bundle("b", HERE, changing=False, held_by=[HERE, THERE]))


def outlive(history: History) -> None:
    history.leftovers.append("process 1 is still there")


def test_the_judges_are_silent_on_a_sound_history() -> None:
    assert judges.complaints(sound()) == []


@pytest.mark.parametrize(
    ("spoil", "judge"),
    [
        (lose, judges.nothing_acknowledged_is_lost),
        (never_deliver, judges.nothing_acknowledged_is_lost),
        (skip, judges.order_is_kept),
        (deliver_out_of_order, judges.order_is_kept),
        (be_late, judges.every_topic_is_soon_writable),
        (stay_with_the_frozen, judges.attached_clients_come_back),
        (never_be_writable, judges.every_topic_is_soon_writable),
        (refuse, judges.every_fault_was_brought_about),
        (give_up, judges.logs_have_no_surprise),
        (stumble, judges.logs_have_no_surprise),
        (stay_away, judges.every_broker_is_back),
        (rest_half_way, judges.bundles_rest),
        (belong_to_the_dead, judges.bundles_rest),
        (have_two_owners, judges.bundles_rest),
        (outlive, judges.nothing_is_left),
    ],
)
def test_each_judge_reports_its_violation(
    spoil: Callable[[History], None], judge: judges.Judge
) -> None:
    history = sound()
    spoil(history)
    found = judges.complaints(history)
    assert len(found) == 1, found
    assert found[0].startswith(judge.__name__)


@pytest.mark.parametrize(
    ("receipts", "longest"),
    [([1.0, 5.0, 20.0, 22.0, 40.0], 15.0), ([1.0, 40.0], 26.0), ([28.0], 24.0), ([5.0], 25.0)],
)
def test_how_long_an_attached_client_waited(receipts: list[float], longest: float) -> None:
    topic = TopicHistory(receipts_at=receipts)
    assert topic.silent_s(4.0, 30.0) == longest


def test_duplicates_are_counted() -> None:
    assert "2 stored again, 3 delivered again" in judges.figures(sound())


def test_a_plan_follows_from_its_seed_and_has_every_kind() -> None:
    first = list(islice(plan(7), len(Kind)))
    assert first == list(islice(plan(7), len(Kind)))
    assert first != list(islice(plan(8), len(Kind)))
    assert {fault.kind for fault in first} == set(Kind)

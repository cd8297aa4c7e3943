"""The answers of a recording and those of its replay, held against each other."""

from typing import Any

import pytest

from counterpoise.app.recordings.replayed_answers import Answer, AnswerLog, answer_of
from counterpoise.wire.proto.base_pb2 import BaseCommand
from tests.wire.frames import command

SEND = ("send", 1, 7)
MESSAGE = ("message", 2, 0)


def log_of(then: list[Answer], now: list[Answer]) -> AnswerLog:
    log = AnswerLog()
    for each in then:
        log.then[each.key].append(each)
    for each in now:
        log.now[each.key].append(each)
    return log


def test_an_answer_that_was_given_up_is_missing_no_more_and_the_next_one_is() -> None:
    log = log_of([Answer(SEND, "done")] * 2, [Answer(SEND, "done")])
    assert log.missing(SEND)
    log.give_up(SEND)
    assert not log.missing(SEND)
    log.then[SEND].append(Answer(SEND, "done"))
    assert log.missing(SEND)
    log.now[SEND].append(Answer(SEND, "done"))
    log.give_up(SEND)
    log.then[SEND].append(Answer(SEND, "done"))
    assert log.missing(SEND), "what came in time takes nothing of what was given up"


def test_the_counterpart_is_the_answer_at_the_same_place() -> None:
    first, second = Answer(SEND, "done", (1, 1)), Answer(SEND, "done", (1, 2))
    log = log_of([first], [first, second])
    assert log.counterpart(SEND) == first
    log.then[SEND].append(second)
    assert log.counterpart(SEND) == second
    log.then[SEND].append(second)
    assert log.counterpart(SEND) is None


@pytest.mark.parametrize(
    ("then", "now", "said"),
    [
        ([Answer(SEND, "done")], [Answer(SEND, "done", (9, 9))], []),
        ([Answer(SEND, "done")], [], ["message 7 of a producer of t was answered with done then, "
                                      "with nothing now"]),
        ([], [Answer(SEND, "Busy")], ["message 7 of a producer of t was answered with nothing "
                                      "then, with Busy now"]),
        ([Answer(MESSAGE, "done", (1, 1))], [Answer(MESSAGE, "done", (2, 1))], []),
        (
            [Answer(MESSAGE, "done", (1, 1))],
            [Answer(MESSAGE, "done", (2, 2))],
            ["s of t got its 1 messages in another order now"],
        ),
        ([Answer(MESSAGE, "done", (1, 1))], [], ["s of t got 1 messages then, 0 now"]),
        (
            [Answer(MESSAGE, "done", (1, 1))],
            [Answer(MESSAGE, "done", (2, 1))] * 2,
            ["s of t got 1 messages then, 2 now"],
        ),
        ([], [Answer(("request", 4, 0), "Busy")], ["request 4 was answered with nothing then, "
                                                   "with Busy now"]),
    ],
)  # fmt: skip
def test_each_difference_is_a_sentence(
    then: list[Answer], now: list[Answer], said: list[str]
) -> None:
    log = log_of(then, now)
    log.name_peers(command("producer", topic="t", producer_id=1, request_id=8))
    log.name_peers(
        command("subscribe", topic="t", subscription="s", consumer_id=2, request_id=9, sub_type=1)
    )
    assert list(log.differences({(1, 1): (2, 1)})) == said


def test_commands_that_could_not_be_sent_are_counted_first() -> None:
    log = AnswerLog()
    log.unsent = 3
    assert list(log.differences({})) == [
        "the broker disconnected now; 3 commands could not be sent"
    ]


@pytest.mark.parametrize(
    ("field", "values", "answer"),
    [
        ("connected", {"server_version": "x"}, Answer(("request", 0, -1), "done")),
        ("success", {"request_id": 5}, Answer(("request", 5, 0), "done")),
        (
            "error",
            {"request_id": 5, "error": 3, "message": "m"},
            Answer(("request", 5, 0), "AuthenticationError"),
        ),
        ("close_producer", {"producer_id": 1, "request_id": 5}, None),
        ("ping", {}, None),
    ],
)
def test_what_a_brokers_command_answers(
    field: str, values: dict[str, Any], answer: Answer | None
) -> None:
    assert answer_of(command(field, **values)) == answer


def test_a_receipt_is_an_answer_with_its_numbers_and_its_position() -> None:
    receipt = BaseCommand(type=BaseCommand.SEND_RECEIPT)
    receipt.send_receipt.producer_id, receipt.send_receipt.sequence_id = 1, 7
    receipt.send_receipt.message_id.ledger_id = 3
    receipt.send_receipt.message_id.entry_id = 4
    assert answer_of(receipt) == Answer(SEND, "done", (3, 4))

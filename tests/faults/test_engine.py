"""Which operations a fault strikes: counts, chances, targets, and what is refused."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.faults import (
    ALWAYS,
    EffectKind,
    Fault,
    FaultEffect,
    FaultEngine,
    FaultTarget,
    InvalidFault,
    Occurrence,
    Operation,
    Schedule,
    operation_named,
)
from counterpoise.wire.errors import ServerError

DROP = FaultEffect(EffectKind.DROP)
ORDERS = "persistent://public/default/orders"
SENT = Occurrence(Operation.SEND, "b:1", ("127.0.0.1:9", "Pulsar-CPP-v3.7.0", "till-1"), ORDERS)


def struck(schedule: Schedule, count: int) -> list[int]:
    """Which of so many operations a fault with this schedule strikes."""
    engine = FaultEngine()
    engine.add(Fault(Operation.SEND, DROP, schedule=schedule))
    return [n for n in range(1, count + 1) if engine.on(SENT) is not None]


@given(
    times=st.none() | st.integers(1, 20),
    every=st.none() | st.integers(1, 20),
    count=st.integers(0, 100),
)
def test_counts_strike_each_nth_and_so_many(
    times: int | None, every: int | None, count: int
) -> None:
    expected = [n for n in range(1, count + 1) if n % (every or 1) == 0][:times]
    assert struck(Schedule(times, every), count) == expected


@given(chance=st.floats(0.1, 0.9), seed=st.integers(0, 2**32))
def test_a_chance_is_the_same_from_the_same_seed(chance: float, seed: int) -> None:
    schedule = ALWAYS.but(probability=chance, seed=seed)
    first = struck(schedule, 300)
    assert first == struck(schedule, 300)
    assert abs(len(first) - 300 * chance) < 60


def test_the_first_fault_that_strikes_decides() -> None:
    engine = FaultEngine()
    first = engine.add(Fault(Operation.SEND, DROP, schedule=Schedule(times=1)))
    second = engine.add(Fault(Operation.SEND, FaultEffect.error("MetadataError")))
    found = [engine.on(SENT) for _ in range(3)]
    assert [each and each[0] for each in found] == [first, second, second]
    assert (first.struck, second.struck) == (1, 2)
    engine.remove(second.number)
    engine.remove(second.number)
    assert engine.on(SENT) is None
    with pytest.raises(InvalidFault, match="there is no fault 2"):
        engine.find(2)
    third = engine.add(Fault(Operation.ACK, DROP))
    assert third.number == 3, "no number comes again"
    assert engine.faults == [first, third]
    assert engine.find(3) is third
    engine.clear()
    assert engine.faults == []


@pytest.mark.parametrize("operation", Operation)
def test_what_has_no_answer_cannot_be_answered_with_an_error(operation: Operation) -> None:
    one_way = operation.name in ("FLOW", "REDELIVER", "RECEIPT", "MESSAGE")
    without_topic = operation.name in ("CONNECT", "TOPICS")
    for impossible, make in (
        (one_way, lambda: Fault(operation, FaultEffect.error("MetadataError"))),
        (without_topic, lambda: Fault(operation, FaultEffect.delay(1), FaultTarget("t"))),
        (operation is Operation.CONNECT, lambda: Fault(operation, DROP)),
        (False, lambda: Fault(operation, FaultEffect(EffectKind.DISCONNECT))),
    ):
        if impossible:
            with pytest.raises(InvalidFault, match=operation.name):
                make()
        else:
            assert make().operation is operation
    assert operation_named(operation) is operation_named(operation.name.lower()) is operation


def test_an_error_has_the_message_that_was_given_or_says_what_it_is() -> None:
    assert FaultEffect.error("MetadataError", "no disk").message == "no disk"
    said = FaultEffect.error(ServerError.MetadataError)
    assert (said.code, said.message) == (
        ServerError.MetadataError,
        "MetadataError: a fault that a test has set",
    )


def test_a_schedule_is_made_of_what_was_said_one_after_the_other() -> None:
    assert ALWAYS.but(times=3).but(every=2) == Schedule(times=3, every=2)
    assert ALWAYS.but(every=2).but(times=1) == Schedule(times=1, every=2)
    assert ALWAYS.but(probability=1) == Schedule(probability=1, seed=0)
    with pytest.raises(InvalidFault, match=r"every\(2\): .* twice"):
        ALWAYS.but(every=4).but(every=2)


@pytest.mark.parametrize(
    ("target", "meant"),
    [
        (FaultTarget(), True),
        (FaultTarget(topic="orders"), True),
        (FaultTarget(topic=ORDERS), True),
        (FaultTarget(topic="public/default/ord*"), True),
        (FaultTarget(topic="order"), False),
        (FaultTarget(topic="non-persistent://public/default/orders"), False),
        (FaultTarget(client="till-*"), True),
        (FaultTarget(client="Pulsar-CPP*"), True),
        (FaultTarget(client="till"), False),
        (FaultTarget(broker="b:1"), True),
        (FaultTarget(broker="b:2", topic="orders"), False),
        (FaultTarget(broker="b:1", client="other", topic="orders"), False),
        (FaultTarget(topic="default/orders"), False),
    ],
    ids=str,
)
def test_a_target_means_topics_clients_and_brokers(target: FaultTarget, meant: bool) -> None:
    assert target.matches(SENT) is meant


def test_a_topic_means_its_partitions_and_no_others() -> None:
    target = FaultTarget(topic="orders")
    assert target.matches(replace(SENT, topic=f"{ORDERS}-partition-3"))
    assert not target.matches(replace(SENT, topic=f"{ORDERS}-partition-x"))
    assert not target.matches(replace(SENT, topic=None))


def test_other_operations_are_not_struck() -> None:
    engine = FaultEngine()
    engine.add(Fault(Operation.ACK, DROP))
    assert engine.on(SENT) is None


def test_what_cannot_be_is_refused_in_a_sentence() -> None:
    for make, sentence in (
        (lambda: operation_named("SENDING"), "no operation 'SENDING': choose one of CONNECT"),
        (lambda: FaultEffect.error("DiskError"), "no error code 'DiskError': choose one of Unkno"),
        (lambda: FaultEffect.delay(-1), "a delay of -1 s: it must be more than 0"),
        (lambda: FaultEffect.delay(float("nan")), "a delay of nan s"),
        (lambda: ALWAYS.but(times=0), r"times\(0\): it must be at least 1"),
        (lambda: ALWAYS.but(times=1).but(times=2), "twice"),
        (lambda: ALWAYS.but(times=1).but(probability=0.5), "choose chance or count"),
        (lambda: ALWAYS.but(probability=0.5).but(every=2), "choose chance or count"),
        (lambda: ALWAYS.but(probability=1.5), "at most 1"),
        (lambda: ALWAYS.but(probability=0), "more than 0"),
        (lambda: FaultEffect.delay(3600.1), "at most 3600"),
        (lambda: Fault(Operation.TOPICS, DROP, FaultTarget("t")), "TOPICS names no topic"),
        (lambda: Fault(Operation.MESSAGE, FaultEffect.error("MetadataError")), "no answer"),
        (lambda: Fault(Operation.CONNECT, DROP), "CONNECT cannot be dropped"),
        (lambda: Fault(Operation.CONNECT, FaultEffect.delay(1), FaultTarget("t")), "no topic"),
    ):
        with pytest.raises(InvalidFault, match=sentence):
            make()


def test_a_fault_says_what_it_does() -> None:
    fault = Fault(
        Operation.SEND,
        FaultEffect.error(ServerError.PersistenceError),
        FaultTarget("orders", "till-1", "b:1"),
        Schedule(times=2, every=3),
    )
    assert str(fault) == (
        "SEND of topic orders by client till-1 at broker b:1 "
        "answered with PersistenceError: every 3, 2 times"
    )


@pytest.mark.parametrize(
    ("effect", "schedule", "said"),
    [
        (FaultEffect.delay(3600), Schedule(times=1), "SEND delayed by 3600 s: once"),
        (FaultEffect.delay(0.25), ALWAYS, "SEND delayed by 0.25 s: always"),
        (DROP, ALWAYS.but(probability=1, seed=7), "SEND dropped: with probability 1 from seed 7"),
        (FaultEffect(EffectKind.DISCONNECT), Schedule(3), "SEND connection closed: 3 times"),
    ],
)
def test_a_fault_says_how_and_how_often(effect: FaultEffect, schedule: Schedule, said: str) -> None:
    assert str(Fault(operation_named("send"), effect, schedule=schedule)) == said


def test_a_fault_with_another_schedule_keeps_its_counts_and_begins_with_the_new_seed() -> None:
    engine = FaultEngine()
    one = engine.add(Fault(Operation.SEND, DROP))
    assert [engine.on(SENT) is not None for _ in range(2)] == [True, True]
    one.reschedule(ALWAYS.but(probability=0.5, seed=9))
    assert (one.matched, one.struck) == (2, 2)
    found = [n for n in range(1, 101) if engine.on(SENT) is not None]
    assert found == struck(ALWAYS.but(probability=0.5, seed=9), 100)

"""The runner of machines, alone."""

import asyncio
import gc
import logging
import warnings
from collections.abc import Awaitable, Callable, Mapping

import pytest

from counterpoise.broker.bundles.runner import Runner
from counterpoise.metadata import StoreUnavailable
from counterpoise.ownership.events import (
    CloseTopics,
    Command,
    CommandFailed,
    Effects,
    Prepare,
    StartTimer,
    TimerFired,
    TopicsClosed,
    UnexpectedEvent,
)
from counterpoise.quota import SECOND_NS
from tests.quota.jumping import now_ns, on_jumping_loop, pass_time


async def test_closing_before_a_preparation_began_leaves_nothing_unawaited() -> None:
    begun = []

    async def prepare(key: str) -> None:
        begun.append(key)

    async def ask(key: str, question: Command) -> object:
        raise AssertionError("nothing is asked here")

    runner = Runner[str, int](
        new=lambda _: 0,
        advance=lambda state, _: (state + 1, (Prepare(),)),
        forgettable=lambda _: False,
        execute=ask,
        changed=lambda *_: None,
        prepare=prepare,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        runner.feed("bundle", "a hand-over to us")
        runner.close()
        gc.collect()
    assert [str(each.message) for each in caught] == []
    assert begun == []


class Machines:
    """Machines that keep the events they saw, and do what a script says of each event."""

    def __init__(self, script: Mapping[object, Effects], *, forgets: object = None) -> None:
        self.executed: list[Command] = []
        self.answers: list[Callable[[], Awaitable[object]]] = []
        self.on_change: Callable[[str], None] = lambda _: None
        self._script = script
        self._forgets = forgets
        self.runner = Runner[str, tuple[object, ...]](
            new=lambda _: (),
            advance=self._advance,
            forgettable=lambda state: bool(state) and state[-1] == self._forgets,
            execute=self._execute,
            changed=lambda key, before, after: self.on_change(key),
        )

    def _advance(
        self, state: tuple[object, ...], event: object
    ) -> tuple[tuple[object, ...], Effects]:
        if event == "nonsense":
            raise UnexpectedEvent("a test's", "at rest", event)
        return (*state, event), self._script.get(event, ())

    async def _execute(self, key: str, command: Command) -> object:
        self.executed.append(command)
        return await self.answers.pop(0)()


def gives(result: object) -> Callable[[], Awaitable[object]]:
    async def answer() -> object:
        if isinstance(result, BaseException):
            raise result
        return result

    return answer


async def never() -> object:
    return await asyncio.get_running_loop().create_future()


AWAY = StoreUnavailable("get", "it is away")
CLOSE = CloseTopics(destination=None, within_s=5.0)


@pytest.mark.parametrize(
    ("answer", "event", "after_s"),
    [
        (gives(TopicsClosed()), TopicsClosed(), 0.0),
        (gives(AWAY), CommandFailed(str(AWAY)), 0.0),
        (gives(ZeroDivisionError("odd")), CommandFailed("ZeroDivisionError: odd"), 0.0),
        (gives(asyncio.CancelledError()), CommandFailed("it was cancelled"), 0.0),
        (never, CommandFailed("no result within 5 s", late=True), 5.0),
    ],
)
@on_jumping_loop
async def test_whatever_becomes_of_a_command_its_machine_has_one_event_of_it(
    answer: Callable[[], Awaitable[object]], event: object, after_s: float
) -> None:
    machines = Machines({"close": (CLOSE,)})
    machines.answers = [answer]
    machines.runner.feed("bundle", "close")
    if after_s:
        await pass_time(after_s - 0.1)
        assert machines.runner.state("bundle") == ("close",)
    await pass_time(0.2)
    assert machines.runner.state("bundle") == ("close", event)
    assert machines.executed == [CLOSE]


@on_jumping_loop
async def test_events_are_applied_in_order_and_one_that_makes_no_sense_changes_nothing() -> None:
    machines = Machines({})
    reacts = iter(["second", "nonsense"])

    def react(key: str) -> None:
        for event in reacts:
            machines.runner.feed(key, event)

    machines.on_change = react
    machines.runner.feed("bundle", "first")
    machines.runner.feed("bundle", "third")
    assert machines.runner.state("bundle") == ("first", "second", "third")
    assert machines.runner.state("other") == ()
    assert machines.runner.known() == ["bundle"]


@on_jumping_loop
async def test_a_failure_while_one_event_is_applied_keeps_no_later_one_waiting() -> None:
    machines = Machines({})

    def fails(_: str) -> None:
        machines.on_change = lambda _: None
        raise ZeroDivisionError

    machines.on_change = fails
    with pytest.raises(ZeroDivisionError):
        machines.runner.feed("bundle", "first")
    machines.runner.feed("bundle", "second")
    assert machines.runner.state("bundle") == ("first", "second")


@pytest.mark.parametrize(
    ("then", "fires_at"), [(None, [10]), ("again", [16]), ("forget", []), ("close", [])]
)
@on_jumping_loop
async def test_of_timers_the_last_one_that_was_set_fires_once(
    then: str | None, fires_at: list[int]
) -> None:
    timer = (StartTimer(10.0),)
    machines = Machines({"start": timer, "again": timer}, forgets="forget")
    fired: list[int] = []

    def note(key: str) -> None:
        if TimerFired() in machines.runner.state(key)[-1:]:
            fired.append(now_ns() // SECOND_NS)

    machines.on_change = note
    machines.runner.feed("bundle", "start")
    await pass_time(6)
    if then == "close":
        machines.runner.close()
    elif then is not None:
        machines.runner.feed("bundle", then)
    await pass_time(30)
    assert fired == fires_at
    assert machines.runner.known() == ([] if then == "forget" else ["bundle"])


@on_jumping_loop
async def test_why_a_command_fails_is_a_warning_once_and_again_after_a_success(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "counterpoise.broker.bundles.runner")
    machines = Machines({"close": (CLOSE,)})
    away, other = StoreUnavailable("get", "away"), StoreUnavailable("get", "slow")
    levels = []
    for result in (away, away, other, TopicsClosed(), other):
        machines.answers = [gives(result)]
        caplog.clear()
        machines.runner.feed("bundle", "close")
        await pass_time(0.1)
        levels.append([each.levelname for each in caplog.records])
    assert levels == [["WARNING"], ["DEBUG"], ["WARNING"], [], ["WARNING"]]


@on_jumping_loop
async def test_a_runner_that_is_closed_applies_nothing_more() -> None:
    machines = Machines({"close": (CLOSE,)})
    machines.answers = [never]
    machines.runner.feed("bundle", "close")
    await pass_time(1)
    machines.runner.close()
    machines.runner.feed("bundle", "more")
    await pass_time(60)
    assert machines.runner.state("bundle") == ("close",)

"""Every state that one machine can reach, whatever happens to it and in whatever order."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from counterpoise.ownership import events


@dataclass(frozen=True)
class Place:
    """A machine, the question that is open and whether its alarm is set."""

    state: Any
    question: events.Command | None = None
    alarm: bool = False


def explore(
    start: Any,
    advance: Callable[[Any, object], tuple[Any, events.Effects]],
    outside: Iterable[object],
    answers: Callable[[events.Command], Iterable[object]],
    in_progress: Callable[[Any], bool],
) -> dict[Place, tuple[Place, object]]:
    """Walk everywhere; returns how each place was reached first.

    Fails on a record outside the table, on a second open question, and on a place that is on its
    way but waits for nothing.
    """
    records, begin = list(outside), Place(start)
    reached: dict[Place, tuple[Place, object]] = {begin: (begin, None)}
    todo = [begin]
    while todo:
        place = todo.pop()
        steps = [*records]
        if place.question is not None:
            steps += [*answers(place.question), events.CommandFailed("test")]
        if place.alarm:
            steps.append(events.TimerFired())
        for record in steps:
            after = _step(place, record, advance)
            if after not in reached:
                reached[after] = (place, record)
                waits = after.question is not None or after.alarm
                assert waits or not in_progress(after.state), story(reached, after)
                todo.append(after)
    return reached


def _step(
    place: Place, record: object, advance: Callable[..., tuple[Any, events.Effects]]
) -> Place:
    answered = (
        place.question is not None
        and not isinstance(record, events.TimerFired)
        and _is_answer(record)
    )
    question = None if answered else place.question
    alarm = False if isinstance(record, events.TimerFired) else place.alarm
    state, effects = advance(place.state, record)
    for effect in effects:
        if isinstance(effect, events.StartTimer):
            assert effect.after_s > 0
            alarm = True
        elif not isinstance(effect, events.Prepare | events.ReportRelease):
            assert isinstance(effect, events.Command), effect
            assert question is None, f"{question} is open while {effect} is put: {place} {record}"
            question = effect
    # Counting on changes nothing after the last limit.
    return Place(replace(state, failures=min(state.failures, 7)), question, alarm)


def _is_answer(record: object) -> bool:
    return type(record).__name__ in {
        "NodeCreated", "NodeExists", "NodeWritten", "NodeFound", "NodeRemoved", "VersionDiffers",
        "TopicsClosed", "CommandFailed",
    }  # fmt: skip


def story(reached: dict[Place, tuple[Place, object]], place: Place) -> str:
    """How a place was reached, for a person."""
    lines = [f"waits for nothing: {place}"]
    while (before := reached[place])[0] != place:
        lines.append(f"  {before[0].state} --{before[1]}")
        place = before[0]
    return "\n".join(reversed(lines))

"""Plays, a task for each strategy, configuration and span of the trace: many of them on Spark."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import TYPE_CHECKING

from counterpoise.pipeline.backtest.cut import CutSource
from counterpoise.pipeline.backtest.measure import BacktestResult
from counterpoise.pipeline.backtest.recorded import Recording
from counterpoise.pipeline.backtest.simulate import BacktestCandidate, simulate
from counterpoise.pipeline.backtest.synthetic import SyntheticTrace
from counterpoise.pipeline.backtest.trace import LoadTrace, span_of
from counterpoise.pipeline.stream.trouble import sentence_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Source = SyntheticTrace | Recording | CutSource
LITTLE = 5_000_000
"""Bundles times steps times plays: a few seconds of one core, in which Spark only starts."""


@dataclass(frozen=True, slots=True)
class Task:
    """One play; it says all that its result depends on."""

    candidate: BacktestCandidate
    source: Source
    part: int
    parts: int
    move_s: float
    seed: int


def opened(source: Source) -> LoadTrace:
    """The trace that a source describes."""
    return source if isinstance(source, SyntheticTrace) else source.open()


def play(task: Task) -> BacktestResult:
    """Run one task, wherever it is."""
    trace = opened(task.source)
    first, last = span_of(trace, task.part, task.parts)
    return simulate(task.candidate, trace, first, last, move_s=task.move_s, seed=task.seed)


def tasks_of(
    candidates: Sequence[BacktestCandidate], source: Source, *, parts: int, move_s: float, seed: int
) -> list[Task]:
    """A task for each candidate and part of the trace."""
    return [
        Task(candidate, source, part, parts, move_s, seed)
        for candidate in candidates
        for part in range(parts)
    ]


class PlayFailedError(RuntimeError):
    """A play could not be finished; the message says why, in a sentence."""


def is_little(trace: LoadTrace, plays: int) -> bool:
    """Whether plays of a trace are over before Spark would have started."""
    return len(trace.bundles) * trace.steps * plays <= LITTLE


def play_here(
    tasks: Sequence[Task], progress: Callable[[int, BacktestResult], None]
) -> list[BacktestResult]:
    """The same as `run_tasks`, one after the other in this process."""
    results = []
    for task in tasks:
        try:
            results.append(play(task))
        except Exception as error:
            why = f"{task.candidate.label}: {type(error).__name__}: {error}"
            raise PlayFailedError(why) from error
        progress(len(results), results[-1])
    return results


def run_tasks(
    spark: "SparkSession", tasks: Sequence[Task], progress: Callable[[int, BacktestResult], None]
) -> list[BacktestResult]:
    """The results in the order of the tasks; `progress` hears of each as it is there.

    Each task is a Spark job of its own, as many at once as there are cores: so results come as they
    are ready, and one that fails is the only one to be repeated. Raises `PlayFailedError`.
    """
    context = spark.sparkContext

    def one(task: Task) -> BacktestResult:
        try:
            [result] = context.parallelize([task], 1).map(play).collect()
        except Exception as error:
            raise PlayFailedError(sentence_of(str(error))) from error
        found: BacktestResult = result
        return found

    with ThreadPoolExecutor(max(1, context.defaultParallelism)) as pool:
        running = {pool.submit(one, task): number for number, task in enumerate(tasks)}
        results: dict[int, BacktestResult] = {}
        for ready in as_completed(running):
            results[running[ready]] = ready.result()
            progress(len(results), ready.result())
    return [results[number] for number in range(len(tasks))]


def joined(results: Sequence[BacktestResult]) -> list[BacktestResult]:
    """The spans of each candidate put together: averages by time, counts added up."""
    groups: dict[str, list[BacktestResult]] = {}
    for result in results:
        groups.setdefault(result.label, []).append(result)
    return [_together(group) for group in groups.values()]


def _together(group: Sequence[BacktestResult]) -> BacktestResult:
    hours = sum(result.hours for result in group)

    def average(name: str) -> float:
        total = sum(float(getattr(result, name)) * result.hours for result in group)
        return total / hours if hours else 0.0

    first = group[0]
    return BacktestResult(
        label=first.label,
        first_ms=min(result.first_ms for result in group),
        steps=sum(result.steps for result in group),
        hours=hours,
        imbalance=average("imbalance"),
        worst=max(result.worst for result in group),
        deviation=average("deviation"),
        uneven=average("uneven"),
        moves=sum(result.moves for result in group),
        moved=sum(result.moved for result in group),
        waited_s=sum(result.waited_s for result in group),
        delayed=sum(result.delayed for result in group),
        thrash=sum(result.thrash for result in group),
        orphans=sum(result.orphans for result in group),
        why_not=next((result.why_not for result in reversed(group) if result.why_not), ""),
        late_moves=sum(result.late_moves for result in group),
        needed=sum(result.needed for result in group),
        converged_min=average("converged_min"),
        as_recorded=first.as_recorded,
    )

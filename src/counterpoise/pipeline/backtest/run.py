"""Runs replays of strategies, configurations and spans: in this process, or as one Spark job."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, fields, replace
from statistics import median_low
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa

from counterpoise.pipeline.backtest.measure import BacktestResult
from counterpoise.pipeline.backtest.simulate import BacktestCandidate, simulate
from counterpoise.pipeline.backtest.trace import LoadTrace, Source, span_of
from counterpoise.pipeline.spark.frames import spark_type
from counterpoise.pipeline.spark.job import EXECUTORS_WITHIN_S, LOOK_EVERY_S, JobWatch, no_executor
from counterpoise.pipeline.stream.trouble import sentence_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LITTLE = 5_000_000
"""A smaller product of bundles, steps and replays is done by one core before Spark would start."""


FOLLOWED_MOST = 4
"""At most this part (one in so many steps) of a recording is repeated before results count."""
BEGINNINGS = 3
"""The number of replays of a simulated leader; their first rounds are spread over an interval.

No recording says when in its interval the leader made rounds: brokers that started together all
measure in the same second, and a move shows only that a round was between two measurements. A
replay whose rounds are within seconds of the measurements is unlike all others. So one replay may
be far off, and so may the mean of several, but not the median of three.
"""


@dataclass(frozen=True, slots=True)
class Task:
    """One replay under a strategy, with everything that its result depends on."""

    candidate: BacktestCandidate
    source: Source
    part: int
    parts: int
    move_s: float
    seed: int
    followed: int = 0
    """The number of steps, before the replay begins, in which bundles move as in the recording."""
    begins_ms: int = 0
    """Milliseconds from the end of these steps until the first round is due."""


def replay(task: Task) -> BacktestResult:
    """Simulate one task; the result does not depend on the process that runs it."""
    trace = task.source.open()
    first, last = span_of(trace, task.part, task.parts)
    return simulate(
        task.candidate,
        trace,
        first,
        last,
        move_s=task.move_s,
        seed=task.seed,
        followed=task.followed,
        begins_ms=task.begins_ms,
    )


def tasks_of(
    candidates: Sequence[BacktestCandidate],
    source: Source,
    *,
    parts: int,
    move_s: float,
    seed: int,
    followed: int = 0,
) -> list[Task]:
    """A task for each candidate, each of `parts` spans of the trace, and each time at which a
    simulated leader may begin its rounds.
    """
    return [
        Task(candidate, source, part, parts, move_s, seed, followed, begins_ms)
        for candidate in candidates
        for begins_ms in _beginnings(candidate, source)
        for part in range(parts)
    ]


def _beginnings(candidate: BacktestCandidate, source: Source) -> list[int]:
    """When a candidate's first round is due, in ms after the start, one for each replay."""
    by = candidate.strategy
    if by is None or by.as_leader is None or source.open().measured(0) is None:
        return [0]
    every_ms = by.balance.decide_every_ms
    return [every_ms * number // BEGINNINGS for number in range(BEGINNINGS)]


def followed_steps(
    candidates: Iterable[BacktestCandidate], trace: LoadTrace, parts: int = 1
) -> int:
    """For how many steps a replay first repeats the recorded moves, before results count.

    So a simulated leader begins with the recorded leader's knowledge. They last for a grace period
    and the interval of one measurement, or a quarter of the span if that is less. 0 if no candidate
    simulates Pulsar's own leader.
    """
    leaders = [one.strategy for one in candidates if one.strategy and one.strategy.as_leader]
    balances = [leader.balance for leader in leaders]
    wanted_ms = max((each.leave_alone_ms + 1000 * each.stats_s for each in balances), default=0)
    return min(wanted_ms // trace.step_ms, trace.steps // parts // FOLLOWED_MOST)


class ReplayFailedError(RuntimeError):
    """A replay could not be finished; the message says why, in a sentence."""


class ReplayLog(Protocol):
    """Reports progress while replays run."""

    def replayed(self, done: int) -> None:
        """Report that `done` replays have ended so far."""

    def waits(self, why: str) -> None:
        """Report that no replay is running; `why` is a sentence with the reason and what to do."""


_TYPES: Final = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
RESULTS: Final = pa.schema(
    {each.name: _TYPES[each.type] for each in fields(BacktestResult)}  # type: ignore[index]
)
"""The Arrow schema of a table of results, with a column for each figure."""
_REPLAYED: Final = RESULTS.insert(0, pa.field("replay", pa.int64())).append(
    pa.field("error", pa.string())
)


def is_little(trace: LoadTrace, replays: int) -> bool:
    """Whether replaying a trace `replays` times takes less time in this process than starting
    Spark.
    """
    return len(trace.bundles) * trace.steps * replays <= LITTLE


def replay_here(tasks: Sequence[Task], replayed: Callable[[int], object]) -> list[BacktestResult]:
    """Run the tasks one after the other in this process; returns their results in the same order.

    `replayed` is called with the number of tasks that have ended. Raises `ReplayFailedError`.
    """
    results = []
    for task in tasks:
        try:
            results.append(replay(task))
        except Exception as error:
            raise ReplayFailedError(_why(task, error)) from error
        replayed(len(results))
    return results


def replay_on_spark(
    spark: "SparkSession", tasks: Sequence[Task], log: ReplayLog
) -> list[BacktestResult]:
    """Run the tasks as one Spark job with a partition for each; returns results in the same order.

    Spark runs as many at a time as its executors have cores, and repeats those of a lost executor.
    A replay that failed is not repeated, since it would fail again. Raises `ReplayFailedError`.
    """
    frame = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(
        _Replays(tasks), spark_type(_REPLAYED)
    )
    with ThreadPoolExecutor(1) as pool, JobWatch(spark.sparkContext, "backtest") as watch:
        try:
            table = _awaited(pool.submit(watch.run, frame), watch, len(tasks), log)
        except Exception as error:
            raise ReplayFailedError(sentence_of(str(error))) from error
    log.replayed(len(tasks))
    rows = sorted(table.to_pylist(), key=lambda row: int(row.pop("replay")))
    if failed := next((row["error"] for row in rows if row["error"]), ""):
        raise ReplayFailedError(failed)
    return [BacktestResult(**{name: row[name] for name in RESULTS.names}) for row in rows]


def _awaited(
    running: "Future[pa.Table]", watch: JobWatch, replays: int, log: ReplayLog
) -> pa.Table:
    """Wait for the Spark job's result, and report progress to ``log``."""
    began, done, is_alone = monotonic(), 0, False
    while not running.done():
        wait([running], LOOK_EVERY_S)
        if done < (now := watch.done()) < replays:
            log.replayed(done := now)
        if not is_alone and monotonic() - began > EXECUTORS_WITHIN_S and watch.is_alone():
            is_alone = True
            log.waits(no_executor(watch.master, "no replay runs"))
    return running.result()


class _Replays:
    """In a Spark task, runs the replays whose numbers its partition has; yields result rows."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = tasks

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [self._row(number) for number in batch.column("id").to_pylist()]
            yield pa.RecordBatch.from_pylist(rows, schema=_REPLAYED)

    def _row(self, number: int) -> dict[str, Any]:
        try:
            return {"replay": number, "error": "", **asdict(replay(self._tasks[number]))}
        except Exception as error:
            return {"replay": number, "error": _why(self._tasks[number], error)}


def _why(task: Task, error: Exception) -> str:
    return f"{task.candidate.label}: {type(error).__name__}: {error}"


def results_table(results: Sequence[BacktestResult]) -> pa.Table:
    """The results as an Arrow table, a row for each."""
    return pa.Table.from_pylist([asdict(each) for each in results], RESULTS)


_ADDED: Final = (
    "steps",
    "hours",
    "moves",
    "moved",
    "waited_s",
    "delayed",
    "thrash",
    "orphans",
    "late_moves",
    "needed",
)
_AVERAGED: Final = ("imbalance", "deviation", "uneven", "converged_min")


def joined(results: Sequence[BacktestResult]) -> list[BacktestResult]:
    """Merge the results of each candidate's spans: averages weighted by time, counts added up.

    Of replays that differ only in when the first round is due, each figure is the median.
    """
    replays: dict[tuple[str, int], list[BacktestResult]] = {}
    for result in results:
        replays.setdefault((result.label, result.begins_ms), []).append(result)
    groups: dict[str, list[BacktestResult]] = {}
    for (label, _), spans in replays.items():
        groups.setdefault(label, []).append(_together(spans))
    return [_median(group) for group in groups.values()]


def _median(replays: Sequence[BacktestResult]) -> BacktestResult:
    """A result with the median of each figure, and the extremes of those that rank results."""
    imbalances, moves = ([getattr(one, name) for one in replays] for name in ("imbalance", "moves"))
    medians = {
        name: median_low([getattr(one, name) for one in replays])
        for name in (*_ADDED, *_AVERAGED, "worst", "usage")
    }
    return replace(
        replays[0],
        beginnings=len(replays),
        imbalance_least=min(imbalances),
        imbalance_most=max(imbalances),
        moves_least=min(moves),
        moves_most=max(moves),
        **medians,
    )


def _together(group: Sequence[BacktestResult]) -> BacktestResult:
    hours = sum(result.hours for result in group)

    def column(name: str) -> Any:
        return [getattr(result, name) for result in group]

    figures = {name: sum(column(name)) for name in _ADDED}
    for name in _AVERAGED:
        weighed = sum(x * y for x, y in zip(column(name), column("hours"), strict=True))
        figures[name] = weighed / hours if hours else 0.0
    why_not = next((why for why in reversed(column("why_not")) if why), "")
    first, worst, usage = min(column("first_ms")), max(column("worst")), max(column("usage"))
    return replace(group[0], first_ms=first, worst=worst, usage=usage, why_not=why_not, **figures)

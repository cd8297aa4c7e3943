"""Where replays run: a little in this process, the rest on Spark, with the same results."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from counterpoise.app.main import main
from counterpoise.app.strategies import strategy_from
from counterpoise.names.properties import Properties
from counterpoise.pipeline.backtest import run
from counterpoise.pipeline.backtest.measure import BacktestResult
from counterpoise.pipeline.backtest.recorded import Recording
from counterpoise.pipeline.backtest.simulate import BacktestCandidate
from counterpoise.pipeline.backtest.synthetic import SyntheticTrace
from counterpoise.pipeline.stream import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL = "synthetic:heavy-tailed,brokers=4,bundles=20,hours=0.5"


@dataclass
class LoggedReplays:
    """What a person would be shown."""

    done: list[int] = field(default_factory=list)
    waited: list[str] = field(default_factory=list)

    def replayed(self, done: int) -> None:
        self.done.append(done)

    def waits(self, why: str) -> None:
        self.waited.append(why)


def small(bundles: int = 20) -> SyntheticTrace:
    return SyntheticTrace(
        "bursty", count_of_brokers=4, count_of_bundles=bundles, hours=0.5, step_ms=60_000, seed=3
    )


def test_plays_here_are_plays_in_their_order() -> None:
    candidates = [BacktestCandidate(name, None) for name in ("b", "a")]
    tasks = run.tasks_of(candidates, small(), parts=2, move_s=1.0, seed=1)
    log = LoggedReplays()
    results = run.replay_here(tasks, log.replayed)
    assert results == [run.replay(task) for task in tasks]
    assert [result.label for result in results] == ["b", "b", "a", "a"]
    assert log.done == [1, 2, 3, 4]


def test_spans_of_a_candidate_are_joined_by_their_time_and_replays_by_their_median() -> None:
    [one, *_] = run.replay_here(
        run.tasks_of([BacktestCandidate("c", None)], small(), parts=1, move_s=1.0, seed=1),
        LoggedReplays().replayed,
    )
    spans = [
        replace(one, first_ms=first_ms, hours=hours, imbalance=imbalance, worst=worst, moves=moves,
                why_not=why, usage=usage, begins_ms=begins_ms)
        for first_ms, hours, imbalance, worst, moves, why, usage, begins_ms in (
            (200, 3.0, 1.2, 4.0, 5, "early", 70.0, 0), (100, 1.0, 2.0, 3.0, 2, "late", 60.0, 0),
            (100, 4.0, 1.1, 1.5, 9, "", 80.0, 7), (100, 4.0, 1.9, 2.0, 3, "", 90.0, 9),
        )
    ]  # fmt: skip
    [whole] = run.joined(spans[:2])
    assert (whole.first_ms, whole.hours, whole.moves) == (100, 4.0, 7)
    assert (whole.imbalance, whole.worst, whole.usage) == (pytest.approx(1.4), 4.0, 70.0)
    assert whole.why_not == "late"
    [median] = run.joined(spans)
    assert (median.imbalance, median.moves, median.beginnings) == (pytest.approx(1.4), 7, 3)
    assert (median.imbalance_least, median.imbalance_most) == (1.1, 1.9)
    assert (median.moves_least, median.moves_most) == (3, 9)


ADDED = ("steps", "hours", "moves", "moved", "waited_s", "delayed", "thrash", "orphans",
         "late_moves", "needed")  # fmt: skip
MEANS = ("imbalance", "deviation", "uneven", "converged_min")
HIGHEST = ("worst", "usage")


def test_each_figure_of_spans_is_their_sum_their_mean_or_their_highest() -> None:
    """Means by time: the second span is three times as long."""
    figures = (*ADDED, *MEANS, *HIGHEST)
    one, other = (
        BacktestResult("c", first_ms=0, **{name: by * n for n, name in enumerate(figures, 2)})
        for by in (1, 3)
    )
    for spans in ([one, other], [other, one]):
        [whole] = run.joined(spans)
        found = {name: getattr(whole, name) for name in figures}
        assert found == pytest.approx(
            {name: 4 * getattr(one, name) for name in ADDED}
            | {name: 2.5 * getattr(one, name) for name in MEANS}
            | {name: 3 * getattr(one, name) for name in HIGHEST}
        )


@pytest.mark.spark
def test_plays_on_spark_are_plays(spark: "SparkSession") -> None:
    threshold = strategy_from(Properties({}), shedder="ThresholdShedder", placement="LeastUsage")
    candidates = [BacktestCandidate("no moves", None), BacktestCandidate("threshold", threshold)]
    tasks = run.tasks_of(candidates, small(60), parts=2, move_s=1.0, seed=1)
    log = LoggedReplays()
    results = run.replay_on_spark(spark, tasks, log)
    assert results == [run.replay(task) for task in tasks]
    assert log.done[-1] == 4
    assert not log.waited
    assert [result.steps for result in run.joined(results)] == [30, 30]


@pytest.mark.spark
def test_a_play_that_fails_on_spark_is_reported_by_its_label(
    spark: "SparkSession", tmp_path: Path
) -> None:
    [sound, unsound] = run.tasks_of(
        [BacktestCandidate("sound", None), BacktestCandidate("unsound", None)],
        small(), parts=1, move_s=1.0, seed=1,
    )  # fmt: skip
    tasks = [sound, replace(unsound, source=Recording(str(tmp_path)))]
    with pytest.raises(run.ReplayFailedError, match=r"^unsound: \w+Error: .* has no report"):
        run.replay_on_spark(spark, tasks, LoggedReplays())


def test_what_is_little_counts_bundles_steps_and_plays() -> None:
    trace = small(bundles=1000)
    most = run.LITTLE // (1000 * trace.steps)
    assert run.is_little(trace, most)
    assert not run.is_little(trace, most + 1)


@pytest.mark.parametrize(("more", "status"), [([], 0), (["--master", "local[1]"], 2)])
def test_spark_is_started_for_much_or_when_it_is_asked_for(
    more: list[str],
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise session.SessionError("no Spark in this test")

    monkeypatch.setattr("counterpoise.pipeline.stream.session.start_session", fail)
    words = ["backtest", SMALL, "--strategies", "UniformLoadShedder", "--json", *more]
    assert main(words) == status
    said = capsys.readouterr()
    assert "isolation policies and anti-affinity groups are not modelled" in said.err
    where = more[-1] if more else "this process"
    assert f"4 brokers, 20 bundles, 30 steps of 60 s, 2 replays on {where}\n" in said.err
    if status:
        assert "no Spark in this test" in said.err
    else:
        labels = {row["label"] for row in json.loads(said.out)}
        assert labels == {"UniformLoadShedder", "no moves"}


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_results_are_saved_as_a_table(
    ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"results.{ending}"
    words = ["backtest", SMALL, "--strategies", "UniformLoadShedder", "--json"]
    assert main([*words, "--save", str(path)]) == 0
    table = pq.read_table(path) if ending == "parquet" else csv.read_csv(path)
    printed = json.loads(capsys.readouterr().out)
    saved = table.to_pylist()
    assert [row["label"] for row in saved] == [row["label"] for row in printed]
    assert [row["moves"] for row in saved] == [row["moves"] for row in printed]
    for name, said in (("results.txt", ".parquet or .csv"), ("no/results.csv", "no directory")):
        assert main([*words, "--save", str(tmp_path / name)]) == 2
        assert said in capsys.readouterr().err


def test_ones_own_strategy_that_fails_is_reported_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "unlucky_shedder.py").write_text(
        "from counterpoise.decide.shedding.uniform import UniformLoadShedder\n\n\n"
        "class Unlucky(UniformLoadShedder):\n"
        '    name = "Unlucky"\n\n'
        "    def plan(self, *args):\n"
        '        raise ZeroDivisionError("no broker is there")\n'
    )
    assert main(["backtest", SMALL, "--strategies", "unlucky_shedder:Unlucky"]) == 2
    logged = capsys.readouterr().err
    assert "unlucky_shedder:Unlucky: ZeroDivisionError: no broker is there" in logged
    assert "Traceback" not in logged

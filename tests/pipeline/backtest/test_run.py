"""Where plays are played: a little in this process, the rest on Spark, with the same results."""

import json
from pathlib import Path

import pytest

from counterpoise.app.main import main
from counterpoise.pipeline.backtest.run import LITTLE, is_little, play, play_here, tasks_of
from counterpoise.pipeline.backtest.simulate import BacktestCandidate
from counterpoise.pipeline.backtest.synthetic import SyntheticTrace
from counterpoise.pipeline.stream import session

SMALL = "synthetic:heavy-tailed,brokers=4,bundles=20,hours=0.5"


def small(bundles: int = 20) -> SyntheticTrace:
    return SyntheticTrace(
        "bursty", count_of_brokers=4, count_of_bundles=bundles, hours=0.5, step_ms=60_000, seed=3
    )


def test_plays_here_are_plays_in_their_order() -> None:
    candidates = [BacktestCandidate(name, None) for name in ("b", "a")]
    tasks = tasks_of(candidates, small(), parts=2, move_s=1.0, seed=1)
    heard: list[tuple[int, str]] = []
    results = play_here(tasks, lambda done, result: heard.append((done, result.label)))
    assert results == [play(task) for task in tasks]
    assert heard == [(1, "b"), (2, "b"), (3, "a"), (4, "a")]


def test_what_is_little_counts_bundles_steps_and_plays() -> None:
    trace = small(bundles=1000)
    most = LITTLE // (1000 * trace.steps)
    assert is_little(trace, most)
    assert not is_little(trace, most + 1)


@pytest.mark.parametrize(("more", "status"), [([], 0), (["--master", "local[1]"], 2)])
def test_spark_is_started_for_much_or_when_it_is_asked_for(
    more: list[str],
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise session.SessionError("no Spark in this test")

    monkeypatch.setattr("counterpoise.app.verbs.backtest.start_session", fail)
    words = ["backtest", SMALL, "--strategies", "UniformLoadShedder", "--json", *more]
    assert main(words) == status
    said = capsys.readouterr()
    assert "isolation policies and anti-affinity groups are not modelled" in said.err
    if status:
        assert "no Spark in this test" in said.err
    else:
        labels = {row["label"] for row in json.loads(said.out)}
        assert labels == {"UniformLoadShedder", "no moves"}


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

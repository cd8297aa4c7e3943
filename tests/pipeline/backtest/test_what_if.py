"""Load replayed on a cluster that is another one, and how many brokers a load needs."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.app.main import main
from counterpoise.load.rates import Rates
from counterpoise.pipeline.backtest.measure import BacktestResult
from counterpoise.pipeline.backtest.recorded import Recording
from counterpoise.pipeline.backtest.run import replay, tasks_of
from counterpoise.pipeline.backtest.simulate import BacktestCandidate
from counterpoise.pipeline.backtest.synthetic import SyntheticTrace
from counterpoise.pipeline.backtest.what_if import (
    Change,
    ChangedSource,
    ImpossibleChangeError,
    fewest_brokers,
    resized,
)
from counterpoise.pipeline.tables.reports import land
from tests.load.story import START, poll
from tests.pipeline.fake_cluster import bundle_name
from tests.pipeline.histories import writer_of

LOAD = SyntheticTrace("heterogeneous", count_of_brokers=5, count_of_bundles=32, hours=0.2)
HALF, WHOLE = "broker-0:8080", "broker-1:8080"
STILL = BacktestCandidate("no moves", None)


def replayed(change: Change) -> BacktestResult:
    (task,) = tasks_of([STILL], ChangedSource(LOAD, change), parts=1, move_s=1.0, seed=1)
    return replay(task)


REPLAYED = replayed(Change())


def test_new_brokers_are_there_from_the_start_and_empty() -> None:
    trace = ChangedSource(LOAD, Change(added=2)).open()
    assert trace.brokers == (*LOAD.brokers, "new-1", "new-2")
    assert trace.up(0).all()
    names = [trace.brokers[row] for row in trace.owners.tolist()]
    assert names == [LOAD.brokers[row] for row in LOAD.owners.tolist()]
    assert trace.hosts.bytes_most[-2:].tolist() == [np.median(LOAD.hosts.bytes_most)] * 2


def test_names_of_new_brokers_are_put_in_order() -> None:
    late = replace(LOAD, count_of_brokers=2)

    class Renamed(SyntheticTrace):
        @property
        def brokers(self) -> tuple[str, ...]:
            return ("a:80", "z:80")

    trace = ChangedSource(
        Renamed(late.kind, count_of_brokers=2, count_of_bundles=32),
        Change(added=1, capacity=(("z:80", 0.5),)),
    ).open()
    assert trace.brokers == ("a:80", "new-1", "z:80")
    assert set(trace.owners.tolist()) == {0, 2}
    assert trace.hosts.bytes_most[2] == late.hosts.bytes_most[1] / 2


def test_the_bundles_of_a_broker_that_is_not_there_are_placed() -> None:
    trace = ChangedSource(LOAD, Change(without=(HALF,))).open()
    assert not any(trace.up(step)[0] for step in range(trace.steps))
    found = replayed(Change(without=(HALF,)))
    assert found.orphans == int((LOAD.owners == 0).sum())
    assert found.moves == 0


def test_load_and_capacity_show_in_what_brokers_use() -> None:
    rates = Rates(*(np.full(5, 1e4) for _ in range(2)), *(np.full(5, 1e8) for _ in range(2)))
    plain = LOAD.hosts.usage(rates)
    halved = ChangedSource(LOAD, Change(capacity=((WHOLE, 0.5),))).open().hosts.usage(rates)
    assert halved[1] == pytest.approx(2 * plain[1])
    assert halved[2:] == pytest.approx(plain[2:])
    more = ChangedSource(LOAD, Change(load=1.5)).open()
    assert more.loads(3).throughput() == pytest.approx(1.5 * LOAD.loads(3).throughput())
    assert replayed(Change(load=1.5)).usage > 1.2 * replayed(Change()).usage


@given(st.sampled_from([32, 64, 96, 256]), st.integers(0, 3))
def test_a_namespace_of_more_bundles_carries_what_it_did(count: int, step: int) -> None:
    trace = ChangedSource(LOAD, Change(bundles=(("tenant/ns", count),))).open()
    assert len(trace.bundles) == count
    assert list(trace.bundles) == sorted(set(trace.bundles))
    parts, whole = trace.loads(step).throughput(), LOAD.loads(step).throughput()
    assert parts.reshape(32, -1).sum(axis=1) == pytest.approx(whole)


def test_bounds_that_pulsar_rounds_down_are_cut_as_well() -> None:
    bounds = [*(f"0x{each * (2**32 // 24):08x}" for each in range(24)), "0xffffffff"]

    class Thirds(SyntheticTrace):
        @property
        def bundles(self) -> tuple[str, ...]:
            return tuple(f"a/b/{bounds[i]}_{bounds[i + 1]}" for i in range(24))

    source = Thirds("diurnal", count_of_brokers=2, count_of_bundles=24)
    assert len(ChangedSource(source, Change(bundles=(("a/b", 48),))).open().bundles) == 48


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (Change(without=("nix:80",)), "nix:80 is no broker of this load"),
        (Change(capacity=(("nix:80", 2.0),)), "nix:80 is no broker of this load"),
        (Change(without=LOAD.brokers), "no broker is left"),
        (Change(bundles=(("tenant/no", 64),)), "tenant/no has no bundle"),
        (Change(bundles=(("tenant/ns", 16),)), r"would be 0\.5 of them"),
        (Change(bundles=(("tenant/ns", 48),)), r"would be 1\.5 of them"),
    ],
)
def test_a_change_that_cannot_be_played_says_why(change: Change, words: str) -> None:
    with pytest.raises(ImpossibleChangeError, match=words):
        ChangedSource(LOAD, change).open()


def test_all_that_is_changed_is_said() -> None:
    change = Change(2, (HALF,), 1.5, ((WHOLE, 0.5),), (("tenant/ns", 64),))
    said = "\n".join(change.sentences())
    for words in ("2 brokers more (new-1, new-2)", f"without {HALF}", "carries 1.5 times",
                  f"{WHOLE} is 0.5 times as large", "tenant/ns is made of 64 bundles"):  # fmt: skip
        assert words in said
    assert Change().sentences() == []


@given(st.integers(-4, 40), st.integers(1, 40))
def test_the_fewest_brokers_are_found_by_few_plays(needed: int, most: int) -> None:
    asked = []

    def play_with(more: int) -> BacktestResult:
        asked.append(more)
        assert -4 <= more <= most
        return replace(REPLAYED, usage=70.0 if more >= needed else 70.1)

    found = fewest_brokers(play_with, 70.0, -4, most)
    assert found == (needed if needed <= most else None)
    assert len(set(asked)) <= 14


def test_fewer_brokers_are_those_without_the_last_ones() -> None:
    change = Change(without=(HALF,))
    assert resized(change, LOAD.brokers, 2) == Change(added=2, without=(HALF,))
    assert resized(change, LOAD.brokers, -1).without == (HALF, "broker-4:8080")


def test_a_recording_is_played_on_the_changed_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = bundle_name(1), bundle_name(2)
    for number in range(6):
        land(
            writer_of(tmp_path),
            poll(number, {"b1:80": {one: 100.0}, "b2:80": {two: 50.0}}, every_ms=60_000),
        )
    trace = ChangedSource(Recording(str(tmp_path)), Change(added=1, load=2.0)).open()
    assert trace.start_ms == START
    assert trace.loads(20).throughput_in.tolist() == [200.0, 100.0]
    assert [trace.measured(step).tolist() for step in (0, 1, 12)] == [  # type: ignore[union-attr]
        [True, True, True],
        [False, False, False],
        [True, True, True],
    ]
    main(["backtest", str(tmp_path), "--strategies", "Counterpoise", "--without", "b2:80"])
    said = capsys.readouterr()
    assert "what if: without b2:80" in said.err
    assert "no moves" in said.out
    assert "as recorded" not in said.out


def test_how_many_brokers_are_enough_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    load = "synthetic:diurnal,brokers=4,bundles=64,hours=0.5"
    assert main(["backtest", load, "--usage-at-most", "40"]) == 0
    assert "brokers are enough for 40 %" in capsys.readouterr().out
    assert main(["backtest", load, "--usage-at-most", "3", "--strategies", "AvgShedder"]) == 0
    assert "32 brokers would not bring that to 3 %" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["--brokers", "2"], ["--brokers", "+0"], ["--load", "x0"], ["--load", "nan"],
        ["--capacity", "b=-1"], ["--capacity", "=2"], ["--bundles", "tenant/ns"],
        ["--usage-at-most", "100"], ["--usage-at-most", "50", "--optimum"],
    ],
)  # fmt: skip
def test_what_is_no_change_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main(["backtest", "synthetic:diurnal,brokers=2,bundles=8,hours=0.1", *words])
    except SystemExit as end:
        status = int(end.code or 0)
    assert status == 2
    assert "Traceback" not in capsys.readouterr().err

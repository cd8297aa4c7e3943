"""A recorded history as a trace, and results put together and ranked."""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from counterpoise.app.arguments.backtest import add_arguments
from counterpoise.app.errors import UserError
from counterpoise.app.main import main
from counterpoise.app.verbs.backtest_grid import candidates_of, grid, unplayed
from counterpoise.decide.shedding.registry import SHEDDERS
from counterpoise.load.rates import Rates
from counterpoise.names.options import ConfigError
from counterpoise.pipeline.backtest.measure import BacktestResult
from counterpoise.pipeline.backtest.recorded import (
    NothingRecordedError,
    RecordedHosts,
    Recording,
    move_seconds,
)
from counterpoise.pipeline.backtest.report import (
    best_trades,
    calibration,
    change,
    draw,
    idle,
    ranked,
    spreads,
    table,
)
from counterpoise.pipeline.backtest.run import joined
from counterpoise.pipeline.tables.reports import land
from tests.load.story import START, Loads, poll
from tests.pipeline.fake_cluster import bundle_name
from tests.pipeline.histories import compacted, writer_of

ONE, TWO = bundle_name(1), bundle_name(2)
MINUTE = 60_000


def test_a_recording_is_played_as_it_was_seen(tmp_path: Path) -> None:
    logged: list[dict[str, Loads | None]] = [
        {"b1:80": {ONE: 100.0, TWO: 50.0}, "b2:80": {}},
        {"b1:80": {ONE: 120.0}, "b2:80": {TWO: 60.0}},
        {"b1:80": {ONE: 130.0}, "b2:80": None},
        {"b1:80": {ONE: 140.0}},
    ]
    for number, brokers in enumerate(logged):
        land(writer_of(tmp_path), poll(number, brokers, every_ms=MINUTE))
    compacted(writer_of(tmp_path), START + MINUTE)
    trace = Recording(str(tmp_path)).open()
    assert (trace.steps, trace.step_ms, trace.start_ms) == (37, 5000, START)
    assert (trace.bundles, trace.brokers) == ((ONE, TWO), ("b1:80", "b2:80"))
    assert trace.owners.tolist() == [0, 0], "where each was seen first"
    seen = [trace.loads(step).throughput_in.tolist() for step in (0, 1, 12, 13, 24, 36, 13)]
    # A report is about the minute before it, and the last one of a bundle counts until another.
    assert seen == [[100.0, 50.0], [120.0, 60.0], [120.0, 60.0], [130.0, 60.0], [130.0, 60.0],
                    [140.0, 60.0], [130.0, 60.0]]  # fmt: skip
    assert [trace.up(step).tolist() for step in (0, 24, 36)] == [
        [True, True],
        [True, True],
        [True, False],
    ]
    measured = [step for step in range(37) if trace.measured(step)[0]]
    assert measured == [0, 12, 24, 36]
    moved = {step: trace.moved(step) for step in range(37) if trace.moved(step)}
    assert moved == {7: [(1, 0, 1)]}, "between the first minute's report there, and the one here"
    assert trace.hosts.bytes_most.tolist() == [1.25e9] * 2, "too little flowed to say"


def test_a_broker_that_has_left_is_away_between_polls_as_well(tmp_path: Path) -> None:
    for number, there in enumerate(
        (("b1:80", "b2:80"), ("b1:80",), ("b1:80",), ("b1:80", "b2:80"))
    ):
        rows = poll(number, {each: {ONE: 5.0} for each in there}, every_ms=MINUTE)
        land(writer_of(tmp_path), rows)
    trace = Recording(str(tmp_path)).open()
    assert [step for step in range(37) if not trace.up(step)[1]] == [*range(12, 36)]
    assert all(trace.up(step)[0] for step in range(37))


def test_the_first_report_after_a_move_is_not_what_the_bundle_carries(tmp_path: Path) -> None:
    """Its clients send what they held back, in the few seconds that the report is about."""
    writer = writer_of(tmp_path)
    polls: list[dict[str, Loads | None]] = [
        {"b1:80": {ONE: 100.0}, "b2:80": {}},
        {"b1:80": {}, "b2:80": {ONE: 900.0}},
        {"b1:80": {}, "b2:80": {ONE: 110.0}},
    ]
    for minute, brokers in enumerate(polls):
        land(writer, poll(minute, brokers, every_ms=MINUTE))
    trace = Recording(str(tmp_path)).open()
    seen = {trace.loads(step).throughput_in.item(0) for step in range(trace.steps)}
    assert seen == {100.0, 110.0}


def test_the_size_of_a_network_is_learnt_from_what_it_carried(tmp_path: Path) -> None:
    land(writer_of(tmp_path), poll(0, {"b1:80": {ONE: 50_000.0}, "b2:80": {TWO: 1.0}}))
    trace = Recording(str(tmp_path)).open()
    # The story's network takes 1,000 kbit/s.
    assert trace.hosts.bytes_most.tolist() == [pytest.approx(125_000.0)] * 2


def test_recorded_usage_is_adjusted_by_the_load_that_differs_each_way_by_its_own() -> None:
    one = np.ones(1)
    hosts = RecordedHosts(
        1000.0 * one,
        0.0 * one,
        2.0 * one,
        used=np.array([[[10.0, 20.0, 30.0, 40.0, 50.0]]]),
        carried=np.array([[[1.0, 1.0, 100.0, 200.0]]]),
        own=np.zeros((1, 1)),
    )
    more = Rates(2.0 * one, 3.0 * one, 150.0 * one, 400.0 * one)
    assert hosts.usage(more).tolist() == [[16.0, 20.0, 30.0, 45.0, 70.0]]


def test_a_broker_alone_that_reported_once_costs_what_it_used(tmp_path: Path) -> None:
    land(writer_of(tmp_path), poll(0, {"b1:80": {ONE: 50_000.0}}))
    hosts = Recording(str(tmp_path)).open().hosts
    assert isinstance(hosts, RecordedHosts)
    assert hosts.cpu_idle.tolist() == pytest.approx([hosts.used[0, 0, 0]])
    assert hosts.cpu_idle[0] > 0
    assert hosts.cpu_of_rate.tolist() == [0.0]


def test_a_load_that_no_broker_reports_any_more_is_forgotten(tmp_path: Path) -> None:
    writer = writer_of(tmp_path)
    land(writer, poll(0, {"b1:80": {ONE: 100.0, TWO: 50.0}}, every_ms=MINUTE))
    land(writer, poll(12, {"b1:80": {ONE: 100.0}}, every_ms=MINUTE))
    trace = Recording(str(tmp_path)).open()
    assert [trace.loads(step).throughput_in[1] for step in (120, 121, 144)] == [50.0, 0.0, 0.0]
    assert trace.up(72).all(), "no poll is not no broker"


@pytest.mark.parametrize(("minutes", "carried"), [(9, 200.0), (10, 200.0), (11, 100.0)])
def test_a_report_is_about_the_time_since_the_last_one_unless_that_is_forgotten(
    tmp_path: Path, minutes: int, carried: float
) -> None:
    """After ten minutes; the broker measured each minute."""
    for minute in range(minutes + 1):
        mine = {0: {ONE: 100.0}, minutes: {ONE: 200.0}}.get(minute, {})
        rows = poll(minute, {"b1:80": {TWO: 5.0 + minute, **mine}}, every_ms=MINUTE)
        land(writer_of(tmp_path), rows)
    trace = Recording(str(tmp_path)).open()
    assert trace.loads(12 * 5).throughput_in[0] == carried
    assert trace.loads(12 * minutes).throughput_in[0] == 200.0


def test_a_history_without_load_is_a_sentence(tmp_path: Path) -> None:
    land(writer_of(tmp_path), poll(0, {"b1:80": None}))
    with pytest.raises(NothingRecordedError, match="counterpoise balance"):
        Recording(str(tmp_path)).open()


def test_a_figure_that_is_no_number_counts_for_nothing(tmp_path: Path) -> None:
    writer = writer_of(tmp_path)
    odd = {bundle_name(0): 1e6, bundle_name(1): float("nan")}
    land(writer, poll(0, {"b1:80": odd, "b2:80": {bundle_name(2): 2e6}}, every_ms=60_000))
    land(writer, poll(1, {"b1:80": {bundle_name(0): float("inf")}, "b2:80": {}}, every_ms=60_000))
    trace = Recording(str(tmp_path)).open()
    assert trace.bundles == tuple(map(bundle_name, range(3)))
    for step in range(13):
        assert trace.loads(step).throughput_in.tolist() == [1e6, 0.0, 2e6]
    assert np.isfinite(
        [trace.hosts.bytes_most, trace.hosts.cpu_idle, trace.hosts.cpu_of_rate]
    ).all()


def test_a_part_of_a_history_is_played(tmp_path: Path) -> None:
    writer = writer_of(tmp_path)
    for minute in range(10):
        land(writer, poll(minute, {"b1:80": {bundle_name(minute): 1e6}}, every_ms=60_000))
    compacted(writer, START + 4 * 60_000)
    first, last = START + 2 * 60_000, START + 7 * 60_000
    trace = Recording(str(tmp_path), first_ms=first, last_ms=last).open()
    assert (trace.start_ms, trace.steps) == (first, 61)
    assert trace.bundles == tuple(map(bundle_name, range(2, 8)))
    with pytest.raises(NothingRecordedError, match="no report of any bundle between --from"):
        Recording(str(tmp_path), first_ms=last + 10**9).open()


def test_more_than_a_process_should_hold_is_a_sentence(tmp_path: Path) -> None:
    """A clock that was set wrong once is enough for centuries of minutes."""
    writer = writer_of(tmp_path)
    for when in (0, 10**9):
        land(writer, poll(when, {"b1:80": {bundle_name(0): 1e6}}, every_ms=60_000))
    with pytest.raises(NothingRecordedError, match=r"12,000,000,001 steps.*--from, --to"):
        Recording(str(tmp_path)).open()


def test_what_moves_took_is_learnt_from_outcomes() -> None:
    def row(status: str, took: int) -> dict[str, object]:
        return {"status": status, "started_at_ms": 1000, "ended_at_ms": 1000 + took}

    assert move_seconds([row("moved", 400), row("moved", 900), row("failed", 20_000)]) == 0.65
    assert move_seconds([row("dry run", 0)]) is None


def result(label: str, imbalance: float, moved: float, **more: object) -> BacktestResult:
    given = {"first_ms": 0, "steps": 60, "hours": 1.0, "worst": 2.0, "deviation": 0.2,
             "uneven": 0.5, "moves": 4, "waited_s": 4.0, "delayed": 1.0, "thrash": 0,
             "orphans": 0} | more  # fmt: skip
    return BacktestResult(label, imbalance=imbalance, moved=moved, **given)  # type: ignore[arg-type]


def test_spans_are_put_together_by_their_time() -> None:
    first, second = result("a", 1.2, 0.1), result("a", 1.8, 0.3, hours=3.0, worst=2.5)
    [whole] = joined([first, second])
    assert whole.imbalance == pytest.approx((1.2 + 3 * 1.8) / 4)
    assert (whole.hours, whole.moves, whole.moved, whole.worst) == (4.0, 8, pytest.approx(0.4), 2.5)


def test_plays_from_several_beginnings_are_one_result_of_medians_that_says_how_far_apart() -> None:
    replays = [
        result("a", 1.2, 0.1, moves=9, begins_ms=0, hours=2.0),
        result("a", 1.8, 0.1, moves=3, begins_ms=0, hours=2.0),
        result("a", 1.4, 0.3, moves=30, begins_ms=20_000, worst=9.0),
        result("a", 1.6, 0.2, moves=11, begins_ms=40_000),
        result("still", 1.9, 0.0, moves=0),
    ]
    leader, still = joined(replays)
    assert (leader.imbalance, leader.moves, leader.moved) == pytest.approx((1.5, 12, 0.2))
    assert (leader.beginnings, leader.moves_least, leader.moves_most) == (3, 11, 30)
    assert (leader.imbalance_least, leader.imbalance_most) == pytest.approx((1.4, 1.6))
    assert (still.beginnings, still.moves_most) == (1, 0)
    said = spreads([leader, still])
    assert "replayed from 3 beginnings" in said[0]
    assert said[1:] == ["  max/mean 1.400 to 1.600 and 11 to 30 moves by a"]
    assert spreads([still]) == []
    same = replace(leader, moves_least=30)
    assert spreads([same])[1] == "  max/mean 1.400 to 1.600 and 30 moves by a"


def test_a_leader_is_played_from_several_beginnings_once_its_grace_period_is_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = writer_of(tmp_path)
    for minute in range(13):
        mine: Loads = {ONE: 100.0 + minute} if minute % 6 else {ONE: 100.0, TWO: 50.0}
        others: Loads = {TWO: 50.0 + minute} if minute % 6 else {}
        land(writer, poll(minute, {"b1:80": mine, "b2:80": others}, every_ms=MINUTE))
    words = ["backtest", str(tmp_path), "--strategies", "UniformLoadShedder", "--json"]
    grace = ["--set", "loadBalancerSheddingGracePeriodMinutes=1"]

    def replayed(*more: str) -> tuple[dict[str, int], list[int], str]:
        assert main([*words, *more]) == 0
        said = capsys.readouterr()
        results = json.loads(said.out)
        begun = {each["label"]: each["beginnings"] for each in results}
        return begun, [each["steps"] for each in results], said.err

    once = {"UniformLoadShedder": 1, "no moves": 1, "as recorded": 1}
    leader = {**once, "UniformLoadShedder": 3}
    begun, steps, said = replayed("--as-pulsar", *grace)
    # A grace period and a measurement, of twelve minutes and the step that ends them.
    assert (begun, steps) == (leader, [121] * 3)
    assert "the first 120 s are followed as recorded" in said
    begun, steps, said = replayed("--as-pulsar")
    assert (begun, steps) == (leader, [109] * 3), "half an hour, of which a quarter is there"
    begun, steps, said = replayed(*grace)
    assert (begun, steps) == (once, [145] * 3)
    assert "followed" not in said


def test_results_are_ranked_and_the_best_trades_marked(tmp_path: Path) -> None:
    still = result("still", 1.5, 0.0, moves=0)
    lively, worse = result("x", 1.2, 0.1), result("y", 1.3, 0.2)
    assert [one.label for one in ranked([still, worse, lively])] == ["x", "y", "still"]
    assert best_trades([still, worse, lively]) == [lively]
    lines = table([still, worse, lively]).splitlines()
    assert [line.split()[0] for line in lines] == ["rank", "1*", "2", "3"]
    assert "less even: max/mean 1.200 -> 1.300" in change(lively, worse)
    often = result("z", 1.2, 0.1, moves=10, hours=4.0)
    assert "moves 1.0 -> 2.5 an hour" in change(replace(often, moves=4), often)
    dearer = change(replace(often, moved=0.5), often)
    assert "load moved 0.50 -> 0.10 times the whole" in dearer
    draw([still, worse, lively], "a title", tmp_path / "trade.png")
    assert (tmp_path / "trade.png").read_bytes().startswith(b"\x89PNG")


def test_doing_nothing_ranks_behind_what_helps_and_before_what_harms() -> None:
    still, dear = result("still", 1.5, 0.0, moves=0), result("dear", 1.4, 3.0)
    harmful = result("harmful", 1.6, 0.1)
    tried = [harmful, still, dear]
    assert dear.score > still.score, "or this test says nothing"
    assert [one.label for one in ranked(tried)] == ["dear", "still", "harmful"]
    assert best_trades(tried) == [dear]
    assert best_trades([still, harmful]) == []


def test_a_trade_is_good_unless_another_is_no_worse_in_both_and_better_in_one() -> None:
    still, even = result("still", 1.5, 0.0, moves=0), result("even", 1.1, 2.0)
    cheap, between = result("cheap", 1.4, 0.5), result("between", 1.2, 1.0)
    beaten = [result("as cheap", 1.41, 0.5), result("as even", 1.1, 2.1), result("both", 1.3, 1.5)]
    same = result("same", 1.2, 1.0)
    tried = [still, *beaten, even, cheap, between, same]
    assert best_trades(tried) == [even, cheap, between, same]


def test_what_was_recorded_has_no_rank_and_says_how_far_plays_are_off() -> None:
    recorded = result("as recorded", 2.0, 0.3, moves=10, as_recorded=True)
    near, still = result("near", 1.9, 0.2, moves=11), result("still", 2.2, 0.0, moves=0)
    assert table([recorded, near, still]).splitlines()[-1].startswith("-     as recorded")
    said = calibration([still, recorded, near])
    assert said[0].startswith("recorded: max/mean 2.000, 10 moves")
    assert said[1:] == ["  -5.0% of max/mean and +10.0% of the moves, if it was near"]
    assert calibration([still, near]) == []
    assert calibration([recorded, still]) == [
        "recorded: max/mean 2.000, 10 moves; no replay moved anything"
    ]
    none = calibration([near, replace(recorded, moves=0)])
    assert none[1] == "  -5.0% of max/mean and 11 moves where there was none, if it was near"


def test_who_moved_nothing_says_why() -> None:
    still = result("still", 1.5, 0.0, moves=0, why_not="b1 is 3 % above the mean")
    assert idle([still, result("x", 1.2, 0.1)]) == ["still moved nothing: b1 is 3 % above the mean"]
    assert idle([result("no moves", 1.5, 0.0, moves=0)]) == []
    assert joined([still, still])[0].why_not == "b1 is 3 % above the mean"


def test_a_grid_is_every_combination_and_its_names_are_checked() -> None:
    assert grid([]) == [{}]
    name = "loadBalancerBrokerThresholdShedderPercentage"
    other = "loadBalancerSheddingGracePeriodMinutes"
    found = grid([f"{name}=5,10", f"{other}=1,2"])
    assert len(found) == 4
    assert {name: "10", other: "2"} in found
    with pytest.raises(UserError, match="NAME=V1,V2"):
        grid(["nonsense"])
    with pytest.raises(ConfigError):
        grid(["noSuchSetting=1,2"])


def test_each_is_tried_once_with_the_settings_that_it_reads() -> None:
    percentage = "loadBalancerBrokerThresholdShedderPercentage"
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    words = ["--strategies", "ThresholdShedder,OverloadShedder,ThresholdShedder"]
    words += ["--grid", f"{percentage}=5,10,5"]
    tried = candidates_of(parser.parse_args(["synthetic:diurnal", *words]))
    assert [each.label for each in tried] == [
        "no moves",
        f"ThresholdShedder {percentage}=5",
        f"ThresholdShedder {percentage}=10",
        "OverloadShedder",
    ]


def test_every_strategy_that_is_built_in_is_tried_beside_the_baseline() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    tried = candidates_of(parser.parse_args(["synthetic:diurnal"]))
    assert {each.label for each in tried} == {"no moves", *SHEDDERS}
    assert next(each.strategy for each in tried if each.label == "no moves") is None


def test_a_setting_that_only_brokers_read_is_said_to_change_nothing() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    words = ["synthetic:diurnal"]
    for text in ("numIOThreads=3", "maxUnloadPercentage=0.5", "loadBalancerEnabled=true"):
        words += ["--set", text]
    even = "loadBalancerDistributeBundlesEvenlyEnabled=false"
    changes = "changes nothing here: brokers read it, and the balancer does not"
    said = unplayed(parser.parse_args([*words, "--set", even]))
    assert said == [f"--set {name} {changes}" for name in ("numIOThreads", even.partition("=")[0])]
    assert len(unplayed(parser.parse_args([*words, "--set", even, "--as-pulsar"]))) == 1
    assert unplayed(parser.parse_args(["synthetic:diurnal"])) == []

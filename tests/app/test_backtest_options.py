"""What the options of ``backtest`` ask for: sides that are compared, grids, and synthetic load."""

import pytest

from counterpoise.app.errors import UserError
from counterpoise.app.main import full_parser, main
from counterpoise.app.verbs.backtest_compare import (
    Side,
    differences,
    sides_of,
    sources_of,
    split_count,
)
from counterpoise.app.verbs.backtest_grid import candidates_of, grid
from counterpoise.app.verbs.backtest_source import move_seconds_of, plain_source
from counterpoise.names.properties import Properties
from counterpoise.pipeline.backtest.split_trace import SplitSource
from counterpoise.pipeline.backtest.synthetic import SyntheticTrace

BUNDLES = "defaultNumberOfNamespaceBundles"
SHEDDER = "loadBalancerLoadSheddingStrategy"


def parsed(*words: str):  # type: ignore[no-untyped-def]
    return full_parser().parse_args(["backtest", "synthetic:diurnal,hours=1", *words])


def side(label: str, **values: str) -> Side:
    return Side(label, Properties(values))


@pytest.mark.parametrize(
    ("now", "then", "cut"),
    [("4", "32", 8), ("4", "5", 1), ("4", "6", 2), ("4", "7", 2), ("8", "4", 1), ("0", "3", 3)],
)
def test_a_bundle_is_cut_into_as_many_as_there_would_be(now: str, then: str, cut: int) -> None:
    assert split_count(side("now", **{BUNDLES: now}), side("then", **{BUNDLES: then})) == cut


def test_bundles_are_cut_for_the_second_side_alone() -> None:
    source = plain_source(parsed())
    assert sources_of(source, 1) == (source, source)
    for cut in (2, 3):
        assert sources_of(source, cut) == (source, SplitSource(source, cut))


def test_a_side_that_says_nothing_has_pulsars_four_bundles() -> None:
    assert split_count(side("now"), side("then", **{BUNDLES: "32"})) == 8
    lines = differences(side("now"), side("then", **{BUNDLES: "4"}), 1)
    assert lines == [f"changed: {BUNDLES}: default -> 4"]
    lines = differences(side("now"), side("then", **{BUNDLES: "2"}), 1)
    assert lines[1] == (
        f"{BUNDLES} is not replayed: what was recorded as many bundles is not joined"
    )
    assert differences(side("now", a="1"), side("then", a="1"), 1) == ["changed: nothing"]


def test_the_sides_are_versions_with_what_is_set_on_top() -> None:
    now, then = sides_of(parsed("--compare", "pulsar-4.0", "pulsar-next", "--set", f"{BUNDLES}=9"))
    assert (now.label, then.label) == ("now: pulsar-4.0", "then: pulsar-next")
    assert (now.conf.values[BUNDLES], then.conf.values[BUNDLES]) == ("9", "9")
    [changed] = differences(now, then, 1)
    assert f"{SHEDDER}: ThresholdShedder -> AvgShedder" in changed


def test_a_grid_is_every_combination_of_different_values() -> None:
    name, other = "maxUnloadPercentage", "minUnloadMessage"
    assert grid([]) == [{}]
    assert grid([f"{name}=.1, .2,.1", f"{other} = 5"]) == [
        {name: ".1", other: "5"},
        {name: ".2", other: "5"},
    ]
    with pytest.raises(UserError, match="is given twice"):
        grid([f"{name}=.1", f"{name}=.2"])


def test_each_strategy_has_the_settings_that_it_reads() -> None:
    args = parsed(
        "--strategies",
        "ThresholdShedder,AvgShedder",
        "--grid",
        "loadBalancerBrokerThresholdShedderPercentage=5,10",
        "--grid",
        "loadBalancerAvgShedderLowThreshold=15",
    )
    assert [each.label for each in candidates_of(args)] == [
        "no moves",
        "ThresholdShedder loadBalancerBrokerThresholdShedderPercentage=5",
        "ThresholdShedder loadBalancerBrokerThresholdShedderPercentage=10",
        "AvgShedder loadBalancerAvgShedderLowThreshold=15",
    ]


def test_shedding_that_brokers_turn_off_changes_a_replay_of_pulsars_leader_alone() -> None:
    words = ("--strategies", "AvgShedder", "--grid", "loadBalancerSheddingEnabled=true,false")
    with pytest.raises(UserError, match="--grid loadBalancerSheddingEnabled: AvgShedder read no"):
        candidates_of(parsed(*words))
    assert len(candidates_of(parsed(*words, "--as-pulsar"))) == 3


def test_synthetic_load_has_its_own_seed_step_and_time_of_a_move() -> None:
    args = parsed("--step", "30", "--seed", "5")
    assert plain_source(args) == SyntheticTrace("diurnal", seed=5, step_ms=30_000, hours=1.0)
    args.source += ",seed=0"
    assert plain_source(args) == SyntheticTrace("diurnal", seed=0, step_ms=30_000, hours=1.0)
    assert move_seconds_of(args) == 1.0
    args.move_seconds = 0.0
    assert move_seconds_of(args) == 0.0
    args.last = "2026-11-22"
    with pytest.raises(UserError, match="synthetic load has none"):
        plain_source(args)


@pytest.mark.parametrize("most", ["0", "100", "-5", "nan"])
def test_a_usage_is_a_part_of_the_whole(most: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["backtest", "synthetic:diurnal,hours=1", "--usage-at-most", most]) == 2
    assert "expected a per cent, 0 to 100" in capsys.readouterr().err

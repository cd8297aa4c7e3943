"""``counterpoise balance``: what it refuses, and in which words."""

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from counterpoise.app.main import main
from counterpoise.app.strategies import strategy_from
from counterpoise.app.times import seconds
from counterpoise.decide.placement.registry import PLACEMENTS
from counterpoise.names.properties import Properties


@pytest.mark.parametrize(
    ("text", "value"), [("5s", 5.0), ("500ms", 0.5), ("2m", 120.0), ("1h", 3600.0), ("7", 7.0)]
)
def test_times_are_read_with_their_units(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "s", "5 years", "-1s", "nan", "inf", "1ss"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        seconds(text)


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--window", "05:00-05:00", "nothing would ever move"),
        ("--window", "25:00-26:00", "a day has 24 hours"),
        ("--max-moves-a-round", "0", "not a whole number from 1 on"),
        ("--max-moves-an-hour", "-1", "not a whole number from 1 on"),
        ("--max-load-an-hour", "nan%", "at most 100%"),
        ("--leave-alone", "payments", "payments"),
        ("--leave-alone", "", "expected"),
        ("--leave-alone", "public/default,public/default/0x0_zz", "0x0_zz"),
        ("--retain-days", "-1", "not a whole number from 1 on"),
        ("--shards", "0", "not a whole number from 1 on"),
        ("--interval", "0", "must be more than 0"),
    ],
)
def test_an_option_that_would_protect_nothing_or_flood_is_refused(
    option: str, value: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["balance", "--admin-url", "http://127.0.0.1:1", "--history", "h", "--execute"]
    with pytest.raises(SystemExit) as ended:
        main([*words, option, value])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["pyspark", "pyarrow"])
def test_without_the_extras_it_says_what_to_install(missing: str, tmp_path: Path) -> None:
    words = ["balance", "--admin-url", "http://127.0.0.1:1", "--history", str(tmp_path), "--once"]
    code = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        f"from counterpoise.app.main import main; sys.exit(main({words!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=250, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "pip install 'counterpoise[pipeline]'" in done.stderr
    assert done.stderr.count("\n") == 1


def test_ones_own_strategies_take_their_own_settings() -> None:
    names = ("tests.decide.shedding.test_own_strategy:DeviationShedder", OWN_PLACEMENT)
    conf = Properties({"deviationThreshold": "3", "backwards": "true"})
    strategy = strategy_from(conf, shedder=names[0], placement=names[1])
    assert strategy.options.deviations == 3
    assert strategy.placement_options.backwards


OWN_PLACEMENT = "tests.decide.placement.own:FirstByName"


def test_the_strategy_is_the_one_that_broker_conf_names() -> None:
    java = "org.apache.pulsar.broker.loadbalance.impl.OverloadShedder"
    conf = Properties({"loadBalancerLoadSheddingStrategy": java})
    assert strategy_from(conf).shedder.name == "OverloadShedder"
    assert strategy_from(conf, shedder="UniformLoadShedder").shedder.name == "UniformLoadShedder"
    assert strategy_from(Properties()).shedder.name == "ThresholdShedder"


@pytest.mark.parametrize("name", ["LeastUsage", *PLACEMENTS])
def test_placement_is_ours_or_one_of_pulsars(name: str) -> None:
    assert strategy_from(Properties(), placement=name).placement.name == name


def test_settings_reach_the_strategy_and_options_win_over_minutes() -> None:
    conf = Properties(
        {
            "loadBalancerBrokerThresholdShedderPercentage": "7",
            "loadBalancerCPUResourceWeight": "0",
            "loadBalancerSheddingGracePeriodMinutes": "3",
        }
    )
    strategy = strategy_from(conf, decide_every_s=1.5)
    assert strategy.options.threshold_percentage == 7
    assert strategy.options.weights.cpu == 0
    assert strategy.placement_options.weights.cpu == 0
    assert strategy.balance.decide_every_ms == 1500
    assert strategy.balance.leave_alone_ms == 180_000


def test_one_look_at_a_cluster_that_does_not_answer_ends_with_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["balance", "--admin-url", "http://127.0.0.1:1", "--history", str(tmp_path), "--once"]
    assert main(words) == 2
    said = capsys.readouterr()
    assert said.err.count("\n") == 1, said.err
    assert "the cluster does not answer: http://127.0.0.1:1" in said.err
    assert "Spark" not in said.out, "the message comes before Spark starts"

"""``counterpoise decide shed``: one line in, one line out, and what it says of a bad one."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from counterpoise.app.main import main
from tests.decide.shedding.clusters import MIB, Line, broker, bundle, line


def hot(cpu: float = 90.0) -> Line:
    names = [f"t/n/0x{i:08x}_0x{i + 1:08x}" for i in range(3)]
    return line(
        {"b1:8080": broker(names, cpu=cpu, throughput=60 * MIB), "b2:8080": broker(cpu=10)},
        {name: bundle(throughput=(i + 1) * 10 * MIB) for i, name in enumerate(names)},
    )


@pytest.fixture
def shed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the verb over lines; gives its status, its answers and what it complained of."""

    def run(lines: list[Any], *options: str) -> tuple[int, list[dict[str, Any]], str]:
        text = "".join(
            (each if isinstance(each, str) else json.dumps(each)) + "\n" for each in lines
        )
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        status = main(["decide", "shed", *options])
        printed = capsys.readouterr()
        return status, [json.loads(each) for each in printed.out.splitlines()], printed.err

    return run


def test_each_line_is_answered_with_decisions_and_rejections(shed: Any) -> None:
    status, answers, _ = shed([hot(), hot(cpu=20)], "--strategy", "OverloadShedder")
    assert status == 0
    first, second = answers
    (decision,) = first["decisions"]
    assert decision["broker"] == "b1:8080"
    assert decision["bundle"] == "t/n/0x00000002_0x00000003"
    assert decision["destination"] is None
    assert decision["reason"] == "Overloaded"
    assert "90.0% of its cpu" in decision["sentence"]
    (rejection,) = first["rejections"]
    assert rejection["setting"] == "loadBalancerBrokerOverloadedThresholdPercentage"
    assert (second["decisions"], len(second["rejections"])) == ([], 2)


def test_settings_come_from_broker_conf_and_from_the_command_line(
    shed: Any, tmp_path: Path
) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(
        "loadBalancerLoadSheddingStrategy="
        "org.apache.pulsar.broker.loadbalance.impl.OverloadShedder\n"
        "loadBalancerBrokerOverloadedThresholdPercentage=95\n"
        "someOtherSetting=1\n"
    )
    _, (answer,), _ = shed([hot()], "--conf", str(conf))
    assert not answer["decisions"]
    override = "loadBalancerBrokerOverloadedThresholdPercentage=80"
    _, (answer,), _ = shed([hot()], "--conf", str(conf), "--set", override)
    assert answer["decisions"]


def test_one_strategy_sees_the_lines_in_order(shed: Any) -> None:
    lines = [hot(), hot(), hot()]
    _, answers, _ = shed(lines, "--strategy", "AvgShedder", "--set", "maxUnloadPercentage=0.9")
    assert [bool(each["decisions"]) for each in answers] == [False, True, False]
    assert answers[1]["decisions"][0]["destination"] == "b2:8080"
    _, answers, _ = shed([hot()], "--strategy", "ThresholdShedder")
    assert answers[0]["decisions"]
    fading = [hot(), {**hot(cpu=0), "activeBrokers": ["b2:8080"]}]
    _, answers, _ = shed(fading, "--strategy", "ThresholdShedder")
    assert not answers[1]["decisions"]  # b1's history was forgotten


def test_transfer_shedder_reads_lines_of_the_load_stores(shed: Any) -> None:
    def entry(letter: str, load: float, *megabytes: float) -> dict[str, Any]:
        top = [
            {"bundleName": f"t/{letter}/{i}", "stats": {"msgThroughputOut": m * 1e6}}
            for i, m in enumerate(megabytes)
        ]
        load_data = {"weightedMaxEMA": load, "msgThroughputOut": sum(megabytes) * 1e6}
        return {
            "brokerLoadData": {**load_data, "updatedAt": 1000},
            "topBundlesLoadData": {"topBundlesLoadData": top},
        }

    data = {
        "now": 1000,
        "brokers": {"b1:8080": entry("a", 0.9, 2, 7), "b2:8080": entry("b", 0.1, 1)},
        "recentlyUnloadedBundles": {},
        "recentlyUnloadedBrokers": {},
    }
    status, answers, _ = shed([data] * 4, "--strategy", "TransferShedder")
    assert status == 0
    assert [[d["bundle"] for d in each["decisions"]] for each in answers] == [[], [], [], ["t/a/0"]]
    assert answers[3]["decisions"][0]["destination"] == "b2:8080"
    assert answers[0]["rejections"][0]["rule"] == "HitCount"


def broken(path: tuple[str, ...], value: object) -> Line:
    data = hot()
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return data


@pytest.mark.parametrize(
    ("bad", "complaint"),
    [
        ("{not json", "line 2, column 2: expected one JSON object"),
        ("[]", "line 2: line: expected an object, got list []"),
        ("{}", "line 2: now: expected the time in milliseconds, got nothing"),
        (
            broken(("brokerData", "b1:8080", "localData", "cpu"), {"usage": "hot", "limit": 1}),
            "line 2: brokerData['b1:8080'].localData.cpu.usage: expected a number, got 'hot'",
        ),
        (
            broken(("bundleData", "t/n/0x00000000_0x00000001"), {"topics": "3"}),
            "line 2: bundleData['t/n/0x00000000_0x00000001'].topics: expected a whole number",
        ),
    ],
)
def test_a_bad_line_is_named_with_its_field(shed: Any, bad: object, complaint: str) -> None:
    status, answers, complained = shed([hot(), bad, hot()], "--strategy", "OverloadShedder")
    assert status == 2
    assert len(answers) == 1  # what came before stands
    assert complaint in complained
    assert "Traceback" not in complained


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--strategy", "Threshold"), "no strategy is called 'Threshold'"),
        (
            ("--set", "loadBalancerBrokerThresholdShedderPercentage=ten"),
            "loadBalancerBrokerThresholdShedderPercentage: 'ten' is not a whole number",
        ),
        (("--conf", "nowhere.conf"), "cannot read nowhere.conf"),
        (("--set", "minUnloadMesage=3"), "no such setting; did you mean minUnloadMessage?"),
    ],
)
def test_bad_options_are_named(shed: Any, options: tuple[str, ...], complaint: str) -> None:
    status, answers, complained = shed([hot()], *options)
    assert (status, answers) == (2, [])
    assert complaint in complained

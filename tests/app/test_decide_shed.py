"""``counterpoise decide shed``: one line in, one line out."""

from pathlib import Path
from typing import Any

from tests.decide.shedding.clusters import MIB, Line, broker, bundle, line
from tests.decide_command import Decide


def hot(cpu: float = 90.0) -> Line:
    names = [f"t/n/0x{i:08x}_0x{i + 1:08x}" for i in range(3)]
    return line(
        {"b1:8080": broker(names, cpu=cpu, throughput=60 * MIB), "b2:8080": broker(cpu=10)},
        {name: bundle(throughput=(i + 1) * 10 * MIB) for i, name in enumerate(names)},
    )


def test_each_line_is_answered_with_decisions_and_rejections(decide: Decide) -> None:
    status, answers, _ = decide("shed --strategy OverloadShedder", hot(), hot(cpu=20))
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
    decide: Decide, tmp_path: Path
) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(
        "loadBalancerLoadSheddingStrategy="
        "org.apache.pulsar.broker.loadbalance.impl.OverloadShedder\n"
        "loadBalancerBrokerOverloadedThresholdPercentage=95\n"
        "someOtherSetting=1\n"
    )
    _, (answer,), _ = decide(f"shed --conf {conf}", hot())
    assert not answer["decisions"]
    override = "loadBalancerBrokerOverloadedThresholdPercentage=80"
    _, (answer,), _ = decide(f"shed --conf {conf} --set {override}", hot())
    assert answer["decisions"]


def test_one_strategy_sees_the_lines_in_order(decide: Decide) -> None:
    words = "shed --strategy AvgShedder --set maxUnloadPercentage=0.9"
    _, answers, _ = decide(words, hot(), hot(), hot())
    assert [bool(each["decisions"]) for each in answers] == [False, True, False]
    assert answers[1]["decisions"][0]["destination"] == "b2:8080"
    _, answers, _ = decide("shed --strategy ThresholdShedder", hot())
    assert answers[0]["decisions"]
    fading = [hot(), {**hot(cpu=0), "activeBrokers": ["b2:8080"]}]
    _, answers, _ = decide("shed --strategy ThresholdShedder", *fading)
    assert not answers[1]["decisions"]  # b1's history was forgotten


def test_transfer_shedder_reads_lines_of_the_load_stores(decide: Decide) -> None:
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
    status, answers, _ = decide("shed --strategy TransferShedder", *[data] * 4)
    assert status == 0
    assert [[d["bundle"] for d in each["decisions"]] for each in answers] == [[], [], [], ["t/a/0"]]
    assert answers[3]["decisions"][0]["destination"] == "b2:8080"
    assert answers[0]["rejections"][0]["rule"] == "HitCount"

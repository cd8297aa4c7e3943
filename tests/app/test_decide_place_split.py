"""``counterpoise decide place`` and ``decide split`` as scripts use them."""

import io
import json

import pytest

from counterpoise.app.main import main

BUNDLE = "t/n/0x00000000_0x80000000"


def usage(cpu):
    return {"cpu": {"usage": cpu, "limit": 100}, "bundles": ["x"], "msgRateIn": 1.0}


def place(cpu, candidates=("a:1", "b:1"), **more):
    brokers = {name: {"localData": usage(each)} for name, each in cpu.items()}
    data = {"now": 1, "brokerData": brokers, "bundleData": {}}
    return {"bundle": BUNDLE, "candidates": list(candidates), "loadData": data} | more


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs a verb over lines; gives the status, the answers and what went to standard error."""

    def runs(arguments, *lines):
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(texts) + "\n"))
        status = main(["decide", *arguments])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return status, [json.loads(line) for line in out.splitlines()], err

    return runs


def test_one_strategy_sees_the_lines_in_order(run):
    line = place({"a:1": 10, "b:1": 10})
    status, answers, _ = run(["place", "--strategy", "RoundRobinBrokerSelector"], line, "", line)
    assert status == 0
    assert [each["broker"] for each in answers] == ["a:1", "b:1"]
    assert [each["admissible"] for each in answers] == [["a:1"], ["b:1"]]
    assert all(each["reason"] for each in answers)


def test_remembered_usage_lasts_from_line_to_line(run):
    lines = place({"a:1": 80, "b:1": 0}), place({"a:1": 0, "b:1": 40})
    arguments = ["place", "--strategy", "LeastResourceUsageWithWeight"]
    _, answers, _ = run(arguments, *lines)
    assert [each["broker"] for each in answers] == ["b:1", "b:1"]
    _, alone, _ = run(arguments, lines[1])
    assert alone[0]["broker"] == "a:1"
    _, forgot, _ = run(arguments, lines[0], lines[1] | {"activeBrokers": ["b:1"]})
    assert forgot[1]["broker"] == "a:1"


def test_a_line_of_the_extensible_manager(run):
    brokers = {
        "a:1": {"brokerLoadData": {"weightedMaxEMA": 0.2}},
        "b:1": {"brokerLoadData": {"weightedMaxEMA": 0.9}},
        "c:1": {"brokerLoadData": None},
    }
    line = {"bundle": BUNDLE, "candidates": ["a:1", "b:1", "c:1"], "loadData": {"brokers": brokers}}
    _, answers, _ = run(["place", "--strategy", "LeastResourceUsageWithWeight"], line)
    assert answers[0]["admissible"] == ["a:1"]


def test_the_configured_strategy_is_the_default(run, tmp_path):
    conf = tmp_path / "broker.conf"
    conf.write_text("loadBalancerLoadPlacementStrategy=RoundRobinBrokerSelector\n")
    _, answers, _ = run(["place", "--conf", str(conf)], place({"a:1": 90, "b:1": 1}))
    assert answers[0]["reason"] == "in_turn"


def test_a_seed_makes_it_random_and_repeatable(run):
    lines = [place({"a:1": 10, "b:1": 10})] * 12
    arguments = ["place", "--strategy", "LeastLongTermMessageRate", "--seed", "7"]
    picks = [[each["broker"] for each in run(arguments, *lines)[1]] for _ in range(2)]
    assert picks[0] == picks[1]
    assert set(picks[0]) == {"a:1", "b:1"}


def test_no_candidate_is_an_answer(run):
    status, answers, _ = run(["place", "--strategy", "AvgShedder"], place({"a:1": 1}, []))
    assert status == 0
    assert (answers[0]["broker"], answers[0]["admissible"]) == (None, [])
    assert "no candidates" in answers[0]["sentence"]


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("{", "column"),
        ("[]", "line: expected an object"),
        ({}, "bundle: expected"),
        ({"bundle": BUNDLE}, "loadData: expected"),
        ({"bundle": 5, "loadData": {}}, "bundle: expected a string"),
        (place({"a:1": 1}) | {"candidates": None}, "candidates: expected an array"),
        (place({"a:1": 1}) | {"candidates": ["a:1", 7]}, "candidates[1]: expected a string"),
        (
            place({"a:1": "hot"}),
            "loadData.brokerData['a:1'].localData.cpu.usage: expected a number",
        ),
        (place({}) | {"loadData": {"brokerData": {}, "bundleData": {}}}, "loadData.now: expected"),
    ],
)
def test_a_bad_line_is_named_by_number_and_field(run, line, field):
    good = place({"a:1": 1, "b:1": 2})
    status, answers, err = run(["place", "--strategy", "AvgShedder"], good, line)
    assert status == 2
    assert len(answers) == 1
    assert err.startswith("counterpoise: line 2")
    assert field in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["place", "--strategy", "Unknown"], "no strategy is called 'Unknown'"),
        (["place", "--set", "loadBalancerHistoryResourcePercentage=2"], "from 0 to 1"),
        (["split", "--set", "loadBalancerNamespaceBundleMaxMsgRate=x"], "a whole number"),
        (["split", "--set", "defaultNamespaceBundleSplitAlgorithm=x"], "one of range_equally"),
    ],
)
def test_bad_arguments_are_named(run, arguments, said):
    status, answers, err = run(arguments)
    assert (status, answers) == (2, [])
    assert said in err


def test_a_bad_value_in_a_file_is_named_by_its_line(run, tmp_path):
    conf = tmp_path / "broker.conf"
    conf.write_text("# ours\nloadBalancerNamespaceBundleMaxMsgRate=fast\n")
    status, _, err = run(["split", "--conf", str(conf)])
    assert status == 2
    assert "line 2: loadBalancerNamespaceBundleMaxMsgRate: 'fast'" in err


def load(rate):
    return {"msgRateIn": rate, "msgRateOut": 0, "msgThroughputIn": 0, "msgThroughputOut": 0}


TOPICS = {f"persistent://t/n/{name}": load(100) for name in "abcdef"}
RING = "t/n/0x00000000_0xffffffff"


@pytest.mark.parametrize(
    ("algorithm", "more", "boundaries"),
    [
        ("range_equally_divide", {}, ["0x40000000"]),
        (
            "specified_positions_divide",
            {"boundaries": ["0x10", 32, -1]},
            ["0x00000010", "0x00000020"],
        ),
        ("specified_positions_divide", {"boundaries": []}, []),
        ("topic_count_equally_divide", {"topics": {}}, []),
        ("flow_or_qps_equally_divide", {}, []),
    ],
)
def test_split_answers_boundaries_and_why(run, algorithm, more, boundaries):
    line = {"bundle": BUNDLE, "topics": TOPICS} | more
    status, answers, _ = run(["split", "--algorithm", algorithm], line)
    assert status == 0
    assert answers[0]["boundaries"] == boundaries
    assert answers[0]["reason"]
    assert answers[0]["sentence"]


def test_split_reads_limits_from_settings(run):
    arguments = ["split", "--algorithm", "flow_or_qps_equally_divide"]
    limit = ["--set", "loadBalancerNamespaceBundleMaxMsgRate=250"]
    _, answers, _ = run([*arguments, *limit], {"bundle": RING, "topics": TOPICS})
    assert len(answers[0]["boundaries"]) == 2


def test_the_default_algorithm_is_the_configured_one(run):
    setting = ["--set", "defaultNamespaceBundleSplitAlgorithm=topic_count_equally_divide"]
    _, answers, _ = run(["split", *setting], {"bundle": RING, "topics": TOPICS})
    assert answers[0]["reason"] == "middle_of_topics"


def test_topics_outside_the_bundle_are_mentioned(run):
    _, answers, _ = run(
        ["split", "--algorithm", "topic_count_equally_divide"],
        {"bundle": "t/n/0x00000000_0x00000010", "topics": TOPICS},
    )
    assert "6 of the topics lie outside" in answers[0]["sentence"]


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ({}, "bundle: expected tenant/namespace/0xLOWER_0xUPPER"),
        ({"bundle": "t/n"}, "bundle: expected"),
        ({"bundle": BUNDLE, "topics": []}, "topics: expected an object"),
        ({"bundle": BUNDLE, "topics": {"a/b": None}}, "topics: expected names such as"),
        ({"bundle": BUNDLE, "topics": {"x": 5}}, "topics['x']: expected an object"),
        ({"bundle": BUNDLE, "topics": {"x": {"msgRateIn": []}}}, "topics['x'].msgRateIn"),
        ({"bundle": BUNDLE, "boundaries": "0x1"}, "boundaries: expected an array"),
        ({"bundle": BUNDLE, "boundaries": [None]}, "boundaries[0]: expected a whole number"),
        ({"bundle": BUNDLE, "boundaries": ["z"]}, "boundaries[0]: expected 0x00000000"),
    ],
)
def test_a_bad_bundle_is_named_by_field(run, line, field):
    status, _, err = run(["split"], line)
    assert status == 2
    assert field in err

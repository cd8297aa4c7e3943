"""``decide`` on input that is no load data: a sentence with the line, never an internal error."""

import copy
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from counterpoise.app.decide_lines import place_line, shed_line, split_line
from counterpoise.app.errors import UserError
from counterpoise.app.json_lines import answer_lines
from counterpoise.decide.placement.registry import PLACEMENTS
from counterpoise.decide.shedding.registry import SHEDDERS
from counterpoise.decide.splitting.options import SplitOptions
from tests.decide.shedding.clusters import broker, bundle, line
from tests.decide_command import Decide

BUNDLE = "t/n/0x00000000_0x80000000"
GOOD = line(
    {"b1:80": broker([BUNDLE], cpu=90, throughput=1e8), "b2:80": broker(cpu=1)},
    {BUNDLE: bundle(throughput=1e7)},
    [BUNDLE],
)
PLACE = {"bundle": BUNDLE, "candidates": ["b1:80", "b2:80"], "loadData": GOOD}
SPLIT = {
    "bundle": BUNDLE,
    "topics": {"persistent://t/n/a": {"msgRateIn": 10.0}, "persistent://t/n/b": None},
    "boundaries": ["0x40000000"],
}
STORE = {
    "now": 1,
    "brokers": {
        "b1:80": {
            "brokerLoadData": {"weightedMaxEMA": 0.9, "updatedAt": 1},
            "topBundlesLoadData": {
                "topBundlesLoadData": [{"bundleName": BUNDLE, "stats": {"msgThroughputIn": 5.0}}]
            },
        },
        "b2:80": {"brokerLoadData": {"updatedAt": 1}, "topBundlesLoadData": {}},
    },
    "recentlyUnloadedBrokers": {"b2:80": 0},
    "recentlyUnloadedBundles": {},
}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b'"topics": 0', b'"topics": 9223372036854775808', "a whole number of 64 bits"),
        (b'"topics": 0', b'"topics": -1e300', "a whole number of 64 bits"),
        (b'"now": 1700000000000', b'"now": 1' + b"0" * 400, "now: expected a whole number of 64"),
        (b'"topics": 0', b'"topics": 1' + b"0" * 5000, "a number has too many digits"),
        (b'"numSamples": 1', b'"numSamples": 1' + b"0" * 30, "a whole number of 64 bits"),
        (b"b1:80", b"b\xff:80", "byte 41: not UTF-8"),
        (b"b1:80", b"b\\ud800:80", "half of a surrogate pair"),
        (b"b1:80", b"\xed\xa0\x80", "not UTF-8"),
        (b'"now"', b"[" * 100_000 + b'"now"', "expected one JSON object"),
        (b'"brokerData": {', b'"brokerData": ' + b"[" * 100_000, "nested too deeply"),
    ],
)
def test_each_is_one_line_that_names_the_line(
    decide: Decide, old: bytes, new: bytes, said: str
) -> None:
    good = json.dumps(GOOD).encode()
    assert old in good
    bad = good.replace(old, new, 1)
    status, answers, err = decide("shed --strategy OverloadShedder", good, bad, good)
    assert (status, len(answers), err.count("\n")) == (2, 1, 1)
    assert err.startswith("counterpoise: line 2")
    assert said in err


def broken(path: tuple[str, ...], value: object, good: Any = GOOD) -> Any:
    bad = copy.deepcopy(good)
    inner = bad
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return bad


SHED, PLACED, CUT = "shed --strategy OverloadShedder", "place --strategy AvgShedder", "split"
ON_BROKER = ("brokerData", "b1:80", "localData", "cpu", "usage")


@pytest.mark.parametrize(
    ("words", "good", "bad", "said"),
    [
        (SHED, GOOD, "{not json", "line 2, column 2: expected one JSON object"),
        (SHED, GOOD, [], "line 2: line: expected an object, got list []"),
        (SHED, GOOD, {}, "now: expected a whole number, got nothing"),
        (
            SHED,
            GOOD,
            broken(ON_BROKER, "hot"),
            "line 2: brokerData['b1:80'].localData.cpu.usage: expected a number, got 'hot'",
        ),
        (
            SHED,
            GOOD,
            broken(("bundleData", BUNDLE), {"topics": "3"}),
            f"bundleData['{BUNDLE}'].topics: expected a whole number",
        ),
        (PLACED, PLACE, [], "line: expected an object"),
        (PLACED, PLACE, {}, "bundle: expected"),
        (PLACED, PLACE, {"bundle": BUNDLE}, "loadData: expected"),
        (PLACED, PLACE, {"bundle": 5, "loadData": {}}, "bundle: expected a string"),
        (PLACED, PLACE, {**PLACE, "candidates": None}, "candidates: expected an array"),
        (PLACED, PLACE, {**PLACE, "candidates": ["a", 7]}, "candidates[1]: expected a string"),
        (
            PLACED,
            PLACE,
            {**PLACE, "loadData": broken(ON_BROKER, "hot")},
            "loadData.brokerData['b1:80'].localData.cpu.usage: expected a number",
        ),
        (
            PLACED,
            PLACE,
            {**PLACE, "loadData": {"brokerData": {}, "bundleData": {}}},
            "loadData.now: expected",
        ),
        (CUT, SPLIT, {}, "bundle: expected tenant/namespace/0xLOWER_0xUPPER"),
        (CUT, SPLIT, {"bundle": "t/n"}, "bundle: expected"),
        (CUT, SPLIT, {"bundle": BUNDLE, "topics": []}, "topics: expected an object"),
        (CUT, SPLIT, {"bundle": BUNDLE, "topics": {"a/b": None}}, "topics: expected names such as"),
        (CUT, SPLIT, {"bundle": BUNDLE, "topics": {"x": 5}}, "topics['x']: expected an object"),
        (CUT, SPLIT, {"bundle": BUNDLE, "topics": {"x": {"msgRateIn": []}}}, "['x'].msgRateIn"),
        (CUT, SPLIT, {"bundle": BUNDLE, "boundaries": "0x1"}, "boundaries: expected an array"),
        (CUT, SPLIT, {"bundle": BUNDLE, "boundaries": [None]}, "[0]: expected a whole number"),
        (CUT, SPLIT, {"bundle": BUNDLE, "boundaries": ["z"]}, "[0]: expected 0x00000000"),
    ],
)
def test_a_bad_line_is_named_by_number_and_field(
    decide: Decide, words: str, good: object, bad: object, said: str
) -> None:
    status, answers, err = decide(words, good, bad, good)
    assert (status, len(answers)) == (2, 1), "what came before stands"
    assert err.startswith("counterpoise: line 2")
    assert said in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("shed --set loadBalancerBrokerThresholdShedderPercentage=ten", "'ten' is not a whole num"),
        ("shed --conf nowhere.conf", "cannot read nowhere.conf"),
        ("shed --set minUnloadMesage=3", "no such setting; did you mean minUnloadMessage?"),
        ("place --set loadBalancerHistoryResourcePercentage=2", "from 0 to 1"),
        ("split --set loadBalancerNamespaceBundleMaxMsgRate=x", "a whole number"),
        ("split --set defaultNamespaceBundleSplitAlgorithm=x", "one of range_equally"),
    ],
)
def test_bad_options_are_named(decide: Decide, words: str, said: str) -> None:
    status, answers, err = decide(words, GOOD)
    assert (status, answers) == (2, [])
    assert said in err


def test_a_bad_value_in_a_file_is_named_by_its_line(decide: Decide, tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("# ours\nloadBalancerNamespaceBundleMaxMsgRate=fast\n")
    status, _, err = decide(f"split --conf {conf}")
    assert status == 2
    assert "line 2: loadBalancerNamespaceBundleMaxMsgRate: 'fast'" in err


@pytest.mark.parametrize("what", ["shed", "place"])
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "no strategy is called ''; there are "),
        ("Threshold", "no strategy is called 'Threshold'"),
        (":x", "':x' is not module:Class"),
        ("x:", "'x:' is not module:Class"),
        ("..x:y", "cannot be loaded"),
        ("no.such.module:Class", "cannot be loaded: ModuleNotFoundError"),
        ("json:JSONDecoder", "'json:JSONDecoder' is not a "),
        ("json:loads", "cannot be loaded: TypeError"),
        ("\ud800:x", "cannot be loaded"),
    ],
)
def test_a_strategy_that_is_none_is_named(decide: Decide, what: str, name: str, said: str) -> None:
    status, answers, err = decide(what, more=("--strategy", name))
    assert (status, answers, err.count("\n")) == (2, [], 1)
    assert said in err


OWN = "tests.decide.shedding.test_own_strategy:DeviationShedder"
OWN_PLACEMENT = "tests.decide.placement.own:FirstByName"


def test_ones_own_strategies_take_their_own_settings(decide: Decide) -> None:
    rated = line(
        {"b1:80": broker([BUNDLE], rate=900), "b2:80": broker(), "b3:80": broker()},
        {BUNDLE: bundle(rate=900)},
    )
    for threshold, moved in ((1, 1), (2, 0)):
        words = f"shed --strategy {OWN} --set deviationThreshold={threshold}"
        status, [answer], err = decide(words, rated)
        assert (status, err, len(answer["decisions"])) == (0, "", moved)
    for backwards, chosen in (("false", "b1:80"), ("true", "b2:80")):
        words = f"place --strategy {OWN_PLACEMENT} --set backwards={backwards}"
        status, [answer], err = decide(words, PLACE)
        assert (status, err, answer["broker"]) == (0, "", chosen)
    for words in (
        "shed --set deviationThreshold=1",
        "place --set backwards=true",
        f"place --strategy {OWN_PLACEMENT} --set backwrds=true",
    ):
        status, _, err = decide(words)
        assert (status, "no such setting" in err) == (2, True)


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from paths(inner, (*path, index))


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([2**63, -(2**63) - 1, 10**400, 2**31, -1])
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["NaN", "Infinity", "", "\ud800", "0x00000000", "b1:80", BUNDLE]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=5,
)

ANSWERS = {
    **{f"shed {name}": GOOD for name in SHEDDERS if name != "TransferShedder"},
    "shed TransferShedder": STORE,
    **{f"place {name}": PLACE for name in PLACEMENTS},
    "place extensible": {**PLACE, "loadData": STORE},
    "split flow_or_qps_equally_divide": SPLIT,
    "split topic_count_equally_divide": SPLIT,
    "split specified_positions_divide": SPLIT,
}


def answer(what: str, value: object) -> object:
    """As the verbs do."""
    verb, name = what.split()
    if verb == "split":
        return split_line(value, name, SplitOptions())
    if verb == "place":
        strategy = PLACEMENTS.get(name)
        memory = strategy.initial_memory() if strategy else None
        options = PLACEMENTS["LeastUsage"].options()
        return place_line(value, strategy, options, memory)[0]
    shedder = SHEDDERS[name]
    return shed_line(value, shedder, shedder.options(), shedder.initial_memory())[0]


@pytest.mark.parametrize("what", ANSWERS)
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_whatever_stands_in_a_line_is_answered_or_named(what: str, data: st.DataObject) -> None:
    value: Any = copy.deepcopy(ANSWERS[what])
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(list(paths(value))))
        new = data.draw(anything)
        if not path:
            value = new
            break
        inner = value
        for key in path[:-1]:
            inner = inner[key]
        if data.draw(st.booleans()) or isinstance(inner, list):
            inner[path[-1]] = new
        else:
            inner[data.draw(st.text(max_size=6))] = inner.pop(path[-1])
    out, refused = io.StringIO(), ""
    try:
        answer_lines(lambda line: answer(what, line), [json.dumps(value)], out)
    except UserError as error:
        refused = str(error)
    assert refused.startswith("line 1") or json.loads(out.getvalue())

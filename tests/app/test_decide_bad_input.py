"""``decide`` on input that is no load data: a sentence with the line, never an internal error."""

import copy
import io
import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from counterpoise.app.decide_lines.place import place_line
from counterpoise.app.decide_lines.shed import shed_line
from counterpoise.app.decide_lines.split import split_line
from counterpoise.app.errors import UserError
from counterpoise.app.json_lines import answer_lines
from counterpoise.app.main import main
from counterpoise.decide.placement.registry import PLACEMENTS
from counterpoise.decide.shedding.registry import SHEDDERS
from counterpoise.decide.splitting.options import SplitOptions
from tests.decide.shedding.clusters import broker, bundle, line

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


def decide(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    lines: bytes,
    *words: str,
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines), encoding="utf-8"))
    status = main(["decide", *words])
    said = capsys.readouterr()
    return status, said.out, said.err


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
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    old: bytes,
    new: bytes,
    said: str,
) -> None:
    good = json.dumps(GOOD).encode()
    assert old in good
    lines = good + b"\n" + good.replace(old, new, 1) + b"\n" + good + b"\n"
    status, out, err = decide(monkeypatch, capsys, lines, "shed", "--strategy", "OverloadShedder")
    assert (status, len(out.splitlines())) == (2, 1)
    assert err.startswith("counterpoise: line 2")
    assert said in err
    assert err.count("\n") == 1
    assert "internal" not in err


@pytest.mark.parametrize("what", ["shed", "place"])
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "no strategy is called ''; there are "),
        (":x", "':x' is not module:Class"),
        ("x:", "'x:' is not module:Class"),
        ("..x:y", "cannot be loaded"),
        ("no.such.module:Class", "cannot be loaded: ModuleNotFoundError"),
        ("json:JSONDecoder", "'json:JSONDecoder' is not a "),
        ("json:loads", "cannot be loaded: TypeError"),
        ("\ud800:x", "cannot be loaded"),
    ],
)
def test_a_strategy_that_is_none_is_named(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    what: str,
    name: str,
    said: str,
) -> None:
    status, out, err = decide(monkeypatch, capsys, b"", what, "--strategy", name)
    assert (status, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


OWN = "tests.decide.shedding.test_own_strategy:DeviationShedder"
OWN_PLACEMENT = "tests.decide.placement.own:FirstByName"


def test_ones_own_strategies_take_their_own_settings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rated = line(
        {"b1:80": broker([BUNDLE], rate=900), "b2:80": broker(), "b3:80": broker()},
        {BUNDLE: bundle(rate=900)},
    )
    lines = json.dumps(rated).encode() + b"\n"
    for threshold, moved in (("1", 1), ("2", 0)):
        words = ("shed", "--strategy", OWN, "--set", f"deviationThreshold={threshold}")
        status, out, err = decide(monkeypatch, capsys, lines, *words)
        assert (status, err) == (0, "")
        assert len(json.loads(out)["decisions"]) == moved
    lines = json.dumps(PLACE).encode() + b"\n"
    for backwards, chosen in (("false", "b1:80"), ("true", "b2:80")):
        words = ("place", "--strategy", OWN_PLACEMENT, "--set", f"backwards={backwards}")
        status, out, err = decide(monkeypatch, capsys, lines, *words)
        assert (status, err) == (0, "")
        assert json.loads(out)["broker"] == chosen
    for words in (
        ("shed", "--set", "deviationThreshold=1"),
        ("place", "--set", "backwards=true"),
        ("place", "--strategy", OWN_PLACEMENT, "--set", "backwrds=true"),
    ):
        status, _, err = decide(monkeypatch, capsys, b"", *words)
        assert status == 2
        assert "no such setting" in err


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

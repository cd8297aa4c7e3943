"""What plans say for themselves: true, whole, with units, and naming what would change it."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise.decide.plan import Decision, Rejection, StrategyPlan
from counterpoise.decide.shedding.registry import SHEDDERS
from counterpoise.load.store_view import LoadStoreView
from counterpoise.names.options import Option, all_options, from_conf
from tests.decide.shedding.clusters import Line, broker, bundle, line, plan, run
from tests.decide.shedding.strategies import lines, odd

FEW = settings(deadline=None, max_examples=30)

MODULAR = ["OverloadShedder", "ThresholdShedder", "UniformLoadShedder", "AvgShedder"]
NOW = 1_700_000_000_000
OUTSIDE = {"loadBalancerSheddingGracePeriodMinutes", "loadBalancerBrokerLoadDataTTLInSeconds"}
"""Settings that act before a strategy is asked, or on the age of its data."""

shares = st.sampled_from([0.0, 0.05, 0.2, 0.5, 0.84, 0.86, 1.0, 3.0])
rates = st.sampled_from([0.0, 1.0, 900.0, 2e5, 4e6, 9e7])


def conf_of(strategy: str) -> st.SearchStrategy[dict[str, str]]:
    """Some settings of a strategy, at the ends of their ranges or anywhere between."""

    def values(option: Option) -> st.SearchStrategy[str]:
        if option.kind is bool:
            return st.sampled_from(["true", "false"])
        return st.sampled_from([str(each) for each in ends(option)])

    options = {
        option.conf: values(option)
        for option in all_options(SHEDDERS[strategy].options)
        if option.kind in (bool, int, float) and "Weight" not in option.conf
    }
    return st.fixed_dictionaries({}, optional=options)


def ends(option: Option) -> list[object]:
    if option.kind is bool:
        return [True, False]
    low = 0 if option.low is None else option.low
    found = [low, 1, option.default, 50, 10**6]
    high = option.high
    return [option.kind(each) for each in found if high is None or each <= high]


@st.composite
def stores(draw: st.DrawFn) -> LoadStoreView:
    """Load stores of a few brokers, as the extensible manager has them."""
    count = draw(st.integers(0, 5))
    brokers = {}
    for number in range(count):
        bundles = draw(st.lists(rates, max_size=4))
        load = {
            "weightedMaxEMA": draw(shares),
            "msgThroughputOut": sum(bundles),
            "updatedAt": NOW - draw(st.sampled_from([0, 1000, 10**7])),
        }
        top = [
            {"bundleName": f"t/n{number}/{i}", "stats": {"msgThroughputOut": each}}
            for i, each in enumerate(bundles)
        ]
        brokers[f"b{number}:80"] = {
            "brokerLoadData": load,
            "topBundlesLoadData": {"topBundlesLoadData": top},
        }
    names = [f"t/n{n}/{i}" for n in range(count) for i in range(4)]
    data = {
        "now": NOW,
        "brokers": brokers,
        "recentlyUnloadedBundles": dict.fromkeys(draw(st.sets(st.sampled_from(names or ["-"]))), 1),
        "recentlyUnloadedBrokers": {
            name: NOW - draw(st.sampled_from([-30_000, 0, 10**7]))
            for name in draw(st.sets(st.sampled_from(sorted(brokers) or ["-"])))
        },
    }
    return LoadStoreView.from_load_data(data)


def transferred(view: LoadStoreView, conf: dict[str, str], hits: int) -> StrategyPlan[Any]:
    shedder = SHEDDERS["TransferShedder"]
    options = from_conf(shedder.options, conf)
    memory = shedder.memory_from_json({"hits": hits})
    return shedder.plan(view, memory, options, NOW, None)  # type: ignore[arg-type]


def check(strategy: str, made: StrategyPlan[Any]) -> None:
    """What must hold of every plan's words."""
    known = {option.conf for option in all_options(SHEDDERS[strategy].options)}
    assert made.decisions or made.rejections, "silence"
    json.dumps(made.to_json(), allow_nan=False)
    sources = {decision.source for decision in made.decisions}
    for rejection in made.rejections:
        sentence = rejection.sentence
        plain(sentence)
        assert rejection.setting in sentence
        assert rejection.subject not in sources, "a broker that sheds is not rejected"
        assert rejection.subject == "cluster" or rejection.subject in sentence
        claims(rejection)
    for decision in made.decisions:
        plain(decision.sentence)
        assert decision.bundle in decision.sentence
        assert any(name in decision.sentence for name in known), decision.sentence
        if decision.destination is not None:
            assert decision.destination in decision.sentence


def plain(sentence: str) -> None:
    assert len(sentence) > 20
    assert not re.search(r"\b(nan|NaN|inf|None)\b|[{}]", sentence), sentence


def claims(rejection: Rejection) -> None:
    """The figures of a rejection are as its rule says."""
    value, limit, rule = rejection.value, rejection.limit, rejection.rule
    if value is None or limit is None or value != value or limit != limit:
        return
    if rule in {
        "below-threshold",
        "below-average",
        "below-minimum-throughput",
        "hit-count",
        "even",
    }:
        assert value < limit, rejection
    elif rule in {"below-minimum", "HitCount", "CoolDown"}:
        assert value <= limit or not limit, rejection
    elif rule == "too-big":
        assert value > limit, rejection
    elif rule == "recently-unloaded":
        assert 0 < value <= limit, rejection
        assert ("all its bundles" in rejection.sentence) == (value == limit), rejection
    elif rule in {"rate-gap", "throughput-gap"}:
        assert value <= limit or not limit, rejection
    elif rule == "no-broker-below":
        assert 0 <= value <= limit, rejection


@pytest.mark.parametrize("strategy", MODULAR)
@FEW
@given(st.data())
def test_every_word_of_a_modular_strategy_holds(strategy: str, data: st.DataObject) -> None:
    seen = data.draw(st.lists(lines(odd), min_size=1, max_size=3))
    for made in run(strategy, seen, **data.draw(conf_of(strategy))):
        check(strategy, made)


@FEW
@given(stores(), conf_of("TransferShedder"), st.integers(0, 9))
def test_every_word_of_transfer_shedder_holds(
    view: LoadStoreView, conf: dict[str, str], hits: int
) -> None:
    made = transferred(view, conf, hits)
    check("TransferShedder", made)
    for each in (*made.rejections, *made.decisions):
        assert not re.search(r"(?<![\w.])-\d", each.sentence), each.sentence


@pytest.mark.parametrize("strategy", MODULAR)
@FEW
@given(st.data())
def test_nothing_sane_is_said_to_be_negative_or_lacks_its_unit(
    strategy: str, data: st.DataObject
) -> None:
    for made in run(strategy, [data.draw(lines())] * 2, **data.draw(conf_of(strategy))):
        for each in (*made.rejections, *made.decisions):
            said = without_names(each.sentence)
            assert not re.search(r"(?<![\w.])-\d", said), said
            for number in re.finditer(r"\d[\d,.]*", said):
                assert re.match(UNITS, said[number.end() :]), (number[0], said)


UNITS = (
    r"%|\)| ?(B/s|messages/s|points|calls|times|bundles|of its|\(counted as|\(more does|; at|, )"
    r"|[.:;,]? "
)


def without_names(sentence: str) -> str:
    return re.sub(r"\b[\w.-]+:\d+\b|\b[\w/-]+/[\w-]+/[\w]+\b", "NAME", sentence)


@pytest.mark.parametrize("strategy", [*MODULAR, "TransferShedder"])
@FEW
@given(st.data())
def test_the_setting_that_a_rejection_names_would_have_changed_it(
    strategy: str, data: st.DataObject
) -> None:
    if strategy == "TransferShedder":
        view = data.draw(stores())
        answer = lambda conf: transferred(view, conf, 1)  # noqa: E731
    else:
        seen = data.draw(lines())
        answer = lambda conf: plan(strategy, seen, **conf)  # noqa: E731
    conf = data.draw(conf_of(strategy))
    options = {option.conf: option for option in all_options(SHEDDERS[strategy].options)}
    for rejection in answer(conf).rejections:
        if not rejection.setting or rejection.setting in OUTSIDE:
            continue
        if rejection.setting == "maxUnloadPercentage" and rejection.value > 2**30:
            continue  # what suffices for it is hardly less than what overflows 32 bits
        if rejection.setting not in options:
            assert rejection.setting == "loadBalancerMaxNumberOfBundlesInBundleLoadReport"
            continue
        stopped = (rejection.subject, rejection.rule, rejection.setting)
        assert any(
            stopped not in ruled(answer({**conf, rejection.setting: value}))
            for value in everywhere(options[rejection.setting])
        ), (rejection, conf)


@st.composite
def uneven(draw: st.DrawFn) -> Line:
    """A line in which something is likely to move."""
    names = [f"t/n/0x{i:08x}_0x{i + 1:08x}" for i in range(8)]
    bundles = {name: bundle(draw(rates), draw(rates), topics=i) for i, name in enumerate(names)}
    shares = st.sampled_from([5.0, 50.0, 60.0, 95.0])
    made = {
        f"b{number}:8080": broker(
            names[number * 4 : number * 4 + 4],
            cpu=draw(shares),
            rate=draw(rates),
            throughput=draw(rates),
        )
        for number in range(draw(st.integers(2, 4)))
    }
    return line(made, bundles)


@pytest.mark.parametrize("strategy", [*MODULAR, "TransferShedder"])
@settings(FEW, max_examples=60)
@given(st.data())
def test_a_setting_that_a_decision_names_would_have_changed_it(
    strategy: str, data: st.DataObject
) -> None:
    if strategy == "TransferShedder":
        view, hits = data.draw(stores()), data.draw(st.integers(3, 9))
        answer = lambda conf: transferred(view, conf, hits)  # noqa: E731
    else:
        seen = [data.draw(uneven())] * 3
        answer = lambda conf: run(strategy, seen, **conf)[-1]  # noqa: E731
    conf = data.draw(conf_of(strategy))
    options = {option.conf: option for option in all_options(SHEDDERS[strategy].options)}
    checked = set()
    for made in answer(conf).decisions:
        if made.template in checked:
            continue
        checked.add(made.template)
        assert any(
            moved(made) not in map(moved, answer({**conf, name: value}).decisions)
            for name, option in options.items()
            if name in made.sentence
            for value in everywhere(option)
        ), (made.sentence, conf)


def moved(made: Decision) -> tuple[str, str]:
    return made.source, made.bundle


def test_transfer_shedder_says_which_of_its_rules_it_was() -> None:
    def entry(letter: str, load: float, traffic: float = 3e6) -> dict[str, Any]:
        top = [
            {"bundleName": f"t/{letter}/{i}", "stats": {"msgThroughputOut": 1e5}} for i in range(3)
        ]
        load_data = {
            "weightedMaxEMA": load,
            "msgThroughputOut": traffic,
            "msgThroughputEMA": traffic,
            "updatedAt": NOW,
        }
        return {"brokerLoadData": load_data, "topBundlesLoadData": {"topBundlesLoadData": top}}

    def sentences(loads: dict[str, float]) -> str:
        brokers = {f"b{each}:80": entry(each, load) for each, load in loads.items()}
        view = LoadStoreView.from_load_data({"now": NOW, "brokers": brokers})
        return transferred(view, {}, 9).decisions[0].sentence

    assert "the loads deviate by 0.400, more than 0.25 (" in sentences({"a": 0.9, "b": 0.1})
    idle = {"a": 0.01, **dict.fromkeys("bcdefghi", 0.5)}
    assert "ba:80 has less than 12.5% (half of loadBalancerBrokerLoadTargetStd)" in sentences(idle)
    full = {"a": 0.95, **dict.fromkeys("bcdefghi", 0.5)}
    assert "ba:80 is above 85% (loadBalancerBrokerOverloadedThresholdPercentage)" in sentences(full)


def test_transfer_shedder_does_not_call_equal_what_it_did_not_look_at() -> None:
    loads = {"a": (0.5, 0), "b": (0.5, 0), "c": (0.3, 10**7)}
    brokers = {
        f"{each}:80": {
            "brokerLoadData": {"weightedMaxEMA": load, "updatedAt": NOW - age},
            "topBundlesLoadData": {"topBundlesLoadData": []},
        }
        for each, (load, age) in loads.items()
    }
    view = LoadStoreView.from_load_data({"now": NOW, "brokers": brokers})
    [rejection] = transferred(view, {}, 0).rejections
    assert rejection.setting == "loadBalancerBrokerLoadDataTTLInSeconds"
    assert "the brokers with fresh load data are equal; 1 published theirs" in rejection.sentence


def test_avg_shedder_that_may_move_no_part_says_so() -> None:
    data = line(
        {"a:1": broker(["t/n/0", "t/n/1"], cpu=95, rate=9e4), "b:1": broker(cpu=5)},
        {f"t/n/{i}": bundle(rate=4e4) for i in range(2)},
    )
    rejection = run("AvgShedder", [data] * 2, maxUnloadPercentage=0)[1].rejections[0]
    assert rejection.setting == "maxUnloadPercentage"
    assert "gives up no part of what it has more than b:1" in rejection.sentence


def everywhere(option: Option) -> list[str]:
    """Values of every size that an option may have: some act within a factor of two only."""
    powers = [] if option.kind is bool else [10.0**each for each in range(-12, 13)]
    sizes = [each * digit for digit in range(1, 10) for each in (1e-300, *powers) if powers]
    found = [option.kind(each) for each in (*ends(option), *sizes) if each and fits(option, each)]
    return [str(each).lower() for each in dict.fromkeys((*ends(option), *found))]


def fits(option: Option, value: Any) -> bool:
    try:
        option.check(option.kind(value))
    except ValueError:
        return False
    return option.kind is not int or float(value).is_integer()


def ruled(made: StrategyPlan[Any]) -> set[tuple[str, str, str]]:
    return {(each.subject, each.rule, each.setting) for each in made.rejections}


@FEW
@given(lines())
def test_the_broker_named_the_busiest_is(data: Line) -> None:
    made = plan(
        "ThresholdShedder",
        data,
        lowerBoundarySheddingEnabled="true",
        loadBalancerBrokerThresholdShedderPercentage=30,
        loadBalancerBundleUnloadMinThroughputThreshold=0,
    )
    if not any(each.reason == "LowerBoundary" for each in made.decisions):
        return
    usage = made.memory.usage
    several = [
        name
        for name, entry in data["brokerData"].items()
        if len(set(entry["localData"]["bundles"])) > 1
    ]
    assert usage[made.decisions[0].source] == max(usage[name] for name in several)


def test_a_bundle_that_follows_its_twin_says_where_it_goes_and_why() -> None:
    """AvgShedder promises by statistics, so of equal bundles the last promise holds for all."""
    twins = {f"t/{broker}/{i}": bundle(rate=800, samples=3) for broker in "ab" for i in range(2)}
    data = line(
        {
            "a:1": broker([name for name in twins if "/a/" in name], cpu=95, rate=9_000),
            "b:1": broker([name for name in twins if "/b/" in name], cpu=90, rate=9_000),
            "c:1": broker(cpu=20),
            "d:1": broker(cpu=10),
        },
        twins,
    )
    made = run("AvgShedder", [data, data])[1]
    assert {decision.destination for decision in made.decisions} == {"c:1"}
    followed = next(d for d in made.decisions if d.source == "a:1")
    assert "a:1 scores 95.0, d:1 10.0" in followed.sentence
    assert "goes to c:1: another bundle with the same statistics does" in followed.sentence
    apart = {name: {**each, "topics": i} for i, (name, each) in enumerate(twins.items())}
    made = run("AvgShedder", [{**data, "bundleData": apart}] * 2)[1]
    assert {(d.source, d.destination) for d in made.decisions} == {("a:1", "d:1"), ("b:1", "c:1")}


def test_bundles_equal_but_for_their_samples_are_no_twins() -> None:
    """Pulsar's map is keyed by the whole ``BundleData``, the number of samples included."""
    bundles = {"t/a/0": bundle(rate=800, samples=500), "t/b/0": bundle(rate=800, samples=499)}
    data = line(
        {
            "a:1": broker(["t/a/0"], cpu=95, rate=9_000),
            "b:1": broker(["t/b/0"], cpu=90, rate=9_000),
            "c:1": broker(cpu=20),
            "d:1": broker(cpu=10),
        },
        bundles,
    )
    made = run("AvgShedder", [data, data])[1]
    assert {(d.source, d.destination) for d in made.decisions} == {("a:1", "d:1"), ("b:1", "c:1")}


def test_the_broker_that_the_lower_boundary_relieves_is_not_rejected_too() -> None:
    data = line(
        {
            "a:1": broker(["t/n/1"], cpu=60, throughput=4e8),
            "b:1": broker(["t/n/2", "t/n/3"], cpu=58, throughput=4e8),
            "c:1": broker(["t/n/4", "t/n/5"], cpu=57, throughput=4e8),
            "d:1": broker(["t/n/6", "t/n/7"], cpu=1, throughput=1),
        },
        {f"t/n/{i}": bundle(throughput=1e8) for i in range(1, 8)},
    )
    made = plan(
        "ThresholdShedder",
        data,
        lowerBoundarySheddingEnabled="true",
        loadBalancerBrokerThresholdShedderPercentage=20,
    )
    assert [d.source for d in made.decisions] == ["b:1"]
    assert "b:1, at 58.0% the busiest with more than one bundle" in made.decisions[0].sentence
    assert {r.subject for r in made.rejections} == {"a:1", "c:1", "d:1"}


@pytest.mark.parametrize("strategy", MODULAR)
def test_no_broker_is_said(strategy: str) -> None:
    [rejection] = plan(strategy, line({}, {})).rejections
    assert rejection.sentence == "no broker has sent a load report"


def test_transfer_shedder_says_what_it_waits_for_and_what_it_may_not() -> None:
    def entry(letter: str, load: float) -> dict[str, Any]:
        top = [
            {"bundleName": f"t/{letter}/{i}", "stats": {"msgThroughputOut": 1e6}} for i in range(3)
        ]
        return {
            "brokerLoadData": {"weightedMaxEMA": load, "msgThroughputOut": 3e6, "updatedAt": NOW},
            "topBundlesLoadData": {"topBundlesLoadData": top},
        }

    data = {"now": NOW, "brokers": {"b1:80": entry("a", 0.9), "b2:80": entry("b", 0.1)}}
    early = {**data, "recentlyUnloadedBrokers": {"b1:80": NOW + 30_000}}
    [rejection] = transferred(LoadStoreView.from_load_data(early), {}, 9).rejections
    assert (rejection.rule, rejection.value) == ("CoolDown", 0.0)
    assert "has not measured its load since bundles moved" in rejection.sentence
    cap = {"loadBalancerMaxNumberOfBrokerSheddingPerCycle": "0"}
    [rejection] = transferred(LoadStoreView.from_load_data(data), cap, 9).rejections
    assert rejection.setting == "loadBalancerMaxNumberOfBrokerSheddingPerCycle"
    view = LoadStoreView.from_load_data(data)
    policies = replace(view.rules, with_policies=frozenset({"t/a/0", "t/a/1", "t/a/2"}))
    [rejection] = transferred(replace(view, rules=policies), {}, 9).rejections
    assert rejection.setting == "loadBalancerSheddingBundlesWithPoliciesEnabled"

"""When the modular manager splits: ``BundleSplitterTaskTest`` and the rules around it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.decide.plan import DecisionKind
from counterpoise.decide.splitting.loads import BundleLoads
from counterpoise.decide.splitting.modular import find_bundles_to_split
from counterpoise.decide.splitting.options import SplitOptions
from counterpoise.load.average import BundleData, TimeAverageMessageData
from counterpoise.load.report import LocalBrokerData, NamespaceBundleStats

ONE = "ten/ns/0x00000000_0x80000000"
TWO = "ten/ns/0x80000000_0xffffffff"
MEBIBYTE = 1048576


def stats(topics=2, sessions=0, rate=0.0, throughput=0.0):
    return NamespaceBundleStats(
        msg_rate_in=rate,
        msg_throughput_in=throughput,
        consumer_count=sessions // 2,
        producer_count=sessions - sessions // 2,
        topics=topics,
    )


def report(**bundles):
    return LocalBrokerData(last_stats=bundles)


def long_term(rate=0.0, throughput=0.0):
    return BundleData(
        long_term_data=TimeAverageMessageData(
            1000, 1, msg_rate_in=rate, msg_throughput_out=throughput
        )
    )


def plan(reports, bundle_data=None, counts=None, options=None):
    loads = BundleLoads.averaged(reports, bundle_data or {})
    known = {"ten/ns": 4} if counts is None else counts
    return find_bundles_to_split(loads, known, options or SplitOptions())


def chosen(made):
    return [(each.bundle, each.reason) for each in made.decisions]


def test_one_topic_is_never_split():
    made = plan({"broker": report(**{ONE: stats(topics=1, sessions=10**6)})})
    assert made.decisions == ()
    rules = {each.rule: each for each in made.rejections}
    assert "only more partitions" in rules["too_few_topics"].sentence


@pytest.mark.parametrize(
    ("given", "bundle_data", "reason"),
    [
        (stats(topics=1001), {}, "Topics"),
        (stats(topics=1000), {}, None),
        (stats(sessions=1001), {}, "Sessions"),
        (stats(sessions=1000), {}, None),
        (stats(rate=1e9, throughput=1e12), {}, None),
        (stats(), {ONE: long_term(rate=30001)}, "MsgRate"),
        (stats(), {ONE: long_term(rate=30000)}, None),
        (stats(), {ONE: long_term(throughput=100 * MEBIBYTE + 1)}, "Bandwidth"),
        (stats(), {ONE: long_term(throughput=100 * MEBIBYTE)}, None),
        (stats(topics=2000, sessions=2000), {ONE: long_term(rate=1e9)}, "Topics"),
    ],
)
def test_limits_are_strict_and_the_first_is_the_reason(given, bundle_data, reason):
    made = plan({"broker": report(**{ONE: given})}, bundle_data)
    assert chosen(made) == ([(ONE, reason)] if reason else [])
    for decision in made.decisions:
        assert decision.kind is DecisionKind.SPLIT
        assert decision.source == "broker"
        assert decision.sentence.endswith(")")
        assert decision.figures["setting"].startswith("loadBalancerNamespaceBundleMax")


@pytest.mark.parametrize("off", [0, -1])
def test_sessions_can_be_switched_off(off):
    made = plan(
        {"b": report(**{ONE: stats(sessions=5000)})}, options=SplitOptions(max_sessions=off)
    )
    assert made.decisions == ()


def test_a_namespace_stops_at_its_maximum():
    bundles = {f"ten/ns/0x{n:08x}_0x{n + 1:08x}": stats(topics=5000) for n in range(4)}
    made = plan({"b": report(**bundles)}, counts={"ten/ns": 126}, options=SplitOptions())
    assert [each.bundle for each in made.decisions] == list(bundles)[:2]
    stopped = [each for each in made.rejections if each.rule == "maximum_bundles"]
    assert [each.subject for each in stopped] == list(bundles)[2:]
    assert stopped[0].setting == "loadBalancerNamespaceMaximumBundles"
    assert (stopped[0].value, stopped[0].limit) == (128, 128)

    assert "with those that are split now, 128 bundles of 128" in stopped[0].sentence


def test_a_split_names_every_limit_without_which_it_would_not_be():
    made = plan({"b": report(**{ONE: stats(topics=5000)})}, {ONE: long_term(rate=9e9)})
    [decision] = made.decisions
    assert decision.sentence == (
        f"{ONE} has 5000 topics, limit 1000 (loadBalancerNamespaceBundleMaxTopics), and "
        "9e+09 msg/s, limit 30000 (loadBalancerNamespaceBundleMaxMsgRate)"
    )
    raised = SplitOptions(max_topics=10**6, max_msg_rate=2**40)
    assert not plan(
        {"b": report(**{ONE: stats(topics=5000)})}, {ONE: long_term(rate=9e9)}, options=raised
    ).decisions


def test_a_rate_that_is_no_number_is_not_the_closest():
    nan = float("nan")
    reports = {"b": report(**{ONE: stats(), TWO: stats()})}
    data = {ONE: long_term(rate=nan), TWO: long_term(rate=7.0)}
    sentences = [each.sentence for each in plan(reports, data).rejections]
    assert any(f"{TWO} comes closest with 7 msg/s" in each for each in sentences)
    sentences = [
        each.sentence for each in plan(reports, {**data, TWO: long_term(rate=nan)}).rejections
    ]
    assert any("none reports a figure that is a number" in each for each in sentences)
    assert not any("[" in each for each in sentences)


def test_a_bundle_without_averages_carries_nothing():
    none = SplitOptions(max_msg_rate=0, max_bandwidth_mbytes=0)
    assert not plan({"b": report(**{ONE: stats(rate=9e9, throughput=9e9)})}, options=none).decisions
    for more, reason in (({"rate": 0.1}, "MsgRate"), ({"throughput": 0.1}, "Bandwidth")):
        made = plan({"b": report(**{ONE: stats()})}, {ONE: long_term(**more)}, options=none)
        assert chosen(made) == [(ONE, reason)]
        assert "overflowed" not in made.decisions[0].sentence


def test_no_topic_is_not_called_one_topic():
    made = plan({"b": report(**{ONE: stats(topics=0, sessions=10**6)})})
    assert "but holds no topic; " in made.rejections[0].sentence


def test_each_namespace_has_its_own_maximum():
    made = plan(
        {"b": report(**{ONE: stats(topics=5000), "ten/other/0x0_0x1": stats(topics=5000)})},
        counts={"ten/ns": 128, "ten/other": 1},
    )
    assert [each.bundle for each in made.decisions] == ["ten/other/0x0_0x1"]


def test_an_unknown_namespace_is_passed_over():
    made = plan({"b": report(**{ONE: stats(topics=5000)})}, counts={})
    assert made.decisions == ()
    assert "its namespace's bundles are not known" in made.rejections[0].sentence
    nearest = {each.setting for each in made.rejections[1:]}
    assert len(nearest) == 3, (
        "the bundle that comes closest to each other limit is named all the same"
    )


def test_a_bundle_that_two_brokers_report_is_split_once_and_counts_twice():
    reports = {name: report(**{ONE: stats(topics=5000)}) for name in ("b1", "b2")}
    reports["b3"] = report(**{TWO: stats(topics=5000)})
    made = plan(reports, counts={"ten/ns": 126})
    assert [(each.bundle, each.source) for each in made.decisions] == [(ONE, "b2")]


@pytest.mark.parametrize(
    ("mbytes", "throughput", "splits"),
    [
        (2047, 1.0, False),
        (2048, 0.0, True),
        (3000, 0.0, True),
        (4096, 0.0, False),
        (4096, 1.0, True),
    ],
)
def test_quirk_the_bandwidth_limit_overflows(mbytes, throughput, splits):
    options = SplitOptions(max_bandwidth_mbytes=mbytes)
    made = plan(
        {"b": report(**{ONE: stats()})}, {ONE: long_term(throughput=throughput)}, None, options
    )
    assert bool(made.decisions) is splits
    if splits:
        assert "overflowed 32 bits" in made.decisions[0].sentence


def test_when_nothing_is_split_the_closest_to_each_limit_is_named():
    reports = {"b": report(**{ONE: stats(topics=5), TWO: stats(topics=900, sessions=4)})}
    made = plan(reports, {ONE: long_term(rate=20000)})
    closest = {each.setting: each for each in made.rejections}
    assert closest["loadBalancerNamespaceBundleMaxTopics"].subject == TWO
    assert closest["loadBalancerNamespaceBundleMaxMsgRate"].subject == ONE
    assert closest["loadBalancerNamespaceBundleMaxMsgRate"].value == 20000
    assert len(closest) == 4


def test_nothing_to_look_at():
    made = plan({})
    assert made.decisions == ()
    assert list(made.rejections) == []


topics = st.integers(0, 3000)


@given(st.lists(topics, max_size=20), st.integers(0, 3000), st.integers(0, 10))
def test_what_is_split_is_above_a_limit_and_the_rest_is_not(counts, limit, room):
    bundles = {f"ten/ns/0x{n:08x}_0x{n + 1:08x}": stats(topics=c) for n, c in enumerate(counts)}
    options = SplitOptions(max_topics=limit, maximum_bundles=4 + room)
    made = plan({"b": report(**bundles)}, options=options)
    above = [name for name, each in bundles.items() if each.topics > limit and each.topics >= 2]
    assert [each.bundle for each in made.decisions] == above[:room]

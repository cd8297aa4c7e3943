"""When a broker splits its own bundles: ``DefaultNamespaceBundleSplitStrategyTest``."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.decide.splitting import extensible
from counterpoise.decide.splitting.algorithms import algorithm
from counterpoise.decide.splitting.loads import BundleLoads
from counterpoise.decide.splitting.options import SplitOptions
from counterpoise.decide.splitting.request import SplitPoints, SplitRequest
from counterpoise.load.report import NamespaceBundleStats

FIRST = "my-tenant/my-namespace/0x00000000_0xffffffff"
SECOND = "my-tenant/my-namespace/0x00000000_0x0fffffff"
NAMESPACE = "my-tenant/my-namespace"
QUIET = {"consumer_count": 0, "producer_count": 0, "topics": 2}
HOT = NamespaceBundleStats(
    consumer_count=1000, producer_count=1000, topics=1000, msg_rate_in=1e6, msg_throughput_in=1e12
)
OPTIONS = SplitOptions(
    max_topics=100,
    max_sessions=100,
    max_msg_rate=100,
    max_bandwidth_mbytes=100,
    max_splits_per_cycle=1,
)


def halve(bundle):
    return algorithm(None, OPTIONS)(SplitRequest(bundle.range), OPTIONS)


def run(stats, memory=None, *, options=OPTIONS, split_points=halve, **about):
    known = {"owned": set(stats), "bundle_counts": {NAMESPACE: 2}, **about}
    loads = BundleLoads.measured("broker-1", stats)
    return extensible.find_own_bundles_to_split(
        loads,
        extensible.SplitScope(**known),
        memory or extensible.SplitMemory(),
        options,
        split_points,
    )


def rounds(count, stats, **more):
    """The last of several checks in a row."""
    made = run(stats, **more)
    for _ in range(count - 1):
        made = run(stats, made.memory, **more)
    return made


def test_the_fourth_check_in_a_row_splits_and_the_fifth_takes_the_next():
    memory = extensible.SplitMemory()
    found = []
    for _ in range(6):
        made = run({FIRST: HOT, SECOND: HOT}, memory)
        memory = made.memory
        found.append([(each.bundle, each.boundaries) for each in made.decisions])
    assert found == [[], [], [], [(FIRST, (0x7FFFFFFF,))], [(SECOND, (0x07FFFFFF,))], []]


def test_a_quiet_check_starts_the_count_again():
    memory = rounds(3, {FIRST: HOT}).memory
    memory = run({FIRST: NamespaceBundleStats(**QUIET)}, memory).memory
    assert memory.hits == {}
    assert run({FIRST: HOT}, memory).decisions == ()


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"topics": 101}, "Topics"),
        ({"topics": 100}, None),
        ({"consumer_count": 50, "producer_count": 51}, "Sessions"),
        ({"consumer_count": 50, "producer_count": 50}, None),
        ({"msg_rate_in": 60.0, "msg_rate_out": 40.1}, "MsgRate"),
        ({"msg_rate_in": 60.0, "msg_rate_out": 40.0}, None),
        ({"msg_throughput_in": 100 * 1048576.0, "msg_throughput_out": 1.0}, "Bandwidth"),
        ({"msg_throughput_in": 100 * 1048576.0}, None),
    ],
)
def test_each_limit_alone(more, reason):
    made = rounds(4, {FIRST: NamespaceBundleStats(**{**QUIET, **more})})
    assert [each.reason for each in made.decisions] == ([reason] if reason else [])


@pytest.mark.parametrize("topics", [0, 1])
def test_one_topic_is_never_split_and_keeps_its_hits(topics):
    memory = rounds(2, {FIRST: HOT}).memory
    lonely = NamespaceBundleStats(topics=topics, msg_rate_in=1e9)
    made = run({FIRST: lonely}, memory)
    assert made.decisions == ()
    assert made.memory.hits == {FIRST: 2}
    assert "too_few_topics" in {each.rule for each in made.rejections}
    assert run({FIRST: lonely, SECOND: HOT}, memory).memory.hits == {FIRST: 2, SECOND: 1}


def test_a_bundle_of_another_broker_is_not_split_and_keeps_its_hits():
    memory = rounds(3, {FIRST: HOT}).memory
    made = run({FIRST: HOT}, memory, owned=set())
    assert (made.decisions, made.memory.hits) == ((), {FIRST: 3})
    assert run({FIRST: HOT}, made.memory).decisions != ()


def test_a_namespace_at_its_maximum_waits_with_growing_hits():
    full = {"bundle_counts": {NAMESPACE: 128}}
    made = rounds(6, {FIRST: HOT}, **full)
    assert made.decisions == ()
    assert made.memory.hits == {FIRST: 6}
    assert [each.rule for each in made.rejections] == ["maximum_bundles"]
    assert run({FIRST: HOT}, made.memory).decisions != ()


def test_splits_of_this_round_count_towards_the_maximum():
    options = SplitOptions(max_topics=100, hit_count_threshold=0)
    third = "my-tenant/my-namespace/0x10000000_0x20000000"
    made = run(
        {FIRST: HOT, SECOND: HOT, third: HOT}, options=options, bundle_counts={NAMESPACE: 126}
    )
    assert [each.bundle for each in made.decisions] == [FIRST, SECOND]


def test_no_stats_nothing_to_do():
    made = rounds(5, {})
    assert (made.decisions, made.memory.hits) == ((), {})


def test_hits_of_a_bundle_that_is_gone_are_forgotten():
    memory = rounds(3, {FIRST: HOT}).memory
    assert run({SECOND: HOT}, memory).memory.hits == {SECOND: 1}


@pytest.mark.parametrize(
    ("splitting", "splits"),
    [
        (FIRST, False),
        ("my-tenant/my-namespace/0x00000000_0x0fffffff", False),
        ("my-tenant/my-namespace/0x10000000_0xffffffff", False),
        ("my-tenant/my-namespace/0x10000000_0x20000000", True),
        ("my-tenant/other/0x00000000_0xffffffff", True),
        # Quirk kept: a namespace whose name begins like ours.
        ("my-tenant/my-namespace2/0x00000000_0xffffffff", False),
    ],
)
def test_a_neighbour_that_is_splitting_holds_back(splitting, splits):
    made = rounds(4, {FIRST: HOT}, splitting=[splitting])
    assert bool(made.decisions) is splits
    if not splits:
        assert splitting in next(iter(made.rejections)).sentence


@pytest.mark.parametrize("points", [(), (5, 6), (0,), (0xFFFFFFFF,)])
def test_anything_but_one_boundary_inside_fails_and_is_tried_again(points):
    def split_points(bundle):
        return SplitPoints(points, "made_up", "made up")

    made = rounds(5, {FIRST: HOT}, split_points=split_points)
    assert made.decisions == ()
    assert made.memory.hits == {FIRST: 5}
    assert [each.rule for each in made.rejections] == ["failure"]


@pytest.mark.parametrize("bundle", ["my-tenant/my-namespace/0x00000000_0x00000001", "nonsense"])
def test_what_cannot_be_cut_is_a_failure(bundle):
    made = rounds(4, {bundle: HOT})
    assert made.decisions == ()
    [rejection] = made.rejections
    assert rejection.rule == "failure"
    assert "too narrow" in rejection.sentence
    assert made.memory.hits == {}


def test_an_unknown_namespace_is_a_failure():
    made = rounds(4, {FIRST: HOT}, bundle_counts={})
    assert [each.rule for each in made.rejections] == ["failure"]


@pytest.mark.parametrize(("limit", "amount"), [(0, 3), (2, 2), (3, 3)])
def test_how_many_at_once(limit, amount):
    names = [f"{NAMESPACE}/0x{n}0000000_0x{n}fffffff" for n in (1, 2, 3)]
    options = SplitOptions(max_topics=100, hit_count_threshold=0, max_splits_per_cycle=limit)
    made = run(dict.fromkeys(names, HOT), options=options)
    assert [each.bundle for each in made.decisions] == names[:amount]


def test_the_wait_is_explained():
    made = rounds(2, {FIRST: HOT})
    [rejection] = made.rejections
    assert (rejection.rule, rejection.value, rejection.limit) == ("hit_count", 2, 3)
    assert rejection.setting == "loadBalancerNamespaceBundleSplitConditionHitCountThreshold"


def test_memory_survives_as_json():
    memory = rounds(2, {FIRST: HOT}).memory
    assert extensible.SplitMemory.from_json(memory.to_json()) == memory


@given(st.lists(st.booleans(), max_size=20), st.integers(0, 4))
def test_a_split_comes_after_more_hot_checks_in_a_row_than_the_threshold(checks, threshold):
    options = SplitOptions(max_topics=100, hit_count_threshold=threshold)
    memory, streak = extensible.SplitMemory(), 0
    for hot in checks:
        made = run({FIRST: HOT if hot else NamespaceBundleStats(**QUIET)}, memory, options=options)
        memory = made.memory
        streak = streak + 1 if hot else 0
        assert bool(made.decisions) is (streak > threshold)
        if made.decisions:
            streak = 0


def test_a_bundle_above_a_limit_that_is_not_split_is_never_passed_over_in_silence():
    made = run({FIRST: HOT}, owned=set())
    [rejection] = made.rejections
    assert "does not own it any more" in rejection.sentence
    made = rounds(4, {FIRST: HOT, SECOND: HOT})
    assert [each.bundle for each in made.decisions] == [FIRST]
    [rejection] = made.rejections
    assert rejection.subject == SECOND
    assert rejection.setting == "loadBalancerMaxNumberOfBundlesToSplitPerCycle"
    assert "1 are split already" in rejection.sentence


def test_a_bundle_of_another_broker_below_every_limit_needs_no_word():
    made = run({FIRST: NamespaceBundleStats(**QUIET)}, owned=set())
    assert {each.rule for each in made.rejections} == {"below_limit"}
    assert {each.value for each in made.rejections} == {0.0, 2.0}
    hot = rounds(4, {FIRST: HOT, SECOND: NamespaceBundleStats(**QUIET)})
    assert (len(hot.decisions), hot.rejections) == (1, ())


@pytest.mark.parametrize(("count", "splits"), [(126, 2), (127, 1), (128, 0)])
def test_a_namespace_may_have_its_maximum_but_no_more(count, splits):
    options = SplitOptions(max_topics=100, hit_count_threshold=0)
    made = run({FIRST: HOT, SECOND: HOT}, options=options, bundle_counts={NAMESPACE: count})
    assert len(made.decisions) == splits
    also = ["with those that are split now" in each.sentence for each in made.rejections]
    assert also == [[False, False], [True], []][splits]
    assert [each.value for each in made.rejections] == [128] * (2 - splits)


def test_the_narrowest_bundle_that_can_be_cut_is_cut():
    narrow = f"{NAMESPACE}/0x00000004_0x00000006"
    [decision] = rounds(4, {narrow: HOT}).decisions
    assert decision.boundaries == (5,)


@pytest.mark.parametrize(
    ("points", "why"),
    [((), "the algorithm answers no boundary: too few"), ((5, 6), "answers 2 boundaries instead")],
)
def test_an_algorithms_answer_that_is_of_no_use_is_named(points, why):
    made = rounds(
        4, {FIRST: HOT}, split_points=lambda bundle: SplitPoints(points, "made_up", "too few")
    )
    assert why in made.rejections[0].sentence


@pytest.mark.parametrize(("limit", "reason"), [(-1, None), (0, None), (1, "Sessions")])
def test_no_limit_of_sessions_is_set_by_zero_and_less(limit, reason):
    options = SplitOptions(hit_count_threshold=0, max_sessions=limit)
    made = run({FIRST: NamespaceBundleStats(topics=2, producer_count=2)}, options=options)
    assert [each.reason for each in made.decisions] == ([reason] if reason else [])
    settings = {each.setting for each in made.rejections}
    assert "loadBalancerNamespaceBundleMaxSessions" not in settings


@pytest.mark.parametrize(
    ("topics", "held"), [(0, "holds no topic"), (1, "holds one topic"), (2, "")]
)
def test_what_has_fewer_than_two_topics_says_how_many(topics, held):
    lonely = NamespaceBundleStats(topics=topics, msg_throughput_in=1e12)
    made = rounds(4, {FIRST: lonely})
    said = [each.sentence for each in made.rejections]
    assert bool(said) is bool(held)
    assert bool(made.decisions) is not bool(held)
    assert any(held in each for each in said) is bool(held)
    assert all("overflowed" not in each.sentence for each in made.decisions)

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.decide.splitting.algorithms import ALGORITHMS, algorithm
from counterpoise.decide.splitting.options import MEBIBYTE, SplitOptions
from counterpoise.decide.splitting.request import SplitRequest, TopicPoint
from counterpoise.load.topic_loads import TopicLoad
from counterpoise.names.bundle import BundleRange

FULL = 0xFFFFFFFF
HALF = BundleRange(0, 0x80000000)
RANGE, COUNT, POSITIONS, FLOW = ALGORITHMS.values()

DOCUMENTS_TOPICS = [0x10000000, 0x15000000, 0x24000000, 0x39000000, 0x58000000, 0x76000000]
"""The worked example of the documents: six topics of 100 to 600 msg/s and 10 to 60 MB/s."""


def flow_topics(*loads):
    """Topics from (point, msg/s) or (point, msg/s, bytes/s)."""
    return [TopicPoint(point, TopicLoad(rate, 0.0, *rest)) for point, rate, *rest in loads]


def documents_topics():
    return flow_topics(
        *(
            (point, 100.0 * nth, 10.0 * nth * MEBIBYTE)
            for nth, point in enumerate(DOCUMENTS_TOPICS, start=1)
        )
    )


def cut_between(boundaries, points):
    """Which gaps between the rising points the boundaries fall into, by the gap's left point."""
    return [sum(point < boundary for point in sorted(points)) for boundary in boundaries]


@pytest.mark.parametrize(
    ("bundle", "middle"),
    [
        (BundleRange(0, 0x80000000), 0x40000000),
        (BundleRange(0, FULL), 0x7FFFFFFF),
        (BundleRange(10, FULL), 10 + (FULL - 10) // 2),
        (BundleRange(4, 5), 4),
    ],
)
def test_range_cuts_in_the_middle(bundle, middle):
    assert RANGE(SplitRequest(bundle), SplitOptions()).boundaries == (middle,)


def test_topic_count_cuts_where_the_documents_say():
    points = [0x10000000, 0x20000000, 0x35000000, 0x65000000, 0x70000000, 0x75000000]
    answer = COUNT(SplitRequest(HALF, [TopicPoint(each) for each in points]), SplitOptions())
    assert cut_between(answer.boundaries, points) == [3]
    assert answer.boundaries == (0x4D000000,)  # documents: 0x50000000, in the same gap


@pytest.mark.parametrize(
    ("points", "boundary", "left", "right"),
    [
        ([1, 2], 1, 0, 2),
        ([7, 7], 7, 0, 2),
        ([30, 10, 20], 15, 1, 2),
        ([10, 20, 30, 40, 50], 25, 2, 3),
        ([4, 4, 4, 100], 4, 0, 4),
    ],
)
def test_topic_count_middle(points, boundary, left, right):
    request = SplitRequest(HALF, [TopicPoint(each) for each in points])
    answer = COUNT(request, SplitOptions())
    assert answer.boundaries == (boundary,)
    assert answer.reason == f"0x{boundary:08x} leaves {left} topics left and {right} right"


@pytest.mark.parametrize("chosen", [COUNT, POSITIONS, FLOW])
@pytest.mark.parametrize("topics", [[], [TopicPoint(5, TopicLoad(1e9))]])
def test_one_topic_or_none_is_not_cut(chosen, topics):
    answer = chosen(SplitRequest(HALF, topics, [9]), SplitOptions())
    assert answer.boundaries == ()
    assert answer.rule == "too_few_topics"
    assert ("one topic" if topics else "no topics") in answer.reason


def test_positions_keep_what_lies_strictly_inside():
    request = SplitRequest(
        BundleRange(1, 1000),
        [TopicPoint(5), TopicPoint(6)],
        [800, -1, 0, 1, 100, 200, 500, 1000, 1100],
    )
    answer = POSITIONS(request, SplitOptions())
    assert answer.boundaries == (100, 200, 500, 800)
    assert answer.reason == "4 of the positions given; 5 outside the range were left out"


def test_positions_given_twice_stay_twice():
    request = SplitRequest(HALF, [TopicPoint(5), TopicPoint(6)], [9, 9])
    assert POSITIONS(request, SplitOptions()).boundaries == (9, 9)


def test_positions_outside_are_no_split():
    request = SplitRequest(HALF, [TopicPoint(5), TopicPoint(6)], [0, 0x80000000])
    answer = POSITIONS(request, SplitOptions())
    assert (answer.boundaries, answer.rule) == ((), "positions_outside")


def test_no_positions_are_named():
    request = SplitRequest(HALF, [TopicPoint(5), TopicPoint(6)])
    assert POSITIONS(request, SplitOptions()).rule == "no_positions"


def test_positions_of_the_documents():
    request = SplitRequest(
        BundleRange(0, 0x40000000), [TopicPoint(0x30000000), TopicPoint(0x35000000)], [0x33000000]
    )
    assert POSITIONS(request, SplitOptions()).boundaries == (0x33000000,)


@pytest.mark.parametrize(
    ("rate", "mbytes", "gaps", "boundaries"),
    [
        (450, 200, [2, 3, 4, 5], (0x1C800001, 0x2E800001, 0x48800001, 0x67000001)),
        (1900, 90, [3, 5], (0x2E800001, 0x67000001)),
        (1100, 110, [4], (0x48800001,)),
    ],
)
def test_flow_cuts_between_the_topics_the_documents_name(rate, mbytes, gaps, boundaries):
    options = SplitOptions(max_msg_rate=rate, max_bandwidth_mbytes=mbytes)
    answer = FLOW(SplitRequest(HALF, documents_topics()), options)
    assert cut_between(answer.boundaries, DOCUMENTS_TOPICS) == gaps
    assert answer.boundaries == boundaries


@pytest.mark.parametrize(("limit", "splits"), [(1910, False), (1909, True)])
def test_flow_starts_at_the_limit_plus_the_difference(limit, splits):
    topics = flow_topics((10, 1000.0), (20, 1100.0))
    answer = FLOW(SplitRequest(HALF, topics), SplitOptions(max_msg_rate=limit))
    assert bool(answer.boundaries) is splits
    if not splits:
        assert answer.rule == "below_limits"


def test_flow_exactly_at_the_limit_goes_on_and_finds_that_one_part_holds_all():
    topics = flow_topics((10, 1000.0), (20, 1000.0))
    options = SplitOptions(max_msg_rate=2000, flow_difference_percentage=0)
    assert FLOW(SplitRequest(HALF, topics), options).rule == "one_part_holds_all"
    below = SplitOptions(max_msg_rate=2001, flow_difference_percentage=0)
    assert FLOW(SplitRequest(HALF, topics), below).rule == "below_limits"
    heavy = flow_topics((10, 1.0, 2.0**20), (20, 1.0, 2.0**20))
    assert FLOW(
        SplitRequest(HALF, heavy),
        SplitOptions(max_bandwidth_mbytes=2, flow_difference_percentage=0),
    ).rule == ("one_part_holds_all")


def test_flow_counts_both_ways():
    megabyte = float(MEBIBYTE)
    topics = [
        TopicPoint(10, TopicLoad(1.0, 0.0, 3 * megabyte, 3 * megabyte)),
        TopicPoint(20, TopicLoad(0.0, 1.0, 6 * megabyte, 0.0)),
    ]
    answer = FLOW(SplitRequest(HALF, topics), SplitOptions(max_bandwidth_mbytes=10))
    assert answer.boundaries == (16,)
    assert answer.reason.startswith("2 parts")


def test_flow_separates_neighbours():
    topics = flow_topics((10, 100.0), (11, 100.0))
    answer = FLOW(SplitRequest(HALF, topics), SplitOptions(max_msg_rate=100))
    assert answer.boundaries == (11,)


def test_flow_counts_the_last_of_topics_at_one_point_for_each():
    topics = flow_topics((5, 100.0), (5, 300.0), (9, 50.0))
    answer = FLOW(SplitRequest(HALF, topics), SplitOptions(max_msg_rate=200))
    assert answer.boundaries == (6, 8)


def test_flow_cannot_part_topics_at_one_point():
    topics = flow_topics((5, 1e6), (5, 1e6))
    answer = FLOW(SplitRequest(HALF, topics), SplitOptions())
    assert (answer.boundaries, answer.rule) == ((), "too_few_busy_topics")


def test_flow_leaves_idle_and_unknown_topics_out():
    idle = [TopicPoint(1, TopicLoad()), TopicPoint(2, None)]
    topics = [*idle, *flow_topics((10, 100.0), (20, 100.0))]
    answer = FLOW(SplitRequest(HALF, topics), SplitOptions(max_msg_rate=100))
    assert answer.boundaries == (16,)


@pytest.mark.parametrize(
    "load",
    [TopicLoad(2.0), TopicLoad(0.0, 2.0), TopicLoad(0.0, 0.0, 2e6), TopicLoad(0.0, 0.0, 0.0, 2e6)],
)
def test_flow_counts_topics_with_messages_or_bytes_alone(load):
    topics = [TopicPoint(10, load), TopicPoint(20, load)]
    answer = FLOW(SplitRequest(HALF, topics), SplitOptions(max_msg_rate=3, max_bandwidth_mbytes=3))
    assert answer.boundaries == (16,)


def test_flow_bandwidth_limit_does_not_overflow():
    topics = flow_topics((10, 1.0, 2e9), (20, 1.0, 2e9))
    below = SplitOptions(max_bandwidth_mbytes=4096)
    assert FLOW(SplitRequest(HALF, topics), below).rule == "below_limits"


loads = st.builds(
    TopicPoint,
    st.integers(0, 0x7FFFFFFF),
    st.none()
    | st.builds(TopicLoad, *(st.floats(0, 2000) for _ in range(2)), st.just(0.0), st.just(0.0)),
)


@given(st.lists(loads, max_size=40, unique_by=lambda topic: topic.point), st.integers(1, 3000))
def test_flow_parts_hold_one_topic_or_stay_below_the_limit(topics, limit):
    answer = FLOW(SplitRequest(HALF, topics), SplitOptions(max_msg_rate=limit))
    assert list(answer.boundaries) == sorted(set(answer.boundaries))
    edges = [0, *answer.boundaries, 0x80000000]
    busy = [(each.point, sum(each.load)) for each in topics if each.load and sum(each.load) > 0]
    if not answer.boundaries:
        return
    for left, right in itertools.pairwise(edges):
        part = [rate for point, rate in busy if left <= point < right]
        assert len(part) == 1 or sum(part) <= limit * (1 + 1e-9)


@given(st.lists(st.integers(0, 0x7FFFFFFF), min_size=2, max_size=30, unique=True))
def test_topic_count_halves_topics_that_are_apart(points):
    middle = sorted(points)[len(points) // 2 - 1 : len(points) // 2 + 1]
    answer = COUNT(SplitRequest(HALF, [TopicPoint(each) for each in points]), SplitOptions())
    left = sum(point < answer.boundaries[0] for point in points)
    apart = middle[1] - middle[0] > 1
    assert left == (len(points) // 2 if apart else len(points) // 2 - 1)


@pytest.mark.parametrize(
    ("name", "default", "resolved"),
    [
        ("topic_count_equally_divide", "range_equally_divide", COUNT),
        ("unknown", "flow_or_qps_equally_divide", FLOW),
        (None, "topic_count_equally_divide", COUNT),
        (None, "unknown", RANGE),
        ("flow_or_qps_equally_divide", "range_equally_divide", FLOW),
    ],
)
def test_names_resolve(name, default, resolved):
    assert algorithm(name, SplitOptions(default_algorithm=default)) is resolved

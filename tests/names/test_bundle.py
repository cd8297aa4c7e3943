import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.names.bundle import (
    FULL_RANGE,
    BundleName,
    BundleRange,
    NamespaceBundles,
    parse_boundary,
    split_points,
)
from counterpoise.names.errors import InvalidName
from counterpoise.names.namespace import NamespaceName
from counterpoise.names.topic import TopicName

from .strategies import FULL, bundles, points, ranges, rings, topics

NS = NamespaceName("acme", "shop")


@given(bundles)
def test_a_bundle_reads_back_as_it_was_written(bundle):
    assert BundleName.parse(str(bundle)) == bundle


@given(rings, points)
def test_every_point_lies_in_exactly_the_bundle_found(ring, point):
    found = ring.find(point)
    assert [each for each in ring.bundles if point in each.range] == [found]


@given(rings, topics)
def test_a_topic_lies_in_its_bundle(ring, topic):
    namespace = topic.namespace_name
    ring = NamespaceBundles(namespace, ring.boundaries)
    assert topic in ring.bundle_of(topic)


def test_the_last_point_of_the_ring_is_in_the_last_bundle():
    ring = NamespaceBundles.of_count(NS, 4)
    assert str(ring.find(FULL)) == "acme/shop/0xc0000000_0xffffffff"


@pytest.mark.parametrize(
    ("count", "boundaries"),
    [
        (1, [0, FULL]),
        (3, [0, 0x55555555, 0xAAAAAAAA, FULL]),
        (4, [0, 0x40000000, 0x80000000, 0xC0000000, FULL]),
        (7, [0, *(0x24924924 * k for k in range(1, 7)), FULL]),
    ],
)
def test_equal_bundles(count, boundaries):
    assert list(NamespaceBundles.of_count(NS, count).boundaries) == boundaries


@given(st.integers(1, 300))
def test_a_namespace_has_as_many_bundles_as_asked(count):
    assert len(NamespaceBundles.of_count(NS, count).bundles) == count


@pytest.mark.parametrize("count", [0, -1])
def test_no_bundles_are_refused(count):
    with pytest.raises(InvalidName, match="at least 1"):
        NamespaceBundles.of_count(NS, count)


@pytest.mark.parametrize(
    "boundaries",
    [(), (0,), (FULL,), (0, 5), (5, FULL), (0, 5, 5, FULL), (0, 9, 5, FULL), (0, -1, FULL)],
)
def test_boundaries_that_do_not_cover_the_ring_are_refused(boundaries):
    with pytest.raises(InvalidName, match="boundaries must"):
        NamespaceBundles(NS, boundaries)


def test_written_boundaries_may_repeat_and_come_in_any_order():
    texts = ["0xffffffff", "0x80000000", "0x00000000", "0x80000000"]
    assert NamespaceBundles.from_text(NS, texts).boundary_texts == [
        "0x00000000",
        "0x80000000",
        "0xffffffff",
    ]


@pytest.mark.parametrize(
    ("text", "value"), [("0x10", 16), ("0X1f", 31), ("#ff", 255), ("010", 8), ("10", 10), ("0", 0)]
)
def test_boundaries_are_read_by_javas_rules(text, value):
    assert parse_boundary(text) == value


@pytest.mark.parametrize("text", ["", "0x", "x", "-1", "0x100000000", "1.5", "09", "0x1_0"])
def test_what_is_no_boundary_is_refused(text):
    with pytest.raises(InvalidName, match="0x00000000 to 0xffffffff"):
        parse_boundary(text)


@pytest.mark.parametrize(
    "text", ["", "0x0", "0x1_0x1", "0x2_0x1", "0xffffffff_0x0", "0x0_", "0x0_0x1_0x2"]
)
def test_what_is_no_range_is_refused(text):
    with pytest.raises(InvalidName, match=r"expected|must be below|0x00000000 to 0xffffffff"):
        BundleRange.parse(text)


def test_a_range_holds_its_lower_bound_and_only_the_last_its_upper():
    assert 10 in BundleRange(10, 20)
    assert 20 not in BundleRange(10, 20)
    assert FULL in BundleRange(10, FULL)
    assert FULL in BundleRange(FULL, FULL)


def test_a_bundle_holds_topics_of_its_own_namespace_alone():
    bundle = BundleName.parse("public/default/0x00000000_0xffffffff")
    assert TopicName.parse("public/default/orders") in bundle
    assert TopicName.parse("public/other/orders") not in bundle


def test_a_name_of_any_number_of_zeros_is_not_kept_in_memory():
    with pytest.raises(InvalidName, match="expected tenant/namespace/0xLOWER_0xUPPER"):
        BundleName.parse("t/n/0x" + "0" * 600 + "_0xffffffff")


def test_validation_wants_both_bounds():
    ring = NamespaceBundles.of_count(NS, 4)
    assert ring.validate(BundleRange(0x40000000, 0x80000000)) == ring.bundles[1]
    for wrong in (BundleRange(0x40000000, FULL), BundleRange(1, 0x40000000), BundleRange(0, 1)):
        with pytest.raises(InvalidName, match="no such bundle"):
            ring.validate(wrong)


@pytest.mark.parametrize(
    ("bundle", "boundaries", "n", "cuts"),
    [
        (BundleRange(0, FULL), None, 2, (0x7FFFFFFF,)),
        (BundleRange(0, FULL), None, 3, (0x55555555, 0xAAAAAAAA)),
        (BundleRange(0, 10), None, 3, (3, 6)),
        (BundleRange(0, 10), [7, 2], 5, (2, 7)),
        (BundleRange(0, 2), None, 2, (1,)),
    ],
)
def test_where_a_bundle_is_cut(bundle, boundaries, n, cuts):
    assert split_points(bundle, boundaries, n) == cuts


@pytest.mark.parametrize(
    ("bundle", "boundaries", "n", "why"),
    [
        (BundleRange(0, 1), None, 2, "narrow"),
        (BundleRange(FULL - 1, FULL), None, 2, "narrow"),
        (BundleRange(FULL, FULL), None, 2, "narrow"),
        (BundleRange(5, 10), [5], 2, "strictly inside"),
        (BundleRange(5, 10), [10], 2, "strictly inside"),
        (BundleRange(5, 10), [7, 7], 2, "differ"),
        (BundleRange(5, 10), None, 1, "at least 2"),
        (BundleRange(5, 10), None, 0, "at least 2"),
        (BundleRange(5, 10), None, 9, "strictly inside"),
    ],
)
def test_a_cut_that_cannot_be_made_is_refused(bundle, boundaries, n, why):
    with pytest.raises(InvalidName, match=why):
        split_points(bundle, boundaries, n)


def test_a_split_in_two_is_the_default():
    whole = NamespaceBundles(NS, (0, FULL))
    assert whole.bundles[0].range == FULL_RANGE
    assert whole.split(FULL_RANGE).boundaries == (0, 0x7FFFFFFF, FULL)
    assert split_points(FULL_RANGE) == (0x7FFFFFFF,)


@given(rings, st.integers(2, 9), st.data())
def test_a_split_changes_one_bundle_and_covers_it(ring, n, data):
    wide = [each for each in ring.bundles if each.range.upper - each.range.lower > n]
    if not wide:
        return
    parent = data.draw(st.sampled_from(wide))
    after = ring.split(parent.range, n=n)
    assert len(after.bundles) == len(ring.bundles) + n - 1
    assert set(ring.bundles) - set(after.bundles) == {parent}
    children = after.children(parent.range)
    assert len(children) == n
    assert (children[0].range.lower, children[-1].range.upper) == (
        parent.range.lower,
        parent.range.upper,
    )


@given(ranges, st.lists(points, min_size=1, max_size=5))
def test_a_cut_lies_inside_or_is_refused(bundle, boundaries):
    inside = len(set(boundaries)) == len(boundaries) and all(
        bundle.lower < point < bundle.upper for point in boundaries
    )
    try:
        cuts = split_points(bundle, boundaries)
    except InvalidName:
        assert not inside
    else:
        assert inside
        assert cuts == tuple(sorted(boundaries))

"""Split advice is slow to say yes, and names the topic that makes a bundle hot."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import count

import numpy as np
import pytest

from counterpoise.decide.advice.plan import SplitAdvice
from counterpoise.decide.advice.splits import SplitEvidence, advise_splits, hot_bundles
from counterpoise.decide.splitting.options import SplitOptions
from counterpoise.load.fold import Batch, FoldState, fold
from counterpoise.load.fold_view import cluster_view
from counterpoise.load.topic_loads import TopicLoad
from counterpoise.names.hashing import topic_hash
from tests.load.story import START, Loads, poll

WHOLE = "public/default/0x00000000_0xffffffff"
OTHER = "public/other/0x00000000_0xffffffff"
REPORTED: dict[str, Loads | None] = {"b1:80": {WHOLE: 90_000.0, OTHER: 10.0}, "b2:80": {}}
NAMES = [f"persistent://public/default/t{number}" for number in range(10)]


def looked_at(times: int, reported: dict[str, Loads | None]) -> SplitEvidence:
    state = FoldState.empty()
    for number in range(times):
        state = fold(state, Batch.of(poll(number, reported)))
    return SplitEvidence(cluster_view(state, START))


def even(names: list[str] = NAMES) -> dict[str, TopicLoad]:
    return {name: TopicLoad(msg_throughput_in=9000.0) for name in names}


def advice(
    topics: Mapping[str, TopicLoad],
    times: int = 6,
    options: SplitOptions | None = None,
    counts: Mapping[str, int] | None = None,
) -> SplitAdvice:
    snapshot = replace(
        looked_at(times, REPORTED),
        topics={WHOLE: topics} if topics else {},
        bundle_counts=counts or {},
    )
    found = advise_splits(snapshot, options or SplitOptions())[0]
    assert found.bundle == WHOLE, "the hottest comes first"
    assert found.broker == "b1:80"
    return found


def test_a_bundle_too_large_for_any_broker_is_worth_a_split_that_divides_it() -> None:
    found = advice(even())
    assert found.verdict == "split"
    assert "alone it carries 270 kB/s, more than the 135 kB/s" in found.why
    assert "cannot be undone" in found.why
    assert f"split-bundle public/default --bundle {WHOLE.rpartition('/')[2]}" in found.command
    assert f"--unload --split-algorithm-name {found.algorithm}" in found.command
    assert ("--split-boundaries" in found.command) is found.algorithm.startswith("specified")
    assert [each.share for each in found.hottest] == [0.1] * 5


def test_no_bundle_is_too_large_for_a_cluster_of_one_broker() -> None:
    """Its average may be more than all that the broker carries now."""
    state = FoldState.empty()
    for number, load in enumerate((90_000.0,) * 6 + (10.0,)):
        state = fold(state, Batch.of(poll(number, {"b1:80": {WHOLE: load}})))
    assert hot_bundles(SplitEvidence(cluster_view(state, START)), SplitOptions()) == {}


def test_one_hot_topic_is_named_and_the_bundle_left_whole() -> None:
    topics = even() | {NAMES[3]: TopicLoad(msg_throughput_out=900_000.0)}
    found = advice(topics)
    assert (found.verdict, found.command) == ("partition", "")
    assert found.hottest[0].topic == NAMES[3]
    assert f"{NAMES[3]} is 92% of it" in found.why


def test_messages_count_where_no_broker_counts_bytes() -> None:
    topics = {NAMES[0]: TopicLoad(msg_rate_in=99.0), NAMES[1]: TopicLoad(msg_rate_out=1.0)}
    assert advice(topics).hottest[0].share == pytest.approx(0.99)


def test_what_was_seen_for_a_moment_only_waits() -> None:
    found = advice(even(), times=4)
    assert found.verdict == "wait"
    assert "4 of the 5 reports" in found.why
    assert advice(even(), times=5).verdict == "split"
    for grown, verdict in ((1.5, "split"), (9.0, "wait")):
        state = FoldState.empty()
        for number in range(120):
            load = 90_000.0 * (grown if number >= 100 else 1.0)
            looks = poll(number, {"b1:80": {WHOLE: load}, "b2:80": {}})
            state = fold(state, Batch.of(looks))
        seen = SplitEvidence(cluster_view(state, START), topics={WHOLE: even()})
        assert advise_splits(seen, SplitOptions())[0].verdict == verdict


def test_a_part_with_80_percent_is_worth_a_split_and_one_with_more_is_not() -> None:
    for share, verdict in ((80.0, "split"), (81.0, "partition")):
        topics = {NAMES[0]: TopicLoad(share), NAMES[1]: TopicLoad(100.0 - share)}
        topics = {n: TopicLoad(msg_throughput_in=t.msg_rate_in) for n, t in topics.items()}
        assert advice(topics).verdict == verdict


def test_pulsars_plain_way_is_good_enough_where_it_is_nearly_the_best() -> None:
    """The last topic before the middle has 4 % of the load: the best split is before it."""
    points = sorted((topic_hash(f"{NAMES[0]}-{n}"), f"{NAMES[0]}-{n}") for n in range(40))
    left = [name for point, name in points if point < 2**31]
    right = [name for point, name in points if point >= 2**31]
    shares = {left[0]: 50.0, left[-1]: 4.0, right[0]: 46.0}
    topics = {name: TopicLoad(msg_throughput_in=share) for name, share in shares.items()}
    found = advice(topics)
    assert found.algorithm == "range_equally_divide"
    assert "has 54% of it" in found.why


def test_a_bundle_that_may_not_move_is_not_split() -> None:
    heartbeat = "pulsar/b1:80/0x00000000_0xffffffff"
    reported: dict[str, Loads | None] = {"b1:80": {heartbeat: 90_000.0, OTHER: 10.0}, "b2:80": {}}
    assert not advise_splits(looked_at(6, reported), SplitOptions())
    assert not hot_bundles(looked_at(6, reported), SplitOptions(max_msg_rate=100))


def test_what_is_hot_now_and_was_not_in_the_long_run_waits() -> None:
    quiet: dict[str, Loads | None] = {"b1:80": {WHOLE: 10.0, OTHER: 10.0}, "b2:80": {}}
    state = FoldState.empty()
    for number in range(60):
        state = fold(state, Batch.of(poll(number, quiet if number < 40 else REPORTED)))
    snapshot = SplitEvidence(cluster_view(state, START), topics={WHOLE: even()})
    [found] = advise_splits(snapshot, SplitOptions())
    assert found.verdict == "wait"
    assert "it carries 237 kB/s now and 90.0 kB/s in the long run" in found.why


def test_a_namespace_with_enough_bundles_is_left() -> None:
    found = advice(even(), counts={"public/default": 128})
    assert found.verdict == "leave"
    assert "loadBalancerNamespaceMaximumBundles" in found.why


def test_topics_that_no_broker_reported_are_no_reason_to_split() -> None:
    found = advice({})
    assert found.verdict == "wait"
    assert "not known" in found.why


def test_topics_on_one_side_of_the_middle_are_cut_where_they_are_divided() -> None:
    left = [f"persistent://public/default/x{n}" for n in range(200)]
    left = [name for name in left if topic_hash(name) < 2**31][:8]
    found = advice(even(left))
    assert found.verdict == "split"
    assert found.algorithm != "range_equally_divide", "the middle has them all on one side"
    assert "has 50% of it" in found.why


def test_a_topic_at_the_cut_is_in_the_right_part() -> None:
    """A range begins with its lower bound, and its middle is this topic's point."""
    names = (f"persistent://public/default/at{n}" for n in count())
    point = topic_hash(at := next(names))
    near = next(each for each in names if point - 2**22 < topic_hash(each) < point)
    bundle = f"public/default/0x{point - 2**22:08x}_0x{point + 2**22:08x}"
    reported: dict[str, Loads | None] = {"b1:80": {bundle: 90_000.0, OTHER: 10.0}, "b2:80": {}}
    topics = {each: TopicLoad(msg_throughput_in=9000.0) for each in (at, near)}
    evidence = replace(looked_at(6, reported), topics={bundle: topics})
    [found] = advise_splits(evidence, SplitOptions())
    assert found.algorithm == "range_equally_divide"
    assert f"split at 0x{point:08x} by range_equally_divide, the larger part has 50%" in found.why


def test_two_topics_at_one_point_cannot_be_cut_apart() -> None:
    heavy = {NAMES[0]: TopicLoad(msg_throughput_in=5.0), NAMES[1]: TopicLoad(msg_throughput_in=5.0)}
    assert advice(heavy).verdict == "split"
    assert advice({NAMES[0]: TopicLoad(msg_throughput_in=5.0)}).verdict == "partition"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (SplitOptions(max_topics=2), "3 topics, limit 2 (loadBalancerNamespaceBundleMaxTopics)"),
        (SplitOptions(max_msg_rate=100), "(loadBalancerNamespaceBundleMaxMsgRate)"),
    ],
)
def test_the_limit_that_is_exceeded_is_named(options: SplitOptions, said: str) -> None:
    assert said in advice(even(), options=options).why


def test_even_brokers_without_a_bundle_above_a_limit_need_no_advice() -> None:
    calm: dict[str, Loads | None] = {"b1:80": {WHOLE: 50.0}, "b2:80": {OTHER: 50.0}}
    assert not advise_splits(looked_at(6, calm), SplitOptions())


def test_however_little_topics_carry_each_has_its_part_of_the_bundle() -> None:
    for load in (TopicLoad(msg_throughput_in=0.05), TopicLoad(msg_rate_out=0.05)):
        assert [each.share for each in advice(dict.fromkeys(NAMES, load)).hottest] == [0.1] * 5


def test_the_hottest_bundles_come_first() -> None:
    carried = enumerate((30_000.0, 90_000.0, 60_000.0))
    loads = {f"public/n{n}/0x00000000_0xffffffff": load for n, load in carried}
    reported: dict[str, Loads | None] = {"b1:80": loads, **{f"b{n}:80": {} for n in range(2, 10)}}
    found = advise_splits(looked_at(6, reported), SplitOptions())
    assert [each.bundle for each in found] == sorted(loads, key=lambda each: -loads[each])


def in_order(*shares: float) -> dict[str, TopicLoad]:
    """Topics on the left half of the bundle, from its lower bound on, with these shares."""
    names = sorted((f"persistent://public/default/x{n}" for n in range(200)), key=topic_hash)
    return {name: TopicLoad(msg_throughput_in=s) for name, s in zip(names, shares, strict=False)}


@pytest.mark.parametrize(
    ("shares", "algorithm", "larger"),
    [
        # Of five topics Pulsar cuts behind the second; the best place is behind the first.
        ((60.0, 5.0, 5.0, 5.0, 25.0), "topic_count_equally_divide", 65),
        ((60.0, 6.0, 5.0, 5.0, 24.0), "specified_positions_divide", 60),
    ],
)
def test_a_place_of_ones_own_is_named_where_it_divides_more_evenly(
    shares: tuple[float, ...], algorithm: str, larger: int
) -> None:
    topics = in_order(*shares)
    found = advice(topics)
    assert (found.verdict, found.algorithm) == ("split", algorithm)
    assert f"the larger part has {larger}% of it" in found.why
    if algorithm == "specified_positions_divide":
        first, second, *_ = map(topic_hash, topics)
        boundary = int(found.command.rpartition("--split-boundaries ")[2])
        assert first < boundary <= second
        assert f"split at 0x{boundary:08x} by" in found.why


@pytest.mark.parametrize(
    ("shares", "verdict"), [((10.0, 80.0, 10.0), "leave"), ((20.0, 60.0, 20.0), "split")]
)
def test_a_heavy_topic_between_light_ones_is_not_worth_a_cut(
    shares: tuple[float, ...], verdict: str
) -> None:
    found = advice(in_order(*shares))
    assert found.verdict == verdict
    part = f"{100 - shares[0]:.0f}% of it"
    assert (f"the best split leaves {part} in one part" in found.why) is (verdict == "leave")
    assert bool(found.command) is (verdict == "split")


@pytest.mark.parametrize(("topics", "verdict"), [(0, "partition"), (1, "partition"), (2, "wait")])
def test_a_bundle_with_fewer_than_two_topics_is_left_whole(topics: int, verdict: str) -> None:
    seen = looked_at(6, REPORTED).view
    few = replace(seen.bundle, topics=np.full(len(seen.bundles), topics))
    evidence = SplitEvidence(replace(seen, bundle=few))
    [found] = advise_splits(evidence, SplitOptions())
    assert found.verdict == verdict
    assert "MsgRate" in hot_bundles(evidence, SplitOptions(max_msg_rate=100))[WHOLE]
    listed = replace(evidence, topics={WHOLE: even()})
    assert advise_splits(listed, SplitOptions())[0].verdict == "split", "as brokers list them"
    assert (f"it has {topics} topic, and a split leaves" in found.why) is (topics < 2)


@pytest.mark.parametrize(("count", "verdict"), [(127, "split"), (128, "leave")])
def test_a_namespace_may_have_its_maximum_of_bundles(count: int, verdict: str) -> None:
    assert advice(even(), counts={"public/default": count}).verdict == verdict
    two = replace(looked_at(6, REPORTED), topics={WHOLE: even()})
    full = SplitOptions(maximum_bundles=1)
    assert advise_splits(two, full)[0].verdict == "leave", "reported ones are counted"
    assert advise_splits(two, SplitOptions(maximum_bundles=2))[0].verdict == "split"


@pytest.mark.parametrize(
    ("reports", "long", "verdict"),
    [(4, 1.0, "wait"), (5, 1.0, "split"), (5, 0.5, "split"), (5, 0.499, "wait")],
)
def test_a_bundle_was_hot_for_long_if_its_long_average_is_half_of_the_short_one(
    reports: int, long: float, verdict: str
) -> None:
    seen = replace(looked_at(6, REPORTED), topics={WHOLE: even()})
    columns, row = seen.view.bundle, seen.view.bundle_index(WHOLE)
    samples = columns.samples.copy()
    samples[row] = (10, reports, 1000, 900)
    through = columns.short.throughput_in * long
    slow = replace(columns.short, throughput_in=through, throughput_out=2 * through)
    view = replace(seen.view, bundle=replace(columns, samples=samples, long=slow))
    assert advise_splits(replace(seen, view=view), SplitOptions())[0].verdict == verdict
    # Limits are about the long averages, as Pulsar's are.
    limit = SplitOptions(max_msg_rate=int(seen.view.bundle.short.rate()[row]) - 1)
    quiet = replace(slow, rate_in=0 * through, rate_out=0 * through)
    rare = replace(seen, view=replace(view, bundle=replace(view.bundle, long=quiet)))
    assert "MsgRate" in hot_bundles(seen, limit)[WHOLE]
    assert "MsgRate" not in hot_bundles(rare, limit)[WHOLE]

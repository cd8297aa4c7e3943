"""The fold of reports: Pulsar's averages, whatever the batches and the shards."""

import zlib
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterpoise.load.average import BundleData
from counterpoise.load.fold import Batch, FoldOptions, FoldState, fold, merged, without_brokers
from counterpoise.load.fold_view import cluster_view, newest_measured
from counterpoise.load.remembered import reported_bundles, with_averages, without_averages
from counterpoise.load.rows import RATES, ReportRows
from counterpoise.pipeline.tables.states import state_from_bytes, state_to_bytes
from tests.load.story import START, joined, poll, stats
from tests.pipeline.fake_cluster import bundle_name

FEW = settings(max_examples=40, deadline=None)
BUNDLES = [bundle_name(i) for i in range(5)]
BROKERS = ["b1:80", "b2:80", "b3:80"]

loads = st.dictionaries(st.sampled_from(BUNDLES), st.floats(0, 1e9), max_size=5)
brokers = st.dictionaries(st.sampled_from(BROKERS), st.one_of(st.none(), loads), max_size=3)
stories = st.lists(brokers, min_size=1, max_size=8).map(
    lambda polls: [poll(number, seen) for number, seen in enumerate(polls)]
)


def folded(polls: list[ReportRows], options: FoldOptions | None = None) -> FoldState:
    state = FoldState.empty()
    for rows in polls:
        state = fold(state, Batch.of(rows), options or FoldOptions())
    return state


def shard_of(rows: ReportRows, shard: int, shards: int) -> ReportRows:
    mine = [
        not bundle or zlib.crc32(bundle.encode()) % shards == shard for bundle in rows["bundle"]
    ]
    return rows.take(np.array(mine, np.bool_))


def assert_same(left: FoldState, right: FoldState) -> None:
    for name in ("averages", "served", "brokers"):
        one, other = getattr(left, name), getattr(right, name)
        assert one.keys() == other.keys()
        for column in one:
            np.testing.assert_array_equal(one[column], other[column], err_msg=f"{name}.{column}")


def average(state: FoldState, bundle: str, column: str) -> float:
    [row] = np.flatnonzero(state.averages["bundle"] == bundle)
    return float(state.averages[column][row])


def test_the_worked_example_with_three_samples_at_most() -> None:
    """Rates 1 to 5 with at most 3 samples: 1, 3/2, 2, 8/3, 31/9."""
    expected = [Fraction(1), Fraction(3, 2), Fraction(2), Fraction(8, 3), Fraction(31, 9)]
    polls = [poll(n, {"b1:80": {BUNDLES[0]: 100.0 * n}}) for n in range(1, 6)]
    for seen in range(1, 6):
        state = folded(polls[:seen], FoldOptions(short_samples=3))
        rate = average(state, BUNDLES[0], "short_msg_rate_in")
        assert rate == pytest.approx(float(expected[seen - 1]), rel=1e-15)


@given(stories)
@FEW
def test_averages_are_pulsars_formula_sample_by_sample_bit_for_bit(polls: list[ReportRows]) -> None:
    samples: dict[str, list[float]] = {}
    for rows in polls:
        for kind, bundle, throughput in zip(
            rows["kind"], rows["bundle"], rows["msg_throughput_in"], strict=True
        ):
            if kind == "bundle":
                samples.setdefault(bundle, []).append(float(throughput))
    state = folded(polls)
    assert set(state.averages["bundle"]) == set(samples)
    for bundle, seen in samples.items():
        for term, limit in (("short", 10), ("long", 1000)):
            assert average(state, bundle, f"{term}_samples") == min(len(seen), limit)
            for name in RATES:
                figures = [getattr(stats(each), name) for each in seen]
                assert average(state, bundle, f"{term}_{name}") == formula(figures, limit)


def formula(samples: list[float], limit: int) -> float:
    """``TimeAverageMessageData.update``, one sample after another."""
    value = 0.0
    for number, sample in enumerate(samples, 1):
        count = min(number, limit)
        value = ((count - 1) * value + sample) / count
    return value


def test_the_long_average_is_over_a_thousand_samples_and_the_short_one_over_ten() -> None:
    """Java's limits, each just before and just behind it; the figures never repeat."""
    seen = [float(1 + (number * number) % 997) for number in range(1, 1003)]
    state, done = FoldState.empty(), 0
    for count in (9, 10, 11, 99, 100, 101, 999, 1000, 1001, 1002):
        polls = [poll(n, {"b1:80": {BUNDLES[0]: seen[n]}}) for n in range(done, count)]
        state, done = fold(state, Batch.of(joined(polls))), count
        for term, limit in (("short", 10), ("long", 1000)):
            assert average(state, BUNDLES[0], f"{term}_samples") == min(count, limit)
            expected = formula(seen[:count], limit)
            assert average(state, BUNDLES[0], f"{term}_msg_throughput_in") == expected


@given(stories, st.data())
@FEW
def test_it_does_not_matter_how_polls_are_cut_into_batches(
    polls: list[ReportRows], data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(1, len(polls)), max_size=len(polls))))
    edges = [0, *cuts, len(polls)]
    batches = [joined(polls[a:b]) for a, b in pairwise(edges) if a < b]
    assert_same(merged([folded(polls)]), merged([folded(batches)]))


@given(stories, st.integers(1, 4))
@FEW
def test_it_does_not_matter_how_many_shards_there_are(polls: list[ReportRows], shards: int) -> None:
    parts = [folded([shard_of(rows, s, shards) for rows in polls]) for s in range(shards)]
    assert_same(merged([folded(polls)]), merged(parts))


@given(stories)
@FEW
def test_a_state_survives_its_blob(polls: list[ReportRows]) -> None:
    state = folded(polls)
    assert_same(state_from_bytes(state_to_bytes(state)), state)


def test_a_report_that_is_read_twice_is_one_sample() -> None:
    seen = {"b1:80": {BUNDLES[0]: 100.0}}
    state = folded([poll(1, seen), poll(2, seen, repeated=["b1:80"]), poll(3, seen)])
    assert average(state, BUNDLES[0], "short_samples") == 2
    assert list(state.served["bundle"]) == [BUNDLES[0]]


def test_a_bundle_that_two_brokers_report_has_two_samples_and_two_places() -> None:
    state = folded([poll(1, {"b1:80": {BUNDLES[0]: 100.0}, "b2:80": {BUNDLES[0]: 300.0}})])
    assert average(state, BUNDLES[0], "short_samples") == 2
    assert average(state, BUNDLES[0], "short_msg_throughput_in") == 200.0
    assert list(state.served["broker"]) == ["b1:80", "b2:80"]


def test_a_silent_broker_keeps_its_last_report_and_one_that_left_does_not() -> None:
    both = {"b1:80": {BUNDLES[0]: 1.0}, "b2:80": {BUNDLES[1]: 2.0}}
    silent = folded([poll(1, both), poll(2, {"b1:80": {BUNDLES[0]: 1.0}, "b2:80": None})])
    assert list(silent.brokers["broker"]) == ["b1:80", "b2:80"]
    assert sorted(silent.served["bundle"]) == BUNDLES[:2]
    left = folded([poll(1, both), poll(2, {"b1:80": {BUNDLES[0]: 1.0}})])
    assert list(left.brokers["broker"]) == ["b1:80"]
    assert list(left.served["bundle"]) == [BUNDLES[0]]


def test_a_poll_that_reached_no_broker_changes_nothing() -> None:
    before = folded([poll(1, {"b1:80": {BUNDLES[0]: 1.0}})])
    assert_same(fold(before, Batch.of(poll(2, {}, trouble="refused"))), before)


def test_a_poll_that_lists_no_broker_leaves_none() -> None:
    state = folded([poll(1, {"b1:80": {BUNDLES[0]: 1.0}}), poll(2, {})])
    assert len(state.brokers["broker"]) == len(state.served["bundle"]) == 0
    assert average(state, BUNDLES[0], "short_samples") == 1


def test_a_bundle_in_a_report_that_stands_is_kept_however_old_it_is() -> None:
    options = FoldOptions(forget_after_ms=10_000)
    quiet = {"b1:80": {BUNDLES[0]: 1.0}}
    state = folded([poll(0, quiet, every_ms=1000)], options)
    for second in range(1, 40):
        later = poll(
            second, {**quiet, "b2:80": {BUNDLES[1]: 1.0}}, every_ms=1000, repeated=["b1:80"]
        )
        state = fold(state, Batch.of(later), options)
    assert average(state, BUNDLES[0], "short_samples") == 1
    assert cluster_view(state, START).bundles == (BUNDLES[0], BUNDLES[1])


@given(stories)
@FEW
def test_averages_survive_being_written_down(polls: list[ReportRows]) -> None:
    state = folded(polls)
    written = reported_bundles(state)
    assert written.keys() == set(state.served["bundle"])
    read = with_averages(FoldState.empty(), written, START)
    again = FoldState(read.averages, state.served, state.brokers)
    assert reported_bundles(again) == written
    assert with_averages(state, {name: BundleData.unseen() for name in written}, 0) is state


def test_a_bundle_has_the_topics_and_the_load_that_were_reported_of_it_last() -> None:
    """By whichever broker; that of its former one comes later in the table."""
    state = folded([poll(1, {"b1:80": {BUNDLES[0]: 1.0}})])
    rows = {name: np.repeat(column, 2) for name, column in state.served.items()}
    rows["topics"], rows["poll_id"] = np.array([7, 3]), rows["poll_id"] - np.array([0, 5000])
    rows["msg_throughput_in"] = np.array([1.0, 9.0])
    both = FoldState(state.averages, rows, state.brokers)
    assert reported_bundles(both)[BUNDLES[0]].topics == 7
    view = cluster_view(both, START)
    assert view.bundle.topics.tolist() == [7]
    assert newest_measured(both, view).throughput_in.tolist() == [1.0]


TEN_MINUTES_S = 600
"""For so long it is where no option says otherwise."""


@pytest.mark.parametrize("after_s", [10, TEN_MINUTES_S])
def test_a_bundle_on_the_move_keeps_its_averages_for_a_while_and_then_restarts(
    after_s: int,
) -> None:
    def seen(second: int, bundle: str = BUNDLES[0]) -> ReportRows:
        return poll(second, {"b1:80": {bundle: 100.0 + second}}, every_ms=1000)

    options = FoldOptions(forget_after_ms=after_s * 1000) if after_s != TEN_MINUTES_S else None
    # Its broker is read all the while: only this bundle is missing.
    moving = [seen(0), *(seen(n * after_s // 10, BUNDLES[1]) for n in range(1, 10))]
    soon = folded([*moving, seen(after_s)], options)
    assert average(soon, BUNDLES[0], "short_samples") == 2
    late = folded([*moving, seen(after_s + 1)], options)
    assert average(late, BUNDLES[0], "short_samples") == 1
    assert average(late, BUNDLES[0], "short_msg_throughput_in") == 101.0 + after_s
    soon = folded([*moving, seen(after_s, BUNDLES[1])], options)
    assert list(soon.averages["bundle"]) == [*BUNDLES[:2]]
    late = folded([*moving, seen(after_s + 1, BUNDLES[1])], options)
    assert list(late.averages["bundle"]) == [BUNDLES[1]]


def test_a_state_whose_tables_do_not_agree_makes_no_view() -> None:
    state = folded([poll(1, {"b1": dict.fromkeys(BUNDLES, 1.0)})])
    short = {name: column[1:] for name, column in state.averages.items()}
    with pytest.raises(KeyError, match="has no averages"):
        cluster_view(replace(state, averages=short), START)


def test_a_view_has_the_bundles_that_are_reported_and_who_reports_each() -> None:
    first = {"b1:80": dict.fromkeys(BUNDLES[:2], 1.0), "b2:80": dict.fromkeys(BUNDLES[2:], 2.0)}
    then = {"b1:80": {BUNDLES[1]: 1.0}, "b2:80": {BUNDLES[4]: 2.0, BUNDLES[2]: 2.0}}
    seen = cluster_view(folded([poll(1, first), poll(2, then)]), START)
    assert seen.bundles == (BUNDLES[1], BUNDLES[2], BUNDLES[4])
    assert [seen.reported_by(row).tolist() for row in range(2)] == [[0], [1, 2]]
    assert seen.bundle.short.throughput_in.tolist() == [1.0, 2.0, 2.0]


def test_a_view_has_each_brokers_own_figures_and_the_sums_of_its_bundles() -> None:
    """Loads of 100 and then 300 bytes/s: their mean is 200, and the last alone is 300."""
    options = FoldOptions(short_samples=1)
    polls = [
        poll(n, {"b1:80": dict.fromkeys(BUNDLES[:2], load)}) for n, load in ((1, 100.0), (2, 300.0))
    ]
    repeat = poll(3, {"b1:80": dict.fromkeys(BUNDLES[:2], 300.0)}, repeated=["b1:80"])
    broker = cluster_view(folded([*polls, repeat], options), START, options=options).broker
    assert broker.bundle_count.tolist() == [2]
    assert broker.short_average.throughput_in.tolist() == [600.0]
    assert broker.long_average.throughput_in.tolist() == [400.0]
    assert broker.measured_ms.tolist() == [START + 10_000], "the report that was only read again"


def test_brokers_and_averages_can_be_left_out_of_a_state() -> None:
    state = folded([poll(1, {"b1:80": {BUNDLES[0]: 1.0}, "b2:80": {BUNDLES[1]: 2.0}})])
    left = without_brokers(state, {"b1:80"})
    assert (list(left.brokers["broker"]), list(left.served["bundle"])) == (["b2:80"], [BUNDLES[1]])
    assert average(left, BUNDLES[0], "short_samples") == 1, "its averages outlive it"
    assert_same(without_brokers(state, ()), state)
    forgot = without_averages(state, {BUNDLES[0]})
    assert list(forgot.averages["bundle"]) == [BUNDLES[1]]


def test_a_merged_state_has_a_broker_s_bundles_in_the_order_of_its_reports() -> None:
    state = folded([poll(1, {"b1:80": dict.fromkeys(BUNDLES[:3], 1.0)})])
    later = {**state.served, "poll_id": state.served["poll_id"] + np.array([5000, 0, 0])}
    shards = [
        FoldState(
            state.averages, {name: column[rows] for name, column in later.items()}, state.brokers
        )
        for rows in ([0], [2, 1])
    ]
    assert list(merged(shards).served["bundle"]) == [BUNDLES[1], BUNDLES[2], BUNDLES[0]]


@pytest.mark.parametrize(("gap_ms", "begins"), [(20_000, False), (20_001, True)])
@pytest.mark.parametrize("at_once", [False, True], ids=["poll by poll", "in one batch"])
def test_after_a_gap_the_averages_of_what_a_broker_reports_begin_again(
    gap_ms: int, begins: bool, at_once: bool
) -> None:
    """The one broker was not read for a while, by failure or because no poll was made."""
    one, two = BUNDLES[:2]
    last, options = 2 + gap_ms / 5000, FoldOptions(lapse_after_ms=20_000)
    polls = [poll(n, {"b1:80": {one: 100.0}, "b2:80": {two: 100.0}}) for n in range(3)]
    polls += [poll(n, {"b1:80": None, "b2:80": {two: 100.0}}) for n in range(3, 6)]
    polls.append(poll(last, {"b1:80": {one: 900.0}, "b2:80": {two: 900.0}}))
    state = folded([joined(polls)] if at_once else polls, options)
    found = [average(state, bundle, "short_msg_throughput_in") for bundle in (one, two)]
    assert found == [900.0 if begins else 300.0, pytest.approx((600.0 + 900.0) / 7)]
    counts = [average(state, bundle, "short_samples") for bundle in (one, two)]
    assert counts == [1 if begins else 4, 7]

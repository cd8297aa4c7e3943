"""What is remembered: every change of an owner, once; loads, within bounds."""

import pytest

from counterpoise.picture import observed as module
from counterpoise.picture.cluster_picture import ClusterPicture
from counterpoise.picture.observed import (
    CHANGES_MOST,
    SAMPLE_EVERY_MS,
    SAMPLES_MOST,
    ChangeKind,
    ObservedHistory,
)
from tests.picture.pictures import Carried, picture_of

ONE = "public/default/0x00000000_0x80000000"
TWO = "public/default/0x80000000_0xffffffff"
HALVES = ("public/default/0x00000000_0x40000000", "public/default/0x40000000_0x80000000")


def observed(*pictures: ClusterPicture) -> ObservedHistory:
    past = ObservedHistory()
    for picture in pictures:
        past = past.after(picture)
    return past


def at(second: int, carried: Carried, **more: object) -> ClusterPicture:
    return picture_of(carried, at_ms=1_000 * second, **more)


def fates(past: ObservedHistory) -> list[tuple[str, ChangeKind, str, str]]:
    return [(each.bundle, each.fate, each.source, each.destination) for each in past.changes]


def test_the_first_look_is_no_change() -> None:
    assert fates(observed(at(1, {"a:1": {ONE: 1.0}}))) == []


def test_a_move_is_recorded_once() -> None:
    past = observed(
        at(1, {"a:1": {ONE: 1.0, TWO: 1.0}, "b:1": {}}),
        at(2, {"a:1": {TWO: 1.0}, "b:1": {ONE: 1.0}}),
        at(3, {"a:1": {TWO: 1.0}, "b:1": {ONE: 1.0}}),
    )
    assert fates(past) == [(ONE, ChangeKind.MOVED, "a:1", "b:1")]
    assert past.of_bundle(ONE)[0].sentence == "moved from a:1 to b:1"
    assert past.of_bundle(TWO) == ()


def test_a_bundle_that_no_broker_reports_is_away_until_it_is_reported() -> None:
    gone = observed(
        at(1, {"a:1": {ONE: 1.0}, "b:1": {TWO: 1.0}}), at(2, {"a:1": {}, "b:1": {TWO: 1.0}})
    )
    assert gone.away == {ONE: (2_000, "a:1")}
    back = gone.after(at(3, {"a:1": {}, "b:1": {ONE: 1.0, TWO: 1.0}}))
    assert back.away == {}
    assert fates(back) == [(ONE, ChangeKind.LEFT, "a:1", ""), (ONE, ChangeKind.MOVED, "a:1", "b:1")]


def test_what_stays_away_is_at_last_no_longer_on_its_way() -> None:
    empty: Carried = {"a:1": {}}
    gone = observed(at(1, {"a:1": {ONE: 1.0}}), at(2, empty), at(602, empty))
    assert gone.away, "ten minutes are not over"
    assert gone.after(at(603, empty)).away == {}


def test_a_split_is_recorded_as_one_change() -> None:
    past = observed(
        at(1, {"a:1": {ONE: 1.0, TWO: 1.0}}),
        at(2, {"a:1": {TWO: 1.0, **dict.fromkeys(HALVES, 0.5)}}),
    )
    assert fates(past) == [
        (ONE, ChangeKind.SPLIT, "a:1", ""),
        (HALVES[0], ChangeKind.CAME, "", "a:1"),
        (HALVES[1], ChangeKind.CAME, "", "a:1"),
    ]
    assert past.away == {}


def test_a_bundle_beside_one_that_left_is_no_part_of_it() -> None:
    beside = "public/default/0x80000000_0xc0000000", "public/default/0x00000000_0x40000000"
    for left, came in ((HALVES[1], beside[1]), (HALVES[0], HALVES[1]), (ONE, beside[0])):
        past = observed(at(1, {"a:1": {left: 1.0}}), at(2, {"a:1": {came: 1.0}}))
        assert fates(past)[0] == (left, ChangeKind.LEFT, "a:1", "")


def test_a_cluster_out_of_reach_changes_nothing() -> None:
    before = observed(at(1, {"a:1": {ONE: 1.0}}))
    lost = before.after(at(2, {}, trouble="the cluster does not answer"))
    assert lost is before


def test_loads_are_traced() -> None:
    past = observed(
        at(0, {"a:1": {}}),
        *(at(10 * i, {"a:1": {ONE: 10.0 * i}, "b:1": {TWO: 5.0}}) for i in range(1, 4)),
        at(40, {"a:1": {}, "b:1": {TWO: 5.0}}),
    )
    curve = past.bundle_curve(ONE)
    assert curve.times_ms == (10_000, 20_000, 30_000, 40_000)
    assert curve.bytes_per_s == (10.0, 20.0, 30.0, None)
    *messages, none = curve.messages_per_s
    assert (messages, none) == (pytest.approx([0.1, 0.2, 0.3]), None)
    assert past.broker_curve("b:1").bytes_per_s == (5.0, 5.0, 5.0, 5.0)
    assert past.bundle_curve("nothing/known/0x00_0x01").bytes_per_s == (None,) * 4


def test_nothing_grows_for_ever() -> None:
    past = ObservedHistory()
    places = ("a:1", "b:1")
    for i in range(1_000):
        here, there = places if i % 2 else places[::-1]
        past = past.after(at(10 * i + 10, {here: {ONE: 1.0}, there: {}}))
    assert len(past.samples) == SAMPLES_MOST
    assert len(past.changes) == CHANGES_MOST
    assert past.samples[-1].at_ms == past.changes[-1].at_ms == 10_000_000, "the latest are kept"
    assert len({id(each.names) for each in past.samples}) == 1


def test_loads_are_sampled_every_five_seconds_at_most() -> None:
    past = observed(*(at(second, {"a:1": {ONE: 1.0}}) for second in range(1, 14)))
    assert [each.at_ms for each in past.samples] == [1_000, 6_000, 11_000]
    assert SAMPLE_EVERY_MS == 5_000


def test_of_a_huge_cluster_fewer_moments_are_kept(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(module, "CELLS_MOST", 100)
    past = ObservedHistory()
    carried = {"a:1": {f"t/n/0x{i:08x}_0xffffffff": 1.0 for i in range(5)}}
    for i in range(1, 60):
        past = past.after(at(10 * i, carried))
    assert len(past.samples) == 10

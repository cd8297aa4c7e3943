"""A plan says what will be before it is: who carries what, and what speaks against it."""

import pytest

from counterpoise.decide.plan import DecisionKind
from counterpoise.picture.action_plans import plan_split, plan_transfer, plan_unload
from counterpoise.picture.cluster_picture import ClusterPicture
from tests.picture.pictures import picture_of, view_of

BIG = "public/default/0x00000000_0x80000000"
SMALL = "public/default/0x80000000_0xffffffff"
OTHER = "public/other/0x00000000_0xffffffff"
OWN = "pulsar/a:1/0x00000000_0xffffffff"
PICTURE = picture_of(
    {"a:1": {BIG: 900.0, SMALL: 300.0, OWN: 0.0}, "b:1": {}, "c:1": {}, "d:1": {}},
    silent={"d:1": "no answer within 4 s"},
)


def test_a_transfer_shows_both_brokers_before_and_after() -> None:
    plan = plan_transfer(PICTURE, SMALL, "b:1")
    assert not plan.refused
    assert [(e.broker, e.before, e.after) for e in plan.effects] == [
        ("a:1", 1200.0, 900.0),
        ("b:1", 0.0, 300.0),
    ]
    assert [(e.ratio_before, e.ratio_after) for e in plan.effects] == [(4.0, 3.0), (0.0, 1.0)]
    assert plan.imbalance == (3.0, 2.0)
    assert plan.warnings == ()
    [move] = plan.moves
    assert (move.bundle, move.source, move.destination) == (SMALL, "a:1", "b:1")
    assert move.decision.kind is DecisionKind.TRANSFER
    assert "becomes 900 B/s" in plan.effects[0].sentence


def test_a_move_that_makes_it_worse_says_so() -> None:
    picture = picture_of({"a:1": {BIG: 500.0}, "b:1": {SMALL: 500.0}})
    [warning] = plan_transfer(picture, BIG, "b:1").warnings
    assert warning == "the cluster becomes less even: 0.00 becomes 1.00"
    picture = picture_of({"a:1": {BIG: 500.0, SMALL: 10.0}, "b:1": {OTHER: 500.0}})
    assert plan_transfer(picture, SMALL, "b:1").warnings == (), "the brokers change places"
    picture = picture_of({"a:1": {BIG: 500.0, SMALL: 20.0}, "b:1": {OTHER: 510.0}})
    [warning] = plan_transfer(picture, SMALL, "b:1").warnings
    assert warning == "the cluster becomes less even: 0.01 becomes 0.03"


@pytest.mark.parametrize(
    ("bundle", "destination", "why"),
    [
        (SMALL, "a:1", "a:1 has it already"),
        (SMALL, "z:1", "the cluster lists no broker z:1"),
        (SMALL, "", "the cluster lists no broker "),
        (SMALL, "d:1", "d:1 does not answer: no answer within 4 s"),
        ("public/gone/0x00000000_0xffffffff", "b:1", "no broker reports it"),
        (OWN, "b:1", "it belongs to its broker alone"),
        ("<script>", "b:1", "no broker reports it"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_reason(
    bundle: str, destination: str, why: str
) -> None:
    plan = plan_transfer(PICTURE, bundle, destination)
    assert plan.refused.startswith(why)
    assert plan.moves == ()


def test_nothing_is_planned_for_an_owner_that_does_not_answer_or_a_cluster_out_of_reach() -> None:
    silent = picture_of({"a:1": {BIG: 1.0}, "b:1": {}}, silent={"a:1": "refused"})
    assert plan_unload(silent, BIG).refused == "its owner a:1 does not answer: refused"
    away = ClusterPicture(5, PICTURE.view, {}, "the cluster does not answer")
    assert plan_split(away, BIG).refused == "the cluster does not answer"


def test_an_unload_leaves_the_choice_to_the_cluster() -> None:
    plan = plan_unload(PICTURE, BIG)
    assert [move.destination for move in plan.moves] == [""]
    assert plan.imbalance is None


def test_a_split_says_where_it_cuts_and_that_it_is_for_ever() -> None:
    plan = plan_split(PICTURE, BIG)
    assert "0x00000000_0x40000000 and 0x40000000_0x80000000" in plan.steps[0]
    assert plan.warnings[0].startswith("Pulsar cannot join bundles again")
    assert plan.warnings[1] == "it has 1 topic: a split cannot share its load"
    assert plan.bundle == BIG
    two = ClusterPicture(5, view_of({"a:1": {BIG: 1.0}}, topics=2))
    assert len(plan_split(two, BIG).warnings) == 1


def test_what_is_too_small_cannot_be_split() -> None:
    tiny = "public/default/0x00000000_0x00000001"
    picture = picture_of({"a:1": {tiny: 1.0}})
    assert plan_split(picture, tiny).refused == "its range is too small to be split"
    least = "public/default/0x00000000_0x00000002"
    assert not plan_split(picture_of({"a:1": {least: 1.0}}), least).refused
    odd = picture_of({"a:1": {"odd": 1.0}})
    assert "odd" in plan_split(odd, "odd").refused

"""The figures behind a move, from folded reports and from a view."""

from dataclasses import replace

import pytest

from counterpoise.decide.balancing.basis import Measurement, MoveBasis
from counterpoise.decide.balancing.measured import basis_of, with_basis_in_view
from counterpoise.decide.balancing.moves import Move, Round, RoundMemory
from counterpoise.decide.plan import Decision, DecisionKind
from tests.decide.balancing.clusters import bundles, snapshot
from tests.decide.balancing.test_round import UNEVEN, seen
from tests.load.story import START

VIEW = snapshot({"b1": bundles("x", 50.0, 7.0), "b2": bundles("y", 30.0)}).view


def moved(bundle: str, source: str = "b1", destination: str = "b2") -> Move:
    decision = Decision(DecisionKind.TRANSFER, bundle, source, destination, "r", "because")
    return Move("id", VIEW.now_ms, decision, "the least loaded")


def round_of(*moves: Move) -> Round:
    return Round.of(VIEW, "shed", moves, (), RoundMemory())


def test_a_view_gives_the_average_and_the_loads_of_both_brokers() -> None:
    samples = VIEW.bundle.samples.copy()
    samples[VIEW.bundles.index("t/n/x0")] = (10, 4, 100, 6)
    view = replace(VIEW, bundle=replace(VIEW.bundle, samples=samples))
    made = with_basis_in_view(
        round_of(moved("t/n/x0"), moved("t/n/gone"), moved("t/n/y0", "b2", "b9")), view
    )
    assert [each.basis for each in made.moves] == [
        MoveBasis(50.0, 4, None, Measurement(57.0), Measurement(30.0)),
        None,
        MoveBasis(30.0, 0, None, Measurement(30.0), None),
    ]
    assert made.moves[0].basis_text == (
        "it carries 50 B/s on average of its last 4 reports; b1 reported 57 B/s; b2 reported 30 B/s"
    )
    assert made.moves[2].basis_text == (
        "it carries 30 B/s on average of its last 0 reports; b2 reported 30 B/s"
    )
    plan = round_of(moved("t/n/x0"))
    assert plan.moves[0].basis_text == ""
    assert with_basis_in_view(plan, object()) is plan


def test_reports_without_the_bundle_or_a_broker_give_no_figures_of_it() -> None:
    state = seen(UNEVEN)
    assert basis_of(moved("t/n/never", "b1:80", "b2:80"), state, START) is None
    [known, *_] = UNEVEN["b1:80"] or {}
    basis = basis_of(moved(known, "b9:80", "b2:80"), state, START)
    assert basis is not None
    assert basis.source is None
    assert basis.destination == (pytest.approx(27_000.0), 0.0)
    ahead = basis_of(moved(known, "b1:80", "b2:80"), state, START - 60_000)
    assert ahead is not None
    ages = [each and each.age_s for each in (ahead.measured, ahead.source, ahead.destination)]
    assert ages == [0.0, 0.0, 0.0], "by clocks that differ"


def test_a_round_is_of_the_views_time_unless_another_is_given() -> None:
    assert round_of().memory.decided_at_ms == round_of().poll_id == VIEW.now_ms
    later = Round.of(VIEW, "shed", (), (), RoundMemory(), at_ms=2000)
    assert later.memory.decided_at_ms == later.poll_id == 2000


def test_a_round_as_json_has_each_moves_figures_and_its_own() -> None:
    made = with_basis_in_view(round_of(moved("t/n/x0")), VIEW)
    written = made.to_json()
    [move] = written.pop("moves")
    assert written == {
        "at": 1000, "strategy": "shed", "imbalance": pytest.approx(57 / 43.5 - 1), "brokers": 2,
        "bundles": 3, "rejections": [],
    }  # fmt: skip
    assert (move["id"], move["placement"], move["bundle"]) == ("id", "the least loaded", "t/n/x0")
    assert move["basis"]["source"] == Measurement(57.0)
    assert round_of(moved("t/n/x0")).to_json()["moves"][0]["basis"] is None

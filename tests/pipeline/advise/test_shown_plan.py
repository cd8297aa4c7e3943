"""A plan as lines of a terminal, as a page and in its plots."""

import re
from dataclasses import replace
from typing import Any

import pytest

from counterpoise.decide.advice.plan import MoveTime
from counterpoise.decide.advice.planned import advise
from counterpoise.pipeline.advise.page import brokers_plot, page_of, steps_plot
from counterpoise.pipeline.advise.text import lines_of
from counterpoise.pipeline.page.drawing import AFTER, BEFORE
from tests.decide.advice.test_planned import UNEVEN, plan, snapshot
from tests.decide.balancing.test_round import strategy
from tests.pipeline.fake_cluster import bundle_name


def test_the_picture_of_the_steps_begins_at_nothing_however_little_they_change() -> None:
    made = plan(UNEVEN)
    steps = [replace(step, imbalance_after=1.99) for step in made.steps]
    drawn = steps_plot(replace(made, steps=tuple(steps)))
    figures = [float(each) for each in re.findall(r">(\d+\.\d+)<", drawn)]
    assert min(figures) == 0.0
    assert max(figures) >= 1.5


def test_nothing_that_a_cluster_is_called_becomes_markup() -> None:
    evil = "<script>alert(1)</script>"
    reported: Any = {f"{evil}b1:80": dict(UNEVEN["b1:80"] or {}), "$b^2$:80": {}}
    made = advise(
        snapshot(reported, source=evil), strategy(), MoveTime(1, 1, evil), 0, notes=(evil,)
    )
    page = page_of(made)
    assert made.steps
    assert "<script" not in page
    assert page.count("&lt;script&gt;") > 5
    fetched = re.findall(r"(?:src|href)=.?https?:|url\(.?https?:|@import", page)
    assert not fetched, "it needs no network"


def test_a_page_of_many_brokers_is_curves_and_one_of_none_is_a_page() -> None:
    many: Any = {f"b{number}:80": {bundle_name(number): float(number)} for number in range(60)}
    assert "brokers, the most loaded first" in page_of(plan(many))
    assert "Nothing to move" in page_of(plan({}))
    assert page_of(plan(UNEVEN)) == page_of(plan(UNEVEN)), "the same plan is the same page"
    assert any("and 40 brokers between" in line for line in lines_of(plan(many)))


def test_a_terminal_shows_what_a_plan_brings_and_how_long_it_takes() -> None:
    made = replace(plan(UNEVEN), took=MoveTime(2.0, 9.0, "as it was", 1.0))
    first, cost, *_ = lines_of(made)
    before, after = made.before.imbalance, made.after.imbalance
    assert before > after
    assert first.endswith(f"moves, imbalance {before:.2f} -> {after:.2f}")
    assert cost.endswith("(2.0 s each, 1.0 to 9.0 s, as it was)")


def test_a_terminal_shows_the_ten_most_and_the_ten_least_loaded_brokers() -> None:
    many: Any = {
        f"b{number:02}:80": {bundle_name(number): 1000.0 * (number + 1)} for number in range(25)
    }
    shown = [line.split()[0] for line in lines_of(plan(many)) if re.match(r"b\d\d:80 ", line)]
    assert shown == [f"b{number:02}:80" for number in (*range(24, 14, -1), *range(9, -1, -1))]


@pytest.mark.parametrize(("reasons", "more"), [(19, ""), (20, ""), (21, "1"), (50, "30")])
def test_a_terminal_shows_twenty_reasons_and_how_many_more_there_are(
    reasons: int, more: str
) -> None:
    [why, *_] = plan(UNEVEN).not_done
    said = list(lines_of(replace(plan({}), not_done=(why,) * reasons)))
    assert said.count(f"  {why.why}") == min(reasons, 20)
    assert said[-1] == (f"  and {more} more (--json, --html)" if more else f"  {why.why}")
    assert "0 moves, imbalance" in said[0]


def bars(svg: str, colour: str) -> list[float]:
    """How long the bars of a colour are, from the top down; the legend's is left out."""
    path = r'<path d="M (\S+) \S+ \s*L (\S+) \S+ [^"]*" [^>]*style="fill: '
    return [float(b) - float(a) for a, b in re.findall(path + colour, svg)][:-1]


def test_each_broker_has_its_bars_of_before_and_after_beside_its_name() -> None:
    a, b, c = map(bundle_name, range(3))
    made = plan({"b1:80": {a: 900.0}, "b2:80": {b: 300.0}, "$b^3$:80": {c: 600.0}})
    after = [("b1:80", 600.0), ("$b^3$:80", 300.0), ("b2:80", 900.0)]
    moved = dict(after)
    loads = tuple(replace(each, bytes_per_s=moved[each.broker]) for each in made.after.brokers)
    svg = brokers_plot(replace(made, after=replace(made.after, brokers=loads)))
    before, then = bars(svg, BEFORE), bars(svg, AFTER)
    assert [each / before[0] for each in before] == pytest.approx([1, 2 / 3, 1 / 3])
    assert [each / then[0] for each in then] == pytest.approx([load / 600 for _, load in after])
    assert ">$b^3$:80<" in svg, "a name is no formula"
    assert "<dc:date>" not in svg, "the same plan is the same page tomorrow"

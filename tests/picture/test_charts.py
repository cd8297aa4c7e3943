"""Curves and plots as options: figures that a person can read, and labels that are not cut off."""

import pytest

from counterpoise.picture.charts import line_options, trade_options
from counterpoise.picture.observed import LoadCurve
from counterpoise.picture.trades import Trade


@pytest.mark.parametrize(
    ("flows", "unit", "shown"),
    [
        ((0.0, 12.0), "B/s", [0.0, 12.0]),
        ((168_000.0, None), "kB/s", [168.0, None]),
        ((2_500_000.0, 1_000.0), "MB/s", [2.5, 0.001]),
        ((None,), "B/s", [None]),
        ((), "B/s", []),
    ],
)
def test_an_axis_has_a_unit_and_small_figures(
    flows: tuple[float | None, ...], unit: str, shown: list[float | None]
) -> None:
    options = line_options(LoadCurve(tuple(range(len(flows))), flows, flows), "{b|x}")
    assert options["yAxis"]["name"] == unit
    [series] = options["series"]
    assert [value for _, value in series["data"]] == shown
    assert series["name"] == "(b/x)"


def test_labels_of_trades_begin_or_end_at_their_point_where_there_is_room() -> None:
    trades = [Trade(name, moved, 1.5, 3, 0, best=False) for name, moved in (("a", 0.1), ("b", 9.0))]
    _, points = trade_options(trades)["series"]
    assert [each["label"]["align"] for each in points["data"]] == ["left", "right"]

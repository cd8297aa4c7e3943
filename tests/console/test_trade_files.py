"""Backtests, from the files that are written for it."""

import json
import os
from dataclasses import fields
from pathlib import Path

from counterpoise.console.trade_files import TradeFiles
from counterpoise.picture.charts import trade_options
from counterpoise.pipeline.backtest.measure import BacktestResult


def result(label: str, imbalance: float, moved: float) -> dict[str, object]:
    row: dict[str, object] = dict.fromkeys((each.name for each in fields(BacktestResult)), 1)
    return {**row, "label": label, "imbalance": imbalance, "moved": moved, "score": 0.0,
            "as_recorded": False}  # fmt: skip


def test_results_are_read_again_when_they_change(tmp_path: Path) -> None:
    path = tmp_path / "august.json"
    files = TradeFiles([str(path), str(tmp_path / "none.json")])
    assert files() == []
    path.write_text(json.dumps([result("even", 1.1, 3.0), result("lazy", 1.9, 0.1)]), "utf-8")
    [(name, trades)] = files()
    assert name == "august"
    assert {each.label for each in trades if each.best} == {"even", "lazy"}
    path.write_text(
        json.dumps([result("even", 1.1, 3.0), result("worse", 1.2, 4.0)]) + "\n\n", "utf-8"
    )
    assert {each.label: each.best for _, found in files() for each in found} == {
        "even": True,
        "worse": False,
    }
    # One that is put back is older.
    path.write_text(json.dumps([result("former", 1.1, 3.0)]), "utf-8")
    os.utime(path, (5, 5))
    assert [each.label for _, found in files() for each in found] == ["former"]


def test_a_file_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    path = tmp_path / "earlier.json"
    new = ("begins_ms", "beginnings", "moves_least", "moves_most", "imbalance_most")
    row = {name: value for name, value in result("even", 1.1, 3.0).items() if name not in new}
    path.write_text(json.dumps([row]), "utf-8")
    [(_, [trade])] = TradeFiles([str(path)])()
    assert trade.label == "even"


def test_what_is_no_result_is_left_out(tmp_path: Path) -> None:
    for name, text in (("a", "{"), ("b", "[1]"), ("c", '[{"label": "x"}]'), ("d", "\0")):
        (tmp_path / name).write_text(text, "utf-8")
    assert TradeFiles([str(each) for each in sorted(tmp_path.iterdir())])() == []


def test_the_plot_has_every_strategy_and_a_line_through_the_best(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    found = [result("b", 1.1, 3.0), result("a", 1.9, 0.1), result("{c|x}", 2.0, 5.0)]
    path.write_text(json.dumps(found), "utf-8")
    [(_, trades)] = TradeFiles([str(path)])()
    line, points = trade_options(trades)["series"]
    assert line["data"] == [[0.1, 1.9], [3.0, 1.1]]
    assert {each["name"] for each in points["data"]} == {"a", "b", "(c/x)"}

"""Figures of days that are unlike each other, and the sentences that they come to."""

import re
from base64 import b64decode
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from matplotlib.image import imread

from counterpoise.pipeline.page.drawing import AFTER, BEFORE, QUIET
from counterpoise.pipeline.report import plots, recorded_days
from counterpoise.pipeline.report.page import page_of, summary_of
from counterpoise.pipeline.tables.location import open_location

START = datetime(2026, 11, 10, tzinfo=UTC)
Rows = list[dict[str, Any]]


def day(number: int) -> str:
    return f"{START + timedelta(days=number):%Y-%m-%d}"


def written(home: Path, **tables: Rows) -> Path:
    for table, rows in tables.items():
        write_deltalake(str(home / table), pa.Table.from_pylist(rows), partition_by=["day"])
    return home


def polls(number: int, *ratios: float) -> Rows:
    at = START + timedelta(days=number, hours=3)
    return [
        {"at": at + timedelta(minutes=20 * n), "brokers": 2 + n, "mean_bytes_per_s": 100.0,
         "max_over_mean": ratio, "day": day(number)}
        for n, ratio in enumerate(ratios)
    ]  # fmt: skip


def test_without_a_choice_the_newest_day_and_the_six_before_it_are_shown(tmp_path: Path) -> None:
    every = [row for number in (0, 1, 3, 7, 9) for row in polls(number, 1.0)]
    home = open_location(written(tmp_path, gold_imbalance=every))

    def shown(first: date | None, last: date | None) -> list[str]:
        return [*recorded_days.read_days(home, first, last).days]

    assert shown(None, None) == [day(3), day(7), day(9)]
    assert shown(None, date(2026, 11, 17)) == [day(1), day(3), day(7)]
    assert shown(date(2026, 11, 11), None) == [day(1), day(3), day(7), day(9)]
    assert shown(date(2026, 11, 11), date(2026, 11, 13)) == [day(1), day(3)]
    with pytest.raises(recorded_days.NotRolledUpError):
        shown(date(2026, 11, 14), date(2026, 11, 16))


def test_a_day_of_few_polls_weighs_less_than_one_of_many(tmp_path: Path) -> None:
    brokers = [
        {"broker": "a", "polls": 90, "bytes_per_s": 10.0, "bytes_per_s_max": 50.0, "bundles": 1.0,
         "cpu_percent_max": None, "polls_hottest": 9, "polls_above_mean": 20, "day": day(0)},
        {"broker": "a", "polls": 10, "bytes_per_s": 110.0, "bytes_per_s_max": 120.0,
         "bundles": 11.0, "cpu_percent_max": 30.0, "polls_hottest": 1, "polls_above_mean": 10,
         "day": day(1)},
        {"broker": "b", "polls": 10, "bytes_per_s": 60.0, "bytes_per_s_max": 60.0, "bundles": 4.0,
         "cpu_percent_max": 5.0, "polls_hottest": 0, "polls_above_mean": 0, "day": day(1)},
    ]  # fmt: skip
    hot = [
        {"bundle": "n/x", "broker": "a", "bytes_per_s": 8.0, "bytes_per_s_max": 9.0, "part": 0.4,
         "busiest_hour": START, "day": day(0)},
        {"bundle": "n/x", "broker": "b", "bytes_per_s": 4.0, "bytes_per_s_max": 30.0, "part": None,
         "busiest_hour": START + timedelta(days=1), "day": day(1)},
        {"bundle": "n/y", "broker": "b", "bytes_per_s": 12.5, "bytes_per_s_max": 13.0, "part": 0.5,
         "busiest_hour": START + timedelta(days=1), "day": day(1)},
        {"bundle": "n/y", "broker": "b", "bytes_per_s": 0.5, "bytes_per_s_max": 1.0, "part": 0.1,
         "busiest_hour": START, "day": day(0)},
        {"bundle": "n/z", "broker": "a", "bytes_per_s": 7.0, "bytes_per_s_max": 8.0, "part": 0.2,
         "busiest_hour": START, "day": day(0)},
    ]  # fmt: skip
    refused = [
        {"rule": rule, "setting": "s", "times": times, "rounds": rounds, "subjects": subjects,
         "highest": highest, "sentence": sentence, "day": day(number)}
        for number, rule, times, rounds, subjects, highest, sentence in (
            (0, "r", 3, 2, 5, 0.4, "low"), (1, "r", 4, 1, 2, 0.9, "high"),
            (0, "q", 9, 9, 1, None, "none"),
        )
    ]  # fmt: skip
    hours = [
        {"hour": START + timedelta(hours=hour), "broker": broker, "bytes_per_s": load,
         "day": day(hour // 24)}
        for hour, broker, load in ((22, "a", 5.0), (25, "a", 7.0), (23, "b", 90.0))
    ]  # fmt: skip
    missing = [
        {"kind": "broker", "broker": "a", "first_at": START + timedelta(hours=first),
         "last_at": START + timedelta(hours=last), "day": day(first // 24)}
        for first, last in ((30, 31), (1, 2), (3, 40))
    ]  # fmt: skip
    home = written(
        tmp_path, gold_imbalance=[*polls(0, 1.25, 1.0, 2.0), *polls(1, 1.26)],
        gold_broker_days=brokers, gold_hot_bundles=hot, gold_rejections=refused,
        gold_broker_hours=hours, gold_gaps=missing,
    )  # fmt: skip
    shown = recorded_days.read_days(open_location(home), None, None)
    assert (shown.polls, shown.worst_imbalance) == (4, 2.0)
    assert shown.worst_at == START + timedelta(hours=3, minutes=40)
    assert shown.uneven_part == 0.5, "a quarter above the mean is even"
    assert shown.mean_bytes_per_s == pytest.approx((200 + 300 + 400 + 200) / 4)
    assert [*shown.imbalance.hours] == [START + timedelta(hours=h) for h in (3, 27)]
    assert [*shown.imbalance.mean] == pytest.approx([4.25 / 3, 1.26])
    assert [*shown.imbalance.highest] == [2.0, 1.26]
    b, a = shown.brokers
    assert (b["broker"], a["broker"]) == ("b", "a")
    assert (a["bytes_per_s"], a["bundles"]) == pytest.approx((20.0, 2.0))
    assert (a["bytes_per_s_max"], a["cpu_percent_max"]) == (120.0, 30.0)
    assert (a["hottest_part"], a["above_part"]) == pytest.approx((0.1, 0.3))
    y, x, z = shown.hottest
    assert (y["bytes_per_s"], y["part"], y["days"]) == pytest.approx((6.5, 0.3, 2))
    assert y["busiest_hour"] == START + timedelta(days=1)
    assert (x["bytes_per_s"], x["part"], x["days"]) == pytest.approx((6.0, 0.2, 2))
    assert (z["bytes_per_s"], z["part"], z["days"]) == pytest.approx((3.5, 0.1, 1)), "of both days"
    assert [each["bundle"] for each in shown.hottest] == ["n/y", "n/x", "n/z"]
    assert (x["broker"], x["busiest_hour"], x["bytes_per_s_max"]) == ("b", START, 30.0)
    q, r = shown.rejections
    assert (q["rule"], q["times"], q["subjects"]) == ("q", 9, 1)
    assert (r["times"], r["rounds"], r["subjects"], r["sentence"]) == (7, 3, 5, "high")
    hours_of_gaps = [(each["first_at"] - START).total_seconds() / 3600 for each in shown.gaps]
    assert hours_of_gaps == [1, 3, 30]
    assert [*shown.load.brokers] == ["b", "a"]
    assert [*shown.load.hours] == [START + timedelta(hours=22 + n) for n in range(4)]
    np.testing.assert_array_equal(
        shown.load.bytes_per_s, [[np.nan, 90.0, np.nan, np.nan], [5.0, np.nan, np.nan, 7.0]]
    )


NOTHING = recorded_days.RecordedDays(
    "h", [day(0)], 1, 1.1, 2.0, START, 0.25, 1.0,
    recorded_days.HourlyImbalance([START], np.array([1.1]), np.array([2.0])),
    recorded_days.BrokerHours([], [], np.zeros((0, 0))), [], [],
)  # fmt: skip


def move(number: int, before: float | None, after: float | None, **more: Any) -> dict[str, Any]:
    at = START + timedelta(minutes=number)
    return {
        "id": f"{number}", "poll_id": round(at.timestamp() * 1000), "at": at, "status": "moved",
        "bundle": f"n/m{number:02}", "source": "a", "destination": "b", "error": "", "reason": "r",
        "sentence": "s", "started_at": at, "ended_at": at, "seconds": 1.0,
        "max_over_mean_before": before, "max_over_mean_after": after, "source_before": 9.0,
        "source_after": 5.0, "destination_before": 1.0, "destination_after": 5.0, "day": day(0),
        **more,
    }  # fmt: skip


def gap(kind: str, missed: int) -> dict[str, Any]:
    return {"kind": kind, "broker": "a", "note": "", "polls": missed, "first_at": START,
            "last_at": START, "day": day(0)}  # fmt: skip


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({}, "No bundle was moved."),
        ({}, "Nothing is missing in the record."),
        ({}, "were even 75% of the time: the most loaded one carried 1.10 times the mean, 2.00 at"),
        ({"moves": [move(0, None, None)]}, "1 bundle moved, no move failed."),
        ({"moves": [move(0, 1.5, 1.2), move(1, None, 1.0), move(2, 1.3, 1.2)]},
         "3 bundles moved, no move failed; in the ten minutes after a move the ratio was 0.20 low"),
        ({"moves": [move(0, 1.2, 1.5), move(1, 9.0, 1.0, status="failed")]},
         "1 bundle moved, 1 move failed; in the ten minutes after a move the ratio was 0.30 hig"),
        ({"moves": [move(0, 1.0, 1.0, status="failed"), move(1, 1.0, 1.0, status="elsewhere")]},
         "0 bundles moved, 2 moves failed."),
        ({"gaps": [gap("broker", 3), gap("broker", 4), gap("silence", 99)]},
         "Brokers did not answer 7 times, and the record was interrupted 1 time."),
        ({"gaps": [gap("poll", 5), gap("silence", 1), gap("silence", 1)]},
         "Brokers did not answer 0 times, and the record was interrupted 2 times."),
        ({"hottest": [{"bundle": "n/x", "part": 0.024}, {"bundle": "n/y", "part": 0.5}]},
         "The hottest bundle, n/x, carried 2.4% of the cluster's load."),
    ],
)  # fmt: skip
def test_the_summary_says_what_happened(more: dict[str, Any], sentence: str) -> None:
    assert any(sentence in each for each in summary_of(replace(NOTHING, **more)))


def test_moves_that_relieved_their_source_most_come_first_and_the_latest_failures() -> None:
    relieved = [move(n, 1.5, 1.2, source_before=9.0 + n, source_after=5.0) for n in range(30)]
    unknown = move(40, 1.5, 1.2, source_after=None)
    failed = [move(n, None, None, status="failed", error=f"why {n}") for n in range(50, 80)]
    page = page_of(replace(NOTHING, moves=[unknown, *relieved, *failed]))
    places = [page.find(f"n/m{n:02}") for n in range(29, 4, -1)]
    assert -1 not in places
    assert places == sorted(places)
    assert not any(f"n/m{n:02}" in page for n in (40, *range(5)))
    assert [n for n in range(50, 80) if f"why {n}" in page] == [*range(55, 80)]


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (0.0, "0%"),
        (0.0004, "<0.1%"),
        (0.0005, "0.1%"),
        (0.0949, "9.5%"),
        (0.095, "10%"),
        (0.5, "50%"),
        (0.905, "90%"),
        (0.949, "94.9%"),
        (0.9994, "99.9%"),
        (0.9996, ">99.9%"),
        (1.0, "100%"),
    ],
)
def test_a_part_near_nothing_or_all_has_one_more_figure(part: float, text: str) -> None:
    assert plots.share_text(part) == text


def test_no_load_is_a_dash_and_none_at_all_is_said() -> None:
    assert (plots.load_text(None), plots.load_text(0.0)) == ("-", "0 B/s")


def heights(svg: str, colour: str) -> list[float]:
    """How far up each dot of a colour is; the legend's, which is the last, is left out."""
    return [-float(y) for y in re.findall(rf' y="([\d.]+)" style="fill: {colour}', svg)[:-1]]


def test_each_round_has_a_dot_for_before_and_one_for_after_it() -> None:
    at_once = {"poll_id": round(START.timestamp() * 1000)}
    moves = [move(0, 2.0, 1.0, **at_once), move(1, 3.0, 2.0, **at_once), move(2, 1.5, 1.25)]
    svg = plots.moves_plot(replace(NOTHING, moves=moves))
    one, other = heights(svg, BEFORE)
    after, after_other = heights(svg, AFTER)
    # From 2.5 to 1.5, and from 1.5 to 1.25.
    assert other == pytest.approx(after)
    assert (one - after, other - after_other) == pytest.approx((one - after, (one - after) / 4))
    assert one > after


def test_the_line_of_imbalance_breaks_where_hours_are_missing_and_silence_is_grey() -> None:
    hours = [START + timedelta(hours=number) for number in (0, 1, 3, 4)]
    line = recorded_days.HourlyImbalance(hours, np.full(4, 1.1), np.full(4, 1.2))
    svg = plots.imbalance_plot(
        replace(NOTHING, imbalance=line, gaps=[gap("silence", 1), gap("broker", 3), gap("poll", 2)])
    )
    [path] = re.findall(rf'd="([^"]*)"[^>]*stroke: {AFTER}; stroke-width: 1.6', svg)[:1]
    assert [len(part.split("L")) for part in path.split("M")[1:]] == [2, 2]
    assert svg.count(f'style="fill: {QUIET}; opacity: 0.25"') == 1
    for label in ("highest", "mean of the hour", "uneven above 1.25"):
        assert f">{label}</text>" in svg


def test_each_broker_is_named_beside_the_middle_of_its_row() -> None:
    load = recorded_days.BrokerHours([START], ["one", "two"], np.array([[2.0], [1.0]]))
    svg = plots.load_plot(replace(NOTHING, load=load))
    names = svg[svg.index('id="matplotlib.axis_2"') :]
    places = [float(y) for y in re.findall(r'<use [^>]* y="([\d.]+)"', names)[:2]]
    box = r'id="patch_2">\s*<path d="M \S+ (\S+) \s*L \S+ \S+ \s*L \S+ (\S+)'
    [(bottom, top)] = re.findall(box, svg)
    height = float(bottom) - float(top)
    assert [(y - float(top)) / height for y in places] == pytest.approx([0.25, 0.75], abs=0.01)
    assert names.index(">one</text>") < names.index(">two</text>")


def test_load_is_coloured_by_the_mean_of_those_that_report_and_grey_without_a_report() -> None:
    """Twice the mean is as red as it gets, however many brokers are silent."""
    hours = [START + timedelta(hours=number) for number in range(2)]
    drawn = []
    for silent in (0, 3):
        loads = np.array([[30.0, 20.0], [10.0, 20.0], *[[np.nan, np.nan]] * silent])
        names = [f"b{number}" for number in range(len(loads))]
        svg = plots.load_plot(replace(NOTHING, load=recorded_days.BrokerHours(hours, names, loads)))
        [image] = re.findall(r'xlink:href="data:image/png;base64,([^"]*)"', svg)[:1]
        pixels = imread(BytesIO(b64decode(image)), format="png")[::-1]  # drawn from below
        rows = np.array_split(pixels, len(loads))
        middles = [row[len(row) // 2, [width // 4, 3 * width // 4], :3]
                   for row in rows for width in (row.shape[1],)]  # fmt: skip
        drawn.append(np.array(middles))
    np.testing.assert_allclose(drawn[0], drawn[1][:2], atol=0.02)
    grey = int("c8", 16) / 255
    np.testing.assert_allclose(drawn[1][2:], grey, atol=0.02)
    assert drawn[0][0, 0, 0] > drawn[0][0, 0, 2], "more than the mean is red"
    assert drawn[0][1, 0, 0] < drawn[0][1, 0, 2], "less is blue"


@pytest.mark.parametrize("days", [1, 2, 7])
def test_the_time_axis_has_all_of_its_days(days: int) -> None:
    """A move at noon of the last of them is as far from its end as noon is."""
    noon = START + timedelta(days=days - 1, hours=12)
    moved = {"started_at": noon, "poll_id": round(noon.timestamp() * 1000)}
    shown = replace(NOTHING, days=[day(n) for n in range(days)], moves=[move(0, 2.0, 1.5, **moved)])
    svg = plots.moves_plot(shown)
    [(left, right)] = re.findall(r'id="patch_2">\s*<path d="M (\S+) \S+ \s*L (\S+)', svg)
    [x] = re.findall(rf' x="([\d.]+)" y="[\d.]+" style="fill: {BEFORE}', svg)[:1]
    part = (float(x) - float(left)) / (float(right) - float(left))
    assert part == pytest.approx(1 - 0.5 / days, abs=0.001)

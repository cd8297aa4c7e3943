"""The page of a week: its figures, what it shows of names, and what is said of wrong input."""

import time
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from jinja2.exceptions import UndefinedError

from counterpoise.app.main import main
from counterpoise.pipeline.page.render import render
from counterpoise.pipeline.report.page import page_of, summary_of
from counterpoise.pipeline.report.recorded_days import RecordedDays, read_days
from counterpoise.pipeline.tables.location import open_location
from tests.pipeline.report.gold_week import BROKERS, gold_week, tables


class Outline(HTMLParser):
    """What a page has: its headings, pictures, references to elsewhere, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.headings: list[str] = []
        self.pictures: list[str] = []
        self.elsewhere: list[str] = []
        self.elements: set[str] = set()
        self.text = ""
        self._in_heading = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self._in_heading = tag in ("h1", "h2")
        known = dict(attrs)
        if known.get("role") == "img":
            self.pictures.append(known.get("aria-label") or "")
        links = (known.get("src"), known.get("href"), known.get("xlink:href"))
        self.elsewhere += [link for link in links if link and not link.startswith(("#", "data:"))]

    def handle_data(self, data: str) -> None:
        if self._in_heading and data.strip():
            self.headings.append(" ".join(data.split()))
        self.text += data


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return gold_week(tmp_path_factory.mktemp("week"))


@pytest.fixture(scope="module")
def week(home: Path) -> RecordedDays:
    return read_days(open_location(home), None, None)


def test_figures_are_those_of_the_gold_tables(week: RecordedDays) -> None:
    polls = tables()["gold_imbalance"]
    ratios = np.array([row["max_over_mean"] for row in polls])
    assert week.polls == len(polls)
    assert week.mean_imbalance == pytest.approx(ratios.mean())
    assert week.worst_imbalance == ratios.max()
    assert week.worst_at == polls[int(ratios.argmax())]["at"]
    assert week.uneven_part == pytest.approx((ratios > 1.25).mean())
    hours = tables()["gold_broker_hours"]
    assert int(np.isfinite(week.load.bytes_per_s).sum()) == len(hours)
    place = {hour: number for number, hour in enumerate(week.load.hours)}
    for row in hours:
        found = week.load.bytes_per_s[week.load.brokers.index(row["broker"]), place[row["hour"]]]
        assert found == row["bytes_per_s"]
    assert week.gain == pytest.approx(0.06)
    assert len(week.moves) - len(week.moved) == sum(
        move["status"] == "failed" for move in tables()["gold_moves"]
    )
    assert [row["rule"] for row in week.rejections] == ["GracePeriod", "NoDestination"]
    assert [row["times"] for row in week.rejections] == [280, 49]
    assert week.hottest[0]["bytes_per_s"] == pytest.approx(30e6)
    assert week.brokers[0]["broker"] == BROKERS[0]
    assert [each["cpu_percent_max"] for each in week.brokers[:2]] == [70.0, 66.0]


def test_the_page_needs_nothing_else_and_names_are_text_in_it(week: RecordedDays) -> None:
    page = page_of(week)
    outline = Outline(page)
    assert len(outline.pictures) == 6
    assert outline.headings[1:] == [
        "How even the brokers were", "Load by broker", "Moves, and what they brought",
        "Hottest bundles", "Refusals, and why", "Gaps in the record",
    ]  # fmt: skip
    assert not outline.elsewhere
    assert "script" not in outline.elements
    assert "iot/<b>telemetry</b>/" in outline.text
    assert "b" not in {tag for tag in outline.elements if f"<{tag}>telemetry" in page}
    for sentence in summary_of(week):
        assert sentence in outline.text
    assert page == page_of(week), "the same week gives the same page"


def test_a_day_and_a_history_that_was_only_watched(tmp_path: Path) -> None:
    home = gold_week(tmp_path)
    for table in ("gold_moves", "gold_rejections", "gold_gaps", "gold_hot_bundles"):
        (tmp_path / table).rename(tmp_path / f"away_{table}")
    page = tmp_path / "day.html"
    words = ["report", str(home), "--from", "2026-11-20", "--to", "2026-11-21"]
    assert main([*words, "--html", str(page)]) == 0
    outline = Outline(page.read_text())
    assert outline.headings[0] == "Load balancing, 2026-11-20"
    assert len(outline.pictures) == 2
    assert "No bundle was moved." in outline.text
    assert "None: every broker answered every poll." in outline.text


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["{empty}", "--html", "{home}/x.html"], "counterpoise rollup"),
        (["{home}", "--html", "{home}/x.html", "--from", "2027-01-01"], "no gold tables of these"),
        (["{home}", "--html", "{home}/x.html", "--from", "yesterday"], "is not a time such as"),
        (["{home}", "--html", "{home}/x.pdf"], "expected a name that ends with .html"),
        (["{home}", "--html", "{home}/none/x.html"], "there is no directory"),
        (["ftp://host/history", "--html", "{home}/x.html"], "ftp"),
    ],
)
def test_wrong_input_is_answered_in_a_sentence(
    words: list[str], says: str, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", *(word.format(home=home, empty=tmp_path) for word in words)]) == 2
    logged = capsys.readouterr().err
    assert says in logged
    assert "Traceback" not in logged


def test_a_template_has_moments_in_utc_and_names_without_markup_or_gaps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        (template := tmp_path / "t.html").write_text("{{ at|moment }} {{ load|bytes }} {{ name }}")
        at = 1_700_000_000_000
        page = render(template, at=at, load=1500.0, name="<b>&")
        assert page == "2023-11-14 22:13:20 UTC 1.5 kB/s &lt;b&gt;&amp;"
        with pytest.raises(UndefinedError, match="name"):
            render(template, at=at, load=1500.0)
    finally:
        monkeypatch.undo()
        time.tzset()

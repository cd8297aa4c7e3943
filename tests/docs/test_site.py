"""The documentation builds without a warning and asks no other host for anything."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOADED = re.compile(r"""<(?:script|img|link|iframe|source)[^>]+(?:src|href)=["'](?:https?:)?//""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    done = subprocess.run(
        [*command, "-d", str(out / "trees"), "docs", str(out / "html")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return out / "html"


def test_every_page_is_there_and_nothing_comes_from_elsewhere(site: Path) -> None:
    pages = {str(page.relative_to(site)): page.read_text("utf-8") for page in site.rglob("*.html")}
    assert {"index.html", "start/in-a-test.html", "_made/configuration.html"} <= pages.keys()
    assert [name for name, text in pages.items() if LOADED.search(text)] == []


def test_the_reference_names_every_setting_and_verb(site: Path) -> None:
    from counterpoise.app.main import VERBS
    from counterpoise.app.settings.table import table

    settings = (site / "_made" / "configuration.html").read_text("utf-8")
    read = [name for name, entry in table().items() if entry.rooms]
    assert len(read) > 100
    assert [name for name in read if f">{name}<" not in settings] == []
    verbs = (site / "_made" / "verbs.html").read_text("utf-8")
    assert [v.name for v in VERBS if f"counterpoise {v.name} [-h]" not in verbs] == []


def test_the_reference_names_every_series(site: Path) -> None:
    from counterpoise.admin.metrics.reference import MEANINGS
    from counterpoise.pipeline.watch.metrics import Metrics

    metrics = (site / "_made" / "metrics.html").read_text("utf-8")
    of_the_balancer = [each.name for each in Metrics(lambda: 0, 5.0).registry.collect()]
    assert len(of_the_balancer) > 10
    printed = re.findall(r"<td>.*?>(\w+)", metrics)
    assert {*MEANINGS} <= {*printed}
    assert [each for each in of_the_balancer if not any(t.startswith(each) for t in printed)] == []


def test_no_strategy_is_without_a_description(site: Path) -> None:
    from counterpoise.decide.shedding.registry import SHEDDERS

    text = (site / "strategies" / "index.html").read_text("utf-8")
    assert [name for name in SHEDDERS if f"<h2>{name}<" not in text] == []

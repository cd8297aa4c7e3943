"""The quick forms of benchmarks end, and say what their full forms say."""

import json
from pathlib import Path

import pytest
from bench.__main__ import run

from counterpoise.app.clusters.bookies import find_jars
from counterpoise.app.errors import UserError


def bookies_missing() -> str:
    """Why no bookie can be started here."""
    try:
        find_jars()
    except UserError as error:
        return str(error)
    return ""


NEEDS_BOOKIES = pytest.mark.skipif(bool(bookies_missing()), reason=bookies_missing() or "-")


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("name", "figures"),
    [
        ("history", {"landing a poll of 100,000 reports", "a commit", "a month of history"}),
        ("wire", {"a SEND_RECEIPT, written"}),
        ("topics", {"publish to receipt, memory"}),
        ("storage", {"append, CPU"}),
        ("embedded_topics", {"embedded: memory of a topic"}),
        ("lookups", {"lookups, one connection", "memory of an idle connection"}),
        pytest.param(
            "on_bookies", {"frames, unbatched", "gap of a move, median"}, marks=NEEDS_BOOKIES
        ),
        pytest.param("months", {"a batch, median"}, marks=pytest.mark.spark),
    ],
)
def test_a_quick_form_ends_with_its_figures(
    name: str, figures: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of brief lives: to compile code well costs bookies more than it saves.
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    assert run(name, tmp_path, quick=True, limit_s=500) is None
    measured = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))["figures"]
    assert figures <= {each["name"] for each in measured}
    assert all(each["value"] > 0 or each["holds"] for each in measured)

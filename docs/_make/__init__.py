"""Pages and pictures of the documentation that are made from the code."""

from __future__ import annotations

from pathlib import Path

from _make import access, configuration, metrics, pictures, plots, verbs


def make_all(to: Path) -> None:
    """Write every page and picture below ``to``, over those that are there."""
    to.mkdir(exist_ok=True)
    (to / "access.md").write_text(access.page(), "utf-8")
    (to / "configuration.md").write_text(configuration.page(), "utf-8")
    (to / "metrics.md").write_text(metrics.page(), "utf-8")
    (to / "verbs.md").write_text(verbs.page(), "utf-8")
    pictures.draw(to)
    plots.draw(to)

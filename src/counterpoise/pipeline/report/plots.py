"""Draws the plots of a report as SVG."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np

from counterpoise.names.units import byte_scale, bytes_text
from counterpoise.pipeline.page.drawing import (
    AFTER,
    BEFORE,
    QUIET,
    add_legend,
    as_svg,
    new_figure,
    plain_text,
)
from counterpoise.pipeline.report.recorded_days import UNEVEN, Numbers, RecordedDays, Rows

NAMED_MOST: Final = 40
"""If there are more brokers than this, their rows are drawn without names."""
HOUR: Final = timedelta(hours=1)


def imbalance_plot(shown: RecordedDays) -> str:
    """An SVG of the imbalance (largest broker ÷ mean) by the hour, with the moves."""
    figure, axes = new_figure(3.2)
    line = shown.imbalance
    hours, (mean, highest) = _with_breaks(line.hours, line.mean, line.highest)
    axes.fill_between(hours, 1.0, highest, color=AFTER, alpha=0.15, linewidth=0, label="highest")
    axes.plot(hours, mean, color=AFTER, linewidth=1.6, label="mean of the hour")
    axes.axhline(UNEVEN, color=QUIET, linewidth=1, linestyle=":", label="uneven above 1.25")
    for start, end in _silences(shown.gaps):
        axes.axvspan(start, end, color=QUIET, alpha=0.25, linewidth=0)
    if moved := [move["started_at"] for move in shown.moved]:
        axes.plot(
            moved, [1.0] * len(moved), "|", color=BEFORE, markersize=9, label="move", clip_on=False
        )
    axes.set_ylabel("largest broker ÷ mean")
    axes.set_ylim(bottom=1.0, top=max(1.3, float(np.nanmax(highest)) * 1.05))
    _time_axis(axes, shown)
    axes.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=4)
    return as_svg(figure)


def load_plot(shown: RecordedDays) -> str:
    """An SVG with a row for each broker and a cell for each hour, coloured by the broker's load ÷
    the mean; grey: no report.
    """
    from matplotlib import colormaps
    from matplotlib.colors import TwoSlopeNorm

    load = shown.load
    named = len(load.brokers) <= NAMED_MOST
    figure, axes = new_figure(1.1 + (0.3 * len(load.brokers) if named else 5.0))
    reporting = np.isfinite(load.bytes_per_s).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        part = load.bytes_per_s / (np.nansum(load.bytes_per_s, axis=0) / reporting)
    axes.grid(visible=False)
    edges = _edges(load.hours)
    drawn = axes.pcolormesh(
        edges,
        np.arange(len(load.brokers) + 1),
        part,
        cmap=colormaps["RdBu_r"].with_extremes(bad="#c8c8c8"),
        norm=TwoSlopeNorm(1.0, 0.5, 1.5),
        rasterized=True,
    )
    axes.invert_yaxis()
    if named:
        axes.set_yticks(np.arange(len(load.brokers)) + 0.5, map(plain_text, load.brokers))
    else:
        axes.set_ylabel(f"{len(load.brokers):,} brokers, the most loaded first")
        axes.set_yticks([])
    _time_axis(axes, shown)
    bar = figure.colorbar(drawn, ax=axes, pad=0.01, fraction=0.03, extend="both")
    bar.set_label("load ÷ mean")
    return as_svg(figure)


def moves_plot(shown: RecordedDays) -> str:
    """An SVG of the imbalance (largest broker ÷ mean) before and after each round with moves.

    Each is the mean over the ten minutes before, or after, the moves of a round.
    """
    rounds: dict[int, list[tuple[float, float]]] = {}
    for move in shown.moved:
        before, after = move["max_over_mean_before"], move["max_over_mean_after"]
        if before is not None and after is not None:
            rounds.setdefault(move["poll_id"], []).append((before, after))
    figure, axes = new_figure(3.0)
    at = [datetime.fromtimestamp(poll_id / 1000, UTC) for poll_id in rounds]
    before, after = (
        [float(np.mean([pair[side] for pair in pairs])) for pairs in rounds.values()]
        for side in (0, 1)
    )
    axes.vlines(at, before, after, color=QUIET, linewidth=1, alpha=0.6)
    axes.plot(at, before, "o", color=BEFORE, markersize=5, label="before the round")
    axes.plot(at, after, "o", color=AFTER, markersize=5, label="after it")
    axes.set_ylabel("largest broker ÷ mean")
    axes.set_ylim(bottom=1.0)
    _time_axis(axes, shown)
    add_legend(axes)
    return as_svg(figure)


def hottest_plot(shown: RecordedDays) -> str:
    """An SVG of the bundles with the most bytes/s: their mean, and their highest measurement."""
    rows = shown.hottest
    figure, axes = new_figure(1.0 + 0.32 * len(rows))
    scale, unit = byte_scale(max((row["bytes_per_s_max"] for row in rows), default=0.0))
    places = list(range(len(rows)))
    means = [row["bytes_per_s"] / scale for row in rows]
    axes.barh(places, means, height=0.62, color=AFTER, label="mean")
    highest = [row["bytes_per_s_max"] / scale for row in rows]
    axes.plot(highest, places, "|", color=BEFORE, markersize=11, markeredgewidth=2, label="highest")
    axes.set_yticks(places, [plain_text(row["bundle"]) for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel(f"{unit} in and out")
    add_legend(axes)
    return as_svg(figure)


def gaps_plot(shown: RecordedDays) -> str:
    """An SVG of when brokers did not answer, and when nothing was recorded."""
    names = sorted({_label(gap) for gap in shown.gaps})
    figure, axes = new_figure(0.9 + 0.32 * len(names))
    # A shorter gap, such as a single missed poll, is drawn this wide, so that it is visible.
    least = timedelta(minutes=3) * len(shown.days)
    for gap in shown.gaps:
        took = max(gap["last_at"] - gap["first_at"], least)
        place = names.index(_label(gap))
        axes.barh(place, took, left=gap["first_at"], height=0.6, color=BEFORE)
    axes.set_yticks(range(len(names)), map(plain_text, names))
    axes.set_ylim(len(names) - 0.4, -0.6)
    _time_axis(axes, shown)
    return as_svg(figure)


def rejections_plot(shown: RecordedDays) -> str:
    """An SVG of how often each rule rejected a move."""
    rows = shown.rejections[:12]
    figure, axes = new_figure(0.9 + 0.32 * len(rows))
    places = list(range(len(rows)))
    axes.barh(places, [row["times"] for row in rows], height=0.62, color=QUIET)
    axes.set_yticks(places, [plain_text(row["rule"]) for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel("times refused")
    axes.xaxis.get_major_locator().set_params(integer=True)
    return as_svg(figure)


def _label(gap: dict[str, Any]) -> str:
    return gap["broker"] or ("no poll" if gap["kind"] == "silence" else "whole poll")


def _silences(gaps: Rows) -> list[tuple[datetime, datetime]]:
    return [(gap["first_at"], gap["last_at"]) for gap in gaps if gap["kind"] == "silence"]


def _edges(hours: Sequence[datetime]) -> list[datetime]:
    return [*hours, hours[-1] + HOUR] if hours else []


def _with_breaks(
    hours: Sequence[datetime], *columns: Numbers
) -> tuple[list[datetime], list[list[float]]]:
    """Points in the middle of their hours, with breaks where hours are missing."""
    at: list[datetime] = []
    made: list[list[float]] = [[] for _ in columns]
    for number, hour in enumerate(hours):
        if number and hour - hours[number - 1] > HOUR:
            at.append(hour)
            for column in made:
                column.append(float("nan"))
        at.append(hour + HOUR / 2)
        for column, values in zip(made, columns, strict=True):
            column.append(float(values[number]))
    return at, made


def _time_axis(axes: Any, shown: RecordedDays) -> None:
    from matplotlib import dates

    first = datetime.fromisoformat(shown.days[0]).replace(tzinfo=UTC)
    last = datetime.fromisoformat(shown.days[-1]).replace(tzinfo=UTC) + timedelta(days=1)
    axes.set_xlim(first, last)
    made: Any = dates  # typed as Any: the functions of matplotlib's `dates` have no types
    axes.xaxis.set_major_locator(made.AutoDateLocator(minticks=4, maxticks=9, tz=UTC))
    text = "%d %b" if len(shown.days) > 2 else "%d %b %H:%M"
    axes.xaxis.set_major_formatter(made.DateFormatter(text, tz=UTC))


def share_text(part: float) -> str:
    """A fraction as a percentage; 0 % and 100 % only if it is exactly that."""
    if 0 < part < 0.0005:
        return "<0.1%"
    if 0.9995 <= part < 1:
        return ">99.9%"
    return f"{part:.1%}" if 0 < part < 0.095 or 0.905 < part < 1 else f"{part:.0%}"


def load_text(value: float | None) -> str:
    """Bytes/s as text, or a dash for None."""
    return "-" if value is None else bytes_text(value)

"""What the plots of all pages share: axes, colours, SVG text by matplotlib."""

import io
from pathlib import Path
from typing import Any

BEFORE, AFTER, QUIET = "#d55e00", "#0072b2", "#666666"


def new_figure(height: float) -> tuple[Any, Any]:
    """A matplotlib figure as wide as a page and `height` inches high, with its axes."""
    from matplotlib.figure import Figure

    # Not by pyplot, which needs a window system and keeps each figure in memory.
    figure = Figure(figsize=(9, height), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.2)
    axes.set_axisbelow(True)
    return figure, axes


def add_legend(axes: Any) -> None:
    """Add a legend above the plot, where it hides nothing."""
    axes.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=3)


def plain_text(name: str) -> str:
    """A name escaped so that matplotlib does not read formulas in it."""
    return name.replace("$", r"\$")


def write_picture(figure: Any, path: Path) -> None:
    """Write a figure to a file, in the format that the file's name ends with."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def as_svg(figure: Any) -> str:
    """The figure as SVG; the same figure gives the same text."""
    import matplotlib as mpl

    text = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "plan", "svg.fonttype": "none"}):
        figure.savefig(text, format="svg", metadata={"Date": None}, transparent=True)
    written = text.getvalue()
    return written[written.index("<svg") :]

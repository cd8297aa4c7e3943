"""What a benchmark measures, and how it is printed: figure, anchor of the same run, ratio, bar."""

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure.

    ``anchor`` names what stood beside it in the same run and ``anchor_value`` is its figure;
    ``bar`` is the sentence the design asks for and ``holds`` whether this run met it.
    """

    name: str
    value: float
    unit: str
    anchor: str = ""
    anchor_value: float | None = None
    bar: str = ""
    holds: bool | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Ours divided by the anchor's, or None where there is no anchor."""
        if self.anchor_value in {None, 0.0}:
            return None
        return self.value / float(self.anchor_value or 1.0)

    def to_json(self) -> dict[str, object]:
        return {**asdict(self), "ratio": self.ratio}


def median_seconds(work: Callable[[], object], rounds: int = 5) -> float:
    """Median wall time of ``work`` after one warm-up call."""
    work()
    samples = []
    for _ in range(rounds):
        started = time.perf_counter()
        work()
        samples.append(time.perf_counter() - started)
    return statistics.median(samples)


def table(figures: Iterable[Figure]) -> str:
    """The figures as aligned text for a terminal."""
    rows = [("figure", "ours", "anchor", "ratio", "bar", "")]
    for f in figures:
        anchor = f"{f.anchor} {number(f.anchor_value)}" if f.anchor_value is not None else "-"
        ratio = f"{f.ratio:.4g}" if f.ratio is not None else "-"
        verdict = {None: "", True: "holds", False: "FALLS SHORT"}[f.holds]
        bar = "; ".join(filter(None, (f.bar, f.note))) or "-"
        rows.append((f.name, f"{number(f.value)} {f.unit}", anchor, ratio, bar, verdict))
    widths = [max(len(row[i]) for row in rows) for i in range(6)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def number(value: float | None) -> str:
    """As few digits as a reader wants: four, or whole thousands."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"

"""How far strategies are from the best possible result, as sentences and a plot."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from counterpoise.pipeline.backtest.measure import BacktestResult
from counterpoise.pipeline.backtest.optimum.bound import WINDOWS, least_imbalance
from counterpoise.pipeline.backtest.optimum.floor import windows_of
from counterpoise.pipeline.backtest.optimum.players import Point, frontier
from counterpoise.pipeline.backtest.trace import LoadTrace
from counterpoise.pipeline.page.drawing import write_picture


@dataclass(frozen=True, slots=True)
class Optimum:
    """Bounds on what any strategy could have reached on a trace, and what local search reached."""

    floor: float
    """A lower bound on the mean imbalance over time, with any number of moves."""
    bounds: tuple[tuple[int, float], ...]
    """Pairs, in ascending order: a number of moves, and a lower bound on the imbalance of any
    strategy that makes at most as many."""
    knowing: tuple[Point, ...]
    """What local search reaches that knows future loads: a point for each price of a move."""
    learning: tuple[Point, ...]
    """What local search reaches that knows past loads alone: a point for each price of a move."""

    def bound(self, moves: int) -> float:
        """The lower bound on imbalance (largest broker ÷ mean) with at most so many moves."""
        return next((least for most, least in self.bounds if most >= moves), self.floor)


def optimum_of(trace: LoadTrace, results: Sequence[BacktestResult]) -> Optimum:
    """Compute the optimum of a trace, with a bound for the number of moves of each result."""
    windows = windows_of(trace, WINDOWS)
    counts = sorted({0, *(result.moves for result in results)})
    return Optimum(
        float(windows.least.mean()),
        tuple((count, least_imbalance(windows, count)) for count in counts),
        tuple(frontier(trace, foresees=True)),
        tuple(frontier(trace, foresees=False)),
    )


def distances(results: Sequence[BacktestResult], best: Optimum) -> list[str]:
    """Return sentences that compare results with the optimum.

    The first has the lower bound for any number of moves. Then each result has one, with its own
    bound and what local search reached.
    """
    lines = [f"no assignment at any instant is below max/mean {best.floor:.3f} on average"]
    for result in results:
        words = [
            f"{result.label}: {result.imbalance:.3f} with {result.moves:,} moves; "
            f"no play with as many is below {best.bound(result.moves):.3f}"
        ]
        for who, points in (("the load ahead", best.knowing), ("past loads", best.learning)):
            point = _nearest(points, result.moves)
            words.append(
                f"local search that knows {who} reaches {point.imbalance:.3f} with {point.moves:,}"
            )
        lines.append("; ".join(words))
    return lines


def _nearest(points: Sequence[Point], moves: int) -> Point:
    """The most even of `points` with at most `moves` moves, else the one with the fewest moves."""
    affordable = [point for point in points if point.moves <= moves]
    if not affordable:
        return min(points, key=lambda point: point.moves)
    return min(affordable, key=lambda point: point.imbalance)


def draw_frontier(results: Sequence[BacktestResult], best: Optimum, title: str, path: Path) -> None:
    """Plot imbalance against moves and against load moved: the frontiers, and each strategy."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 5.5), layout="constrained")
    sides = figure.subplots(1, 2, sharey=True)
    lines = (
        ("knows the load ahead", best.knowing, "#0072b2"),
        ("sees past loads alone", best.learning, "#e69f00"),
    )
    for axes, figured, unit in (
        (sides[0], "moves", "moves"),
        (sides[1], "moved", "load moved, times the whole cluster's"),
    ):
        for label, points, colour in lines:
            ranked = sorted(points, key=lambda point: float(getattr(point, figured)))
            x = [float(getattr(point, figured)) for point in ranked]
            axes.plot(x, [p.imbalance for p in ranked], ".-", color=colour, label=label)
        for result in results:
            at = float(getattr(result, figured)), result.imbalance
            axes.scatter(*at, color="#009e73", zorder=3)
            axes.annotate(result.label, at, (5, 4), textcoords="offset points", fontsize=8)
        axes.axhline(best.floor, color="#999999", linestyle=":", label="floor at every instant")
        axes.set_xlabel(unit)
        axes.grid(alpha=0.2)
    proved = [least for _, least in best.bounds]
    sides[0].step(
        [count for count, _ in best.bounds],
        proved,
        "--",
        where="post",
        color="#cc79a7",
        label="proved bound",
    )
    sides[0].set_ylabel("largest broker ÷ mean, averaged over time")
    sides[0].legend(fontsize=8)
    figure.suptitle(title)
    write_picture(figure, path)

"""A backtest's results, ranked, compared and plotted."""

import math
from collections.abc import Sequence
from pathlib import Path

from counterpoise.names.units import aligned
from counterpoise.pipeline.backtest.measure import BacktestResult
from counterpoise.pipeline.page.drawing import new_figure, write_picture

HEADER = (
    "rank",
    "strategy",
    "max/mean",
    "worst",
    "deviation",
    "uneven",
    "usage",
    "moves",
    "load moved",
    "thrash",
    "waited",
    "score",
)

NAMED = 24
"""How many of the best results the legend of a plot names."""


def ranked(results: Sequence[BacktestResult]) -> list[BacktestResult]:
    """Sort results, the best first: by score, then fewer moves, then name.

    A result without moves comes after all those whose moves made brokers more even. The recorded
    behaviour comes last, since it cannot be chosen.
    """
    idle = _still(results)
    return sorted(
        results,
        key=lambda one: (
            one.as_recorded,
            not _helped(one, idle),
            one.moves > 0,
            one.score,
            one.moves,
            one.label,
        ),
    )


def best_trades(results: Sequence[BacktestResult]) -> list[BacktestResult]:
    """The Pareto-optimal results: no other one is at least as even and moved less load.

    A result counts only if it moved something and left the brokers more even than no moves would.
    """
    idle = _still(results)
    tried = [one for one in results if _helped(one, idle) and not one.as_recorded]
    return [
        one
        for one in tried
        if not any(
            (other.imbalance <= one.imbalance and other.moved <= one.moved)
            and (other.imbalance < one.imbalance or other.moved < one.moved)
            for other in tried
        )
    ]


def _still(results: Sequence[BacktestResult]) -> float:
    """The imbalance when nothing moves; infinite if every result has moves."""
    return min((one.imbalance for one in results if not one.moves), default=math.inf)


def _helped(result: BacktestResult, idle: float) -> bool:
    return result.moves > 0 and result.imbalance < idle


def calibration(results: Sequence[BacktestResult]) -> list[str]:
    """Sentences on how far each replay differs from what really happened in the recording.

    The difference is the simulation's error if the replayed strategy was the recorded balancer.
    Empty without recorded moves.
    """
    recorded = next((one for one in results if one.as_recorded), None)
    if recorded is None:
        return []
    lines = [
        f"  {each.imbalance / recorded.imbalance - 1:+.1%} of max/mean and "
        f"{_moves_off(each.moves, recorded.moves)}, if it was {each.label}"
        for each in ranked(results)
        if each.moves and not each.as_recorded
    ]
    error = "a replay of the balancer that did this, by its settings, is off by"
    start = f"recorded: max/mean {recorded.imbalance:.3f}, {recorded.moves:,} moves; "
    return [start + (error if lines else "no replay moved anything"), *lines]


def _moves_off(moves: int, recorded: int) -> str:
    # `recorded` is 0 if all moves were before the replay began, or off brokers that stopped.
    if not recorded:
        return f"{moves:,} moves where there was none"
    return f"{moves / recorded - 1:+.1%} of the moves"


def spreads(results: Sequence[BacktestResult]) -> list[str]:
    """Sentences on how each simulated leader's result varies with the time of its first round."""
    many = [one for one in ranked(results) if one.beginnings > 1]
    if not many:
        return []
    lines = [
        f"leaders are replayed from {many[0].beginnings} beginnings, since no recording says at "
        "which second of their interval they decide; their figures are medians of these replays, "
        "which came to"
    ]
    lines += [
        f"  max/mean {_span(f'{each.imbalance_least:.3f}', f'{each.imbalance_most:.3f}')} and "
        f"{_span(f'{each.moves_least:,}', f'{each.moves_most:,}')} moves by {each.label}"
        for each in many
    ]
    return lines


def _span(least: str, most: str) -> str:
    return least if least == most else f"{least} to {most}"


def table(results: Sequence[BacktestResult]) -> str:
    """The ranked results as an aligned text table; a star marks each of the `best_trades`."""
    best = {result.label for result in best_trades(results)}
    rows = [HEADER]
    for place, result in enumerate(ranked(results), 1):
        rows.append(
            (
                "-" if result.as_recorded else f"{place}{'*' if result.label in best else ''}",
                result.label,
                f"{result.imbalance:.3f}",
                f"{result.worst:.2f}",
                f"{result.deviation:.3f}",
                f"{result.uneven:.1%}",
                f"{result.usage:.0f}%",
                f"{result.moves:,}",
                f"{result.moved:.2f}x",
                f"{result.thrash:,}",
                f"{result.waited_s:,.0f} s",
                f"{result.score:.3f}",
            )
        )
    return "\n".join(aligned(rows, left=(0, 1)))


def idle(results: Sequence[BacktestResult]) -> list[str]:
    """For each result without moves, a sentence that says why nothing was moved."""
    return [
        f"{result.label} moved nothing: {result.why_not}"
        for result in ranked(results)
        if not result.moves and result.why_not
    ]


def change(before: BacktestResult, after: BacktestResult) -> str:
    """A sentence that compares the imbalance and moves of one configuration with another's."""
    words = []
    gap = after.imbalance - before.imbalance
    if abs(gap) < 0.005:
        words.append(f"the brokers stay as even as they were (max/mean {after.imbalance:.3f})")
    else:
        how = "more even" if gap < 0 else "less even"
        words.append(f"brokers {how}: max/mean {before.imbalance:.3f} -> {after.imbalance:.3f}")
    hours = max(after.hours, 1e-9)
    words.append(f"moves {before.moves / hours:.1f} -> {after.moves / hours:.1f} an hour")
    words.append(f"load moved {before.moved:.2f} -> {after.moved:.2f} times the whole")
    if before.thrash or after.thrash:
        words.append(f"moved again within an hour {before.thrash:,} -> {after.thrash:,}")
    return "; ".join(words)


def draw(results: Sequence[BacktestResult], title: str, path: Path) -> None:
    """Plot imbalance against load moved to a file, in the format that its name ends with."""
    still = [one for one in results if not one.moves and not one.as_recorded]
    best = sorted([*best_trades(results), *still[:1]], key=lambda result: result.moved)
    figure, axes = new_figure(6.0)
    axes.plot(
        [result.moved for result in best],
        [result.imbalance for result in best],
        color="#009e73",
        linewidth=1,
        zorder=1,
    )
    width = max((result.moved for result in results), default=0.0) or 1.0
    axes.set_xlim(-0.03 * width, 1.1 * width)
    low, high = min(one.imbalance for one in results), max(one.imbalance for one in results)
    size = max(high - low, 0.02)
    axes.set_ylim(low - 0.1 * size, high + 0.15 * size)
    # Points are labelled with their ranks, and points that nearly coincide share a label. The
    # legend has the names.
    points: dict[tuple[int, int], list[tuple[int, BacktestResult]]] = {}
    named = []
    for rank, result in enumerate(ranked(results), 1):
        named.append(axes.plot([], [], " ", label=f"{rank}  {result.label}")[0])
        spot = round(20 * result.moved / width), round(25 * (result.imbalance - low) / size)
        points.setdefault(spot, []).append((rank, result))
        chosen = result in best
        axes.scatter(
            result.moved,
            result.imbalance,
            color="#009e73" if chosen else "#999999",
            zorder=3 if chosen else 2,
        )
    for here in points.values():
        at = here[0][1].moved, here[0][1].imbalance
        text = ", ".join(str(rank) for rank, _ in here)
        axes.annotate(text, at, xytext=(6, 4), textcoords="offset points", fontsize=8)
    figure.legend(
        handles=named[:NAMED], loc="outside lower left", fontsize=7, ncols=2, handlelength=0
    )
    axes.set_xlabel("load moved, times the whole cluster's")
    axes.set_ylabel("largest broker ÷ mean, averaged over time")
    axes.set_title(title)
    write_picture(figure, path)

"""The figures by which a replay is judged."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from counterpoise.decide.plan import Rejection
from counterpoise.load.rates import Floats, Indices, Rates
from counterpoise.load.view import Masks
from counterpoise.pipeline.backtest.trace import LoadTrace, time_ms

THRASH_WITHIN_MS = 3_600_000
"""A bundle that moves again within this time counts as thrash."""
HOUR_MS = 3_600_000
NEAR = 0.05
"""Brokers have converged once largest ÷ mean is within this of the median of what follows."""
UNEVEN = 1.25
"""Brokers count as uneven if the largest one's bytes/s ÷ their mean is above this."""


@dataclass(frozen=True, slots=True)
class BacktestResult:
    """The figures of one strategy on one span of a trace: imbalance, moves and their cost."""

    label: str
    first_ms: int
    steps: int
    hours: float
    imbalance: float
    """Largest broker's bytes/s ÷ their mean, averaged over time; 1 is perfectly even.

    A broker whose network is half as large counts its bytes twice.
    """
    worst: float
    """The largest imbalance at any step."""
    deviation: float
    """Standard deviation of brokers' bytes/s ÷ their mean, averaged over time."""
    uneven: float
    """The part of the time in which largest ÷ mean was above 1.25."""
    moves: int
    moved: float
    """Bytes/s moved ÷ the whole cluster's bytes/s, added up: at 1, all traffic moved once."""
    waited_s: float
    """Seconds for which bundles were unavailable because they were moved, added up."""
    delayed: float
    """Messages published to bundles while they were unavailable because of a move."""
    thrash: int
    """Moves of a bundle that had moved less than an hour before."""
    orphans: int
    """Bundles placed again because their broker left, which no strategy can prevent."""
    why_not: str = ""
    """Why no more bundles moved: a sentence on the most frequent refusal and its highest figure."""
    late_moves: int = 0
    """Moves after the first hour; if the load is constant, they serve no purpose."""
    needed: float = 0.0
    """The least load that had to move to make brokers even at the start and whenever one joined,
    as a part of the whole load; 1 is the whole load once."""
    converged_min: float = 0.0
    """Minutes until brokers were even, from the start or the last time that brokers joined or left.

    That is until largest ÷ mean first was within 0.05 of the median of what followed."""
    usage: float = 0.0
    """The 95th percentile over time of the fullest broker's usage of processor or network, in per
    cent."""
    as_recorded: bool = False
    """Whether the figures are of the moves that were recorded, and not of a strategy."""
    begins_ms: int = 0
    """How many milliseconds after the start of the replay its first round was due."""
    beginnings: int = 1
    """How many replays of a leader were made, which differ in when the first round was due. If
    several, each figure is their median, and the fields below are their least and greatest
    values."""
    imbalance_least: float = 0.0
    imbalance_most: float = 0.0
    moves_least: int = 0
    moves_most: int = 0

    @property
    def excess(self) -> float:
        """Load moved ÷ the least that had to move to even out brokers; 0 if nothing had to."""
        return self.moved / self.needed if self.needed > 0 else 0.0

    @property
    def score(self) -> float:
        """Mean imbalance above 1, plus load moved per hour (1 is the whole load once per hour).

        Lower is better.
        """
        return self.imbalance - 1 + self.moved / max(self.hours, 1e-9)

    def to_json(self) -> dict[str, Any]:
        """All figures by name."""
        return {**asdict(self), "excess": self.excess, "score": self.score}


class Measure:
    """Adds up the figures of one replay under a strategy, step by step.

    A bundle that moves is assumed to be unavailable for `move_s` seconds.
    """

    def __init__(self, move_s: float) -> None:
        self.move_s = move_s
        self._ratios: list[float] = []
        self._deviations: list[float] = []
        self._used: list[float] = []
        self._last_move: dict[int, int] = {}
        self._moves = self._orphans = 0
        self._gaps: list[int] = []
        self._moved_at: list[int] = []
        self._up: Masks | None = None
        self._changed_at = 0
        self._needed = 0.0
        self._moved = self._delayed = 0.0
        self._refused: Counter[str] = Counter()
        self._highest: dict[str, Rejection] = {}

    def step(self, through: Floats, owners: Indices, up: Masks, size: Floats, used: float) -> None:
        """Add a step: each bundle's bytes/s (``through``) and owner, and which brokers are up.

        ``size`` is what each broker can carry, in bytes/s; ``used`` is the usage of the fullest
        broker, in per cent.
        """
        self._used.append(used)
        carried = (np.bincount(owners, through, minlength=len(up)) * (size.mean() / size))[up]
        mean = carried.mean()
        before, self._up = self._up, up
        joined = before is None or bool((up & ~before).any())
        if before is not None and (up != before).any():
            self._changed_at = len(self._ratios)
        if mean > 0:
            if joined:
                self._needed += float((carried - mean).clip(0.0).sum() / carried.sum())
            self._ratios.append(float(carried.max() / mean))
            self._deviations.append(float(carried.std() / mean))

    def moved(self, step: int, row: int, loads: Rates) -> None:
        """Count a move of the bundle with index `row`, at the loads of this step."""
        through = loads.throughput()
        self._moves += 1
        self._moved_at.append(step)
        self._moved += float(through[row] / max(through.sum(), 1e-9))
        self._delayed += float(loads.rate_in[row] * self.move_s)
        if row in self._last_move:
            self._gaps.append(step - self._last_move[row])
        self._last_move[row] = step

    def refused(self, rejections: Iterable[Rejection]) -> None:
        """Count a round's rejections by rule, and remember each rule's highest value."""
        for each in rejections:
            self._refused[each.rule] += 1
            kept = self._highest.setdefault(each.rule, each)
            if (each.value or 0.0) > (kept.value or 0.0):
                self._highest[each.rule] = each

    def orphan(self) -> None:
        """Count a bundle that was placed on another broker because its own left the cluster."""
        self._orphans += 1

    def result(self, label: str, trace: LoadTrace, first: int, last: int) -> BacktestResult:
        """The figures of the replay from step `first` up to, not including, `last`."""
        soon = THRASH_WITHIN_MS // trace.step_ms
        ratios = np.array(self._ratios or [1.0])
        return BacktestResult(
            label=label,
            first_ms=time_ms(trace, first),
            steps=last - first,
            hours=(last - first) * trace.step_ms / 3_600_000,
            imbalance=float(ratios.mean()),
            worst=float(ratios.max()),
            deviation=float(np.mean(self._deviations or [0.0])),
            uneven=float((ratios > UNEVEN).mean()),
            moves=self._moves,
            moved=self._moved,
            waited_s=self._moves * self.move_s,
            delayed=self._delayed,
            thrash=sum(gap < soon for gap in self._gaps),
            orphans=self._orphans,
            why_not=self._why_not(),
            late_moves=sum((at - first) * trace.step_ms > HOUR_MS for at in self._moved_at),
            needed=self._needed,
            usage=float(np.percentile(self._used or [0.0], 95)),
            converged_min=self._converged(ratios) * trace.step_ms / 60_000,
        )

    def _converged(self, ratios: Floats) -> int:
        """Steps from the last change of brokers until largest ÷ mean first is near its later
        median.
        """
        after = ratios[self._changed_at :]
        if not len(after):
            return 0
        return int(np.argmax(after <= np.median(after) + NEAR))

    def _why_not(self) -> str:
        if not self._refused:
            return ""
        rule = min(self._refused, key=lambda each: (-self._refused[each], each))
        return self._highest[rule].sentence

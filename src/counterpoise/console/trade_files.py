"""Reads the results of backtests from files that `counterpoise backtest --json` wrote."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import orjson

from counterpoise.picture.trades import Trade
from counterpoise.pipeline.backtest.measure import BacktestResult
from counterpoise.pipeline.backtest.report import best_trades, ranked


class TradeFiles:
    """The results of backtests in files, each read again whenever it has changed."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = [Path(each) for each in paths]
        self._read: dict[Path, tuple[float, tuple[Trade, ...]]] = {}

    def __call__(self) -> list[tuple[str, tuple[Trade, ...]]]:
        """Return each file's name, without its extension, and results; skip unreadable files."""
        found = []
        for path in self._paths:
            try:
                changed = path.stat().st_mtime
                if path not in self._read or self._read[path][0] != changed:
                    self._read[path] = (changed, trades_of(path.read_bytes()))
            except (OSError, ValueError, TypeError, KeyError):
                continue
            found.append((path.stem, self._read[path][1]))
        return found


def trades_of(text: bytes) -> tuple[Trade, ...]:
    """Parse the backtest results in a file's text, best first.

    Raises ValueError, TypeError or KeyError for other content.
    """
    names = [each.name for each in fields(BacktestResult)]
    # A file that an earlier version wrote has fewer figures.
    rows = [{name: row[name] for name in names if name in row} for row in orjson.loads(text)]
    results = [BacktestResult(**row) for row in rows]
    best = {id(each) for each in best_trades(results)}
    return tuple(
        Trade(each.label, each.moved, each.imbalance, each.moves, each.thrash, id(each) in best)
        for each in ranked(results)
    )

"""A lower bound on the imbalance that any strategy leaves with a number of moves.

It is the optimum of a mixed-integer program, solved by HiGHS (MIT, maintained, one wheel of 5 MB
that needs NumPy alone; OR-tools' CP-SAT would do as well and is six times the size). Each bundle
has one integer variable: whether it ever leaves its first broker. At most as many bundles leave as
there are moves. A bundle that left adds no load to any broker, and may return at any time without a
move. Both favour the program over every real strategy, so its optimum is a bound; the floor of each
window holds as well. Within a window, a bundle's load counts as its mean. If the solver's time is
up, the bound is what it has proved by then.
"""

from importlib import import_module
from typing import Any, Final

import numpy as np

from counterpoise.pipeline.backtest.optimum.floor import Windows

WINDOWS: Final = 16
SECONDS: Final = 20.0
GAP: Final = 0.002


def least_imbalance(windows: Windows, moves: int, seconds: float = SECONDS) -> float:
    """A proved lower bound on the mean over time of (fullest broker ÷ mean), with at most `moves`.

    The solver has `seconds`. Raises ``RuntimeError`` if it proves nothing, ``ImportError`` without
    `highspy`.
    """
    highspy: Any = import_module("highspy")

    solver = highspy.Highs()
    for name, value in (
        ("output_flag", False),
        ("threads", 1),
        ("time_limit", seconds),
        ("mip_rel_gap", GAP),
    ):
        solver.setOptionValue(name, value)
    solver.passModel(_program(windows, moves))
    solver.run()
    found = float(solver.getInfo().mip_dual_bound)
    if not np.isfinite(found):
        status = solver.modelStatusToString(solver.getModelStatus())
        raise RuntimeError(f"no bound was proved within {seconds:.0f} s: {status}")
    return max(found, float(windows.least.mean()))


def _program(windows: Windows, moves: int) -> Any:
    """Build the mixed-integer program.

    Its columns: whether a bundle is away from its first broker (window, bundle); whether it ever
    leaves that broker (bundle); the load of the fullest broker (window). Its rows: the fullest
    broker carries at least what each broker keeps (window, broker); a bundle that is away has left
    (window, bundle); at most as many bundles leave as there are moves.
    """
    highspy: Any = import_module("highspy")

    spans, bundles = windows.load.shape
    brokers, owner = len(windows.relief), windows.owners
    away = np.arange(spans * bundles).reshape(spans, bundles)
    leaves = away.size + np.arange(bundles)
    fullest = away.size + bundles + np.arange(spans)
    kept = np.arange(spans * brokers).reshape(spans, brokers)
    left = kept.size + away
    cost = np.zeros(away.size + bundles + spans)
    cost[fullest] = 1.0 / spans
    low, high = np.zeros(len(cost)), np.ones(len(cost))
    low[fullest], high[fullest] = windows.least, 1e30
    load = windows.load * windows.relief[owner]
    # A bundle whose broker was away was placed elsewhere, which is no move.
    placed = np.logical_or.accumulate(~windows.up[:, owner], axis=0)
    parts = [
        (kept[:, owner], away, load),
        (kept, np.repeat(fullest[:, np.newaxis], brokers, axis=1), np.ones(kept.shape)),
        (left, away, -np.ones(away.shape)),
        (left, np.broadcast_to(leaves, away.shape), np.ones(away.shape)),
        (np.full(bundles, kept.size + away.size), leaves, np.ones(bundles)),
    ]
    rows, columns, values = (np.concatenate([part[i].ravel() for part in parts]) for i in range(3))
    row_low = np.concatenate(
        [
            np.stack([np.bincount(owner, each, brokers) for each in load]).ravel(),
            np.where(placed, -1.0, 0.0).ravel(),
            [-1e30],
        ]
    )
    row_high = np.full(len(row_low), 1e30)
    row_high[-1] = moves
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = len(cost), len(row_low)
    program.col_cost_, program.col_lower_, program.col_upper_ = cost, low, high
    program.row_lower_, program.row_upper_ = row_low, row_high
    order = np.lexsort((rows, columns))
    counts = np.bincount(columns, minlength=len(cost))
    program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    program.a_matrix_.start_ = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    program.a_matrix_.index_ = rows[order].astype(np.int32)
    program.a_matrix_.value_ = values[order].astype(np.float64)
    whole = np.full(len(cost), highspy.HighsVarType.kContinuous)
    whole[leaves] = highspy.HighsVarType.kInteger
    program.integrality_ = whole.tolist()
    return program

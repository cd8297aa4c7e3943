"""Computes the basis of a round's moves, from folded reports or from the view it was decided on."""

from dataclasses import replace

import numpy as np

from counterpoise.decide.balancing.basis import Measurement, MoveBasis
from counterpoise.decide.balancing.moves import Move, Round
from counterpoise.load.fold import FoldState
from counterpoise.load.rows import RATES, Table
from counterpoise.load.view import ClusterView

THROUGHPUT = tuple(name for name in RATES if "throughput" in name)


def with_basis(made: Round, state: FoldState) -> Round:
    """A copy of a round in which each move has its `MoveBasis`, by the folded reports."""
    moves = tuple(replace(move, basis=basis_of(move, state, made.poll_id)) for move in made.moves)
    return replace(made, moves=moves)


def basis_of(move: Move, state: FoldState, now_ms: int) -> MoveBasis | None:
    """The bundle's average and newest measurement, and the latest load of both brokers.

    None for a bundle that was never reported.
    """
    averages, served = state.averages, state.served
    row = _row(averages, "bundle", move.bundle)
    if row is None:
        return None
    newest = np.flatnonzero(served["bundle"] == move.bundle)
    measured = None
    if len(newest):
        last = int(newest[np.argmax(served["poll_id"][newest])])
        age_s = max(0, now_ms - int(averages["seen_at_ms"][row])) / 1000
        measured = Measurement(_throughput(served, last), age_s)
    return MoveBasis(
        sum(float(averages[f"short_{name}"][row]) for name in THROUGHPUT),
        int(averages["short_samples"][row]),
        measured,
        _reported(state.brokers, move.source, now_ms),
        _reported(state.brokers, move.destination, now_ms),
    )


def with_basis_in_view(made: Round, view: object) -> Round:
    """A copy of a round in which each move has its `MoveBasis`, by the view it was decided on.

    A round on another kind of view (PIP-192's load stores) is returned unchanged.
    """
    if not isinstance(view, ClusterView):
        return made
    moves = tuple(replace(move, basis=basis_in_view(move, view)) for move in made.moves)
    return replace(made, moves=moves)


def basis_in_view(move: Move, view: ClusterView) -> MoveBasis | None:
    """A move's basis by a view, without the ages of measurements; None if it lacks the bundle."""
    row = view.bundle_index(move.bundle)
    if row is None:
        return None
    loads = view.broker.traffic.throughput()
    indices = (view.broker_index(move.source), view.broker_index(move.destination))
    source, destination = (
        None if index is None else Measurement(float(loads[index])) for index in indices
    )
    samples = int(view.bundle.samples[row, 1])
    return MoveBasis(view.carried(move.bundle), samples, None, source, destination)


def _reported(brokers: Table, broker: str, now_ms: int) -> Measurement | None:
    row = _row(brokers, "broker", broker)
    if row is None:
        return None
    age_s = max(0, now_ms - int(brokers["report_poll"][row])) / 1000
    return Measurement(_throughput(brokers, row), age_s)


def _row(table: Table, column: str, name: str) -> int | None:
    found = np.flatnonzero(table[column] == name)
    return int(found[0]) if len(found) else None


def _throughput(table: Table, row: int) -> float:
    return sum(float(table[name][row]) for name in THROUGHPUT)

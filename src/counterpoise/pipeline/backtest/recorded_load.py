"""Finds when bundles' loads and owners changed, from reports that each cover the time before them.

A broker measures rates once a minute by default, and reports the rates since the measurement
before. So the load of a moment is in a later report. The first report of a bundle after a move
covers only part of that time, and includes what clients could not publish during the move: it is
replaced by the next one.
"""

from dataclasses import dataclass

import numpy as np

from counterpoise.load.fold import FORGET_AFTER_MS
from counterpoise.load.rates import Floats, Indices
from counterpoise.load.view import Integers, Masks


@dataclass(frozen=True)
class BundleReports:
    """All bundle reports of a recording without NaN, and all measurements of its brokers."""

    poll_ms: Integers
    broker: Indices
    bundle: Indices
    rates: Floats
    """The rates of each report: a row of four, in the order of `RATES`."""
    measured_ms: Integers
    """The time of each measurement, which is the time of the first poll that read it."""
    measured_by: Indices
    """The broker that made each measurement."""


@dataclass(frozen=True)
class LoadChanges:
    """The times at which bundles' loads changed, and the new rates, as columns in order of time."""

    from_ms: Integers
    bundle: Indices
    rates: Floats


@dataclass(frozen=True)
class OwnerChanges:
    """The times at which bundles changed brokers, with both brokers, as columns in order."""

    at_ms: Integers
    bundle: Indices
    source: Indices
    destination: Indices


def changes_of(reports: BundleReports) -> tuple[LoadChanges, OwnerChanges]:
    """Derive from reports when each bundle's load changed, and when its owner did."""
    order = np.lexsort((reports.poll_ms, reports.bundle))
    at_ms, owner = reports.poll_ms[order], reports.broker[order]
    bundle, rates = reports.bundle[order], reports.rates[order].copy()
    before_ms = _measured_before(reports, at_ms, owner)
    count = len(at_ms)
    same = np.zeros(count, np.bool_)
    same[1:] = bundle[1:] == bundle[:-1]
    moved = same.copy()
    moved[1:] &= owner[1:] != owner[:-1]
    # The first report after a move is replaced by the next one, which measures a whole interval.
    repeated = np.zeros(count, np.bool_)
    repeated[:-1] = moved[:-1] & same[1:] & (owner[1:] == owner[:-1])
    rates[:-1][repeated[:-1]] = rates[1:][repeated[:-1]]
    last_ms = np.where(same, np.concatenate([at_ms[:1], at_ms[:-1]]), before_ms)
    known = same & (at_ms - last_ms <= FORGET_AFTER_MS)
    start_ms = np.where(known, last_ms, before_ms)
    loads = _with_ends(at_ms, start_ms, bundle, rates, same)
    # A move took place between the source's last report of the bundle and the destination's first
    # one, and after the destination's last measurement without the bundle.
    left_ms = np.maximum(before_ms, last_ms)[moved]
    middle = (left_ms + at_ms[moved]) // 2
    source = owner[np.flatnonzero(moved) - 1]
    by_time = np.argsort(middle, kind="stable")
    went = OwnerChanges(
        middle[by_time], bundle[moved][by_time], source[by_time], owner[moved][by_time]
    )
    return loads, went


def _measured_before(reports: BundleReports, at_ms: Integers, owner: Indices) -> Integers:
    """The time of the last measurement that the broker of each report made before the report.

    If none is recorded, the usual interval before the report.
    """
    times = np.sort(np.unique(reports.measured_ms))
    if not len(times):
        return at_ms - 1
    # Broker and time are combined into one number, so that one search finds both.
    width = int(times[-1] - times[0]) + 2
    first = int(times[0])
    keys = np.unique(reports.measured_by.astype(np.int64) * width + (reports.measured_ms - first))
    places = owner.astype(np.int64) * width + (at_ms - first)
    place = np.searchsorted(keys, places, side="left") - 1
    found = keys[np.maximum(place, 0)]
    mine = (place >= 0) & (found // width == owner)
    spans = np.diff(keys)[np.diff(keys // width) == 0]
    usual = int(np.median(spans)) if len(spans) else 1
    before: Integers = np.where(mine, found % width + first, at_ms - usual)
    return before


def _with_ends(
    at_ms: Integers, start_ms: Integers, bundle: Indices, rates: Floats, same: Masks
) -> LoadChanges:
    """The changes of load, and one to zero `FORGET_AFTER_MS` after a bundle's last report, or
    after one that no other follows in that time.
    """
    next_ms = np.full(len(at_ms), np.iinfo(np.int64).max)
    next_ms[:-1][same[1:]] = start_ms[1:][same[1:]]
    ends = next_ms > at_ms + FORGET_AFTER_MS
    from_ms = np.concatenate([start_ms, at_ms[ends] + FORGET_AFTER_MS])
    bundles = np.concatenate([bundle, bundle[ends]])
    values = np.concatenate([rates, np.zeros((int(ends.sum()), rates.shape[1]))])
    order = np.argsort(from_ms, kind="stable")
    return LoadChanges(from_ms[order], bundles[order], values[order].astype(np.float32))

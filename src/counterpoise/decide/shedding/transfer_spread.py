"""How unevenly brokers are loaded, updated while TransferShedder moves bundles pair by pair."""

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from counterpoise.decide.shedding.candidates import ascending
from counterpoise.decide.shedding.options import TransferOptions
from counterpoise.load.rates import Floats, Indices, sum_in_order
from counterpoise.load.store_view import LoadStoreView
from counterpoise.load.view import Masks


class Cause(NamedTuple):
    """Why a pair of brokers should be evened out: Pulsar's metric label, and our rule's label."""

    label: str
    rule: str


DEVIATING: Final = Cause("Overloaded", "deviation")
"""Reason for shedding: the standard deviation of the brokers' loads is above the target."""
IDLE: Final = Cause("Underloaded", "idle")
"""Reason for shedding: the least loaded broker is far below the average."""
FULL: Final = Cause("Overloaded", "full")
"""Reason for shedding: the most loaded broker is above the limit and far above the average."""

_HALF: Final = 0.5
_ORDINARY: Final = 1e100
"""Smaller loads do not overflow when their squares are added up."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a call ends before any pair of brokers is considered: Pulsar's label, and the figures."""

    reason: str
    subject: str = "cluster"
    value: float | None = None
    limit: float | None = None


@dataclass(slots=True)
class FreshLoads:
    """The loads of brokers with recent load data, and the brokers whose cool-down is over."""

    loads: Floats
    cooled: tuple[str, ...] = ()
    stop: Stop | None = None


def measure(view: LoadStoreView, options: TransferOptions) -> FreshLoads:
    """The recent loads by broker, in order of name, or why the call must end.

    Java iterates over a hash table, so when a broker is cooling down, which others are found to
    have cooled before the call ends may differ.
    """
    if not view.brokers:
        return FreshLoads(view.load, stop=Stop("NoBrokers", "cluster", 0.0, 1.0))
    made = FreshLoads(view.load)
    if view.unloaded_brokers or not _all_fresh(view, options):
        _look_at_ages(made, view, options)
    if made.stop is None and view.unpublished:
        made.stop = Stop("NoLoadData", view.unpublished[0], float(len(view.unpublished)), 0.0)
    return made


def _all_fresh(view: LoadStoreView, options: TransferOptions) -> bool:
    """Whether all load data is recent. False for times before 1970: Java's ages overflow."""
    oldest = view.updated_at.item(view.updated_at.argmin())
    return 0 <= view.now_ms <= oldest + options.load_data_ttl_s * 1000


def _look_at_ages(made: FreshLoads, view: LoadStoreView, options: TransferOptions) -> None:
    """Exclude load data that is too old; stop if a broker is cooling down, or if none is left."""
    ages = view.now_ms - view.updated_at
    fresh = ages <= options.load_data_ttl_s * 1000
    made.loads = view.load[fresh]
    _cool_down(made, view, options, fresh)
    if made.stop is None and not len(made.loads):
        age = float(ages.min()) / 1000
        made.stop = Stop("OutDatedData", "cluster", age, float(options.load_data_ttl_s))


def _cool_down(
    made: FreshLoads, view: LoadStoreView, options: TransferOptions, fresh: Masks
) -> None:
    """Find the brokers that have measured since their bundles moved; stop at one that has not."""
    cooled: list[str] = []
    for index, broker in enumerate(view.brokers):
        if not fresh[index] or broker not in view.unloaded_brokers:
            continue
        elapsed = view.updated_at.item(index) - view.unloaded_brokers[broker]
        if elapsed < options.shedding_delay_s * 1000:
            limit = float(options.shedding_delay_s)
            made.stop = Stop("CoolDown", broker, elapsed / 1000, limit)
            break
        cooled.append(broker)
    made.cooled = tuple(cooled)


@dataclass(slots=True)
class Spread:
    """The brokers sorted by load, and the standard deviation, which is updated with each move.

    ``least`` and ``most`` are the positions of the next pair in ``order``.
    """

    view: LoadStoreView
    options: TransferOptions
    order: Indices
    average: float
    squares: float
    count: int
    std: float
    least: int
    most: int

    @staticmethod
    def of(view: LoadStoreView, options: TransferOptions, fresh: Floats) -> "Spread":
        """The spread before any move. Brokers with old load data have a place in the order as well.

        ``fresh`` are the loads that are recent enough. They are summed in order of name, in Java in
        that of a hash table: sums may differ by rounding.
        """
        order = ascending(view.load)
        lowest, highest = view.load.item(order.item(0)), view.load.item(order.item(-1))
        if lowest > -_ORDINARY and highest < _ORDINARY:
            total, squares = _sums(fresh)
        else:
            with np.errstate(all="ignore"):
                total, squares = _sums(fresh)
        count = len(fresh)
        average = total / count
        variance = squares / count - average * average
        std = math.sqrt(variance) if variance >= 0 else math.nan
        return Spread(view, options, order, average, squares, count, std, 0, len(order) - 1)

    def pair(self) -> tuple[int, int]:
        """The least and the most loaded of the remaining brokers."""
        return self.order.item(self.least), self.order.item(self.most)

    @property
    def margin(self) -> float:
        """The part of the average load below which a broker counts as far below it."""
        return min(_HALF, max(0.0, self.options.target_std / 2.0))

    def underloaded(self) -> bool:
        """Whether the least loaded broker is far below the average, in load or in traffic."""
        least, most = self.pair()
        margin = self.margin
        if self.view.load.item(least) < self.average * margin:
            return True
        averages = self.view.throughput_average
        return averages.item(least) < averages.item(most) * margin

    def overloaded(self) -> bool:
        """Whether the most loaded broker is above the limit and far above the average."""
        load = self.view.load.item(self.order.item(self.most))
        limit = self.options.overloaded_threshold_percentage / 100.0
        return load > limit and load > self.average + self.options.target_std

    def cause(self) -> Cause | None:
        """Why the next pair should be evened out; None if it need not."""
        if self.std > self.options.target_std:
            return DEVIATING
        if self.underloaded():
            return IDLE
        return FULL if self.overloaded() else None

    def moved(self, low: float, high: float, load: float) -> None:
        """Update the deviation after ``load`` moved from a broker with the load ``high`` to one
        with the load ``low``, and go on to the next pair. The average stays.
        """
        self.squares -= high * high + low * low
        high, low = max(0.0, high - load), low + load
        self.squares += high * high + low * low
        self.std = math.sqrt(abs(self.squares / self.count - self.average * self.average))
        self.least += 1


def _sums(loads: Floats) -> tuple[float, float]:
    """The sum of the loads, and of their squares."""
    return sum_in_order(loads), sum_in_order(loads * loads)

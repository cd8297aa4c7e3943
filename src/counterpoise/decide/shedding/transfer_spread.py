"""How unevenly the brokers are loaded, while TransferShedder evens them out pair by pair."""

import math
from dataclasses import dataclass
from typing import Final

from counterpoise.decide.shedding.candidates import ascending
from counterpoise.decide.shedding.transfer_options import TransferOptions
from counterpoise.load.rates import Indices, sum_in_order
from counterpoise.load.store_view import LoadStoreView
from counterpoise.load.view import Masks

OVERLOADED: Final = "Overloaded"
UNDERLOADED: Final = "Underloaded"

_HALF: Final = 0.5


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a call ends before it looks at brokers: Pulsar's name for it, and what it rests on."""

    reason: str
    subject: str = "cluster"
    value: float | None = None
    limit: float | None = None


@dataclass(slots=True)
class Measured:
    """Sums over the brokers with fresh load data, and brokers whose cool-down is over."""

    total: float = 0.0
    squares: float = 0.0
    count: int = 0
    cooled: tuple[str, ...] = ()
    stop: Stop | None = None


def measure(view: LoadStoreView, options: TransferOptions) -> Measured:
    """Add up the fresh loads in order of name, or say why the call must end.

    Java goes in the order of the store's hash table: the sums may differ in rounding, and when a
    broker cools down, which of the others are found to have cooled before the call ends.
    """
    if not view.brokers:
        return Measured(stop=Stop("NoBrokers", "cluster", 0.0, 1.0))
    ttl = options.load_data_ttl_s * 1000
    ages = view.now_ms - view.updated_at
    loads = view.load if ages.item(ages.argmax()) <= ttl else view.load[ages <= ttl]
    made = Measured(count=len(loads))
    if view.unloaded_brokers:
        _cool_down(made, view, options, ages <= ttl)
    if made.stop is not None:
        return made
    if not made.count:
        age = float(ages.min()) / 1000
        made.stop = Stop("OutDatedData", "cluster", age, float(options.load_data_ttl_s))
    elif view.unpublished:
        made.stop = Stop("NoLoadData", view.unpublished[0], float(len(view.unpublished)), 0.0)
    else:
        made.total = sum_in_order(loads)
        made.squares = sum_in_order(loads * loads)
    return made


def _cool_down(made: Measured, view: LoadStoreView, options: TransferOptions, fresh: Masks) -> None:
    """Note the brokers that have measured their load since bundles moved, or stop at one."""
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
    """The brokers from the least to the most loaded, and the deviation, which falls with each move.

    ``least`` and ``most`` are where the next pair stands in ``order``.
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
    def of(view: LoadStoreView, options: TransferOptions, measured: Measured) -> "Spread":
        """The spread before anything moves. Brokers with stale data stand in the order as well."""
        average = measured.total / measured.count
        variance = measured.squares / measured.count - average * average
        std = math.sqrt(variance) if variance >= 0 else math.nan
        order = ascending(view.load)
        return Spread(
            view, options, order, average, measured.squares, measured.count, std, 0, len(order) - 1
        )

    def pair(self) -> tuple[int, int]:
        """The least and the most loaded broker of those left."""
        return self.order.item(self.least), self.order.item(self.most)

    def underloaded(self) -> bool:
        """Whether the least loaded broker is far below the average, in load or in traffic."""
        least, most = self.pair()
        margin = min(_HALF, max(0.0, self.options.target_std / 2.0))
        if self.view.load.item(least) < self.average * margin:
            return True
        averages = self.view.throughput_average
        return averages.item(least) < averages.item(most) * margin

    def overloaded(self) -> bool:
        """Whether the most loaded broker is above the limit and far above the average."""
        load = self.view.load.item(self.order.item(self.most))
        limit = self.options.overloaded_threshold_percentage / 100.0
        return load > limit and load > self.average + self.options.target_std

    def reason(self) -> str | None:
        """Why the next pair should be evened out, or None."""
        if self.std > self.options.target_std:
            return OVERLOADED
        if self.underloaded():
            return UNDERLOADED
        return OVERLOADED if self.overloaded() else None

    def moved(self, low: float, high: float, load: float) -> None:
        """Take ``load`` from the broker at ``high`` and give it to the one at ``low``.

        The average stays.
        """
        self.squares -= high * high + low * low
        high, low = max(0.0, high - load), low + load
        self.squares += high * high + low * low
        self.std = math.sqrt(abs(self.squares / self.count - self.average * self.average))
        self.least += 1

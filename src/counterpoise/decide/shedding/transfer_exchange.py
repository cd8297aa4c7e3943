"""What TransferShedder moves from one broker to another, and what it moves back."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from counterpoise.decide.plan import Decision, DecisionKind
from counterpoise.decide.shedding import transfer_explain
from counterpoise.decide.shedding.options import TransferOptions
from counterpoise.decide.shedding.transfer_spread import Cause, Spread
from counterpoise.load.store_view import NO_RULES, LoadStoreView, TopBundles

SWAP_CEILING: Final = 0.75
"""After a swap the busier broker must have less than this part of its traffic (as in Pulsar)."""


@dataclass(slots=True)
class Exchange:
    """The moves between the most and the least loaded broker, chosen by ``even_out``."""

    view: LoadStoreView
    options: TransferOptions
    cause: Cause
    """Why the two brokers should be evened out."""
    std: float
    """The standard deviation of all brokers' loads before the moves."""
    margin: float
    """A broker with less than this part of the average is far below it."""
    least: int
    most: int
    low: float
    """The load of the least loaded broker."""
    high: float
    """The load of the most loaded broker."""
    throughput: float
    """Bytes/s of the most loaded broker."""
    target: float
    """Bytes/s whose move would even out both loads; NaN if the most loaded broker has no load."""
    bundles: TopBundles
    """The busiest bundles that the most loaded broker published."""
    moves: dict[tuple[str, str, str | None], float] = field(default_factory=dict)
    """The moves from the most loaded broker and back to it, in order: bytes/s by source, bundle and
    destination (None: placement finds one).

    A bundle that a broker lists twice is moved once, as in Java's set.
    """
    marked: float = 0.0
    """Bytes/s that leave the most loaded broker."""
    gained: float = 0.0
    """Bytes/s that come back to the most loaded broker."""
    skipped: dict[str, int] = field(default_factory=dict)
    """By reason: how many bundles stay for it."""

    @staticmethod
    def of(spread: Spread, cause: Cause) -> "Exchange":
        """Make the exchange between the next two brokers of the spread."""
        view = spread.view
        least, most = spread.pair()
        low, high = view.load.item(least), view.load.item(most)
        throughput = view.throughput.item(most)
        target = divide(throughput * ((high - low) / 2), high)
        bundles = view.top[most] or ()
        return Exchange(
            view,
            spread.options,
            cause,
            spread.std,
            spread.margin,
            least,
            most,
            low,
            high,
            throughput,
            target,
            bundles,
        )

    def even_out(self) -> None:
        """Choose moves, going through the busier broker's bundles from the least busy up.

        A bundle larger than what is left to move may still move if smaller ones can come back for
        it. The search ends at the first bundle for which none can. At least one listed bundle
        stays.
        """
        busy, idle, to = self._ends()
        target, debug, bound = self.target, self.options.debug_mode, self._bound()
        moves, skipped = self.moves, self.skipped
        marked = gained = 0.0
        returns = iter(self._returnable())
        remaining = len(self.bundles)
        for name, throughput in self.bundles:
            if bound and (why := self._unmovable(name)):
                skipped[why] = skipped.get(why, 0) + 1
                continue
            if remaining <= 1:
                skipped["last"] = 1
                break
            if not throughput:
                skipped["idle"] = skipped.get("idle", 0) + 1
                continue
            if marked - gained + throughput > target:
                back = self._swap(throughput, marked, gained, returns)
                if back is None:
                    skipped["too big"] = 1
                    break
                for other, returned in back:
                    moves[idle, other, busy] = returned
                    if debug:
                        # Pulsar adds this up inside a block meant for logging, so without debug
                        # mode what comes back never counts.
                        gained += returned
            moves[busy, name, to] = throughput
            marked += throughput
            remaining -= 1
        self.marked, self.gained = marked, gained

    def decisions(self) -> list[Decision]:
        """The moves as decisions with their reasons."""
        busy, idle, to = self._ends()
        kind, reason = (
            DecisionKind.UNLOAD if to is None else DecisionKind.TRANSFER,
            self.cause.label,
        )
        moved = transfer_explain.because_moved(self.cause)
        leaving = {
            "std": self.std,
            "limit": self.options.target_std,
            "margin": self.margin,
            "full": self.options.overloaded_threshold_percentage,
            "hits": self.options.hit_count_threshold,
            "target": self.target,
            "load": self.high,
            "other": idle,
            "otherLoad": self.low,
        }
        coming = {**leaving, "load": self.low, "other": busy, "otherLoad": self.high}
        made = []
        for (source, bundle, destination), throughput in self.moves.items():
            leaves = source == busy
            template = moved if leaves else transfer_explain.BECAUSE_BACK
            figures = {**(leaving if leaves else coming), "throughput": throughput}
            made.append(Decision(kind, bundle, source, destination, reason, template, figures))
        return made

    def _ends(self) -> tuple[str, str, str | None]:
        """The busier broker, the less busy one, and the destination of the busier one's bundles."""
        brokers = self.view.brokers
        idle = brokers[self.least]
        return brokers[self.most], idle, idle if self.options.transfer_enabled else None

    def _bound(self) -> bool:
        """Whether a bundle has to be checked for rules that forbid its move."""
        return self.view.rules is not NO_RULES or bool(self.view.recently_unloaded)

    def _returnable(self) -> TopBundles:
        """The less busy broker's bundles, which may be swapped; none if transfers are off."""
        return (self.view.top[self.least] or ()) if self.options.transfer_enabled else ()

    def _swap(
        self, throughput: float, marked: float, gained: float, returns: Iterator[tuple[str, float]]
    ) -> list[tuple[str, float]] | None:
        """The bundles to swap for one that is too large to move alone; None if no choice makes it
        fit.

        ``returns`` continues where the last swap of this pair stopped. As in Pulsar, bundles that a
        failed attempt has passed are not tried again, and neither ownership nor recent unloads of
        the returning bundles are checked.
        """
        before = self.throughput
        ceiling = before * SWAP_CEILING
        high = before - marked + gained - throughput
        low = self.view.throughput.item(self.least) + marked - gained + throughput
        back: list[tuple[str, float]] = []
        bound = self.view.rules is not NO_RULES
        for bundle in returns:
            name, each = bundle
            if not each or (bound and not self._transferable(name, self.least, self.most)):
                continue
            fuller, lighter = high + each, low - each
            if fuller < before and lighter < before:
                back.append(bundle)
                high, low = fuller, lighter
                if low <= high and high < ceiling:
                    return back
        return None

    def _unmovable(self, bundle: str) -> str | None:
        """The reason why a bundle of the busier broker must stay; None if it may move."""
        rules = self.view.rules
        if rules.owners is not None and rules.owners.get(bundle) != self.view.brokers[self.most]:
            return "not owned"
        if bundle in self.view.recently_unloaded:
            return transfer_explain.HELD_BY_GRACE
        if bundle in rules.with_policies and not self.options.bundles_with_policies:
            return transfer_explain.HELD_BY_POLICY
        return None if self._transferable(bundle, self.most, self.least) else "not allowed there"

    def _transferable(self, bundle: str, source: int, destination: int) -> bool:
        """Whether policies and filters allow a bundle to move from one broker to the other.

        As in Pulsar, the destination must pass the filters even if transfers are off, and then
        another broker than the source has to remain.
        """
        view, rules = self.view, self.view.rules
        if bundle in rules.with_policies and not self.options.bundles_with_policies:
            return False
        if bundle not in rules.allowed:
            return True
        allowed = rules.allowed[bundle]
        return view.brokers[destination] in allowed - {view.brokers[source]}


def divide(left: float, right: float) -> float:
    """Division as in Java: by zero it gives NaN or an infinity."""
    if right:
        return left / right
    return math.nan if not left or math.isnan(left) else math.copysign(math.inf, left)

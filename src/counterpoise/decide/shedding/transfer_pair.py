"""What TransferShedder moves from one broker to another, and back."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from counterpoise.decide.shedding.transfer_options import TransferOptions
from counterpoise.load.store_view import NO_RULES, LoadStoreView, TopBundles

SWAP_CEILING: Final = 0.75
"""A swap must bring the busier broker below this share of its traffic (a constant in Pulsar)."""


Moves = dict[tuple[str, bool], float]
"""Bytes/s by bundle and whether it leaves the busier broker (or comes back to it), in order.

What the lists hold twice is moved once, as in Java's set.
"""


class Outcome(NamedTuple):
    """What became of one pair."""

    moves: Moves
    marked: float
    """Bytes/s that leave."""
    gained: float
    """Bytes/s that come back."""
    skipped: Mapping[str, int]
    """How many bundles stay, by the reason they stay for."""


@dataclass(slots=True)
class Pair:
    """The most loaded broker and the least loaded one."""

    view: LoadStoreView
    options: TransferOptions
    least: int
    most: int
    low: float
    """The load of the one."""
    high: float
    """The load of the other."""
    throughput: float
    """Bytes/s of the busier one."""
    target: float
    """Bytes/s that would even the two out; NaN when the busier one has no load."""
    bundles: TopBundles
    """What the busier one published."""

    @staticmethod
    def of(view: LoadStoreView, options: TransferOptions, least: int, most: int) -> "Pair":
        """The pair of two rows of the view."""
        low, high = view.load.item(least), view.load.item(most)
        throughput = view.throughput.item(most)
        target = divide(throughput * ((high - low) / 2), high)
        bundles = view.top[most] or ()
        return Pair(view, options, least, most, low, high, throughput, target, bundles)

    def even_out(self) -> Outcome:
        """Go through the busier broker's bundles, the least busy first, and move what helps.

        A bundle too big for what is left to move may still go when smaller ones can come back for
        it; the first for which that fails ends the walk. One listed bundle always stays.
        """
        view, target = self.view, self.target
        moves: Moves = {}
        skipped: dict[str, int] = {}
        marked = gained = 0.0
        returns = iter(view.top[self.least] or ())
        remaining = len(self.bundles)
        bound = view.rules is not NO_RULES or bool(view.recently_unloaded)
        for name, throughput in self.bundles:
            if bound and (why := self._unmovable(name)):
                skipped[why] = skipped.get(why, 0) + 1
                continue
            if remaining <= 1:
                skipped["last"] = 1
                break
            if throughput == 0:
                skipped["idle"] = skipped.get("idle", 0) + 1
                continue
            if marked - gained + throughput > target:
                back = self._swap(throughput, marked, gained, returns)
                if back is None:
                    skipped["too big"] = 1
                    break
                for other, returned in back:
                    moves[other, False] = returned
                    # Pulsar adds this up inside a block meant for logging, so without debug mode
                    # what comes back never counts.
                    gained += returned if self.options.debug_mode else 0.0
            moves[name, True] = throughput
            marked += throughput
            remaining -= 1
        return Outcome(moves, marked, gained, skipped)

    def _swap(
        self,
        throughput: float,
        marked: float,
        gained: float,
        returns: Iterator[tuple[str, float]],
    ) -> list[tuple[str, float]] | None:
        """What must come back for a bundle that is too big, or None when nothing makes it fit.

        ``returns`` goes on where the last swap of this pair stopped: as in Pulsar, bundles that a
        failed attempt passed are lost to later ones. Ownership and recent unloads of what comes
        back are not looked at, as in Pulsar.
        """
        if not self.options.transfer_enabled or self.view.top[self.least] is None:
            return None
        before = self.throughput
        high = before - marked + gained - throughput
        low = self.view.throughput.item(self.least) + marked - gained + throughput
        back: list[tuple[str, float]] = []
        bound = self.view.rules is not NO_RULES
        for name, each in returns:
            if each == 0 or (bound and not self._transferable(name, self.least, self.most)):
                continue
            if high + each < before and low - each < before:
                back.append((name, each))
                high += each
                low -= each
                if low <= high and high < before * SWAP_CEILING:
                    return back
        return None

    def _unmovable(self, bundle: str) -> str | None:
        """Why a bundle of the busier broker must stay, or None."""
        rules = self.view.rules
        if rules.owners is not None and rules.owners.get(bundle) != self.view.brokers[self.most]:
            return "not owned"
        if bundle in self.view.recently_unloaded:
            return "recently unloaded"
        return None if self._transferable(bundle, self.most, self.least) else "policy"

    def _transferable(self, bundle: str, source: int, destination: int) -> bool:
        """Whether policies and filters let a bundle go from one broker to the other.

        The destination must pass the filters even when transfers are off (as in Pulsar), and then
        some broker other than the source must remain.
        """
        view, rules = self.view, self.view.rules
        if bundle in rules.with_policies and not self.options.bundles_with_policies:
            return False
        if bundle not in rules.allowed:
            return True
        allowed = rules.allowed[bundle]
        return view.brokers[destination] in allowed - {view.brokers[source]}


def divide(left: float, right: float) -> float:
    """Division as Java has it: by zero it gives NaN or an infinity."""
    if right:
        return left / right
    return math.nan if not left or math.isnan(left) else math.copysign(math.inf, left)

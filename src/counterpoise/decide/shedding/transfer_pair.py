"""What TransferShedder moves from one broker to another, and back."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from counterpoise.decide.shedding.transfer_options import TransferOptions
from counterpoise.load.store_view import NO_RULES, LoadStoreView

SWAP_CEILING: Final = 0.75
"""A swap must bring the busier broker below this share of its traffic (a constant in Pulsar)."""


Move = tuple[str, bool, float]
"""A bundle, whether it leaves the busier broker (or comes back to it), and its bytes/s."""


@dataclass(slots=True)
class Outcome:
    """What became of one pair: the moves in order, bytes/s that leave, bytes/s that come back."""

    moves: list[Move] = field(default_factory=list)
    marked: float = 0.0
    gained: float = 0.0
    skipped: dict[str, int] = field(default_factory=dict)

    def skip(self, why: str) -> None:
        """Count a bundle that stays, by the reason it stays for."""
        self.skipped[why] = self.skipped.get(why, 0) + 1


@dataclass(frozen=True, slots=True)
class Pair:
    """The most loaded broker and the least loaded one."""

    view: LoadStoreView
    options: TransferOptions
    most: int
    least: int
    target: float
    """Bytes/s that would even the two out; NaN when the busier one has no load."""

    def even_out(self) -> Outcome:
        """Go through the busier broker's bundles, the least busy first, and move what helps.

        A bundle too big for what is left to move may still go when smaller ones can come back for
        it; the first for which that fails ends the walk. One listed bundle always stays.
        """
        view, outcome = self.view, Outcome()
        bundles = view.top[self.most] or ()
        returns = iter(view.top[self.least] or ())
        remaining = len(bundles)
        bound = view.rules is not NO_RULES or bool(view.recently_unloaded)
        for name, throughput in bundles:
            if bound and (why := self._unmovable(name)):
                outcome.skip(why)
                continue
            if remaining <= 1:
                outcome.skip("last")
                break
            if throughput == 0:
                outcome.skip("idle")
                continue
            if outcome.marked - outcome.gained + throughput > self.target:
                back = self._swap(throughput, outcome, returns)
                if back is None:
                    outcome.skip("too big")
                    break
                outcome.moves += back
                if self.options.debug_mode:
                    # Pulsar adds this up inside a block meant for logging, so without debug mode
                    # what comes back never counts.
                    for _, _, returned in back:
                        outcome.gained += returned
            outcome.moves.append((name, True, throughput))
            outcome.marked += throughput
            remaining -= 1
        return outcome

    def _swap(
        self, throughput: float, outcome: Outcome, returns: Iterator[tuple[str, float]]
    ) -> list[Move] | None:
        """What must come back for a bundle that is too big, or None when nothing makes it fit.

        ``returns`` goes on where the last swap of this pair stopped: as in Pulsar, bundles that a
        failed attempt passed are lost to later ones. Ownership and recent unloads of what comes
        back are not looked at, as in Pulsar.
        """
        if not self.options.transfer_enabled or self.view.top[self.least] is None:
            return None
        before = float(self.view.throughput[self.most])
        marked, gained = outcome.marked, outcome.gained
        high = before - marked + gained - throughput
        low = float(self.view.throughput[self.least]) + marked - gained + throughput
        back: list[Move] = []
        bound = self.view.rules is not NO_RULES
        for name, each in returns:
            if each == 0 or (bound and not self._transferable(name, self.least, self.most)):
                continue
            if high + each < before and low - each < before:
                back.append((name, False, each))
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

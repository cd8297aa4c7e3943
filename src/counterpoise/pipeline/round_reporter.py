"""Reports the rounds of a balancer to its operator: by the log, the metrics and notices.

What stays as it is is reported once.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from counterpoise.decide.balancing.moves import MoveOutcome, MoveStatus, Round
from counterpoise.names.callbacks import SentenceSink
from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.notify.notice import BalancerNotices, discard

if TYPE_CHECKING:
    from counterpoise.pipeline.watch.metrics import Metrics


class RoundReporter:
    """Reports what rounds decide and do, what they wait for, and why none is made."""

    def __init__(
        self,
        log: SentenceSink,
        notices: BalancerNotices | None = None,
        metrics: "Metrics | None" = None,
    ) -> None:
        self._log = log
        self._notices = notices or BalancerNotices(discard, wall_clock_ms)
        self._metrics = metrics
        self._withheld: frozenset[tuple[str, str]] = frozenset()
        """The bundles that were withheld, each with the rule, in the last round with moves."""
        self._withheld_now: set[tuple[str, str]] = set()
        """The same of the present round."""
        self._waits = ""
        self._cordoned: frozenset[str] = frozenset()
        self._over = ""
        """The words that are logged when rounds are made again; empty while they are."""
        self._refused: frozenset[tuple[str, str]] | None = None
        """The subjects and rules of the last round's rejections, if that round moved nothing."""

    def waits(self, reason: str) -> None:
        """Report what the next round waits for; empty: for nothing."""
        if reason and reason != self._waits:
            self._log(reason)
        self._waits = reason

    def withheld(self, reason: str, over: str = "") -> None:
        """Report why no round is made, and, with an empty reason, that rounds continue.

        `over` is what is logged then.
        """
        self._notices.withheld("rounds", reason)
        if reason and not self._over:
            self._log(f"no round is made: {reason}")
        elif self._over and not reason:
            self._log(f"rounds are made again: {self._over}")
        self._over = over if reason else ""

    def cordoned(self, drains: Mapping[str, str]) -> None:
        """Report the cordoned brokers, each with a sentence that says who drained it."""
        for broker in sorted(drains.keys() - self._cordoned):
            self._log(f"{broker} is cordoned: {drains[broker]}")
        for broker in sorted(self._cordoned - drains.keys()):
            self._log(f"{broker} is not cordoned any more")
        self._cordoned = frozenset(drains)

    def decided(self, made: Round) -> None:
        """Report a committed round before it is carried out."""
        if self._metrics:
            self._metrics.decided(made)
        self._notices.decided(made)
        known = {bundle for bundle, _ in self._withheld}
        for move in made.moves:
            if move.bundle in known:
                continue  # logged when it was first decided, and withheld since then
            self._log(
                f"decided {move.bundle}: {move.source} -> {move.destination or 'any broker'}: "
                f"{move.decision.sentence}; {move.placement} ({move.basis_text})"
            )
        # Figures change with every report, so refusals are logged only when subjects or rules do.
        refused = frozenset((each.subject, each.rule) for each in made.rejections)
        again, self._refused = self._refused, None if made.moves else refused
        if not made.moves and again != refused:
            reasons = "; ".join(rejection.sentence for rejection in made.rejections[:3])
            more = f" (and {len(made.rejections) - 3} more)" if len(made.rejections) > 3 else ""
            self._log(f"nothing to move, imbalance {made.imbalance:.2f}: {reasons}{more}")

    def failed(self, outcome: MoveOutcome) -> None:
        """Report the failure of a move that is tried again."""
        self._log(outcome_text(outcome))

    def ended(self, outcome: MoveOutcome) -> None:
        """Report a committed outcome; what a rule withholds in round after round, only once."""
        if self._metrics:
            self._metrics.ended(outcome)
        if outcome.status is MoveStatus.WITHHELD:
            # A reason names the rule in brackets at its end; the figures before it vary.
            key = (outcome.bundle, outcome.error.rpartition("(")[2])
            self._withheld_now.add(key)
            if key in self._withheld:
                return
        self._notices.ended(outcome)
        self._log(outcome_text(outcome))

    def round_ended(self) -> None:
        """Note that the outcomes of a round with moves have been reported."""
        self._withheld, self._withheld_now = frozenset(self._withheld_now), set()


def outcome_text(outcome: MoveOutcome) -> str:
    """The outcome of a move as a sentence."""
    took = f"after {outcome.seconds:.1f} s"
    owner = f", owner {outcome.owner}" if outcome.owner else ""
    error = f": {outcome.error}" if outcome.error else ""
    return f"{outcome.status.value} {outcome.bundle} {took}{owner}{error}"

"""What an operator is notified of."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from counterpoise.decide.balancing.moves import MoveOutcome, MoveStatus, Round
from counterpoise.decide.watchdog.observation import WatchdogFinding
from counterpoise.names.callbacks import MillisecondClock


class NoticeKind(StrEnum):
    """The kind of event that a notice is about."""

    FINDING = "finding"
    """A fault of the cluster that the watchdog found."""
    ROUND = "round"
    """Moves that a round decided on."""
    REFUSAL = "refusal"
    """A move that failed, or that a rule of the operator withheld."""
    STOP = "stop"
    """The balancer makes no rounds, or has ended."""
    TEST = "test"


class NoticeSeverity(StrEnum):
    """How urgent a notice is."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class Notice:
    """One event that an operator is notified of."""

    kind: NoticeKind
    severity: NoticeSeverity
    subject: str
    """What the notice is about; the notice of its end has the same subject."""
    sentence: str
    at_ms: int
    is_over: bool = False
    """Whether this is the notice of the end of an earlier one."""


NoticeSink = Callable[[Notice], None]
"""Takes a notice; returns at once, and sends it later."""


def discard(notice: Notice) -> None:
    """Drop a notice; a `NoticeSink`."""
    del notice


class BalancerNotices:
    """Makes notices of the events of a watcher or a balancer, and passes them to a sink."""

    def __init__(self, sink: NoticeSink, clock_ms: MillisecondClock) -> None:
        self._sink = sink
        self._clock_ms = clock_ms
        self._withheld: set[str] = set()

    def decided(self, made: Round) -> None:
        """Notify of a committed round if it moves anything."""
        if made.moves:
            first = made.moves[0]
            more = f", and {len(made.moves) - 1} more" if len(made.moves) > 1 else ""
            where = first.destination or "any broker"
            self._note(
                NoticeKind.ROUND,
                NoticeSeverity.INFO,
                f"round-{made.poll_id}",
                f"{made.strategy} moves {len(made.moves)} bundles, imbalance {made.imbalance:.2f}: "
                f"{first.bundle} from {first.source} to {where}, {first.decision.sentence}{more}",
            )

    def ended(self, outcome: MoveOutcome) -> None:
        """Notify of a committed move outcome if the move failed or was withheld."""
        if outcome.status in (MoveStatus.FAILED, MoveStatus.WITHHELD):
            failed = outcome.status is MoveStatus.FAILED
            self._note(
                NoticeKind.REFUSAL,
                NoticeSeverity.WARNING if failed else NoticeSeverity.INFO,
                outcome.bundle,
                f"the move of {outcome.bundle} from {outcome.source} to "
                f"{outcome.destination or 'any broker'} "
                f"{'failed' if failed else 'is withheld'}: {outcome.error}",
            )

    def found(self, finding: WatchdogFinding, *, is_over: bool = False) -> None:
        """Notify of a fault that the watchdog found, or that it is over."""
        self._note(
            NoticeKind.FINDING,
            NoticeSeverity.INFO if is_over else NoticeSeverity.CRITICAL,
            f"{finding.kind}:{finding.subject}",
            f"over: {finding.kind} of {finding.subject}" if is_over else finding.sentence,
            is_over=is_over,
        )

    def withheld(self, what: str, reason: str) -> None:
        """Notify once that `what` (rounds or moves) is withheld, and once that it no longer is.

        `reason` says why; empty: it is not withheld.
        """
        if reason and what not in self._withheld:
            self._withheld.add(what)
            self._note(NoticeKind.STOP, NoticeSeverity.WARNING, what, f"nothing is moved: {reason}")
        elif what in self._withheld and not reason:
            self._withheld.discard(what)
            sentence = f"moves go on: {what} do not hold them any more"
            self._note(NoticeKind.STOP, NoticeSeverity.INFO, what, sentence, is_over=True)

    def stopped(self, why: str, *, by_itself: bool) -> None:
        """Notify that the watcher or balancer ends; critical if no order made it (`by_itself`)."""
        severity = NoticeSeverity.CRITICAL if by_itself else NoticeSeverity.INFO
        self._note(NoticeKind.STOP, severity, "balancer", f"the balancer has ended: {why}")

    def _note(
        self,
        kind: NoticeKind,
        severity: NoticeSeverity,
        subject: str,
        sentence: str,
        *,
        is_over: bool = False,
    ) -> None:
        self._sink(Notice(kind, severity, subject, sentence, self._clock_ms(), is_over))

"""One step of balancing, the same on Spark and in a plain process.

A step decides a round, commits the decisions, carries them out, commits each outcome, and commits
the memory, in this order. Before each of these it checks what has been committed, so an interrupted
step can be repeated.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from counterpoise.decide.balancing.approval import HOUR_MS, ApprovalRules, PastMove
from counterpoise.decide.balancing.due import is_time, waits_for
from counterpoise.decide.balancing.moves import Round
from counterpoise.decide.balancing.round import Strategy, decide
from counterpoise.decide.balancing.snapshot import newest_poll
from counterpoise.decide.balancing.thrash import Hop
from counterpoise.load.fold import FoldState, without_brokers
from counterpoise.names.callbacks import SentenceSink
from counterpoise.pipeline.clock import wall_clock_ms
from counterpoise.pipeline.drive import action_trail
from counterpoise.pipeline.executor import Executor
from counterpoise.pipeline.notify.notice import BalancerNotices, discard
from counterpoise.pipeline.policies import CannotSeeError
from counterpoise.pipeline.rounds import RoundRunner
from counterpoise.pipeline.tables.journal import JournalWriter

if TYPE_CHECKING:
    from counterpoise.pipeline.policies import RoundPolicies
    from counterpoise.pipeline.watch.metrics import Metrics
    from counterpoise.pipeline.watchdog.watchdog import Watchdog


class Balancer:
    """Decides rounds of moves from the averages of load reports, and carries them out.

    `log` gets a sentence for each decision and outcome.
    """

    def __init__(
        self,
        strategy: Strategy,
        history: JournalWriter,
        executor: Executor,
        log: SentenceSink,
        *,
        rules: ApprovalRules | None = None,
        moved_before: Iterable[PastMove] = (),
        metrics: "Metrics | None" = None,
        policies: "RoundPolicies | None" = None,
        trail: action_trail.ActionTrail | None = None,
        notices: BalancerNotices | None = None,
        watchdog: "Watchdog | None" = None,
    ) -> None:
        """`rules` limit what is carried out; `moved_before` are recent moves, which the rules'
        hourly limits count.

        `trail` has operators' actions: brokers that they drained take no part in a round, nor do
        slow brokers, which `watchdog` finds. `policies` reads the placement policies; without it
        every broker may own every bundle.
        """
        self._metrics = metrics
        self._notices = notices or BalancerNotices(discard, wall_clock_ms)
        self._policies = policies
        self._trail = trail
        self._watchdog = watchdog
        self._cordoned: frozenset[str] = frozenset()
        """The brokers that were drained by hand when a round was last made."""
        self._over = ""
        """The words that are logged when rounds are made again; empty while they are."""
        self._strategy = strategy
        self._history = history
        self._runner = RoundRunner(
            history,
            executor,
            log,
            rules=rules,
            moved_before=moved_before,
            span_ms=strategy.balance.thrash_span_ms,
            metrics=metrics,
            notices=self._notices,
        )
        self._log = log
        self._waits = ""
        self._refused: frozenset[tuple[str, str]] | None = None
        """The subjects and rules of the last round's rejections, if that round moved nothing."""
        self._looked = False
        """Whether the history has been searched for a round that was interrupted."""
        self._cut_off: Round | None = None

    def is_due(self, state: FoldState) -> bool:
        """Whether a round is due at this state's poll, or an interrupted one must be completed."""
        poll_id = newest_poll(state)
        if not self._looked:
            self._looked, self._cut_off = True, self._history.cut_off()
        if self._cut_off:
            return True
        if self._history.is_decided(poll_id):
            return False
        memory, options = self._history.memory_before(poll_id), self._strategy.balance
        waits = waits_for(state, memory, options)
        if waits != self._waits and waits:
            self._log(waits)
        self._waits = waits
        return not waits and is_time(poll_id, memory, options)

    def not_yet(self, state: FoldState) -> str:
        """If only `--decide-every` delays the next round, a sentence that says so; else empty."""
        poll_id, options = newest_poll(state), self._strategy.balance
        memory = self._history.memory_before(poll_id)
        if waits_for(state, memory, options) or is_time(poll_id, memory, options):
            return ""
        ago = (poll_id - memory.decided_at_ms) / 1000
        return (
            f"no round: the last one was {ago:.0f} s ago, and there are "
            f"{options.decide_every_ms / 1000:g} s between two (--decide-every)"
        )

    async def step(self, state: FoldState) -> Round | None:
        """Plan a round on this state and carry it out if one is due; None if none is.

        An interrupted round is completed first; it is returned if it was decided at the same poll.
        """
        if not await asyncio.to_thread(self.is_due, state):
            return None
        poll_id, brokers = newest_poll(state), tuple(state.brokers["broker"])
        if begun := self._cut_off:
            # The state on which the round was decided may be gone. Only the brokers are needed,
            # which this state lists as well.
            await self._runner.see_through(begun, brokers, state)
            self._cut_off = None
            if begun.poll_id == poll_id:
                return begun
            if not await asyncio.to_thread(self.is_due, state):
                return None
        if (roll := await asyncio.to_thread(self._trail.roll) if self._trail else None) and (
            roll.under_way
        ):
            self._held(
                f"{roll.sentence()} (counterpoise roll --abandon gives it up)",
                "the rolling restart is over",
            )
            return None
        memory = await asyncio.to_thread(self._history.memory_before, poll_id)
        try:
            policies = await self._policies.read(state) if self._policies else None
        except CannotSeeError as error:
            # By outdated policies a bundle could move to a broker that must not own it.
            self._held(f"policies cannot be read: {error}", "policies can be read")
            return None
        self._held("")
        actions = await asyncio.to_thread(self._trail.actions) if self._trail else []
        within_ms = max(HOUR_MS, self._strategy.balance.leave_alone_ms)
        by_hand = action_trail.moved_by_hand(actions, poll_id - within_ms)
        self._cordon(action_trail.cordons(actions))
        slow = self._watchdog.slow if self._watchdog else frozenset()
        balanced = without_brokers(state, self._cordoned | slow)
        if newest_poll(balanced) != poll_id:
            return None  # no other broker answered
        hops = {m.bundle: Hop(m.ended_ms, m.source, m.destination) for m in by_hand}
        made = decide(balanced, memory.with_moves_by_hand(hops), self._strategy, policies)
        self._looked = False  # after an error, the next call looks for an interrupted round again
        await asyncio.to_thread(self._history.record_round, made)
        if self._metrics:
            self._metrics.decided(made)
        self._notices.decided(made)
        self._explain(made)
        await self._runner.see_through(made, brokers, state, action_trail.as_past_moves(by_hand))
        self._looked = True
        return made

    def _held(self, reason: str, over: str = "") -> None:
        """Log once why no round is made, and once that rounds continue."""
        self._notices.withheld("rounds", reason)
        if reason and not self._over:
            self._log(f"no round is made: {reason}")
        elif self._over and not reason:
            self._log(f"rounds are made again: {self._over}")
        self._over = over if reason else ""

    def _cordon(self, drains: Mapping[str, str]) -> None:
        """Exclude drained brokers from balancing, and log each once."""
        for broker in sorted(drains.keys() - self._cordoned):
            self._log(f"{broker} is cordoned: {drains[broker]}")
        for broker in sorted(self._cordoned - drains.keys()):
            self._log(f"{broker} is not cordoned any more")
        self._cordoned = frozenset(drains)

    def _explain(self, made: Round) -> None:
        held = {bundle for bundle, _ in self._runner.withheld}
        for move in made.moves:
            if move.bundle in held:
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

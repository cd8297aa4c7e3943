"""One step of balancing: decide a round, carry it out; the same on Spark and in a plain process.

A step decides a round, commits the decisions, carries them out, commits each outcome, and commits
the memory, in this order. Before each of these it checks what has been committed, so an interrupted
step can be repeated.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from counterpoise.decide.balancing.approval import HOUR_MS, ApprovalRules, PastMove
from counterpoise.decide.balancing.due import is_time, waits_for
from counterpoise.decide.balancing.moves import Round, RoundMemory
from counterpoise.decide.balancing.round import BalancingStrategy, decide
from counterpoise.decide.balancing.snapshot import newest_poll
from counterpoise.decide.balancing.thrash import Hop
from counterpoise.load.fold import FoldState, without_brokers
from counterpoise.names.callbacks import SentenceSink
from counterpoise.pipeline.drive import action_trail
from counterpoise.pipeline.executor import Executor
from counterpoise.pipeline.notify.notice import BalancerNotices
from counterpoise.pipeline.policies import CannotSeeError
from counterpoise.pipeline.round_reporter import RoundReporter
from counterpoise.pipeline.rounds import RoundRunner
from counterpoise.pipeline.tables.journal import JournalWriter

if TYPE_CHECKING:
    from counterpoise.decide.balancing.policies import PlacementPolicies
    from counterpoise.pipeline.policies import RoundPolicies
    from counterpoise.pipeline.watch.metrics import Metrics
    from counterpoise.pipeline.watchdog.watchdog import Watchdog


class Balancer:
    """Decides rounds of moves from the averages of load reports, and carries them out.

    `log` gets a sentence for each decision and outcome.
    """

    def __init__(
        self,
        strategy: BalancingStrategy,
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
        self._policies = policies
        self._trail = trail
        self._watchdog = watchdog
        self._strategy = strategy
        self._history = history
        self._reporter = RoundReporter(log, notices, metrics)
        self._runner = RoundRunner(
            history,
            executor,
            self._reporter,
            rules=rules,
            moved_before=moved_before,
            span_ms=strategy.balance.thrash_span_ms,
        )
        self._looked = False
        """Whether the history has been searched for a round that was interrupted."""
        self._interrupted: Round | None = None

    def is_due(self, state: FoldState) -> bool:
        """Whether a round is due at this state's poll, or an interrupted one must be completed."""
        poll_id = newest_poll(state)
        if not self._looked:
            self._looked, self._interrupted = True, self._history.interrupted()
        if self._interrupted:
            return True
        if self._history.is_decided(poll_id):
            return False
        memory, options = self._history.memory_before(poll_id), self._strategy.balance
        waits = waits_for(state, memory, options)
        self._reporter.waits(waits)
        return not waits and is_time(poll_id, memory, options)

    def not_yet(self, state: FoldState) -> str:
        """A sentence if nothing but `--decide-every` delays the next round; otherwise empty."""
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
        if begun := self._interrupted:
            # The state on which the round was decided may be gone. Only the brokers are needed,
            # which this state lists as well.
            await self._runner.see_through(begun, _brokers(state), state)
            self._interrupted = None
            if begun.poll_id == newest_poll(state):
                return begun
            if not await asyncio.to_thread(self.is_due, state):
                return None
        inputs = await self._inputs(state)
        return await self._make(inputs, state) if inputs else None

    async def _inputs(self, state: FoldState) -> "_RoundInputs | None":
        """Read what a round is decided by; None, and the reason is logged, if none may be made."""
        roll = await asyncio.to_thread(self._trail.roll) if self._trail else None
        if roll and roll.under_way:
            self._reporter.withheld(
                f"{roll.sentence()} (counterpoise roll --abandon gives it up)",
                "the rolling restart is over",
            )
            return None
        poll_id = newest_poll(state)
        memory = await asyncio.to_thread(self._history.memory_before, poll_id)
        try:
            policies = await self._policies.read(state) if self._policies else None
        except CannotSeeError as error:
            # By outdated policies a bundle could move to a broker that must not own it.
            self._reporter.withheld(f"policies cannot be read: {error}", "policies can be read")
            return None
        self._reporter.withheld("")
        actions = await asyncio.to_thread(self._trail.actions) if self._trail else []
        within_ms = max(HOUR_MS, self._strategy.balance.leave_alone_ms)
        by_hand = action_trail.moved_by_hand(actions, poll_id - within_ms)
        cordons = action_trail.cordons(actions)
        self._reporter.cordoned(cordons)
        slow = self._watchdog.slow if self._watchdog else frozenset()
        balanced = without_brokers(state, cordons.keys() | slow)
        if newest_poll(balanced) != poll_id:
            return None  # no other broker answered
        return _RoundInputs(balanced, memory, by_hand, policies)

    async def _make(self, inputs: "_RoundInputs", state: FoldState) -> Round:
        """Decide a round, commit it, and carry it out."""
        hops = {m.bundle: Hop(m.ended_ms, m.source, m.destination) for m in inputs.by_hand}
        memory = inputs.memory.with_moves_by_hand(hops)
        made = decide(inputs.state, memory, self._strategy, inputs.policies)
        self._looked = False  # after an error, the next call looks for an interrupted round again
        await asyncio.to_thread(self._history.record_round, made)
        self._reporter.decided(made)
        past = action_trail.as_past_moves(inputs.by_hand)
        await self._runner.see_through(made, _brokers(state), state, past)
        self._looked = True
        return made


@dataclass(frozen=True, slots=True)
class _RoundInputs:
    """What a round is decided on: folded reports, policies, operators' moves."""

    state: FoldState
    """The folded reports without brokers that operators drained, and without slow ones."""
    memory: RoundMemory
    by_hand: Sequence[action_trail.ActionMove]
    """Recent moves by operators."""
    policies: "PlacementPolicies | None"


def _brokers(state: FoldState) -> tuple[str, ...]:
    return tuple(state.brokers["broker"])

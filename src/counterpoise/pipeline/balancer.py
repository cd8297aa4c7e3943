"""One step of balancing, the same inside Spark and in a process of its own.

Decide, keep the decisions, carry them out, keep each outcome, keep the memory: in this order, and
each step checks what is kept already, so that a step that was cut off anywhere can be repeated.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from counterpoise.decide.balancing.approval import ApprovalRules, PastMove, Withheld, approve
from counterpoise.decide.balancing.moves import MoveOutcome, MoveStatus, Round
from counterpoise.decide.balancing.round import (
    Strategy,
    carried,
    decide,
    is_due,
    is_time,
    newest_poll,
    reads_stores,
    traffic,
    waits_for,
)
from counterpoise.decide.balancing.thrash import trailed
from counterpoise.load.fold import FoldState
from counterpoise.pipeline.executor import Executor
from counterpoise.pipeline.history.port import History
from counterpoise.pipeline.policies import CannotSeeError

if TYPE_CHECKING:
    from counterpoise.pipeline.policies import RoundPolicies
    from counterpoise.pipeline.watch.metrics import Metrics


class Balancer:
    """Turns fold states into rounds of decisions and sees them through.

    `tell` gets a sentence for a person whenever something was decided or done.
    """

    def __init__(
        self,
        strategy: Strategy,
        history: History,
        executor: Executor,
        tell: Callable[[str], None],
        *,
        rules: ApprovalRules | None = None,
        moved_before: Iterable[PastMove] = (),
        metrics: "Metrics | None" = None,
        scenes: "RoundPolicies | None" = None,
    ) -> None:
        """`rules` say what may be carried out; `moved_before` is what was moved lately.

        `scenes` reads the policies that rounds heed; without it they heed none.
        """
        self._metrics = metrics
        self._scenes = scenes
        self._unseen = False
        """Whether policies could not be read the last time."""
        self._rules = rules or ApprovalRules()
        self._moved = list(moved_before)
        self._strategy = strategy
        self._history = history
        self._executor = executor
        self._tell = tell
        self._waits = ""
        self._refused: frozenset[tuple[str, str]] | None = None
        """What was refused by which rule in the last round, when that moved nothing."""
        self._withheld: frozenset[tuple[str, str]] = frozenset()
        """What was withheld by which rule in the last round that decided to move anything."""
        self._looked = False
        """Whether it was looked for a round that was cut off."""
        self._cut_off: Round | None = None

    def is_due(self, state: FoldState) -> bool:
        """Whether this state, or that of any shard, calls for a round or the rest of one."""
        poll_id = newest_poll(state)
        if not self._looked:
            self._looked, self._cut_off = True, self._history.cut_off()
        if self._cut_off:
            return True
        if self._history.is_complete(poll_id):
            return False
        memory, options = self._history.memory_before(poll_id), self._strategy.balance
        waits = waits_for(state, memory, options)
        if waits != self._waits and waits:
            self._tell(waits)
        self._waits = waits
        return is_due(state, memory, options)

    def not_yet(self, state: FoldState) -> str:
        """Why this state calls for no round by the clock alone; empty where it does."""
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
        """Decide on this state if it is time to, and carry it out; None when it was not.

        A round that was cut off is seen through first, and is given where it is that of this state.
        """
        if not self.is_due(state):
            return None
        poll_id = newest_poll(state)
        if begun := self._cut_off:
            # The state that it was decided on may be gone: this one has the brokers as well.
            await self._end(begun, state)
            self._cut_off = None
            if begun.poll_id == poll_id:
                return begun
            if not self.is_due(state):
                return None
        memory = self._history.memory_before(poll_id)
        try:
            by_stores = reads_stores(self._strategy)
            scene = await self._scenes.read(state, averages=by_stores) if self._scenes else None
        except CannotSeeError as error:
            self._held(str(error))
            return None
        self._held("")
        made = decide(state, memory, self._strategy, scene)
        self._looked = False  # this one is cut off until it has ended
        self._history.record_round(made)
        if self._metrics:
            self._metrics.decided(made)
        self._explain(made)
        await self._end(made, state)
        self._looked = True
        return made

    async def _end(self, made: Round, state: FoldState) -> None:
        """See a round through, and keep the memory that ends it."""
        poll_id = made.poll_id
        memory = self._history.memory_before(poll_id)
        outcomes = await self._see_through(made, tuple(state.brokers["broker"]))
        unloaded = dict(made.memory.recently_unloaded)
        # By the poll's time, not the clock's: a replay has to remember the same.
        unloaded.update({one.bundle: poll_id for one in outcomes if one.settles})
        settled = max(
            (one.ended_at_ms for one in outcomes if one.carried_out),
            default=memory.settled_at_ms,
        )
        self._history.record_memory(
            poll_id,
            replace(
                made.memory,
                recently_unloaded=unloaded,
                settled_at_ms=settled,
                traffic_before=before_moves(
                    outcomes, traffic(state), carried(state, [one.bundle for one in outcomes])
                ),
                trails=trailed(
                    memory.trails,
                    [(one.bundle, one.hop) for one in outcomes if one.hop],
                    poll_id,
                    self._strategy.balance.thrash_span_ms,
                ),
            ),
        )

    def _held(self, reason: str) -> None:
        """Say once that policies cannot be read, and once that they can again.

        No round is made meanwhile: by policies of a while ago a bundle may go where it must not be.
        """
        if bool(reason) != self._unseen:
            self._tell(
                "no round is made until policies can be read, since bundles may otherwise go to "
                f"brokers that must not have them: {reason}"
                if reason
                else "policies can be read again"
            )
        self._unseen = bool(reason)

    async def _see_through(self, made: Round, brokers: tuple[str, ...]) -> list[MoveOutcome]:
        known = [self._history.outcome(move.id) for move in made.moves]
        outcomes = [outcome for outcome in known if outcome]
        tried = {outcome.id for outcome in outcomes}
        parts = {move.id: move.part for move in made.moves}
        withheld_now: set[tuple[str, str]] = set()

        def done(outcome: MoveOutcome) -> None:
            self._history.record_outcome(outcome)
            if self._metrics:
                self._metrics.ended(outcome)
            outcomes.append(outcome)
            if outcome.carried_out:
                self._moved.append(PastMove(outcome.ended_at_ms, parts[outcome.id]))
            if outcome.status is MoveStatus.WITHHELD:
                key = (outcome.bundle, _rule(outcome.error))
                withheld_now.add(key)
                if key in self._withheld:
                    return
            self._tell(told(outcome))

        left = [move for move in made.moves if move.id not in tried]
        approved, withheld = approve(left, self._moved, made.poll_id, self._rules)
        for each in withheld:
            done(refused_by_rule(each))
        await self._executor.carry_out(approved, brokers, done)
        if made.moves:
            self._withheld = frozenset(withheld_now)
        return outcomes

    def _explain(self, made: Round) -> None:
        held = {bundle for bundle, _ in self._withheld}
        for move in made.moves:
            if move.bundle in held:
                continue  # said when it was decided first, and withheld ever since
            self._tell(
                f"decided {move.bundle}: {move.source} -> {move.destination or 'any broker'}: "
                f"{move.decision.sentence}; {move.placement}"
            )
        # The figures change with every report; who stays and by which rule is said once.
        refused = frozenset((each.subject, each.rule) for each in made.rejections)
        again, self._refused = self._refused, None if made.moves else refused
        if not made.moves and again != refused:
            reasons = "; ".join(rejection.sentence for rejection in made.rejections[:3])
            more = f" (and {len(made.rejections) - 3} more)" if len(made.rejections) > 3 else ""
            self._tell(f"nothing to move, imbalance {made.imbalance:.2f}: {reasons}{more}")


def _rule(reason: str) -> str:
    """Which rule a reason names, at its end and in brackets: the figures before it change."""
    return reason.rpartition("(")[2]


def refused_by_rule(each: Withheld) -> MoveOutcome:
    """The outcome of a move that a rule withholds."""
    move = each.move
    return MoveOutcome(
        id=move.id,
        poll_id=move.poll_id,
        bundle=move.bundle,
        source=move.source,
        destination=move.destination,
        status=MoveStatus.WITHHELD,
        owner="",
        started_at_ms=move.poll_id,
        ended_at_ms=move.poll_id,
        error=each.reason,
    )


def before_moves(
    outcomes: Iterable[MoveOutcome], seen: Mapping[str, float], loads: Mapping[str, float]
) -> dict[str, float]:
    """What the brokers reported between which load moved: their next measurement is another.

    Who had no traffic and got none looks the same each time it is measured, and is left out.
    """
    moved = [one for one in outcomes if one.status is MoveStatus.MOVED]
    changed = {one.source for one in moved if seen.get(one.source)}
    changed |= {one.destination for one in moved if loads.get(one.bundle)}
    return {broker: seen[broker] for broker in sorted(changed & seen.keys())}


def told(outcome: MoveOutcome) -> str:
    """An outcome as a sentence."""
    took = f"after {(outcome.ended_at_ms - outcome.started_at_ms) / 1000:.1f} s"
    owner = f", owner {outcome.owner}" if outcome.owner else ""
    error = f": {outcome.error}" if outcome.error else ""
    return f"{outcome.status.value} {outcome.bundle} {took}{owner}{error}"

"""Carries out a round of balancing within the operator's rules, and commits its outcomes.

The round is committed before its first move, each outcome as soon as it is known, and the memory
last, so that another process can complete an interrupted round.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

from counterpoise.decide.balancing.approval import ApprovalRules, PastMove, Withheld, approve
from counterpoise.decide.balancing.due import carried, traffic
from counterpoise.decide.balancing.moves import MoveOutcome, MoveStatus, Round
from counterpoise.decide.balancing.publish_latency import LatencyRise
from counterpoise.decide.balancing.warm_up import first_moves
from counterpoise.load.fold import FoldState
from counterpoise.names.bundle import namespace_of
from counterpoise.pipeline.executor import Executor
from counterpoise.pipeline.round_reporter import RoundReporter
from counterpoise.pipeline.tables.journal import JournalWriter


class RoundEnd(NamedTuple):
    """The outcomes of a round's moves, and why no further move was made."""

    outcomes: list[MoveOutcome]
    stopped: str
    """How publish latency rose; empty if no move was left out for that."""


class RoundRunner:
    """Carries out the rounds of one balancer, and commits their outcomes to its history."""

    def __init__(
        self,
        history: JournalWriter,
        executor: Executor,
        reporter: RoundReporter,
        *,
        rules: ApprovalRules | None = None,
        moved_before: Iterable[PastMove] = (),
        span_ms: int = 0,
        attempts: int = 1,
    ) -> None:
        """`moved_before` are recent moves, which the rules' hourly limits count.

        The memory keeps each bundle's last moves for `span_ms`, to recognise thrash. `attempts` is
        how often a move is tried if it fails.
        """
        self._history = history
        self._executor = executor
        self._reporter = reporter
        self._rules = rules or ApprovalRules()
        self._moved = list(moved_before)
        self._span_ms = span_ms
        self._attempts = attempts

    async def see_through(
        self,
        made: Round,
        brokers: Sequence[str],
        state: FoldState,
        by_hand: Sequence[PastMove] = (),
    ) -> RoundEnd:
        """Carry out the rest of a committed round, and commit the memory that ends it.

        `brokers` are those that may turn out to own a bundle, `state` has their reports when the
        round was decided, `by_hand` recent moves by operators, which count for the rules.
        """
        outcomes = await asyncio.to_thread(self._known, made)
        left = [move for move in made.moves if move.id not in outcomes]
        approved, withheld = approve(left, [*self._moved, *by_hand], made.poll_id, self._rules)
        parts = {move.id: move.part for move in made.moves}
        rise: LatencyRise | None = None

        async def done(outcome: MoveOutcome, attempt: int = 0) -> None:
            outcomes[outcome.id] = outcome
            if outcome.status is MoveStatus.FAILED and attempt < self._attempts:
                self._reporter.failed(outcome)
                return
            await asyncio.to_thread(self._history.record_outcome, outcome)
            if outcome.carried_out:
                took_s = outcome.seconds
                namespace = namespace_of(outcome.bundle)
                past = PastMove(outcome.ended_at_ms, parts[outcome.id], namespace, took_s)
                self._moved.append(past)
            self._reporter.ended(outcome)

        for each in withheld:
            await done(refused_by_rule(each))
        for attempt in range(1, self._attempts + 1):
            again = [
                move
                for move in approved
                if attempt == 1 or outcomes[move.id].status is MoveStatus.FAILED
            ]
            if rise:
                for move in again:  # there is no further attempt, so the last failure is final
                    await done(outcomes[move.id], self._attempts)
                break
            if again:
                await self._executor.pause_before(attempt)
                first = first_moves(again, _owned(state)) if attempt == 1 else ()
                kept = partial(done, attempt=attempt)
                rise = await self._executor.carry_out(again, brokers, kept, first)
        if made.moves:
            self._reporter.round_ended()
        ended = list(outcomes.values())
        loads = carried(state, [one.bundle for one in ended])
        memory = made.memory.after(
            ended, span_ms=self._span_ms, traffic=traffic(state), carried=loads, rise=rise
        )
        await asyncio.to_thread(self._history.record_memory, made.poll_id, memory)
        return RoundEnd(ended, rise.sentence if rise else "")

    def _known(self, made: Round) -> dict[str, MoveOutcome]:
        """The outcomes of a round's moves so far, by move id."""
        known = [self._history.outcome(move.id) for move in made.moves]
        return {one.id: one for one in known if one}


def _owned(state: FoldState) -> dict[str, list[str]]:
    """The bundles of each broker by its latest report."""
    found: dict[str, list[str]] = defaultdict(list)
    for broker, bundle in zip(state.served["broker"], state.served["bundle"], strict=True):
        found[broker].append(bundle)
    return found


def refused_by_rule(each: Withheld) -> MoveOutcome:
    """The outcome of a move that one of the operator's rules withholds."""
    at_ms = each.move.poll_id
    return each.move.ended(MoveStatus.WITHHELD, "", at_ms, at_ms, each.reason)

"""A round seen through: which moves are carried out, tried again, kept and said."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, cast

import aiohttp
import pytest

from counterpoise.decide.balancing.approval import ApprovalRules, PastMove
from counterpoise.decide.balancing.moves import Move, MoveOutcome, MoveStatus, Round, RoundMemory
from counterpoise.decide.balancing.publish_latency import LatencyLimit, LatencyRise
from counterpoise.decide.balancing.round import decide
from counterpoise.pipeline.executor import Executor, ExecutorOptions
from counterpoise.pipeline.notify.notice import BalancerNotices
from counterpoise.pipeline.publish_latencies import LatencyWatchOptions
from counterpoise.pipeline.round_reporter import RoundReporter, outcome_text
from counterpoise.pipeline.rounds import RoundRunner
from counterpoise.pipeline.tables.journal import JournalWriter
from tests.decide.balancing.test_round import UNEVEN, seen, strategy
from tests.quota.jumping import now_ns, on_jumping_loop, pass_time

STATE = seen(UNEVEN)
MADE = decide(STATE, RoundMemory(), strategy())
TWO = replace(MADE, moves=MADE.moves[:2])
HOUR_MS = 3_600_000


class KeptOutcomes:
    """A history in memory."""

    def __init__(self, *known: MoveOutcome) -> None:
        self.outcomes = {each.id: each for each in known}
        self.memories: dict[int, RoundMemory] = {}

    def outcome(self, move_id: str) -> MoveOutcome | None:
        return self.outcomes.get(move_id)

    def record_outcome(self, outcome: MoveOutcome) -> None:
        assert outcome.id not in self.outcomes, "an outcome is kept once"
        self.outcomes[outcome.id] = outcome

    async def keep(self, outcome: MoveOutcome) -> None:
        self.record_outcome(outcome)

    def record_memory(self, poll_id: int, memory: RoundMemory) -> None:
        self.memories[poll_id] = memory


class Script:
    """Carries moves out as its script says: a status for each attempt at each bundle."""

    rise: LatencyRise | None = None

    def __init__(self, **statuses: Sequence[MoveStatus]) -> None:
        self.left = {int(number[1:]): [*each] for number, each in statuses.items()}
        self.tried: list[list[str]] = []
        self.pauses: list[int] = []
        self.first: list[list[str]] = []
        """The bundles that went before the others, at each attempt."""

    async def pause_before(self, attempt: int) -> None:
        self.pauses.append(attempt)

    async def carry_out(
        self,
        moves: Sequence[Move],
        brokers: Sequence[str],
        done: Callable[[MoveOutcome], Awaitable[None]],
        first: Collection[Move],
    ) -> LatencyRise | None:
        self.tried.append([move.bundle for move in moves])
        self.first.append([move.bundle for move in first])
        for move in moves:
            number = [each.id for each in MADE.moves].index(move.id)
            await done(ended(move, self.left[number].pop(0)))
        return self.rise


def ended(move: Move, status: MoveStatus, error: str = "") -> MoveOutcome:
    return replace(
        move.done(move.poll_id + 2500), status=status, started_at_ms=move.poll_id, error=error
    )


class Story:
    def __init__(
        self,
        script: Script,
        *known: MoveOutcome,
        notices: BalancerNotices | None = None,
        **options: Any,
    ) -> None:
        self.history, self.script, self.log = KeptOutcomes(*known), script, list[str]()
        self.runner = RoundRunner(
            cast("JournalWriter", self.history),
            cast("Executor", script),
            RoundReporter(self.log.append, notices),
            **options,
        )

    async def see_through(self, made: Round = TWO, *by_hand: PastMove) -> list[MoveOutcome]:
        return (await self.runner.see_through(made, (), STATE, by_hand)).outcomes

    def kept(self) -> list[MoveStatus]:
        return [self.history.outcomes[move.id].status for move in TWO.moves]


MOVED, FAILED, WITHHELD = MoveStatus.MOVED, MoveStatus.FAILED, MoveStatus.WITHHELD


async def test_what_is_done_is_not_done_again_and_counts_for_no_rule_of_the_rest() -> None:
    done = ended(TWO.moves[0], MOVED)
    story = Story(Script(m1=[MOVED]), done, rules=ApprovalRules(moves_a_round=1))
    assert await story.see_through() == [done, ended(TWO.moves[1], MOVED)]
    assert story.script.tried == [[TWO.moves[1].bundle]]
    assert set(story.history.memories) == {TWO.poll_id}


async def test_what_failed_is_tried_again_alone_and_its_last_failure_is_kept() -> None:
    script = Script(m0=[FAILED, MoveStatus.GONE], m1=[FAILED, FAILED, FAILED])
    story = Story(script, attempts=3)
    await story.see_through()
    first, second = (move.bundle for move in TWO.moves)
    assert script.tried == [[first, second], [first, second], [second]]
    assert script.pauses == [1, 2, 3]
    new = next(move for move in TWO.moves if move.destination not in STATE.served["broker"])
    assert script.first == [[new.bundle], [], []], "the other destination has some of the namespace"
    assert story.kept() == [MoveStatus.GONE, FAILED]
    assert len(story.log) == 5, "each attempt is said"


async def test_a_broker_that_owns_nothing_of_a_namespace_gets_its_lightest_bundle_first() -> None:
    [to] = {move.destination for move in TWO.moves} & set(STATE.served["broker"])
    heavy, light = (
        replace(move, decision=move.decision._replace(bundle=bundle, destination=to), part=part)
        for move, bundle, part in zip(
            TWO.moves, ("other/ns/0x00_0x40", "other/ns/0x40_0x80"), (0.5, 0.1), strict=True
        )
    )
    script = Script(m0=[MOVED], m1=[FAILED, MOVED])
    story = Story(script, attempts=2)
    await story.see_through(replace(TWO, moves=(heavy, light)))
    assert script.tried == [[heavy.bundle, light.bundle], [light.bundle]]
    assert script.first == [[light.bundle], []]


async def test_what_failed_before_moves_were_stopped_is_kept_and_not_tried_again() -> None:
    """The moves to the broker that became slow hurt, which is remembered."""
    script, moved = Script(m0=[FAILED, MOVED], m1=[MOVED]), TWO.moves[1]
    script.rise = LatencyRise(moved.destination or "", 5.0, 80.0, LatencyLimit())
    story = Story(script, attempts=3)
    await story.see_through()
    assert len(script.tried) == 1
    assert sorted(story.kept()) == [FAILED, MOVED]
    [cost] = story.history.memories[TWO.poll_id].costs[moved.bundle]
    assert cost.why == script.rise.figures


@pytest.mark.parametrize(
    "rules",
    [
        ApprovalRules(moves_an_hour=1),
        ApprovalRules(part_an_hour=1.2 * max(move.part for move in MADE.moves)),
        ApprovalRules(unavailable_an_hour_s=4.0),
    ],
)
async def test_only_what_was_moved_counts_for_the_hour_and_from_its_end(
    rules: ApprovalRules,
) -> None:
    """One move an hour; one that was gone is none, the second one ends 2.5 s after its poll."""
    script = Script(m0=[MoveStatus.GONE], m1=[MOVED], m2=[MOVED], m3=[MOVED])
    story = Story(script, rules=rules)
    ends_ms = TWO.poll_id + 2500
    at_ms = (TWO.poll_id, TWO.poll_id, ends_ms + HOUR_MS - 1, ends_ms + HOUR_MS)
    found = []
    for poll_id, move in zip(at_ms, MADE.moves, strict=False):
        found += await story.see_through(replace(MADE, poll_id=poll_id, moves=(move,)))
    assert [each.status for each in found] == [MoveStatus.GONE, MOVED, WITHHELD, MOVED]


@pytest.mark.parametrize(("ago_ms", "moved"), [(HOUR_MS - 1, 0), (HOUR_MS, 1)])
async def test_moves_by_hand_count_for_the_hour_of_the_round_that_they_are_given_with(
    ago_ms: int, moved: int
) -> None:
    story = Story(Script(m0=[MOVED]), rules=ApprovalRules(moves_an_hour=1))
    one = replace(TWO, moves=TWO.moves[:1])
    found = await story.see_through(one, PastMove(TWO.poll_id - ago_ms, 0.0))
    assert [each.status for each in found] == [(WITHHELD, MOVED)[moved]]


async def test_a_rule_that_withholds_the_same_is_said_once() -> None:
    """Though a round in between moved nothing."""
    rules = ApprovalRules(leave_alone=frozenset(move.bundle for move in TWO.moves))
    story = Story(Script(), rules=rules)
    for poll in range(3):
        moves = tuple(replace(move, id=f"{move.id}-{poll}") for move in TWO.moves)
        await story.see_through(replace(TWO, moves=() if poll == 1 else moves))
    assert len(story.log) == 2
    at_ms = {(each.started_at_ms, each.ended_at_ms) for each in story.history.outcomes.values()}
    assert at_ms == {(TWO.poll_id, TWO.poll_id)}, "when it was decided"


def test_an_outcome_says_how_long_it_took_who_has_it_and_why_not() -> None:
    move = TWO.moves[0]
    assert outcome_text(ended(move, FAILED, "no")).endswith(
        f"failed {move.bundle} after 2.5 s, owner {move.destination}: no"
    )


# One move, before any broker is asked.


def executor_of(
    options: ExecutorOptions,
    at_ms: int = MADE.poll_id,
    held: Callable[[], Awaitable[str]] | None = None,
) -> Executor:
    session = cast("aiohttp.ClientSession", None)  # no broker is asked
    more = {} if held is None else {"withheld": held}
    options = replace(options, latency=LatencyWatchOptions(LatencyLimit(times=0.0)))
    return Executor(session, lambda: at_ms, options, **more)  # type: ignore[arg-type]


async def outcomes_of(executor: Executor, *moves: Move) -> list[MoveOutcome]:
    found = KeptOutcomes()
    await executor.carry_out(moves, (), found.keep)
    return [*found.outcomes.values()]


@pytest.mark.parametrize(("takes_s", "refused"), [(5.0, False), (5.1, True)])
@on_jumping_loop
async def test_a_process_that_stood_still_while_it_asked_moves_nothing(
    takes_s: float, refused: bool
) -> None:
    async def held() -> str:
        await pass_time(takes_s)
        return "" if refused else "held"

    [outcome] = await outcomes_of(
        executor_of(ExecutorOptions(execute=True), held=held), TWO.moves[0]
    )
    if refused:
        assert outcome.status is FAILED
        assert "took 5.1 s to ask" in outcome.error
    else:
        assert outcome.status is WITHHELD


@on_jumping_loop
async def test_the_pause_before_an_attempt_doubles() -> None:
    executor = executor_of(ExecutorOptions(again_after_s=2))
    at = []
    for attempt in (1, 2, 3, 4):
        await executor.pause_before(attempt)
        at.append(now_ns() // 10**9)
    assert at == [0, 2, 6, 14]


@on_jumping_loop
async def test_nothing_waits_for_a_first_move_that_was_withheld() -> None:
    async def held() -> str:
        return "held"

    found = KeptOutcomes()
    executor = executor_of(ExecutorOptions(execute=True, warm_up_s=60.0), held=held)
    await executor.carry_out(TWO.moves, (), found.keep, TWO.moves[:1])
    assert [each.status for each in found.outcomes.values()] == [WITHHELD, WITHHELD]
    assert now_ns() < 60 * 10**9


async def test_when_an_outcome_cannot_be_kept_no_further_move_is_made() -> None:
    begun: list[int] = []

    async def held() -> str:
        begun.append(len(begun))
        await asyncio.sleep(0)
        return "held"

    async def full(_: MoveOutcome) -> None:
        raise OSError("no space left")

    executor = executor_of(ExecutorOptions(execute=True, at_once=1), held=held)
    with pytest.raises(OSError, match="no space"):
        await executor.carry_out(MADE.moves[:3], (), full)
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(begun) < 3, "the next one had begun, and goes no further"

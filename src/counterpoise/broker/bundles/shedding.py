"""The leader unloads bundles from overloaded brokers (``doLoadShedding``, ``UnloadScheduler``).

Every broker runs the timer, and only the leader acts. The decisions are made by
`counterpoise.decide.balancing`, as in the separate balancer. The bundle's owner carries a move out:
on a request to its admin API or, under the extensible load manager, by the bundle's record.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final, Protocol

from counterpoise.broker.base.background import BackgroundTasks
from counterpoise.broker.base.clock import wall_clock_ms
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.bundles.shedding_options import SheddingConfig
from counterpoise.broker.bundles.tally import FAILURE, SKIP, SUCCESS, BundleTally
from counterpoise.decide.balancing.moves import Move, MoveOutcome, Round, RoundMemory
from counterpoise.decide.plan import Rejection
from counterpoise.metadata import MetadataError
from counterpoise.names.callbacks import MillisecondClock
from counterpoise.names.errors import InvalidName

if TYPE_CHECKING:
    from counterpoise.decide.balancing.policies import PlacementPolicies
    from counterpoise.decide.balancing.round import BalancingStrategy, Shed, View

log = logging.getLogger(__name__)

AT_ONCE: Final = 8
"""How many bundles the leader moves at the same time."""
REMEMBERED: Final = 100
"""How many of the last rounds are kept, for the admin API."""


BundleUnloader = Callable[[Move], Awaitable[None]]
"""Unloads a bundle through its owner, and returns when it is released; raises `BrokerError` or
`MetadataError`."""


class SheddingSource(Protocol):
    """Reads from the cluster what a shedding strategy needs; there is one for each load manager."""

    def strategy(self, config: SheddingConfig) -> "BalancingStrategy":
        """The configured shedding strategy, built with its settings."""

    async def view(self, recent: Collection[str], unloaded: Mapping[str, int]) -> "View":
        """The cluster's load now, as the strategy reads it.

        ``recent``: bundles in their grace period, which do not move again yet; ``unloaded``: when
        bundles last left a broker (milliseconds), by its id.
        """

    async def policies(self, made: "Shed") -> "PlacementPolicies | None":
        """The placement policies for bundles to be shed; None if no destination is to be chosen."""


class LeaderShedding:
    """Runs the leader's shedding rounds, one every ``loadBalancerSheddingIntervalMinutes``."""

    def __init__(
        self,
        source: Callable[[], SheddingSource],
        unload: BundleUnloader,
        *,
        leads: Callable[[], bool],
        config: Callable[[], SheddingConfig],
        background: BackgroundTasks,
        tally: BundleTally,
        clock_ms: MillisecondClock = wall_clock_ms,
    ) -> None:
        """``source`` makes what `source` returns, at the first round.

        ``leads``: whether this broker is the leader and connected to the metadata store.
        """
        self._make_source = source
        self._unload = unload
        self._leads = leads
        self._config = config
        self._background = background
        self._tally = tally
        self._clock_ms = clock_ms
        self._news = asyncio.Event()
        self._began = 0.0
        self._round: asyncio.Task[Round | None] | None = None
        self._memory = RoundMemory()
        self._unloaded: dict[str, int] = {}
        self._said: frozenset[str] = frozenset()
        self.rounds: Final[deque[Round]] = deque(maxlen=REMEMBERED)
        """The last rounds whose moves have ended, oldest first."""

    def lead(self, leads: bool) -> None:
        """Cancel a running round; if this broker became the leader, forget earlier rounds."""
        if self._round is not None:
            self._round.cancel()
        if leads:
            # The memory of former rounds is the former leader's, and lost.
            self._forget()
            self._began = asyncio.get_running_loop().time()
        self._news.set()

    def _forget(self) -> None:
        self._memory, self._unloaded, self._said = RoundMemory(), {}, frozenset()

    def settings_changed(self) -> None:
        """Restart the wait for the next round with the interval that is set now."""
        self._news.set()

    async def run(self) -> None:
        """Run shedding rounds until cancelled."""
        loop = asyncio.get_running_loop()
        self._began = loop.time()
        while True:
            due = self._began + self._config().balance.decide_every_ms / 1000
            self._news.clear()
            try:
                async with asyncio.timeout_at(due):
                    await self._news.wait()
            except TimeoutError:
                self._began = loop.time()
                await self._look_while_leading()

    async def _look_while_leading(self) -> None:
        self._round = self._background.start("a round of shedding", self._guarded_look())
        try:
            await asyncio.wait({self._round})
        finally:
            self._round.cancel()
            self._round = None

    async def _guarded_look(self) -> Round | None:
        try:
            return await self.run_round()
        except MetadataError as error:
            log.warning("load is shed later: %s", error)
            return None

    @cached_property
    def source(self) -> SheddingSource:
        """The source from which this broker, as leader, reads the cluster's load."""
        return self._make_source()

    async def run_round(self) -> Round | None:
        """Run one shedding round; None if none is due. Raises `MetadataError`."""
        # Imported here, by a broker that leads: most never do.
        from counterpoise.decide.balancing.due import may_decide
        from counterpoise.decide.balancing.measured import with_basis_in_view
        from counterpoise.decide.balancing.round import left_alone, placed, shed

        config, now_ms = self._config(), self._clock_ms()
        if self._memory.last_move_ms > now_ms + config.balance.decide_every_ms:
            # The clock was set back: else no round would be made before it has caught up.
            self._forget()
        if not self._leads() or not may_decide(now_ms, self._memory, config.balance):
            return None
        strategy = self.source.strategy(config)
        recent = left_alone(now_ms, self._memory, strategy.balance)
        view = await self.source.view(recent, self._unloaded)
        proposed = shed(view, self._memory, strategy)
        policies = await self.source.policies(proposed)
        made = placed(proposed, view.brokers, self._memory, strategy, policies)
        made = with_basis_in_view(made, view)
        self._memory = made.memory
        self._log_once(made.rejections)
        await self._carry_out(made)
        self.rounds.append(made)
        return made

    async def _carry_out(self, made: Round) -> None:
        gate = asyncio.Semaphore(AT_ONCE)

        async def carry(move: Move) -> None:
            async with gate:
                if await self._move(move):
                    sources.add(move.source)
                    ended.append(move.done(self._clock_ms()))
                    self._unloaded[move.source] = ended[-1].ended_at_ms

        ended: list[MoveOutcome] = []
        sources: set[str] = set()
        try:
            await asyncio.gather(*map(carry, made.moves))
        finally:
            self._tally.shed_brokers += len(sources)
            if self._memory is made.memory:  # else this broker became leader again meanwhile
                self._memory = made.memory.after(ended, span_ms=0)

    async def _move(self, move: Move) -> bool:
        if not self._leads():
            return False
        why, to = move.decision.sentence, move.destination or "wherever placement wants it"
        basis = f" ({move.basis_text})" if move.basis else ""
        log.info("%s moves from %s to %s: %s%s", move.bundle, move.source, to, why, basis)
        reason = move.decision.reason
        try:
            await self._unload(move)
        except (BrokerError, MetadataError, InvalidName) as error:
            # It was moved, split or deleted meanwhile; the next round sees its new state.
            log.warning("%s was not moved: %s", move.bundle, error)
            self._tally.shed[FAILURE, "Unknown"] += 1
            return False
        self._tally.shed[SUCCESS, reason] += 1
        return True

    def _log_once(self, rejections: Iterable[Rejection]) -> None:
        """Log why bundles stay where they are, each reason once."""
        every = list(rejections)
        for each in every:
            self._tally.shed[SKIP, each.rule] += 1
        # The sentence has figures, which always change: compare the subject and the rule.
        now = {f"{each.subject} {each.rule}": each.sentence for each in every}
        for what in sorted(now.keys() - self._said):
            log.info("%s", now[what])
        self._said = frozenset(now)

"""The balancer without Spark, for a cluster inside one process: same fold, same decisions.

There is no history on disk and nothing to replay; the rest is shared with the Spark balancer.
"""

import asyncio
import time
from collections.abc import Callable, Sequence

import aiohttp

from counterpoise.decide.balancing.moves import Round
from counterpoise.decide.balancing.round import Strategy
from counterpoise.load.fold import Batch, FoldState, fold
from counterpoise.pipeline.balancer import Balancer
from counterpoise.pipeline.collect.collector import Collector
from counterpoise.pipeline.executor import Executor, ExecutorOptions
from counterpoise.pipeline.history.port import History, ShortHistory

HTTP_TIMEOUT_S = 10.0


def wall_clock_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class InlineBalancer:
    """Polls, folds and balances on the running event loop until cancelled."""

    def __init__(
        self,
        addresses: Sequence[str],
        strategy: Strategy,
        *,
        executor: ExecutorOptions,
        poll_every_s: float = 5.0,
        history: History | None = None,
        tell: Callable[[str], None] = lambda sentence: None,
        clock_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        self.history: History = ShortHistory() if history is None else history
        self._addresses = addresses
        self._strategy = strategy
        self._executor_options = executor
        self._poll_every_s = poll_every_s
        self._tell = tell
        self._clock_ms = clock_ms

    async def run(self, after_round: Callable[[Round], None] | None = None) -> None:
        """Balance until cancelled; `after_round` hears of each round that was seen through."""
        timeout = aiohttp.ClientTimeout(total=HTTP_TIMEOUT_S)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            collector = Collector(session, self._addresses, self._clock_ms)
            executor = Executor(session, self._clock_ms, self._executor_options)
            balancer = Balancer(self._strategy, self.history, executor, self._tell)
            state = FoldState.empty()
            while True:
                state = fold(state, Batch.of(await collector.poll()))
                made = await balancer.step(state)
                if made and after_round:
                    after_round(made)
                await asyncio.sleep(self._poll_every_s)

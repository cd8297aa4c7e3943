"""Polls the cluster once for all open pages."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import aiohttp
import orjson

from counterpoise.console.options import ConsoleOptions, Settings
from counterpoise.console.throttling import Throttling
from counterpoise.decide.balancing.moves import MoveOutcome, MoveStatus, RoundMemory
from counterpoise.decide.balancing.round import BalancingStrategy, decide
from counterpoise.load.fold import Batch, FoldState, fold
from counterpoise.load.fold_view import cluster_view
from counterpoise.load.rows import BROKER, ReportRows
from counterpoise.names.callbacks import MillisecondClock
from counterpoise.picture.cluster_picture import ClusterPicture, CompletedMove
from counterpoise.picture.observed import ObservedHistory
from counterpoise.picture.reached_limits import ReachedLimit
from counterpoise.picture.round_summary import (
    RoundSummary,
    round_summary_of_json,
    summarize_round,
    with_round,
)
from counterpoise.picture.tables import bundle_line
from counterpoise.pipeline.collect.admin import UNREADABLE, Admin, AdminOptions, RefusedError
from counterpoise.pipeline.collect.collector import Collector
from counterpoise.pipeline.collect.poll_log import trouble
from counterpoise.pipeline.collect.settings import settings_of_any, sheds_by_itself
from counterpoise.pipeline.collect.where import web_address
from counterpoise.pipeline.policies import CannotSeeError, RoundPolicies

log = logging.getLogger(__name__)

SETTINGS_EVERY_S = 60.0
ROUNDS_EVERY_S = 3.0
NOTHING: Mapping[str, CompletedMove] = MappingProxyType({})


class ClusterWatch:
    """Polls the cluster, and gives the latest picture of it to all pages."""

    def __init__(
        self, session: aiohttp.ClientSession, options: ConsoleOptions, clock_ms: MillisecondClock
    ) -> None:
        self.options = options
        self.picture = ClusterPicture.nothing()
        self.past = ObservedHistory()
        self.throttled: tuple[ReachedLimit, ...] = ()
        self.advice: tuple[RoundSummary, ...] = ()
        """Rounds that the cluster's strategy would decide; their moves are not carried out."""
        self.advisor = ""
        """A sentence on the strategy that decides the rounds of ``advice``."""
        self.sheds = ""
        """A sentence if the cluster's own leader moves bundles; otherwise empty."""
        self.settings: Settings = {}
        admin_options = AdminOptions(timeout_s=options.watch.patience_s)
        self._admin = Admin(session, admin_options)
        self._collector = Collector(
            session, options.watch.addresses, clock_ms, options=admin_options
        )
        self._throttling = Throttling(self._admin)
        self._policies = RoundPolicies(session, options.watch.addresses)
        self._state = FoldState.empty()
        self.moved: Mapping[str, CompletedMove] = {}
        """Moves that this console carried out, by bundle, until both brokers' reports are newer."""
        self._memory = RoundMemory()
        self._strategy: BalancingStrategy | None = None
        self.shed: tuple[RoundSummary, ...] = ()
        """The shedding rounds of the cluster's own leader, oldest first."""
        self._answers_rounds: dict[str, bool] = {}
        """By broker id: whether the broker has the endpoint for rounds; absent if not yet asked."""
        self._settings_at = self._advised_at = self._asked_at = -SETTINGS_EVERY_S

    async def run(self) -> None:
        """Poll the cluster at intervals until cancelled."""
        while True:
            try:
                await self.poll()
            except Exception:
                # The pages go on showing the last poll, with its age.
                log.exception("a look at the cluster failed; the next one follows")
            await asyncio.sleep(self.options.watch.every_s)

    async def poll(self) -> None:
        """Poll the cluster once, and update what the pages show."""
        rows = await self._collector.poll()
        expected = self.moved
        # In a thread: for a large cluster this takes long, and the event loop serves the pages.
        self._state, self.past, self.picture = await asyncio.to_thread(
            seen, self._state, self.past, rows, expected
        )
        over = expected.items() - self.picture.moved.items()
        self.moved = {k: each for k, each in self.moved.items() if (k, each) not in over}
        if self.picture.trouble:
            return
        if _due(self._settings_at, SETTINGS_EVERY_S):
            await self._read_settings()
        if _due(self._advised_at, self.options.advise_every_s):
            await self._advise()
        answering = [each for each in self.picture.view.brokers if each not in self.picture.silent]
        if _due(self._asked_at, ROUNDS_EVERY_S):
            self._asked_at = time.monotonic()
            await self._ask_rounds(answering)
        self.throttled = await self._throttling.read(self.address, answering)

    def move_completed(self, outcome: MoveOutcome) -> None:
        """Show a move to its new owner at once, before the brokers' load reports do.

        Ignored if the move did not succeed.
        """
        row = self.picture.view.bundle_index(outcome.bundle)
        if outcome.status is MoveStatus.MOVED and outcome.owner and row is not None:
            source = bundle_line(self.picture, row).owner
            moved = CompletedMove(source, outcome.owner, outcome.ended_at_ms)
            self.moved = {**self.moved, outcome.bundle: moved}

    def address(self, broker: str) -> str:
        """A broker's admin URL."""
        return web_address(broker, self.options.watch.addresses)

    async def _read_settings(self) -> None:
        self._settings_at = time.monotonic()
        addresses = [*self.options.watch.addresses, *map(self.address, self.picture.view.brokers)]
        with contextlib.suppress(RefusedError):
            self.settings = (await settings_of_any(self._admin, addresses)).values
        self._strategy, self.advisor = self.options.strategy(self.settings)
        self.sheds = await sheds_by_itself(self._admin, addresses)

    async def _ask_rounds(self, brokers: Iterable[str]) -> None:
        """Read the shedding rounds of each broker that publishes them; Apache's do not."""
        answering = [each for each in brokers if self._answers_rounds.get(each, True)]
        answers = await asyncio.gather(*(self._rounds_of(each) for each in answering))
        shed: tuple[RoundSummary, ...] = ()
        for made in sorted(
            (made for each in answers for made in each), key=lambda made: made.at_ms
        ):
            shed = with_round(shed, made)
        self.shed = shed

    async def _rounds_of(self, broker: str) -> list[RoundSummary]:
        url = f"{self.address(broker)}/admin/v2/broker-stats/shedding"
        try:
            return [
                round_summary_of_json(each) for each in orjson.loads(await self._admin.get(url))
            ]
        except RefusedError as error:
            self._answers_rounds[broker] = error.status != 404
        except (*UNREADABLE, orjson.JSONDecodeError, KeyError, TypeError, ValueError):
            pass
        return []

    async def _advise(self) -> None:
        self._advised_at = time.monotonic()
        state, strategy = self._state, self._strategy
        if strategy is None:
            return
        try:
            around = await self._policies.read(state)
        except CannotSeeError as error:
            log.warning("nothing is advised while policies cannot be read: %s", error)
            return
        made = await asyncio.to_thread(decide, state, self._memory, strategy, around)
        self._memory = made.memory
        summary = await asyncio.to_thread(summarize_round, made, {}, self.picture.view)
        self.advice = with_round(self.advice, summary)


def seen(
    state: FoldState,
    past: ObservedHistory,
    rows: ReportRows,
    moved: Mapping[str, CompletedMove] = NOTHING,
) -> tuple[FoldState, ObservedHistory, ClusterPicture]:
    """Add the `rows` of a poll to the averages and the history; return both and a new picture.

    `moved` are the moves that this console carried out, by bundle: the picture shows those that
    the brokers' reports do not include yet.
    """
    state = fold(state, Batch.of(rows))
    at_ms = int(rows["poll_id"][0])
    reported = rows["kind"] == BROKER
    reports = zip(
        rows["broker"][reported].tolist(), rows["report_at_ms"][reported].tolist(), strict=True
    )
    reported_ms = dict(reports)
    news = {bundle: each for bundle, each in moved.items() if each.is_news(reported_ms)}
    picture = ClusterPicture(at_ms, cluster_view(state, at_ms), rows.silent, trouble(rows), news)
    return state, past.after(picture), picture


def _due(last: float, every_s: float) -> bool:
    return time.monotonic() - last >= every_s

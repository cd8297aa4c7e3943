"""The balancer of an embedded cluster: the one that Spark runs elsewhere, on the cluster's loop."""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from counterpoise.app.errors import UserError
from counterpoise.names.options import ConfigError
from counterpoise.names.properties import Properties

if TYPE_CHECKING:
    from counterpoise.decide.balancing.moves import Round

log = logging.getLogger(__name__)

POLL_EVERY_MOST_S = 1.0


class EmbeddedBalancer:
    """Moves bundles by the strategy that the settings name, and remembers its rounds."""

    def __init__(self, settings: Mapping[str, str], *, every_s: float) -> None:
        """``settings`` by broker.conf's names; ``every_s``: seconds between two rounds."""
        if every_s <= 0:
            raise ValueError(f"balance_every_s={every_s}: must be more than 0")
        # Imported here: most embedded clusters balance nothing.
        from counterpoise.app.strategies import strategy_from

        self._settings = dict(settings)
        self._strategy = strategy_from(Properties(settings), decide_every_s=every_s)
        self._every_s = every_s
        self._admin_urls: Sequence[str] = ()
        self._task: asyncio.Task[None] | None = None
        self.rounds: list[Round] = []
        """Every round that was seen through: what was moved, and why the rest was not."""

    def start(self, admin_urls: Sequence[str]) -> None:
        """Begin to watch; brokers that join later are found by asking."""
        self._admin_urls = admin_urls
        self._task = asyncio.get_running_loop().create_task(
            self._run(admin_urls), name="embedded balancer"
        )

    def change(self, settings: Mapping[str, str]) -> None:
        """Go on by other settings, with a fresh memory; those that are no good change nothing."""
        if settings == self._settings:
            return
        from counterpoise.app.strategies import strategy_from

        try:
            self._strategy = strategy_from(Properties(settings), decide_every_s=self._every_s)
        except (UserError, ConfigError) as error:
            log.warning("the balancer keeps its settings: %s", error)
            return
        self._settings = dict(settings)
        if self._task is not None:
            self._task.cancel()
            self.start(self._admin_urls)

    async def stop(self) -> None:
        """Stop, in the middle of a round if need be."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self, admin_urls: Sequence[str]) -> None:
        poll_every_s = min(self._every_s, POLL_EVERY_MOST_S)
        # The brokers are only just up, and there is nothing to balance: whoever waits for them
        # comes first. In a thread, since the brokers are on this loop.
        await asyncio.sleep(poll_every_s)
        await asyncio.to_thread(importlib.import_module, "counterpoise.pipeline.inline")
        from counterpoise.pipeline.executor import ExecutorOptions
        from counterpoise.pipeline.inline import InlineBalancer

        balancer = InlineBalancer(
            admin_urls,
            self._strategy,
            executor=ExecutorOptions(execute=True),
            poll_every_s=poll_every_s,
            tell=log.info,
        )
        try:
            await balancer.run(self.rounds.append)
        except Exception:
            # A test that only wonders why nothing moves must find this.
            log.exception("the embedded balancer gave up; no bundle is moved any more")

"""Splits bundles automatically once they exceed a limit.

Under the modular load manager Pulsar's leader decides, and orders the owners
(``BundleSplitterTask``). Here every broker derives the same decisions from the same reports, and
carries out those about its own bundles, so no order is sent and nothing waits for a leader. Under
the extensible load manager each broker decides about its own bundles, as in Pulsar
(``SplitScheduler``).
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from counterpoise.broker.base import paths
from counterpoise.broker.base.errors import BrokerError
from counterpoise.broker.bundles.moves import BundleMoves
from counterpoise.broker.bundles.split_finders import Finder
from counterpoise.broker.bundles.tally import BundleTally
from counterpoise.broker.namespaces.policies import Policies
from counterpoise.decide.plan import Decision
from counterpoise.decide.splitting.options import SplitOptions
from counterpoise.metadata import MetadataError
from counterpoise.names.bundle import BundleName
from counterpoise.names.errors import InvalidName

log = logging.getLogger(__name__)

MINUTE_S: Final = 60.0
EVERY_TIME: Final = frozenset({"maximum_bundles", "neighbour_splitting", "failure"})
"""Rules of rejections that are always logged: a bundle exceeds a limit, and is still not split."""
READ_ONLY: Final = (
    f"no bundle is split automatically: policies are read-only; delete {paths.POLICIES_READ_ONLY} "
    "from the metadata store to allow splits"
)


class AutoSplit:
    """Splits bundles that exceed a limit, every ``loadBalancerSplitIntervalMinutes``."""

    def __init__(
        self,
        me: str,
        finder: Finder,
        splits: BundleMoves,
        options: Callable[[], SplitOptions],
        policies: Policies,
        tally: BundleTally,
    ) -> None:
        self._me = me
        self._finder = finder
        self._splits = splits
        self._options = options
        self._policies = policies
        self._tally = tally
        self._said: frozenset[str] = frozenset()

    async def run(self) -> None:
        """Check at every interval which bundles to split, until cancelled."""
        while True:
            await asyncio.sleep(self._options().interval_minutes * MINUTE_S)
            try:
                await self.check()
            except MetadataError as error:
                log.warning("bundles to split are looked for later: %s", error)

    async def check(self) -> list[BundleName]:
        """Split the bundles that are due now; returns those split. Raises `MetadataError`."""
        options = self._options()
        if not options.auto_split_enabled:
            return []
        if await self._policies.policies_read_only():
            # A split changes its namespace's policies.
            self._log_once([READ_ONLY])
            return []
        plan = await self._finder.find(options)
        self._log_once(each.sentence for each in plan.rejections if each.rule in EVERY_TIME)
        found = []
        for decision in plan.decisions:
            if decision.source == self._me:
                found += await self._carry_out(decision, options)
        return found

    async def _carry_out(self, decision: Decision, options: SplitOptions) -> list[BundleName]:
        try:
            bundle = BundleName.parse(decision.bundle)
            parts = await self._splits.split(
                bundle,
                at=decision.boundaries,
                unload=self._finder.unloads and options.auto_unload_enabled,
            )
        except (BrokerError, MetadataError, InvalidName) as error:
            # It was split or moved meanwhile; the next check sees its new state.
            log.warning("%s was not split: %s", decision.bundle, error)
            return []
        if not parts:
            log.info("%s stays whole: its algorithm finds no place to split", bundle)
            return []
        self._tally.split_for[decision.reason] += 1
        log.info("%s was split: %s", bundle, decision.sentence)
        return [bundle]

    def _log_once(self, reasons: Iterable[str]) -> None:
        """Log why bundles are not split, each reason once."""
        now = frozenset(reasons)
        for sentence in sorted(now - self._said):
            log.info("%s", sentence)
        self._said = now

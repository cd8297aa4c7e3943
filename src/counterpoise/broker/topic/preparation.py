"""Reads in advance what loading topics needs, while their owner still serves them."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from counterpoise.broker.limits.publish import PublishLimits
from counterpoise.broker.topic.log_name import log_name
from counterpoise.broker.topic.ports import TopicMetadata
from counterpoise.names.topic import TopicName
from counterpoise.storage.ledger_store import LedgerStore
from counterpoise.storage.port import LedgerIds

PREPARED_AT_ONCE: Final = 8
"""How many topics are prepared at the same time: few, since loading topics for clients has
precedence."""


@dataclass(frozen=True, slots=True)
class TopicPreparation:
    """Reads what loading topics will need, for bundles that this broker is about to own.

    It changes nothing that another broker sees.
    """

    store: LedgerStore
    catalog: TopicMetadata
    limits: PublishLimits
    policies: Callable[[TopicName], Awaitable[Mapping[str, Any] | None]] | None
    ids: LedgerIds | None
    _at_once: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(PREPARED_AT_ONCE))

    async def run(self, names: Collection[TopicName], within_s: float | None) -> int:
        """Prepare these topics; returns how many were left out after ``within_s`` seconds."""
        left, done = iter(names), 0

        async def work() -> None:
            nonlocal done
            for name in left:
                async with self._at_once:
                    await self.catalog.exists(name)
                    await self.limits.prepare(name)
                    if self.policies is not None:
                        await self.policies(name)
                    await self.store.prepare(log_name(name), self.ids)
                done += 1

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await asyncio.gather(*(work() for _ in range(PREPARED_AT_ONCE)))
        return len(names) - done

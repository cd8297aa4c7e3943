"""Which broker a bundle goes to when nobody owns it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from counterpoise.broker.registry import BrokerRegistry
from counterpoise.names.bundle import BundleName


class Placer(Protocol):
    """Chooses a broker for a bundle."""

    async def choose(self, bundle: BundleName, without: Collection[str] = ()) -> str | None:
        """The broker's id, or None when there is none to choose."""
        ...


class LeastBundles:
    """The broker with the fewest bundles, those just placed included; ties go by name."""

    def __init__(self, registry: BrokerRegistry) -> None:
        self._registry = registry
        self._placed: dict[str, set[str]] = {}

    async def choose(self, bundle: BundleName, without: Collection[str] = ()) -> str | None:
        """See `Placer.choose`."""
        best: tuple[int, str] | None = None
        for broker_id, report in (await self._registry.reports()).items():
            if broker_id in without:
                continue
            count = len(set(report.bundles) | self._placed.get(broker_id, set()))
            best = min(best, (count, broker_id)) if best else (count, broker_id)
        if best is None:
            return None
        for placed in self._placed.values():
            placed.discard(str(bundle))
        self._placed.setdefault(best[1], set()).add(str(bundle))
        return best[1]

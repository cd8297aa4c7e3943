"""The bookies of a cluster by its metadata store, and the choice of those for a ledger."""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from random import Random
from typing import Final

from counterpoise.bookkeeper.bookie_registry import BookieState, RegisteredBookie, read_registry
from counterpoise.bookkeeper.bookies import Bookies
from counterpoise.bookkeeper.client.rack_placement import (
    PlacedEnsemble,
    RackPolicy,
    place_by_policy,
    rack_of,
    read_racks,
)
from counterpoise.bookkeeper.errors import BookKeeperError
from counterpoise.bookkeeper.quorums import Quorums
from counterpoise.metadata.errors import MetadataError
from counterpoise.metadata.listeners import follow
from counterpoise.metadata.port import MetadataStore, Notification, SessionEvent

log = logging.getLogger(__name__)

_RACKS: Final = "/bookies"
"""The node in which Pulsar's tools write the rack of each bookie."""
_POLICY: Final = RackPolicy()


class NotEnoughBookies(BookKeeperError):
    """Fewer bookies accept writes than a ledger needs."""


class BookieDirectory:
    """A cluster's registered bookies, read again when they change. Call `close` at the end."""

    def __init__(
        self, store: MetadataStore, root: str, rng: Random, policy: RackPolicy = _POLICY
    ) -> None:
        self.registered: dict[str, RegisteredBookie] = {}
        """Bookies by id, as of the last `refresh`; always the same object."""
        self._store = store
        self._root = root
        self._available = f"{root}/available"
        self._rng = rng
        self._policy = policy
        self._racks: Mapping[str, str] = {}
        self._is_warned = False
        self._stale = True
        self._unsubscribe = follow(store, self._on_change, self._on_session)

    def close(self) -> None:
        """Stop listening to changes of the metadata store."""
        self._unsubscribe()

    async def refresh(self) -> None:
        """Read the list if it may have changed; while the metadata store is unavailable the known
        list is used.

        Raises `MetadataError` if none is known.
        """
        if not self._stale:
            return
        self._stale = False
        try:
            registry, racks = await asyncio.gather(
                read_registry(self._store, self._root), self._store.get(_RACKS)
            )
        except MetadataError:
            self._stale = True
            if not self.registered:
                raise
            return
        except BaseException:
            self._stale = True
            raise
        self.registered.clear()
        self.registered.update(registry.registered)
        addresses = {
            each.bookie: f"{each.host}:{each.port}" for each in registry.registered.values()
        }
        self._racks = read_racks(b"" if racks is None else racks.value, addresses)

    async def choose(self, quorums: Quorums, bookies: Bookies) -> tuple[str, ...]:
        """Choose the ensemble of a new ledger: different writable bookies, at random and by racks.

        Bookies that failed recently are chosen only if there are not enough others. Raises
        `NotEnoughBookies` and `MetadataError`.
        """
        await self.refresh()
        writable = bookies.in_order(self._writable())
        healthy = [each for each in writable if not bookies.is_avoided(each)]
        for candidates in (healthy, writable):
            chosen = self._placed([None] * quorums.ensemble, candidates, quorums.write)
            if chosen is not None:
                return chosen.ensemble
        if len(writable) < quorums.ensemble:
            raise NotEnoughBookies(
                f"{len(writable)} bookies take writes, and a ledger needs {quorums.ensemble} "
                "(managedLedgerDefaultEnsembleSize, or bookkeeperEnsemble of a persistence policy)"
            )
        raise NotEnoughBookies(
            f"no choice of bookies that have a rack in {_RACKS} has each entry on "
            f"{self._policy.racks_min} racks (bookkeeperClientEnforceMinNumRacksPerWriteQuorum)"
        )

    async def replace(
        self, ensemble: Sequence[str], failed: Collection[str], write_quorum: int, bookies: Bookies
    ) -> list[str]:
        """The ensemble with failed bookies replaced, as far as there are others.

        Never by a bookie that failed recently: two such would replace each other for ever.
        """
        await self.refresh()
        spare = [
            each
            for each in self._writable()
            if each not in ensemble and not bookies.is_avoided(each)
        ]
        holes = [place for place, each in enumerate(ensemble) if each in failed][: len(spare)]
        kept = [None if place in holes else each for place, each in enumerate(ensemble)]
        chosen = self._placed(kept, spare, write_quorum)
        return list(ensemble if chosen is None else chosen.ensemble)

    def _placed(
        self, kept: Sequence[str | None], candidates: Sequence[str], write_quorum: int
    ) -> PlacedEnsemble | None:
        # The number of racks that the bookies are in: no entry can be on more.
        there = len({rack_of(each, self._racks) for each in self.registered})
        chosen = place_by_policy(self._policy, kept, candidates, self._racks, write_quorum, there)
        if chosen is not None and chosen.is_spread is self._is_warned:
            self._is_warned = not chosen.is_spread
            if self._is_warned:
                message = (
                    "%s: no choice of bookies has each entry on %d racks; some entries are not"
                )
                log.warning(message, _RACKS, min(self._policy.racks_min, there, write_quorum))
        return chosen

    def _writable(self) -> list[str]:
        found = [
            each.bookie
            for each in self.registered.values()
            if each.state is BookieState.READ_WRITE and each.port
        ]
        self._rng.shuffle(found)
        return found

    def _on_change(self, notification: Notification) -> None:
        if notification.path == _RACKS or notification.path.startswith(self._available):
            self._stale = True

    def _on_session(self, _: SessionEvent) -> None:
        self._stale = True

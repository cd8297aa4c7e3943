"""The bookies of a cluster by its metadata store, and the choice of those for a ledger."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Sequence
from random import Random
from typing import Final

from counterpoise.bookkeeper.bookie_registry import BookieState, RegisteredBookie, read_registry
from counterpoise.bookkeeper.bookies import Bookies
from counterpoise.bookkeeper.errors import BookKeeperError
from counterpoise.metadata.errors import MetadataError
from counterpoise.metadata.port import MetadataStore, Notification, SessionEvent

log = logging.getLogger(__name__)

_RACKS: Final = "/bookies"
_NO_RACK: Final = frozenset({"", "/", "/default-rack", "/default-region/default-rack"})


class NotEnoughBookies(BookKeeperError):
    """Fewer bookies accept writes than a ledger needs."""


class BookieDirectory:
    """The list of registered bookies, read again after a notification of change.

    Call `close` at the end.
    """

    def __init__(self, store: MetadataStore, root: str, rng: Random) -> None:
        self.registered: dict[str, RegisteredBookie] = {}
        """Bookies by id, as of the last `refresh`; always the same object."""
        self._store = store
        self._root = root
        self._available = f"{root}/available"
        self._rng = rng
        self._stale = True
        self._unsubscribe = (
            store.subscribe(self._on_change),
            store.subscribe_session(self._on_session),
        )

    def close(self) -> None:
        """Stop listening."""
        for unsubscribe in self._unsubscribe:
            unsubscribe()

    async def warn_of_racks(self) -> None:
        """Log a warning if Pulsar knows racks of bookies, which are ignored here."""
        found = await self._store.get(_RACKS)
        racks = _racks(found.value) if found is not None else set()
        if racks:
            log.warning(
                "%s names racks of bookies (%s): they are ignored, bookies are chosen at random; "
                "all copies of an entry may be in one rack",
                _RACKS,
                ", ".join(sorted(racks)),
            )

    async def refresh(self) -> None:
        """Read the list if it may have changed; while the metadata store is away the known list is
        used.

        Raises `MetadataError` if none is known.
        """
        if not self._stale:
            return
        self._stale = False
        try:
            registry = await read_registry(self._store, self._root)
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

    async def choose(self, count: int, bookies: Bookies) -> list[str]:
        """Different writable bookies, at random; those that failed recently last.

        Returns fewer if there are not enough. Raises `MetadataError`.
        """
        await self.refresh()
        return bookies.in_order(self._writable())[:count]

    async def replace(
        self, ensemble: Sequence[str], failed: Collection[str], bookies: Bookies
    ) -> list[str]:
        """The ensemble with failed bookies replaced, as far as there are others.

        Never by a bookie that failed recently: two such would replace each other for ever.
        """
        await self.refresh()
        spare = (
            each
            for each in self._writable()
            if each not in ensemble and not bookies.is_avoided(each)
        )
        return [next(spare, each) if each in failed else each for each in ensemble]

    def _writable(self) -> list[str]:
        found = [
            each.bookie
            for each in self.registered.values()
            if each.state is BookieState.READ_WRITE and each.port
        ]
        self._rng.shuffle(found)
        return found

    def _on_change(self, notification: Notification) -> None:
        if notification.path.startswith(self._available):
            self._stale = True

    def _on_session(self, _: SessionEvent) -> None:
        self._stale = True


def _racks(value: bytes) -> set[str]:
    """The racks in Pulsar's map of groups to bookies; none if it is unreadable."""
    try:
        groups = json.loads(value or b"{}")
        racks = {
            str(each.get("rack") or "") for group in groups.values() for each in group.values()
        }
    except (ValueError, AttributeError):
        return set()
    return racks - _NO_RACK

"""Ids of new ledgers: unique in the cluster, also among those of Java's clients.

The metadata store assigns a sequential number to a node that is created and deleted again. Once
these exceed 31 bits, an id is made of two numbers: that of the greatest ``HOB-`` node is its high
bits (``ZkLedgerIdGenerator``, ``LongZkLedgerIdGenerator``, and Pulsar's
``PulsarLedgerIdGenerator``).
"""

import contextlib
from typing import Final

from counterpoise.bookkeeper.client.background_deletes import BackgroundDeletes
from counterpoise.bookkeeper.ledger_paths import SHORT_IDS
from counterpoise.metadata.errors import BadVersion
from counterpoise.metadata.port import MUST_NOT_EXIST, MetadataStore

_LOW_BITS: Final = 32
_HIGH: Final = "HOB-"
_ID: Final = "ID-"


class LedgerIdGenerator:
    """Generates ledger ids, unique in the cluster whose ledgers are below ``root``."""

    def __init__(self, store: MetadataStore, root: str) -> None:
        self._store = store
        self._short = f"{root}/idgen"
        self._long = f"{root}/idgen-long"
        self._deletes = BackgroundDeletes(store)
        self._long_used: bool | None = None
        """Whether ids have two parts already; None: not looked up yet."""

    async def next_id(self) -> int:
        """An id that no other client gets. Raises `MetadataError`."""
        if self._long_used is None:
            self._long_used = await self._store.exists(self._long)
        if not self._long_used:
            number = await self._next(self._short)
            if number is not None:
                return number
            await self._make_high(1)
            self._long_used = True
        while True:
            names = await self._store.children(self._long)
            high = max((_number(name, _HIGH) or 0 for name in names), default=0)
            if high:
                low = await self._next(f"{self._long}/{_HIGH}{high:010d}")
                if low is not None:
                    return high << _LOW_BITS | low
            await self._make_high(high + 1)

    async def _next(self, parent: str) -> int | None:
        """The next number of this node; None if there is none left."""
        path = await self._store.put_next(f"{parent}/{_ID}", b"", ephemeral=True)
        # The node goes with this session at the latest.
        self._deletes.start([path])
        number = _number(path.rpartition("/")[2], _ID)
        return number if number is not None and number < SHORT_IDS else None

    async def _make_high(self, high: int) -> None:
        with contextlib.suppress(BadVersion):
            # Another client may have made it first.
            path = f"{self._long}/{_HIGH}{high:010d}"
            await self._store.put(path, b"", expected_version=MUST_NOT_EXIST)


def _number(name: str, prefix: str) -> int | None:
    digits = name.removeprefix(prefix)
    return int(digits) if digits.isdecimal() and digits != name else None

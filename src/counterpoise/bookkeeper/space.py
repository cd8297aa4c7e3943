"""Sums up the space that ledgers take: by tenant, namespace, topic or kind of ledger."""

import asyncio
from dataclasses import dataclass

from counterpoise.bookkeeper.errors import UnreadableNode
from counterpoise.bookkeeper.ledger_metadata import LedgerMetadata
from counterpoise.bookkeeper.ledger_owners import LedgerOwner, ledger_owner, namespace_of
from counterpoise.bookkeeper.ledger_reading import LedgerEnd
from counterpoise.bookkeeper.ledger_rows import LedgerCluster

BY_TENANT = "tenant"
BY_NAMESPACE = "namespace"
BY_TOPIC = "topic"
BY_KIND = "kind"
_UNREADABLE = "(unreadable metadata)"


@dataclass(slots=True)
class SpaceRow:
    """The sums over the ledgers of one tenant, namespace, topic or kind, as a row."""

    name: str
    ledgers: int = 0
    open_ledgers: int = 0
    entries: int = 0
    bytes: int = 0
    """Bytes of all payloads, one copy."""
    stored_bytes: int = 0
    """Bytes of all copies."""
    unknown: int = 0
    """Ledgers whose size is not known; the sums do not contain them."""

    def add(self, ledger: LedgerMetadata, end: LedgerEnd | str) -> None:
        """Add a ledger; ``end`` is its last entry, or why that is unknown."""
        self.ledgers += 1
        self.open_ledgers += not ledger.closed
        if isinstance(end, str):
            self.unknown += 1
            return
        self.entries += end.last_stored + 1
        self.bytes += end.length
        self.stored_bytes += end.length * ledger.write_quorum


async def space_rows(cluster: LedgerCluster, by: str) -> list[SpaceRow]:
    """A row for each tenant, namespace, topic or kind, the largest first."""
    sums: dict[str, SpaceRow] = {}
    async for part in cluster.all_metadata():
        readable = [each for each in part if isinstance(each, LedgerMetadata)]
        ends = await asyncio.gather(*map(cluster.end_of, readable))
        for ledger, end in zip(readable, ends, strict=True):
            name = _name(ledger_owner(ledger.custom), by)
            sums.setdefault(name, SpaceRow(name)).add(ledger, end)
        for each in part:
            if isinstance(each, UnreadableNode):
                unreadable = sums.setdefault(_UNREADABLE, SpaceRow(_UNREADABLE))
                unreadable.ledgers += 1
                unreadable.unknown += 1
    return sorted(sums.values(), key=lambda row: (-row.stored_bytes, -row.ledgers, row.name))


def _name(owner: LedgerOwner, by: str) -> str:
    if by == BY_KIND:
        return " ".join(each for each in (owner.application, owner.kind) if each) or "(unknown)"
    if not owner.topic:
        return f"({owner.application or 'unknown'})"
    namespace = namespace_of(owner.topic)
    if by == BY_TOPIC or not namespace:
        return owner.topic
    return namespace if by == BY_NAMESPACE else namespace.partition("/")[0]

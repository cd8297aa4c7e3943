"""Converts a cursor's state between `CursorState` and the form in which Pulsar stores it."""

from typing import Final

from counterpoise.bookkeeper.cursors import CursorNode, CursorPositions
from counterpoise.storage.port import CursorState

DEDUPLICATION: Final = "pulsar.dedup"
"""The cursor of message deduplication. Its properties are each producer's last sequence id, stored
as numbers; properties of subscriptions are stored as texts."""


def state_of(node: CursorNode, positions: CursorPositions) -> CursorState:
    """A cursor as BookKeeper's layout stores it, converted to a `CursorState`."""
    properties = dict(node.texts)
    if node.name == DEDUPLICATION:
        properties |= {name: str(number) for name, number in positions.numbers}
    return CursorState(
        node.name, positions.mark_delete, positions.acknowledged, properties, positions.batches
    )


def node_of(state: CursorState, ledger: int, former: CursorNode) -> CursorNode:
    """The cursor node to store for ``state``, with ``ledger`` as the cursor's ledger.

    Fields that only Pulsar writes are copied from ``former``.
    """
    numbers = former.positions.numbers
    texts = tuple(state.properties.items())
    if state.name == DEDUPLICATION:
        numbers, texts = tuple((name, int(number)) for name, number in texts), ()
    ranges = tuple(
        (first._replace(entry_id=first.entry_id - 1), last) for first, last in state.acked
    )
    positions = CursorPositions(
        state.mark_delete, ranges, numbers=numbers, batches=tuple(state.partial)
    )
    return CursorNode(state.name, ledger, positions, texts)

"""Which record may follow which (``ServiceUnitStateDataConflictResolver``).

Every reader of the channel checks each record and ignores invalid ones. The check depends only on
the two records and on where they are stored. So brokers that read the same records in the same
order reach the same state; of two records that follow the same one, all ignore the later.
"""

import enum
from collections.abc import Callable, Mapping
from typing import Final

from counterpoise.ownership.channel.data import (
    INT64_MAX,
    INT64_MIN,
    ServiceUnitState,
    ServiceUnitStateData,
    blank,
    state_of,
)


class Storage(enum.Enum):
    """Where the records are stored (``loadManagerServiceUnitStateTableViewClassName``)."""

    SYSTEM_TOPIC = "ServiceUnitStateTableViewImpl"
    METADATA_STORE = "ServiceUnitStateMetadataStoreTableViewImpl"


_S = ServiceUnitState
_FOLLOWS: Final[Mapping[ServiceUnitState, frozenset[ServiceUnitState]]] = {
    _S.OWNED: frozenset({_S.SPLITTING, _S.RELEASING}),
    _S.ASSIGNING: frozenset({_S.OWNED}),
    _S.RELEASING: frozenset({_S.ASSIGNING, _S.FREE}),
    _S.SPLITTING: frozenset({_S.DELETED}),
    _S.DELETED: frozenset({_S.INIT}),
}
FOLLOWS: Final[Mapping[Storage, Mapping[ServiceUnitState, frozenset[ServiceUnitState]]]] = {
    Storage.SYSTEM_TOPIC: {
        _S.INIT: frozenset(ServiceUnitState) - {_S.INIT},
        _S.FREE: frozenset({_S.ASSIGNING, _S.INIT}),
        **_FOLLOWS,
    },
    Storage.METADATA_STORE: {
        _S.INIT: frozenset({_S.ASSIGNING}),
        _S.FREE: frozenset({_S.ASSIGNING}),
        **_FOLLOWS,
    },
}
"""From a state, the states that may come next. On the topic any state may come first, because a
bundle's first records may have been compacted away."""


def refusal(
    before: ServiceUnitStateData | None, after: ServiceUnitStateData | None, storage: Storage
) -> str | None:
    """Why record ``after`` may not follow ``before``; None if it may. ``after`` None deletes it."""
    if after is None:
        return None
    if before is None:
        if storage is Storage.METADATA_STORE:
            return None if after.version == 1 else "the first record must have version 1"
    elif not _wraps(before.version, after.version):
        if before.version >= after.version:
            return f"version {after.version} is not above {before.version}"
        if after.version > before.version + 1:
            # On the topic the records between were compacted away; in the store they got lost.
            lost = storage is Storage.METADATA_STORE
            return f"version {after.version} does not follow {before.version}" if lost else None
    if after.force:
        return None
    state = state_of(before)
    if after.state not in FOLLOWS[storage][state]:
        return f"{after.state.value} may not follow {state.value}"
    check = _CHECKS.get((state, after.state))
    if check is not None and before is not None and not check(before, after):
        return f"{after.state.value} names other brokers than {state.value} allows"
    return None


def _wraps(before: int, after: int) -> bool:
    return before == INT64_MAX and after == INT64_MIN


def _same_brokers(before: ServiceUnitStateData, after: ServiceUnitStateData) -> bool:
    return (before.destination, before.source) == (after.destination, after.source)


def _splits_own(before: ServiceUnitStateData, after: ServiceUnitStateData) -> bool:
    return blank(after.destination) and before.destination == after.source


def _releases_own(before: ServiceUnitStateData, after: ServiceUnitStateData) -> bool:
    return (
        not blank(after.source)
        and before.destination == after.source
        and before.destination != after.destination
    )


def _hands_over(before: ServiceUnitStateData, after: ServiceUnitStateData) -> bool:
    return not blank(after.destination) and _same_brokers(before, after)


def _takes_free(before: ServiceUnitStateData, after: ServiceUnitStateData) -> bool:
    del before
    return blank(after.source) and not blank(after.destination)


_CHECKS: Final[
    Mapping[
        tuple[ServiceUnitState, ServiceUnitState],
        Callable[[ServiceUnitStateData, ServiceUnitStateData], bool],
    ]
] = {
    (_S.OWNED, _S.SPLITTING): _splits_own,
    (_S.OWNED, _S.RELEASING): _releases_own,
    (_S.ASSIGNING, _S.OWNED): _same_brokers,
    (_S.RELEASING, _S.FREE): _same_brokers,
    (_S.RELEASING, _S.ASSIGNING): _hands_over,
    (_S.SPLITTING, _S.DELETED): _same_brokers,
    (_S.FREE, _S.ASSIGNING): _takes_free,
}

"""The two metadata nodes of a bundle: its ownership lock, and the announcement of a hand-over."""

from typing import Final

from counterpoise.ownership import records

LOCKS: Final = "/namespace"
"""The path below which Pulsar keeps the locks."""
HAND_OVERS: Final = "/counterpoise/hand-overs"


def lock_of(bundle: str) -> str:
    """The path of a bundle's ownership lock."""
    return f"{LOCKS}/{bundle}"


def hand_over_of(bundle: str) -> str:
    """The path of the node that announces a bundle's transfer to another broker."""
    return f"{HAND_OVERS}/{bundle}"


def bundle_of(path: str) -> str | None:
    """The bundle of a lock or hand-over node, by its path; None for any other path."""
    for parent in (LOCKS, HAND_OVERS):
        if path.startswith(parent + "/"):
            name = path[len(parent) + 1 :]
            return name if name.count("/") == 2 else None
    return None


def read_lock(value: bytes | None) -> records.NamespaceEphemeralData | None:
    """The owner that a lock's value names; None without a lock, empty addresses if malformed."""
    if value is None:
        return None
    try:
        return records.NamespaceEphemeralData.from_json(value)
    except records.InvalidRecord:
        return records.NamespaceEphemeralData("", "")


def read_hand_over(value: bytes | None) -> records.HandOver | None:
    """A hand-over's source and destination, from its node's value; None without a valid record."""
    return records.record_or_none(records.HandOver.from_json, value)

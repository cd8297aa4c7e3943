"""Histories of one bundle's records on the state channel, sensible and senseless."""

from random import Random
from typing import Any

_STATES = ("Init", "Free", "Owned", "Assigning", "Releasing", "Splitting", "Deleted")
_NEXT = {
    None: ("Assigning", "Owned"),
    "Init": ("Assigning",),
    "Free": ("Assigning",),
    "Owned": ("Splitting", "Releasing"),
    "Assigning": ("Owned",),
    "Releasing": ("Assigning", "Free"),
    "Splitting": ("Deleted",),
    "Deleted": ("Init",),
}
_BROKERS = ("a:8080", "b:8080", "c:8080", None, None, "", " ")
_LAST = (1 << 63) - 1


def channel_case(rng: Random) -> dict[str, Any]:
    """A channel's kind and records one after another; None is a tombstone."""
    lines: list[dict[str, Any] | None] = []
    version = rng.choice((0, 0, 0, 7, _LAST - 2))
    last: dict[str, Any] | None = None
    for _ in range(rng.randrange(1, 24)):
        if rng.random() < 0.06:
            lines.append(None)
            last, version = None, 0
            continue
        record = _record(rng, last, version)
        version = record["versionId"]
        lines.append(record)
        last = record
    return {
        "op": "channel",
        "storage": rng.choice(("SystemTopic", "MetadataStore")),
        "lines": lines,
    }


def _record(rng: Random, last: dict[str, Any] | None, version: int) -> dict[str, Any]:
    state = rng.choice(_NEXT[last["state"] if last else None])
    if rng.random() < 0.25:
        state = rng.choice(_STATES)
    destination, source = rng.choice(_BROKERS), rng.choice(_BROKERS)
    if last is not None and rng.random() < 0.7:
        destination, source = last.get("dstBroker"), last.get("sourceBroker")
        if state in ("Splitting", "Releasing"):
            destination, source = rng.choice((None, "b:8080", "")), destination
    if state != "Free" and not (destination or "").strip() and not (source or "").strip():
        destination = "a:8080"
    step = rng.choice((1, 1, 1, 1, 1, 1, 0, -1, 2, 5))
    after = (version + step + _LAST + 1) % (1 << 64) - _LAST - 1
    return {
        "state": state,
        "dstBroker": destination,
        "sourceBroker": source,
        "splitServiceUnitToDestBroker": _children(rng) if state == "Splitting" else None,
        "force": rng.random() < 0.08,
        "timestamp": rng.randrange(1 << 41),
        "versionId": after,
    }


def _children(rng: Random) -> dict[str, str | None] | None:
    if rng.random() < 0.3:
        return None
    return {"0x00000000_0x7fffffff": rng.choice((None, "b:8080")), "0x7fffffff_0xffffffff": None}

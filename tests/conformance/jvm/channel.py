"""What Pulsar makes of the records of a bundle on the state channel."""

from typing import Any

from jpype import JClass

from tests.conformance.jvm.java import LOADBALANCE, Java, Json

_CHANNEL = f"{LOADBALANCE}.extensions.channel"


class Channel:
    """``ServiceUnitStateDataConflictResolver``, record after record."""

    def __init__(self, java: Java) -> None:
        self._java = java
        self._resolver = JClass(f"{_CHANNEL}.ServiceUnitStateDataConflictResolver")
        self._null = JClass("java.lang.NullPointerException")
        self._storage = JClass(f"{_CHANNEL}.ServiceUnitState$StorageType")

    def answer(self, case: Json) -> Json:
        resolver = self._resolver()
        resolver.setStorageType(self._storage.valueOf(self._java.string(case["storage"])))
        now: Any = None
        answers = []
        for line in case["lines"]:
            after = None
            if line is not None:
                after = self._java.read(line, f"{_CHANNEL}.ServiceUnitStateData")
            try:
                counts = not resolver.shouldKeepLeft(now, after)
            except self._null:
                # An owned bundle without an owner: Java's reader fails, ours refuses what follows.
                counts = False
            now = after if counts else now
            answers.append(
                {
                    "counts": counts,
                    "record": None if now is None else _present(self._java.write(now)),
                    "next": 1 if now is None else _following(int(now.versionId())),
                }
            )
        return answers


def _present(record: Json) -> Json:
    """A record's fields that say anything: an absent one and a null one are the same."""
    return {name: value for name, value in record.items() if value is not None}


def _following(version: int) -> int:
    """The version that Pulsar's channel writes next: its longs wrap."""
    return -(1 << 63) if version == (1 << 63) - 1 else version + 1

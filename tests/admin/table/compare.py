"""Two answers of ``pulsar-admin``, field by field."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

TIMES = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,]?\d*(Z|[+-]\d\d:?\d\d)?")

FREE = {
    "when": (
        "connectedSince lastPublishTimestamp firstMessagePublishTimestamp lastConsumedTimestamp "
        "lastAckedTimestamp lastConsumedFlowTimestamp lastMarkDeleteAdvancedTimestamp "
        "lastExpireTimestamp lastConsumedTime lastActive lastUpdate creationTimestamp timestamp "
        "publish-time topicCreationTimeStamp lastLedgerCreatedTimestamp createTime "
        "ownerChangeTimestamp lastLedgerSwitchTimestamp lastUpdated startTimestamp "
        "lastPublishTimeStamp ledgerCreatedTimestamp lastStatsTimestamp"
    ),
    "how fast": (
        "msgRateIn msgRateOut msgThroughputIn msgThroughputOut averageMsgSize chunkedMessageRate "
        "messageAckRate msgRateRedeliver msgRateExpired bytesInRate bytesOutRate "
        "msgInRate msgOutRate"
    ),
    "where it is stored": (
        "ledgerId currentLedgerSize lastConfirmedEntry markDeletePosition readPosition "
        "cursorLedger waitingReadOp cursorLedgerLastEntry"
    ),
    "whose": "address clientVersion ownerBroker brokerId serviceUrl webServiceUrl",
    "how many bytes": (
        "size storageSize backlogSize bytesInCounter bytesOutCounter totalSize batch-size "
        "averageEntrySize msgSize"
    ),
}
"""Members whose value no two clusters have in common: only their kind counts."""
_FREE = {name for names in FREE.values() for name in names.split()}


def read(text: str) -> Any:
    """What a command printed: JSON, or the text."""
    try:
        return json.loads(text)
    except ValueError:
        return TIMES.sub("TIME", text)


def differences(theirs: Any, ours: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Each place where two answers differ, and how."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for name in sorted(theirs.keys() | ours.keys()):
            below = f"{path}.{name}".lstrip(".")
            if name not in ours:
                yield below, f"missing here; Pulsar says {_short(theirs[name])}"
            elif name not in theirs:
                yield below, f"not Pulsar's; here {_short(ours[name])}"
            elif name in _FREE:
                if _kind(theirs[name]) != _kind(ours[name]):
                    yield below, f"{_short(theirs[name])} there, {_short(ours[name])} here"
            else:
                yield from differences(theirs[name], ours[name], below)
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for number, (one, other) in enumerate(zip(theirs, ours, strict=True)):
            yield from differences(one, other, f"{path}.{number}".lstrip("."))
    elif theirs != ours or _kind(theirs) != _kind(ours):
        yield path or "text", f"{_short(theirs)} there, {_short(ours)} here"


def unexplained(theirs: Any, ours: Any, differs: Mapping[str, str]) -> list[str]:
    """Sentences about what differs without a reason, and about reasons without a difference."""
    left = set(differs)
    told = []
    for path, how in differences(theirs, ours):
        known = [each for each in differs if _matches(each, path)]
        left -= set(known)
        if not known:
            told.append(f"{path}: {how}")
    return told + [f"{each}: is the same by now" for each in sorted(left)]


def _matches(pattern: str, path: str) -> bool:
    return re.fullmatch(re.escape(pattern).replace(r"\*", "[^.]*") + r"(\..*)?", path) is not None


def _kind(value: Any) -> str:
    return "number" if type(value) in (int, float) else type(value).__name__


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 300 else f"{text[:300]}…"

"""Two answers of ``pulsar-admin``, field by field."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Answer = Mapping[str, Any]
"""``row``, whether it ``worked``, and the ``answer``."""

SCRUBBED = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,]?\d*(Z|[+-]\d\d:?\d\d)?"), "TIME"),
    (re.compile(r"(Publish time: )\d+"), r"\1TIME"),
    (re.compile(r"(Message ID: )\d+:"), r"\1LEDGER:"),
    (re.compile(r"\b\d+:(-?\d+):-1\b"), r"LEDGER:\1:-1"),
    (re.compile(r"\b(openTimestamp|recover\w+Time)=\d+"), r"\1=TIME"),
    (re.compile(r"Position=\d+:"), "Position=LEDGER:"),
    (re.compile(r"^counterpoise[A-Z]\w*\n", re.MULTILINE), ""),
)
"""What differs from one cluster to the next within a text, and what stands for it.

The last are settings of our own strategy, which no Pulsar lists.
"""

FREE = {
    "when": (
        "connectedSince lastPublishTimestamp firstMessagePublishTimestamp lastConsumedTimestamp "
        "lastAckedTimestamp lastConsumedFlowTimestamp lastMarkDeleteAdvancedTimestamp "
        "lastExpireTimestamp lastConsumedTime lastActive lastUpdate creationTimestamp timestamp "
        "publish-time topicCreationTimeStamp lastLedgerCreatedTimestamp createTime "
        "creationDate modificationDate earliestMsgPublishTimeInBacklog "
        "earliestMsgPublishTimeInBacklogs ownerChangeTimestamp lastLedgerSwitchTimestamp "
        "lastUpdated startTimestamp openTimestamp recoverStartTime recoverEndTime "
        "lastSnapshotTimestamps "
        "lastPublishTimeStamp ledgerCreatedTimestamp lastStatsTimestamp"
    ),
    "how fast": (
        "msgRateIn msgRateOut msgThroughputIn msgThroughputOut averageMsgSize chunkedMessageRate "
        "messageAckRate msgRateRedeliver msgRateExpired bytesInRate bytesOutRate "
        "msgInRate msgOutRate"
    ),
    "where it is stored": (
        "ledgerId currentLedgerSize lastConfirmedEntry markDeletePosition readPosition "
        "cursorLedger waitingReadOp cursorLedgerLastEntry cursorsLedgerId firstMessageId "
        "lastMessageId numberOfEntriesSinceFirstNotAckedMessage underReplicated"
    ),
    "a future that the tool prints by mistake": (
        "completedExceptionally numberOfDependents done cancelled"
    ),
    "how the host is": "usage limit maxResourceUsage",
    "where the metadata is": (
        "metadataStoreUrl configurationMetadataStoreUrl zookeeperServers configurationStoreServers"
    ),
    "whose": "address clientVersion ownerBroker brokerId serviceUrl webServiceUrl",
    "how many bytes": (
        "size storageSize backlogSize bytesInCounter bytesOutCounter totalSize batch-size "
        "averageEntrySize msgSize"
    ),
}
"""Members whose value no two clusters have in common: only their kind counts."""
IN_A_LEDGER = ("maxReadPosition", "startPosition", "cumulativeAckPosition")
"""Positions that are alike up to the number of the ledger."""
_FREE = {name for names in FREE.values() for name in names.split()}


_SET = re.compile(r"\[([\w, ]+)\]")


def read(text: str) -> Any:
    """What a command printed: JSON, or the text, its lines in alphabetical order."""
    try:
        return json.loads(text)
    except ValueError:
        for pattern, instead in SCRUBBED:
            text = pattern.sub(instead, text)
        return "\n".join(sorted(_SET.sub(_in_order, text).splitlines()))


def _in_order(listed: re.Match[str]) -> str:
    """A set that Java printed: in the order of the day."""
    return f"[{', '.join(sorted(listed[1].split(', ')))}]"


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
            elif name in IN_A_LEDGER:
                entries = (str(each[name]).partition(":")[2] for each in (theirs, ours))
                yield from differences(*entries, below)
            else:
                yield from differences(theirs[name], ours[name], below)
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        if all(isinstance(each, str) for each in theirs + ours):
            # Sets in Java, of which each run has its own order.
            theirs, ours = sorted(theirs), sorted(ours)
        for number, (one, other) in enumerate(zip(theirs, ours, strict=True)):
            yield from differences(one, other, f"{path}.{number}".lstrip("."))
    elif theirs != ours or _kind(theirs) != _kind(ours):
        yield path or "text", f"{_short(theirs)} there, {_short(ours)} here"


Keyed = dict[tuple[str, int], Answer]
"""Answers by their line, and which time it was asked."""


def keyed(answers: Iterable[Answer]) -> Keyed:
    """Answers, to be found whatever the order of the session."""
    times: Counter[str] = Counter()
    found = {}
    for each in answers:
        times[each["row"]] += 1
        found[each["row"], times[each["row"]]] = each
    return found


def unlike(theirs: Answer, ours: Answer) -> Iterator[tuple[str, str]]:
    """Each place where two answers to a command differ, and how."""
    if theirs["worked"] != ours["worked"]:
        yield "worked", f"{theirs['worked']} there, {ours['worked']} here: {_short(ours['answer'])}"
    yield from differences(theirs["answer"], ours["answer"])


def unexplained(
    theirs: Keyed, ours: Keyed, known: Mapping[str, Mapping[str, str]]
) -> tuple[list[str], list[str]]:
    """Sentences about what differs without a reason, and about reasons without a difference.

    What Pulsar was never asked is not compared; the page says so of its command.
    """
    asked = {line for line, _ in theirs}
    left = {(line, path) for line in known if line in asked for path in known[line]}
    differences = []
    for key, answer in ours.items():
        line, time = key
        for path, how in unlike(theirs[key], answer) if key in theirs else ():
            reasons = {(line, each) for each in known.get(line, ()) if _matches(each, path)}
            left -= reasons
            if not reasons:
                differences.append(f"{line} ({time}): {path}: {how}")
    return differences, [f"{line}: {path} is the same by now" for line, path in sorted(left)]


def _matches(pattern: str, path: str) -> bool:
    return re.fullmatch(re.escape(pattern).replace(r"\*", "[^.]*") + r"(\..*)?", path) is not None


def _kind(value: Any) -> str:
    return "number" if type(value) in (int, float) else type(value).__name__


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 300 else f"{text[:300]}…"

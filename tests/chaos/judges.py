"""What must hold of every history. A judge returns its complaints, none when it is content."""

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from tests.chaos.history import History, Message

WRITABLE_WITHIN_S: Final = 10.0
KEEP_ALIVE_S: Final = 30.0
"""The official Python client's: it asks so often, and leaves when a question went unanswered."""
ATTACHED_WITHIN_S: Final = 2 * KEEP_ALIVE_S + WRITABLE_WITHIN_S
SHOWN: Final = 5
"""Complaints of one kind about one topic that are worth reading."""


def nothing_acknowledged_is_lost(history: History) -> Iterator[str]:
    """Whatever had a receipt is in the log, and reached the subscription."""
    for name, topic in history.topics.items():
        for where, found in (("stored", topic.stored), ("delivered", topic.delivered)):
            lost = sorted(set(topic.acknowledged) - set(found))
            if lost:
                yield f"{name}: {len(lost)} acknowledged and not {where}: {lost[:SHOWN]}"


def order_is_kept(history: History) -> Iterator[str]:
    """A producer's messages are new in the order in which it sent them.

    A client that lost its receipts sends what was pending once more, from the oldest on; so the
    log may step back, but never forward over a message. A consumer may receive again what it had;
    what it sees for the first time comes in order, key by key.
    """
    for name, topic in history.topics.items():
        yield from (f"{name}: {each}" for each in _gaps(topic.stored))
        yield from (f"{name}: {each}" for each in _out_of_order(topic.delivered))


def _gaps(stored: Iterable[Message]) -> Iterator[str]:
    last: dict[str, int] = {}
    for message in stored:
        before = last.get(message.producer, -1)
        if message.number > before + 1 and not message.producer.startswith(PROBE):
            yield f"{message.producer}: {message.number} is stored after {before}"
        last[message.producer] = message.number


def _out_of_order(delivered: Iterable[Message]) -> Iterator[str]:
    newest: dict[tuple[str, str], int] = {}
    seen: set[Message] = set()
    for message in delivered:
        if message in seen:
            continue
        seen.add(message)
        key = message.producer, message.key
        if message.number < newest.get(key, -1):
            yield f"{message} is delivered for the first time after {newest[key]}"
        newest[key] = max(message.number, newest.get(key, -1))


def every_topic_is_soon_writable(history: History) -> Iterator[str]:
    """A new client has a receipt from every topic soon after each fault."""
    for fault in history.faults:
        late = {
            topic: seconds
            for topic, seconds in fault.writable_s.items()
            if seconds is None or seconds > WRITABLE_WITHIN_S
        }
        if late:
            yield f"{fault.kind} ({fault.detail}): writable after {late}"


def attached_clients_come_back(history: History) -> Iterator[str]:
    """A client of a frozen broker publishes elsewhere soon after its own keep-alive gave it up."""
    for fault in history.faults:
        late = {topic: s for topic, s in fault.silent_s.items() if s > ATTACHED_WITHIN_S}
        if late:
            yield f"{fault.kind} ({fault.detail}): attached clients waited {late}"


def every_fault_was_brought_about(history: History) -> Iterator[str]:
    """The admin API did what it was asked for, or said why it cannot just now."""
    for fault in history.faults:
        if fault.failed:
            yield f"{fault.kind} ({fault.detail}): {fault.failed}"


def logs_have_no_surprise(history: History) -> Iterator[str]:
    """No broker logged an unexpected error."""
    for name, text in history.logs.items():
        for surprise in ("Traceback (most recent call last)", " ERROR "):
            head, found, rest = text.partition(surprise)
            if found:
                yield f"{name}: {head[-30:]}{found}{rest[:2500]}"


def every_broker_is_back(history: History) -> Iterator[str]:
    """A broker that runs is known to the others."""
    yield from (f"{it} is not registered" for it in history.brokers if it not in history.active)


def bundles_rest(history: History) -> Iterator[str]:
    """Each bundle has one owner, which is alive and agrees, and none is changing hands."""
    for bundle in history.bundles:
        if bundle.changing:
            yield f"{bundle.name} is still changing hands"
        elif bundle.owner not in history.active:
            yield f"{bundle.name} is owned by {bundle.owner}, which is not there"
        elif list(bundle.held_by) != [bundle.owner]:
            yield f"{bundle.name} is owned by {bundle.owner}, and held by {bundle.held_by}"


def nothing_is_left(history: History) -> Iterator[str]:
    """No process outlives the cluster."""
    yield from history.leftovers


PROBE: Final = "probe-"
"""How the names of producers begin whose messages are sent after a fault, each by itself."""
Judge = Callable[[History], Iterator[str]]
JUDGES: Final[Sequence[Judge]] = (
    nothing_acknowledged_is_lost,
    order_is_kept,
    every_topic_is_soon_writable,
    attached_clients_come_back,
    every_fault_was_brought_about,
    logs_have_no_surprise,
    every_broker_is_back,
    bundles_rest,
    nothing_is_left,
)


def complaints(history: History) -> list[str]:
    """What all judges have to say."""
    return [f"{judge.__name__}: {each}" for judge in JUDGES for each in judge(history)]


def figures(history: History) -> str:
    """Faults, seconds to writable by kind, messages and duplicates, as a table."""
    by_kind: dict[str, list[float]] = {}
    for fault in history.faults:
        if not fault.writable_s:
            continue
        seconds = [each for each in fault.writable_s.values() if each is not None]
        by_kind.setdefault(fault.kind, []).extend(seconds)
    lines = [f"{'fault':34}{'times':>6}{'median s':>10}{'worst s':>9}"]
    for kind, seconds in sorted(by_kind.items()):
        times = sum(fault.kind == kind for fault in history.faults)
        median, worst = (statistics.median(seconds), max(seconds)) if seconds else (0.0, 0.0)
        lines.append(f"{kind:34}{times:6}{median:10.2f}{worst:9.2f}")
    topics = history.topics.values()
    lines.append(
        f"{len(history.faults)} faults, {sum(len(it.acknowledged) for it in topics)} messages "
        f"acknowledged, {sum(_repeats(it.stored) for it in topics)} stored again, "
        f"{sum(_repeats(it.delivered) for it in topics)} delivered again"
    )
    return "\n".join(lines)


def _repeats(messages: Sequence[Message]) -> int:
    return len(messages) - len(set(messages))

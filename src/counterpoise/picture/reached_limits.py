"""Describes the publish limits at which producers wait, in sentences."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from counterpoise.names.units import bytes_text, counted, lasted, messages_text

LEVELS: Mapping[str, str] = {
    "TopicPublishRate": "publish limit of the topic",
    "ResourceGroupPublishRate": "publish limit of the resource group",
    "BrokerPublishRate": "publish limit of the broker",
}
"""What is shown for the levels, such as a topic, that a limit of Counterpoise's brokers has."""


@dataclass(frozen=True, slots=True)
class ReachedLimit:
    """One publish limit at which producers wait."""

    broker: str
    subject: str
    """The topic, the resource group or the broker that is limited."""
    why: str
    waiting: tuple[str, ...] = ()
    """A sentence for each producer that waits."""
    topics: frozenset[str] = frozenset()


def of_limits(broker: str, limits: Iterable[Mapping[str, Any]]) -> tuple[ReachedLimit, ...]:
    """The limits at which producers wait, from `broker-stats/throttling` of Counterpoise's own
    brokers.
    """
    return tuple(
        ReachedLimit(
            broker,
            str(limit["subject"]),
            f"{LEVELS.get(limit['level'], limit['level'])}: {_allowed(limit)}",
            tuple(_waits(each) for each in limit["producers"]),
            frozenset(str(each["topic"]) for each in limit["producers"]),
        )
        for limit in limits
        if limit["producers"]
    )


def of_metrics(
    broker: str, counts: Mapping[str, float], before: Mapping[str, float]
) -> tuple[ReachedLimit, ...]:
    """The limits that Apache's counters of throttled publishing show since the last poll."""
    return tuple(
        ReachedLimit(
            broker,
            topic,
            f"its publish limit was reached {counted(round(count - before[topic]), 'time')} "
            "since the last look; the whole connection is not read meanwhile",
            topics=frozenset((topic,)),
        )
        for topic, count in sorted(counts.items())
        if topic in before and count > before[topic]
    )


def _allowed(limit: Mapping[str, Any]) -> str:
    parts = [messages_text(float(limit["messages"]))] if limit["messages"] else []
    parts += [bytes_text(float(limit["bytes"]))] if limit["bytes"] else []
    allowed = " and ".join(parts) or "nothing at all"
    return f"{allowed} may pass, and more is wanted"


def _waits(producer: Mapping[str, Any]) -> str:
    throttled = counted(int(producer["held_entries"]), "entry", "entries")
    return (
        f"producer {producer['name']} ({producer['address']}) on {producer['topic']}: "
        f"{throttled} throttled for {lasted(float(producer['seconds']))}"
    )

"""Which fault comes when: a plan that follows from a seed."""

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random


class Kind(enum.Enum):
    """What may happen."""

    KILL = "kill -9"
    KILL_LEADER = "kill -9 of the leader"
    FREEZE = "freeze"
    FREEZE_LEADER = "freeze of the leader"
    FREEZE_LONG = "freeze beyond the clients' keep-alive"
    ZOOKEEPER = "ZooKeeper away"
    UNLOAD = "unload"
    TRANSFER = "transfer"
    SPLIT = "split"
    DRAIN = "drain"
    KILL_SUCCESSOR = "transfer whose successor is killed"
    KILL_SOURCE = "transfer whose source is killed"
    KILL_BOOKIE = "kill -9 of a bookie"
    FREEZE_BOOKIE = "freeze of a bookie"


OF_BOOKIES = (Kind.KILL_BOOKIE, Kind.FREEZE_BOOKIE)
"""For clusters whose messages are on bookies."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault; the numbers choose among whatever is there when it comes."""

    kind: Kind
    broker: int
    """Which broker, counted among those that are up, or which bookie."""
    topic: int
    """Whose bundle is moved or split."""
    lasts_s: float
    """How long a broker is frozen beyond its session, or ZooKeeper or a killed broker away."""


def plan(seed: int, kinds: tuple[Kind, ...] = tuple(Kind)) -> Iterator[Fault]:
    """Faults without end: every kind once in a random order, then every kind again."""
    random = Random(seed)
    while True:
        for kind in random.sample(kinds, len(kinds)):
            yield Fault(
                kind, random.randrange(1 << 16), random.randrange(1 << 16), random.uniform(0.5, 8.0)
            )

"""Decisions of a rolling restart: the order of brokers, and the next stage of each.

Each broker is drained before it is restarted. Its bundles go to brokers that have been restarted
already, if these can carry them: the second broker's go to the first, which is empty, and so on. So
a bundle moves once, or twice if it was on the first broker; the last broker is refilled from the
others.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import Final

MOVES_MOST: Final = 2
"""How often a rolling restart moves the same bundle at most."""


class RestartStage(StrEnum):
    """The stage at which a rolling restart is with one broker."""

    WAITING = "waiting"
    """The broker has not been touched yet."""
    DRAINING = "draining"
    """The broker's bundles are being moved away."""
    RESTARTING = "restarting"
    """The broker is empty, and stopped or about to be."""
    RESTARTED = "restarted"
    """The broker runs again with the wanted version, and serves lookups."""


def restart_order(
    brokers: Collection[str], domains: Mapping[str, str], leader: str
) -> tuple[str, ...]:
    """The order of a rolling restart: one failure domain after the other, the leader last.

    Thus the leader changes only once. `domains` is the failure domain by broker; brokers without
    one form a domain of their own.
    """
    last = domains.get(leader, "")
    return tuple(
        sorted(
            brokers,
            key=lambda each: (
                leader in brokers and domains.get(each, "") == last,
                domains.get(each, ""),
                each == leader,
                each,
            ),
        )
    )


def resumed_stage(stage: RestartStage, *, has_restarted: bool, answers: bool) -> RestartStage:
    """The stage at which an interrupted rolling restart continues with a broker.

    A broker that was drained, responds and has not restarted is drained again: it may have acquired
    bundles since.
    """
    if stage in (RestartStage.DRAINING, RestartStage.RESTARTING):
        if has_restarted or not answers:
            return RestartStage.RESTARTING
        return RestartStage.DRAINING
    return stage


def moved_enough(bundles_moved: Iterable[str]) -> frozenset[str]:
    """The bundles that a rolling restart may not move again, given each move's bundle so far."""
    counts = Counter(bundles_moved)
    return frozenset(bundle for bundle, count in counts.items() if count >= MOVES_MOST)

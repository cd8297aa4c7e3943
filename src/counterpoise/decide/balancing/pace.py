"""Limits how many bundles move at once, by how the moves before them ended.

A cluster that fails to carry out moves gets fewer at once, and none if most of them fail, since
each failed move may have left clients waiting. It gets fewer, too, if moves take far longer at the
same time than alone: clients feel how long each bundle is unavailable, not when the last bundle has
moved. The first move is therefore made alone. Additive increase, multiplicative decrease, as TCP
does (Chiu and Jain 1989).
"""

import math
from dataclasses import dataclass, replace
from typing import Final

LOOKED_BACK: Final = 5
"""How many of the last moves are remembered as failed or not."""
FAILED_MOST: Final = 3
"""If this many of the last `LOOKED_BACK` moves failed, a balancer begins no further move."""
SLOW_TIMES: Final = 3.0
"""A move is slow if it took at least this many times as long as the last move made alone."""
SLOW_S: Final = 0.5
"""A move that took fewer seconds than this is never slow."""


@dataclass(frozen=True, slots=True)
class MovePace:
    """How many bundles of a round may move at once; rises and falls with the outcomes of moves."""

    most: int
    """How many bundles may move at once while no move fails."""
    at_once: int
    """How many bundles may move at once now; at least 1."""
    failed_most: int = 0
    """If this many of the last moves failed, no further one may begin; 0: no limit."""
    failed: tuple[bool, ...] = ()
    """Whether each of the last moves failed, the oldest first."""
    alone_s: float = math.inf
    """How many seconds the last move took that was made alone; infinite before one."""
    stopped: str = ""
    """Why no further move may begin, regardless of the last moves' outcomes; empty if one may."""

    @staticmethod
    def of(most: int, failed_most: int = FAILED_MOST) -> "MovePace":
        """The pace before the first move: ``most`` at a time.

        No further move begins when ``failed_most`` of the last moves failed; 0 turns that off.
        """
        return MovePace(most, 1, failed_most)

    def after(self, *, failed: bool, seconds: float = 0.0) -> "MovePace":
        """The pace after one more move has ended, successfully or not, in so many seconds."""
        was_alone = self.at_once == 1
        was_slow = not was_alone and seconds >= max(SLOW_S, SLOW_TIMES * self.alone_s)
        fewer, more = max(1, self.at_once // 2), min(self.most, self.at_once + 1)
        return replace(
            self,
            at_once=fewer if failed or was_slow else more,
            failed=(*self.failed, failed)[-LOOKED_BACK:],
            alone_s=seconds if was_alone else self.alone_s,
        )

    @property
    def stop(self) -> str:
        """The reason why no further move may begin; empty if one may."""
        if self.stopped or not self.failed_most or sum(self.failed) < self.failed_most:
            return self.stopped
        return (
            f"{sum(self.failed)} of the last {len(self.failed)} moves failed: no further one is "
            "begun until the next round"
        )

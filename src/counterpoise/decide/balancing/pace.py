"""How many bundles may be on their way at once, by what became of those before them.

A cluster that fails at moves is given fewer at once, and none any more when most of them fail: each
failed move may have left clients waiting. Additive increase, multiplicative decrease, as TCP does
(Chiu and Jain 1989).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

LOOKED_BACK: Final = 5
"""So many moves that ended last are looked at."""
FAILED_MOST: Final = 3
"""When so many of them failed, a balancer begins no further one."""


@dataclass(frozen=True, slots=True)
class MovePace:
    """The pace of one round's moves."""

    most: int
    """How many may be under way when none fails."""
    at_once: int
    """How many may be under way now; at least 1."""
    failed_most: int = 0
    """When so many of the last ones failed, no further one may begin; 0: they always may."""
    failed: tuple[bool, ...] = ()
    """Of the moves that ended last, the oldest first: whether each failed."""
    stopped: str = ""
    """Why no further one may begin, whatever became of the last ones."""

    @staticmethod
    def of(most: int, failed_most: int = FAILED_MOST) -> MovePace:
        """The pace before the first move."""
        return MovePace(most, most, failed_most)

    def after(self, *, failed: bool) -> MovePace:
        """The pace when one more move has ended."""
        at_once = max(1, self.at_once // 2) if failed else min(self.most, self.at_once + 1)
        return replace(self, at_once=at_once, failed=(*self.failed, failed)[-LOOKED_BACK:])

    @property
    def stop(self) -> str:
        """Why no further move may begin; empty where one may."""
        if self.stopped or not self.failed_most or sum(self.failed) < self.failed_most:
            return self.stopped
        return (
            f"{sum(self.failed)} of the last {len(self.failed)} moves failed: no further one is "
            "begun until the next round"
        )

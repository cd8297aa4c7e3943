"""The times of a range query: evenly spaced, first and last included."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from counterpoise.load.view import Integers

DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class TimeGrid:
    """`count` times, `step_ms` apart, from `first_ms` on; all in milliseconds since 1970."""

    first_ms: int
    step_ms: int
    count: int

    @property
    def last_ms(self) -> int:
        """The last time, in milliseconds since 1970."""
        return self.first_ms + (self.count - 1) * self.step_ms

    @property
    def moments(self) -> Integers:
        """All times of the grid, in milliseconds."""
        return self.first_ms + np.arange(self.count, dtype=np.int64) * self.step_ms

    def at_most(self, count: int) -> "TimeGrid":
        """The grid cut after its first `count` times; it keeps at least one."""
        return replace(self, count=max(1, min(self.count, count)))

    def within_day(self) -> "TimeGrid":
        """The beginning of the grid, up to the end of its first UTC day."""
        rest = DAY_MS - 1 - self.first_ms % DAY_MS
        return self.at_most(rest // self.step_ms + 1)

    def behind(self, part: "TimeGrid") -> "TimeGrid | None":
        """The times after `part`, which is the beginning of this grid; None if there are none."""
        left = self.count - part.count
        return replace(self, first_ms=part.last_ms + self.step_ms, count=left) if left else None

    def every(self, nth: int) -> "TimeGrid":
        """A coarser grid: every nth time, starting with the first."""
        return TimeGrid(self.first_ms, self.step_ms * nth, -(-self.count // nth))

    def place(self, moment_ms: float) -> int:
        """The index of a time; -1 if it is not in the grid."""
        number, rest = divmod(round(moment_ms) - self.first_ms, self.step_ms)
        return number if rest == 0 and 0 <= number < self.count else -1

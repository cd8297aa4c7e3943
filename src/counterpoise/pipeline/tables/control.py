"""An operator's order to the balancer of a history: go on, pause, or stop.

It is a file of the history (`HISTORY/control`), which the balancer reads before each move, on
whatever machine it runs. A pause stays in force when the balancer is restarted. A stop ends only
the balancer that runs at that time.
"""

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from counterpoise.pipeline.tables.faults import HistoryFaultError
from counterpoise.pipeline.tables.location import Location
from counterpoise.pipeline.tables.plain_files import read_plain, write_plain

NAME = "control"
STOP_TAKES_MS = 120_000
"""How many milliseconds a balancer may take, after the order to stop, to write its last row."""


class Wish(StrEnum):
    """What the operator wants the balancer to do."""

    GO = "go"
    PAUSE = "pause"
    """Watch and decide, and move nothing."""
    STOP = "stop"
    """Begin no further move, and end."""


@dataclass(frozen=True, slots=True)
class Control:
    """The operator's last order to the balancer, with its time and reason."""

    wish: Wish = Wish.GO
    since_ms: int = 0
    """When it was ordered, milliseconds since 1970."""
    why: str = ""

    def withholds(self, began_ms: int) -> str:
        """Why a balancer that started at `began_ms` may move nothing; empty if it may move."""
        if self.wish is Wish.GO or (self.wish is Wish.STOP and self.since_ms < began_ms):
            return ""
        verb = "paused" if self.wish is Wish.PAUSE else "ordered to stop"
        why = f": {self.why}" if self.why else ""
        since = f" since {datetime.fromtimestamp(self.since_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
        return f"{verb}{since if self.since_ms else ''}{why} (counterpoise control)"

    def in_force(self, seen_ms: int) -> str:
        """The order that forbids moves, as a sentence; empty if none is in force at `seen_ms`.

        `seen_ms` is when the history was last written. If that is more than `STOP_TAKES_MS` after
        the order to stop, the order is over: the balancer that it was for has ended, and another
        one writes.
        """
        over = self.wish is Wish.STOP and seen_ms > self.since_ms + STOP_TAKES_MS
        return "" if over else self.withholds(0)

    def stops(self, began_ms: int) -> bool:
        """Whether a balancer that started at `began_ms` has to end: a stop was ordered since."""
        return self.wish is Wish.STOP and self.since_ms >= began_ms


def read_control(location: Location) -> Control:
    """The operator's last order. An unreadable one counts as a pause, to be safe."""
    try:
        data = read_plain(location, NAME)
        return Control() if data is None else _parsed(data)
    except (HistoryFaultError, ValueError, KeyError, TypeError):
        return Control(
            Wish.PAUSE, why=f"{location.where(NAME)} is unreadable; say resume to replace it"
        )


def write_control(location: Location, control: Control) -> None:
    """Give an order to the balancer; raises `HistoryFaultError`."""
    write_plain(location, NAME, json.dumps(asdict(control)).encode())


def _parsed(data: bytes) -> Control:
    read: dict[str, Any] = json.loads(data)
    return Control(Wish(read["wish"]), int(read["since_ms"]), str(read["why"]))

"""What an operator told the balancer of a history: go on, pause, or stop.

A record of its own in the history (`HISTORY/control`), which the balancer reads before each move,
wherever the two run. A pause outlives the balancer: one that is started again is still paused. A
stop is for the balancer that runs at that time.
"""

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from counterpoise.pipeline.history.store import Store
from counterpoise.pipeline.tables.faults import HistoryFaultError

NAME = "control"
STOP_TAKES_MS = 120_000
"""The longest time from the order to stop until the balancer has written its last row."""


class Wish(StrEnum):
    """What the operator wants."""

    GO = "go"
    PAUSE = "pause"
    """Watch and decide, and move nothing."""
    STOP = "stop"
    """Begin no further move, and end."""


@dataclass(frozen=True, slots=True)
class Control:
    """The last word of the operator."""

    wish: Wish = Wish.GO
    since_ms: int = 0
    """When it was said, milliseconds since 1970."""
    why: str = ""

    def withholds(self, began_ms: int) -> str:
        """Why a balancer that began then may not move anything; empty when it may."""
        if self.wish is Wish.GO or (self.wish is Wish.STOP and self.since_ms < began_ms):
            return ""
        verb = "paused" if self.wish is Wish.PAUSE else "told to stop"
        why = f": {self.why}" if self.why else ""
        since = f" since {datetime.fromtimestamp(self.since_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
        return f"{verb}{since if self.since_ms else ''}{why} (counterpoise control)"

    def in_force(self, seen_ms: int) -> str:
        """What holds moves back, to an observer of a history that was last written at `seen_ms`.

        Empty for a stop that is over: the balancer that was stopped ended within `STOP_TAKES_MS`,
        so what was written later is another's.
        """
        over = self.wish is Wish.STOP and seen_ms > self.since_ms + STOP_TAKES_MS
        return "" if over else self.withholds(0)

    def stops(self, began_ms: int) -> bool:
        """Whether a balancer that began then is to end."""
        return self.wish is Wish.STOP and self.since_ms >= began_ms


def read_control(store: Store) -> Control:
    """The last word; what cannot be read is a pause, as nobody knows what was meant."""
    if not store.exists(NAME):
        return Control()
    try:
        told = store.read(NAME, _parsed)
    except FileNotFoundError:
        return Control()
    except HistoryFaultError:
        return Control(
            Wish.PAUSE, why=f"{store.where(NAME)} is unreadable; say resume to replace it"
        )
    return Control(Wish(told["wish"]), int(told["since_ms"]), str(told["why"]))


def write_control(store: Store, control: Control) -> None:
    """Let the balancer know; raises `HistoryFaultError`."""
    store.write(NAME, json.dumps(asdict(control)).encode())


def _parsed(file: Any) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(file.read())
    Wish(told["wish"]), int(told["since_ms"]), told["why"]
    return told

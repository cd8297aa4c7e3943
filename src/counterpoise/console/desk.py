"""What the parts of one open page share: whose page it is, what is chosen, what to say aloud."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from counterpoise.console.deeds import Deeds
from counterpoise.console.options import ConsoleOptions
from counterpoise.console.roles import Operator
from counterpoise.console.rounds import Rounds
from counterpoise.console.watch import Watch
from counterpoise.picture.scene import Scene
from counterpoise.picture.trades import Trade
from counterpoise.picture.treemap import Area, Tile, What, treemap


@dataclass(frozen=True, slots=True)
class Sources:
    """What all pages share."""

    watch: Watch
    deeds: Deeds
    rounds: Rounds
    trades: Callable[[], Sequence[tuple[str, Sequence[Trade]]]]
    """Backtests by the name of their file."""
    clock_ms: Callable[[], int]

    @property
    def options(self) -> ConsoleOptions:
        """What the console was told."""
        return self.watch.options


@dataclass(eq=False, slots=True)
class Desk:
    """One operator's page."""

    sources: Sources
    operator: Operator
    announce: Callable[[str], None] = lambda sentence: None
    """Says a sentence to whoever listens to a screen reader, and shows it for a moment."""
    what: What | None = None
    key: str = ""
    """The broker or bundle that is chosen."""
    on_choice: list[Callable[[], None]] = field(default_factory=list)

    @property
    def scene(self) -> Scene:
        """What is known now."""
        return self.sources.watch.scene

    def choose(self, what: What | None, key: str = "") -> None:
        """Show this broker or bundle."""
        self.what, self.key = what, key
        for each in self.on_choice:
            each()


@lru_cache(maxsize=8)
def drawn(scene: Scene, area: Area, only: str) -> tuple[Tile, ...]:
    """The tiles of a scene, made once for all pages that show it."""
    return treemap(scene, area, only)

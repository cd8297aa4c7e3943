"""A placement strategy of one's own, whole: any class with these members is one."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from counterpoise.decide.memory import Memoryless, NoMemory
from counterpoise.decide.placement.strategy import Placement
from counterpoise.load.view import ClusterView
from counterpoise.names.options import option


@dataclass(frozen=True, slots=True)
class FirstByNameOptions:
    """One setting."""

    backwards: bool = option(False, conf="backwards", why="the last by name instead")


class FirstByName(Memoryless):
    """The first candidate by name."""

    name = "FirstByName"
    options = FirstByNameOptions

    def place(
        self,
        bundle: str,
        candidates: Sequence[str],
        view: ClusterView,
        memory: NoMemory,
        options: FirstByNameOptions,
        rng: Random | None = None,
    ) -> Placement[NoMemory]:
        chosen = sorted(candidates, reverse=options.backwards)[0]
        return Placement(chosen, (chosen,), "first", f"{chosen} comes first", memory)

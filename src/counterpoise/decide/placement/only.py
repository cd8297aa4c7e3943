"""The placement of a bundle with a given destination: that broker, if it may own the bundle."""

from collections.abc import Sequence
from random import Random
from typing import Any

from counterpoise.decide.memory import Memoryless
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.strategy import Placement, no_candidate
from counterpoise.load.view import ClusterView


class Only(Memoryless):
    """Places a bundle on one given broker or nowhere; `why` is the placement's reason."""

    name = "Only"
    options = PlacementOptions

    def __init__(self, broker: str, why: str) -> None:
        self._broker = broker
        self._why = why

    def place(
        self,
        bundle: str,
        candidates: Sequence[str],
        view: ClusterView,
        memory: Any,
        options: PlacementOptions,
        rng: Random | None = None,
    ) -> Placement[Any]:
        """Choose the given broker if it is a candidate; other strategies' memory is kept."""
        if self._broker not in candidates:
            return no_candidate(memory)
        return Placement(self._broker, (self._broker,), "only", self._why, memory)

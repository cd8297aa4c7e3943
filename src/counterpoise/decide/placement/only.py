"""Places a bundle on a broker that is given beforehand, if filters allow that broker."""

from collections.abc import Sequence
from random import Random
from typing import Any

from counterpoise.decide.memory import Memoryless
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.strategy import Placement, PlacementStrategy, no_candidate
from counterpoise.load.view import ClusterView


class Only(Memoryless):
    """Places a bundle on one given broker if it is a candidate; `why` is the reason.

    Otherwise the strategy `otherwise` places it; without one it is not placed.
    """

    name = "Only"
    options = PlacementOptions

    def __init__(
        self, broker: str, why: str, otherwise: PlacementStrategy[Any, Any] | None = None
    ) -> None:
        self._broker, self._why, self._otherwise = broker, why, otherwise

    def place(
        self,
        bundle: str,
        candidates: Sequence[str],
        view: ClusterView,
        memory: Any,
        options: PlacementOptions,
        rng: Random | None = None,
    ) -> Placement[Any]:
        """Choose the given broker if it is a candidate; `memory` is then returned unchanged."""
        if self._broker not in candidates:
            if self._otherwise is None:
                return no_candidate(memory)
            return self._otherwise.place(bundle, candidates, view, memory, options, rng)
        return Placement(self._broker, (self._broker,), "only", self._why, memory)

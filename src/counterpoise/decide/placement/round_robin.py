"""``RoundRobinBrokerSelector``: chooses brokers in turn, whatever their load."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from counterpoise.decide.memory import Remembering
from counterpoise.decide.placement.options import PlacementOptions
from counterpoise.decide.placement.strategy import Placement, no_candidate
from counterpoise.load.fields import JsonObject
from counterpoise.load.view import ClusterView
from counterpoise.names.options import INT32_MAX


@dataclass(frozen=True, slots=True)
class RotationMemory(JsonObject):
    """Which broker is next in turn: a running count, and the brokers that it indexes."""

    count: int = 0
    order: tuple[str, ...] = ()


class RoundRobinBrokerSelector(Remembering[RotationMemory]):
    """Candidates in turn, in the order they had when their number last changed.

    Parity: ``RoundRobinBrokerSelector`` of 4.0.7. Quirk kept: the remembered order is renewed only
    when the number of candidates differs or its turn falls on one that is no candidate.
    """

    name = "RoundRobinBrokerSelector"
    options = PlacementOptions
    remembers = RotationMemory

    def place(
        self,
        bundle: str,
        candidates: Sequence[str],
        view: ClusterView,
        memory: RotationMemory,
        options: PlacementOptions,
        rng: Random | None = None,
    ) -> Placement[RotationMemory]:
        """Choose the next broker in turn; an empty list of candidates uses no turn."""
        names = tuple(candidates)
        if not names:
            return no_candidate(memory)
        order = memory.order if len(memory.order) == len(names) else names
        index = memory.count % len(names)
        if order[index] not in names:
            order = names
        count = 0 if memory.count == INT32_MAX else memory.count + 1
        chosen = order[index]
        reason = f"it is its turn, number {index + 1} of {len(names)}"
        return Placement(chosen, (chosen,), "in_turn", reason, RotationMemory(count, order))

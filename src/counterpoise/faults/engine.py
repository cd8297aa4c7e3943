"""Decides which of the faults that a test has set strikes an operation."""

import itertools
from dataclasses import dataclass, field, replace
from random import Random

from counterpoise.faults.errors import InvalidFault
from counterpoise.faults.fault import Fault, FaultEffect, Occurrence, Schedule


@dataclass(eq=False, slots=True)
class SetFault:
    """A fault that a test has set, with its number and how many operations it matched and struck.

    It matches an operation that its target includes, and strikes it if its schedule says so.
    """

    number: int
    fault: Fault
    matched: int = 0
    struck: int = 0
    chance: Random = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Start the random generator with the fault's seed."""
        self.chance = Random(self.fault.schedule.seed)

    def reschedule(self, schedule: Schedule) -> None:
        """Use another schedule from now on; the counts are kept."""
        self.fault = replace(self.fault, schedule=schedule)
        self.chance = Random(schedule.seed)

    @property
    def spent(self) -> bool:
        """Whether the fault has struck as often as its schedule allows."""
        times = self.fault.schedule.times
        return times is not None and self.struck >= times

    def on(self, occurrence: Occurrence) -> FaultEffect | None:
        """The fault's effect on an operation, if it strikes it; otherwise None.

        Counts the operation if it matches the fault's target, and if the fault strikes it.
        """
        fault = self.fault
        if (
            self.spent
            or fault.operation is not occurrence.operation
            or not fault.target.matches(occurrence)
        ):
            return None
        self.matched += 1
        schedule = fault.schedule
        if schedule.every is not None and self.matched % schedule.every:
            return None
        if schedule.probability is not None and self.chance.random() >= schedule.probability:
            return None
        self.struck += 1
        return fault.effect


class FaultEngine:
    """All faults that are set. The oldest that strikes an operation takes effect.

    Later ones do not count this operation.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._set: dict[int, SetFault] = {}

    def add(self, fault: Fault) -> SetFault:
        """Set a fault, and return it with its number; faults set earlier take precedence."""
        number = next(self._numbers)
        added = self._set[number] = SetFault(number, fault)
        return added

    def remove(self, number: int) -> None:
        """Remove a fault by its number; does nothing if it is not there."""
        self._set.pop(number, None)

    def clear(self) -> None:
        """Remove all faults."""
        self._set.clear()

    def find(self, number: int) -> SetFault:
        """Return the fault with this number; raises `InvalidFault` if there is none."""
        try:
            return self._set[number]
        except KeyError:
            raise InvalidFault(
                f"there is no fault {number}: it was removed, or never set"
            ) from None

    @property
    def faults(self) -> list[SetFault]:
        """Every fault that is set, in the order in which they were added."""
        return list(self._set.values())

    def on(self, occurrence: Occurrence) -> tuple[SetFault, FaultEffect] | None:
        """Return the first fault that strikes an operation, and its effect; None if none does."""
        for each in self._set.values():
            effect = each.on(occurrence)
            if effect is not None:
                return each, effect
        return None

"""The progress of a rolling restart: one small file of a history, written before each step.

If the process that carries it out ends, the next one continues from there. The history's balancer
makes no round meanwhile, since it would move what the rolling restart is about to move.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from counterpoise.decide.balancing.restarts import RestartStage

NAME = "rolling-restart.json"
SILENT_AFTER_MS = 30_000
"""A process that has written nothing for so many milliseconds no longer carries out the restart."""


@dataclass(frozen=True, slots=True)
class RolledBroker:
    """The progress of one broker in a rolling restart."""

    broker: str
    stage: RestartStage = RestartStage.WAITING
    started_ms: int = 0
    """When the broker's process started before the restart; 0 if that is not known."""


@dataclass(frozen=True, slots=True)
class RollState:
    """A rolling restart, under way or ended; times are milliseconds since 1970."""

    id: str
    began_ms: int
    who: str
    brokers: tuple[RolledBroker, ...]
    """The brokers, in the order in which they are restarted."""
    why: str = ""
    runner: str = ""
    """The name that the process which carries it out gave itself; not a process id."""
    seen_ms: int = 0
    """When the process `runner` wrote this state last."""
    ended_ms: int = 0
    """When it ended; 0 while it is under way."""
    abandoned: bool = False

    @property
    def label(self) -> str:
        """The name under which the rolling restart's moves are recorded."""
        return f"rolling restart {self.id}"

    @property
    def under_way(self) -> bool:
        """Whether brokers are still to be restarted, by a running process or not."""
        return not self.ended_ms

    @property
    def restarted(self) -> tuple[str, ...]:
        """The brokers that have been restarted."""
        return tuple(each.broker for each in self.brokers if each.stage is RestartStage.RESTARTED)

    def with_broker(self, changed: RolledBroker) -> "RollState":
        """A copy with the entry of one broker replaced by `changed`."""
        return replace(
            self,
            brokers=tuple(
                changed if each.broker == changed.broker else each for each in self.brokers
            ),
        )

    def sentence(self) -> str:
        """The progress of the rolling restart in a sentence."""
        done = f"{len(self.restarted)} of {len(self.brokers)} brokers restarted"
        if self.abandoned:
            return f"{self.label} by {self.who} was given up: {done}"
        now = [
            f"{each.broker} is {each.stage.value}"
            for each in self.brokers
            if each.stage in (RestartStage.DRAINING, RestartStage.RESTARTING)
        ]
        state = "is under way" if self.under_way else "has ended"
        return f"{self.label} by {self.who} {state}: {'; '.join([done, *now])}"

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "RollState":
        """Make the state from the JSON object that `dataclasses.asdict` gave."""
        brokers = tuple(
            RolledBroker(**{**each, "stage": RestartStage(each["stage"])})
            for each in value["brokers"]
        )
        return RollState(**{**value, "brokers": brokers})


def new_roll(brokers: tuple[str, ...], now_ms: int, who: str, why: str) -> RollState:
    """Make the state of a rolling restart that begins now, with no broker restarted yet."""
    rolled = tuple(RolledBroker(each) for each in brokers)
    return RollState(uuid.uuid4().hex[:8], now_ms, who, rolled, why)

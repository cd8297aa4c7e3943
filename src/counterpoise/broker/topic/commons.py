"""What all topics of one broker share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from counterpoise.broker.topic.dispatch.turns import Turns
from counterpoise.broker.topic.meter import RateClock
from counterpoise.broker.topic.options import TopicOptions


@dataclass(frozen=True, slots=True)
class Commons:
    """One of each for a broker: its settings, the clock of its rates, its turns of delivery."""

    options: TopicOptions
    clock: RateClock
    turns: Turns
    new_producer_name: Callable[[], str]

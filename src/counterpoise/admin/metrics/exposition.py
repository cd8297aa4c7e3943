"""All figures of a broker, and their text as Prometheus reads it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from counterpoise.admin.metrics import balancing, broker, limits, topics
from counterpoise.admin.metrics.figure import Figure
from counterpoise.admin.metrics.reference import MEANINGS, is_counter
from counterpoise.broker.face import BrokerFace

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

FIGURES_IN_A_TURN = 500
"""How many are looked at before others have their turn: a millisecond or two."""


async def gathered(of: BrokerFace) -> list[Figure]:
    """Everything a broker can tell, most general first.

    The broker goes on serving meanwhile: what belongs together is of one moment.
    """
    found: list[Figure] = []
    looked = 0
    for piece in _pieces(of):
        found += piece
        if len(found) > looked + FIGURES_IN_A_TURN:
            looked = len(found)
            await asyncio.sleep(0)
    return found


def _pieces(of: BrokerFace) -> Iterator[Iterator[Figure]]:
    for part in (broker, balancing, limits):
        yield part.figures(of)
    yield from topics.pieces(of)


def text_of(figures: Iterable[Figure]) -> bytes:
    """The figures in the text format; needs nothing of the broker, so any thread may do it."""
    # First needed when somebody scrapes: a cluster in a test starts without it.
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(_families(figures)))
    return generate_latest(registry)


def content_type() -> str:
    """What `text_of` is, for the header."""
    from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

    return CONTENT_TYPE_PLAIN_0_0_4


class _Collected:
    """What one scrape collected, as a collector."""

    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _families(figures: Iterable[Figure]) -> list[Metric]:
    """The figures by name. Pulsar's are all gauges, its totals too; ours are what they are."""
    from prometheus_client.metrics_core import Metric

    families: dict[str, Metric] = {}
    for figure in figures:
        family = families.get(figure.name)
        if family is None:
            counts = is_counter(figure.name)
            name = figure.name.removesuffix("_total") if counts else figure.name
            told = MEANINGS.get(figure.name, "")
            family = Metric(name, told, "counter" if counts else "gauge")
            families[figure.name] = family
        family.add_sample(figure.name, dict(figure.labels), figure.value)
    return list(families.values())

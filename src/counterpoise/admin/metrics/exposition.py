"""All figures of a broker, and their text as Prometheus reads it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from counterpoise.admin.metrics import balancing, broker, limits, topics
from counterpoise.admin.metrics.figure import Figure
from counterpoise.broker.face import BrokerFace

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_HELP = {
    "counterpoise_background_failures_total": "Failures of a background task, which began again",
    "counterpoise_connection_pauses_total": "How often a client's connection was not read on",
    "counterpoise_connection_received_bytes_total": "Bytes read from clients",
    "counterpoise_connection_sent_bytes_total": "Bytes written to clients",
    "counterpoise_connections_paused": "Clients' connections that are not read from now",
    "counterpoise_dispatch_limit_waited_seconds_total": "For how long somebody waited at a limit",
    "counterpoise_dispatch_limit_waiting_subscriptions": "Subscriptions that wait at a limit now",
    "counterpoise_dispatch_limit_waits_total": "How often somebody began to wait at a limit",
    "counterpoise_leader": "1 on the broker that leads the cluster",
    "counterpoise_owned_bundles": "Bundles that the broker serves",
    "counterpoise_ownership_repairs_total": "Bundles of dead brokers that the leader gave away",
    "counterpoise_publish_limit_held_bytes": "Bytes that wait for a publish limit",
    "counterpoise_publish_limit_held_entries": "Entries that wait for a publish limit",
    "counterpoise_publish_limit_waited_seconds_total": "For how long somebody waited at a limit",
    "counterpoise_publish_limit_waiting_producers": "Producers that wait at a publish limit now",
    "counterpoise_publish_limit_waits_total": "How often somebody began to wait at a limit",
    "counterpoise_storage_lost_entries": "Entries that storage has lost",
}


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
            counts = figure.name.startswith("counterpoise_") and figure.name.endswith("_total")
            name = figure.name.removesuffix("_total") if counts else figure.name
            told = _HELP.get(figure.name) or _told_of_pulsars(figure.name)
            family = Metric(name, told, "counter" if counts else "gauge")
            families[figure.name] = family
        family.add_sample(figure.name, dict(figure.labels), figure.value)
    return list(families.values())


def _told_of_pulsars(name: str) -> str:
    return "" if name.startswith("counterpoise_") else f"{name} of Apache Pulsar"

"""What each series of `/metrics` means, for its HELP line and for the documentation.

The texts are in ``reference.tsv``. A test compares it with what brokers serve: every series is
listed with its labels, and no series that no broker serves.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Final


@dataclass(frozen=True, slots=True)
class MetricGroup:
    """The metrics of one subject, which all have the same labels, with their meanings."""

    title: str
    labels: tuple[str, ...]
    meanings: Mapping[str, str]
    when: str = ""
    """The condition under which a broker has these metrics; empty: always."""


def _groups() -> tuple[MetricGroup, ...]:
    text = files("counterpoise.admin.metrics").joinpath("reference.tsv").read_text("utf-8")
    found = []
    for block in text.split("\n\n")[1:]:
        head, *lines = block.splitlines()
        title, labels, when = (*head.split("\t"), "")[:3]
        meanings = dict(line.split("\t") for line in lines)
        found.append(MetricGroup(title, tuple(labels.split()), meanings, when))
    return tuple(found)


GROUPS: Final = _groups()
MEANINGS: Final = {name: meaning for group in GROUPS for name, meaning in group.meanings.items()}
"""The meaning of each metric, by its name."""


def is_counter(name: str) -> bool:
    """Whether a metric never decreases. Pulsar exposes all metrics as gauges, counters too."""
    return name.startswith("counterpoise_") and name.endswith("_total")

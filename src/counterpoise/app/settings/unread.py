"""Options for Pulsar's settings of balancing and rates that no package here reads.

They are declared so that their values are checked, and so that their lack of effect is explained.
"""

from dataclasses import make_dataclass
from importlib.resources import files
from typing import Any

from counterpoise.names.options import option


def _field(line: str) -> tuple[str, type, Any]:
    """Make a field of `UnreadOptions` from a line of ``unread_settings.tsv``."""
    name, text, unit, low, high, choices, traits, why = line.split("\t")
    default = int(text) if text.lstrip("-").isdigit() else text
    declared = option(
        default,
        name,
        unit,
        why=why,
        low=int(low) if low else None,
        high=int(high) if high else None,
        choices=tuple(choices.split()),
        dynamic="dynamic" in traits,
        deprecated="deprecated" in traits,
    )
    return name, type(default), declared


_LINES = files("counterpoise.app.settings").joinpath("unread_settings.tsv").read_text("utf-8")

UnreadOptions: type = make_dataclass(
    "UnreadOptions",
    [_field(line) for line in _LINES.splitlines() if not line.startswith("#")],
    frozen=True,
    slots=True,
)
"""Load balancing settings and limits of Pulsar 4.0.7 that have no effect here."""

"""Whether a broker has restarted and serves, for a rolling restart."""

import re
from dataclasses import dataclass
from typing import Final

from counterpoise.pipeline.collect.admin import UNREADABLE, Admin
from counterpoise.pipeline.collect.identity import version_of
from counterpoise.pipeline.collect.serving import lookup_fault
from counterpoise.pipeline.collect.words import error_text

_STARTED: Final = re.compile(rb"^process_start_time_seconds(?:\{[^}\n]*\})?\s+(\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class BrokerHealth:
    """The health of one broker, as it reports it."""

    started_ms: int = 0
    """When its process started, in milliseconds since 1970; 0 if its metrics do not have that."""
    version: str = ""
    trouble: str = ""
    """Why it cannot be given bundles; empty if it can."""

    @property
    def answers(self) -> bool:
        """Whether the broker responded at all."""
        return bool(self.started_ms or self.version)


async def health_of(admin: Admin, address: str, broker: str, in_use: str) -> BrokerHealth:
    """Ask a broker for its start time, version and lookups; never raises for its responses.

    ``in_use`` is a topic name in a loaded bundle, empty if none is known.
    """
    try:
        found = _STARTED.search(await admin.get(f"{address}/metrics/", of_itself=True))
        started_ms = round(float(found[1]) * 1000) if found else 0
    except (*UNREADABLE, ValueError, OverflowError) as error:
        return BrokerHealth(trouble=f"{broker} does not answer: {error_text(error)}")
    version = await version_of(admin, address)
    trouble = ""
    if not version:
        trouble = f"{broker} does not say its version"
    elif fault := await lookup_fault(admin, address, broker, in_use):
        trouble = f"{broker}: {fault}"
    return BrokerHealth(started_ms, version, trouble)

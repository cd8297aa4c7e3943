"""Which load manager a broker runs, its version, and how often it measures."""

from dataclasses import dataclass

import orjson

from counterpoise.names.load_managers import EXTENSIBLE, is_extensible
from counterpoise.pipeline.collect.admin import UNREADABLE, Admin, RefusedError

UNSUPPORTED = "UnsupportedOperationException"
"""The exception in the extensible manager's response to a request for its load report."""
STATS_EVERY_S = 60
"""`statsUpdateFrequencyInSecs` if the broker does not report it: Pulsar's default."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A broker's load manager, version, and interval between measurements of rates."""

    load_manager: str
    stats_every_ms: int = STATS_EVERY_S * 1000
    """Milliseconds between measurements of rates; until the next one, reports are the same."""
    version: str = ""

    @property
    def extensible(self) -> bool:
        """Whether the broker runs the extensible load manager, which has no load report."""
        return is_extensible(self.load_manager)


async def identify(admin: Admin, address: str) -> Identity:
    """Read a broker's runtime configuration; if that is refused, infer it from its responses.

    Raises one of `UNREADABLE` if the broker cannot be asked at all.
    """
    try:
        settings = orjson.loads(
            await admin.get(f"{address}/admin/v2/brokers/configuration/runtime", of_itself=True)
        )
        manager = str(settings["loadManagerClassName"])
        every = int(float(settings.get("statsUpdateFrequencyInSecs", STATS_EVERY_S)) * 1000)
    except (RefusedError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return await _by_trying(admin, address)
    version = ""
    if is_extensible(manager):
        version = await version_of(admin, address)
    return Identity(manager, every, version)


async def _by_trying(admin: Admin, address: str) -> Identity:
    try:
        await admin.get(f"{address}/admin/v2/broker-stats/load-report", of_itself=True)
    except RefusedError as error:
        if UNSUPPORTED in error.body:
            return Identity(EXTENSIBLE, version=await version_of(admin, address))
        raise
    return Identity("")


async def version_of(admin: Admin, address: str) -> str:
    """A broker's version; empty if it does not report one."""
    try:
        return (
            (await admin.get(f"{address}/admin/v2/brokers/version", of_itself=True))
            .decode()
            .strip(' "\n')
        )
    except (*UNREADABLE, UnicodeDecodeError):
        return ""

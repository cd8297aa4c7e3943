"""Records as the tests of this folder write them."""

from counterpoise.names.bundle import BundleName
from counterpoise.ownership.channel.data import ServiceUnitState, ServiceUnitStateData

A, B, C = "a:8080", "b:8080", "c:8080"
BUNDLE = BundleName.parse("public/default/0x00000000_0x80000000")


def record(
    state: ServiceUnitState,
    to: str | None = None,
    by: str | None = None,
    version: int = 1,
    *,
    force: bool = False,
    at_ms: int = 0,
) -> ServiceUnitStateData:
    return ServiceUnitStateData(state, to, by, force=force, timestamp_ms=at_ms, version=version)

"""Whether the cluster sheds load itself: two balancers would undo each other's moves."""

from collections.abc import Iterable, Mapping

from counterpoise.pipeline.collect.admin import Admin, RefusedError
from counterpoise.pipeline.collect.settings import settings_of_any

TURN_OFF = "pulsar-admin brokers update-dynamic-config --config {name} --value false"


async def sheds_by_itself(admin: Admin, addresses: Iterable[str]) -> str:
    """A sentence that says so, and what to do; empty if it does not, or no broker responds."""
    try:
        settings = (await settings_of_any(admin, addresses)).values
    except RefusedError:
        return ""
    if not sheds(settings):
        return ""
    turn_off = TURN_OFF.format(name="loadBalancerSheddingEnabled")
    return (
        "the cluster sheds load by itself, and two who move bundles would undo each other's "
        f"work: nothing is moved until its own shedding is off ({turn_off})"
    )


def sheds(settings: Mapping[str, str]) -> bool:
    """Whether these settings let a leader move bundles."""
    names = ("loadBalancerEnabled", "loadBalancerSheddingEnabled")
    return all(settings.get(name, "true").lower() == "true" for name in names)

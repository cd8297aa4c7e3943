"""Whether the cluster sheds load by itself: two who move bundles would undo each other's work."""

from collections.abc import Iterable
from typing import Any

import orjson

from counterpoise.pipeline.collect.admin import UNREADABLE, Admin

TURN_OFF = "pulsar-admin brokers update-dynamic-config --config {name} --value false"


async def sheds_by_itself(admin: Admin, addresses: Iterable[str]) -> str:
    """A sentence that says so, and what to do; empty when it does not, or nobody tells."""
    for address in addresses:
        try:
            settings = await settings_of(admin, address)
        except (*UNREADABLE, UnicodeDecodeError, orjson.JSONDecodeError):
            continue
        if not isinstance(settings, dict):
            return ""
        for name in ("loadBalancerEnabled", "loadBalancerSheddingEnabled"):
            if str(settings.get(name, "true")).lower() != "true":
                return ""
        turn_off = TURN_OFF.format(name="loadBalancerSheddingEnabled")
        return (
            "the cluster sheds load by itself, and two who move bundles would undo each other's "
            f"work: nothing is moved until its own shedding is off ({turn_off})"
        )
    return ""


async def settings_of(admin: Admin, address: str) -> Any:
    """The settings as they were read, with those that were changed since."""
    base = f"{address}/admin/v2/brokers/configuration"
    settings = orjson.loads(await admin.get(f"{base}/runtime"))
    changed = orjson.loads(await admin.get(f"{base}/values"))
    return {**settings, **changed}

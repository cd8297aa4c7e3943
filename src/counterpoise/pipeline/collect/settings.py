"""Facts that a cluster reports: its settings, whether it sheds load, its name and its leader."""

from collections.abc import Iterable, Mapping
from urllib.parse import quote

import orjson

from counterpoise.names.properties import Properties
from counterpoise.pipeline.collect.admin import NOT_FOUND, UNREADABLE, Admin, RefusedError
from counterpoise.pipeline.collect.words import error_text

TURN_OFF = "pulsar-admin brokers update-dynamic-config --config {name} --value false"


async def settings_of(admin: Admin, address: str) -> Properties:
    """A broker's runtime configuration, including dynamic changes.

    Raises one of `UNREADABLE`, also for a response without settings.
    """
    base = f"{address.rstrip('/')}/admin/v2/brokers/configuration"
    values: dict[str, str] = {}
    for path in ("runtime", "values"):
        try:
            answer = orjson.loads(await admin.get(f"{base}/{path}"))
            found = {str(k): str(v) for k, v in answer.items() if v is not None}
        except (ValueError, AttributeError) as error:
            raise RefusedError(f"its settings cannot be read: {error}") from None
        values |= found
    return Properties(values)


async def settings_of_any(admin: Admin, addresses: Iterable[str]) -> Properties:
    """The settings of the first of these brokers that returns them; raises `RefusedError`."""
    refused = []
    for address in addresses:
        try:
            return await settings_of(admin, address)
        except UNREADABLE as error:
            refused.append(f"{address}: {error_text(error)}")
    raise RefusedError(f"the cluster does not give its settings: {'; '.join(refused)}")


async def cluster_of(admin: Admin, address: str, broker: str) -> str:
    """The name of the cluster that a broker belongs to; raises one of `UNREADABLE`."""
    base = f"{address}/admin/v2"
    names = [str(name) for name in await _listed(admin, f"{base}/clusters") if name != "global"]
    if len(names) == 1:
        return names[0]
    refused = ""
    for name in names:
        try:
            if broker in await _listed(admin, f"{base}/brokers/{quote(name)}"):
                return name
        except UNREADABLE as error:
            # The name may be that of another cluster, which need not be reachable from here.
            refused = f" ({name}: {error_text(error)})"
    raise RefusedError(f"{broker} does not say of which cluster it is{refused}")


async def _listed(admin: Admin, url: str) -> list[object]:
    try:
        return list(orjson.loads(await admin.get(url)) or ())
    except (ValueError, TypeError) as error:
        raise RefusedError(f"{url}: {error}") from None


async def leader_by(admin: Admin, address: str) -> str:
    """The id of the leader according to a broker, empty for none; raises one of `UNREADABLE`."""
    try:
        found = orjson.loads(await admin.get(f"{address}/admin/v2/brokers/leaderBroker"))
        named = str(found.get("brokerId") or found.get("serviceUrl") or "")
    except (ValueError, AttributeError) as error:
        raise RefusedError(str(error)) from None
    except RefusedError as error:
        if error.status == NOT_FOUND:
            return ""
        raise
    return named.partition("://")[2] or named


async def sheds_by_itself(admin: Admin, addresses: Iterable[str]) -> str:
    """Whether the cluster's own leader sheds load: a sentence that says so and how to turn it off.

    Empty if it does not, or if no broker responds.
    """
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
    """Whether these broker settings let Pulsar's leader move bundles."""
    names = ("loadBalancerEnabled", "loadBalancerSheddingEnabled")
    return all(settings.get(name, "true").lower() == "true" for name in names)

"""A cluster's settings and its name."""

from collections.abc import Iterable
from urllib.parse import quote

import orjson

from counterpoise.names.properties import Properties
from counterpoise.pipeline.collect.admin import UNREADABLE, Admin, RefusedError
from counterpoise.pipeline.collect.words import said


async def settings_of(admin: Admin, address: str) -> Properties:
    """A broker's settings at its start, with dynamic changes.

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
            refused.append(f"{address}: {said(error)}")
    raise RefusedError(f"the cluster does not give its settings: {'; '.join(refused)}")


async def cluster_of(admin: Admin, address: str, broker: str) -> str:
    """The name of a broker's cluster; raises one of `UNREADABLE`."""
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
            # Another cluster, perhaps, which need not be within reach.
            refused = f" ({name}: {said(error)})"
    raise RefusedError(f"{broker} does not say of which cluster it is{refused}")


async def _listed(admin: Admin, url: str) -> list[object]:
    try:
        return list(orjson.loads(await admin.get(url)) or ())
    except (ValueError, TypeError) as error:
        raise RefusedError(f"{url}: {error}") from None

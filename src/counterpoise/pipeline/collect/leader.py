"""The leader of a cluster, as one of its brokers names it."""

import orjson

from counterpoise.pipeline.collect.admin import NOT_FOUND, Admin, RefusedError


async def leader_by(admin: Admin, address: str) -> str:
    """The leader that a broker names, empty for none; raises one of `UNREADABLE`."""
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

"""Checks whether a broker serves lookups, which it may not do although it answers other requests.

A broker of Apache Pulsar whose metadata thread is blocked responds to all requests that need no
read of its metadata store, such as the one for its load report, and serves no lookup until it is
restarted. A broker of the extensible load manager whose bundle state channel has not started serves
lookups for its own namespaces only.
"""

from contextlib import suppress
from http import HTTPStatus
from secrets import token_hex
from typing import Final

from counterpoise.pipeline.collect.admin import UNREADABLE, Admin
from counterpoise.pipeline.collect.where import lookup_url

SERVES_NO_LOOKUPS: Final = (
    "it serves no lookups: it reads nothing from its metadata store until it is restarted"
)
CHANNEL_NOT_STARTED: Final = (
    "it serves no lookups: its bundle state channel (loadbalancer-service-unit-state) has not "
    "started; if that lasts for minutes, restart it"
)
PROBE: Final = "counterpoise-asks-"
"""The prefix of names of topics that are looked up and never created."""
_NOT_STARTED: Final = b"Invalid channel state"
"""The error of a broker whose channel has not started
(`ServiceUnitStateChannelImpl.getOwnerAsync`)."""


async def lookup_fault(admin: Admin, address: str, broker: str, in_use: str = "") -> str:
    """Why a broker answers no lookups within the time-out of `admin`; empty if it does.

    A topic that does not exist is looked up in the broker's own heartbeat namespace, which creates
    and assigns nothing. `in_use`, a topic name in a loaded bundle, also tests the bundle state
    channel.
    """
    topic = f"persistent/pulsar/{broker}/{PROBE}{token_hex(8)}"
    try:
        await admin.ask(f"{address}/lookup/v2/topic/{topic}")
    except TimeoutError:
        return SERVES_NO_LOOKUPS
    except UNREADABLE:
        return ""  # the request for the broker's report fails as well, and has the reason
    return await channel_fault(admin, address, in_use) if in_use else ""


async def channel_fault(admin: Admin, address: str, in_use: str) -> str:
    """Return `CHANNEL_NOT_STARTED` if the broker's response to a lookup has that error; otherwise
    empty.

    ``in_use`` is a topic name in a bundle with load.
    """
    with suppress(*UNREADABLE):  # a bundle that is just being moved keeps a lookup waiting
        reply = await admin.ask(lookup_url(address, in_use))
        if reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR and _NOT_STARTED in reply.body:
            return CHANNEL_NOT_STARTED
    return ""

"""Whether a broker serves lookups: one that answers can have lost its metadata thread.

A broker of Apache Pulsar whose metadata thread is blocked answers whatever needs no read of its
metadata store, its load report among it, and serves no lookup until it is restarted.
"""

from secrets import token_hex
from typing import Final

from counterpoise.pipeline.collect.admin import UNREADABLE, Admin

SERVES_NO_LOOKUPS: Final = (
    "it answers, and serves no lookups: it reads nothing from its metadata store until it is "
    "restarted"
)
PROBE: Final = "counterpoise-asks-"
"""How the name of a topic begins that is looked up and is never created."""


async def serves_lookups(admin: Admin, address: str, broker: str) -> bool:
    """Whether a broker answers a lookup, whatever it says, within the time of `admin`.

    The topic is one that no broker has heard of, so no cache answers, in the broker's own heartbeat
    namespace, which no other broker can have: nothing is created and nothing is assigned.
    """
    topic = f"persistent/pulsar/{broker}/{PROBE}{token_hex(8)}"
    try:
        await admin.ask(f"{address}/lookup/v2/topic/{topic}")
    except TimeoutError:
        return False
    except UNREADABLE:
        return True  # it is the report that says why the broker cannot be read
    return True

"""The routes of the admin API as tests ask them: which there are, and names for their holes."""

import re
from collections.abc import Callable

SHUTDOWN = "/admin/v2/brokers/shutdown"
"""The one route that is not asked at random: it ends the broker, as it should."""
NAMES = {
    "topic": "t",
    "domain": "persistent",
    "kind": "topic",
    "bundle": "0x00000000_0xffffffff",
    "cluster": "standalone",
    "messagePosition": "1",
    "ledgerId": "1",
    "entryId": "1",
    "timestamp": "1",
    "expireTimeInSeconds": "1",
    "count": "1",
    "version": "1",
    "coordinatorId": "0",
    "mostSigBits": "0",
    "leastSigBits": "0",
    "timeout": "1",
}
"""What most holes are filled with, tenant and namespace apart; any other word is of its kind."""
_HOLE = re.compile(r"\{(\w+)\}")


def holes(template: str) -> list[str]:
    """The names of a template's parameters."""
    return _HOLE.findall(template)


def filled(template: str, name_of: Callable[[str], str]) -> str:
    """The path, each parameter by its name."""
    return _HOLE.sub(lambda found: name_of(found[1]), template)

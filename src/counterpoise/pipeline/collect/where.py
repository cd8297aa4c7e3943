"""The admin address of a broker from its id, ``host:port``."""

import re
from collections.abc import Callable, Sequence
from urllib.parse import quote

_BROKER = re.compile(r"[^\s/@?#\\]+:[0-9]{1,5}")


AddressOf = Callable[[str], str]
"""Returns the URL of a broker's admin API for the broker's id."""


def web_address(broker: str, addresses: Sequence[str]) -> str:
    """The admin URL of a broker by its id, with ``http`` or ``https`` as in the cluster's
    ``addresses``.

    A broker's id has its plain port, or its TLS port if it has no other. If ``addresses`` use TLS
    and none has the port of the id, the port of the first address is used.
    """
    scheme, _, there = addresses[0].rstrip("/").partition("://")
    if scheme == "https":
        ports = [each.rstrip("/").rpartition(":")[2] for each in addresses]
        host, _, port = broker.rpartition(":")
        if port not in ports:
            known = there.rpartition(":")[2]
            return f"https://{host}:{known if known.isdecimal() else 443}"
    return f"{scheme}://{broker}"


def is_broker(name: str) -> bool:
    """Whether a listed name can be a broker's, `host:port`."""
    return _BROKER.fullmatch(name) is not None


def lookup_url(address: str, topic: str) -> str:
    """The URL of a topic's lookup at the admin API with this address."""
    return f"{address}/lookup/v2/topic/{quote(topic.replace('://', '/', 1))}"

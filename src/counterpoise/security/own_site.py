"""Distinguishes requests of this server's own pages from those of pages of other sites.

A page cannot choose its ``Origin`` (or ``Sec-Fetch-Site``). If a foreign name was made to resolve
to this machine (DNS rebinding), ``Host`` still has that name.
"""

from ipaddress import ip_address
from urllib.parse import urlsplit

FOREIGN_SITES = frozenset({"cross-site", "same-site"})
"""The values of ``Sec-Fetch-Site`` in requests that a page of another origin caused."""


def host_of(header: str) -> str:
    """The host in an HTTP ``Host`` header, without its port, in lower case."""
    host = header.strip().lower().rstrip(".")
    if host.startswith("["):
        return host.partition("]")[0].removeprefix("[")
    return host.rpartition(":")[0] if host.count(":") == 1 else host


def is_local_name(host: str) -> bool:
    """Whether a host is an IP address or ends in ``.localhost``.

    No foreign name server can have chosen it, as in DNS rebinding.
    """
    if host.endswith(".localhost"):
        return True
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def same_origin(origin: str, host: str) -> bool:
    """Whether an HTTP request's ``Origin`` header names the same host and port as its ``Host``."""
    try:
        return urlsplit(origin).netloc.lower() == host.strip().lower() != ""
    except ValueError:
        return False

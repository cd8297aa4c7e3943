"""The limit on open files and connections of a broker."""

import contextlib
import resource
from dataclasses import replace
from typing import Final

from counterpoise.broker.config import BrokerConfig

FOR_FILES: Final = 768
"""Kept from connections: ledgers are opened as they are needed, also while clients flood in."""


def raised_limit() -> int:
    """Raise this process's limit of file descriptors to the hard limit; returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return soft if soft != resource.RLIM_INFINITY else 1 << 20


def within(config: BrokerConfig, descriptors: int) -> BrokerConfig:
    """The settings with connection limits that fit this number of file descriptors.

    A broker without a free descriptor serves no clients, not even connected ones.
    """
    left = max(descriptors - FOR_FILES, descriptors // 2)
    web = min(config.http_connections_max or left, left // 4)
    clients = min(config.connection.connections_max or left, left - web)
    return replace(
        config,
        http_connections_max=web,
        connection=replace(config.connection, connections_max=clients),
    )

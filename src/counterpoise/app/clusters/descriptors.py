"""Fits a broker's limits on connections to the process's limit on file descriptors."""

import contextlib
import resource
from dataclasses import replace
from typing import Final

from counterpoise.broker.config import BrokerConfig

FOR_FILES: Final = 768
"""File descriptors that connections leave free, for the files of ledgers.

They are opened on demand, also while many clients connect."""


def raised_limit() -> int:
    """Raise this process's limit on file descriptors to the hard limit; return the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return soft if soft != resource.RLIM_INFINITY else 1 << 20


def within(config: BrokerConfig, descriptors: int) -> BrokerConfig:
    """Return the settings with limits on connections that fit a limit of file descriptors.

    `FOR_FILES` of them, or half of all if that is less, stay free for files: a broker without a
    free descriptor serves no clients, not even connected ones.
    """
    left = max(descriptors - FOR_FILES, descriptors // 2)
    web = min(config.http_connections_max or left, left // 4)
    clients = min(config.connection.connections_max or left, left - web)
    return replace(
        config,
        http_connections_max=web,
        connection=replace(config.connection, connections_max=clients),
    )

"""The ports that a broker listens on, and the addresses it gives for them."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from counterpoise.broker.config import BrokerConfig
from counterpoise.names.broker import BrokerId
from counterpoise.names.options import ConfigError
from counterpoise.security.tls import TlsDoor


@dataclass(frozen=True, slots=True)
class Door:
    """A bound socket, and the TLS that is spoken there."""

    socket: socket.socket
    tls: ssl.SSLContext | None

    @property
    def port(self) -> int:
        """The port it is bound to."""
        port: int = self.socket.getsockname()[1]
        return port


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where others reach a broker; None where it does not listen."""

    broker_id: str
    """``host:webPort``, the TLS port where there is no plain one."""
    service_url: str | None = None
    """``pulsar://host:port``."""
    service_url_tls: str | None = None
    """``pulsar+ssl://host:port``."""
    web_url: str | None = None
    """``http://host:port``."""
    web_url_tls: str | None = None
    """``https://host:port``."""


@dataclass(frozen=True, slots=True)
class Doors:
    """Every port of a broker: of the binary protocol and of the admin API, each plain and TLS."""

    service: tuple[Door, ...]
    web: tuple[Door, ...]

    def addresses(self, host: str) -> Addresses:
        """The addresses under which ``host`` is reached."""
        service, service_tls = _ports(self.service)
        web, web_tls = _ports(self.web)
        return Addresses(
            str(BrokerId(host, web or web_tls or 0)),
            _url("pulsar", host, service),
            _url("pulsar+ssl", host, service_tls),
            _url("http", host, web),
            _url("https", host, web_tls),
        )


def _ports(doors: tuple[Door, ...]) -> tuple[int | None, int | None]:
    """The plain port and the one for TLS."""
    found = {door.tls is not None: door.port for door in doors}
    return found.get(False), found.get(True)


def _url(scheme: str, host: str, port: int | None) -> str | None:
    return None if port is None else f"{scheme}://{host}:{port}"


def open_doors(config: BrokerConfig, stack: contextlib.ExitStack) -> Doors:
    """Bind every port that the settings name; ``stack`` closes them again.

    Raises `ConfigError` for settings that do not go together or certificates that cannot be used,
    and OSError for a port that is taken.
    """
    tls = config.tls
    service_tls = partial(TlsDoor, tls, protocols=tls.protocols, ciphers=tls.ciphers)
    web_tls = partial(
        TlsDoor,
        tls,
        protocols=tls.web_protocols or tls.protocols,
        ciphers=tls.web_ciphers or tls.ciphers,
    )

    def door(port: int | None, make: Callable[[], TlsDoor] | None = None) -> tuple[Door, ...]:
        if port is None:
            return ()
        context = make().context if make is not None else None
        return (Door(stack.enter_context(_bind(config.bind_address, port)), context),)

    doors = Doors(
        door(config.broker_service_port) + door(config.broker_service_port_tls, service_tls),
        door(config.web_service_port) + door(config.web_service_port_tls, web_tls),
    )
    if not doors.service:
        raise ConfigError("brokerServicePort", "is blank, and so is brokerServicePortTls: set one")
    if not doors.web:
        raise ConfigError("webServicePort", "is blank, and so is webServicePortTls: set one")
    return doors


def _bind(address: str, port: int) -> socket.socket:
    made = socket.create_server((address, port))
    # What is accepted inherits it. Not every event loop does so itself, and a receipt that
    # waits for a client's acknowledgement of the one before takes 40 ms.
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made

"""The sockets that a broker listens on, and the addresses that it advertises for them."""

import contextlib
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from counterpoise.broker.base.addresses import Addresses
from counterpoise.broker.base.advertised import BindAddress, bind_addresses_of, listeners_of, url_of
from counterpoise.broker.config import BrokerConfig
from counterpoise.names.errors import InvalidName
from counterpoise.names.options import ConfigError
from counterpoise.security.tls import TlsPort


@dataclass(frozen=True, slots=True)
class ServerSocket:
    """A bound socket, and its TLS if any."""

    socket: socket.socket
    tls: ssl.SSLContext | None
    listener: str = ""
    """The one of ``advertisedListeners`` whose addresses its clients get; blank: the default."""

    @property
    def port(self) -> int:
        """The port it is bound to."""
        port: int = self.socket.getsockname()[1]
        return port


@dataclass(frozen=True, slots=True)
class ServerSockets:
    """All listening sockets of a broker: of the binary protocol and of the admin API."""

    service: tuple[ServerSocket, ...]
    web: tuple[ServerSocket, ...]

    def addresses(self, config: BrokerConfig) -> Addresses:
        """Return what the broker advertises: advertisedListeners, or else its host and ports."""
        host = config.advertised_address
        web, web_tls = _ports(self.web)
        listeners = listeners_of(config.advertised_listeners, config.internal_listener_name)
        service, service_tls = url_of(listeners, "pulsar"), url_of(listeners, "pulsar+ssl")
        if service is None and service_tls is None:
            port, port_tls = _ports(self.service)
            service, service_tls = _url("pulsar", host, port), _url("pulsar+ssl", host, port_tls)
        return Addresses(
            _broker_id(host, web or web_tls or 0),
            service,
            service_tls,
            _url("http", host, web),
            _url("https", host, web_tls),
            listeners,
        )


def _broker_id(host: str, port: int) -> str:
    """Return the id under which a broker registers: its host and its web port."""
    name = f"{host}:{port}"
    if not host or "/" in host:
        raise InvalidName(name, "expected host:port, the host must not be empty")
    return name


def _ports(sockets: tuple[ServerSocket, ...]) -> tuple[int | None, int | None]:
    """Return the plain and the TLS port, without sockets of a named listener; None: no port."""
    found = {each.tls is not None: each.port for each in sockets if not each.listener}
    return found.get(False), found.get(True)


def _url(scheme: str, host: str, port: int | None) -> str | None:
    return None if port is None else f"{scheme}://{host}:{port}"


def open_server_sockets(config: BrokerConfig, stack: contextlib.ExitStack) -> ServerSockets:
    """Bind every port that the settings name; ``stack`` closes the sockets.

    Raises `ConfigError` for contradictory settings or certificates that cannot be used, and OSError
    for a port that is taken.
    """
    tls = config.tls
    service_tls = partial(TlsPort, tls, protocols=tls.protocols, ciphers=tls.ciphers)
    web_tls = partial(
        TlsPort,
        tls,
        protocols=tls.web_protocols or tls.protocols,
        ciphers=tls.web_ciphers or tls.ciphers,
    )

    def of_port(
        port: int | None, make: Callable[[], TlsPort] | None = None
    ) -> tuple[ServerSocket, ...]:
        if port is None:
            return ()
        context = make().context if make is not None else None
        return (ServerSocket(stack.enter_context(_bind(config.bind_address, port)), context),)

    def further(each: BindAddress) -> ServerSocket:
        context = (web_tls if each.web else service_tls)().context if each.tls else None
        bound = _bind(each.host.strip("[]"), each.port)
        return ServerSocket(stack.enter_context(bound), context, each.listener)

    bound = bind_addresses_of(config.bind_addresses)
    sockets = ServerSockets(
        of_port(config.broker_service_port) + of_port(config.broker_service_port_tls, service_tls),
        of_port(config.web_service_port) + of_port(config.web_service_port_tls, web_tls),
    )
    listeners = listeners_of(config.advertised_listeners, config.internal_listener_name)
    if strange := {each.listener for each in bound} - listeners.keys():
        raise ConfigError(
            "bindAddresses", f"{', '.join(sorted(strange))} is not among advertisedListeners"
        )
    if not sockets.service and not any(not each.web for each in bound):
        raise ConfigError("brokerServicePort", "is blank, and so is brokerServicePortTls: set one")
    if not sockets.web:
        raise ConfigError("webServicePort", "is blank, and so is webServicePortTls: set one")
    return ServerSockets(
        sockets.service + tuple(further(each) for each in bound if not each.web),
        sockets.web + tuple(further(each) for each in bound if each.web),
    )


def _bind(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    made = socket.create_server((address, port), family=family)
    # Accepted connections inherit the option, which not every event loop sets. Without it, a
    # receipt may wait 40 ms for the client's TCP acknowledgement of the one before.
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made
